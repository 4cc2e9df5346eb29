"""Sweeps: a grid of runs, grouped into stacks, on the cores, a GPU or a cluster, each run in a folder of its own."""

import argparse
import csv
import io
import itertools
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from reproduction.runs.folder import RunFolder, is_run
from reproduction.runs.jobs import Execution, run_jobs
from reproduction.runs.settings import RunSettings, prepare, run_from_plain, task_data
from reproduction.runs.settings_files import read_settings_file, set_dotted
from reproduction.runs.stacks import Stack, train_folders
from reproduction.tasks import find_task
from stakes.errors import CheckpointError, InterruptedTraining, SettingError, StakesError, exit_code_of
from stakes.files import locked, read_json, write_atomically, write_json
from stakes.settings import shown, to_plain
from stakes.training.execution import stop_on_interrupt
from stakes.training.progress import Display, StackDisplay
from stakes.training.replicas import cost_structure
from stakes.training.settings import ModelSettings

_NAMED = 5  # failures in a message
_SUMMARY = ("status", "epoch", "best_epoch", "best_loss", "steps", "seconds", "failure")
_OF_COST = ("decision", "cost", "expected_cost", "at_lower", "at_upper", "flagged")
_METRICS = ("score", "energy_score", *_OF_COST)


@dataclass(frozen=True)
class Point:
    """One point of the grid."""

    axes: Mapping[str, Any]  # the values it has on the axes, by their names
    run: RunSettings  # the settings of its run


@dataclass(frozen=True)
class Sweep:
    """All runs of a sweep."""

    points: tuple[Point, ...]  # the points of the grid; several may share a run

    @property
    def runs(self) -> dict[str, RunSettings]:
        """The distinct runs by name."""
        return {point.run.name: point.run.distinct for point in self.points}


def read_sweep(values: Mapping[str, Any]) -> Sweep:
    """A sweep from plain values, as a settings file has them."""
    values = dict(values)
    grid, paper = values.pop("grid", {}), values.pop("paper", None)
    if not isinstance(grid, Mapping):
        raise SettingError(f"grid must be a table of settings and their values, got {shown(grid)}")
    if paper is None:
        return Sweep(tuple(_points(values, _axes(grid))))
    names = [paper] if isinstance(paper, str) else paper
    if not isinstance(names, list) or not names:
        raise SettingError(f"paper must be the name of a task, or a list of names, got {shown(paper)}")
    if "task" in values:
        raise SettingError("a sweep has a task or takes its tasks from paper, not both")
    points = []
    for name in names:
        settings = find_task(name).paper
        for model in _chosen_models(settings.models, values.get("model")):
            own = {axis: list(chosen) for axis, chosen in settings.grid.items() if axis not in values}
            axes = {**own, **_axes(grid)}
            base = {**values, "task": {"name": name}, "model": model}
            points += [Point({"task": name, "model": model["name"], **p.axes}, p.run) for p in _points(base, axes)]
    return Sweep(tuple(points))


def _chosen_models(known: Sequence[ModelSettings], given: Any) -> list[dict[str, Any]]:
    """The models of a task, or the one that is given by name, with the settings that are given on top."""
    given = {"name": given} if isinstance(given, str) else given or {}
    if not isinstance(given, Mapping):
        raise SettingError(f"model must be a name or a table, got {given!r}")
    names = [model.name for model in known]
    if given.get("name", names[0]) not in names:
        raise SettingError(f"model.name must be one of {', '.join(names)}, got {given['name']!r}")
    return [{"name": name, **given} for name in names if given.get("name", name) == name]


def _axes(grid: Mapping[str, Any], prefix: str = "") -> dict[str, list[Any]]:
    """Axes by dotted name; tables in the grid are read as dots."""
    axes: dict[str, list[Any]] = {}
    for name, chosen in grid.items():
        if isinstance(chosen, Mapping):
            axes |= _axes(chosen, f"{prefix}{name}.")
        elif not isinstance(chosen, list) or not chosen:
            raise SettingError(f"grid.{prefix}{name} must be a list of at least one value, got {shown(chosen)}")
        else:
            axes[f"{prefix}{name}"] = chosen
    return axes


