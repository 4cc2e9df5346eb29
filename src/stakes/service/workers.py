"""Workers for the numbers, a queue that ends, and a time-out after which a worker is killed."""

import asyncio
import json
import os
import pickle
import signal
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection
from queue import LifoQueue
from typing import NamedTuple, Protocol

import cloudpickle

from stakes.errors import WorkerError
from stakes.service.schemas import RequestError
from stakes.service.server import ServiceSettings
from stakes.training.processes import start_interpreter

_FORK = b"f"
_ENTRY = "stakes.service.workers:fork_workers"


class Reply(NamedTuple):
    """What a worker makes of a request."""

    status: int  # of HTTP
    content: bytes  # the body of the response, JSON
    fault: str = ""  # the traceback of a fault of ours, for the log; empty where there is none


class Answering(Protocol):
    """What answers requests in a worker."""

    def __call__(self, name: str, content: bytes) -> Reply:
        """The reply to a request."""
        ...


class WorkerProcess:
    """A process that answers one request after the other."""

    def __init__(self, process: int, connection: Connection) -> None:
        self._process, self._connection = process, connection

    @property
    def has_ended(self) -> bool:
        """Whether it has ended by itself; nothing else can be heard of one that is asked nothing."""
        return self._connection.poll()

    def ask(self, name: str, content: bytes | bytearray, seconds: float) -> Reply:
        """The reply, or `TimeoutError` where it takes too long, or `WorkerError` where the process ends instead."""
        try:
            self._connection.send_bytes(name.encode())
            self._connection.send_bytes(content)
            if not self._connection.poll(max(0.0, seconds)):
                raise TimeoutError
            status, fault = json.loads(self._connection.recv_bytes())
            return Reply(status, self._connection.recv_bytes(), fault)
        except (EOFError, ConnectionError) as error:
            raise WorkerError("a process that answers requests has ended") from error

    def end(self) -> None:
        """Kill it, whatever it does; one that has ended by itself is left alone."""
        with suppress(OSError):
            if not self.has_ended:  # it holds its end of the connection: the number is its own still
                os.kill(self._process, signal.SIGKILL)
        self._connection.close()


class ForkServer:
    """The process that workers are forked from."""

    def __init__(self, make: Callable[[], Answering]) -> None:
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = start_interpreter(_ENTRY, theirs.fileno(), {})
        packed = cloudpickle.dumps(make)
        with suppress(OSError):  # that it has ended is noticed when a worker is wanted
            self._control.sendall(len(packed).to_bytes(8, "big"))
            self._control.sendall(packed)

    def worker(self) -> WorkerProcess:
        """A new worker; raises `WorkerError` where this process has ended."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                socket.send_fds(self._control, [_FORK], [theirs.fileno()])
            process = int.from_bytes(_received(self._control, 8), "big")
        except OSError as error:
            ours.close()
            raise WorkerError("the process that starts those that answer requests has ended") from error
        return WorkerProcess(process, Connection(ours.detach()))

    def end(self) -> None:
        """Kill it and all its workers."""
        self._control.close()
        self._process.wait()


def _received(line: socket.socket, size: int) -> bytes:
    """So many bytes, or `ConnectionError` where the other end has gone."""
    parts = bytearray()
    while len(parts) < size:
        part = line.recv(min(size - len(parts), 1 << 20))
        if not part:
            raise ConnectionError("the connection has ended")
        parts += part
    return bytes(parts)


# In the other processes


def fork_workers() -> None:
    """Fork a worker whenever the process at the other end of the standard input wishes; end with it."""
    control = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the workers
    try:
        _fork_on_demand(control)
    finally:
        os.killpg(0, signal.SIGKILL)


def _fork_on_demand(control: socket.socket) -> None:
    answer = pickle.loads(_received(control, int.from_bytes(_received(control, 8), "big")))()
    while True:
        wish, lines, _, _ = socket.recv_fds(control, 1, 1)
        if not wish:
            return
        process = os.fork()
        if not process:
            control.close()
            _answer_all(answer, Connection(lines[0]))
            os._exit(0)
        os.close(lines[0])
        control.sendall(process.to_bytes(8, "big"))


def _answer_all(answer: Answering, connection: Connection) -> None:
    """Answer what is asked until nobody asks any more."""
    with suppress(EOFError, OSError):
        while True:
            name, content = connection.recv_bytes().decode(), connection.recv_bytes()
            reply = answer(name, content)
            connection.send_bytes(json.dumps([reply.status, reply.fault]).encode())
            connection.send_bytes(reply.content)


_LARGE = 1 << 17  # bytes of a body or an answer, after which a worker is not used again: Python keeps the memory


class WorkerPool:
    """Has requests answered by processes; refuses with 503 where too much waits, with 504 after the time-out."""

    def __init__(self, make: Callable[[], Answering], settings: ServiceSettings) -> None:
        self._make, self._settings = make, settings
        self._counting, self._pending = threading.Lock(), 0
        self._starting, self._fork_server, self._closed = threading.Lock(), ForkServer(make), False
        self._threads = ThreadPoolExecutor(settings.workers, "stakes")  # each waits for a worker
        self._idle: LifoQueue[WorkerProcess | None] = LifoQueue()  # None in place of one that was killed
        for _ in range(settings.workers):
            self._idle.put(self._worker())

    @property
    def pending(self) -> int:
        """Requests that were accepted and are not answered."""
        return self._pending

    async def ask(self, name: str, content: bytes | bytearray) -> Reply:
        """The reply of a worker."""
        with self._counting:
            if self._pending >= self._settings.workers + self._settings.waiting:
                raise RequestError("", f"{self._pending} requests are waiting already; try again later", 503)
            self._pending += 1
        deadline = time.monotonic() + self._settings.timeout
        future = self._threads.submit(self._answered, name, content, deadline)
        future.add_done_callback(self._done)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self._settings.timeout)
        except TimeoutError:
            raise RequestError(
                "",
                f"there was no answer within {self._settings.timeout:g} seconds; ask for fewer rows or members",
                504,
            ) from None

    def close(self) -> None:
        """Kill the workers, whatever they do."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._starting:
            self._closed = True
            self._fork_server.end()
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
                return self._fork_server.worker()
            except WorkerError:
                if self._closed:
                    raise
                self._fork_server.end()
                self._fork_server = ForkServer(self._make)
                return self._fork_server.worker()

    def _done(self, future: "Future[Reply]") -> None:
        with self._counting:
            self._pending -= 1
