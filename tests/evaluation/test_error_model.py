"""Tests of the correction of one outcome by past errors."""

from dataclasses import replace

import numpy as np
import pytest
import scoringrules
from refusals import refuses

from stakes.data.forecasts.forecast_set import ForecastSet
from stakes.errors import ShapeError
from stakes.forecasting.error_model import ErrorModel, ForecastTerms, fit_error_model, quantile_levels

TERMS = ForecastTerms()
PLAIN = ErrorModel("normal", 1.0, (None, None), 0.0, 1.0, 0.0, {}, {}, (-np.inf, np.inf), (-1.0, 0.0, 1.0))


def fitted(members: np.ndarray, outcomes: np.ndarray, bounds: tuple = (None, None), **beside: object) -> ErrorModel:
    given = ForecastSet(members[..., None], outcomes=outcomes[:, None], **beside)
    return fit_error_model(given, 0, replace(TERMS, spread=not given.is_point), bounds, 100, np.ones(len(given)))


def test_roots_are_the_way_back():
    model = replace(PLAIN, power=0.5, bounds=(2.0, 6.0))
    assert model.modelled_bounds == (0.0, 2.0)
    np.testing.assert_allclose(model.modelled(np.array([1.0, 2.0, 3.0, 6.0, 7.0])), [0.0, 0.0, 1.0, 2.0, 2.0])
    np.testing.assert_allclose(model.in_outcome_unit(np.array([-1.0, 1.0, 3.0])), [2.0, 3.0, 6.0])


def test_scale_stays_in_the_range_that_was_seen():
    model = replace(PLAIN, location={"constant": 0.0}, log_scale={"constant": 9.0}, log_scale_range=(0.0, np.log(2)))
    model = replace(model, location=dict.fromkeys(("constant", "mean", "log spread"), 0.0))
    model = replace(model, log_scale={"constant": 9.0, "mean": 0.0, "log spread": 0.0})
    members = ForecastSet(np.array([[[4.0], [6.0]]]))
    np.testing.assert_allclose(model.members(members, 0, TERMS), [[3.0, 5.0, 7.0]])


def test_bias_slope_and_spread_are_found():
    random = np.random.default_rng(0)
    known, spread = random.normal(10, 3, 3000), np.exp(0.4 * random.normal(size=3000))
    members = (1 + 0.5 * known)[:, None] + 0.5 * spread[:, None] * random.normal(size=(3000, 20))
    outcomes = known + spread * random.normal(size=3000)
    model = fitted(members, outcomes)
    given = ForecastSet(members[..., None])
    found = model.members(given, 0, TERMS)
    assert np.abs(found.mean(1) - known).mean() < 0.35  # 20 members' mean errs itself by twice 0.11 spread
    assert np.corrcoef(np.log(found.std(1)), np.log(spread))[0, 1] > 0.9
    assert found.var(1).mean() == pytest.approx(np.square(outcomes - found.mean(1)).mean(), rel=0.1)


@pytest.mark.parametrize(("noise", "better"), [("normal", "logistic"), ("exponential", "normal")])
def test_the_shape_is_that_of_the_errors(noise, better):
    random = np.random.default_rng(1)
    known = random.normal(size=2500)
    errors = getattr(random, noise)(size=2500)
    points, outcomes = known[:, None], known + errors
    model = fitted(points[:2000], outcomes[:2000])
    given = ForecastSet(points[2000:, :, None])
    terms = replace(TERMS, spread=False)
    found = model.members(given, 0, terms)
    assert found.shape == (500, 100)
    truth = known[2000:, None] + np.quantile(errors, quantile_levels(100))
    scores = [scoringrules.crps_ensemble(outcomes[2000:], each).mean() for each in (found, truth)]
    assert scores[0] < 1.02 * scores[1]


def test_outcomes_at_a_bound_are_censored_not_errors():
    random = np.random.default_rng(2)
    known = random.normal(0.5, 1, 3000)
    rain = (known + 0.7 * random.normal(size=3000)).clip(0) ** 2
    members = (known[:, None] + 0.7 * random.normal(size=(3000, 20))).clip(0) ** 2
    model = fitted(members[:2000], rain[:2000], (0.0, None))
    assert model.power == 0.5
    found = model.members(ForecastSet(members[2000:, :, None]), 0, TERMS)
    assert found.min() == 0
    dry = (found == 0).mean(1)
    for low, high in ((0.0, 0.2), (0.2, 0.6), (0.6, 1.0)):
        rows = (dry >= low) & (dry <= high)
        assert (rain[2000:][rows] == 0).mean() == pytest.approx(dry[rows].mean(), abs=0.06)


def test_weighted_members_are_as_members_that_come_as_often():
    random = np.random.default_rng(3)
    members, outcomes = random.normal(size=(300, 3)), random.normal(size=300)
    weighted = fitted(members, outcomes, weights=np.array([1.0, 2.0, 1.0]))
    repeated = fitted(members[:, [0, 1, 1, 2]], outcomes)
    np.testing.assert_allclose(weighted.shape, repeated.shape)
    for name in ("location", "log_scale"):
        one, other = getattr(weighted, name), getattr(repeated, name)
        np.testing.assert_allclose([one[term] for term in one], [other[term] for term in one], rtol=1e-5, atol=1e-7)


def test_members_that_are_better_than_others_count_more():
    random = np.random.default_rng(5)
    outcomes = random.normal(size=400)
    members = outcomes[:, None] + np.array([0.2, 3.0, 3.0]) * random.normal(size=(400, 3))
    given = ForecastSet(members[..., None], outcomes=outcomes[:, None])
    terms = ForecastTerms.for_cases(given, linear=True)
    model = fit_error_model(given, 0, terms, (None, None), 100, np.ones(400))
    found = model.members(given, 0, terms)
    assert np.abs(found.mean(1) - outcomes).mean() < 0.3 < np.abs(members.mean(1) - outcomes).mean()
    refuses(ShapeError, "members", model.members, ForecastSet(members[:, :2, None]), 0, terms)


def test_few_cases_are_normal():
    random = np.random.default_rng(4)
    model = fitted(random.normal(size=(60, 5)), random.normal(size=60))
    np.testing.assert_allclose(model.shape, -np.array(model.shape)[::-1])
    assert (model.family, model.by_errors, model.chosen_from) == ("normal", False, 0)
