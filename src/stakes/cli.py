"""The command line; its words are in `commands.decision_line` and `commands.run_line`, and light."""

import sys
import warnings
from typing import Annotated, Literal, TextIO

from cyclopts import App, CycloptsError, Parameter

from stakes import __version__
from stakes.commands.arguments import examples
from stakes.commands.decision_line import decisions
from stakes.commands.run_line import runs
from stakes.exit_codes import complain, exit_code_of

__all__ = ["app", "main"]

app = App(
    name="stakes",
    version=__version__,
    help="Forecasts that know what is at stake: decision-aware training of sample-based generative models.",
)
app.update(decisions)
app.update(runs)


@app.command(
    help="Print what makes the shell complete the words of `stakes`.",
    help_epilogue=examples(
        "stakes completion bash > ~/.local/share/bash-completion/completions/stakes",
        "stakes completion fish > ~/.config/fish/completions/stakes.fish",
    ),
)
def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="bash, zsh or fish")] = "bash", /
) -> None:
    sys.stdout.write(app.generate_completion(shell=shell))


def main(arguments: list[str] | None = None) -> int:
    """Run a command; what goes wrong is one line on standard error. Returns the exit code."""
    with warnings.catch_warnings():
        warnings.showwarning = _note
        return _called(arguments)


def _called(arguments: list[str] | None) -> int:
    try:
        return exit_code_of(
            lambda: app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
        )
    except CycloptsError as error:
        return complain(str(error), 2)
    except SystemExit as ending:  # --help and --version
        return int(ending.code or 0)


def _note(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """A warning as one line, as all else that a command tells beside its result."""
    sys.stderr.write(f"note: {' '.join(str(message).split())}\n")


if __name__ == "__main__":
    sys.exit(main())
