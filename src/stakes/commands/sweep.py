"""`stakes sweep`: a grid of training runs."""

import sys
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from stakes.commands import flags as flag
from stakes.errors import SettingError

__all__ = ["app"]

app = App(name="sweep")


@app.default
def sweep(
    *files: Annotated[str, Parameter(help="settings of the sweep, TOML or JSON", allow_leading_hyphen=True)],
    out: Annotated[Path, Parameter(help="folder of the sweep")],
    device: flag.Device = "auto",
    workers: flag.Workers = None,
    on: Annotated[Literal["local", "ray"], Parameter(help="processes here, or a Ray cluster (extra `ray`)")] = "local",
    address: Annotated[
        str | None, Parameter(help="of the Ray cluster, auto or HOST:PORT; without one, a Ray is started here")
    ] = None,
    quiet: flag.Quiet = False,
    checkpoint_seconds: flag.Seconds = 30.0,
) -> None:
    from stakes.training.execution import Execution
    from stakes.training.sweep import parse_overrides, run_sweep, sweep_from_files

    named = list(takewhile(lambda word: not word.startswith("--"), files))
    if not named:
        raise SettingError("a sweep needs at least one settings file, before its flags")
    chosen = sweep_from_files([Path(name) for name in named], parse_overrides(files[len(named) :]))
    if on == "ray":
        from stakes.training.sweep import sweep_on_ray

        table = sweep_on_ray(chosen, out, address, device, workers, quiet, checkpoint_seconds)
    elif address is not None:
        raise SettingError(f"address is for a sweep --on ray, got {address!r} with --on local")
    else:
        table = run_sweep(chosen, out, Execution(device, workers, quiet, checkpoint_seconds))
    sys.stdout.write(f"{table}\n")
