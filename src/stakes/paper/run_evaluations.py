"""Every trained run sampled on the test cases: what its decisions cost, case by case.

What a run gave is kept in the folder of the sweep, so that an evaluation that was interrupted goes on where it was.
"""

import hashlib
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stakes.data.cases import Cases
from stakes.evaluation.member_order import error_ranks, reordered
from stakes.evaluation.metrics import Assessor
from stakes.evaluation.task_forecasts import sampled_members, task_metrics
from stakes.files import write_atomically
from stakes.method.scores import PointwiseCRPS
from stakes.settings import canonical_text, to_plain
from stakes.tasks.task import Task
from stakes.training.processes import called_for_each
from stakes.training.run_folder import RunFolder
from stakes.training.run_settings import task_data
from stakes.training.sweep import Point, Sweep

__all__ = ["METRICS_VERSION", "Assessment", "MetricArrays", "ProgressListener", "evaluate_runs"]
__all__ += ["evaluated_run", "has_failed", "points_by_run"]

METRICS_VERSION = 2  # evaluations kept by other versions are made again
_DIGEST = hashlib.sha256().digest_size

MetricArrays = dict[str, NDArray[np.float32]]
"""The metrics of one run by name: (cases,), quantiles (cases, levels), and means over the validation cases ()."""

ProgressListener = Callable[[int, int], None]
"""Is told how many are done, of how many."""


@dataclass(frozen=True)
class Assessment:
    """How a sweep is evaluated: which of its axes is the cost's parameter and which the data set, and with what.

    Attributes:
        members: How many members each forecast has.
        parameter: The field of the task that is the cost's parameter; None where there is one cost.
        group: The field of the task that tells its data sets apart; None where there is one.
        block: How many neighbouring cases depend on each other, for intervals.
        validation: Whether to take the mean cost and energy score on the validation cases too, by which a weight
            can be chosen.
        shuffled: Whether members of the sites are put together as the errors on training cases went together (the
            Schaake shuffle), instead of as the model drew them.
        device: Where models are sampled, "cpu" or "cuda".
        processes: How many runs are evaluated at once.
    """

    members: int = 500
    parameter: str | None = None
    group: str | None = None
    block: int = 1
    validation: bool = False
    shuffled: bool = field(default=False, metadata={"later": True})
    device: str = "cpu"
    processes: int = 1

    def key(self, task: Task) -> str:
        """What a kept evaluation depends on, besides the run."""
        values = [METRICS_VERSION, self.members, self.validation, self.shuffled, to_plain(task)]
        return hashlib.sha256(canonical_text(values).encode()).hexdigest()[:12]


def evaluate_runs(
    sweeps: Sequence[tuple[Sweep, Assessment]], folder: Path, processes: int = 1, report: ProgressListener | None = None
) -> None:
    """Evaluate the trained runs of some sweeps in one folder, and keep what came of it for `assess`.

    Args:
        sweeps: Each with how it is evaluated.
        folder: The folder in which they were trained.
        processes: How many runs are evaluated at once.
        report: Called after every run.
    """
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
    """The metrics of a run for the cost of each point, from disk where they were kept.

    Args:
        name: The name of the run.
        points: The points of the sweep that the run stands for.
        folder: The folder in which the sweep was trained.
        settings: How it is evaluated.
    """
    kept = _kept(name, points, folder, settings)
    return _evaluate_and_keep(name, points, folder, settings) if kept is None else kept


def points_by_run(sweep: Sweep) -> dict[str, list[Point]]:
    """The points of each run by its name; at weight 0 there is one for every cost parameter.

    Args:
        sweep: The sweep.
    """
    points: dict[str, list[Point]] = {}
    for point in sweep.points:
        points.setdefault(point.run.name, []).append(point)
    return points


def has_failed(run: RunFolder) -> bool:
    """Whether the training of a run ended in failure.

    Args:
        run: The folder of the run.
    """
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


def _sampled(model: Any, cases: Cases, point: Point, settings: Assessment, ranks: Any = None) -> Tensor:
    """The members of some cases, put together by the ranks of error vectors where there are such."""
    members = sampled_members(model, cases, settings.members, point.run.seed, settings.device)
    return members if ranks is None else torch.from_numpy(reordered(members.cpu().numpy(), ranks)).to(members)


def _shuffle(model: Any, point: Point, settings: Assessment) -> Any:
    """The ranks of error vectors of the training cases."""
    train = task_data(point.run.task).train
    return error_ranks(_sampled(model, train, point, settings).cpu().numpy(), train.outcome.numpy())
