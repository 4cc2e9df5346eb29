"""`stakes completion`: what makes a shell complete the words of `stakes`."""

import sys
from typing import Annotated, Literal

from cyclopts import App, Parameter

from stakes.commands import flags as flag

__all__ = ["app"]

app = App(
    name="completion",
    help_epilogue=flag.examples(
        "stakes completion bash > ~/.local/share/bash-completion/completions/stakes",
        "stakes completion fish > ~/.config/fish/completions/stakes.fish",
    ),
)


@app.default
def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="bash, zsh or fish")] = "bash", /
) -> None:
    from stakes.cli import app as stakes

    sys.stdout.write(stakes.generate_completion(shell=shell))
