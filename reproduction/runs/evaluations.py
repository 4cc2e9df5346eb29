"""Trained runs evaluated on the test cases of their task: metrics case by case, kept on disk.

Nothing here needs more than torch and numpy, so that a machine that only trains can evaluate too.
"""

import hashlib
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reproduction.runs.folder import RunFolder
from reproduction.runs.settings import RunSettings, task_data
from reproduction.runs.sweep import Point, Sweep
from reproduction.tasks.task import KnownTruth, Task
from stakes.actions.climatology import climatology_action
from stakes.actions.scalar_solvers import ProjectedGradient, Solver
from stakes.costs.cost import outcome_total
from stakes.costs.member_weights import case_parts
from stakes.data.case_table import CaseTable
from stakes.evaluation.metrics import Assessor, Metrics
from stakes.files import write_atomically
from stakes.forecasting.copula import error_ranks, reordered
from stakes.models.sample_model import SampleModel
from stakes.scores.decision_score import realised_cost
from stakes.scores.scoring_rules import PointwiseCRPS
from stakes.settings import canonical_text, to_plain
from stakes.training.processes import called_for_each

METRICS_VERSION = 3  # evaluations kept by other versions are made again
_LEFT_OUT = ("gap", "miscalibration", "pit", "spread_")
_COARSE = ("quantile", "mass_", "gradient_", "quartiles_", "interior")
_FEWEST = 8  # members, of which quartiles are taken
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
    solver_steps: int | None = None  # of projected gradient descent for the actions; None for exact ones
    device: str = "cpu"  # where models are sampled, "cpu" or "cuda"
    processes: int = 1  # how many runs are evaluated at once

    def key(self, task: Task) -> str:
        """What a kept evaluation depends on, besides the run."""
        values = [METRICS_VERSION, self.members, self.validation, self.shuffled, self.solver_steps, to_plain(task)]
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
    packed = [_packed(arrays) for arrays in evaluated]
    for file, arrays in zip(files, packed, strict=True):
        content = io.BytesIO()
        np.savez_compressed(content, allow_pickle=False, **cast(Any, arrays))
        write_atomically(file, hashlib.sha256(content.getvalue()).digest() + content.getvalue())
    return [_unpacked(arrays) for arrays in packed]


def _packed(arrays: MetricArrays) -> dict[str, NDArray[Any]]:
    """What is kept: half precision where it is enough, and nothing that follows from the rest."""
    kept = {name: values for name, values in arrays.items() if not name.startswith(_LEFT_OUT)}
    return {name: values.astype(np.float16) if name.startswith(_COARSE) else values for name, values in kept.items()}


def _unpacked(arrays: Mapping[str, NDArray[Any]]) -> MetricArrays:
    single = {name: values.astype(np.float32) for name, values in arrays.items()}
    gap = single["expected_cost"] - single["cost"]
    return single | {"gap": gap, "miscalibration": np.abs(gap)}


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
        return _unpacked(archive)


def _evaluate(run: RunFolder, points: Sequence[Point], settings: Assessment) -> Iterator[MetricArrays]:
    model = cast(Any, run.model()).to(settings.device)
    data = task_data(points[0].run.task)
    arranged = _shuffle(model, points[0], settings) if settings.shuffled else None
    test = _sampled(model, data.test, points[0], settings, arranged)
    validation = _sampled(model, data.validation, points[0], settings, arranged) if settings.validation else None
    for point in points:
        task = point.run.task
        steps = settings.solver_steps
        metrics = task_metrics(task, data.test, test, None if steps is None else ProjectedGradient(steps))
        if test.shape[-1] > 1:  # no figure asks for them, and they are more than all the rest
            del metrics["quantile"]
            metrics["crps_of_sites"] = PointwiseCRPS()(test, data.test.outcome.to(settings.device))
        if validation is not None:
            judged = Assessor(task.cost)(validation, data.validation.outcome.to(settings.device))
            metrics |= {f"validation_{name}": judged[name].mean() for name in ("cost", "energy_score")}
        state = run.state()
        assert state is not None  # or there is no model
        metrics["validation_best_epoch"] = torch.tensor(float(state.best_epoch))
        yield {name: values.float().cpu().numpy() for name, values in metrics.items()}


def _sampled(model: Any, cases: CaseTable, point: Point, settings: Assessment, ranks: Any = None) -> Tensor:
    """The members of some cases, put together by the ranks of error vectors where there are such."""
    members = sampled_members(model, cases, settings.members, point.run.seed, settings.device)
    return members if ranks is None else torch.from_numpy(reordered(members.cpu().numpy(), ranks)).to(members)


def _shuffle(model: Any, point: Point, settings: Assessment) -> Any:
    """The ranks of error vectors of the training cases."""
    train = task_data(point.run.task).train
    return error_ranks(_sampled(model, train, point, settings).cpu().numpy(), train.outcome.numpy())


