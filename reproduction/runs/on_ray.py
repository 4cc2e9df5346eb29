"""Jobs as tasks of a Ray cluster (extra `ray`), in place of processes on this machine.

Where a worker or a node is lost, Ray starts its task again, and training goes on from the checkpoint in the folder of
the jobs, which therefore all nodes must share. A task tells its progress in lines of JSON in a file there, and ends
with a checkpoint when it is cancelled.
"""

import json
import logging
import os
import socket
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any, ClassVar, TextIO
from uuid import uuid4

import torch

import stakes
from reproduction.runs.jobs import Execution, Job, JobDisplay, ProgressTeller
from stakes.errors import InterruptedTraining, SettingError, StakesError, StakesWarning
from stakes.training.execution import stop_on_interrupt
from stakes.training.processes import MEMORY

_RETRIES = 5  # of a task whose worker or node was lost
_OBJECT_STORE = 80 << 20  # bytes of a Ray of our own, near the least it takes: results go through the folder
_SECONDS_TO_SEE = 5.0  # for a new file to reach all nodes, which network file systems take a moment for
_SECONDS_TO_ANSWER = 10.0
_NOT_SHARED = "the folder of what runs on Ray must be on storage that all nodes share, under one path"


@contextmanager
def connected(address: str | None = None, workers: int | None = None) -> Iterator[Mapping[str, float]]:
    """A connection to Ray, and what its cluster has: "CPU", "GPU" and others."""
    ray = _imported()
    where = _started_here(workers) if address is None else {"address": _answering(address)}
    with redirect_stdout(StringIO()):  # where Ray tells of lost workers; it is for the answer of a command
        try:
            ray.init(**where, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise SettingError(f"Ray cannot be used at address {address or 'local'}: {_first_line(error)}") from error
        try:
            yield ray.cluster_resources()
        finally:
            ray.shutdown()


@dataclass(frozen=True)
class RayExecution(Execution):
    """How jobs are run on the cluster that is connected."""

    resources: Mapping[str, float] = field(default_factory=dict)  # what the cluster has, as "CPU" and "GPU"
    _without_gpu: ClassVar[str] = "the Ray cluster has no GPU"

    @property
    def cores(self) -> int:
        return max(1, int(self.resources.get("CPU", 0)))

    @property
    def gpus(self) -> int:
        return int(self.resources.get("GPU", 0))

    @property
    def needs(self) -> dict[str, int]:
        """What a job takes of a node."""
        return {"num_cpus": 1, "num_gpus": 1} if self.resolved_device == "cuda" else {"num_cpus": 1}

    def supervise(
        self, jobs: Sequence[Job], folder: Path, stop: Callable[[], bool], display: JobDisplay
    ) -> dict[str, str]:
        with _token(folder.resolve()) as token:
            _check_nodes(token, self, stop)
            return _Tasks(token, self, stop, display).run(list(jobs))


class _Tasks:
    """The tasks of some jobs, and what they tell."""

    def __init__(self, token: Path, execution: RayExecution, stop: Callable[[], bool], display: JobDisplay) -> None:
        self.ray = _imported()
        self.token, self.execution, self.stop, self.display = token, execution, stop, display
        self.running: dict[Any, _Heard] = {}  # by their reference
        self.failures: dict[str, str] = {}

    def run(self, waiting: list[Job]) -> dict[str, str]:
        at_once = self.execution.workers or len(waiting)  # Ray keeps those in line that find no room
        told = False
        try:
            while self.running or (waiting and not self.stop()):
                while waiting and len(self.running) < at_once and not self.stop():
                    self._start(waiting.pop(0))
                if self.stop() and not told:
                    told = True
                    self._cancel()
                ready, _ = self.ray.wait(list(self.running), timeout=0.2)
                for heard in self.running.values():
                    self._hear(heard)
                for reference in ready:
                    self._end(reference)
        finally:
            self._cancel(force=True)  # only where this process was interrupted a second time
        return self.failures

    def _start(self, job: Job) -> None:
        heard = _Heard(job)
        heard.file.unlink(missing_ok=True)
        task = self.ray.remote(_work).options(
            **self.execution.needs,
            name=f"job {job.name}",
            max_retries=_RETRIES,
            retry_exceptions=[InterruptedTraining],  # of a node that is going down; a cancelled task is not retried
            runtime_env=_environment(),
        )
        device, seconds = self.execution.resolved_device, self.execution.checkpoint_seconds
        seen = (self.token, stakes.__version__, _SECONDS_TO_SEE)
        self.running[task.remote(job, *seen, os.getcwd(), device, seconds)] = heard

    def _cancel(self, force: bool = False) -> None:
        for reference in self.running:
            self.ray.cancel(reference, force=force)

    def _hear(self, heard: "_Heard") -> None:
        for line in heard.lines():
            self.display.hear(heard.job.name, heard.job.size, line)

    def _end(self, reference: Any) -> None:
        heard = self.running.pop(reference)
        failure = _failure(self.ray, reference)
        self._hear(heard)
        if failure is not None and not self.stop():
            self.failures[heard.job.name] = failure
        self.display.ended(heard.job.name)


@dataclass
class _Heard:
    """What the task of a job has told, and how far it was read."""

    job: Job
    position: int = 0

    @property
    def file(self) -> Path:
        return _told(self.job)

    def lines(self) -> list[dict[str, Any]]:
        """What is new; half a line, of a worker that was lost, is skipped."""
        try:
            with self.file.open("rb") as file:
                file.seek(self.position)
                whole = file.read().rpartition(b"\n")
        except FileNotFoundError:  # the task has not begun
            return []
        self.position += len(whole[0]) + len(whole[1])
        values = []
        for line in whole[0].splitlines():
            with suppress(ValueError):
                values.append(json.loads(line))
        return [value for value in values if isinstance(value, dict)]


# What runs on the nodes


def _pass_on(teller: ProgressTeller, message: Warning | str, category: type[Warning], *_: object) -> None:
    if issubclass(category, StakesWarning):
        teller.warn(str(message))


def _work(
    job: Job, token: Path, version: str, patience: float, directory: str, device: str, seconds: float
) -> str | None:
    """Do a job; returns why it cannot be done."""
    torch.set_num_threads(1)
    with stop_on_interrupt() as stop, warnings.catch_warnings():
        reason = _unfit(token, version, patience)
        if reason is not None:
            return f"a node {reason}"
        with suppress(OSError):  # where the node has the directory of the command, relative paths mean the same
            os.chdir(directory)
        job.path.mkdir(parents=True, exist_ok=True)
        with _told(job).open("a", encoding="utf-8") as output:
            teller = ProgressTeller(partial(_write_line, output))
            warnings.showwarning = partial(_pass_on, teller)
            if output.tell():
                output.write("\n")  # the last line may be half a one
                teller.warn(f"a worker of job {job.name} was lost; another goes on from its last checkpoint")
            try:
                job.work(device, seconds, stop, teller)
            except InterruptedTraining:
                raise
            except StakesError as error:
                return str(error)
    return None


def _write_line(output: TextIO, line: dict[str, Any]) -> None:
    output.write(json.dumps(line) + "\n")
    output.flush()


def _unfit(token: Path, version: str, patience: float) -> str | None:
    """Why this node cannot train."""
    if stakes.__version__ != version:
        return f"has stakes {stakes.__version__}, this machine {version}"
    until = time.monotonic() + patience
    while not token.is_file():
        if time.monotonic() > until:
            return f"does not see what this machine writes into {token.parent}: {_NOT_SHARED}"
        time.sleep(0.1)
    return None


# Around them


def _imported() -> Any:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    try:
        return import_module("ray")
    except ImportError as error:
        raise SettingError("work on Ray needs Ray: pip install 'stakes[ray]'") from error


def _started_here(workers: int | None) -> dict[str, Any]:
    cores = workers or Execution("cpu").cores
    return {
        "address": "local",
        "num_cpus": cores,
        "object_store_memory": _OBJECT_STORE,
        "include_dashboard": False,
    }


def _answering(address: str) -> str:
    """The address, where it is one and somebody answers there; Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if address == "auto":
        return address
    if not host or "/" in host or not port.isdecimal():
        raise SettingError(f"address must be auto or HOST:PORT, got {address!r}")
    try:
        socket.create_connection((host, int(port)), timeout=_SECONDS_TO_ANSWER).close()
    except (OSError, OverflowError) as error:
        raise SettingError(f"no Ray cluster answers at address {address}: {error}") from error
    return address


def _environment() -> dict[str, Any]:
    path = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), os.getcwd())))  # jobs may be of a package there
    return {"env_vars": {"PYTHONPATH": path} | {name: os.environ.get(name, value) for name, value in MEMORY.items()}}


def _told(job: Job) -> Path:
    return job.path / "progress.jsonl"


@contextmanager
def _token(folder: Path) -> Iterator[Path]:
    """A file in the folder of the jobs that only those see who share it."""
    for stale in folder.glob(".ray-*"):  # of a command that was killed
        stale.unlink(missing_ok=True)
    token = folder / f".ray-{uuid4().hex}"
    token.touch()
    try:
        yield token
    finally:
        token.unlink(missing_ok=True)


def _check_nodes(token: Path, execution: RayExecution, stop: Callable[[], bool]) -> None:
    """Raise unless there are nodes to train on, and all of them can."""
    ray, strategies = _imported(), import_module("ray.util.scheduling_strategies")
    kind = "GPU" if execution.resolved_device == "cuda" else "CPU"
    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get(kind, 0) >= 1]
    if not nodes:
        raise SettingError(f"no node of the Ray cluster has a {kind}")
    waiting = {}
    for node in nodes:
        place = strategies.NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        task = ray.remote(_unfit).options(num_cpus=0, scheduling_strategy=place, runtime_env=_environment())
        waiting[task.remote(token, stakes.__version__, _SECONDS_TO_SEE)] = node["NodeManagerAddress"]
    while waiting and not stop():
        ready, _ = ray.wait(list(waiting), timeout=0.2)
        for reference in ready:
            reason, address = _failure(ray, reference), waiting.pop(reference)
            if reason is not None:
                raise SettingError(f"node {address} {reason}")


def _failure(ray: Any, reference: Any) -> str | None:
    """What a task returned, or in words what became of it."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        return f"failed: {type(error.cause).__name__}: {error.cause}"
    except ray.exceptions.RayError as error:
        return f"was given up by Ray, {type(error).__name__}: {_first_line(error)}; a second start resumes it"


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
