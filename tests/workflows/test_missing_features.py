"""Decisions for rows that lack a feature."""

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from calls import called, complaint
from load_tables import load_table

from stakes.workflows import fit

QUICK = ["--model", "linear", "--members", "300", "--decision-weight", "0", "--outcome-bounds", "none"]
HERE = ["--device", "cpu", "--workers", "1", "--quiet"]
COST = ["--cost", "imbalance:short=3,long=1,upper=60,lower=-60"]
NOISE = 0.5


@pytest.fixture(autouse=True)
def no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit, "write_comparison", lambda *_: None)


def table(rows: int, seed: int) -> pd.DataFrame:
    """A load of two features that go together, and some noise."""
    generator = np.random.default_rng(seed)
    shared = generator.normal(size=rows)
    wind, sun = (0.8 * shared + 0.6 * generator.normal(size=rows) for _ in range(2))
    return pd.DataFrame({"wind": wind, "sun": sun, "load": wind + 2 * sun + NOISE * generator.normal(size=rows)})


def fitted(data: pd.DataFrame, *columns: str) -> None:
    data.to_csv("past.csv", index=False)
    code, _, errors = called("fit", "past.csv", *columns, *QUICK, *COST, *HERE, "--out", "fit")
    assert code == 0, errors


def decided(data: pd.DataFrame, *words: str) -> tuple[pd.DataFrame, list[str]]:
    data.to_csv("new.csv", index=False)
    code, output, errors = called("decide", "fit", "new.csv", "--json", *words)
    assert code == 0, errors
    found: dict[str, Any] = json.loads(output)
    assert [line.removeprefix("note: ") for line in errors.splitlines()] == found["notes"]
    return pd.DataFrame(found["rows"]), found["notes"]


def test_a_forecast_without_a_feature_is_as_wide_as_what_is_not_known() -> None:
    fitted(table(1000, 0), "--target", "load")
    new = table(600, 1)
    complete, notes = decided(new)
    assert ("missing_features" not in complete, notes) == (True, [])
    lacking = new.assign(sun=new["sun"].where(new.index % 2 == 0))
    found, (note,) = decided(lacking)
    assert note.startswith("300 of 600 rows are decided without 'sun', see the column missing_features: ")
    assert list(found["row"]) == list(range(1, 601))
    assert (found["missing_features"] == np.where(new.index % 2, "sun", "")).all()
    pd.testing.assert_frame_equal(found[::2].drop(columns="missing_features"), complete[::2])
    guessed = found[1::2]
    width, load = guessed["quantile_0.9"] - guessed["quantile_0.1"], new["load"][1::2]
    slope = 0.8**2  # of the sun by the wind
    spread = np.sqrt(4 * (1 - slope**2) + NOISE**2)
    found_slope, offset = np.polyfit(new["wind"][1::2], guessed["quantile_0.5"], 1)
    assert found_slope == pytest.approx(1 + 2 * slope, rel=0.05)  # of 1,000 rows of the fit
    assert abs(offset) < 0.2
    assert width.mean() == pytest.approx(2 * 1.2816 * spread, rel=0.03)
    inside = (guessed["quantile_0.1"] <= load) & (load <= guessed["quantile_0.9"])
    truly = (load - (1 + 2 * slope) * new["wind"][1::2]).abs() <= 1.2816 * spread
    assert inside.mean() == pytest.approx(truly.mean(), abs=0.025)
    assert guessed["expected_cost"].mean() > 3 * complete["expected_cost"].mean()


def test_rows_that_lack_too_much_are_left_out_and_counted() -> None:
    fitted(table(200, 0), "--target", "load")
    new = table(4, 1)
    new.loc[1, "wind"] = np.nan
    new.loc[3, ["wind", "sun"]] = np.nan
    found, notes = decided(new)
    assert list(found["missing_features"]) == ["", "wind", ""]
    assert notes[1:] == ["1 of 4 rows left out: a feature is missing"]
    last, notes = decided(new, "--last")
    assert list(last["row"]) == [3]
    assert notes[0] == "the newest row, 4, lacks too many features for a decision"
    last, notes = decided(new[:2], "--last")
    assert list(last["missing_features"]) == ["wind"]
    new[3:].to_csv("new.csv", index=False)
    assert "has no value in any row" in complaint("decide", "fit", "new.csv")


def test_a_feature_that_the_fit_has_hardly_seen_is_not_drawn() -> None:
    past = table(400, 0)
    past.loc[:249, "sun"] = np.nan
    fitted(past, "--target", "load")
    new = table(3, 1)
    new.loc[0, "sun"] = new.loc[2, "wind"] = np.nan
    found, notes = decided(new)
    assert list(found["missing_features"]) == ["", "wind"]
    assert "1 of 3 rows left out: a feature is missing" in notes


def test_a_lagged_feature_and_the_calendar() -> None:
    columns = ["--target", "load", "--time", "time", "--lags", "0,12", "--lead", "12", "--calendar", "hour"]
    fitted(load_table().drop(columns="bought"), *columns)
    new = load_table(40).drop(columns="bought")
    new.loc[20, "load"] = np.nan
    found, _ = decided(new)
    missing = dict(zip(found["time"], found["missing_features"], strict=True))
    assert {time: names for time, names in missing.items() if names} == {
        "2021-01-11T12:00:00Z": "load@0h",
        "2021-01-12T00:00:00Z": "load@-12h",
    }
    assert found["time"].is_monotonic_increasing


def test_a_fit_of_few_rows_leaves_such_rows_out() -> None:
    fitted(table(29, 0), "--target", "load")
    new = table(3, 1)
    new.loc[1, "wind"] = np.nan
    found, notes = decided(new)
    assert list(found["row"]) == [1, 3]
    assert "1 of 3 rows left out: a feature is missing" in notes


def test_a_feature_beyond_its_range_is_named_where_the_decision_is() -> None:
    fitted(table(1000, 0), "--target", "load")
    new = table(40, 1)
    new.loc[7, "sun"] += 8
    found, notes = decided(new)
    assert found["outside_training_range"][7] == "sun"
    assert (found["outside_training_range"] != "").sum() == 1
    assert any("outside_training_range: 'sun'" in note for note in notes)
    complete, _ = decided(new.assign(sun=new["sun"].where(new.index != 7)))
    same = ["action", "expected_cost", "quantile_0.1"]
    pd.testing.assert_frame_equal(found[same], complete[same])  # as if it were missing
    new.to_csv("new.csv", index=False)
    code, _, errors = called("evaluate", "fit", "new.csv", "--cases", "cases.csv", "--json")
    assert code == 0, errors
    assert "outside_training_range: 'sun'" in errors
    assert pd.read_csv("cases.csv")["outside_training_range"].fillna("")[7] == "sun"