def _points(base: Mapping[str, Any], axes: Mapping[str, list[Any]]) -> Iterable[Point]:
    for chosen in itertools.product(*axes.values()):
        named = dict(zip(axes, chosen, strict=True))
        yield Point(named, run_from_plain(with_overrides(base, named)))


def load_sweep(folder: Path) -> Sweep:
    """The sweep that a folder was made for."""
    points = read_json(folder / "sweep.json")
    try:
        return Sweep(tuple(Point(point["axes"], run_from_plain(point["run"])) for point in points))
    except (KeyError, TypeError) as error:
        raise SettingError(f"{folder / 'sweep.json'} does not list the points of a sweep: {error}") from error


def run_sweep(sweep: Sweep, folder: Path, execution: Execution) -> Path:
    """Train what is not yet trained, and write the table of the sweep; returns its path."""
    with locked(folder):
        return _run_sweep(sweep, folder, execution)


def sweep_on_ray(
    sweep: Sweep,
    folder: Path,
    address: str | None = None,
    device: str = "auto",
    workers: int | None = None,
    quiet: bool = False,
    checkpoint_seconds: float = 30.0,
) -> Path:
    """Train a sweep on a Ray cluster, and write its table; returns the path of the table."""
    from reproduction.runs.on_ray import RayExecution, connected

    with connected(address, workers) as resources:
        execution = RayExecution(device, workers, quiet, checkpoint_seconds, resources)
        return folder / run_sweep(sweep, folder.resolve(), execution).name


def _run_sweep(sweep: Sweep, folder: Path, execution: Execution) -> Path:
    runs = sweep.runs
    points = [{"axes": dict(point.axes), "run": to_plain(point.run)} for point in sweep.points]
    write_json(folder / "sweep.json", points)
    folders = {name: RunFolder(folder / "runs" / name) for name in runs}
    for name, run in runs.items():
        _make_folder(folders[name], run)
    stacks = _planned(folder, runs, execution)
    waiting = [stack for stack in stacks if any(run.state() is None for run in stack.folders())]
    failures = {}
    try:
        failures = run_jobs(waiting, folder, execution)
    except InterruptedTraining:
        _write_table(sweep, folders, folder)
        raise
    table = _write_table(sweep, folders, folder)
    _report(failures, folders, table)
    return table


def _make_folder(folder: RunFolder, run: RunSettings) -> None:
    """Lock what is to be made; a run that is there already may be in training by itself, which its stack waits for."""
    with nullcontext() if is_run(folder.path) else locked(folder.path):
        folder.create(run)


def _report(failures: Mapping[str, str], folders: Mapping[str, RunFolder], table: Path) -> None:
    """Raise where a stack or a run failed, or results are damaged; all the others are done by then."""
    sentences = [f"stack {stack}: {reason}" for stack, reason in failures.items()]
    for name, folder in folders.items():
        state = folder.state()
        if state is not None and state.status == "failed":
            sentences.append(f"run {name}: {state.failure}")
        try:
            folder.check_results()
        except CheckpointError as error:
            sentences.append(f"run {name}: {error}")
    if sentences:
        more = f"; and {len(sentences) - _NAMED} more" if len(sentences) > _NAMED else ""
        raise StakesError(f"the sweep is in {table}, but failed in part: {'; '.join(sentences[:_NAMED])}{more}")


