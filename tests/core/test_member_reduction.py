"""Reduced members decide as all of them do, and say what they cost."""

import pytest
import torch
from refusals import refuses
from torch import Tensor

import stakes

GENERATOR = torch.Generator().manual_seed(0)
MEMBERS = torch.randn(3, 400, 4, generator=GENERATOR).exp()
COSTS: dict[str, stakes.Cost] = {
    "shortfall": stakes.ShortfallCost(20.0),
    "imbalance": stakes.ImbalanceCost(10.0, 1.0, 0.0, 999.0),
    "newsvendor": stakes.NewsvendorCost(9.0, 1.0, 0.0, 999.0),
    "cvar": stakes.CVaRCost(stakes.ImbalanceCost(10.0, 1.0, 0.0, 999.0), 0.9, 0.5),
    "schedule": stakes.ScheduleCost(5.0, 1.0, ramp=0.5),
}
SMOOTH = ("shortfall", "imbalance")


def expected(cost: stakes.Cost, action: Tensor) -> Tensor:
    return cost(action.double(), MEMBERS.double().movedim(-2, 0)).mean(0)


@pytest.mark.parametrize("name", COSTS)
def test_the_gap_is_what_the_reduction_costs(name: str) -> None:
    cost = COSTS[name]
    reduced = stakes.reduce_members(MEMBERS, 60, cost=cost)
    full = stakes.solve_action(cost, MEMBERS)
    assert reduced.gap is not None
    assert reduced.action is not None
    assert reduced.certified is not None
    assert (reduced.members.shape, reduced.weights.shape) == ((3, 60, 4), (3, 60))
    torch.testing.assert_close(reduced.full_action, full.action)
    torch.testing.assert_close(reduced.gap, (expected(cost, reduced.action) - expected(cost, full.action)).clamp(min=0))
    assert reduced.certified.equal(full.certified)
    again = stakes.solve_action(cost, reduced.members, weights=reduced.weights)
    torch.testing.assert_close(reduced.action, again.action)
    random = stakes.solve_action(cost, MEMBERS[:, :60]).action
    assert reduced.gap.sum() < (expected(cost, random) - expected(cost, full.action)).sum()
    if name in SMOOTH:
        torch.testing.assert_close(reduced.expected_cost, full.expected_cost, rtol=1e-4, atol=1e-5)
        assert (reduced.gap < 1e-6 * full.expected_cost.abs()).all()


def test_weighted_members_are_members_that_come_more_often() -> None:
    weights = torch.ones(400)
    weights[:100] = 3.0
    often = torch.cat([MEMBERS, MEMBERS[:, :100], MEMBERS[:, :100]], 1)
    weighted = stakes.reduce_members(MEMBERS, 30, weights=weights)
    torch.testing.assert_close(
        weighted.energy_distance, stakes.reduce_members(often, 30).energy_distance, rtol=0.05, atol=0.0
    )


def test_scenarios_are_a_long_table() -> None:
    reduced = stakes.reduce_members(MEMBERS, 5)
    table = reduced.scenarios(("a", "b", "c", "d"))
    assert {len(column) for column in table.values()} == {3 * 5 * 4}
    assert table["value"].sum() == pytest.approx(float(reduced.members.sum()), rel=1e-5)
    assert table["probability"].sum() == pytest.approx(3 * 4, rel=1e-5)
    refuses(stakes.StakesError, "names", reduced.scenarios, ("a",))


@pytest.mark.parametrize(
    ("field", "samples", "count", "weights"),
    [
        ("count", MEMBERS, 401, None),
        ("count", MEMBERS, 0, None),
        ("samples", MEMBERS.where(MEMBERS > 0.5, torch.nan), 5, None),
        ("weights", MEMBERS, 5, torch.zeros(400)),
        ("weights", MEMBERS, 5, torch.full((400,), torch.nan)),
        ("samples", MEMBERS[:, :1], 1, None),
    ],
)
def test_bad_input_is_refused_by_name(field: str, samples: Tensor, count: int, weights: Tensor | None) -> None:
    refuses(stakes.StakesError, field, stakes.reduce_members, samples, count, weights)
