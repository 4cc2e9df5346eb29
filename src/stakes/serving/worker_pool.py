"""Threads for the numbers, a queue that ends, and a time after which nobody waits any longer."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import torch

from stakes.serving.refusals import RefusedError
from stakes.serving.settings import ServiceSettings

__all__ = ["AbandonedError", "GoOn", "WorkerPool"]

T = TypeVar("T")
GoOn = Callable[[], None]
"""To be called now and then by work that takes long; raises `AbandonedError` where nobody waits for it."""


class AbandonedError(Exception):
    """Nobody waits for this work."""


class WorkerPool:
    """Runs work in threads; refuses it with 503 where too much is waiting, and with 504 where it takes too long.

    Args:
        settings: How many threads there are, how much may wait for them and for how long.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        self._timeout = settings.timeout
        self._most = settings.workers + settings.waiting
        self._lock, self._pending = threading.Lock(), 0
        self._threads = ThreadPoolExecutor(settings.workers, "stakes", torch.set_num_threads, (settings.threads_each,))

    @property
    def pending(self) -> int:
        """Work that was accepted and is not done."""
        return self._pending

    async def run(self, work: Callable[[GoOn], T]) -> T:
        """What the work returns."""
        with self._lock:
            if self._pending >= self._most:
                raise RefusedError("", f"{self._pending} requests are waiting already; ask again later", 503)
            self._pending += 1
        abandoned = threading.Event()
        future = self._threads.submit(work, lambda: _go_on(abandoned))
        future.add_done_callback(self._done)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self._timeout)
        except TimeoutError:
            raise RefusedError(
                "", f"there was no answer within {self._timeout:g} seconds; ask for fewer rows or members", 504
            ) from None
        finally:
            abandoned.set()

    def close(self) -> None:
        """No more work; what runs is waited for."""
        self._threads.shutdown(cancel_futures=True)

    def _done(self, future: "Future[T]") -> None:
        with self._lock:
            self._pending -= 1


def _go_on(abandoned: threading.Event) -> None:
    if abandoned.is_set():
        raise AbandonedError
