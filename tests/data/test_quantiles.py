"""Members that are made of quantiles, and the bounds that outcomes cannot cross."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from refusals import refuses
from scipy.stats import beta, expon, norm

import stakes
from stakes.data.forecasts.quantiles import checked_levels, quantile_members, weighted_quantiles
from stakes.data.outcome_bounds import OutcomeBounds, given_bounds, outcome_bounds, within, written_pair
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


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ((0.1, 1.5), "levels"),
        ((0.1, 0.9, 0.1), "levels"),
        ((0.6, 0.9), "levels"),
        ((), "both sides of the median, .*, got none"),
    ],
)
def test_levels_that_are_none(levels: tuple[float, ...], message: str) -> None:
    refuses(SettingError, message, checked_levels, levels)


def test_what_quantile_members_refuse() -> None:
    for levels, quantiles, error, message in (
        ((0.9, 0.1), [[1.0, 2.0]], SettingError, "levels must ascend, got 0.9, 0.1"),
        ((0.1, 0.9), [1.0, 2.0], ShapeError, r"quantiles must have shape \(N, 2\)"),
        ((0.1, 0.9), [[2.0, 1.0]], SettingError, "quantiles must ascend with their levels"),
    ):
        refuses(error, message, quantile_members, levels, quantiles)
    refuses(SettingError, "tails", quantile_members, (0.1, 0.9), [[1.0, 2.0]], "long")


THREE_LEVELS = (0.1, 0.5, 0.9)


def test_what_a_cost_knows_of_its_outcomes() -> None:
    demand = np.array([[1.0, 2.0, 30.0]])
    for cost, ends_at_zero in (
        (stakes.NewsvendorCost(9.0, 1.0, 0.0, 50.0), True),
        (stakes.NewsvendorCost(9.0, 1.0, -5.0, 50.0), False),
        (stakes.ProtectionCost(2.0, 0.2), False),
    ):
        members = weighted_quantiles(THREE_LEVELS, demand, "'a.csv'", cost=cost).members
        assert members.min() == 0 if ends_at_zero else members.min() < 0
        assert members.max() > 50  # what can be ordered is bounded, the demand is not
    power = np.array([[0.1, 0.5, 0.95]])
    weighted = weighted_quantiles(THREE_LEVELS, power, "'a.csv'", cost=stakes.ShortfallCost(5.0))
    assert (weighted.members.min(), weighted.members.max()) == (0, 1)
    assert [note.partition(",")[0] for note in weighted.notes] == [
        "Members of outcome are clipped below 0",
        "Members of outcome are clipped above 1",
    ]
    beyond = weighted_quantiles(THREE_LEVELS, 2 * power, "'a.csv'", cost=stakes.ShortfallCost(5.0))
    assert (beyond.members.min(), beyond.members.max() > 1.9) == (0, True)
    below = weighted_quantiles(THREE_LEVELS, demand - 5, "'a.csv'", cost=stakes.NewsvendorCost(9.0, 1.0, 0.0, 50.0))
    assert below.members.min() < -4


def test_bounds() -> None:
    assert given_bounds("auto") is given_bounds(None) is None
    assert given_bounds((0.0, None)) == OutcomeBounds(((0.0, None),), "given")
    values = np.array([-1.0, 2.0])
    assert within(values, None) is values
    assert within(values, given_bounds((0.0, None))).tolist() == [0, 2]
    assert within(values, given_bounds((None, 1.0))).tolist() == [-1, 1]


COST = stakes.ImbalanceCost(10.0, 1.0, 0.0, 10.0)


def column(*values: Any) -> torch.Tensor:
    return torch.from_numpy(np.concatenate([np.atleast_1d(value) for value in values]).astype(np.float64))[:, None]


def atoms(values: torch.Tensor) -> Any:
    bounds = outcome_bounds("auto", COST, values)
    return None if bounds is None else bounds.pairs


SMOOTH = np.random.default_rng(0).uniform(0.1, 0.9, 980)


@pytest.mark.parametrize(
    ("values", "pairs"),
    [
        (column(SMOOTH), None),
        (column(SMOOTH, 0.0), None),  # a minimum is no bound
        (column(SMOOTH, 1.0), None),  # and no maximum
        (column(SMOOTH, np.zeros(20)), ((0.0, None),)),
        (column(SMOOTH, np.ones(20)), ((None, 1.0),)),
        (column(SMOOTH, np.zeros(20), np.ones(20)), ((0.0, 1.0),)),
        (column(SMOOTH, np.zeros(9)), None),  # too few ties
        (column(SMOOTH, np.zeros(20), np.full(10, 0.05)), None),  # the next value has many, too
        (column(SMOOTH, np.full(20, 0.05)), None),  # a lower bound is 0
        (column(SMOOTH - 1, np.zeros(20)), ((None, 0.0),)),
        (column(np.random.default_rng(0).poisson(3.0, 1000)), None),  # every value has ties
        (column(np.random.default_rng(0).poisson(3.0, 1000).clip(0, 4)), None),
        (column(np.random.default_rng(0).poisson(9.0, 1000), np.zeros(200)), ((0.0, None),)),
        (column(np.zeros(500), np.ones(500)), None),  # two classes
        (column(np.zeros(1000)), None),
        (column(SMOOTH[:5]), None),
    ],
)
def test_an_atom_is_found_and_nothing_else(values: torch.Tensor, pairs: Any) -> None:
    assert atoms(values) == pairs


def test_every_outcome_has_its_own_bounds() -> None:
    zeros, plain = column(SMOOTH, np.zeros(20)), column(SMOOTH, SMOOTH[:20])
    bounds = outcome_bounds("auto", COST, torch.cat([plain, zeros], 1))
    assert bounds == OutcomeBounds(((None, None), (0.0, None)), "found")
    assert bounds.sentences(("load", "wind")) == (
        "Members of wind are clipped below 0, which many outcomes equal exactly (outcome_bounds).",
    )
    clipped = bounds.clip(torch.tensor([[-1.0, -1.0], [2.0, 2.0]]))
    assert clipped.tolist() == [[-1.0, 0.0], [2.0, 2.0]]


def test_outcomes_with_the_same_bound_share_a_sentence() -> None:
    bounds = OutcomeBounds(((0.0, None),) * 60, "found")
    (sentence,) = bounds.sentences([f"site_{place}" for place in range(60)])
    assert sentence.startswith("Members of site_0, site_1, ")
    assert " more are clipped below 0, which many outcomes equal exactly (outcome_bounds)." in sentence


def test_the_user_comes_first_and_the_cost_next() -> None:
    zeros = column(SMOOTH, np.zeros(20))
    wind = stakes.WindDispatchCost(5.0)
    assert outcome_bounds(None, wind, zeros) is None
    assert outcome_bounds("auto", wind, column(SMOOTH)) == OutcomeBounds(((0.0, None),), "cost")
    assert outcome_bounds((-1.0, None), wind, zeros) == OutcomeBounds(((-1.0, None),), "given")
    assert outcome_bounds((-1.0, None), wind, zeros).sentences(("wind",)) == ()
    assert outcome_bounds("auto", wind, column(SMOOTH - 1)) is None  # what the data contradict
    assert "a bound of the cost" in outcome_bounds("auto", wind, zeros).sentences(("wind",))[0]


@pytest.mark.parametrize(
    ("bounds", "sentence"),
    [
        ((1.0, 0.0), "a lower bound below the upper one, got 1 and 0"),
        ((0.0, float("inf")), "outcome_bounds"),
        ((0.0,), "a lower and an upper bound, got"),
        ("much", "'much'"),
        ((0.5, None), "must hold all outcomes, but .* of 980 rows lie outside 0.5 to none"),
    ],
)
def test_bounds_that_cannot_be_used(bounds: Any, sentence: str) -> None:
    refuses(SettingError, sentence, outcome_bounds, bounds, COST, column(SMOOTH))


def test_written_bounds() -> None:
    assert [written_pair(text) for text in ("auto", "none", "0,1", " ,2.5", "-1,")] == [
        "auto",
        None,
        (0.0, 1.0),
        (None, 2.5),
        (-1.0, None),
    ]
    for text in ("0", "0,1,2", "zero,1", ""):
        refuses(SettingError, "outcome_bounds", written_pair, text)


numbers = st.floats(-3, 3, allow_subnormal=False)


@given(st.lists(numbers, min_size=2, max_size=8), st.floats(0, 1), numbers, numbers)
def test_drawing_members_to_the_bounds_never_costs_crps(members: list[float], share: float, a: float, b: float) -> None:
    """Of the forecast as it stands, for any outcome within the bounds."""
    lower, upper = sorted((a, b))
    if lower == upper:
        return
    bounds = OutcomeBounds(((lower, upper),), "given")
    outcome = torch.tensor([lower + share * (upper - lower)], dtype=torch.float64)
    drawn = torch.tensor(members, dtype=torch.float64)[:, None]
    clipped = bounds.clip(drawn)
    assert ((clipped >= lower) & (clipped <= upper)).all()
    before, after = (stakes.energy_score(each, outcome, "biased") for each in (drawn, clipped))
    assert after <= before + 1e-9
