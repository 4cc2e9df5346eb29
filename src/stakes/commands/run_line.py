"""The words of the commands about training runs and the paper; nothing heavy is imported until one is called."""

import sys
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Group, Parameter

from stakes.commands import arguments as flag
from stakes.errors import SettingError

__all__ = ["runs"]

_RUN_FLAGS = (
    "Any setting of a run can be given as a flag on top of the file: `--decision-weight 0.5`, `--seed 3`, "
    "`--task.penalty 10`, `--model diffusion`, `--training.epochs 100`."
)
runs = App()
_GROUP = Group("Training runs, and the paper", sort_key=2)

Flags = Annotated[str, Parameter(show=False, allow_leading_hyphen=True)]


@runs.command(group=_GROUP, help=f"Train one model of a task.\n\n{_RUN_FLAGS}")
def train(
    file: Annotated[Path, Parameter(help="settings of the run, TOML or JSON")],
    /,
    *flags: Flags,
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


@runs.command(
    group=_GROUP,
    help=f"Train a grid of runs, as stacks, on the cores or the GPU.\n\n{_RUN_FLAGS} `--grid.seed '[0, 1]'`",
)
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
        from stakes.training.on_ray import sweep_on_ray

        table = sweep_on_ray(chosen, out, address, device, workers, quiet, checkpoint_seconds)
    elif address is not None:
        raise SettingError(f"address is for a sweep --on ray, got {address!r} with --on local")
    else:
        table = run_sweep(chosen, out, Execution(device, workers, quiet, checkpoint_seconds))
    sys.stdout.write(f"{table}\n")


@runs.command(group=_GROUP, help="Go on with a run, a sweep, a fit or a backtest that was interrupted.")
def resume(
    folder: Annotated[Path, Parameter(help="folder of a run, a sweep, a fit or a backtest")],
    /,
    *,
    cost: Annotated[str | None, Parameter(help="your own cost of a fit or a backtest, given again")] = None,
    device: flag.Device = "auto",
    workers: flag.Workers = None,
    quiet: flag.Quiet = False,
    checkpoint_seconds: flag.Seconds = 30.0,
) -> None:
    from stakes.training.execution import Execution
    from stakes.training.train_and_resume import resume_folder

    execution = Execution(device, workers, quiet, checkpoint_seconds)
    if (folder / "fit.json").is_file():
        from stakes.fitting.fit import resume_fit

        sys.stdout.write(f"{resume_fit(folder, execution, cost).folder}\n")
    elif (folder / "backtest.json").is_file():
        from stakes.fitting.backtest import resume_backtest

        sys.stdout.write(f"{resume_backtest(folder, execution, cost).folder}\n")
    elif cost is not None:
        raise SettingError(f"cost is for a fit or a backtest, and {folder} holds neither")
    else:
        sys.stdout.write(f"{resume_folder(folder, execution)}\n")


@runs.command(
    group=_GROUP,
    help="Reproduce the paper, and the portfolios beyond it, on real records: train, evaluate, draw every figure, "
    "judge every claim, and write report.html, results.json and summary.parquet.\n\nSays first how long it takes. A "
    "second start goes on where the first was interrupted.",
)
def reproduce(
    subject: Annotated[str, Parameter(help="synthetic, wind, frost, portfolio or all")] = "all",
    /,
    *,
    quick: Annotated[
        bool, Parameter(help="a reduced run, under 20 minutes on two cores", negative="", show_default=False)
    ] = False,
    model: Annotated[str | None, Parameter(help="implicit or diffusion; both by default")] = None,
    record: Annotated[
        str | None, Parameter(help="another record or a file, NetCDF, Zarr, CSV or parquet, for wind or frost")
    ] = None,
    figure: Annotated[str | None, Parameter(help="draw this figure only, by its label in the paper")] = None,
    out: Annotated[Path | None, Parameter(help="folder of the reproduction; reproduction/SUBJECT by default")] = None,
    device: flag.Device = "auto",
    workers: flag.Workers = None,
    quiet: flag.Quiet = False,
) -> None:
    from stakes.paper.reproduce import Reproduction
    from stakes.paper.reproduce import reproduce as run
    from stakes.training.execution import Execution

    wanted = Reproduction(subject, quick, model, record, figure)
    sys.stdout.write(f"{run(wanted, out or wanted.folder, Execution(device, workers, quiet))}\n")
