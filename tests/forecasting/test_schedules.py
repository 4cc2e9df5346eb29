"""The estimator with a decision of many parts."""

import numpy as np
import pandas as pd
import pytest

import stakes
from stakes.forecasting.fitted_forecast import ForecastState
from stakes.settings import from_plain, to_plain


@pytest.fixture(scope="module")
def forecaster() -> stakes.DecisionAwareForecaster:
    random = np.random.default_rng(0)
    features = random.normal(size=(120, 2))
    outcome = 2 + features @ random.normal(size=(2, 3)) + 0.3 * random.normal(size=(120, 3))
    cost = stakes.ScheduleCost(short=5.0, long=1.0, ramp=0.3)
    return stakes.DecisionAwareForecaster(cost, epochs=1, members=20, random_state=0).fit(features, outcome)


def test_schedules_keep_their_ramps_and_are_certified(forecaster: stakes.DecisionAwareForecaster) -> None:
    decisions = forecaster.solve(np.zeros((4, 2)))
    assert decisions.action.shape == (4, 3)
    assert np.abs(np.diff(decisions.action, axis=1)).max() <= 0.3 + 1e-5
    assert decisions.certified.all()
    assert list(decisions.to_frame(pd.RangeIndex(4, name="row")).columns[1:5]) == [
        "action_1",
        "action_2",
        "action_3",
        "expected_cost",
    ]


def test_the_constant_action_has_a_number_for_each_part(forecaster: stakes.DecisionAwareForecaster) -> None:
    assert len(np.atleast_1d(forecaster.forecast.state.climatology_action)) == 3
    state = forecaster.forecast.state
    assert from_plain(ForecastState, to_plain(state)).climatology_action == state.climatology_action
