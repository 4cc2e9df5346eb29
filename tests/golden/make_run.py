"""Makes the run folders that every later version must read and go on with: `python tests/golden/make_run.py`.

One pair is made when the format of run folders changes, and none is made twice: run-N/finished, and the same run
stopped half way, run-N/interrupted, with its checkpoint. run-N/data.sha256 tells whether the task has the very same
data elsewhere: a checkpoint is for these alone, and another processor may compute other last digits. run-1 is of a
version whose models lived in `stakes.models`, which its checkpoint's fingerprint says.
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

FORMAT = 2  # of run folders; 1 had settings without a SHA-256 and weights without numbers
FOLDER = Path(__file__).parent
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
    (FOLDER / f"run-{FORMAT}").mkdir()
    (FOLDER / f"run-{FORMAT}" / "data.sha256").write_text(data_sha256())
    finished, interrupted = (RunFolder(FOLDER / f"run-{FORMAT}" / name) for name in ("finished", "interrupted"))
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
