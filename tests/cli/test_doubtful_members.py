"""Forecasts that can hardly be right: taken as they are, and told."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from calls import called

COST = "schedule:short=9,long=1"
BLOCKS = ("b00", "b04", "b08")
DAYS = pd.date_range("2020-01-01", periods=120).strftime("%Y-%m-%d")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def loads() -> pd.DataFrame:
    random = np.random.default_rng(0)
    days = random.normal(6000, 400, (120, 1))
    cells = {block: days + random.normal(0, 100, (120, 5)) for block in BLOCKS}
    columns = {f"{block}_m{member}": values[:, member] for block, values in cells.items() for member in range(5)}
    return pd.DataFrame({"time": DAYS, **columns})


def happened(unit: float = 1.0) -> pd.DataFrame:
    seen, errors = loads(), np.random.default_rng(1).normal(30, 100, (3, 120))
    values = {block: unit * (seen[f"{block}_m0"] + error) for block, error in zip(BLOCKS, errors, strict=True)}
    return pd.DataFrame({"time": DAYS, **values})


def notes(command: str, table: pd.DataFrame, *words: str) -> str:
    table.to_csv("members.csv", index=False)
    code, _, errors = called(command, "--members", "members.csv", "--cost", COST, *words)
    assert code == 0, errors
    return errors


def doubtful() -> dict[str, pd.DataFrame]:
    coded, quantiles, of_gw = loads(), loads(), loads()
    coded.loc[2, "b08_m3"] = -999
    for block in BLOCKS:
        of_block = [column for column in quantiles if column.startswith(block)]
        quantiles[of_block] = np.sort(quantiles[of_block].to_numpy(), axis=1)
    of_gw[[column for column in of_gw if column.startswith("b04")]] /= 1000
    return {
        "note: 'members.csv' has -999 among the members of 'b08', case 2020-01-03 00:00:00, far beyond": coded,
        "note: the members of every case ascend, as quantiles do": quantiles,
        "note: 'members.csv' has b04 around 6.03, and all other targets around 6,0": of_gw,
    }


def test_members_are_told_by_decide_and_evaluate() -> None:
    happened().to_csv("seen.csv", index=False)
    for table in (loads(), loads().head(3)):
        assert not any(note in notes("decide", table) for note in doubtful())
    for note, table in doubtful().items():
        assert note in notes("decide", table)
        assert note in notes("evaluate", table, "--outcomes", "seen.csv")
    assert "ascend" not in notes("decide", [*doubtful().values()][1], "--read-as", "members")


def test_outcomes_are_told_by_evaluate() -> None:
    unit, code = "seems to be in another unit than its outcomes", "leave the field empty"
    happened().to_csv("seen.csv", index=False)
    errors = notes("evaluate", loads(), "--outcomes", "seen.csv")
    assert unit not in errors
    assert code not in errors
    happened(0.001).to_csv("seen.csv", index=False)
    errors = notes("evaluate", loads().head(12), "--outcomes", "seen.csv")
    assert f"note: the forecast {unit}: forecasts of b00 lie around 6," in errors
    seen = happened()
    seen.loc[3, "b04"] = -999
    seen.to_csv("seen.csv", index=False)
    errors = notes("evaluate", loads(), "--outcomes", "seen.csv")
    assert "note: 'seen.csv' has -999 in 'b04', data row 4, beyond all other" in errors


def test_recalibrate_and_its_decisions_tell_of_members_too() -> None:
    note, coded = next(iter(doubtful().items()))
    coded.merge(happened()).to_csv("members.csv", index=False)
    words = ("--forecast", "b00_m0:b08_m4", "--outcome", "b00:b08", "--lead", "24", "--decision-weights", "none")
    code, _, errors = called("recalibrate", "members.csv", *words, "--cost", COST, "--out", "folder")
    assert code == 0, errors
    assert note in errors
    coded.head(9).to_csv("members.csv", index=False)
    assert note in called("decide", "folder", "members.csv", "--out", "decided.csv")[2]
