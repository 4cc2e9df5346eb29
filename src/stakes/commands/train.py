"""`stakes train`: one model of a named task."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from stakes.commands import flags as flag

__all__ = ["app"]

app = App(name="train")


@app.default
def train(
    file: Annotated[Path, Parameter(help="settings of the run, TOML or JSON")],
    /,
    *flags: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
    out: Annotated[Path | None, Parameter(help="run folder; runs/NAME by default")] = None,
    device: flag.Device = "auto",
    quiet: flag.Quiet = False,
    checkpoint_seconds: flag.Seconds = 30.0,
) -> None:
    from stakes.training.execution import Execution
    from stakes.training.sweep import parse_overrides
    from stakes.training.train_and_resume import train_file

    execution = Execution(device, quiet=quiet, checkpoint_seconds=checkpoint_seconds)
    sys.stdout.write(f"{train_file(file, out, execution, parse_overrides(flags))}\n")
