"""Tests of the estimator for forecasts that somebody else makes."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from refusals import refuses
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import stakes
from stakes.data.forecasts.forecast_set import ForecastSet
from stakes.errors import SettingError, ShapeError, StakesWarning, TableError

COST = stakes.NewsvendorCost(underage=9.0, overage=1.0, lower=-10.0, upper=10.0)


def biased(cases: int = 400, members: int = 20, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Members (N, M) that are 2 too low and half as wide as they should be, and outcomes (N,)."""
    random = np.random.default_rng(seed)
    known = random.normal(size=(cases, 1))
    return known - 2 + 0.5 * random.normal(size=(cases, members)), known[:, 0] + random.normal(size=cases)


@pytest.fixture(scope="module")
def fitted() -> stakes.Recalibrator:
    return stakes.Recalibrator(COST, decision_weights=()).fit(*biased())


def test_bias_and_spread_are_mended(fitted):
    by_name = {candidate.name: candidate for candidate in fitted.selection_.candidates}
    assert by_name["bias_and_spread"].proven
    members, outcomes = biased(seed=1)
    judged = fitted.judge(members, outcomes)
    error, cost = judged.values("error", "corrected"), judged.values("cost", "corrected")
    assert abs(error.mean()) < 0.1
    assert judged.values("spread", "corrected").mean() == pytest.approx(error.std(), rel=0.1)
    assert cost.mean() == pytest.approx(-fitted.score(members, outcomes))
    assert cost.mean() < 0.5 * judged.values("cost", "raw").mean()


def test_decisions_are_those_of_the_sample(fitted):
    members = fitted.sample(biased(seed=2)[0])
    assert members.shape == (400, 100, 1)
    expected = stakes.solve_action(COST, torch.from_numpy(members)).action[:, 0]
    np.testing.assert_array_equal(fitted.decide(biased(seed=2)[0]), expected.numpy())


def test_quantiles_intervals_variance_and_mean_are_those_of_the_sample(fitted):
    members, _ = biased(seed=3)
    drawn = fitted.sample(members)[..., 0]
    np.testing.assert_allclose(fitted.predict(members), drawn.mean(1))
    np.testing.assert_allclose(fitted.predict_var(members), drawn.var(1))
    ends = np.quantile(drawn, [0.1, 0.9], axis=1, method="hazen").T
    np.testing.assert_allclose(fitted.predict_quantiles(members, [0.1, 0.9]), ends)
    np.testing.assert_allclose(fitted.predict_interval(members, 0.8), ends)
    refuses(SettingError, "coverage", fitted.predict_interval, members, 80)
    refuses(SettingError, "alpha", fitted.predict_quantiles, members, [0.5, 2])


def test_weighted_members_have_weighted_moments():
    members, outcomes = biased(200, 3)
    weights = np.array([1.0, 2.0, 3.0])
    raw = stakes.Recalibrator(COST, decision_weights=(), test_fraction=0.0).fit(members, outcomes, weights=weights)
    raw.state_ = replace(raw.state_, models=())  # corrects nothing
    copies = members[:, [0, 1, 1, 2, 2, 2]]
    np.testing.assert_allclose(raw.predict(members, weights=weights), copies.mean(1))
    np.testing.assert_allclose(raw.predict_var(members, weights=weights), copies.var(1))


def test_the_distribution_of_skpro_is_the_sample(fitted):
    pytest.importorskip("skpro")
    members, _ = biased(5, seed=3)
    told = fitted.predict_proba(members)
    np.testing.assert_allclose(told.mean().to_numpy()[:, 0], fitted.predict(members))
    np.testing.assert_allclose(told.var().to_numpy()[:, 0], fitted.predict_var(members))


def test_state_is_json_to_the_bit(fitted):
    again = stakes.Correction.from_json(fitted.state_.to_json())
    assert again == fitted.state_
    given = ForecastSet(biased(seed=3)[0][..., None])
    np.testing.assert_array_equal(again.corrected(given).members, fitted.state_.corrected(given).members)
    refuses(SettingError, "must be JSON text", stakes.Correction.from_json, "{")

    alone = [fitted.sample(members[None])[0] for members in biased(seed=3)[0][:5]]
    np.testing.assert_array_equal(fitted.sample(biased(seed=3)[0])[:5], alone)  # whoever else is forecast


