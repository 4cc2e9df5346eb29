"""How long a reproduction takes and how much memory, said before it begins."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from stakes.paper.plan import PlannedStudy
from stakes.training.execution import Execution
from stakes.training.run_settings import RunSettings, task_data

__all__ = ["Effort", "expected_effort"]

# Members per second, through a training step and through one step of sampling, of the paper's networks: on one core of
# an AMD EPYC and on an H200 (docs/benchmarks.md); other machines differ by a factor of a few.
_TRAINED = {
    ("cpu", "implicit"): 4e5,
    ("cpu", "diffusion"): 2.5e5,
    ("cuda", "implicit"): 1.1e8,
    ("cuda", "diffusion"): 5e7,
}
_SAMPLED = {("cpu", "implicit"): 2e6, ("cpu", "diffusion"): 1e6, ("cuda", "implicit"): 5e8, ("cuda", "diffusion"): 2e8}
_UNTIL_BEST = 150  # epochs: a run that stops early has its best epoch about here, and then waits for `patience`
_BYTES = 4
_WORKER, _HERE = 0.6, 1.0  # GiB: a process that trains, and this one


@dataclass(frozen=True)
class Effort:
    """What a reproduction takes.

    Attributes:
        models: How many models are trained.
        minutes: How long that takes.
        memory: GiB of main memory, of all processes together.
    """

    models: int
    minutes: float
    memory: float

    def sentence(self, quick: bool) -> str:
        """What to expect of a whole or a quick run, as one sentence."""
        kind = "a reduced run (--quick)" if quick else "the whole run"
        time = _counted(self.minutes, "minute") if self.minutes < 120 else _counted(self.minutes / 60, "hour")
        memory = f"{self.memory:.0f} GiB of memory"
        return f"{kind} of {_counted(self.models, 'model')}: about {time} and {memory}, if nothing is there yet"


def _counted(number: float, unit: str) -> str:
    return f"{number:.0f} {unit}{'' if round(number) == 1 else 's'}"


def expected_effort(planned: Sequence[PlannedStudy], execution: Execution) -> Effort:
    """Time and memory, from the number of members that pass through the networks; they may be wrong by a factor of two.

    Args:
        planned: What is trained and evaluated; runs that several studies share are counted once.
        execution: On what, and in how many processes.
    """
    device = execution.resolved_device
    seconds, largest = 0.0, 0.0
    names: set[str] = set()
    for study in planned:
        if study.model == "policy":
            continue
        runs = {point.run.name: point.run for point in study.sweep.points if point.run.name not in names}
        names |= set(runs)
        some = next(iter(runs.values()), None)
        if some is None:
            continue
        trained = len(runs) * _training_members(some) / _TRAINED[device, study.model]
        sampled = len(runs) * _sampled_members(some, study.assessment.members) / _SAMPLED[device, study.model]
        processes = execution.processes if device == "cpu" else 1
        seconds += (trained + sampled) / processes
        data = task_data(some.task)
        largest = max(largest, len(data.test) * study.assessment.members * data.test.outcome.shape[1] * _BYTES)
    memory = _HERE + execution.processes * (_WORKER + 3 * largest / 2**30)  # members, and what is made of them
    return Effort(len(names), max(1.0, seconds / 60), memory)


def _training_members(run: RunSettings) -> float:
    settings = run.training
    epochs = min(settings.epochs, settings.patience + _UNTIL_BEST) + settings.pretraining_epochs / 3
    return float(epochs * len(task_data(run.task).train) * settings.members)


def _sampled_members(run: RunSettings, members: int) -> float:
    chain = cast(Any, run.model).steps if run.model.name == "diffusion" else 1
    return float(len(task_data(run.task).test) * members * chain)
