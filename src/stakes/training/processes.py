"""Functions called in other processes on this machine: stacks of a sweep, weights of a fit, evaluations of runs.

Each process is a fresh interpreter with a session and one thread of its own, and a connection to this process as its
standard input. Functions travel by cloudpickle, so those of a script or a notebook do too. A process that dies, even in
the middle of an answer, closes its connection, and so does this one for its processes however it ends.
"""

import os
import pickle
import signal
import subprocess
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

import stakes
from stakes.errors import SettingError, StakesError, StakesWarning, WorkerError

Key = TypeVar("Key")
Result = TypeVar("Result")

MEMORY = {  # for the GNU allocator: keep what is freed; the tensors of one step are those of the next
    "MALLOC_MMAP_THRESHOLD_": "33554432",
    "MALLOC_TRIM_THRESHOLD_": "1073741824",
    "MALLOC_TOP_PAD_": "67108864",
}
_SECONDS_BETWEEN_LOOKS = 0.2  # at whether to stop
_STOP = b""  # what a process is sent in place of a call
_ROOT = str(Path(stakes.__file__).parents[1])


@dataclass(frozen=True)
class Outcome(Generic[Result]):
    """What came of a call in another process."""

    result: Result | None  # what the function returned; None where it raised
    error: BaseException | None

    def unwrap(self) -> Result:
        """The result; raises the error where there is one."""
        if self.error is not None:
            raise self.error
        return self.result  # type: ignore[return-value]


def called_for_each(
    function: Callable[..., Result], arguments: Mapping[Key, tuple[Any, ...]], processes: int
) -> Iterator[tuple[Key, Result]]:
    """The results of a function by key, in the order in which they come; the first error ends all calls."""
    if min(processes, len(arguments)) < 2:
        for key, given in arguments.items():
            yield key, function(*given)
        return
    for key, outcome in outcomes(function, arguments, processes):
        yield key, outcome.unwrap()


def outcomes(
    function: Callable[..., Result],
    arguments: Mapping[Key, tuple[Any, ...]],
    processes: int,
    stop: Callable[[], bool] = lambda: False,
    hear: Callable[[Key, dict[str, Any]], None] | None = None,
) -> Iterator[tuple[Key, Outcome[Result]]]:
    """Call a function in other processes; yields what came of each call, in the order in which they end.

    A process that dies fails its own call only. Whoever leaves the loop early ends all processes at once.
    """
    waiting = list(arguments.items())
    running: dict[_Process, Key] = {}
    idle: list[_Process] = []
    told = False
    try:
        while running or (waiting and not stop()):
            while waiting and len(running) < processes and not stop():
                key, given = waiting.pop(0)
                call = _packed_call(function, given)
                process = idle.pop() if idle else _Process()
                running[process] = key
                process.send(call)
            if stop() and not told:
                told = True
                for process in running:
                    process.send(_STOP)
            for process in _speaking(running):
                kind, value = process.message()
                if kind == "told":
                    (hear or _warn)(running[process], value)
                    continue
                key = running.pop(process)
                if kind == "result":
                    idle.append(process)
                else:
                    process.end()  # nothing that befell one call shall befall the next
                yield key, Outcome(value, None) if kind == "result" else Outcome(None, value)
    finally:
        for process in (*running, *idle):  # those at work only where the loop was left early
            process.end()