def _planned(folder: Path, runs: Mapping[str, RunSettings], execution: Execution) -> list[Stack]:
    """The stacks of the sweep: those planned before, so that their checkpoints fit, and new ones for new runs."""
    plan = folder / "plan.json"
    planned = read_json(plan) if plan.exists() else []
    if not isinstance(planned, list):
        raise SettingError(f"{plan} must list the runs of each stack, got {shown(planned)}")
    known = [_known_stack(folder, names) for names in planned]
    placed = {name for stack in known for name in stack.runs}
    fresh = {name: run for name, run in runs.items() if name not in placed}
    stacks = [*known, *(Stack(folder, names) for names in _grouped(fresh, execution))]
    write_json(plan, [list(stack.runs) for stack in stacks])
    return [stack for stack in stacks if set(stack.runs) & runs.keys()]


def _known_stack(folder: Path, names: object) -> Stack:
    if not isinstance(names, list) or not all(isinstance(name, str) and Path(name).name == name for name in names):
        raise SettingError(f"{folder / 'plan.json'} must list the runs of each stack, got {names!r}")
    return Stack(folder, tuple(names))


def _grouped(runs: Mapping[str, RunSettings], execution: Execution) -> list[tuple[str, ...]]:
    """Runs that can train as one, cut into stacks of the size that suits the device."""
    groups: dict[object, list[str]] = {}
    for name, run in runs.items():
        groups.setdefault(_shape(run), []).append(name)
    stacks = []
    for names in groups.values():
        together = sorted(names, key=lambda name: runs[name].seed)  # a seed's runs share their pre-training
        size = execution.stack_size(len(together))
        stacks += [tuple(together[start : start + size]) for start in range(0, len(together), size)]
    return stacks


def _shape(run: RunSettings) -> object:
    data = task_data(run.task)
    shapes = [tuple(part.shape) for cases in (data.train, data.validation) for part in (cases.features, cases.outcome)]
    return run.model, run.training, run.task.name, cost_structure(run.task.cost), tuple(shapes)


def _write_table(sweep: Sweep, folders: Mapping[str, RunFolder], folder: Path) -> Path:
    """One line for each point of the grid, with the metrics of its best epoch."""
    axes = list(dict.fromkeys(name for point in sweep.points for name in point.axes))
    text = io.StringIO()
    writer = csv.DictWriter(text, [*axes, "run", *_SUMMARY, *_METRICS], lineterminator="\n")
    writer.writeheader()
    summaries = {name: _summary(folder) for name, folder in folders.items()}
    for point in sweep.points:
        summary, unknown = summaries[point.run.name], _not_its_own(point.run)
        summary = {name: value for name, value in summary.items() if name not in unknown}
        writer.writerow({**point.axes, "run": point.run.name, **summary})
    write_atomically(folder / "table.csv", text.getvalue().encode())
    return folder / "table.csv"


def _not_its_own(run: RunSettings) -> tuple[str, ...]:
    """The metrics that a shared run at weight 0 has of another cost, or of another companion."""
    if run.task != run.distinct.task:
        return _OF_COST
    return ("decision",) if run != run.distinct else ()


def _summary(folder: RunFolder) -> dict[str, Any]:
    state = folder.state()
    if state is None:
        return {"status": "not finished"}
    values = to_plain(state)
    best = (line for line in folder.metrics() if line["phase"] == "training" and line["epoch"] == state.best_epoch)
    metrics = next(best, {})
    return {name: values[name] for name in _SUMMARY} | {name: metrics.get(name) for name in _METRICS}


def parse_overrides(words: Sequence[str]) -> dict[str, Any]:
    """Settings by their dotted names, from flags such as `--training.epochs 100` or `--seed=3`."""
    overrides: dict[str, Any] = {}
    rest = list(words)
    while rest:
        flag, equals, value = rest.pop(0).partition("=")
        if not flag.startswith("--") or len(flag) < 3:
            raise SettingError(f"expected a flag such as --training.epochs 100, got {flag!r}")
        if not equals:
            if not rest:
                raise SettingError(f"the flag {flag} needs a value")
            value = rest.pop(0)
        overrides[flag[2:].replace("-", "_")] = parse_value(value)
    return overrides


