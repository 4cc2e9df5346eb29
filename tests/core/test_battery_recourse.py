"""The recursion of a battery's recourse, against the matrices it stands for."""

from dataclasses import replace

import pytest
import torch
from core.random_costs import random_decision
from torch import Tensor

import stakes
from stakes.programs.interior_point import InteriorPoint
from stakes.programs.recourse import MemberBlocks, Recourse
from stakes.programs.storage import BatteryRecourse

COST = stakes.StorageCost(price=1.0, short=3.0, long=0.2, power=0.1, energy=0.25, efficiency=0.9, start=0.05)


def spread_out(*shape: int, seed: int, decades: float) -> Tensor:
    normal = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.exp(decades * normal)


def days(cases: int, members: int, hours: int) -> Tensor:
    steps = torch.randn(cases, members, hours, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return (0.4 + 0.05 * steps.cumsum(-1)).clamp(0, 1)


@pytest.mark.parametrize("hours", [1, 2, 7])
@pytest.mark.parametrize("curved", [0.0, 0.3])
def test_blocks_are_those_of_the_matrices(hours: int, curved: float) -> None:
    recourse = COST.program(hours).recourse
    assert isinstance(recourse, BatteryRecourse)
    recourse = replace(recourse, Q=recourse.Q + curved)
    curvature = spread_out(2, 1, 1, seed=1, decades=0.5)
    z, v = spread_out(2, 3, 3 * hours, seed=2, decades=2.0), spread_out(2, 3, 5 * hours, seed=3, decades=2.0)
    blocks = recourse.blocks(curvature, z, v)
    whole = MemberBlocks(Recourse(recourse.Q, recourse.W, recourse.T), curvature, z, v)
    rows, weights = torch.randn(2, 3, 5 * hours, dtype=torch.float64), spread_out(2, 3, seed=4, decades=0.5)
    for ours, theirs in (
        (blocks.solve(rows), whole.solve(rows)),
        (blocks.theta(rows[..., : 3 * hours]), whole.theta(rows[..., : 3 * hours])),
        (blocks.on_actions(weights), whole.on_actions(weights)),
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-9 * float(theirs.abs().max()))


def test_prices_as_unequal_as_at_a_solution_are_found_to_the_last_digits() -> None:
    """A row that is met to 1e-12 beside others that are loose by 1e12, as where the battery is empty or full."""
    recourse = COST.program(6).recourse
    signs = torch.randint(0, 2, (4, 5, 48), generator=torch.Generator().manual_seed(5)).double()
    ratios = 10.0 ** (24 * signs - 12)
    z, v = ratios.split([18, 30], -1)
    blocks = recourse.blocks(torch.ones(4, 1, 1, dtype=torch.float64), z, v)
    rows = torch.randn(4, 5, 30, generator=torch.Generator().manual_seed(6), dtype=torch.float64) * v.clamp(max=1.0)
    prices = blocks.solve(rows)
    left = v * prices + recourse.reached(blocks.theta(recourse.priced(prices))) - rows
    size = v * prices.abs() + (blocks._theta * recourse.priced(prices).abs()) @ recourse.W.abs().mT + rows.abs()
    assert (left.abs() / size.amax(-1, keepdim=True)).max() < 1e-9


def test_actions_and_their_gradients_are_those_of_the_whole_matrices() -> None:
    program = COST.program(6)
    whole = stakes.ScenarioProgram(**vars(program))
    assert type(whole.recourse) is Recourse
    members = days(4, 5, 6)
    direction = torch.randn(4, 5, 6, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    actions, slopes = [], []
    for each in (program, whole):
        moved = members.clone().requires_grad_()
        solved = each.solve(moved, solver=InteriorPoint(), gradient=True)
        assert bool(solved.solution.solved.all())
        (slope,) = torch.autograd.grad((solved.action**2).sum(), moved)
        actions.append(solved)
        slopes.append((slope * direction).sum((-2, -1)))
    torch.testing.assert_close(actions[0].solution.objective, actions[1].solution.objective, rtol=1e-8, atol=1e-9)
    torch.testing.assert_close(actions[0].action, actions[1].action, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(slopes[0], slopes[1], rtol=1e-3, atol=1e-3)


def test_no_search_stalls_where_prices_change_over_the_day() -> None:
    price = torch.tensor([1.0, 1.0, 1.5, 1.5, 0.7, 0.7, 0.7, 1.0])
    cost = stakes.StorageCost(price=price, short=3 * price, long=0.0, power=0.1, energy=0.3, efficiency=0.9)
    solved = cost.program(8).solve(days(12, 10, 8)).solution
    assert bool(solved.solved.all())
    assert solved.iterations <= 20
    assert solved.residual.max() < 1e-8


def test_a_case_that_rounding_keeps_from_the_tolerance_is_left_alone() -> None:
    hours = torch.arange(24, dtype=torch.float64)
    cost = stakes.StorageCost(1 + 0.5 * torch.sin(hours / 3), short=4.0, long=0.1, power=1.0, energy=3.0)
    steps = torch.randn(4, 50, 24, generator=torch.Generator().manual_seed(0), dtype=torch.float64).cumsum(-1)
    members = (3 + torch.sin(hours / 4) + steps / 6).clamp(min=0.0)
    never = InteriorPoint(tolerance=1e-14)
    solved, exact = (cost.program(24).solve(members, solver=solver).solution for solver in (never, InteriorPoint()))
    assert solved.iterations < 30
    assert bool(solved.solved.all())
    torch.testing.assert_close(solved.objective, exact.objective, rtol=1e-8, atol=0.0)


@pytest.mark.parametrize("seed", [1, 14])
def test_where_rounding_breaks_the_recursion_down_the_matrices_solve(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for _ in range(5):
        decision = random_decision(generator, "storage", 4)
    solution = stakes.solve_action(decision.cost, decision.samples, weights=decision.weights)
    assert bool(solution.certified.all())
    assert bool(torch.isfinite(solution.expected_cost).all())