def test_it_is_an_estimator_of_scikit_learn(fitted):
    other = clone(fitted.set_params(gap=3))
    assert other.get_params()["gap"] == 3
    refuses(NotFittedError, "", other.decide, biased()[0])
    fitted.set_params(gap=0)


def test_test_cases_are_judged_as_they_came_and_corrected(fitted):
    judged = fitted.judged_
    members, outcomes = biased()
    assert judged.cases.index.tolist() == list(range(300, 400))
    np.testing.assert_array_equal(judged.values("outcome"), outcomes[300:])
    np.testing.assert_allclose(judged.values("error", "raw"), members[300:].mean(1) - outcomes[300:])
    assert abs(judged.pit("corrected").mean() - 0.5) < 0.1 < judged.pit("raw").mean() - 0.5
    tested = {candidate.name: candidate for candidate in fitted.selection_.tested}
    assert tested["raw"].cost == pytest.approx(judged.values("cost", "raw").mean())
    assert tested[fitted.selection_.selected.name].cost == pytest.approx(judged.values("cost", "corrected").mean())


def test_todays_actions_are_paid_for():
    members, outcomes = biased(200)
    given = ForecastSet(members[..., None], outcomes=outcomes[:, None], today=np.zeros(200))
    judged = stakes.Recalibrator(COST, decision_weights=()).fit(given).judged_
    np.testing.assert_allclose(judged.values("today_cost"), np.where(outcomes > 0, 9 * outcomes, -outcomes)[150:])


def test_the_order_of_cases_is_that_of_issue():
    members, outcomes = biased(130)
    times = np.datetime64("2024-01-01") + np.arange(130)
    mixed = np.random.default_rng(0).permutation(130)
    one = stakes.Recalibrator(COST, decision_weights=()).fit(members, outcomes, times=times)
    other = stakes.Recalibrator(COST, decision_weights=()).fit(members[mixed], outcomes[mixed], times=times[mixed])
    assert one.state_ == other.state_
    assert one.selection_ == other.selection_


def test_calibrated_members_stay_as_they_came():
    random = np.random.default_rng(5)
    members = random.normal(size=(400, 1)) + random.normal(size=(400, 10))
    outcomes = members[np.arange(400), random.integers(10, size=400)]  # nothing could know more than the members do
    recalibrator = stakes.Recalibrator(COST, decision_weights=()).fit(members, outcomes)
    assert recalibrator.selection_.selected.name == "raw"
    np.testing.assert_array_equal(recalibrator.sample(members)[..., 0], members)


def test_too_few_cases_prove_nothing():
    members, outcomes = biased(90)
    refuses(ShapeError, "past forecasts", stakes.Recalibrator(COST).fit, members[:60], outcomes[:60])
    recalibrator = stakes.Recalibrator(COST, block=4).fit(members, outcomes)
    assert recalibrator.selection_.selected.name == "raw"
    assert "too few" in recalibrator.selection_.candidates[-1].why
    points = stakes.Recalibrator(COST, block=4).fit(members[:, :1], outcomes)
    assert points.selection_.selected.name == "bias_and_spread"


def test_points_gain_the_spread_of_past_errors():
    members, outcomes = biased(400)
    points = members.mean(1)
    recalibrator = stakes.Recalibrator(COST, decision_weights=()).fit(points, outcomes)
    drawn = recalibrator.sample(points)
    assert recalibrator.state_.form == "points"
    assert drawn.shape == (400, 100, 1)
    assert drawn.std(1).mean() == pytest.approx((outcomes - points).std(), rel=0.1)


def test_quantiles_are_recognised_by_their_columns():
    random = np.random.default_rng(7)
    known = random.normal(size=400)
    table = pd.DataFrame({f"q{level:g}": known + offset for level, offset in ((0.1, -2), (0.5, 0.0), (0.9, 2))})
    recalibrator = stakes.Recalibrator(COST, decision_weights=()).fit(table, known + random.normal(size=400))
    assert recalibrator.state_.form == "quantiles"
    assert recalibrator.selection_.selected.name == "bias_and_spread"  # they were too wide
    assert recalibrator.sample(table).std(1).mean() == pytest.approx(1.0, rel=0.1)
    refuses(SettingError, "quantiles", recalibrator.decide, np.ones((3, 4)))


