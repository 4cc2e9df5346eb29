"""A recalibrated forecast on disk: as it was, or refused by the name of a file; never half of it."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from artifacts.damage import vouch
from refusals import refuses
from user_files import past_forecasts, recalibrated  # noqa: F401  a fixture

from stakes.artifacts import recalibrations as recalibration_folder
from stakes.artifacts.folder import MANIFEST, is_saved
from stakes.artifacts.recalibrations import Recalibration, load_recalibration, save_recalibration
from stakes.cost_spec.spec import CostSpec
from stakes.data.forecasts.forecast_set import ForecastSet
from stakes.errors import BundleError, StakesError
from stakes.files import read_json, write_json


@pytest.fixture
def opened(recalibrated: Path) -> Recalibration:  # noqa: F811
    return load_recalibration(recalibrated)


def changed(folder: Path, name: str, **values: Any) -> None:
    """The file with other values, recorded as if it had always had them."""
    write_json(folder / name, read_json(folder / name) | values)
    if name != MANIFEST:
        vouch(folder, name)


def test_what_is_saved_decides_without_what_trains_and_draws(recalibrated: Path, saved: Path, tmp_path: Path) -> None:  # noqa: F811
    past_forecasts(start="2021-01-01").to_csv(tmp_path / "new.csv", index=False)
    heavy = ("sklearn", "scipy.stats", "sympy", "matplotlib", "stakes.forecasting.forecaster")
    heavy += ("stakes.forecasting.recalibrator", "stakes.training.trainer")
    code = (
        "import pathlib, sys, stakes; from stakes.cli import main; fit, *words = sys.argv[1:]; "
        "stakes.load_bundle(pathlib.Path(fit)).forecast.solve([[0.0] * 3]); "
        f"print(main(['decide', *words, '--quiet']), [name for name in {heavy} if name in sys.modules])"
    )
    words = [saved, recalibrated, tmp_path / "new.csv", "--out", tmp_path / "decided.csv"]
    found = subprocess.run([sys.executable, "-c", code, *map(str, words)], capture_output=True, text=True, check=True)
    assert found.stdout.endswith("\n0 []\n"), found.stdout + found.stderr


def test_all_comes_back(opened: Recalibration, tmp_path: Path) -> None:
    save_recalibration(tmp_path / "again", opened)
    again = load_recalibration(tmp_path / "again")
    assert again.state == opened.state
    assert again.selection == opened.selection
    assert again.recalibrator.get_params() == opened.recalibrator.get_params()
    for name in ("layout", "about", "cost_spec"):
        assert getattr(again, name) == getattr(opened, name)
    assert again.judged is not None
    assert opened.judged is not None
    assert again.judged.block == opened.judged.block
    pd.testing.assert_frame_equal(again.judged.cases, opened.judged.cases)
    given = ForecastSet(past_forecasts().filter(regex="^m").to_numpy()[..., None])
    ours, theirs = (each.state.corrected(given).members for each in (again, opened))
    np.testing.assert_array_equal(ours, theirs)


def test_a_save_that_fails_leaves_what_was_there(
    opened: Recalibration, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save_recalibration(tmp_path / "kept", opened)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def refused(path: Path, value: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(recalibration_folder, "write_json", refused)
    refuses(OSError, "No space left", save_recalibration, folder, opened)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    refuses(OSError, "No space left", save_recalibration, tmp_path / "none", opened)
    assert not is_saved(tmp_path / "none")


def test_a_folder_of_something_else_is_kept(opened: Recalibration, tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text("mine")
    refuses(BundleError, r"holds a state\.json", save_recalibration, tmp_path, opened)
    assert (tmp_path / "state.json").read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        (MANIFEST, {"format": 4}, "was made by a newer version of stakes"),
        (MANIFEST, {"cost": None}, "cost, layout and about must be tables"),
        (MANIFEST, {"cost": {"name": "x.py:f", "parameters": {}}}, "cost"),
        (MANIFEST, {"layout": {}}, "outcomes"),
        (MANIFEST, {"about": {"block": 0}}, "about"),
        ("state.json", {"form": "magic"}, "form"),
        ("state.json", {"targets": []}, "state.json"),
        ("state.json", {"models": "none"}, "models"),
        ("selection.json", {"candidates": []}, "selection.json"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(
    opened: Recalibration, tmp_path: Path, name: str, values: dict[str, Any], said: str
) -> None:
    folder = save_recalibration(tmp_path / "copy", opened)
    changed(folder, name, **values)
    refuses(StakesError, said, load_recalibration, folder)


def test_a_users_own_cost_is_not_in_the_folder(opened: Recalibration, tmp_path: Path) -> None:
    file = tmp_path / "costs.py"
    file.write_text("def mine(action, outcome):\n    return (action - outcome) ** 2\n")
    spec = CostSpec.parse(f"{file}:mine:lower=0,upper=30,convex=yes")
    folder = save_recalibration(tmp_path / "own", replace(opened, cost_spec=spec))
    assert str(tmp_path) not in (folder / MANIFEST).read_text()
    refuses(StakesError, "only its name was kept; give the file again", load_recalibration, folder)
    assert load_recalibration(folder, spec).cost_spec == spec
