"""Commands and workers as forks of the process of the tests: a fresh interpreter takes seconds to import torch."""

import multiprocessing
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from forks import become, living
from small_sweeps import TINY, train_here

from reproduction.runs.sweep import read_sweep
from stakes.training import processes
from stakes.training.steps import Stepper


class ForkedCommand(subprocess.Popen[str]):
    """A command in a fork of this process, in place of a program."""

    def __init__(self, command: Callable[[], object], **options: Any) -> None:
        with warnings.catch_warnings():  # Python 3.12 has doubts about forks of a process with threads
            warnings.simplefilter("ignore", DeprecationWarning)
            super().__init__(["command"], preexec_fn=partial(become, lambda: command() or 0), text=True, **options)


class Forked(ForkedCommand):
    """A process that `stakes.training.processes` starts."""

    started: list["Forked"]

    def __init__(self, command: Sequence[str], **options: Any) -> None:
        assert command[:3] == [sys.executable, "-P", "-c"]
        self.options = options
        super().__init__(processes.serve, **options)
        self.started.append(self)


def forked(command: Callable[[], object]) -> ForkedCommand:
    """A command whose output and errors can be read."""
    pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return ForkedCommand(command, **pipes)


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory) -> None:
    """All that the first training of a process has to import."""
    train_here(read_sweep(TINY), tmp_path_factory.mktemp("warm"))


@pytest.fixture
def workers(warm: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Forked]]:
    """The workers started from here on, which are forked."""
    if torch.cuda.is_available():
        pytest.skip("a process with a GPU cannot be forked once it has trained")
    Forked.started = []
    monkeypatch.setattr(processes, "subprocess", SimpleNamespace(Popen=Forked))
    yield Forked.started
    assert all(process.returncode is not None for process in Forked.started), "a process was left behind"


@pytest.fixture
def no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*command: Any, **options: Any) -> None:
        raise AssertionError("a worker was started")

    monkeypatch.setattr(processes, "subprocess", SimpleNamespace(Popen=refuse))


def children(process: int) -> list[int]:
    """Processes started by this one that are not dead."""
    return [number for number, parent in living().items() if parent == process]


def wait_until(holds: Callable[[], object], process: subprocess.Popen[str] | None = None, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "waited in vain"
        if process is not None and process.poll() is not None:
            pytest.fail(f"ended with {process.returncode}: {process.communicate()}")
        time.sleep(0.01)


def lines(folder: Path) -> int:
    """Lines of metrics under a folder."""
    return sum(file.read_bytes().count(b"\n") for file in folder.rglob("metrics.jsonl"))


class SharedFlag:
    """A flag that forks share. It has no lock, unlike an `Event`: a fork that is killed would keep it for ever."""

    def __init__(self) -> None:
        self._raised = multiprocessing.get_context("fork").RawValue("b", 0)

    def set(self) -> None:
        self._raised.value = 1

    def is_set(self) -> bool:
        return bool(self._raised.value)


@contextmanager
def slow(seconds: float, first: int = 1) -> Iterator[SharedFlag]:
    """Epochs that take so long from this one on, here and in forks, and whether one of them is at it."""
    epoch, asleep = Stepper.epoch, SharedFlag()

    def slowly(self: Stepper, phase: str, number: int, rate: float) -> None:
        epoch(self, phase, number, rate)
        if number >= first:
            asleep.set()
            time.sleep(seconds)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stepper, "epoch", slowly)
        yield asleep
