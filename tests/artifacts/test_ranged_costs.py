"""A forecaster for a range of decision makers, saved and loaded again."""

from pathlib import Path

import numpy as np
import pytest
from artifacts.damage import forged
from refusals import refuses

from stakes import Cost, DecisionAwareForecaster, ParameterRange, ShortfallCost
from stakes.artifacts.fits import load_bundle, save_bundle
from stakes.errors import SettingError, StakesError
from stakes.training.settings import ImplicitSettings

RANGE = ParameterRange(1, 50)
RANGED = ShortfallCost(RANGE)


def fitted(conditioned: bool, cost: Cost = RANGED) -> DecisionAwareForecaster:
    random = np.random.default_rng(0)
    features = random.uniform(size=(80, 2))
    forecaster = DecisionAwareForecaster(
        cost,
        conditioned=conditioned,
        model=ImplicitSettings(noise=2, hidden=5, layers=1),
        decision_weight=0.3,
        baseline=True,
        recent_errors=False,
        epochs=1,
        members=20,
        device="cpu",
        random_state=0,
    )
    return forecaster.fit(features, features.mean(1) + 0.1 * random.normal(size=80))


X = np.random.default_rng(1).uniform(size=(6, 2))
WHOSE = {"penalty": [1, 2, 5, 10, 20, 50]}


@pytest.mark.parametrize("conditioned", [True, False])
def test_decisions_are_the_same_after_a_round_trip(conditioned: bool, tmp_path: Path) -> None:
    forecaster = fitted(conditioned)
    bundle = load_bundle(save_bundle(tmp_path / "fit", forecaster))
    again = bundle.forecaster
    assert again.cost == ShortfallCost(RANGE)
    assert str(bundle.cost_spec) == "shortfall:penalty=1..50"
    assert (again.forecast_.state.ranged, again.conditioned) == (forecaster.forecast_.state.ranged, conditioned)
    expected = forecaster.decide(X, cost_parameters=WHOSE)
    assert np.array_equal(again.decide(X, cost_parameters=WHOSE), expected)
    assert again.forecast_.state.climatology_action == forecaster.forecast_.state.climatology_action
    number = load_bundle(tmp_path / "fit", cost=ShortfallCost(5.0))
    assert not number.notes
    assert number.forecaster.decide(X)[2] == pytest.approx(expected[2], rel=1e-6)
    beyond = load_bundle(tmp_path / "fit", cost=ShortfallCost(80.0))
    assert "was fitted for the cost 'shortfall:penalty=1..50'" in beyond.notes[0]
    refuses(SettingError, "penalty", again.decide, X)


def test_models_that_see_a_parameter_need_its_range(tmp_path: Path) -> None:
    folder = save_bundle(tmp_path / "fit", fitted(True))
    forged("forecast.ranged", None, "state.json")(folder)
    refuses(StakesError, "conditioned", load_bundle, folder, cost=ShortfallCost(5.0))
