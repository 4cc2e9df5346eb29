"""Where training and the parts of a job run, on how many processes, and how they are interrupted."""

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, ClassVar, Literal, TypeVar

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


EngineKind = Literal["serial", "processes", "ray"]
Result = TypeVar("Result")


@dataclass(frozen=True)
class Engine:
    """Where the parts of a job are worked on; no result depends on it."""

    kind: EngineKind = "serial"
    workers: int | None = None  # how many parts are worked on at once; None is one per core

    def __post_init__(self) -> None:
        require_one_of("engine", self.kind, ("serial", "processes", "ray"))
        if self.workers is not None:
            require_count("workers", self.workers)

    @property
    def count(self) -> int:
        """How many parts are worked on at once."""
        return self.workers or Execution().cores

    def map(self, function: Callable[..., Result], parts: Iterable[tuple[Any, ...]], *shared: Any) -> Iterator[Result]:
        """The results of `function(*shared, *part)` in the order of the parts."""
        if self.kind == "serial":
            return (function(*shared, *part) for part in parts)
        return self._on_ray(function, parts, shared) if self.kind == "ray" else self._apart(function, parts, shared)

    def _apart(
        self, function: Callable[..., Result], parts: Iterable[tuple[Any, ...]], shared: tuple[Any, ...]
    ) -> Iterator[Result]:
        from stakes.training.processes import called_for_each

        calls = {place: (*shared, *part) for place, part in enumerate(parts)}
        done: dict[int, Result] = {}
        place = 0
        for key, result in called_for_each(function, calls, self.count):
            done[key] = result
            while place in done:
                yield done.pop(place)
                place += 1

    def _on_ray(
        self, function: Callable[..., Result], parts: Iterable[tuple[Any, ...]], shared: tuple[Any, ...]
    ) -> Iterator[Result]:
        """A worker that dies loses nothing: its part is worked on again by another one."""
        try:
            import ray
        except ImportError:
            raise SettingError('the engine ray needs Ray: pip install "stakes[ray]"') from None
        if not ray.is_initialized():
            os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # which it would warn of
            os.environ.setdefault("RAY_worker_niceness", "0")  # 15, its default, starves workers on a busy machine
            try:
                ray.init(address="auto", log_to_driver=False)
            except ConnectionError:
                ray.init(num_cpus=self.count, include_dashboard=False, log_to_driver=False)
        at_once = 2 * (self.workers or max(1, int(ray.cluster_resources().get("CPU", 1))))
        given, call = ray.put((function, shared)), ray.remote(_called).options(max_retries=10)
        waiting: deque[Any] = deque()
        try:
            for part in parts:
                if len(waiting) >= at_once:
                    yield ray.get(waiting.popleft())
                waiting.append(call.remote(given, part))
            while waiting:
                yield ray.get(waiting.popleft())
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None


SERIAL = Engine()
"""In this process, one part after the other."""


def _called(given: tuple[Callable[..., Any], tuple[Any, ...]], part: tuple[Any, ...]) -> Any:
    function, shared = given
    return function(*shared, *part)
