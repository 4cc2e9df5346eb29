"""Where and how the runs of a sweep are trained: in processes on this machine, one per core or one for the GPU."""

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch

from stakes.errors import InterruptedTraining, SettingError, StakesError, WorkerError
from stakes.method.argument_checks import require_count, require_finite, require_one_of
from stakes.training.interrupts import stop_on_interrupt
from stakes.training.processes import outcomes, stop_asked, tell
from stakes.training.progress import Display
from stakes.training.stacks import ProgressTeller, Stack, train_stack

__all__ = ["Execution", "train_stacks"]

_CPU_STACK = 9  # replicas that share one pre-training and one process
_GPU_STACK = 256


@dataclass(frozen=True)
class Execution:
    """Where and how runs are trained; none of it changes a result on the same kind of device.

    Attributes:
        device: "cpu", "cuda", or "auto" for the GPU where there is one.
        workers: How many processes train at once; None is one per core, or one on a GPU.
        quiet: Show no progress.
        checkpoint_seconds: The time between checkpoints.
    """

    device: str = "auto"
    workers: int | None = None
    quiet: bool = False
    checkpoint_seconds: float = 30.0
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

    def resumption(self, sweep: Path) -> str:
        """How an interrupted sweep goes on."""
        return f"`stakes resume {sweep}`"

    def supervise(self, stacks: Sequence[Stack], stop: Callable[[], bool], display: Display) -> dict[str, str]:
        """Train stacks until all have ended or `stop` says so; returns the reason for each that failed."""
        calls = {stack: (stack, self.resolved_device, self.checkpoint_seconds) for stack in stacks}
        failures = {}

        def hear(stack: Stack, line: dict[str, Any]) -> None:
            display.hear(stack.name, len(stack.runs), line)

        for stack, outcome in outcomes(_train_here, calls, self.processes, stop, hear):
            if outcome.error is not None:
                failures[stack.name] = _reason(outcome.error)
            display.ended(stack.name)
        return failures


def _train_here(stack: Stack, device: str, seconds: float) -> None:
    """What a process does with a stack."""
    with stop_on_interrupt() as interrupted:
        train_stack(stack, device, seconds, lambda: interrupted() or stop_asked(), ProgressTeller(tell))


def _reason(error: BaseException) -> str:
    """Why a stack failed, in one sentence."""
    if isinstance(error, InterruptedTraining | WorkerError):
        return f"{error}; a second start resumes it"
    return str(error) if isinstance(error, StakesError) else f"{type(error).__name__}: {error}"


def train_stacks(stacks: Sequence[Stack], execution: Execution) -> dict[str, str]:
    """Train stacks where the execution says; returns the reason for each that failed, by its name.

    Args:
        stacks: Stacks of one sweep.
        execution: Where and how.
    """
    if not stacks:
        return {}
    with stop_on_interrupt() as stop, Display(execution.quiet) as display:
        failures = execution.supervise(stacks, stop, display)
        if stop():
            again = execution.resumption(stacks[0].sweep)
            raise InterruptedTraining(f"interrupted; everything is saved, {again} goes on from there")
    return failures
