"""Quantiles of several outcomes put together by past errors."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from calls import called, complaint

LEVELS = {"q10": -1.2816, "q50": 0.0, "q90": 1.2816}
NEWSVENDOR = "newsvendor:underage=9,overage=1,lower=0,upper=99"


def quantiles(centre: pd.DataFrame) -> pd.DataFrame:
    """Of normal outcomes around a centre with deviation 1."""
    return pd.DataFrame(
        {f"{site}_{level}": centre[site] + apart for site in centre for level, apart in LEVELS.items()}, centre.index
    )


@pytest.fixture(autouse=True)
def files(elsewhere: None) -> None:
    """Two sites whose errors cancel out, except for `others.csv`, whose errors are the same."""
    random = np.random.default_rng(0)
    centre = pd.DataFrame(random.uniform(10, 20, (300, 2)), columns=["north", "south"])
    error = random.normal(size=300)
    centre.index = pd.date_range("2020-01-01", periods=300, name="time")
    for name, sign in {"past.csv": -1, "alike.csv": 1}.items():
        seen = pd.DataFrame({"north": centre["north"] + error, "south": centre["south"] + sign * error})
        pd.concat([quantiles(centre), seen], axis=1).to_csv(name)
        seen.sub(centre).to_csv(f"only_{name}")
    quantiles(centre.iloc[:5]).to_csv("new.csv")


def decided(*words: str) -> tuple[pd.DataFrame, list[str]]:
    code, output, errors = called("decide", "--members", "new.csv", "--cost", NEWSVENDOR, "--json", *words)
    assert code == 0, errors
    found = json.loads(output)
    return pd.DataFrame(found["rows"]), found["notes"]


def test_errors_that_cancel_leave_nothing_to_insure_against() -> None:
    middle = pd.read_csv("new.csv")[["north_q50", "south_q50"]].sum(axis=1)
    against, notes = decided("--dependence", "past.csv")
    np.testing.assert_allclose(against["action"], middle, atol=0.25)  # the 90 % quantile of a sum without error
    assert notes[-1].startswith("joint scenarios: 200 a case, in the order of the errors of 300 past cases")
    alike, _ = decided("--dependence", "alike.csv")
    np.testing.assert_allclose(alike["action"], middle + 2 * 1.2816, atol=0.25)  # both at their 90 % quantile
    outcomes, notes = decided("--dependence", "only_past.csv")
    np.testing.assert_allclose(outcomes["action"], middle, atol=0.25)
    assert any("no forecasts beside its outcomes" in note for note in notes)


def test_other_names_of_outcomes_and_reduced_scenarios() -> None:
    pd.read_csv("past.csv").rename(columns={"north": "seen_north", "south": "seen_south"}).to_csv(
        "named.csv", index=False
    )
    words = ("--dependence", "named.csv", "--target", "seen_north,seen_south")
    whole, _ = decided(*words)
    reduced, notes = decided(*words, "--reduce", "40", "--scenarios", "s.csv")
    np.testing.assert_allclose(reduced["action"], whole["action"], atol=0.3)
    scenarios = pd.read_csv("s.csv")
    assert scenarios.groupby(["time", "outcome"])["probability"].sum().to_numpy() == pytest.approx(1)
    assert any("200 members are reduced to 40" in note for note in notes)


def test_a_long_table_of_hours() -> None:
    wide = pd.read_csv("past.csv")
    parts = [
        pd.DataFrame(
            {"time": wide["time"], "site": site, "seen": wide[site], **{q: wide[f"{site}_{q}"] for q in LEVELS}}
        )
        for site in ("north", "south")
    ]
    table = pd.concat(parts)
    table.to_csv("long_past.csv", index=False)
    table[table["time"] < "2020-01-06"].drop(columns="seen").to_csv("long_new.csv", index=False)
    words = ["decide", "--cost", NEWSVENDOR, "--json", "--site", "site", "--members", "long_new.csv", "--dependence"]
    code, output, errors = called(*words, "long_past.csv")
    assert code == 0, errors
    expected, _ = decided("--dependence", "past.csv")
    found = pd.DataFrame(json.loads(output)["rows"])
    np.testing.assert_allclose(found["action"], expected["action"], atol=1e-9)
    table[["time", "site", "seen"]].to_csv("long_seen.csv", index=False)
    code, output, errors = called(*words, "long_seen.csv")
    assert code == 0, errors
    assert "in the order of the outcomes" in errors


def test_refusals_name_the_way() -> None:
    words = ("decide", "--members", "new.csv", "--cost", NEWSVENDOR)
    assert "--dependence PAST" in complaint(*words)
    assert "--dependence needs --members" in complaint("decide", "a", "b", "--dependence", "past.csv")
    assert "--dependence is for quantiles" in complaint(
        "decide", "--members", "members.csv", "--cost", "shortfall:penalty=5", "--dependence", "past.csv"
    )
    assert "--target" in complaint(*words, "--dependence", "outcomes.csv")
    pd.read_csv("past.csv").head(9).to_csv("few.csv", index=False)
    assert "at least 20 complete past cases" in complaint(*words, "--dependence", "few.csv")
    pd.read_csv("past.csv").rename(columns=lambda name: name.replace("south", "west")).to_csv("west.csv", index=False)
    assert "west.csv" in complaint(*words, "--dependence", "west.csv")
    assert Path("mine.csv").read_text() == "mine"
