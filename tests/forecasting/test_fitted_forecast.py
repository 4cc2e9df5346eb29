"""A fitted forecast answers as the estimator that fitted it, and refuses what is not of its fit."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from refusals import refuses

from stakes import DecisionAwareForecaster, ParameterRange, ShortfallCost, StakesError


@pytest.fixture(scope="module", params=[5.0, ParameterRange(1, 20)], ids=["a number", "a range"])
def fitted(request: pytest.FixtureRequest) -> DecisionAwareForecaster:
    random = np.random.default_rng(0)
    features = pd.DataFrame(random.uniform(size=(120, 2)), columns=["wind", "temp"])
    ranged = isinstance(request.param, ParameterRange)
    few = DecisionAwareForecaster(
        ShortfallCost(request.param),
        decision_weight=0.5,
        baseline=True,
        conditioned=ranged,
        epochs=2,
        members=20,
        ensemble=2,
        random_state=0,
    )
    return few.fit(features, features.mean(axis=1) + random.normal(0, 0.1, 120))


def test_it_answers_without_the_estimator(fitted: DecisionAwareForecaster) -> None:
    forecast, random = pickle.loads(pickle.dumps(fitted.forecast_)), np.random.default_rng(1)
    features = pd.DataFrame(random.uniform(size=(30, 2)), columns=["wind", "temp"])
    given = None if forecast.state.ranged is None else {"penalty": 4.0}
    np.testing.assert_array_equal(
        *(each.sample(features, cost_parameters=given) for each in (forecast, fitted)), strict=True
    )
    np.testing.assert_array_equal(*(each.decide(features, cost_parameters=given) for each in (forecast, fitted)))
    assert forecast.score(features, features.mean(axis=1)) == fitted.score(features, features.mean(axis=1))


def test_the_forecast_of_an_estimator_is_for_what_is_asked_of_it_now(fitted: DecisionAwareForecaster) -> None:
    other = copy.deepcopy(fitted).set_params(members=7, block=3)
    assert (other.forecast.state.members, other.forecast.state.block) == (7, 3)
    assert fitted.forecast_.state.members == other.forecast_.state.members == 20


@pytest.mark.parametrize(
    "wrong",
    [
        pd.DataFrame({"temp": [0.1], "wind": [0.2]}),
        pd.DataFrame({"wind": [0.1], "temp": [np.nan]}),
        pd.DataFrame({"wind": ["calm"], "temp": [0.2]}),
        np.ones((2, 3)),
        np.ones((0, 2)),
        np.full((1, 2), 1e300),
    ],
    ids=["order", "missing", "words", "width", "no rows", "too large"],
)
def test_what_is_not_of_the_fit_is_refused(fitted: DecisionAwareForecaster, wrong: object) -> None:
    refuses(StakesError, "X", fitted.forecast_.sample, wrong, cost_parameters=None)
