import numpy as np
import pytest
import scoringrules
from example_counts import examples
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from stakes.forecasting.corrections import Mended, believed_shift_and_factor, least_crps


def draws(cases: int, members: int, seed: int = 0, skewed: bool = False) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    spread = random.uniform(0.5, 2.0, size=(cases, 1))
    drawn = random.gamma(2.0, size=(cases, members + 1)) if skewed else random.normal(size=(cases, members + 1))
    return spread * drawn[:, 1:], (spread * drawn)[:, 0]


def mean_crps(shift: float, factor: float, centred: np.ndarray, errors: np.ndarray) -> float:
    return float(scoringrules.crps_ensemble(errors, shift + factor * centred, estimator="nrg").mean())


def test_all_errors_alike_are_a_shift() -> None:
    centred = np.tile([-1.0, 1.0], (4, 1))
    assert least_crps(centred, np.full(4, 3.0)) == (3.0, 0.0)


def test_errors_twice_as_wide_as_the_members_are_a_factor() -> None:
    # the points (r - b) / e are -2, -2, 2, 2 with weight 1 each; (W + sum of half distances) / 2 = (4 + 2) / 2
    assert least_crps(np.tile([-1.0, 1.0], (2, 1)), np.array([-2.0, 2.0])) == (0.0, 2.0)


def test_members_without_spread_are_shifted_only() -> None:
    assert least_crps(np.zeros((3, 4)), np.array([1.0, 2.0, 6.0])) == (2.0, 1.0)


@pytest.mark.parametrize("skewed", [False, True])
@pytest.mark.parametrize(("shift", "factor"), [(0.0, 1.0), (0.7, 2.0), (-2.0, 0.5)])
def test_the_least_crps_of_a_general_minimiser(skewed: bool, shift: float, factor: float) -> None:
    members, outcomes = draws(80, 9, seed=1, skewed=skewed)
    centred, errors = members - members.mean(1, keepdims=True), outcomes - members.mean(1)
    centred, errors = centred / factor, errors + shift
    found = least_crps(centred, errors)
    best = minimize(lambda at: mean_crps(*at, centred, errors), [shift, factor], method="Nelder-Mead")
    assert mean_crps(*found, centred, errors) <= best.fun * (1 + 1e-4)


@examples(30)
@given(st.integers(0, 10_000), st.floats(0.1, 50.0), st.floats(-100.0, 100.0))
def test_units_and_the_order_of_members_do_not_matter(seed: int, unit: float, origin: float) -> None:
    members, outcomes = draws(60, 6, seed)
    shift, factor = believed_shift_and_factor(members[..., None], outcomes[:, None])
    moved = origin + unit * np.random.default_rng(seed).permuted(members, axis=1)[..., None]
    again = believed_shift_and_factor(moved, origin + unit * outcomes[:, None])
    np.testing.assert_allclose(again.shift, unit * shift, atol=1e-9 * (unit + abs(origin)))
    np.testing.assert_allclose(again.factor, factor, rtol=1e-9)


@pytest.mark.parametrize("members", [3, 10, 80])
def test_an_ensemble_with_outcomes_as_one_member_more_is_left_as_it_is(members: int) -> None:
    drawn, outcomes = draws(4000, members)
    shift, factor = believed_shift_and_factor(drawn[..., None], outcomes[:, None])
    assert shift == pytest.approx(0.0, abs=0.04)
    assert factor == pytest.approx(1.0, abs=0.04)


def test_what_may_be_chance_is_not_believed() -> None:
    members, outcomes = draws(1000, 20)
    persistent = np.repeat(np.random.default_rng(3).normal(size=10), 100)  # an error that stays for a tenth of the time
    centred, errors = members - members.mean(1, keepdims=True), outcomes - members.mean(1)
    unshrunk, _ = least_crps(centred, errors + persistent)
    (believed,), _ = believed_shift_and_factor(members[..., None], (outcomes + persistent)[:, None])
    assert abs(believed) < 0.5 * abs(unshrunk)
    (believed,), _ = believed_shift_and_factor(members[..., None], (outcomes + 5 + persistent)[:, None])
    assert believed == pytest.approx(5 + unshrunk, rel=0.05)


def test_without_evidence_the_prior_stays() -> None:
    members = np.tile(np.array([-1.0, 1.0])[:, None], (60, 1, 1))
    prior = Mended(np.array([2.0]), np.array([3.0]))
    alternating = 2 + 3 * np.tile([-1.0, 1.0], 30)[:, None]
    assert believed_shift_and_factor(members, alternating, prior) == prior
