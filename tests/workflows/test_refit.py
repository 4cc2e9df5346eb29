"""What a refit says of the fit before."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from calls import called
from load_tables import load_table

from stakes.artifacts.fits import load_bundle
from stakes.evaluation.intervals import block_length, paired_difference
from stakes.workflows import fit

QUICK = ["--model", "linear", "--members", "20", "--decision-weight", "0"]
COLUMNS = ["--target", "load", "--time", "time", "--lags", "0,12", "--lead", "12"]
COST = ["--cost", "imbalance:short=10,long=1,upper=20,unit=EUR"]
HERE = ["--device", "cpu", "--workers", "1", "--quiet"]


@pytest.fixture(autouse=True)
def tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit, "write_comparison", lambda *_: None)
    for name, rows in (("load", 150), ("longer", 200)):
        load_table(rows).assign(bought=np.arange(rows)).to_csv(f"{name}.csv", index=False)


def last_sentence(columns: list[str], table: str, *words: str) -> str:
    assert called("fit", "load.csv", *columns, *QUICK, *COST, *HERE, "--out", "old")[0] == 0
    code, output, errors = called("refit", "old", table, *words, *HERE, "--json", "--out", "new")
    assert code == 0, errors
    sentence: str = json.loads(output)["sentences"][-1]
    return sentence


@pytest.mark.parametrize("cost", [[], ["--cost", "imbalance:short=2,long=1,upper=20"]])
def test_both_are_judged_on_cases_that_neither_has_seen(cost: list[str]) -> None:
    sentence = last_sentence(COLUMNS, "longer.csv", *cost)
    judged, bundle = pd.read_parquet("new/evaluation/cases.parquet"), load_bundle(Path("old"))
    if cost:
        bundle = load_bundle(Path("old"), cost=load_bundle(Path("new")).forecaster.cost)
    times = judged["time"].to_numpy()
    newer = times > load_table(150)["time"].to_numpy()[-1]
    assert 0 < newer.sum() < 50
    cases = bundle.layout.cases(pd.read_csv("longer.csv"))
    same = np.isin(cases.times, times[newer])
    before = bundle.forecaster.assess(cases.feature_table[same], cases.outcome_table[same])["cost"]
    after = judged["cost"].to_numpy(np.float64)[newer]
    change = paired_difference(after[None], before[None], block_length(len(judged), times))
    assert sentence.startswith(f"On the {newer.sum()} test cases newer than the old fit the new forecast ")
    assert f"(change {change.mean:+.3g}"[:12] in sentence


@pytest.mark.parametrize(
    ("table", "columns", "reason"),
    [
        ("load.csv", COLUMNS, "2021-03-16T12:00:00"),
        ("longer.csv", ["--target", "load"], "without times"),
        ("longer.csv", [*COLUMNS, "--test-fraction", "0"], "no test case was kept"),
    ],
)
def test_where_nothing_can_be_compared_that_is_said(table: str, columns: list[str], reason: str) -> None:
    assert reason in last_sentence(columns, table).partition("are not compared: ")[2]
