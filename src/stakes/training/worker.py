"""The process that trains one stack of a sweep; started by `stakes.training.execution`."""

import argparse
import json
import shutil
import sys
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

import torch

from stakes.errors import CheckpointError, InterruptedTraining, StakesError
from stakes.files import locked, read_json, write_json
from stakes.training.execution import Stack
from stakes.training.interrupts import stop_on_interrupt
from stakes.training.results import Observer, Phase, Progress
from stakes.training.run_folder import RunFolder, RunRecorder
from stakes.training.run_settings import prepare
from stakes.training.trainer import train

__all__ = ["Teller", "main", "train_folders", "train_stack"]

_SECONDS_BETWEEN_LINES = 0.25
_PATIENCE = 120.0  # seconds for a worker whose parent was killed to finish its epoch and save


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


def train_stack(stack: Stack, device: str, seconds: float, stop: Callable[[], bool], teller: "Teller") -> None:
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


def _train_unfinished(stack: Stack, device: str, seconds: float, stop: Callable[[], bool], teller: "Teller") -> None:
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


class Teller(Observer):
    """Tells the process that started this one how far it is."""

    def __init__(self, output: TextIO) -> None:
        self.output = output
        self.told = 0.0

    def progressed(self, progress: Progress) -> None:
        now = time.monotonic()
        if now - self.told >= _SECONDS_BETWEEN_LINES or progress.epoch == progress.epochs:
            self.told = now
            self.tell(asdict(progress))

    def resumed(self, phase: Phase, epoch: int, skipped: Sequence[str]) -> None:
        for sentence in skipped:
            self.warn(sentence)

    def warn(self, sentence: str) -> None:
        self.tell({"warning": sentence})

    def tell(self, line: dict[str, Any]) -> None:
        with suppress(BrokenPipeError):  # the process that started this one is gone, which `stop` will say
            self.output.write(json.dumps(line) + "\n")
            self.output.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Train the stack whose runs the first line of standard input lists; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sweep", type=Path)
    parser.add_argument("--device", required=True)
    parser.add_argument("--checkpoint-seconds", type=float, required=True)
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(1)
    teller = Teller(sys.stdout)
    warnings.showwarning = lambda message, *_: teller.warn(str(message))
    stack = Stack(chosen.sweep, tuple(json.loads(sys.stdin.readline())))
    orphaned = threading.Event()
    threading.Thread(target=_set_at_end, args=(sys.stdin, orphaned), daemon=True).start()
    try:
        with stop_on_interrupt() as stop:
            train_stack(stack, chosen.device, chosen.checkpoint_seconds, lambda: stop() or orphaned.is_set(), teller)
    except (InterruptedTraining, KeyboardInterrupt):
        return 130
    except StakesError as error:
        teller.tell({"error": str(error)})
        return 2
    return 0


def _set_at_end(stream: TextIO, ended: threading.Event) -> None:
    stream.read()
    ended.set()


if __name__ == "__main__":
    sys.exit(main())
