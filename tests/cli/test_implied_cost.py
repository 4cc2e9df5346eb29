import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from calls import called, complaint

from stakes import NewsvendorCost, ParameterRange, implied_cost

WORDS = ["implied-cost", "past.csv", "--action", "did", "--outcome", "sold", "--cost"]


@pytest.fixture(autouse=True)
def past(elsewhere: None) -> pd.DataFrame:
    random = np.random.default_rng(0)
    known = random.normal(50, 10, 600).round(2)
    table = pd.DataFrame({f"m{place}": known + 5 * random.normal(size=600) for place in range(9)})
    table = table.assign(did=known + 4, sold=(known + 5 * random.normal(size=600)).round(2))
    table.insert(0, "time", pd.date_range("2020-01-01", periods=600, freq="D"))
    table.to_csv("past.csv", index=False)
    return table


def test_a_name_is_enough_of_a_cost(past: pd.DataFrame) -> None:
    past.sample(frac=1, random_state=0).to_csv("past.csv", index=False)  # in any order
    code, output, errors = called(*WORDS, "newsvendor", "--json")
    assert code == 0, errors
    found = json.loads(output)
    cost = NewsvendorCost(ParameterRange(0.01, 100), 1.0, 0.0, 1000.0)
    wanted = implied_cost(past["did"], past["sold"], cost, times=past["time"])
    assert [found[key] for key in ("value", "low", "high")] == pytest.approx([wanted.value, wanted.low, wanted.high])
    assert called(*WORDS, "newsvendor")[1].startswith("The actions behave as if being short cost ")


def test_a_forecast_beside_and_rows_left_out(past: pd.DataFrame) -> None:
    past.loc[3, "did"] = np.nan
    past.to_csv("past.csv", index=False)
    code, output, errors = called(*WORDS, "newsvendor:overage=1,underage=0.1..60", "--forecast", "m0:m8")
    assert code == 0, errors
    assert "The forecast implies " in output
    assert "1 row of 600 lack" in errors


def test_refusals() -> None:
    assert "no column 'doing'" in complaint(*WORDS[:3], "doing", *WORDS[4:], "newsvendor")
    assert "range of one parameter" in complaint(*WORDS, "newsvendor:underage=4,overage=1")
    assert "no cost 'newsboy'" in complaint(*WORDS, "newsboy")
    assert "between lower 0 and upper 1" in complaint(*WORDS, "shortfall")
    pd.DataFrame({"did": [np.nan], "sold": [1.0]}).to_csv("empty.csv", index=False)
    assert "no row with both" in complaint("implied-cost", "empty.csv", *WORDS[2:], "newsvendor")
    assert Path("mine.csv").read_text() == "mine"
