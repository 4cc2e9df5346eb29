import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, expon, norm

import stakes
from stakes.data.forecasts.quantiles import checked_levels, quantile_members
from stakes.errors import SettingError, ShapeError

LEVELS = (0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975)


def action_at(level: float, members: np.ndarray, weights: np.ndarray) -> float:
    """What a newsvendor stocks who decides for this level."""
    cost = stakes.NewsvendorCost(level, 1 - level, -1e6, 1e6)
    solution = stakes.solve_action(cost, torch.from_numpy(members)[..., None], weights=torch.from_numpy(weights))
    assert solution.certified.all()
    return solution.action.item()


@pytest.mark.parametrize("tails", ["exponential", "flat"])
@pytest.mark.parametrize("forecast", [beta(3, 3), norm(100, 15), expon()])
def test_a_newsvendor_at_a_given_level_takes_exactly_that_quantile(tails: str, forecast: object) -> None:
    quantiles = forecast.ppf(LEVELS)
    members, weights = quantile_members(LEVELS, quantiles[None], tails)  # type: ignore[arg-type]
    for level, quantile in zip(LEVELS, quantiles, strict=True):
        assert action_at(level, members, weights) == quantile


@given(
    st.lists(st.integers(1, 999), min_size=2, max_size=12, unique=True).filter(lambda p: min(p) < 500 < max(p)),
    st.integers(0, 2**32 - 1),
    st.sampled_from([1e-3, 1.0, 1e9]),
)
def test_any_given_level_is_met(thousandths: list[int], seed: int, scale: float) -> None:
    levels = [each / 1000 for each in sorted(thousandths)]
    drawn = np.random.default_rng(seed).normal(5, size=(1, len(levels)))
    quantiles = np.sort(scale * np.where(drawn < 5, 5, drawn))  # half of them tied
    members, weights = quantile_members(levels, quantiles)
    assert (np.diff(members) >= 0).all()
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    assert weights.min() > 0
    up_to = np.cumsum(weights)
    for level, quantile in zip(levels, quantiles[0], strict=True):
        assert members[0, np.searchsorted(up_to, level)] == quantile


def test_lines_between_levels_have_their_mean_and_spread() -> None:
    members, weights = quantile_members([0.0, 0.5, 1.0], [[0.0, 2.0, 10.0]])
    mean = members[0] @ weights
    assert mean == pytest.approx((1 + 6) / 2, rel=1e-12)
    assert (members[0] - mean) ** 2 @ weights == pytest.approx((4 / 3 + 124 / 3) / 2 - mean**2, rel=1e-3)


def test_exponential_tails_are_those_of_an_exponential_distribution() -> None:
    levels = [0.001, 0.2, 0.5, 0.9, 0.95]
    members, weights = quantile_members(levels, expon(scale=3).ppf(levels)[None])
    tail = weights[members[0] >= expon(scale=3).ppf(0.95)]
    above = members[0][members[0] > expon(scale=3).ppf(0.95)]
    assert action_at(0.9995, members, weights) == pytest.approx(expon(scale=3).ppf(0.9995), rel=0.05)
    assert above @ tail[1:] / tail[1:].sum() == pytest.approx(expon(scale=3).ppf(0.95) + 3, rel=0.05)
    flat, flat_weights = quantile_members(levels, expon(scale=3).ppf(levels)[None], "flat")
    gained = members[0] @ weights - flat[0] @ flat_weights
    below = 0.001 * (expon(scale=3).ppf(0.2) - expon(scale=3).ppf(0.001)) / np.log(200)
    assert gained == pytest.approx(0.05 * 3 - below, rel=1e-9)  # the mean of a tail is exact


def test_many_levels_come_close_to_the_distribution() -> None:
    levels = np.arange(1, 100) / 100
    members, weights = quantile_members(levels, norm(5, 2).ppf(levels)[None])
    assert members[0] @ weights == pytest.approx(5, abs=1e-9)
    cost = stakes.ImbalanceCost(10.0, 1.0, -50.0, 50.0)
    action = stakes.optimal_action(cost, torch.from_numpy(members)[..., None], weights=torch.from_numpy(weights))
    fine = norm(5, 2).ppf((np.arange(100_000) + 0.5) / 100_000)
    assert action.item() == pytest.approx(stakes.optimal_action(cost, torch.from_numpy(fine)[:, None]).item(), abs=0.01)


def test_tied_quantiles_have_no_tail() -> None:
    members, weights = quantile_members([0.1, 0.2, 0.9, 0.95], [[0.0, 0.0, 4.0, 4.0]])
    assert (members.min(), members.max()) == (0.0, 4.0)
    assert action_at(0.05, members, weights) == 0.0


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ((0.1, 1.5), "levels must lie between 0 and 1, got 1.5"),
        ((0.1, 0.9, 0.1), "levels must be there once each, got 0.1 twice"),
        ((0.6, 0.9), "levels must lie on both sides of the median, .*, got 0.6, 0.9"),
        ((), "both sides of the median, .*, got none"),
    ],
)
def test_levels_that_are_none(levels: tuple[float, ...], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        checked_levels(levels)


def test_what_quantile_members_refuse() -> None:
    for levels, quantiles, error, message in (
        ((0.9, 0.1), [[1.0, 2.0]], SettingError, "levels must ascend, got 0.9, 0.1"),
        ((0.1, 0.9), [1.0, 2.0], ShapeError, r"quantiles must have shape \(N, 2\)"),
        ((0.1, 0.9), [[2.0, 1.0]], SettingError, "quantiles must ascend with their levels"),
    ):
        with pytest.raises(error, match=message):
            quantile_members(levels, quantiles)
    with pytest.raises(SettingError, match="tails must be one of exponential, flat"):
        quantile_members((0.1, 0.9), [[1.0, 2.0]], "long")  # type: ignore[arg-type]
