"""Stacks: the runs of a sweep that train as one, from their folders to their results."""

import hashlib
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from reproduction.runs.folder import RunFolder, RunRecorder
from reproduction.runs.jobs import ProgressTeller
from reproduction.runs.settings import prepare
from stakes.errors import CheckpointError, StakesError
from stakes.files import locked, read_json, write_json
from stakes.training.progress import Observer
from stakes.training.trainer import train

_PATIENCE = 120.0  # seconds for a process whose parent was killed to finish its epoch and save


@dataclass(frozen=True)
class Stack:
    """Runs that train as one, in the folder of a sweep."""

    sweep: Path  # the folder of the sweep
    runs: tuple[str, ...]  # the names of the runs, which are their folders in `runs/` of the sweep

    @property
    def name(self) -> str:
        """A name that no stack of other runs has."""
        return hashlib.sha256("\n".join(self.runs).encode()).hexdigest()[:10]

    @property
    def path(self) -> Path:
        """The folder of what belongs to the stack and to none of its runs."""
        return self.sweep / "stacks" / self.name

    @property
    def checkpoints(self) -> Path:
        """The folder of its checkpoints, which is there while it trains."""
        return self.path / "checkpoints"

    @property
    def size(self) -> int:
        """How many runs it has."""
        return len(self.runs)

    def work(self, device: str, seconds: float, stop: Callable[[], bool], teller: ProgressTeller) -> None:
        """Train it, as a job."""
        train_stack(self, device, seconds, stop, teller)

    def folders(self) -> list[RunFolder]:
        """The folders of its runs."""
        return [RunFolder(self.sweep / "runs" / name) for name in self.runs]


def train_folders(
    folders: Sequence[RunFolder],
    checkpoints: Path,
    device: str,
    checkpoint_seconds: float,
    stop: Callable[[], bool],
    observers: Sequence[Observer] = (),
) -> None:
    """Train the runs of these folders as one stack, from its checkpoint where there is one."""
    runs = [folder.settings() for folder in folders]
    train(
        [prepare(run) for run in runs],
        runs[0].training,
        device=device,
        checkpoints=checkpoints,
        checkpoint_seconds=checkpoint_seconds,
        observers=[RunRecorder(folders), *observers],
        stop=stop,
    )
    _delete(checkpoints)


def _delete(checkpoints: Path) -> None:
    """Out of sight first: a kill on the way leaves no part of a checkpoint that a second start would stumble over."""
    away = checkpoints.with_name("deleted")
    shutil.rmtree(away, ignore_errors=True)
    with suppress(FileNotFoundError):
        checkpoints.rename(away)
    shutil.rmtree(away, ignore_errors=True)


def train_stack(stack: Stack, device: str, seconds: float, stop: Callable[[], bool], teller: ProgressTeller) -> None:
    """Train a stack, in halves where it does not fit into the memory of the device."""
    halves = [half for half in (stack.runs[::2], stack.runs[1::2]) if half]
    if not any(Stack(stack.sweep, half).path.exists() for half in halves) or len(halves) == 1:
        try:
            with locked(stack.path, _PATIENCE):
                _train_unfinished(stack, device, seconds, stop, teller)
            return
        except torch.OutOfMemoryError:
            if len(halves) == 1:
                raise StakesError(f"run {stack.runs[0]} alone does not fit into the memory of {device}") from None
            teller.warn(f"a stack of {len(stack.runs)} does not fit into the memory of {device} and is halved")
            _delete(stack.checkpoints)
        torch.cuda.empty_cache()
    for half in halves:
        train_stack(Stack(stack.sweep, half), device, seconds, stop, teller)


def _train_unfinished(
    stack: Stack, device: str, seconds: float, stop: Callable[[], bool], teller: ProgressTeller
) -> None:
    """Train the runs that have no result yet; beside a checkpoint, the runs it was made of."""
    if all(folder.state() is not None for folder in stack.folders()):
        return
    members = stack.path / "stack.json"
    if members.exists() and stack.checkpoints.exists():
        names = read_json(members)
        if not isinstance(names, list) or not set(names) <= set(stack.runs):
            raise CheckpointError(f"{members} must list runs of its stack, got {names!r}")
    else:
        names = [name for name, folder in zip(stack.runs, stack.folders(), strict=True) if folder.state() is None]
        write_json(members, names)
    if names:
        folders = [RunFolder(stack.sweep / "runs" / name) for name in names]
        with ExitStack() as held:
            for folder in folders:  # so that nobody resumes one of them by itself meanwhile
                held.enter_context(locked(folder.path, _PATIENCE))
            train_folders(folders, stack.checkpoints, device, seconds, stop, [teller])
