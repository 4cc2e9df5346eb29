"""Members moved and spread by the least CRPS, and how far that is believed."""

import numpy as np
import pytest
import scoringrules
from example_counts import examples
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

import stakes
from stakes.forecasting.error_model import LocationScaleCases, believed_coefficients, fit_coefficients


def draws(cases: int, members: int, seed: int = 0, skewed: bool = False) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    spread = random.uniform(0.5, 2.0, size=(cases, 1))
    drawn = random.gamma(2.0, size=(cases, members + 1)) if skewed else random.normal(size=(cases, members + 1))
    return spread * drawn[:, 1:], (spread * drawn)[:, 0]


def mean_crps(shift: float, factor: float, centred: np.ndarray, errors: np.ndarray) -> float:
    return float(scoringrules.crps_ensemble(errors, shift + factor * centred, estimator="nrg").mean())


def centred_cases(centred: np.ndarray, errors: np.ndarray) -> LocationScaleCases:
    nothing, one = np.zeros(len(errors)), np.ones((len(errors), 1))
    return LocationScaleCases(errors, nothing, nothing, one, one[:, 0], 1.0, shape=np.sort(centred, 1))


def shift_and_factor(centred: np.ndarray, errors: np.ndarray, fit=fit_coefficients) -> tuple[float, float]:
    shift, log_factor = fit(centred_cases(centred, errors), "normal", np.zeros(1), np.zeros(1))
    return float(shift), float(np.exp(log_factor))


def believed(members: np.ndarray, outcomes: np.ndarray) -> tuple[float, float]:
    correction = stakes.Correction.fit(members[..., None], outcomes[:, None])
    return correction.shift[0], correction.factor[0]


@pytest.mark.parametrize("skewed", [False, True])
@pytest.mark.parametrize(("shift", "factor"), [(0.0, 1.0), (0.7, 2.0), (-2.0, 0.5)])
def test_the_least_crps_of_a_general_minimiser(skewed: bool, shift: float, factor: float) -> None:
    members, outcomes = draws(80, 9, seed=1, skewed=skewed)
    centred, errors = members - members.mean(1, keepdims=True), outcomes - members.mean(1)
    centred, errors = centred / factor, errors + shift
    found = shift_and_factor(centred, errors)
    best = minimize(lambda at: mean_crps(*at, centred, errors), [shift, factor], method="Nelder-Mead")
    assert mean_crps(*found, centred, errors) <= best.fun * (1 + 1e-4)


@examples(30)
@given(st.integers(0, 10_000), st.floats(0.1, 50.0), st.floats(-100.0, 100.0))
def test_units_and_the_order_of_members_do_not_matter(seed: int, unit: float, origin: float) -> None:
    members, outcomes = draws(60, 6, seed)
    shift, factor = believed(members, outcomes)
    moved = origin + unit * np.random.default_rng(seed).permuted(members, axis=1)
    again = believed(moved, origin + unit * outcomes)
    assert again[0] == pytest.approx(unit * shift, abs=0.01 * unit)  # the search ends in steps of the unit
    assert again[1] == pytest.approx(factor, rel=0.01)


@pytest.mark.parametrize("members", [3, 10, 80])
def test_an_ensemble_with_outcomes_as_one_member_more_is_left_as_it_is(members: int) -> None:
    shift, factor = believed(*draws(4000, members))
    assert shift == pytest.approx(0.0, abs=0.04)
    assert factor == pytest.approx(1.0, abs=0.04)


def test_what_may_be_chance_is_not_believed() -> None:
    members, outcomes = draws(1000, 20)
    persistent = np.repeat(np.random.default_rng(3).normal(size=10), 100)  # an error that stays for a tenth of the time
    centred, errors = members - members.mean(1, keepdims=True), outcomes - members.mean(1)
    unshrunk, _ = shift_and_factor(centred, errors + persistent)
    assert abs(believed(members, outcomes + persistent)[0]) < 0.5 * abs(unshrunk)
    assert believed(members, outcomes + 5 + persistent)[0] == pytest.approx(5 + unshrunk, rel=0.05)


def test_errors_of_no_weight_say_nothing_of_how_sure_the_others_are() -> None:
    members, outcomes = draws(1000, 20)
    half = np.arange(1000) >= 500
    cases = centred_cases(members, np.where(half, outcomes + 1, 100 * np.random.default_rng(0).normal(size=1000)))
    pulls = "normal", np.zeros(1), np.zeros(1)
    found = believed_coefficients(cases._replace(weight=2.0 * half), *pulls)
    np.testing.assert_allclose(found, believed_coefficients(cases.rows(half), *pulls), atol=0.02)


def test_without_evidence_nothing_moves() -> None:
    members = np.tile(np.array([-1.0, 1.0]), (60, 1))
    assert believed(members, np.tile([-1.0, 1.0], 30)) == (pytest.approx(0.0, abs=1e-6), pytest.approx(1.0, abs=1e-6))
