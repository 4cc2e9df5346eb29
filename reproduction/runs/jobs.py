"""A list of jobs in processes on this machine, one per core or one for the GPU; `on_ray` has them on a cluster."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from stakes.argument_checks import require_finite
from stakes.errors import InterruptedTraining, StakesError, WorkerError
from stakes.training import execution
from stakes.training.execution import stop_on_interrupt
from stakes.training.processes import outcomes, stop_asked, tell
from stakes.training.progress import Display, Observer, Phase, Progress

_SECONDS_BETWEEN_MESSAGES = 0.25


class ProgressTeller(Observer):
    """Tells in plain values how far a stack is."""

    def __init__(self, tell: Callable[[dict[str, Any]], None]) -> None:
        self.tell = tell
        self._told = 0.0

    def progressed(self, progress: Progress) -> None:
        now = time.monotonic()
        if now - self._told >= _SECONDS_BETWEEN_MESSAGES or progress.epoch == progress.epochs:
            self._told = now
            self.tell(asdict(progress))

    def resumed(self, phase: Phase, epoch: int, skipped: Sequence[str]) -> None:
        for sentence in skipped:
            self.warn(sentence)

    def warn(self, sentence: str) -> None:
        """Something the user must know."""
        self.tell({"warning": sentence})


class JobDisplay(Display):
    """Shows what jobs tell."""

    def hear(self, stack: str, runs: int, line: dict[str, Any]) -> None:
        """Show what a `ProgressTeller` told of a stack of so many runs."""
        if "warning" in line:
            self.warn(line["warning"])
        else:
            self.progressed(stack, runs, line)

    def ended(self, stack: str) -> None:
        """Take away the bar of a stack."""
        if self.bars is not None and stack in self.tasks:
            self.bars.remove_task(self.tasks.pop(stack))


_CPU_STACK = 9  # replicas that share one pre-training and one process
_GPU_STACK = 256


class Job(Protocol):
    """Work that a process may be given; one that was interrupted goes on from what it left in its folder."""

    @property
    def name(self) -> str:
        """No other job has this name."""

    @property
    def path(self) -> Path:
        """The folder of what belongs to the job."""

    @property
    def size(self) -> int:
        """How many models it trains at once, which its progress is told with."""

    def work(self, device: str, seconds: float, stop: Callable[[], bool], teller: ProgressTeller) -> None:
        """Do it on "cpu" or "cuda", with a checkpoint every so many seconds, until `stop` says yes."""


@dataclass(frozen=True)
class Execution(execution.Execution):
    """Where and how jobs run."""

    checkpoint_seconds: float = 30.0  # the time between checkpoints

    def __post_init__(self) -> None:
        super().__post_init__()
        require_finite("checkpoint_seconds", self.checkpoint_seconds)

    def stack_size(self, runs: int) -> int:
        """How many of so many runs of one shape train as one."""
        largest = _GPU_STACK if self.resolved_device == "cuda" else _CPU_STACK
        return max(1, min(largest, math.ceil(runs / self.processes)))

    def supervise(
        self, jobs: Sequence[Job], folder: Path, stop: Callable[[], bool], display: JobDisplay
    ) -> dict[str, str]:
        """Run jobs until all have ended or `stop` says so; returns the reason for each that failed."""
        calls = {job: (job, self.resolved_device, self.checkpoint_seconds) for job in jobs}
        failures = {}

        def hear(job: Job, line: dict[str, Any]) -> None:
            display.hear(job.name, job.size, line)

        for job, outcome in outcomes(_work_here, calls, self.processes, stop, hear):
            if outcome.error is not None:
                failures[job.name] = _reason(outcome.error)
            display.ended(job.name)
        return failures


def _work_here(job: Job, device: str, seconds: float) -> None:
    """What a process does with a job."""
    with stop_on_interrupt() as interrupted:
        job.work(device, seconds, lambda: interrupted() or stop_asked(), ProgressTeller(tell))


def _reason(error: BaseException) -> str:
    """Why a stack failed, in one sentence."""
    if isinstance(error, InterruptedTraining | WorkerError):
        return f"{error}; a second start resumes it"
    return str(error) if isinstance(error, StakesError) else f"{type(error).__name__}: {error}"


def run_jobs(jobs: Sequence[Job], folder: Path, execution: Execution) -> dict[str, str]:
    """Run jobs where the execution says; returns the reason for each that failed, by its name."""
    if not jobs:
        return {}
    with stop_on_interrupt() as stop, JobDisplay(execution.quiet) as display:
        failures = execution.supervise(jobs, folder, stop, display)
        if stop():
            raise InterruptedTraining("interrupted; everything is saved, and the same command continues from there")
    return failures