def place_of_task(task: Task, settings: Assessment) -> tuple[float, float]:
    """Where a task stands on the axes of the cost's parameter and of the data sets; 0 on an axis that is not there."""
    return _field(task, settings.parameter), _field(task, settings.group)


def place_of_run(run: RunSettings, settings: Assessment) -> tuple[float, ...]:
    return (*place_of_task(run.task, settings), run.decision_weight, float(run.seed))


def _field(task: Task, name: str | None) -> float:
    return 0.0 if name is None else float(getattr(task, name))


_TRUTHS: dict[str, Any] = {}


def sampled_members(model: SampleModel, cases: CaseTable, members: int, seed: int, device: str = "cpu") -> Tensor:
    """Members (N, M, D) with fresh noise for every case."""
    generator = torch.Generator(device).manual_seed(seed)
    return model.sample(cases.features.to(device), members, generator)


def task_metrics(task: Task, cases: CaseTable, members: Tensor, solver: Solver | None = None) -> Metrics:
    """The metrics (N,) of forecasts for the cost and regions of a task, and against the truth where it is known."""
    outcome = cases.outcome.to(members.device)
    metrics = Assessor(task.cost, task.regions, solver=solver)(members, outcome)
    if members.shape[-1] == 1:
        parts = [metrics_by_member(task, members[rows], outcome[rows]) for rows in case_parts(members)]
        metrics |= {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    if isinstance(task, KnownTruth):
        metrics |= against_truth(task, cases, metrics["action"].cpu()[:, None])
    return metrics


def metrics_by_member(task: Task, members: Tensor, outcome: Tensor) -> Metrics:
    """What the members that lie in each region are like, wherever the outcome was, (N,).

    `gradient_NAME` is the sum of |d cost / d member| over those in the region, `quartiles_NAME` how far their upper
    quartile lies above the lower one; NaN of fewer than eight.
    """
    watched = members.clone().requires_grad_()
    with torch.enable_grad():
        (pull,) = torch.autograd.grad(realised_cost(task.cost, watched, outcome).cost.sum(), watched)
    metrics = {}
    for name, region in task.regions.items():
        inside = region(members)  # (N, M)
        metrics[f"gradient_{name}"] = torch.where(inside, pull[..., 0].abs(), 0.0).sum(-1)
        ordered = torch.where(inside, members[..., 0], torch.inf).sort(-1).values
        lower, upper = (_quantile_of_first(ordered, inside.sum(-1), level) for level in (0.25, 0.75))
        metrics[f"quartiles_{name}"] = torch.where(inside.sum(-1) < _FEWEST, torch.nan, upper - lower)
    return metrics


def _quantile_of_first(ordered: Tensor, count: Tensor, level: float) -> Tensor:
    """A quantile of the first `count` (N,) of sorted values (N, M), between the order statistics."""
    place = (count * level - 0.5).clamp(min=0.0)
    last = (count - 1).clamp(min=0)
    lower = place.floor().long().clamp(max=last)
    ends = torch.stack([lower, (lower + 1).clamp(max=last)], -1)
    low, high = ordered.gather(-1, ends).unbind(-1)
    return low + (place - lower) * (high - low)


def known_of_test_cases(task: Task) -> dict[str, NDArray[Any]]:
    """What is known of the test cases without any forecast, each (N,).

    The outcome, what the constant action that was best for the training outcomes costs, and `observed_NAME` for every
    region; the time, the only feature and the truth where there are such.
    """
    data = task_data(task)
    test, cost = data.test, task.cost
    climatology = climatology_action(cost, data.train.outcome).expand(len(test), -1)
    values: dict[str, NDArray[Any]] = {
        "outcome": outcome_total(cost, test.outcome).numpy(),
        "climatology_cost": cost(climatology, test.outcome).numpy(),
    }
    values |= {f"observed_{name}": region(test.outcome).numpy() for name, region in task.regions.items()}
    if test.times is not None:
        values["time"] = test.times
    if test.features.shape[1] == 1:
        values["feature"] = test.features[:, 0].numpy()
    if isinstance(task, KnownTruth):
        values["true_action"] = truth_of(task, test).action[:, 0].numpy()
    if hasattr(task, "true_power"):
        values["true_spread"] = cast(Any, task).true_power(test.features).std(-1).numpy()
    return values


def against_truth(task: KnownTruth, test: CaseTable, action: Tensor) -> dict[str, Tensor]:
    """The regret of actions under the true distribution, and how far they are from its best ones, each (N,)."""
    truth = truth_of(task, test)
    return {"regret": truth.regret(action), "tracking": (action - truth.action).abs().squeeze(-1)}


def truth_of(task: Any, test: CaseTable) -> Any:
    """What the true distribution says of the test cases, kept for the runs that follow."""
    key = canonical_text(to_plain(task))
    if key not in _TRUTHS:
        if len(_TRUTHS) > 8:
            _TRUTHS.clear()
        _TRUTHS[key] = task.truth(test.features)
    return _TRUTHS[key]
