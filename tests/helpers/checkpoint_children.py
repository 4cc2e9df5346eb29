"""Saves checkpoints in forked children that die, or run out of room, on the way; `test_checkpoints` reads what is left.

`python checkpoint_children.py BASE` leaves a folder BASE/SCENARIO/MOMENT-NTH for every kill, and BASE/limit with the
error's message in BASE/limit.txt. It is an interpreter of its own, since forks of the large one of the tests take
longer, and forks, since importing torch takes seconds.
"""

import itertools
import os
import resource
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from kill_injection import MOMENTS, install

from stakes.errors import CheckpointError
from stakes.training.trainer import Checkpoint, save_checkpoint

# What is there before, then what is saved: epoch and value.
SCENARIOS = {
    "first": [(1, 1.0)],
    "next": [(1, 1.0), (2, 2.0), (3, 3.0)],
    "again": [(1, 1.0), (1, 2.0)],
    "back": [(1, 1.0), (9, 2.0), (2, 3.0)],
}


def checkpoint(epoch: int, value: float) -> Checkpoint:
    return Checkpoint(epoch, {"weights": torch.full((1000,), value)}, {"value": value})


def in_child(work: Callable[[], None]) -> int:
    """The signal that ended the child, 0 if none did."""
    process = os.fork()
    if process == 0:
        work()
        os._exit(0)
    _, status = os.waitpid(process, 0)
    assert status in (0, signal.SIGKILL), status
    return status


def kills(base: Path) -> None:
    def save(nth: int, moment: str, folder: Path, last: Checkpoint) -> None:
        os.fsync = lambda descriptor: None  # a kill loses nothing that was written, and a disk takes its time
        install(nth, moment, folder.parent)
        save_checkpoint(folder, last)

    for scenario, saves in SCENARIOS.items():
        *before, last = itertools.starmap(checkpoint, saves)
        template = base / scenario / "template"
        template.mkdir(parents=True)
        for each in before:
            save_checkpoint(template, each)
        for moment in MOMENTS:
            for nth in itertools.count(1):
                folder = base / scenario / f"{moment}-{nth:02d}" / "checkpoints"
                folder.parent.mkdir()
                if before:
                    shutil.copytree(template, folder)
                if not in_child(lambda: save(nth, moment, folder, last)):  # noqa: B023 - called at once
                    break
        shutil.rmtree(template)


def short_write(base: Path) -> None:
    """The kernel takes 1000 bytes of a file and refuses the rest, as a full disk does."""

    def save() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        try:
            save_checkpoint(base / "limit", checkpoint(2, 2.0))
        except CheckpointError as error:
            (base / "limit.txt").write_text(str(error))

    save_checkpoint(base / "limit", checkpoint(1, 1.0))
    in_child(save)


if __name__ == "__main__":
    kills(Path(sys.argv[1]))
    short_write(Path(sys.argv[1]))
