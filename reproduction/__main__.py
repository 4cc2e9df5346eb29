"""`python -m reproduction`: the paper on real records, and the runs and sweeps of its tasks."""

import sys
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from stakes.cli import flags as flag
from stakes.cli import run_app
from stakes.errors import SettingError

_RUN_FLAGS = (
    "Any setting of a run can be given as a flag on top of the file: `--decision-weight 0.5`, `--seed 3`, "
    "`--task.penalty 10`, `--model diffusion`, `--training.epochs 100`."
)
_Seconds = Annotated[float, Parameter(help="time between checkpoints")]
_RunFolder = Annotated[Path, Parameter(help="folder of a run")]

app = App(
    name="reproduction",
    help="Reproduce the paper, and the portfolios beyond it, on real records: train, evaluate, draw every figure, "
    "judge every claim, and write report.html, results.json and summary.parquet.\n\nSays first how long it takes. A "
    "second start goes on where the first was interrupted.",
    suppress_keyboard_interrupt=False,  # it would end without a word
)


@app.default
def reproduce(
    subject: Annotated[str, Parameter(help="synthetic, wind, frost, portfolio, all of these, or programs")] = "all",
    /,
    *,
    budget: Annotated[
        Literal["paper", "quick"], Parameter(help="the whole plan, or a reduced one of 15 minutes on two cores")
    ] = "paper",
    set_: Annotated[
        tuple[str, ...],
        Parameter(
            name="--set",
            help="another reading of the paper: a setting on top of the plan's, such as model.prediction=v, "
            "task.cutoff_sharpness=2.0, solver=projected_gradient or seed=[0,1]; may be repeated",
            negative="",
        ),
    ] = (),
    settings: Annotated[Path | None, Parameter(help="a TOML or JSON file of such settings")] = None,
    kept: Annotated[
        bool, Parameter(help="judge what is trained already, and say what is not", negative="", show_default=False)
    ] = False,
    model: Annotated[str | None, Parameter(help="implicit or diffusion; both by default")] = None,
    record: Annotated[
        str | None, Parameter(help="another record or a file, NetCDF, Zarr, CSV or parquet, for wind or frost")
    ] = None,
    figure: Annotated[str | None, Parameter(help="draw this figure only, by its label in the paper")] = None,
    tables: Annotated[
        str | None, Parameter(help="folder of the tables, of portfolios and programs, that are not shipped")
    ] = None,
    out: Annotated[
        Path | None, Parameter(help="folder of the reproduction; build/reproduction/SUBJECT by default")
    ] = None,
    device: flag.Device = "auto",
    workers: flag.Workers = None,
    quiet: flag.Quiet = False,
) -> None:
    from reproduction.reproduce import Reproduction
    from reproduction.reproduce import reproduce as run
    from reproduction.runs.jobs import Execution
    from reproduction.runs.sweep import read_overrides

    overrides = read_overrides(settings, set_)
    wanted = Reproduction(subject, budget == "quick", model, record, figure, tables, overrides, kept)
    sys.stdout.write(f"{run(wanted, out or wanted.folder, Execution(device, workers, quiet))}\n")


@app.command(help="The tasks by name.")
def tasks() -> None:
    from reproduction.tasks import task_types

    for name, task in task_types().items():
        title = (task.__doc__ or "").strip().partition("\n")[0].rstrip(".")
        sys.stdout.write(f"{name}: {title}\n")


@app.command(help=f"Train one model of a task.\n\n{_RUN_FLAGS}")
def train(
    file: Annotated[Path, Parameter(help="settings of the run, TOML or JSON")],
    /,
    *flags: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
    out: Annotated[Path | None, Parameter(help="run folder; runs/NAME by default")] = None,
    device: flag.Device = "auto",
    quiet: flag.Quiet = False,
    checkpoint_seconds: _Seconds = 30.0,
) -> None:
    from reproduction.runs.jobs import Execution
    from reproduction.runs.sweep import parse_overrides, train_file

    execution = Execution(device, quiet=quiet, checkpoint_seconds=checkpoint_seconds)
    sys.stdout.write(f"{train_file(file, out, execution, parse_overrides(flags))}\n")


@app.command(
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
    checkpoint_seconds: _Seconds = 30.0,
) -> None:
    from reproduction.runs.jobs import Execution
    from reproduction.runs.sweep import parse_overrides, run_sweep, sweep_from_files, sweep_on_ray

    named = list(takewhile(lambda word: not word.startswith("--"), files))
    if not named:
        raise SettingError("a sweep needs at least one settings file, before its flags")
    chosen = sweep_from_files([Path(name) for name in named], parse_overrides(files[len(named) :]))
    if on == "ray":
        table = sweep_on_ray(chosen, out, address, device, workers, quiet, checkpoint_seconds)
    elif address is not None:
        raise SettingError(f"address is for a sweep --on ray, got {address!r} with --on local")
    else:
        table = run_sweep(chosen, out, Execution(device, workers, quiet, checkpoint_seconds))
    sys.stdout.write(f"{table}\n")


@app.command(help="Go on with a run or a sweep that was interrupted.")
def resume(
    folder: Annotated[Path, Parameter(help="folder of a run or a sweep")],
    /,
    *,
    device: flag.Device = "auto",
    workers: flag.Workers = None,
    quiet: flag.Quiet = False,
    checkpoint_seconds: _Seconds = 30.0,
) -> None:
    from reproduction.runs.jobs import Execution
    from reproduction.runs.sweep import resume_folder

    sys.stdout.write(f"{resume_folder(folder, Execution(device, workers, quiet, checkpoint_seconds))}\n")


@app.command(help="What a run was worth on the test cases of its task.")
def evaluate(
    folder: _RunFolder,
    /,
    *,
    block: flag.Block = None,
    cases: flag.CasesFile = None,
    force: flag.Force = False,
    json: flag.Json = False,
    quiet: flag.Quiet = False,
) -> None:
    from reproduction.runs.judged import evaluate_run
    from stakes.argument_checks import require_count
    from stakes.cli.output import print_json, print_notes, print_table, print_text, require_writable
    from stakes.data.tables.files import without_noise, write_table

    require_writable(cases, force)
    if block is not None:
        require_count("block", block)
    result = evaluate_run(folder, block)
    print_notes(result.notes, quiet)
    if cases is not None:
        write_table(without_noise(result.cases), cases)
    if json:
        print_json(result.record() | {"metrics": without_noise(result.table), "cases_file": cases})
    else:
        print_table(result.table, result.title)
        if result.alarms:
            print_text("\n".join(["", *result.alarms]))


@app.command(help="Write the report of a run: one HTML file that needs no network.")
def report(
    folder: _RunFolder,
    /,
    *,
    out: Annotated[Path | None, Parameter(help="write to this file, .html, not into the folder")] = None,
    force: flag.Force = False,
) -> None:
    from reproduction.runs.judged import write_run_report
    from stakes.cli.output import require_writable

    require_writable(out, force, (".html",))
    sys.stdout.write(f"{write_run_report(folder, out)}\n")


def main(arguments: list[str] | None = None) -> int:
    """Run a command of the reproduction; returns the exit code."""
    return run_app(app, arguments)


if __name__ == "__main__":
    sys.exit(main())