def start_interpreter(entry: str, stdin: int, environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    """A fresh interpreter with a session of its own, so that Ctrl-C reaches this process only, which passes it on."""
    module, function = entry.split(":")
    start = f"import sys; sys.path.append({_ROOT!r}); from {module} import {function}; {function}()"
    return subprocess.Popen(
        [sys.executable, "-P", "-c", start],
        stdin=stdin,
        start_new_session=True,
        env={**environment, **os.environ},
    )


def _packed_call(function: Callable[..., Any], given: tuple[Any, ...]) -> bytes:
    """A call as bytes, with the path on which a process finds the modules that it is sent names of."""
    try:
        return pickle.dumps((sys.path, _dumps((function, given))))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise SettingError(f"what several processes share must be picklable: {error}") from error


def _dumps(value: object) -> bytes:
    """By cloudpickle, or by pickle on a bare machine without it, which is enough for a sweep."""
    try:
        import cloudpickle
    except ImportError:
        return pickle.dumps(value)
    return bytes(cloudpickle.dumps(value))


def _speaking(running: "Mapping[_Process, object]") -> "list[_Process]":
    """The processes that have something to say or are dead; none after a moment in which nothing happened."""
    by_connection = {process.connection: process for process in running}
    return [by_connection[ready] for ready in wait(by_connection, _SECONDS_BETWEEN_LOOKS)]  # type: ignore[index]


def _warn(key: object, line: dict[str, Any]) -> None:
    if "warning" in line:
        warnings.warn(line["warning"], StakesWarning, stacklevel=3)


class _Process:
    """A process that calls what it is sent."""

    def __init__(self) -> None:
        self.connection, theirs = Pipe()
        with theirs:
            self.process = start_interpreter("stakes.training.processes:serve", theirs.fileno(), MEMORY)

    def send(self, message: bytes) -> None:
        with suppress(OSError):  # that it is dead is noticed by the end of its connection
            self.connection.send_bytes(message)

    def message(self) -> tuple[str, Any]:
        """The next thing it says: something told, a result or an error, such as its death."""
        try:
            packed = self.connection.recv_bytes()
        except (EOFError, OSError):
            return "error", WorkerError(_ending(self.process.wait()))
        try:
            return pickle.loads(packed)
        except Exception as error:
            return "error", StakesError(f"what a process sent cannot be read: {type(error).__name__}: {error}")

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.connection.close()


def _ending(code: int) -> str:
    if code < 0:
        return f"its process was ended by {signal.Signals(-code).name}"
    return f"its process ended with exit code {code}"


# In the other processes


class _Parent:
    """The process that started this one."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.stop_asked = threading.Event()
        self.calls: SimpleQueue[bytes | None] = SimpleQueue()
        self._lock = threading.Lock()

    def listen(self) -> None:
        """Take calls and the wish to stop, until the process is gone."""
        with suppress(EOFError, OSError):
            while True:
                message = self.connection.recv_bytes()
                if message == _STOP:
                    self.stop_asked.set()
                else:
                    self.calls.put(message)
        self.stop_asked.set()
        self.calls.put(None)

    def send(self, kind: str, value: object) -> None:
        try:
            packed = _dumps((kind, value))
        except Exception as error:
            reason = f"the result of a call cannot be sent back: {type(error).__name__}: {error}"
            packed = pickle.dumps(("error", StakesError(reason)))
        with self._lock, suppress(OSError):  # the other one is gone, which `stop_asked` says
            self.connection.send_bytes(packed)


_parent: _Parent | None = None


def stop_asked() -> bool:
    """Whether the process that called the function that runs here asks for an end, or is gone."""
    return _parent is not None and _parent.stop_asked.is_set()


def tell(line: dict[str, Any]) -> None:
    """Send a message to the process that called the function that runs here."""
    if _parent is not None:
        _parent.send("told", line)


def serve() -> None:
    """Be a process that calls what the one at the other end of its standard input sends, until that one is gone."""
    global _parent
    _parent = _Parent(Connection(os.dup(0)))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # what is printed here is no answer of a command
    threading.Thread(target=_parent.listen, daemon=True).start()
    import torch  # seconds, in which the other process need not wait to be heard

    torch.set_num_threads(1)
    warnings.showwarning = _pass_on
    while (call := _parent.calls.get()) is not None:
        _parent.send(*_answer(call))


def _pass_on(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    if issubclass(category, StakesWarning):
        tell({"warning": str(message)})


def _answer(call: bytes) -> tuple[str, Any]:
    try:
        path, packed = pickle.loads(call)
        sys.path[:] = path
        function, given = pickle.loads(packed)
        return "result", function(*given)
    except BaseException as error:
        error.add_note(traceback.format_exc())
        return "error", error
