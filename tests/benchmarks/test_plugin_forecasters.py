"""The summary of the study of plugins: the weight by 2019 alone, and figures of 2020, on invented scores."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks import plugin_forecasters
from benchmarks.plugin_forecasters import METRICS, WAYS, Way

DAYS, FIRST_YEAR, SEEDS = 731, 365, 3


def test_validation_chooses_and_test_days_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin_forecasters, "FOLDER", tmp_path)
    (tmp_path / "NHITS").mkdir()
    noise = np.random.default_rng(0)
    for seed in range(SEEDS):
        common = noise.normal(size=DAYS)
        for way in WAYS:
            cost = common + 0.01 * noise.normal(size=DAYS)
            cost[:FIRST_YEAR] -= 0.5 * (way.weight == 0.1)  # the cheapest in the year that chooses
            cost[FIRST_YEAR:] -= 1.0 * (way.weight == 0.3)  # the cheapest in the year that tells
            scores = dict.fromkeys(METRICS, cost)
            np.savez(tmp_path / "NHITS" / f"seed {seed}, {way.name}.npz", package_version="9.9", **scores)
    about = plugin_forecasters.summary()["NHITS"]
    assert (about["seeds"], about["test_days"], about["version"]) == (SEEDS, DAYS - FIRST_YEAR, "9.9")
    rows = {row["way"]: row for row in about["ways"]}
    assert [rows[Way("energy", weight).name]["chosen_by_validation"] for weight in (0.0, 0.1, 0.3)] == [
        False,
        True,
        False,
    ]
    mean, low, high = rows[Way("energy", 0.3).name]["cost_minus_base"]
    assert low < mean < high < -0.9
    assert mean == pytest.approx(-1, abs=0.01)
    unchanged = rows[Way("energy", 0.1).name]["cost_minus_own_head"]
    assert unchanged[1] < 0 < unchanged[2]
