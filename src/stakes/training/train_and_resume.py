"""Start the run of a settings file, and go on with a run or a sweep that was interrupted."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from stakes.errors import InterruptedTraining, SettingError
from stakes.files import locked
from stakes.settings_file import read_settings_file
from stakes.training.execution import Execution
from stakes.training.interrupts import stop_on_interrupt
from stakes.training.progress import Display, StackDisplay
from stakes.training.run_folder import RunFolder, is_run
from stakes.training.run_settings import prepare, run_from_plain
from stakes.training.stacks import train_folders
from stakes.training.sweep import load_sweep, run_sweep, with_overrides

__all__ = ["resume_folder", "train_file"]


def train_file(file: Path, out: Path | None, execution: Execution, overrides: Mapping[str, Any]) -> Path:
    """Train the run of a settings file; returns its folder.

    Args:
        file: TOML or JSON.
        out: The folder of the run; None is `runs/` and its name.
        execution: Where and how it is trained.
        overrides: Settings by their dotted names, in place of those in the file.
    """
    run = run_from_plain(with_overrides(read_settings_file(file), overrides))
    prepare(run)  # what cannot be trained leaves no folder
    folder = RunFolder(out or Path("runs") / run.name)
    with locked(folder.path):
        folder.create(run)
        return _train(folder, execution)


def resume_folder(path: Path, execution: Execution) -> Path:
    """Go on with a run or a sweep; returns the run's folder or the sweep's table.

    Args:
        path: The folder of a run or a sweep.
        execution: Where and how it is trained.
    """
    if (path / "sweep.json").exists():
        return run_sweep(load_sweep(path), path, execution)
    if not is_run(path):
        raise SettingError(f"{path} is neither the folder of a run nor that of a sweep")
    with locked(path):
        return _train(RunFolder(path), execution)


def _train(folder: RunFolder, execution: Execution) -> Path:
    """Train a run whose folder is locked; of one that has ended, see that its results are still there."""
    folder.check_results()
    with stop_on_interrupt() as stop, Display(quiet=execution.quiet) as display:
        if folder.state() is None:
            torch.set_num_threads(1)  # as in a sweep: small models gain nothing from more, and results stay the same
            seconds, device = execution.checkpoint_seconds, execution.resolved_device
            try:
                train_folders([folder], folder.checkpoints, device, seconds, stop, [StackDisplay(display)])
            except InterruptedTraining as interrupted:
                raise InterruptedTraining(f"{interrupted}; `stakes resume {folder.path}` goes on") from None
    state = folder.state()
    if state is not None and state.status == "failed":
        raise SettingError(f"training failed, {state.failure}; the last good weights are in {folder.path}")
    return folder.path
