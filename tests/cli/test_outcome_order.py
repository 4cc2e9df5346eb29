"""Hours that a file has in another order than that of their numbers, as sorted and pivoted tables do."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from calls import called

BATTERY = "arbitrage:power=1,energy=2,efficiency=0.9"
HOURS = range(12)
TOLD = "note: outcomes are taken in the order of their numbers, not in that of the file: "
GIVEN = "note: the cost may depend on the order of outcomes, which is taken as given"


@pytest.fixture(autouse=True)
def prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    """Prices of five days, four members and twelve hours, a row for each, in the order of time."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    cells = [(f"2020-01-0{day}", member, hour) for day in range(1, 6) for member in range(4) for hour in HOURS]
    table = pd.DataFrame(cells, columns=["time", "member", "hour"]).assign(price=random.uniform(10, 60, len(cells)))
    table.to_csv("in_order.csv", index=False)
    return table


def decided(*words: str) -> tuple[pd.DataFrame, str]:
    code, _, errors = called("decide", "--cost", BATTERY, "--out", "decided.csv", "--force", *words)
    assert code == 0, errors
    return pd.read_csv("decided.csv"), errors


def named(prices: pd.DataFrame) -> pd.DataFrame:
    return prices.assign(hour="h" + prices["hour"].astype(str))


def costs(table: pd.DataFrame) -> list[float]:
    return table["expected_cost"].round(6).tolist()


def test_long_tables_go_by_the_numbers_of_their_sites(prices: pd.DataFrame) -> None:
    true, errors = decided("--members", "in_order.csv", "--site", "hour")
    assert TOLD not in errors
    named(prices).sort_values(["time", "member", "hour"]).to_csv("sorted.csv", index=False)
    prices[::-1].to_csv("falling.csv", index=False)
    for file, order in {"sorted.csv": "h0, h1, h2, ... h11", "falling.csv": "0, 1, 2, ... 11"}.items():
        found, errors = decided("--members", file, "--site", "hour")
        assert costs(found) == costs(true)
        assert f"{TOLD}{order}\n" in errors
        assert GIVEN not in errors
    assert [*found.columns[1:13]] == [f"action_charge_{hour}" for hour in HOURS]
    _, errors = decided("--members", "sorted.csv", "--site", "hour", "--sites", "each")
    assert TOLD not in errors


def test_wide_tables_and_evaluations_go_by_the_numbers_too(prices: pd.DataFrame) -> None:
    true, _ = decided("--members", "in_order.csv", "--site", "hour")
    table = named(prices)
    wide = table.assign(column=table["hour"] + "_m" + table["member"].astype(str))
    wide.pivot(index="time", columns="column", values="price").to_csv("wide.csv")
    found, errors = decided("--members", "wide.csv")
    assert costs(found) == costs(true)
    assert f"{TOLD}h0, h1, h2, ... h11\n" in errors
    seen = table[table["member"] == 0].pivot(index="time", columns="hour", values="price")
    seen.to_csv("seen.csv")
    code, _, errors = called(
        *("evaluate", "--members", "wide.csv", "--outcomes", "seen.csv", "--cost", BATTERY, "--cases", "cases.csv")
    )
    assert (code, errors.count(TOLD)) == (0, 1)
    cases = pd.read_csv("cases.csv")
    np.testing.assert_allclose(cases["expected_cost"], costs(true), atol=1e-6)
    in_order = [f"h{hour}" for hour in HOURS]
    moved = cases[[f"action_discharge_{hour}" for hour in in_order]].to_numpy()
    moved = cases[[f"action_charge_{hour}" for hour in in_order]].to_numpy() - moved
    np.testing.assert_allclose(cases["cost"], (moved * seen[in_order].to_numpy()).sum(1), atol=1e-6)


def test_an_order_that_the_user_names_is_kept_and_told(prices: pd.DataFrame) -> None:
    table = named(prices).pivot(index=["time", "member"], columns="hour", values="price").reset_index()
    table.to_csv("columns.csv", index=False)
    _, errors = decided("--members", "columns.csv", "--target", "h0:h11")
    assert GIVEN not in errors
    found, errors = decided("--members", "columns.csv", "--target", "h2,h1,h0")
    assert [*found.columns[1:4]] == ["action_charge_h2", "action_charge_h1", "action_charge_h0"]
    assert f"{GIVEN}, and is not that of their numbers: h2, h1, h0\n" in errors
    named(prices).to_csv("named.csv", index=False)
    found, errors = decided("--members", "named.csv", "--site", "hour", "--sites", "h2,h1,h0")
    assert (found.columns[1], TOLD in errors, GIVEN in errors) == ("action_charge_h2", False, True)


