"""From trained runs to a study: every run evaluated on the test cases, and the metrics on common axes."""

import hashlib
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import xarray as xr
from numpy.typing import NDArray
from torch import Tensor

from reproduction.runs.folder import RunFolder
from reproduction.runs.judged import known_of_test_cases, sampled_members, task_metrics
from reproduction.runs.settings import RunSettings, task_data
from reproduction.runs.sweep import Point, Sweep
from reproduction.tasks.task import Task
from stakes.data.case_table import CaseTable
from stakes.errors import SettingError, StudyError
from stakes.evaluation.metrics import LEVELS, Assessor
from stakes.evaluation.study import AXES, Study
from stakes.files import write_atomically
from stakes.forecasting.copula import error_ranks, reordered
from stakes.scores.scoring_rules import PointwiseCRPS
from stakes.settings import canonical_text, to_plain
from stakes.training.processes import called_for_each

METRICS_VERSION = 2  # evaluations kept by other versions are made again
_DIGEST = hashlib.sha256().digest_size

MetricArrays = dict[str, NDArray[np.float32]]
"""The metrics of one run by name: (cases,), quantiles (cases, levels), and means over the validation cases ()."""

ProgressListener = Callable[[int, int], None]
"""Is told how many are done, of how many."""


@dataclass(frozen=True)
class Assessment:
    """How a sweep is evaluated: which of its axes is the cost's parameter and which the data set, and with what."""

    members: int = 500  # how many members each forecast has
    parameter: str | None = None  # the field of the task that is the cost's parameter; None where there is one cost
    group: str | None = None  # the field of the task that tells its data sets apart; None where there is one
    block: int = 1  # how many neighbouring cases depend on each other, for intervals
    validation: bool = False
    shuffled: bool = False
    device: str = "cpu"  # where models are sampled, "cpu" or "cuda"
    processes: int = 1  # how many runs are evaluated at once

    def key(self, task: Task) -> str:
        """What a kept evaluation depends on, besides the run."""
        values = [METRICS_VERSION, self.members, self.validation, self.shuffled, to_plain(task)]
        return hashlib.sha256(canonical_text(values).encode()).hexdigest()[:12]


def evaluate_runs(
    sweeps: Sequence[tuple[Sweep, Assessment]], folder: Path, processes: int = 1, report: ProgressListener | None = None
) -> None:
    """Evaluate the trained runs of some sweeps in one folder, and keep what came of it for `assess`."""
    waiting = {
        (number, name): (name, points, folder, settings)
        for number, (sweep, settings) in enumerate(sweeps)
        for name, points in points_by_run(sweep).items()
        if not has_failed(RunFolder(folder / "runs" / name)) and not _kept(name, points, folder, settings)
    }
    for done, _ in enumerate(called_for_each(_evaluate_and_keep, waiting, processes), 1):
        if report is not None:
            report(done, len(waiting))


def evaluated_run(name: str, points: Sequence[Point], folder: Path, settings: Assessment) -> list[MetricArrays]:
    """The metrics of a run for the cost of each point, from disk where they were kept."""
    kept = _kept(name, points, folder, settings)
    return _evaluate_and_keep(name, points, folder, settings) if kept is None else kept


def points_by_run(sweep: Sweep) -> dict[str, list[Point]]:
    """The points of each run by its name; at weight 0 there is one for every cost parameter."""
    points: dict[str, list[Point]] = {}
    for point in sweep.points:
        points.setdefault(point.run.name, []).append(point)
    return points


def has_failed(run: RunFolder) -> bool:
    """Whether the training of a run ended in failure."""
    state = run.state()
    return state is not None and state.status == "failed"


def _files(name: str, points: Sequence[Point], folder: Path, settings: Assessment) -> list[Path]:
    """Where the evaluation of a run for the cost of each point is kept."""
    state = RunFolder(folder / "runs" / name).state()
    weights = "" if state is None else state.weights_sha256[:8]
    keys = [settings.key(point.run.task) for point in points]
    return [folder / "evaluations" / f"{name}-{weights}-{key}.metrics" for key in keys]


