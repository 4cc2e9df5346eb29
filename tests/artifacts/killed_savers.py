"""Saves bundles in forked children that are killed on the way; `test_saving` reads what is left."""

import itertools
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

from golden.make_bundle import FOLDER
from kill_injection import install

from stakes.artifacts.fits import load_bundle, save_bundle
from stakes.forecasting.forecaster import DecisionAwareForecaster

OLD, NEW = 11, 22  # noise seeds by which the two are told apart
SCENARIOS = {("first", "before"): 3, ("again", "before"): 2, ("again", "during"): 3}  # and every how many steps


def killed(nth: int, moment: str, folder: Path, forecaster: DecisionAwareForecaster) -> bool:
    """Whether the child died before its bundle was saved and all was tidied up."""
    process = os.fork()
    if process == 0:
        os.fsync = lambda descriptor: None  # a kill loses nothing that was written, and a disk takes its time
        install(nth, moment, folder.parent)
        save_bundle(folder, forecaster)
        os._exit(0)
    _, status = os.waitpid(process, 0)
    assert status in (0, signal.SIGKILL), status
    return status != 0


def set_seed(forecaster: DecisionAwareForecaster, seed: int) -> None:
    state = replace(forecaster.forecast_.state, noise_seed=seed)
    forecaster.forecast_ = replace(forecaster.forecast_, state=state)


def leave_killed(base: Path) -> None:
    """Leave a folder BASE/SCENARIO/MOMENT-NTH for every kill, and for the last child, which has no NTH step and lives.

    To be called in a fork of the process of the tests.
    """
    forecaster = load_bundle(FOLDER / "fit").forecaster
    set_seed(forecaster, OLD)
    save_bundle(base / "old", forecaster)
    set_seed(forecaster, NEW)
    for (scenario, moment), stride in SCENARIOS.items():
        for nth in itertools.count(1, stride):
            folder = base / scenario / f"{moment}-{nth:03d}" / "bundle"
            folder.parent.mkdir(parents=True)
            if scenario == "again":
                shutil.copytree(base / "old", folder)
            if not killed(nth, moment, folder, forecaster):
                break
