"""Tables of other libraries than pandas go into estimators and evaluation, and xarray has an accessor."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import xarray as xr
from refusals import refuses
from sklearn.linear_model import LinearRegression

import stakes
import stakes.integrations.xarray  # registers the accessor
from stakes.errors import ShapeError

COST = stakes.NewsvendorCost(9.0, 1.0, -50.0, 50.0)


def polars_table(table: pd.DataFrame) -> Any:
    return pytest.importorskip("polars").from_pandas(table)


@pytest.mark.parametrize("made", [pa.Table.from_pandas, polars_table], ids=["pyarrow", "polars"])
def test_tables_of_other_libraries_are_as_those_of_pandas(made: Callable[[pd.DataFrame], Any]) -> None:
    random = np.random.default_rng(0)
    centre = 10 * random.uniform(size=400)
    table = pd.DataFrame({"q10": centre - 1.3, "q50": centre, "q90": centre + 1.3})
    seen = pd.DataFrame({"demand": centre + random.normal(size=400)})
    other, outcome = made(table), made(seen)["demand"]
    quantiles, theirs = (
        stakes.Recalibrator(COST, decision_weights=()).fit(X, y) for X, y in ((table, seen["demand"]), (other, outcome))
    )
    assert theirs.state_.form == "quantiles"  # not three members
    np.testing.assert_array_equal(theirs.decide(other), quantiles.decide(table))
    for estimator in (
        stakes.DecisionAwareForecaster(COST, model="linear", decision_weight=0.0, random_state=0),
        stakes.DecisionRegressor(LinearRegression(), COST),
    ):
        known = estimator.fit(table, seen["demand"]).predict(table)
        found = estimator.fit(other, outcome)
        np.testing.assert_allclose(found.predict(other), known)
        assert list(found.feature_names_in_) == ["q10", "q50", "q90"]
        assert found.score(other, outcome) == pytest.approx(estimator.score(table, seen["demand"]))
        if isinstance(estimator, stakes.DecisionAwareForecaster):
            metrics, asked = estimator.evaluate(table, seen["demand"]), estimator.evaluate(other, outcome)
            assert (type(metrics), type(asked)) == (pd.DataFrame, type(other))
            assert np.asarray(asked["metric"]).tolist() == metrics.index.tolist()
            np.testing.assert_array_equal(np.asarray(asked["value"]), metrics["value"])
    members = table.rename(columns={"q10": "a", "q50": "b", "q90": "c"})
    wanted = stakes.evaluate_table(members, seen["demand"], COST)
    evaluated = stakes.evaluate_table(made(members), outcome, COST)
    assert type(evaluated) is type(other)
    np.testing.assert_array_equal(np.asarray(evaluated["cost"]), wanted["cost"])
    for forecast in (members, table):
        decided = stakes.decide_table(made(forecast), COST)
        assert type(decided) is type(other)
        by_pandas = stakes.decide_table(forecast.set_index(np.arange(400) + 7), COST)
        assert by_pandas.index[0] == 7
        np.testing.assert_array_equal(np.asarray(decided["action"]), by_pandas["action"])
    np.testing.assert_allclose(by_pandas["action"], table["q90"])  # quantiles, not three members


def test_a_table_of_decisions_refuses_what_is_no_one_forecast() -> None:
    refuses(
        ShapeError,
        "members or quantiles",
        stakes.decide_table,
        pd.DataFrame({"q10": [1], "q90": [2], "x": [3]}),
        COST,
    )
    refuses(ShapeError, "numbers", stakes.decide_table, pd.DataFrame({"m1": ["a"], "m2": ["b"]}), COST)
    missing = stakes.decide_table(pd.DataFrame({"m1": [1.0, np.nan], "m2": [2.0, 3.0]}), COST)
    assert missing["action"].isna().tolist() == [False, True]


def test_the_accessor_of_xarray() -> None:
    members = xr.DataArray(np.random.default_rng(0).normal(size=(5, 20)), dims=("time", "number"))
    xr.testing.assert_identical(members.stakes.decide(COST), stakes.decide_array(members, COST))
    outcome = members[:, 0]
    xr.testing.assert_identical(members.stakes.evaluate(outcome, COST), stakes.evaluate(members, outcome, COST))
