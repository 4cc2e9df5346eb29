import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from calls import called, complaint
from load_tables import load_table

from stakes import ParameterRange, ShortfallCost, value_curve

WORDS = [
    "value",
    "--members",
    "members.csv",
    "--outcomes",
    "outcomes.csv",
    "--cost",
    "shortfall:penalty=1..50,unit=EUR",
]


def test_two_forecasts_a_page_and_a_table() -> None:
    table = pd.read_csv("members.csv", index_col="time")
    point = table.mean(axis=1).rename("power").to_frame().iloc[3:]
    point.to_csv("point.csv")  # one number a case, of fewer cases and in another order
    code, output, errors = called(
        *WORDS, "--against", "point.csv", "--report", "v.html", "--out", "v.csv", "--values", "7"
    )
    assert code == 0, errors
    assert "3 of 60 cases of members are left out" in errors
    found = pd.read_csv("v.csv")
    assert found["penalty"].tolist() == pytest.approx(np.geomspace(1, 50, 7))
    outcomes = pd.read_csv("outcomes.csv", index_col="time").loc[point.index]
    wanted = value_curve(
        {"members": table.loc[point.index], "point": point},
        outcomes,
        ShortfallCost(ParameterRange(1, 50)),
        found["penalty"],
    )
    np.testing.assert_allclose(found["cost members"], wanted.cost[0])
    np.testing.assert_allclose(found["value point"], wanted.value[1])
    page = Path("v.html").read_text()
    assert "What members is worth against point" in page
    assert "Where the money went, at penalty 7.07" in page
    assert "highest third" in page
    assert output.splitlines()[-2:] == ["v.csv", "v.html"]
    record = json.loads(called(*WORDS, "--json", "--quiet")[1])
    assert record["forecasts"] == ["members"]
    assert len(record["rows"]) == 50
    assert "EUR" in record["sentence"]


def test_a_fit_is_judged_for_other_costs_than_its_own(fitted: Path) -> None:
    load_table().to_csv("later.csv", index=False)
    code, output, errors = called("value", str(fitted), "later.csv", "--cost", "imbalance:short=1..20,long=1,upper=150")
    assert code == 0, errors
    assert "short" in output
    assert "The forecast is" in output


def test_refusals() -> None:
    assert "range of one parameter" in complaint(*WORDS[:-1], "shortfall:penalty=5")
    assert "--outcomes" in complaint(*WORDS[:3], *WORDS[-2:])
    assert "FOLDER" in complaint("value", *WORDS[-2:])
    assert "values must be at least 2" in complaint(*WORDS, "--values", "1", "--quiet")
    assert ".html" in complaint(*WORDS, "--report", "page.pdf")
    pd.read_csv("members.csv").assign(time=lambda t: t["time"].str.replace("2020", "2031")).to_csv("o.csv", index=False)
    assert "outcome" in complaint(*WORDS, "--against", "o.csv")