def test_hours_past_midnight_and_labels_without_numbers_keep_the_order_of_the_file(prices: pd.DataFrame) -> None:
    late = prices.assign(hour=(prices["hour"] + 18) % 24)
    late.to_csv("late.csv", index=False)
    found, errors = decided("--members", "late.csv", "--site", "hour")
    assert found.columns[1] == "action_charge_18"
    assert TOLD not in errors
    assert f"{GIVEN}, and is not that of their numbers: 18, 19, 20, ... 5\n" in errors
    prices[prices["hour"] < 2].assign(hour=lambda rows: rows["hour"].map({0: "night", 1: "day"})).to_csv(
        "words.csv", index=False
    )
    found, errors = decided("--members", "words.csv", "--site", "hour")
    assert f"{GIVEN}: night, day\n" in errors


def test_a_recalibration_learns_in_the_order_of_the_numbers_and_keeps_it(prices: pd.DataFrame) -> None:
    random = np.random.default_rng(1)
    days = pd.date_range("2020-01-01", periods=80).strftime("%Y-%m-%d")
    cells = {f"h{hour}_m{member}": random.uniform(10, 60, 80) for hour in (0, 10, 2) for member in (1, 2, 3)}
    happened = {f"h{hour}": random.uniform(10, 60, 80) for hour in (0, 10, 2)}
    did = {f"did_{hour}": at for hour, at in happened.items()}
    pd.DataFrame({"time": days, **cells, **happened, **did}).to_csv("past.csv", index=False)
    words = ("recalibrate", "past.csv", "--forecast", "h0_m1:h2_m3", "--outcome", "h0,h10,h2", "--lead", "24")
    plan = ("--cost", "schedule:short=5/6/7,long=1")
    code, _, errors = called(*words, *plan, "--decision-weights", "none", "--out", "folder")
    assert code == 0, errors
    assert f"{TOLD}h0, h2, h10\n" in errors
    forecasts = pd.DataFrame({"time": days, **cells})
    decisions = []
    for table in (forecasts, forecasts[["time", *reversed(cells)]]):
        table.to_csv("new.csv", index=False)
        code, _, errors = called("decide", "folder", "new.csv", *plan, "--out", "decided.csv", "--force")
        assert (code, TOLD in errors) == (0, False)
        assert "note: short: h0 5, h2 6, h10 7\n" in errors
        decisions.append(pd.read_csv("decided.csv"))
    pd.testing.assert_frame_equal(*decisions)
    assert [*decisions[0].columns[1:4]] == ["action_h0", "action_h2", "action_h10"]
    today = ("--baseline-action", "did_h0,did_h10,did_h2", "--cases", "cases.csv")
    code, _, errors = called("evaluate", "folder", "past.csv", *today)
    assert code == 0, errors
    assert not pd.read_csv("cases.csv")["today_cost"].any()


def test_todays_action_is_matched_by_name(prices: pd.DataFrame) -> None:
    table = named(prices)[prices["hour"].isin([1, 2, 10])]
    table.sort_values(["time", "member", "hour"]).to_csv("sorted.csv", index=False)
    did = {"h1": 1.0, "h10": 100.0, "h2": 10.0}
    days = prices["time"].unique()
    pd.DataFrame({"time": days, **did, **{f"did_{hour}": at for hour, at in did.items()}}).to_csv(
        "seen.csv", index=False
    )
    words = ("evaluate", "--members", "sorted.csv", "--site", "hour", "--outcomes", "seen.csv", "--cases", "cases.csv")
    for today in ("did_h1,did_h10,did_h2", "did_h2:did_h2,did_h1,did_h10"):
        code, _, errors = called(*words, "--baseline-action", today, "--cost", "schedule:short=5,long=1", "--force")
        assert code == 0, errors
        assert pd.read_csv("cases.csv")["today_cost"].tolist() == [0.0] * 5