def read_overrides(file: Path | None, words: Sequence[str]) -> dict[str, Any]:
    """Settings by their dotted names, from a file and from words such as model.prediction=v, which win."""
    overrides = {} if file is None else _flat(read_settings_file(file))
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise SettingError(f"set must be a name and a value, such as model.prediction=v, got {word!r}")
        overrides[name.strip()] = parse_value(value.strip())
    return overrides


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return flat


def parse_value(text: str) -> Any:
    """A flag's value: TOML, or text where it is none."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, KeyError, RecursionError):  # a number of more than 4300 digits is a plain ValueError
        return text


def with_overrides(values: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with others on top."""
    result = dict(values)
    for name in sorted(overrides, key=lambda name: name.count(".")):
        result = set_dotted(result, name, overrides[name])
    return result


def sweep_from_files(files: Sequence[Path], overrides: Mapping[str, Any]) -> Sweep:
    """The sweeps of one or more settings files as one."""
    points: list[Point] = []
    for file in files:
        values = with_overrides(read_settings_file(file), overrides)
        if isinstance(values.get("grid"), Mapping):  # a flag takes the place of an axis
            axes = _axes(values["grid"])
            values["grid"] = {name: chosen for name, chosen in axes.items() if name not in overrides}
        points += read_sweep(values).points
    return Sweep(tuple(points))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command without the command line's libraries; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m reproduction.runs.sweep", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="settings of the sweep, TOML or JSON")
    parser.add_argument("--out", type=Path, required=True, help="folder of the sweep")
    parser.add_argument("--device", default="auto", help="cpu, cuda or auto")
    parser.add_argument("--workers", type=int, help="processes at once; one per core, or one on a GPU, by default")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.add_argument("--checkpoint-seconds", type=float, default=30.0, help="time between checkpoints")
    chosen, words = parser.parse_known_args(arguments)

    def command() -> None:
        sweep = sweep_from_files(chosen.files, parse_overrides(words))
        execution = Execution(chosen.device, chosen.workers, chosen.quiet, chosen.checkpoint_seconds)
        sys.stdout.write(f"{run_sweep(sweep, chosen.out, execution)}\n")

    return exit_code_of(command)


if __name__ == "__main__":
    sys.exit(main())


def train_file(file: Path, out: Path | None, execution: Execution, overrides: Mapping[str, Any]) -> Path:
    """Train the run of a settings file; returns its folder."""
    run = run_from_plain(with_overrides(read_settings_file(file), overrides))
    prepare(run)  # what cannot be trained leaves no folder
    folder = RunFolder(out or Path("runs") / run.name)
    with locked(folder.path):
        folder.create(run)
        return _train(folder, execution)


def resume_folder(path: Path, execution: Execution) -> Path:
    """Go on with a run or a sweep; returns the run's folder or the sweep's table."""
    if (path / "sweep.json").exists():
        return run_sweep(load_sweep(path), path, execution)
    if not is_run(path):
        raise SettingError(f"{path} is neither the folder of a run nor that of a sweep")
    with locked(path):
        return _train(RunFolder(path), execution)


def _train(folder: RunFolder, execution: Execution) -> Path:
    """Train a run whose folder is locked; of one that has ended, see that its results are still there."""
    folder.check_results()
    with stop_on_interrupt() as stop, Display(quiet=execution.quiet) as display:
        if folder.state() is None:
            torch.set_num_threads(1)  # as in a sweep: small models gain nothing from more, and results stay the same
            seconds, device = execution.checkpoint_seconds, execution.resolved_device
            try:
                train_folders([folder], folder.checkpoints, device, seconds, stop, [StackDisplay(display)])
            except InterruptedTraining as interrupted:
                raise InterruptedTraining(
                    f"{interrupted}; `python -m reproduction resume {folder.path}` goes on"
                ) from None
    state = folder.state()
    if state is not None and state.status == "failed":
        raise SettingError(f"training failed, {state.failure}; the last good weights are in {folder.path}")
    return folder.path
