"""Where the money went: regret is attributed through the action, and adds up."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from refusals import refuses

import stakes
from stakes.data.forecasts.forecast_set import ForecastSet
from stakes.errors import CostError, SettingError, ShapeError

COSTS: dict[str, Any] = {
    "newsvendor": stakes.NewsvendorCost(9.0, 1.0, -50.0, 50.0),
    "imbalance": stakes.ImbalanceCost(10.0, 1.0, lower=-50.0, upper=50.0),
    "shortfall": stakes.ShortfallCost(5.0),
    "protection": stakes.ProtectionCost(0.0, 0.3),
}


def forecast(cases: int = 80, sites: int = 1, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    outcome = random.uniform(0.2, 0.8, size=(cases, sites))
    return outcome[:, None] + 0.1 * random.normal(size=(cases, 20, sites)), outcome


@pytest.mark.parametrize(
    ("name", "sites"), [(name, sites) for name in COSTS for sites in (1, 3) if (name, sites) != ("protection", 3)]
)
def test_parts_add_up_to_the_regret(name: str, sites: int) -> None:
    members, outcome = forecast(sites=sites)
    cost = COSTS[name]
    found = stakes.attribute_regret(members, outcome, cost)
    samples, seen = torch.from_numpy(members), torch.from_numpy(outcome)
    paid = cost(stakes.optimal_action(cost, samples), seen) - cost(stakes.optimal_action(cost, seen[:, None]), seen)
    np.testing.assert_allclose(found.regret, paid, atol=1e-7)
    np.testing.assert_allclose(found.by_outcome.sum(1), found.by_members.sum(1), atol=1e-12)
    scale = found.regret.mean()
    np.testing.assert_allclose(found.by_outcome.sum(1), found.regret, atol=0.05 * scale)
    assert abs(found.unattributed) < 0.005


def test_the_gradient_on_the_way_is_that_of_finite_differences() -> None:
    """A step of one member of one site, from the middle of the way on, moves the cost as the parts of it say."""
    members, outcome = (torch.from_numpy(each) for each in forecast(6, 2))
    cost = COSTS["imbalance"]
    steps, part = 400, torch.zeros(6, dtype=torch.float64)

    def paid(samples: torch.Tensor) -> torch.Tensor:
        return cost(stakes.optimal_action(cost, samples), outcome)

    for step in range(steps):
        samples = outcome[:, None] + (step + 0.5) / steps * (members - outcome[:, None])
        moved, back = samples.clone(), samples.clone()
        moved[:, :, 1] += 1e-6 * (members[:, :, 1] - outcome[:, None, 1])
        back[:, :, 1] -= 1e-6 * (members[:, :, 1] - outcome[:, None, 1])
        part += (paid(moved) - paid(back)) / 2e-6 / steps
    found = stakes.attribute_regret(members.numpy(), outcome.numpy(), cost)
    np.testing.assert_allclose(found.by_outcome[:, 1], part, rtol=1e-3, atol=1e-4 * float(part.abs().max()))


def test_a_point_forecast_of_a_sum_costs_what_its_errors_add_up_to() -> None:
    outcome = np.array([[3.0, 4.0], [3.0, 4.0]])
    points = np.array([[2.0, 3.5], [4.0, 3.5]])  # short by 1.5, and long by 0.5
    cost = stakes.NewsvendorCost(9.0, 1.0, 0.0, 50.0)
    found = stakes.attribute_regret(points[:, None], outcome, cost, names=["north", "south"])
    np.testing.assert_allclose(found.regret, [13.5, 0.5])
    np.testing.assert_allclose(found.by_outcome, [[9.0, 4.5], [1.0, -0.5]], atol=1e-9)


def test_members_that_the_cost_does_not_see_cost_nothing() -> None:
    random = np.random.default_rng(0)
    outcome = np.zeros(50)
    members = np.sort(random.normal(size=(50, 9)), axis=1)
    found = stakes.attribute_regret(members, outcome, stakes.NewsvendorCost(1e3, 1.0, -9.0, 9.0))
    np.testing.assert_allclose(found.by_members[:, :2], 0, atol=1e-12)  # the action is the highest member
    np.testing.assert_allclose(found.by_members[:, 2], found.regret, rtol=1e-9)
    low = {"low": lambda drawn: drawn[..., 0] < 0}
    assert stakes.attribute_regret(members, outcome, COSTS["imbalance"], regions=low).regions == ("low",)


def test_weighted_members_are_as_copies_of_them() -> None:
    members, outcome = forecast(40)
    copies = members[:, np.repeat(np.arange(20), np.arange(20) % 3 + 1)]
    weighted = ForecastSet(members, weights=np.arange(20) % 3 + 1.0)
    one, other = (stakes.attribute_regret(each, outcome, COSTS["imbalance"]) for each in (weighted, copies))
    np.testing.assert_allclose(one.regret, other.regret, rtol=1e-6)
    np.testing.assert_allclose(one.by_outcome, other.by_outcome, rtol=1e-6, atol=1e-9)


def test_hours_seasons_and_sites_share_all_regret() -> None:
    members, outcome = forecast(24 * 120)
    times = pd.date_range("2020-01-01", periods=24 * 120, freq="h")
    evening = times.hour == 18
    members[evening] += 0.5
    sites = np.where(np.arange(len(times)) % 5 == 0, "b", "a")
    found = stakes.attribute_regret(members, outcome, COSTS["newsvendor"], times=times, sites=sites, unit="EUR")
    table = found.to_frame()
    shares = table.groupby("kind")["share"].sum()
    np.testing.assert_allclose(shares[["hour", "season", "site"]], 1)
    np.testing.assert_allclose(shares[["outcome", "members"]], 1, atol=0.01)
    worst = table[table["kind"] == "hour"].set_index("name")["regret"]
    assert worst.idxmax() == "18:00"
    assert list(table[table["kind"] == "season"]["name"]) == ["Dec to Feb", "Mar to May"]
    assert (table["low"] <= table["regret"]).all()
    assert "EUR per case more than with perfect foresight" in found.sentence
    assert "falls at 18:00" in found.sentence


def test_what_jumps_from_bound_to_bound_is_told() -> None:
    random = np.random.default_rng(0)
    prices = 20 + 10 * random.normal(size=(30, 1, 4)) + 4 * random.normal(size=(30, 10, 4))
    found = stakes.attribute_regret(prices, 20 + 10 * random.normal(size=(30, 4)), stakes.ArbitrageCost(1.0, 2.0, 0.9))
    assert found.unattributed == pytest.approx(1)
    assert "100 % comes from jumps" in found.sentence


def test_refusals() -> None:
    members, outcome = forecast()
    cost = COSTS["newsvendor"]
    refuses(
        CostError, "range", stakes.attribute_regret, members, outcome, stakes.ShortfallCost(stakes.ParameterRange(1, 2))
    )
    refuses(SettingError, "names", stakes.attribute_regret, members, outcome, cost, names=["a", "b"])
    refuses(ShapeError, "sites", stakes.attribute_regret, members, outcome, cost, sites=["a"])
    refuses(ShapeError, "members", stakes.attribute_regret, members[:5], outcome, cost)