def test_quantiles_that_stay_as_they_came_give_their_quantile():
    random = np.random.default_rng(8)
    known = random.normal(size=400)
    levels = {0.1: -1.28155, 0.25: -0.67449, 0.5: 0.0, 0.75: 0.67449, 0.9: 1.28155}
    table = pd.DataFrame({f"q{level:g}": known + offset for level, offset in levels.items()})
    recalibrator = stakes.Recalibrator(COST, decision_weights=()).fit(table, known + random.normal(size=400))
    assert recalibrator.selection_.selected.name == "raw"
    np.testing.assert_allclose(recalibrator.decide(table), table["q0.9"], rtol=1e-12)


def test_points_of_several_sites_have_the_names_of_the_outcomes():
    random = np.random.default_rng(9)
    known = random.normal(size=(200, 2))
    shared = random.normal(size=(200, 1))
    outcomes = pd.DataFrame(known + shared + 0.3 * random.normal(size=(200, 2)), columns=["north", "south"])
    points = pd.DataFrame(known, columns=["north", "south"])
    recalibrator = stakes.Recalibrator(COST, decision_weights=()).fit(points[["south", "north"]], outcomes)
    drawn = recalibrator.sample(points)
    assert drawn.shape == (200, 200, 2)
    within = drawn - drawn.mean(1, keepdims=True)
    errors = (outcomes - known).to_numpy()
    assert np.corrcoef(within[0].T)[0, 1] == pytest.approx(np.corrcoef(errors.T)[0, 1], abs=0.1)
    np.testing.assert_array_equal(drawn, recalibrator.sample(known))


def test_what_does_not_fit_is_refused(fitted):
    members, outcomes = biased()
    for wrong, words in (
        ({"test_fraction": 1.0}, "test_fraction must"),
        ({"gap": -1}, "gap must be"),
        ({"tolerance": np.nan}, "tolerance must"),
        ({"decision_weights": (2.0,)}, "decision_weight"),
    ):
        refuses(SettingError, words, stakes.Recalibrator(COST, **wrong).fit, members, outcomes)
    refuses(ShapeError, "y must", stakes.Recalibrator(COST).fit, members)
    refuses(ShapeError, "y must", fitted.score, members)
    refuses(SettingError, "times must", fitted.decide, ForecastSet(members[..., None]), times=np.arange(400))
    refuses(ShapeError, "X of 3", stakes.Recalibrator(COST).fit, members, np.ones((400, 3)))
    refuses(ShapeError, "targets must", fitted.decide, np.ones((3, 4, 2)))
    refuses(ShapeError, "members must", fitted.decide, ForecastSet(np.ones((3, 4, 2))))


@pytest.mark.parametrize("leak", ["features", "forecast", "column"])
def test_what_reproduces_the_outcome_is_warned_of_and_noted(leak):
    random = np.random.default_rng(0)
    outcomes = random.normal(size=200)
    members = random.normal(size=(200, 4)) if leak == "features" else outcomes[:, None]
    given = pd.DataFrame({"copy": outcomes}) if leak == "column" else members
    features = pd.DataFrame({"copy": outcomes}) if leak == "features" else None
    recalibrator = stakes.Recalibrator(stakes.NewsvendorCost(9.0, 1.0, -9.0, 9.0), decision_weights=())
    name = {"features": "'copy'", "forecast": "the forecast", "column": "the forecast 'copy'"}[leak]
    with pytest.warns(StakesWarning, match=f"{name} reproduces the outcome 'y'"):
        recalibrator.fit(given, outcomes, features=features)
    assert any(f"{name} reproduces" in note for note in recalibrator.notes_)


def test_two_outcomes_of_one_time_are_refused_with_both_values():
    members, days = np.ones((4, 3)), np.repeat(np.array(["2020-01-01", "2020-01-02"], "datetime64[D]"), 2)
    recalibrator = stakes.Recalibrator(stakes.NewsvendorCost(9.0, 1.0, 0.0, 30.0))
    for sites in (None, ["north"] * 4):
        with pytest.raises(TableError, match="'y'"):
            recalibrator.fit(members, [5.0, 5, 99, 20], times=days, leads=[24, 48, 24, 48], sites=sites)


def test_members_go_together_as_past_errors_did() -> None:
    random = np.random.default_rng(0)
    points, error = random.normal(size=(300, 2)), random.normal(size=(300, 1))
    cost = stakes.NewsvendorCost(9.0, 1.0, -20.0, 20.0)
    fitted = stakes.Recalibrator(cost, decision_weights=()).fit(points, points + error * [1.0, -1.0])
    for members in fitted.sample(points[:3]):
        assert np.corrcoef(members.T)[0, 1] < -0.9
