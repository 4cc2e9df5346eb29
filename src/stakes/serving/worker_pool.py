"""Workers for the numbers, a queue that ends, and a time after which a worker is killed."""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from queue import LifoQueue

from stakes.errors import WorkerError
from stakes.serving.refusals import RefusedError
from stakes.serving.settings import ServiceSettings
from stakes.serving.worker_processes import Answering, Nursery, Reply, WorkerProcess

__all__ = ["WorkerPool"]

_LARGE = 1 << 17  # bytes of a body or an answer, after which a worker is not used again: Python keeps the memory


class WorkerPool:
    """Has requests answered by processes; refuses with 503 where too much is waiting, and with 504 after the time-out.

    Args:
        make: Makes what answers requests, once; workers are copies of it.
        settings: How many workers there are, how much may wait for them and for how long.
    """

    def __init__(self, make: Callable[[], Answering], settings: ServiceSettings) -> None:
        self._make, self._settings = make, settings
        self._counting, self._pending = threading.Lock(), 0
        self._starting, self._nursery, self._closed = threading.Lock(), Nursery(make), False
        self._threads = ThreadPoolExecutor(settings.workers, "stakes")  # each waits for a worker
        self._idle: LifoQueue[WorkerProcess | None] = LifoQueue()  # None in place of one that was killed
        for _ in range(settings.workers):
            self._idle.put(self._worker())

    @property
    def pending(self) -> int:
        """Requests that were accepted and are not answered."""
        return self._pending

    async def ask(self, name: str, content: bytes | bytearray) -> Reply:
        """The reply of a worker.

        Args:
            name: Which question it is.
            content: The body of the request.
        """
        with self._counting:
            if self._pending >= self._settings.workers + self._settings.waiting:
                raise RefusedError("", f"{self._pending} requests are waiting already; ask again later", 503)
            self._pending += 1
        deadline = time.monotonic() + self._settings.timeout
        future = self._threads.submit(self._answered, name, content, deadline)
        future.add_done_callback(self._done)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self._settings.timeout)
        except TimeoutError:
            raise RefusedError(
                "",
                f"there was no answer within {self._settings.timeout:g} seconds; ask for fewer rows or members",
                504,
            ) from None

    def close(self) -> None:
        """Kill the workers, whatever they do."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._starting:
            self._closed = True
            self._nursery.end()
        self._threads.shutdown()

    def _answered(self, name: str, content: bytes | bytearray, deadline: float) -> Reply:
        worker, used_up = self._idle.get(), True
        try:
            if worker is not None and worker.has_ended:  # killed by the system, say, while nothing was asked
                worker.end()
                worker = None
            worker = worker or self._worker()
            reply = worker.ask(name, content, deadline - time.monotonic())
            used_up = max(len(content), len(reply.content)) > _LARGE
            return reply
        finally:
            if used_up and worker is not None:
                worker.end()
            self._idle.put(None if used_up else worker)

    def _worker(self) -> WorkerProcess:
        with self._starting:
            try:
                return self._nursery.worker()
            except WorkerError:
                if self._closed:
                    raise
                self._nursery.end()
                self._nursery = Nursery(self._make)
                return self._nursery.worker()

    def _done(self, future: "Future[Reply]") -> None:
        with self._counting:
            self._pending -= 1
