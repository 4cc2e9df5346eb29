"""From trained runs to a study: sample every model on the test cases, decide, settle, and keep what came of it.

What a run gave is kept in the folder of the sweep, so that an evaluation that was interrupted goes on where it was.
"""

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

from stakes.data.cases import Cases
from stakes.errors import SettingError, StudyError
from stakes.evaluation.metrics import LEVELS, Assessor
from stakes.evaluation.study import AXES, Study
from stakes.files import write_atomically
from stakes.method.actions import optimal_action
from stakes.method.models.sample_model import SampleModel
from stakes.settings import canonical_text, to_plain
from stakes.tasks.simulation import KnownTruth
from stakes.tasks.task import Task
from stakes.training.processes import called_for_each
from stakes.training.run_folder import RunFolder
from stakes.training.run_settings import RunSettings, task_data
from stakes.training.sweep import Point, Sweep

__all__ = [
    "METRICS_VERSION",
    "Arrays",
    "Assessment",
    "Report",
    "against_truth",
    "assess",
    "data_place",
    "evaluate_runs",
    "study_of",
]

METRICS_VERSION = 1  # evaluations kept by other versions are made again
_DIGEST = hashlib.sha256().digest_size

Arrays = dict[str, NDArray[np.float32]]
Report = Callable[[int, int], None]  # runs evaluated, of how many


@dataclass(frozen=True)
class Assessment:
    """How a sweep is evaluated: which of its axes is the cost's parameter and which the data set, and with what.

    `validation` also takes the mean cost and energy score on the validation cases, by which a weight can be chosen.
    """

    members: int = 500
    parameter: str | None = None  # a field of the task
    group: str | None = None  # a field of the task
    block: int = 1
    validation: bool = False
    device: str = "cpu"
    processes: int = 1

    def key(self, task: Task) -> str:
        """What a kept evaluation depends on, besides the run."""
        values = [METRICS_VERSION, self.members, self.validation, to_plain(task)]
        return hashlib.sha256(canonical_text(values).encode()).hexdigest()[:12]


def assess(
    sweep: Sweep, folder: Path, settings: Assessment, about: Mapping[str, Any], report: Report | None = None
) -> Study:
    """The study of a sweep whose runs are trained; those that failed are named in `about`, and NaN."""
    _require_one_of_each(sweep, settings)
    evaluate_runs([(sweep, settings)], folder, settings.processes, report)
    by_run = _by_run(sweep)
    failed = [name for name in by_run if _failed(RunFolder(folder / "runs" / name))]
    found: dict[tuple[float, ...], Arrays] = {}
    for name in by_run.keys() - set(failed):
        evaluated = _evaluated(name, by_run[name], folder, settings)
        found |= {_place(point.run, settings): arrays for point, arrays in zip(by_run[name], evaluated, strict=True)}
    if not found:
        raise StudyError(f"none of the {len(by_run)} runs of the sweep in {folder} was trained to its end")
    found |= {_place(point.run, settings): {} for name in failed for point in by_run[name]}
    first = sweep.points[0].run
    described = {"model": first.model.name, "settings": to_plain(first), "failed": failed, **about}
    tasks = {data_place(point.run.task, settings): point.run.task for point in sweep.points}
    return study_of(found, tasks, settings, described)


def evaluate_runs(
    sweeps: Sequence[tuple[Sweep, Assessment]], folder: Path, processes: int = 1, report: Report | None = None
) -> None:
    """Evaluate the trained runs of some sweeps in one folder, and keep what came of it for `assess`."""
    waiting = {
        (number, name): (name, points, folder, settings)
        for number, (sweep, settings) in enumerate(sweeps)
        for name, points in _by_run(sweep).items()
        if not _failed(RunFolder(folder / "runs" / name)) and not _kept(name, points, folder, settings)
    }
    for done, _ in enumerate(called_for_each(_evaluate_and_keep, waiting, processes), 1):
        if report is not None:
            report(done, len(waiting))


def _by_run(sweep: Sweep) -> dict[str, list[Point]]:
    """The points of each run; at weight 0 there is one for every cost parameter."""
    found: dict[str, list[Point]] = {}
    for point in sweep.points:
        found.setdefault(point.run.name, []).append(point)
    return found


def _require_one_of_each(sweep: Sweep, settings: Assessment) -> None:
    places = set()
    for point in sweep.points:
        place = _place(point.run, settings)
        if place in places:
            raise SettingError(
                "a study has one forecast for each cost parameter, data set, weight and seed, but "
                f"{point.run.name} is a second one: assess one task, one model and one choice of settings at a time"
            )
        places.add(place)


def study_of(
    found: Mapping[tuple[float, ...], Arrays],
    tasks: Mapping[tuple[float, float], Task],
    settings: Assessment,
    about: Mapping[str, Any],
) -> Study:
    """Evaluations by (parameter, group, decision weight, seed) and tasks by (parameter, group) as one study."""
    task = next(iter(tasks.values()))
    described = {
        "task": task.name,
        "unit": task_data(task).unit,
        "attribution": task_data(task).attribution,
        "parameter": settings.parameter,
        "members": settings.members,
        **about,
    }
    return Study(_forecasts(found), _cases(tasks), described, settings.block)


def data_place(task: Task, settings: Assessment) -> tuple[float, float]:
    """Where a task stands on the axes of the cost's parameter and of the data sets."""
    return _field(task, settings.parameter), _field(task, settings.group)


def _place(run: RunSettings, settings: Assessment) -> tuple[float, ...]:
    return (*data_place(run.task, settings), run.decision_weight, float(run.seed))


def _field(task: Task, name: str | None) -> float:
    return 0.0 if name is None else float(getattr(task, name))


