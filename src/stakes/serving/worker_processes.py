"""Processes that answer requests and can be killed at any moment, in the middle of whatever a request made them do.

A fresh interpreter, the nursery, holds what is served and computes nothing, so that it has one thread and may fork: a
worker is a copy of it, there within milliseconds, however often one is killed. All of them end with the service: the
nursery leads a session of its own, which it kills when its connection to the service closes.
"""

import json
import os
import pickle
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import NamedTuple, Protocol

import cloudpickle  # type: ignore[import-untyped]

from stakes.errors import WorkerError
from stakes.training.processes import start_interpreter

__all__ = ["Answering", "Nursery", "Reply", "WorkerProcess", "be_a_nursery"]

_FORK = b"f"
_ENTRY = "stakes.serving.worker_processes:be_a_nursery"


class Reply(NamedTuple):
    """What a worker makes of a request.

    Attributes:
        status: Of HTTP.
        content: The body of the response, JSON.
        fault: The traceback of a fault of ours, for the log; empty where there is none.
    """

    status: int
    content: bytes
    fault: str = ""


class Answering(Protocol):
    """What answers requests in a worker."""

    def __call__(self, name: str, content: bytes) -> Reply:
        """The reply to a request.

        Args:
            name: Which question it is.
            content: The body of the request.
        """
        ...


class WorkerProcess:
    """A process that answers one request after the other.

    Args:
        process: Its number.
        connection: What it hears and says.
    """

    def __init__(self, process: int, connection: Connection) -> None:
        self._process, self._connection = process, connection

    @property
    def has_ended(self) -> bool:
        """Whether it has ended by itself; nothing else can be heard of one that is asked nothing."""
        return self._connection.poll()

    def ask(self, name: str, content: bytes | bytearray, seconds: float) -> Reply:
        """The reply, or `TimeoutError` where it takes too long, or `WorkerError` where the process ends instead.

        Args:
            name: Which question it is.
            content: The body of the request.
            seconds: How long to wait.
        """
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


class Nursery:
    """The process that workers are forked from.

    Args:
        make: Makes what answers requests, once, in the nursery, where it must not start threads.
    """

    def __init__(self, make: Callable[[], Answering]) -> None:
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = start_interpreter(_ENTRY, theirs.fileno(), {})
        packed = cloudpickle.dumps(make)
        with suppress(OSError):  # that it has ended is noticed when a worker is wanted
            self._control.sendall(len(packed).to_bytes(8, "big"))
            self._control.sendall(packed)

    def worker(self) -> WorkerProcess:
        """A new worker; raises `WorkerError` where the nursery has ended."""
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


def be_a_nursery() -> None:
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
