"""Where training runs, on how many processes, and how it is interrupted."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import ClassVar

import torch

from stakes.argument_checks import require_count, require_one_of
from stakes.errors import SettingError


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


@dataclass(frozen=True)
class Execution:
    """Where and how models are trained; none of it changes a result on the same kind of device."""

    device: str = "auto"  # "cpu", "cuda", or "auto" for the GPU where there is one
    workers: int | None = None  # how many processes train at once; None is one per core, or one on a GPU
    quiet: bool = False  # show no progress
    _without_gpu: ClassVar[str] = "torch finds no CUDA device here"

    def __post_init__(self) -> None:
        require_one_of("device", self.device, ("auto", "cpu", "cuda"))
        if self.workers is not None:
            require_count("workers", self.workers)
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
