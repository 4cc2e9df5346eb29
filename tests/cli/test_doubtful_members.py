"""Forecasts that can hardly be right: taken as they are, and told by every command that reads them."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from calls import called

COST = "schedule:short=9,long=1"
BLOCKS = ("b00", "b04", "b08")
DAYS = pd.date_range("2020-01-01", periods=80).strftime("%Y-%m-%d")
CODE = "note: 'members.csv' has -999 among the members of 'b08', case 2020-01-03"


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Five members of three blocks, one of which is a code, and what happened, in another unit, with a code as well."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    days = random.normal(6000, 400, (80, 1))
    cells = {block: days + random.normal(0, 100, (80, 5)) for block in BLOCKS}
    loads = {f"{block}_m{member}": values[:, member] for block, values in cells.items() for member in range(5)}
    seen = pd.DataFrame({block: values[:, 0] + random.normal(0, 100, 80) for block, values in cells.items()})
    members = pd.DataFrame({"time": DAYS, **loads})
    members.loc[2, "b08_m3"] = -999
    return members, seen.assign(time=DAYS)


def told(*words: str) -> str:
    code, _, errors = called(*words)
    assert code == 0, errors
    return errors


def test_members_and_outcomes_are_told(tables: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    members, seen = tables
    words = ("--members", "members.csv", "--cost", COST)
    members.drop(index=2).to_csv("members.csv", index=False)
    assert "-999" not in told("decide", *words)
    members.to_csv("members.csv", index=False)
    assert CODE in told("decide", *words)
    seen.assign(**{block: 0.001 * seen[block] for block in BLOCKS}).to_csv("seen.csv", index=False)
    errors = told("evaluate", *words, "--outcomes", "seen.csv")
    assert CODE in errors
    assert "different unit" in errors
    seen.loc[3, "b04"] = -999
    seen.to_csv("seen.csv", index=False)
    errors = told("evaluate", *words, "--outcomes", "seen.csv")
    assert "different unit" not in errors
    assert "note: 'seen.csv' has -999 in 'b04', data row 4" in errors


def test_recalibrate_and_its_decisions_tell_of_members_too(tables: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    members, seen = tables
    members.merge(seen).to_csv("members.csv", index=False)
    words = ("--forecast", "b00_m0:b08_m4", "--outcome", "b00:b08", "--lead", "24", "--decision-weights", "none")
    assert CODE in told("recalibrate", "members.csv", *words, "--cost", COST, "--out", "folder")
    members.head(9).to_csv("members.csv", index=False)
    assert CODE in told("decide", "folder", "members.csv", "--out", "decided.csv")
