"""What varies in a user's numbers is refused where single precision would lose it, and accepted where it would not."""

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from calls import called
from refusals import refuses

import stakes
from reproduction.tasks.task import chronological_data
from stakes.data.case_table import require_single_precision
from stakes.data.tables.lags import Split
from stakes.errors import TableError

NOISE = np.random.default_rng(0).normal(50, 10, 400)
COST = stakes.ImbalanceCost(short=10.0, long=1.0, lower=0.0, upper=2e9)

LOST = {
    "an offset": 1e9 + NOISE,
    "a negative offset": -1e9 + NOISE,
    "an offset of a million": 1e6 + NOISE,
    "whole numbers": 1e9 + NOISE.round(),
    "zeros among them": np.where(np.arange(400) % 50 == 0, 0.0, 1e9 + NOISE),
    "mostly one number": np.where(np.arange(400) % 5 == 0, 1e9 + 5, 1e9),
    "a small number that varies less": 1 + 1e-9 * NOISE,
}
KEPT = {
    "noise": NOISE,
    "pascals": 101_325 + 80 * NOISE,
    "seconds since 1970": 1.6e9 + 3600.0 * np.arange(400),
    "a constant": np.full(400, 1e9 + 0.1),
    "a constant, rounded in double precision": np.where(np.arange(400) % 2, 4160.0, 4159.999999999991),
    "one very large number": np.where(np.arange(400) == 7, 1e30, NOISE),
    "mostly zeros": np.where(np.arange(400) % 10 == 0, NOISE, 0.0),
    "small numbers": 1e-30 * NOISE,
    "numbers that single precision does not have": 1e300 * NOISE,
    "one row": NOISE[:1] + 1e9,
}


@pytest.mark.parametrize("name", LOST)
def test_what_would_be_lost_is_refused(name: str) -> None:
    with pytest.raises(TableError, match="'load'"):
        require_single_precision(np.stack([NOISE, LOST[name]], axis=1), ["wind", "load"], "target")


@pytest.mark.parametrize("name", KEPT)
def test_what_is_kept_is_accepted(name: str) -> None:
    require_single_precision(KEPT[name][:, None], ["load"], "target")


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e3])
def test_columns_that_are_accepted_are_kept_to_a_thousandth(scale: float) -> None:
    for offset in 10.0 ** np.arange(10):
        values = (offset + NOISE)[:, None] * scale
        try:
            require_single_precision(values, ["load"], "target")
        except TableError:
            assert offset > 1e3
            continue
        error = values.astype(np.float32).astype(np.float64) - values
        assert np.abs(error).max() < 1e-3 * values.std()


def test_the_estimator_refuses_targets_and_features() -> None:
    features = NOISE[:, None]
    refuses(TableError, "target 'y' varies", stakes.DecisionAwareForecaster(COST).fit, features, 1e9 + NOISE)
    with pytest.raises(TableError, match="target 'b' varies"):
        stakes.DecisionAwareForecaster(COST).fit(features, pd.DataFrame({"a": NOISE, "b": 1e9 + NOISE}))
    with pytest.raises(TableError, match="feature 'x1' varies"):
        stakes.DecisionAwareForecaster(COST).fit(np.stack([NOISE, 1e9 + NOISE], 1), NOISE)
    with pytest.raises(TableError, match="'wind'"):
        stakes.DecisionAwareForecaster(COST).fit(pd.DataFrame({"wind": 1e9 + NOISE}), NOISE)


@pytest.mark.parametrize(("features", "outcomes", "said"), [(1e9, 0.0, "feature 'wind'"), (0.0, 1e9, "target 'load'")])
def test_tasks_refuse_them(features: float, outcomes: float, said: str) -> None:
    values = NOISE[:, None]
    split = Split(
        torch.from_numpy(values + features),
        torch.from_numpy(values + outcomes),
        np.arange(400).astype("datetime64[s]"),
        ("wind",),
        ("load",),
    )
    refuses(TableError, said, chronological_data, dict.fromkeys(("train", "validation", "test"), split), "MW", "")


def test_members_are_decided_for_in_double_precision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    members = np.random.default_rng(1).normal(50, 10, (30, 20)).round(6)
    tables = {}
    for offset in (0, 10**9):
        table = pd.DataFrame(members + offset, columns=[f"m{place}" for place in range(20)])
        table.to_csv("members.csv", index=False)
        cost = f"imbalance:short=10,long=1,lower={offset},upper={offset + 150}"
        code, output, _ = called("decide", "--members", "members.csv", "--cost", cost, "--quiet")
        assert code == 0
        tables[offset] = pd.read_csv(io.StringIO(output))
    plain, far = tables.values()
    assert np.allclose(far["action"] - 10**9, plain["action"], atol=1e-5)
    assert np.allclose(far["expected_cost"], plain["expected_cost"], atol=1e-4)
