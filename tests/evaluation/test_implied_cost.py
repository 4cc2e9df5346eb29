"""Implied cost parameters of actions whose cost is known."""

import numpy as np
import pytest
import torch
from refusals import refuses
from scipy.stats import norm, poisson

import stakes
from stakes import CostLossCost, ImbalanceCost, NewsvendorCost, ParameterRange, ShortfallCost, implied_cost
from stakes.errors import CostError, NonFiniteError, ShapeError

RATIOS = ParameterRange(0.1, 100)
STOCK = NewsvendorCost(RATIOS, 1.0, 0.0, 200.0)


def demands(cases: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """What could be known beforehand, and what came: normal around it, with deviation 5."""
    random = np.random.default_rng(seed)
    known = random.normal(100, 10, cases)
    return known, known + 5 * random.normal(size=cases)


def test_the_interval_holds_a_known_ratio_in_95_per_cent_of_200_simulations() -> None:
    """The action knows more than a forecast could tell, and the error of the error rate is that of 200 coins."""
    held = []
    for seed in range(200):
        known, demand = demands(200, seed)
        found = implied_cost(known + 5 * norm.ppf(0.8), demand, STOCK, block=1)  # 4 : 1
        held.append(found.low <= 4 <= found.high)
    assert 0.95 - 2 * np.sqrt(0.95 * 0.05 / 200) <= np.mean(held) <= 0.99


def test_closed_forms() -> None:
    known, demand = demands(5000)
    stock = known + 3
    found = implied_cost(stock, demand, NewsvendorCost(RATIOS, 2.0, 0.0, 200.0))
    assert found.value == pytest.approx(2 * (demand < stock).mean() / (demand > stock).mean(), rel=1e-3)
    assert found.sentence.startswith("The actions behave as if being short cost ")
    short, long = (np.maximum(side * (demand - stock), 0).mean() for side in (1, -1))
    bought = implied_cost(stock, demand, ImbalanceCost(RATIOS, 1.0, 0.0, 200.0))
    assert bought.value == pytest.approx(long / short, rel=1e-3)
    power, committed = np.clip(demand / 150, 0, 1), np.clip(known / 150 - 0.01, 0, 1)
    wind = implied_cost(committed, power, ShortfallCost(RATIOS))
    assert wind.value == pytest.approx(1 / (2 * np.maximum(committed - power, 0).mean()), rel=1e-3)


def test_the_optimal_actions_of_a_forecast_tell_its_price_by_the_forecast() -> None:
    known, demand = demands(400)
    members = known[:, None] + 5 * np.random.default_rng(1).normal(size=(400, 200))
    weights = np.random.default_rng(2).uniform(1, 2, 200)
    cost = ImbalanceCost(6.0, 1.0, 0.0, 200.0)
    actions = stakes.optimal_action(cost, torch.from_numpy(members[..., None]), weights=torch.from_numpy(weights))
    ranged = ImbalanceCost(RATIOS, 1.0, 0.0, 200.0)
    found = implied_cost(actions, demand, ranged, members=members, weights=weights)
    assert found.by_forecast is not None
    assert found.by_forecast.mean == pytest.approx(6.0, rel=1e-3)
    assert found.low < 6 < found.high
    assert found.by_size is None


def test_outcomes_that_equal_the_action_widen_the_interval() -> None:
    random = np.random.default_rng(0)
    known = random.poisson(6, 3000)
    demand = random.poisson(known)
    stock = poisson.ppf(0.9, known)
    found = implied_cost(stock, demand, NewsvendorCost(RATIOS, 1.0, -1.0, 500.0))
    assert found.ties == pytest.approx((stock == demand).mean())
    below, above = (
        (stock > demand).mean() / (stock <= demand).mean(),
        (stock >= demand).mean() / (stock < demand).mean(),
    )
    assert found.low < below < above < found.high
    assert found.low < 9 < found.high


def test_one_number_does_not_explain_two_habits() -> None:
    known, demand = demands(4000)
    two = implied_cost(np.where(known > 100, known + 4, known - 4), demand, STOCK)
    assert two.by_size is not None
    assert two.by_size[0] < 1 < two.by_size[1]
    assert "No single number explains all actions" in two.sentence
    assert implied_cost(known + 4, demand, STOCK).by_size is None


def test_what_the_actions_do_not_tell() -> None:
    known, demand = demands(300)
    untold = {
        "never vary": implied_cost(np.full(300, 100.0), demand, STOCK),
        "lower than any underage from 0.1 to 100": implied_cost(known - 11, demand, STOCK),
        "does not depend on it": implied_cost(known + 60, demand, STOCK),
        "at a bound": implied_cost((known > 100).astype(float), demand, CostLossCost(100.0, ParameterRange(0.1, 1))),
        "too few": implied_cost(known[:9], demand[:9], STOCK, block=2),
    }
    for reason, found in untold.items():
        assert not found.identified
        assert reason in found.sentence
        assert np.isnan([found.value, found.low, found.high]).all()
    part = implied_cost(np.where(known > 110, 0.0, known + 4), demand, STOCK)
    assert part.identified
    assert part.at_bounds == (known > 110).sum()
    assert "at a bound left out" in part.sentence


def test_cases_that_are_copies_of_their_neighbours_say_nothing_more() -> None:
    known, demand = demands(400)
    once = implied_cost(known + 4, demand, STOCK, block=1)
    for block in (1, 10):
        copied = implied_cost(np.repeat(known + 4, 10), np.repeat(demand, 10), STOCK, block=block)
        assert (copied.low, copied.high) == pytest.approx((once.low, once.high), rel=0.15)


def test_refusals() -> None:
    known, demand = demands(30)
    refuses(CostError, "range", implied_cost, known, demand, ShortfallCost(5.0))
    refuses(CostError, "actions", implied_cost, known + 200, demand, STOCK)
    refuses(ShapeError, "actions", implied_cost, np.ones((30, 2)), demand, STOCK)
    refuses(ShapeError, "outcomes", implied_cost, known, demand[:9], STOCK)
    refuses(ShapeError, "members", implied_cost, known, demand, STOCK, members=np.ones((9, 4)))
    refuses(NonFiniteError, "outcomes", implied_cost, known, demand * np.nan, STOCK)
