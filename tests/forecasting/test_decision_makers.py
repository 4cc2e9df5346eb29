"""One forecaster for a range of decision makers: whose decision it is, and what is refused."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from refusals import refuses
from sklearn.base import clone

from stakes import CVaRCost, DecisionAwareForecaster, NewsvendorCost, ParameterRange, ShortfallCost, optimal_action
from stakes.errors import CostError, SettingError, ShapeError
from stakes.training.settings import ImplicitSettings, TrainingSettings

RANGE = ParameterRange(1, 50)
COST = ShortfallCost(RANGE)
TRAINING = TrainingSettings(epochs=3, pretraining_epochs=1, batch=64, members=6, validate_every=1, validation_members=6)
SMALL: dict[str, Any] = {
    "model": ImplicitSettings(noise=3, hidden=8, layers=2),
    "training": TRAINING,
    "members": 40,
    "ensemble": 2,
    "device": "cpu",
    "random_state": 0,
}


def rows(count: int = 240) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    random = np.random.default_rng(0)
    features = random.uniform(size=(count, 2))
    power = features + 0.15 * random.normal(size=(count, 1)) + 0.1 * random.normal(size=(count, 2))
    return features, power.clip(0, 1)


X, Y = rows()


def fitted(conditioned: bool, **others: Any) -> DecisionAwareForecaster:
    given = {"decision_weight": 0.4, "baseline": True, "recent_errors": False} | SMALL | others
    return DecisionAwareForecaster(COST, conditioned=conditioned, **given).fit(X, Y)


@pytest.fixture(scope="module")
def seeing() -> DecisionAwareForecaster:
    return fitted(True)


@pytest.fixture(scope="module")
def shared() -> DecisionAwareForecaster:
    return fitted(False)


@pytest.mark.parametrize("which", ["seeing", "shared"])
def test_a_value_for_each_row_is_the_loop_over_the_rows(which: str, request: pytest.FixtureRequest) -> None:
    forecaster: DecisionAwareForecaster = request.getfixturevalue(which)
    penalties = [1.0, 3.0, 10.0, 50.0]
    together = forecaster.solve(X[:4], cost_parameters={"penalty": penalties})
    for row, penalty in enumerate(penalties):
        alone = forecaster.solve(X[row : row + 1], cost_parameters={"penalty": penalty})
        np.testing.assert_allclose(together.action[row], alone.action[0], rtol=1e-5)
        np.testing.assert_allclose(together.expected_cost[row], alone.expected_cost[0], rtol=1e-4, atol=1e-6)
        members = torch.from_numpy(forecaster.sample(X[row : row + 1], cost_parameters={"penalty": penalty}))
        np.testing.assert_allclose(alone.action[0], optimal_action(ShortfallCost(penalty), members).item(), rtol=1e-5)
    assert together.certified.all()


def test_only_conditioned_members_depend_on_the_parameter(
    seeing: DecisionAwareForecaster, shared: DecisionAwareForecaster
) -> None:
    for forecaster, same in ((seeing, False), (shared, True)):
        few, many = (forecaster.sample(X[:5], cost_parameters={"penalty": value}) for value in (1, 50))
        assert np.array_equal(few, many) is same
    assert np.array_equal(shared.sample(X[:5]), shared.sample(X[:5], cost_parameters={"penalty": 7}))
    assert shared.predict(X[:5]).shape == (5, 2)
    for needs in (seeing.sample, seeing.predict, lambda given: seeing.predict_quantiles(given, 0.5)):
        refuses(SettingError, "penalty", needs, X[:5])


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        (None, SettingError, "'penalty'"),
        ({"penalty": 0.5}, CostError, "penalty must"),
        ({"penalty": [1, 2, 51, 3]}, CostError, "got 51"),
        ({"penalty": [1, 2]}, ShapeError, "penalty"),
        ({"penalty": np.nan}, SettingError, "finite"),
        (5, SettingError, "cost_parameters"),
        ({"penalty": "a"}, SettingError, "penalty.* must be numbers"),
        ({"price": 3}, SettingError, "must name penalty"),
        ({"penalty": 3, "price": 3}, SettingError, "got price"),
    ],
)
def test_what_is_not_said_or_wrong_is_refused(
    given: Any, error: type[Exception], said: str, shared: DecisionAwareForecaster
) -> None:
    refuses(error, said, shared.decide, X[:4], cost_parameters=given)


def test_rows_are_judged_spread_over_the_range(seeing: DecisionAwareForecaster) -> None:
    penalties = seeing.decision_makers(len(X))["penalty"]
    assert np.log(penalties).mean() == pytest.approx(np.log(50) / 2, abs=0.02)
    assert seeing.score(X, Y) == seeing.score(X, Y, cost_parameters={"penalty": penalties})
    metrics = seeing.assess(X, Y)
    paid = seeing.realised_cost(X, Y)
    np.testing.assert_allclose(metrics["cost"], paid, rtol=1e-5, atol=1e-6)
    assert paid.mean() == pytest.approx(-seeing.score(X, Y), rel=1e-6)
    action = seeing.decide(X, cost_parameters={"penalty": penalties})
    short = np.maximum(action - Y.mean(1), 0)
    np.testing.assert_allclose(paid, penalties * short**2 - action, rtol=1e-3, atol=1e-5)
    table = seeing.evaluate(X, Y, baseline_action=np.full(len(X), 0.5))
    assert table.loc["cost", "value"] == pytest.approx(paid.mean())
    assert table.loc["today_cost", "value"] == pytest.approx(
        np.mean(penalties * np.maximum(0.5 - Y.mean(1), 0) ** 2 - 0.5), rel=1e-4
    )


def test_climatology_is_that_of_each_decision_maker(shared: DecisionAwareForecaster) -> None:
    outcome = torch.from_numpy(Y)
    for penalty in (1.0, 4.3, 50.0):
        paid = shared.realised_cost(X, Y, "climatology", cost_parameters={"penalty": penalty})
        cost = ShortfallCost(penalty)
        best = cost(optimal_action(cost, outcome).expand(len(Y), 1), outcome).mean().item()
        assert paid.mean() == pytest.approx(best, abs=2e-4)  # interpolated between 33 penalties


def test_a_number_may_take_the_place_of_the_range(seeing: DecisionAwareForecaster) -> None:
    number = clone(seeing).set_params(cost=ShortfallCost(5.0))
    vars(number).update({name: value for name, value in vars(seeing).items() if name.endswith("_")})
    expected = seeing.decide(X[:6], cost_parameters={"penalty": 5})
    assert np.array_equal(number.decide(X[:6]), expected)
    refuses(SettingError, "change the cost", number.decide, X[:6], cost_parameters={"penalty": 5})
    number.set_params(cost=ShortfallCost(60.0))
    refuses(CostError, "got 60", number.decide, X[:6])
    number.set_params(cost=NewsvendorCost(1.0, 2.0, 0.0, 3.0))
    refuses(SettingError, r"depends on penalty 1\.\.50", number.decide, X[:6])
    number.set_params(cost=ShortfallCost(ParameterRange(1, 40)))
    refuses(SettingError, "penalty 1..50, got penalty 1..40", number.decide, X[:6], cost_parameters={"penalty": 5})
    number.set_params(cost=ShortfallCost(5.0))
    refuses(SettingError, "refit", number.refit, X, Y)


def test_without_a_range_nothing_is_said_of_parameters() -> None:
    forecaster = DecisionAwareForecaster(ShortfallCost(5.0), decision_weight=0.0, **SMALL).fit(X, Y)
    assert forecaster.decision_makers(3) == {}
    refuses(SettingError, "cost_parameters", forecaster.decide, X, cost_parameters={"penalty": 5})
    conditioned = DecisionAwareForecaster(ShortfallCost(5.0), conditioned=True, **SMALL)
    refuses(SettingError, "conditioned", conditioned.fit, X, Y)


def test_trees_see_no_parameter() -> None:
    pytest.importorskip("lightgbm")
    refuses(SettingError, "conditioned", fitted, True, base="trees")
    forecaster = fitted(False, base="trees")
    assert np.array_equal(forecaster.sample(X[:5]), forecaster.sample(X[:5], cost_parameters={"penalty": 50}))
    assert forecaster.decide(X[:2], cost_parameters={"penalty": [1, 50]}).shape == (2,)


def test_the_selection_judges_all_candidates_for_the_same_decision_makers() -> None:
    features, power = rows(700)
    forecaster = DecisionAwareForecaster(COST, conditioned=True, weights=(0.3,), **SMALL)
    forecaster.fit(features[:600], power[:600])
    tested = forecaster.tested_selection(features[600:], power[600:])
    assert tested is not None
    selected = next(candidate for candidate in tested.tested if candidate.name == tested.selected.name)
    assert {candidate.name for candidate in tested.candidates} >= {"climatology", "linear", "network", "decision"}
    assert all(np.isfinite(candidate.cost) for candidate in tested.tested)
    paid = forecaster.realised_cost(features[600:], power[600:])
    assert selected.cost + selected.cost_change.mean == pytest.approx(paid.mean(), rel=1e-4)
    assert len(forecaster.decide(features[600:], cost_parameters={"penalty": 5})) == 100


def test_aversion_to_risk_takes_a_range_too_with_a_threshold_for_each_decision_maker() -> None:
    given = SMALL | {"training": replace(TRAINING, members=10, validation_members=10)}
    averse = DecisionAwareForecaster(CVaRCost(COST, level=0.5), decision_weight=0.0, recent_errors=False, **given)
    averse.fit(X[:100], Y[:100])
    action = averse.decide(X[:3], cost_parameters={"penalty": [2, 2, 20]})
    plain = clone(averse).set_params(cost=CVaRCost(ShortfallCost(2.0), level=0.5))
    vars(plain).update({name: value for name, value in vars(averse).items() if name.endswith("_")})
    np.testing.assert_allclose(action[:2], plain.decide(X[:2]), rtol=1e-5)
    outcome = torch.from_numpy(Y[:100])
    for penalty in (1.0, 4.3, 50.0):
        paid = averse.realised_cost(X[:100], Y[:100], "climatology", cost_parameters={"penalty": penalty})
        cost = CVaRCost(ShortfallCost(penalty), level=0.5)
        best = cost(optimal_action(cost, outcome).expand(100, 2), outcome).mean().item()
        assert paid.mean() == pytest.approx(best, abs=1e-3)
    judged = averse.evaluate(X[:100], Y[:100])["value"]
    assert judged["plain_cost"] < judged["cost"] == pytest.approx(-averse.score(X[:100], Y[:100]))