def _failed(run: RunFolder) -> bool:
    state = run.state()
    return state is not None and state.status == "failed"


def _files(name: str, points: Sequence[Point], folder: Path, settings: Assessment) -> list[Path]:
    """Where the evaluation of a run for the cost of each point is kept."""
    state = RunFolder(folder / "runs" / name).state()
    weights = "" if state is None else state.weights_sha256[:8]
    keys = [settings.key(point.run.task) for point in points]
    return [folder / "evaluations" / f"{name}-{weights}-{key}.metrics" for key in keys]


def _kept(name: str, points: Sequence[Point], folder: Path, settings: Assessment) -> list[Arrays] | None:
    found = [_read(file) for file in _files(name, points, folder, settings)]
    return None if any(arrays is None for arrays in found) else cast(list[Arrays], found)


def _evaluated(name: str, points: Sequence[Point], folder: Path, settings: Assessment) -> list[Arrays]:
    """The metrics of a run for the cost of each point, from disk where they were kept."""
    kept = _kept(name, points, folder, settings)
    return _evaluate_and_keep(name, points, folder, settings) if kept is None else kept


def _evaluate_and_keep(name: str, points: Sequence[Point], folder: Path, settings: Assessment) -> list[Arrays]:
    files = _files(name, points, folder, settings)
    files[0].parent.mkdir(parents=True, exist_ok=True)
    evaluated = list(_evaluate(RunFolder(folder / "runs" / name), points, settings))
    for file, arrays in zip(files, evaluated, strict=True):
        content = io.BytesIO()
        np.savez(content, allow_pickle=False, **cast(Any, arrays))
        write_atomically(file, hashlib.sha256(content.getvalue()).digest() + content.getvalue())
    return evaluated


def _read(file: Path) -> Arrays | None:
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


def _evaluate(run: RunFolder, points: Sequence[Point], settings: Assessment) -> Iterator[Arrays]:
    model = cast(Any, run.model()).to(settings.device)
    data = task_data(points[0].run.task)
    test = _forecast(model, data.test, points[0].run.seed, settings)
    validation = _forecast(model, data.validation, points[0].run.seed, settings) if settings.validation else None
    for point in points:
        task = point.run.task
        metrics = Assessor(task.cost, task.regions)(*test)
        if test[1].shape[-1] > 1:  # no figure asks for them, and they are more than all the rest
            del metrics["quantile"]
        if isinstance(task, KnownTruth):
            metrics |= against_truth(task, data.test, metrics["action"].cpu()[:, None])
        if validation is not None:
            judged = Assessor(task.cost)(*validation)
            metrics |= {f"validation_{name}": judged[name].mean() for name in ("cost", "energy_score")}
        yield {name: values.float().cpu().numpy() for name, values in metrics.items()}


def _forecast(model: SampleModel, cases: Cases, seed: int, settings: Assessment) -> tuple[torch.Tensor, torch.Tensor]:
    """Members (N, M, D) with fresh noise for every case, and the outcome."""
    generator = torch.Generator(settings.device).manual_seed(seed)
    members = model.sample(cases.features.to(settings.device), settings.members, generator)
    return members, cases.outcome.to(settings.device)


_TRUTHS: dict[str, Any] = {}


def against_truth(task: KnownTruth, test: Cases, action: torch.Tensor) -> dict[str, torch.Tensor]:
    """The regret of actions (N, 1) under the true distribution, and how far they are from its best ones."""
    truth = _truth(task, test)
    return {"regret": truth.regret(action), "tracking": (action - truth.action).abs().squeeze(-1)}


def _truth(task: Any, test: Cases) -> Any:
    """What the true distribution says of the test cases, kept for the runs that follow."""
    key = canonical_text(to_plain(task))
    if key not in _TRUTHS:
        if len(_TRUTHS) > 8:
            _TRUTHS.clear()
        _TRUTHS[key] = task.truth(test.features)
    return _TRUTHS[key]


def _forecasts(found: Mapping[tuple[float, ...], Arrays]) -> xr.Dataset:
    """All evaluations on common axes, NaN where a point of the grid was not trained or has none."""
    axes = [sorted({place[axis] for place in found}) for axis in range(4)]
    names = list(dict.fromkeys(name for arrays in found.values() for name in arrays))
    some = next(arrays for arrays in found.values() if arrays)
    shape = [len(axis) for axis in axes]
    stacked = {name: np.full((*shape, *some[name].shape), np.nan, np.float32) for name in names}
    for place, arrays in found.items():
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
        variables = {name: ("case", values) for name, values in _of_cases(task).items()}
        test = task_data(task).test
        dataset = xr.Dataset(variables, {"case": np.arange(len(test))})
        parts.append(dataset.expand_dims(parameter=[parameter], group=[group]))
    return xr.combine_by_coords(parts, combine_attrs="drop")  # type: ignore[return-value]


def _of_cases(task: Task) -> dict[str, NDArray[Any]]:
    data = task_data(task)
    test, cost = data.test, task.cost
    climatology = optimal_action(cost, data.train.outcome).expand(len(test), 1)
    found: dict[str, NDArray[Any]] = {
        "outcome": Assessor(cost).total(test.outcome).numpy(),
        "climatology_cost": cost(climatology, test.outcome).numpy(),
    }
    found |= {f"observed_{name}": region(test.outcome).numpy() for name, region in task.regions.items()}
    if test.times is not None:
        found["time"] = test.times
    if test.features.shape[1] == 1:
        found["feature"] = test.features[:, 0].numpy()
    if isinstance(task, KnownTruth):
        found["true_action"] = _truth(task, test).action[:, 0].numpy()
    if hasattr(task, "true_power"):
        found["true_spread"] = cast(Any, task).true_power(test.features).std(-1).numpy()
    return found
