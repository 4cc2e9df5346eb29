"""A list of jobs in processes on this machine, one per core or one for the GPU; `on_ray` has them on a cluster."""

import math
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar, Protocol

import torch

from stakes.argument_checks import require_count, require_finite, require_one_of
from stakes.errors import InterruptedTraining, SettingError, StakesError, WorkerError
from stakes.training.processes import outcomes, stop_asked, tell
from stakes.training.progress import Display, ProgressTeller


@contextmanager
def stop_on_interrupt() -> Iterator[Callable[[], bool]]:
    """A function that says whether SIGINT or SIGTERM has come; a second one raises KeyboardInterrupt."""
    asked = threading.Event()

    def ask(number: int, frame: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    if threading.current_thread() is not threading.main_thread():  # only the main thread may set handlers
        yield asked.is_set
        return
    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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
class Execution:
    """Where and how runs are trained; none of it changes a result on the same kind of device."""

    device: str = "auto"  # "cpu", "cuda", or "auto" for the GPU where there is one
    workers: int | None = None  # how many processes train at once; None is one per core, or one on a GPU
    quiet: bool = False  # show no progress
    checkpoint_seconds: float = 30.0  # the time between checkpoints
    _without_gpu: ClassVar[str] = "torch finds no CUDA device here"

    def __post_init__(self) -> None:
        require_one_of("device", self.device, ("auto", "cpu", "cuda"))
        if self.workers is not None:
            require_count("workers", self.workers)
        require_finite("checkpoint_seconds", self.checkpoint_seconds)
        if self.device == "cuda" and not self.gpus:
            raise SettingError(f"device is cuda, but {self._without_gpu}")

    @property
    def cores(self) -> int:
        """The cores this process may use."""
        affinity = getattr(os, "sched_getaffinity", None)  # not on every system
        return len(affinity(0)) if affinity else os.cpu_count() or 1

    @property
    def gpus(self) -> int:
        """GPUs that train a stack each; here at most one."""
        return int(torch.cuda.is_available())

    @property
    def resolved_device(self) -> str:
        """The device without "auto"."""
        if self.device != "auto":
            return self.device
        return "cuda" if self.gpus else "cpu"

    @property
    def processes(self) -> int:
        """How many processes train at once."""
        if self.workers is not None:
            return self.workers
        return self.gpus if self.resolved_device == "cuda" else self.cores

    def stack_size(self, runs: int) -> int:
        """How many of so many runs of one shape train as one."""
        largest = _GPU_STACK if self.resolved_device == "cuda" else _CPU_STACK
        return max(1, min(largest, math.ceil(runs / self.processes)))

    def supervise(
        self, jobs: Sequence[Job], folder: Path, stop: Callable[[], bool], display: Display
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
    with stop_on_interrupt() as stop, Display(execution.quiet) as display:
        failures = execution.supervise(jobs, folder, stop, display)
        if stop():
            raise InterruptedTraining("interrupted; everything is saved, the same command goes on from there")
    return failures
