"""Stacks of runs on this machine: one worker process a core, or one for the GPU.

A worker is `python -m stakes.training.worker STACK`. It tells its progress in lines of JSON on its standard output, and
ends with a checkpoint when it gets SIGINT or when its standard input closes because this process is gone.
"""

import hashlib
import json
import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, Queue
from typing import IO, Any, ClassVar

import torch

from stakes.errors import InterruptedTraining, SettingError
from stakes.method.argument_checks import require_count, require_finite, require_one_of
from stakes.training.interrupts import stop_on_interrupt
from stakes.training.progress import Display
from stakes.training.run_folder import RunFolder

__all__ = ["MEMORY", "Execution", "Stack", "train_stacks"]

_CPU_STACK = 9  # replicas that share one pre-training and one worker
_GPU_STACK = 256
MEMORY = {  # for the GNU allocator: keep what is freed; the tensors of one step are those of the next
    "MALLOC_MMAP_THRESHOLD_": "33554432",
    "MALLOC_TRIM_THRESHOLD_": "1073741824",
    "MALLOC_TOP_PAD_": "67108864",
}


@dataclass(frozen=True)
class Execution:
    """Where and how runs are trained; none of it changes a result on the same kind of device."""

    device: str = "auto"
    workers: int | None = None  # processes at once
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
        if self.device != "auto":
            return self.device
        return "cuda" if self.gpus else "cpu"

    @property
    def processes(self) -> int:
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

    def supervise(self, waiting: "list[Stack]", stop: Callable[[], bool], display: Display) -> dict[str, str]:
        """Train stacks until all have ended or `stop` says so; returns the reason for each that failed."""
        return _supervise(waiting, self, stop, display)


@dataclass(frozen=True)
class Stack:
    """Runs that train as one, in the folder of a sweep."""

    sweep: Path
    runs: tuple[str, ...]

    @property
    def name(self) -> str:
        return hashlib.sha256("\n".join(self.runs).encode()).hexdigest()[:10]

    @property
    def path(self) -> Path:
        return self.sweep / "stacks" / self.name

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    def folders(self) -> list[RunFolder]:
        return [RunFolder(self.sweep / "runs" / name) for name in self.runs]


@dataclass
class _Worker:
    """A process that trains a stack, and what it last said."""

    stack: Stack
    process: subprocess.Popen[str]
    errors: list[str] = field(default_factory=list)

    def end(self) -> int:
        """Wait for the process and let go of its pipes; returns its exit code."""
        code = self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        return code


def train_stacks(stacks: Sequence[Stack], execution: Execution) -> dict[str, str]:
    """Train stacks where the execution says; returns the reason for each that failed."""
    if not stacks:
        return {}
    with stop_on_interrupt() as stop, Display(execution.quiet) as display:
        failures = execution.supervise(list(stacks), stop, display)
        if stop():
            again = execution.resumption(stacks[0].sweep)
            raise InterruptedTraining(f"interrupted; everything is saved, {again} goes on from there")
    return failures


def _supervise(
    waiting: list[Stack], execution: Execution, stop: Callable[[], bool], display: Display
) -> dict[str, str]:
    said: Queue[tuple[_Worker, dict[str, Any] | None]] = Queue()
    running: list[_Worker] = []
    failures: dict[str, str] = {}
    told = False
    try:
        while running or (waiting and not stop()):
            while waiting and len(running) < execution.processes and not stop():
                running.append(_start(waiting.pop(0), execution, said))
            if stop() and not told:
                told = True
                _interrupt(running)
            message = _next(said)
            if message is None:
                continue
            worker, line = message
            if line is not None:
                _hear(worker, line, display)
                continue
            running.remove(worker)
            code = worker.end()
            if code and not (code == 130 and stop()):
                failures[worker.stack.name] = worker.errors[-1] if worker.errors else _ending(code)
            display.ended(worker.stack.name)
    finally:
        for worker in running:  # only where this process was interrupted a second time
            worker.process.kill()
            worker.process.wait()
    return failures


def _start(stack: Stack, execution: Execution, said: "Queue[tuple[_Worker, dict[str, Any] | None]]") -> _Worker:
    options = ["--device", execution.resolved_device, "--checkpoint-seconds", str(execution.checkpoint_seconds)]
    process = subprocess.Popen(
        [sys.executable, "-m", "stakes.training.worker", str(stack.sweep), *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C reaches this process, which passes it on
        env={**MEMORY, **os.environ},
    )
    assert process.stdin is not None
    with suppress(BrokenPipeError):  # a worker that is dead already is noticed by its end
        process.stdin.write(json.dumps(stack.runs) + "\n")
        process.stdin.flush()  # and stays open: its end would tell the worker that we are gone
    worker = _Worker(stack, process)
    complaints = threading.Thread(target=_listen_to_errors, args=(worker,), daemon=True)
    complaints.start()
    threading.Thread(target=_listen, args=(worker, said, complaints), daemon=True).start()
    return worker


def _listen(
    worker: _Worker, said: "Queue[tuple[_Worker, dict[str, Any] | None]]", complaints: threading.Thread
) -> None:
    for line in worker.process.stdout or ():
        try:
            said.put((worker, json.loads(line)))
        except ValueError:
            worker.errors.append(line.strip())
    complaints.join()
    said.put((worker, None))


def _listen_to_errors(worker: _Worker) -> None:
    stream: IO[str] | tuple[()] = worker.process.stderr or ()
    for line in stream:
        if line.strip():
            worker.errors.append(line.strip())
            del worker.errors[:-20]


def _next(said: "Queue[tuple[_Worker, dict[str, Any] | None]]") -> tuple[_Worker, dict[str, Any] | None] | None:
    """The next thing a worker said, or None so that an interrupt is seen soon."""
    try:
        return said.get(timeout=0.2)
    except Empty:
        return None


def _hear(worker: _Worker, line: dict[str, Any], display: Display) -> None:
    if "error" in line:
        worker.errors.append(line["error"])
    elif "warning" in line:
        display.warn(line["warning"])
    else:
        display.progressed(worker.stack.name, len(worker.stack.runs), line)


def _interrupt(running: Sequence[_Worker]) -> None:
    for worker in running:
        worker.process.send_signal(signal.SIGINT)  # does nothing to a process that has ended


def _ending(code: int) -> str:
    if code < 0:
        return f"its process was ended by {signal.Signals(-code).name}; a second start resumes it"
    return f"its process ended with exit code {code}; a second start resumes it"