def _kept(name: str, points: Sequence[Point], folder: Path, settings: Assessment) -> list[MetricArrays] | None:
    kept = [_read(file) for file in _files(name, points, folder, settings)]
    return None if any(arrays is None for arrays in kept) else cast(list[MetricArrays], kept)


def _evaluate_and_keep(name: str, points: Sequence[Point], folder: Path, settings: Assessment) -> list[MetricArrays]:
    files = _files(name, points, folder, settings)
    files[0].parent.mkdir(parents=True, exist_ok=True)
    evaluated = list(_evaluate(RunFolder(folder / "runs" / name), points, settings))
    for file, arrays in zip(files, evaluated, strict=True):
        content = io.BytesIO()
        np.savez(content, allow_pickle=False, **cast(Any, arrays))
        write_atomically(file, hashlib.sha256(content.getvalue()).digest() + content.getvalue())
    return evaluated


def _read(file: Path) -> MetricArrays | None:
    """What was kept, behind its SHA-256; None if it is absent or damaged, and then it is evaluated again."""
    try:
        content = file.read_bytes()
    except OSError:
        return None
    digest, archived = content[:_DIGEST], content[_DIGEST:]
    if hashlib.sha256(archived).digest() != digest:
        return None
    with np.load(io.BytesIO(archived), allow_pickle=False) as archive:
        return dict(archive)


def _evaluate(run: RunFolder, points: Sequence[Point], settings: Assessment) -> Iterator[MetricArrays]:
    model = cast(Any, run.model()).to(settings.device)
    data = task_data(points[0].run.task)
    arranged = _shuffle(model, points[0], settings) if settings.shuffled else None
    test = _sampled(model, data.test, points[0], settings, arranged)
    validation = _sampled(model, data.validation, points[0], settings, arranged) if settings.validation else None
    for point in points:
        task = point.run.task
        metrics = task_metrics(task, data.test, test)
        if test.shape[-1] > 1:  # no figure asks for them, and they are more than all the rest
            del metrics["quantile"]
            metrics["crps_of_sites"] = PointwiseCRPS()(test, data.test.outcome.to(settings.device))
        if validation is not None:
            judged = Assessor(task.cost)(validation, data.validation.outcome.to(settings.device))
            metrics |= {f"validation_{name}": judged[name].mean() for name in ("cost", "energy_score")}
        yield {name: values.float().cpu().numpy() for name, values in metrics.items()}


def _sampled(model: Any, cases: CaseTable, point: Point, settings: Assessment, ranks: Any = None) -> Tensor:
    """The members of some cases, put together by the ranks of error vectors where there are such."""
    members = sampled_members(model, cases, settings.members, point.run.seed, settings.device)
    return members if ranks is None else torch.from_numpy(reordered(members.cpu().numpy(), ranks)).to(members)


def _shuffle(model: Any, point: Point, settings: Assessment) -> Any:
    """The ranks of error vectors of the training cases."""
    train = task_data(point.run.task).train
    return error_ranks(_sampled(model, train, point, settings).cpu().numpy(), train.outcome.numpy())


def assess(
    sweep: Sweep, folder: Path, settings: Assessment, about: Mapping[str, Any], report: ProgressListener | None = None
) -> Study:
    """The study of a sweep whose runs are trained; those that failed are named in `about`, and NaN."""
    _require_one_of_each(sweep, settings)
    evaluate_runs([(sweep, settings)], folder, settings.processes, report)
    by_run = points_by_run(sweep)
    failed = [name for name in by_run if has_failed(RunFolder(folder / "runs" / name))]
    evaluations: dict[tuple[float, ...], MetricArrays] = {}
    for name in by_run.keys() - set(failed):
        evaluated = evaluated_run(name, by_run[name], folder, settings)
        places = (_place_of_run(point.run, settings) for point in by_run[name])
        evaluations |= dict(zip(places, evaluated, strict=True))
    if not evaluations:
        raise StudyError(f"none of the {len(by_run)} runs of the sweep in {folder} was trained to its end")
    evaluations |= {_place_of_run(point.run, settings): {} for name in failed for point in by_run[name]}
    first = sweep.points[0].run
    described = {"model": first.model.name, "settings": to_plain(first), "failed": failed, **about}
    tasks = {place_of_task(point.run.task, settings): point.run.task for point in sweep.points}
    return build_study(evaluations, tasks, settings, described)


