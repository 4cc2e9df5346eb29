"""The expected cost of scalar actions, and the bounds of each case."""

import pytest
import torch

from stakes import ImbalanceCost, StorageCost, cost_function, solve_action
from stakes.actions.solve import case_bounds, expected_cost_of, member_costs
from stakes.errors import ShapeError

MEMBERS = torch.tensor([[[1.0], [2.0], [6.0]]], dtype=torch.float64)
SQUARE = cost_function(lambda a, y: (a - y) ** 2, 0.0, 10.0)


def test_means_over_the_members() -> None:
    action = torch.tensor([3.0], dtype=torch.float64)
    assert member_costs(SQUARE, action, MEMBERS.movedim(-2, 0)).tolist() == [[4.0], [1.0], [9.0]]
    assert expected_cost_of(SQUARE, MEMBERS, None)(action).tolist() == [pytest.approx(14 / 3)]
    weights = torch.tensor([[3.0, 0.0, 0.0]], dtype=torch.float64)
    assert expected_cost_of(SQUARE, MEMBERS, weights)(action).tolist() == [4.0]


def test_every_case_may_have_bounds_of_its_own() -> None:
    lower, upper = case_bounds(ImbalanceCost(1.0, 1.0, 0.0, torch.tensor([5.0, 7.0])), MEMBERS.expand(2, 3, 1))
    assert (lower.tolist(), upper.tolist()) == ([0.0, 0.0], [5.0, 7.0])


def test_a_cost_of_the_wrong_shape() -> None:
    with pytest.raises(ShapeError, match="must return a tensor of shape"):
        expected_cost_of(cost_function(lambda a, y: (a - y).sum(), 0.0, 1.0), MEMBERS, None)(torch.ones(1))


@pytest.mark.parametrize("weighted", [False, True])
def test_what_a_program_says_is_the_mean_of_what_its_members_cost(weighted: bool) -> None:
    battery = StorageCost(torch.tensor([1.0, 2.0, 1.5]), 4.0, 0.2, 0.5, 0.8)
    members = torch.rand(4, 9, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    weights = torch.rand(9, generator=torch.Generator().manual_seed(1), dtype=torch.float64) if weighted else None
    solution = solve_action(battery, members, weights=weights)
    paid = battery(solution.action, members.movedim(-2, 0))
    expected = paid.mean(0) if weights is None else (weights[:, None] * paid).sum(0) / weights.sum()
    torch.testing.assert_close(solution.expected_cost, expected, rtol=1e-8, atol=1e-8)
