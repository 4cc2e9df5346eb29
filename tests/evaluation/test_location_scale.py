"""Tests of the regression of location and scale, against scoringrules, finite differences and known coefficients."""

import numpy as np
import pytest
import scoringrules

from stakes.forecasting.error_model import LocationScaleCases, crps_and_slopes, family_quantiles, fit_coefficients

PLAIN = {"normal": scoringrules.crps_normal, "logistic": scoringrules.crps_logistic}
CENSORED = {"normal": scoringrules.crps_cnormal, "logistic": scoringrules.crps_clogistic}
FAMILIES = tuple(PLAIN)
MEMBERS = np.sort(np.random.default_rng(7).normal(size=(500, 9)), 1)
BOUNDS = [(-np.inf, np.inf), (0.0, np.inf), (-np.inf, 1.5), (0.0, 1.5)]


@pytest.fixture
def forecasts() -> tuple[np.ndarray, ...]:
    random = np.random.default_rng(0)
    outcome = random.normal(size=500).clip(0, 1.5)
    return outcome, 0.5 * random.normal(size=500), np.exp(0.2 * random.normal(size=500))


@pytest.mark.parametrize("family", FAMILIES)
def test_crps_is_that_of_scoringrules(family, forecasts):
    np.testing.assert_allclose(crps_and_slopes(family, *forecasts)[0], PLAIN[family](*forecasts), atol=1e-13)
    between = crps_and_slopes(family, *forecasts, 0.0, 1.5)[0]
    np.testing.assert_allclose(between, CENSORED[family](*forecasts, lower=0.0, upper=1.5), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("bounds", BOUNDS)
def test_crps_of_members_is_that_of_scoringrules(bounds, forecasts):
    outcome, location, scale = forecasts
    members = (location[:, None] + scale[:, None] * MEMBERS).clip(*bounds)
    expected = scoringrules.crps_ensemble(outcome, members, estimator="nrg")
    np.testing.assert_allclose(
        crps_and_slopes("normal", *forecasts, *bounds, MEMBERS)[0], expected, rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize(("family", "shape"), [("normal", None), ("logistic", None), ("normal", MEMBERS)])
@pytest.mark.parametrize("bounds", BOUNDS)
def test_slopes_are_those_of_finite_differences(family, shape, bounds, forecasts):
    outcome, location, scale = forecasts
    _, by_location, by_log_scale = crps_and_slopes(family, *forecasts, *bounds, shape)
    step = 1e-6

    def crps(moved: float, widened: float) -> np.ndarray:
        return crps_and_slopes(family, outcome, location + moved, scale * np.exp(widened), *bounds, shape)[0]

    np.testing.assert_allclose((crps(step, 0) - crps(-step, 0)) / 2 / step, by_location, atol=1e-8)
    np.testing.assert_allclose((crps(0, step) - crps(0, -step)) / 2 / step, by_log_scale, atol=1e-8)


def made_cases(family: str = "normal", lower: float = -np.inf) -> tuple[LocationScaleCases, np.ndarray]:
    random = np.random.default_rng(1)
    terms = np.column_stack([np.ones(20_000), random.normal(size=(20_000, 2))])
    truth = np.array([0.5, -0.3, 0.0, 0.2, 0.0, 0.4])
    noise = random.normal(size=20_000) if family == "normal" else random.logistic(size=20_000)
    forecast = random.normal(size=20_000)
    outcome = forecast + 2 * terms @ truth[:3] + np.exp(terms @ truth[3:]) * noise
    cases = LocationScaleCases(
        outcome.clip(lower), forecast, np.zeros(20_000), terms, np.ones(20_000), unit=2.0, lower=lower
    )
    return cases, truth


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("lower", [-np.inf, 0.0])
def test_known_coefficients_are_found(family, lower):
    cases, truth = made_cases(family, lower)
    found = fit_coefficients(cases, family, np.zeros(3), np.zeros(3))
    np.testing.assert_allclose(found, truth, atol=0.035)


def test_a_strong_pull_leaves_the_forecast_as_it_is():
    cases, _ = made_cases()
    np.testing.assert_allclose(fit_coefficients(cases, "normal", np.full(3, 1e9), np.full(3, 1e9)), 0.0, atol=1e-4)


def test_cases_without_weight_do_not_count():
    cases, _ = made_cases()
    half = np.arange(20_000) < 10_000
    spoiled = cases._replace(outcome=np.where(half, cases.outcome, 1e3), weight=half * 2.0)
    found = (fit_coefficients(each, "normal", np.ones(3), np.ones(3)) for each in (spoiled, cases.rows(half)))
    np.testing.assert_allclose(*found, atol=1e-4)


def test_quantiles_of_the_families():
    np.testing.assert_allclose(family_quantiles("normal", np.array([0.5, 0.975])), [0.0, 1.959964], atol=1e-6)
    np.testing.assert_allclose(family_quantiles("logistic", np.array([0.5, 0.75])), [0.0, np.log(3)], atol=1e-12)
