"""Makes the run folders that must be read and gone on with: `python reproduction/tests/golden_run.py`.

They are made again when their format changes: run/finished, and the same run stopped half way, run/interrupted, with
its checkpoint. run/data.sha256 tells whether the task has the very same data elsewhere: a checkpoint is for these
alone, and another processor may compute other last digits.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path

import torch

from reproduction.runs.folder import RunFolder
from reproduction.runs.settings import RunSettings, task_data
from reproduction.runs.stacks import train_folders
from reproduction.tasks.synthetic import SyntheticTask
from stakes.errors import InterruptedTraining
from stakes.training.settings import ImplicitSettings, TrainingSettings

FOLDER = Path(__file__).parent / "golden" / "run"
TRAINING = TrainingSettings(epochs=6, batch=800, members=3, validation_members=4, validate_every=1, learning_rate=0.01)
RUN = RunSettings(SyntheticTask(), ImplicitSettings(noise=2, hidden=4, layers=1), 0.4, 3, TRAINING)


def train_in(folder: RunFolder, stop: Callable[[], bool] = lambda: False) -> None:
    """Train what is left to be trained of the run in the folder."""
    train_folders([folder], folder.checkpoints, "cpu", 1e9, stop)


def data_sha256() -> str:
    """The SHA-256 of all that the run is trained and validated on."""
    data = task_data(RUN.task)
    parts = [
        part.numpy().tobytes() for cases in (data.train, data.validation) for part in (cases.features, cases.outcome)
    ]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def main() -> None:
    torch.set_num_threads(1)
    FOLDER.mkdir()
    (FOLDER / "data.sha256").write_text(data_sha256())
    finished, interrupted = (RunFolder(FOLDER / name) for name in ("finished", "interrupted"))
    finished.create(RUN)
    train_in(finished)
    interrupted.create(RUN)
    epochs = iter(range(2))
    try:
        train_in(interrupted, lambda: next(epochs, None) is None)
    except InterruptedTraining:
        return
    raise AssertionError("the run was not interrupted")


if __name__ == "__main__":
    main()
