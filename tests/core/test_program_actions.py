"""Decisions with many parts in scores, on accelerators and with wrong solvers."""

import pytest
import torch

from stakes import (
    AllocationCost,
    ArbitrageCost,
    Cost,
    CVaRCost,
    DecisionScore,
    InteriorPoint,
    NewtonBisection,
    ScheduleCost,
    ShortfallCost,
    cost_function,
    optimal_action,
    solve_action,
)
from stakes.argument_checks import unwatched
from stakes.errors import SettingError
from stakes.programs.vector_actions import PartlyFree, ProgramCost, action_parts, program_action

COST = ScheduleCost(4.0, 1.0, quadratic=0.5, ramp=0.3)


def members(*shape: int) -> torch.Tensor:
    return 2 + torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_a_schedule_is_a_program_with_free_parts() -> None:
    assert isinstance(COST, ProgramCost)
    assert isinstance(COST, PartlyFree)


FUNCTION = cost_function(lambda a, y: ((a - y) ** 2).sum(-1), 0.0, 9.0, convex=True, parts=3)


@pytest.mark.parametrize(
    ("cost", "parts"),
    [
        (COST, 4),
        (CVaRCost(COST, 0.5), 4),
        (ArbitrageCost(1.0, 1.0, 0.9, 0.1), 8),
        (FUNCTION, 3),
        (ShortfallCost(5.0), 1),
        (CVaRCost(ShortfallCost(5.0), 0.5), 1),
    ],
)
def test_how_many_parts_an_action_of_four_outcomes_has(cost: Cost, parts: int) -> None:
    assert action_parts(cost, 4) == parts


def test_nothing_is_looked_at_on_an_accelerator() -> None:
    samples = torch.cat([members(2, 6, 4), torch.ones(2, 6, 4, dtype=torch.float64)]).requires_grad_()
    with unwatched():
        blind = optimal_action(COST, samples)
    seen = optimal_action(COST, samples)
    torch.testing.assert_close(blind, seen, rtol=0.0, atol=1e-6)
    ours, theirs = (torch.autograd.grad(each.square().sum(), samples)[0] for each in (blind, seen))
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    "cost", [ScheduleCost(4.0, 1.0), AllocationCost(4.0, 1.0, 3.0), AllocationCost(4.0, 1.0, 99.0)]
)
@pytest.mark.parametrize("solver", [None, InteriorPoint()])
def test_costs_on_an_accelerator_with_and_without_limits_that_bind(
    cost: ScheduleCost | AllocationCost, solver: InteriorPoint | None
) -> None:
    samples = members(2, 6, 4).requires_grad_()
    with unwatched():
        blind = optimal_action(cost, samples, solver)
    torch.testing.assert_close(blind, optimal_action(cost, samples, solver), rtol=0.0, atol=1e-6)
    assert bool(torch.isfinite(torch.autograd.grad(blind.sum(), samples)[0]).all())


def test_the_decision_score_charges_the_schedule() -> None:
    samples, outcome = members(3, 6, 4).requires_grad_(), members(3, 4)
    score = DecisionScore(COST)(samples, outcome)
    torch.testing.assert_close(score, COST(optimal_action(COST, samples), outcome))
    (gradient,) = torch.autograd.grad(score.sum(), samples)
    assert bool((gradient != 0).any())


def test_under_vmap_and_over_several_axes() -> None:
    samples = members(2, 3, 6, 4)
    whole = optimal_action(COST, samples)
    assert whole.shape == (2, 3, 4)
    mapped = torch.func.vmap(lambda each: optimal_action(COST, each))(samples)
    torch.testing.assert_close(mapped, whole, rtol=0.0, atol=1e-6)


def test_without_limits_nothing_is_solved() -> None:
    found = program_action(ScheduleCost(4.0, 1.0), members(3, 6, 4), None)
    assert float(found.gap.max()) == float(found.residual.max()) == 0.0
    assert bool(found.solved.all())
    assert bool(found.interior.all())


def test_wrong_solver() -> None:
    with pytest.raises(SettingError, match="InteriorPoint"):
        solve_action(COST, members(3, 6, 4), NewtonBisection())
