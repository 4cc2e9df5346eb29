"""The command line: train, sweep, resume, reproduce. Nothing heavy is imported until a command runs."""

import sys
from itertools import takewhile
from pathlib import Path
from typing import Annotated

from cyclopts import App, CycloptsError, Parameter

from stakes import __version__
from stakes.errors import SettingError
from stakes.guard import complain, guarded

__all__ = ["app", "main"]

_RUN_FLAGS = (
    "Any setting of a run can be given as a flag on top of the file: `--decision-weight 0.5`, `--seed 3`, "
    "`--task.penalty 10`, `--model diffusion`, `--training.epochs 100`."
)
app = App(
    name="stakes",
    version=__version__,
    help="Forecasts that know what is at stake: decision-aware training of sample-based generative models.",
)

Flags = Annotated[str, Parameter(show=False, allow_leading_hyphen=True)]
Device = Annotated[str, Parameter(help="cpu, cuda, or auto: the GPU where there is one")]
Workers = Annotated[int | None, Parameter(help="processes at once; one a core, or one on a GPU, by default")]
Quiet = Annotated[bool, Parameter(help="no progress", negative="")]
Seconds = Annotated[float, Parameter(help="time between checkpoints")]


@app.command(help=f"Train one model of a task.\n\n{_RUN_FLAGS}")
def train(
    file: Annotated[Path, Parameter(help="settings of the run, TOML or JSON")],
    /,
    *flags: Flags,
    out: Annotated[Path | None, Parameter(help="run folder; runs/NAME by default")] = None,
    device: Device = "auto",
    quiet: Quiet = False,
    checkpoint_seconds: Seconds = 30.0,
) -> None:
    from stakes.training.commands import train_file
    from stakes.training.execution import Execution
    from stakes.training.sweep import parse_overrides

    execution = Execution(device, quiet=quiet, checkpoint_seconds=checkpoint_seconds)
    sys.stdout.write(f"{train_file(file, out, execution, parse_overrides(flags))}\n")


@app.command(help=f"Train a grid of runs, as stacks, on the cores or the GPU.\n\n{_RUN_FLAGS} `--grid.seed '[0, 1]'`")
def sweep(
    *files: Annotated[str, Parameter(help="settings of the sweep, TOML or JSON", allow_leading_hyphen=True)],
    out: Annotated[Path, Parameter(help="folder of the sweep")],
    device: Device = "auto",
    workers: Workers = None,
    quiet: Quiet = False,
    checkpoint_seconds: Seconds = 30.0,
) -> None:
    from stakes.training.execution import Execution
    from stakes.training.sweep import parse_overrides, run_sweep, sweep_from_files

    named = list(takewhile(lambda word: not word.startswith("--"), files))
    if not named:
        raise SettingError("a sweep needs at least one settings file, before its flags")
    chosen = sweep_from_files([Path(name) for name in named], parse_overrides(files[len(named) :]))
    sys.stdout.write(f"{run_sweep(chosen, out, Execution(device, workers, quiet, checkpoint_seconds))}\n")


@app.command(help="Go on with a run or a sweep that was interrupted.")
def resume(
    folder: Annotated[Path, Parameter(help="folder of a run or a sweep")],
    /,
    *,
    device: Device = "auto",
    workers: Workers = None,
    quiet: Quiet = False,
    checkpoint_seconds: Seconds = 30.0,
) -> None:
    from stakes.training.commands import resume_folder
    from stakes.training.execution import Execution

    sys.stdout.write(f"{resume_folder(folder, Execution(device, workers, quiet, checkpoint_seconds))}\n")


@app.command(
    help="Reproduce the paper, and the portfolios beyond it, on real records: train, evaluate, draw every figure, "
    "judge every claim, and write report.html, results.json and summary.parquet.\n\nSays first how long it takes. A "
    "second start goes on where the first was interrupted."
)
def reproduce(
    subject: Annotated[str, Parameter(help="synthetic, wind, frost, portfolio or all")] = "all",
    /,
    *,
    quick: Annotated[bool, Parameter(help="a reduced run, under 20 minutes on two cores", negative="")] = False,
    model: Annotated[str | None, Parameter(help="implicit or diffusion; both by default")] = None,
    record: Annotated[str | None, Parameter(help="another record or a NetCDF file, for wind or frost")] = None,
    figure: Annotated[str | None, Parameter(help="draw this figure only, by its label in the paper")] = None,
    out: Annotated[Path | None, Parameter(help="folder of the reproduction; reproduction/SUBJECT by default")] = None,
    device: Device = "auto",
    workers: Workers = None,
    quiet: Quiet = False,
) -> None:
    from stakes.reporting.reproduce import Reproduction
    from stakes.reporting.reproduce import reproduce as run
    from stakes.training.execution import Execution

    wanted = Reproduction(subject, quick, model, record, figure)
    sys.stdout.write(f"{run(wanted, out or wanted.folder, Execution(device, workers, quiet))}\n")


def main(arguments: list[str] | None = None) -> int:
    """Run a command; what goes wrong is one line on standard error. Returns the exit code."""
    try:
        return guarded(lambda: app(arguments, exit_on_error=False, print_error=False, result_action="return_value"))
    except CycloptsError as error:
        return complain(str(error), 2)
    except SystemExit as ending:  # --help and --version
        return int(ending.code or 0)


if __name__ == "__main__":
    sys.exit(main())