def _require_one_of_each(sweep: Sweep, settings: Assessment) -> None:
    places = set()
    for point in sweep.points:
        place = _place_of_run(point.run, settings)
        if place in places:
            raise SettingError(
                "a study has one forecast for each cost parameter, data set, weight and seed, but "
                f"{point.run.name} is a second one: assess one task, one model and one choice of settings at a time"
            )
        places.add(place)


def build_study(
    evaluations: Mapping[tuple[float, ...], MetricArrays],
    tasks: Mapping[tuple[float, float], Task],
    settings: Assessment,
    about: Mapping[str, Any],
) -> Study:
    """Evaluations and what is known of their cases as one study."""
    task = next(iter(tasks.values()))
    described = {
        "task": task.name,
        "unit": task_data(task).unit,
        "attribution": task_data(task).attribution,
        "parameter": settings.parameter,
        "members": settings.members,
        **about,
    }
    return Study(_forecasts(evaluations), _cases(tasks), described, settings.block)


def place_of_task(task: Task, settings: Assessment) -> tuple[float, float]:
    """Where a task stands on the axes of the cost's parameter and of the data sets; 0 on an axis that is not there."""
    return _field(task, settings.parameter), _field(task, settings.group)


def _place_of_run(run: RunSettings, settings: Assessment) -> tuple[float, ...]:
    return (*place_of_task(run.task, settings), run.decision_weight, float(run.seed))


def _field(task: Task, name: str | None) -> float:
    return 0.0 if name is None else float(getattr(task, name))


def _forecasts(evaluations: Mapping[tuple[float, ...], MetricArrays]) -> xr.Dataset:
    """All evaluations on common axes, NaN where a point of the grid was not trained or has none."""
    axes = [sorted({place[axis] for place in evaluations}) for axis in range(4)]
    names = list(dict.fromkeys(name for arrays in evaluations.values() for name in arrays))
    some = next(arrays for arrays in evaluations.values() if arrays)
    shape = [len(axis) for axis in axes]
    stacked = {name: np.full((*shape, *some[name].shape), np.nan, np.float32) for name in names}
    for place, arrays in evaluations.items():
        index = tuple(axis.index(value) for axis, value in zip(axes, place, strict=True))
        for name, values in arrays.items():
            stacked[name][index] = values
    dims = {0: AXES[:4], 1: AXES, 2: (*AXES, "level")}
    variables = {name: (dims[values.ndim - 4], values) for name, values in stacked.items()}
    coordinates = dict(zip(AXES[:4], axes, strict=True))
    dataset = xr.Dataset(variables, coordinates | {"case": np.arange(len(some["cost"]))})
    return dataset.assign_coords(level=list(LEVELS)) if "level" in dataset.dims else dataset


def _cases(tasks: Mapping[tuple[float, float], Task]) -> xr.Dataset:
    """What is known of the test cases without any forecast."""
    parts = []
    for (parameter, group), task in tasks.items():
        variables = {name: ("case", values) for name, values in known_of_test_cases(task).items()}
        test = task_data(task).test
        dataset = xr.Dataset(variables, {"case": np.arange(len(test))})
        parts.append(dataset.expand_dims(parameter=[parameter], group=[group]))
    return xr.combine_by_coords(parts, combine_attrs="drop")  # type: ignore[return-value]
