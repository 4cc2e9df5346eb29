"""Allocations under a budget: exact ones against the interior-point method, their proof and their gradient."""

import pytest
import torch
from torch import Tensor

from stakes import AllocationCost, InteriorPoint, optimal_action, solve_action
from stakes.argument_checks import unwatched
from stakes.programs.schedules import budgeted_action
from stakes.programs.vector_cost import PartCosts

EXACT = InteriorPoint(iterations=60, tolerance=1e-11)


def members(*shape: int, seed: int = 0) -> Tensor:
    return 2 + torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def expected(cost: AllocationCost, action: Tensor, samples: Tensor, weights: Tensor | None) -> Tensor:
    paid = cost(action, samples.movedim(-2, 0))
    return paid.mean(0) if weights is None else (weights.mT * paid).sum(0) / weights.sum(-1)


COSTS = {
    "alike": AllocationCost(4.0, 1.0, 5.0),
    "own prices": AllocationCost(torch.tensor([1.0, 2.0, 4.0, 3.0]), 0.1, torch.tensor([[1.0], [5.0], [9.0]])),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", COSTS)
def test_nothing_costs_less_than_the_exact_action(name: str, weighted: bool) -> None:
    cost, samples = COSTS[name], members(3, 9, 4)
    weights = members(3, 9, seed=1).abs() if weighted else None
    solution = solve_action(cost, samples, weights=weights)
    assert bool(solution.certified.all())
    assert solution.gap is not None
    assert float(solution.gap.max()) < 1e-9
    with unwatched():
        blind = solve_action(cost, samples, weights=weights)
    assert bool(blind.certified.all())
    torch.testing.assert_close(blind.expected_cost, solution.expected_cost, rtol=1e-12, atol=1e-12)
    solved = cost.program(4).solve(samples, weights, EXACT).action
    saved = expected(cost, solution.action, samples, weights) - expected(cost, solved, samples, weights)
    assert float(saved.max()) < 1e-9
    assert bool((solution.action >= 0).all())


@pytest.mark.parametrize("name", COSTS)
def test_gradient(name: str) -> None:
    samples = members(3, 5, 4).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda each: optimal_action(COSTS[name], each), (samples,), eps=1e-7, atol=1e-6, rtol=1e-4, fast_mode=True
    )


def test_places_that_are_alike_get_the_same() -> None:
    samples = members(1, 9, 1).expand(1, 9, 3)
    action = optimal_action(AllocationCost(4.0, 1.0, 3.0), samples)
    torch.testing.assert_close(action, torch.ones(1, 3, dtype=torch.float64))


def test_the_proof_fails_where_the_budget_does_not_bind() -> None:
    samples = members(2, 9, 4)
    costs = PartCosts.of(AllocationCost(4.0, 1.0, 100.0), samples, None)
    budgeted = budgeted_action(costs, samples, torch.full((2, 1), 100.0, dtype=torch.float64))
    assert bool((budgeted.residual > 1e-3).all())
