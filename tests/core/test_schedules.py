"""Schedules and allocations: closed forms and exact solvers against programs, gradients, limits, refusals."""

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from refusals import refuses
from torch import Tensor

from stakes import (
    ActionSolution,
    AllocationCost,
    InteriorPoint,
    ScheduleCost,
    StorageCost,
    optimal_action,
    solve_action,
)
from stakes.argument_checks import unwatched
from stakes.errors import CostError, ShapeError
from stakes.programs.part_costs import PartCosts
from stakes.programs.schedules import budgeted_action, ramped_action

EXACT = InteriorPoint(iterations=30, tolerance=1e-12)


def members(*shape: int, seed: int = 0) -> Tensor:
    return 2 + torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def expected_cost(cost: Any, action: Tensor, samples: Tensor, weights: Tensor | None = None) -> Tensor:
    of_member = cost(action, samples.movedim(-2, 0))
    return of_member.mean(0) if weights is None else (weights.mT * of_member).sum(0) / weights.sum(-1)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("quadratic", [0.0, 0.7])
@pytest.mark.parametrize(("short", "long"), [(3.0, 1.0), (50.0, 0.5)])
def test_the_closed_form_is_the_program_without_limits(
    short: float, long: float, quadratic: float, weighted: bool
) -> None:
    samples = members(5, 9, 4).requires_grad_()
    weights = members(5, 9, seed=1).abs() + 0.1 if weighted else None
    cost = ScheduleCost(short, long, quadratic, lower=-9.0, upper=9.0)
    free = cost.free_action(samples, weights)
    solved = cost.program(4).solve(samples, weights, EXACT, gradient=True).action
    torch.testing.assert_close(free, solved, rtol=0.0, atol=1e-8)
    ours, theirs = (torch.autograd.grad(each.sum(), samples)[0] for each in (free, solved))
    torch.testing.assert_close(ours, theirs, rtol=0.0, atol=1e-6)


@pytest.mark.parametrize(("short", "long", "expected"), [(0.0, 1.0, 0.25), (1.0, 0.0, None)])
def test_what_costs_nothing_on_one_side(short: float, long: float, expected: float | None) -> None:
    samples = members(1, 9, 3)
    action = optimal_action(ScheduleCost(short, long, lower=0.25), samples)
    assert torch.equal(action, torch.full((1, 3), expected) if expected else samples.amax(-2))


def test_a_ramp_that_binds_in_some_cases_changes_only_these() -> None:
    samples = torch.cat([members(3, 6, 4), torch.ones(3, 6, 4, dtype=torch.float64)])
    free, limited = (optimal_action(ScheduleCost(4.0, 1.0, ramp=ramp), samples) for ramp in (None, 0.1))
    assert torch.equal(free[3:], limited[3:])
    assert float(limited.diff(dim=-1).abs().max()) <= 0.1 + 1e-8
    assert bool(
        (
            expected_cost(ScheduleCost(4.0, 1.0), limited, samples)[:3]
            > expected_cost(ScheduleCost(4.0, 1.0), free, samples)[:3]
        ).all()
    )


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"short": -1.0}, "short"),
        ({"short": 0.0, "long": 0.0}, "short and long"),
        ({"quadratic": -1.0}, "quadratic"),
        ({"ramp": 0.0}, "ramp"),
        ({"upper": -1.0}, "lower"),
        ({"lower": [1.0, 1.0, 3.0], "upper": 2.0}, "lower"),
        ({"short": float("nan")}, "short"),
    ],
)
def test_wrong_parameters(wrong: dict[str, Any], said: str) -> None:
    refuses(CostError, said, ScheduleCost, **{"short": 1.0, "long": 1.0} | wrong)


def test_parameters_of_another_length() -> None:
    refuses(ShapeError, "^short", optimal_action, ScheduleCost(torch.ones(3), 1.0, ramp=0.1), members(2, 6, 4))


def test_gradient_by_the_squares_where_a_ramp_binds() -> None:
    members = torch.tensor([[[0.0, 4.0]]], dtype=torch.float64)

    def action(quadratic: Tensor) -> Tensor:
        return optimal_action(ScheduleCost(1.0, 1.0, quadratic, 1.0, lower=-9.0), members)

    squares = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(action, (squares,))


@pytest.mark.parametrize(
    "cost", [ScheduleCost(3.0, 1.0), ScheduleCost(3.0, 1.0, ramp=0.5), AllocationCost(3.0, 1.0, 99.0)]
)
def test_of_tied_members_the_one_that_weighs_moves_the_action(cost: Any) -> None:
    members = torch.tensor([[[2.0, 1.0], [2.0, 1.0]]], dtype=torch.float64, requires_grad=True)
    action = optimal_action(cost, members, weights=torch.tensor([0.0, 1.0]))
    (gradient,) = torch.autograd.grad(action[0].sum(), members)
    assert float(gradient[0, 0].abs().max()) == 0.0
    assert float(gradient[0, 1].abs().max()) > 0.0


def test_single_precision_breaks_no_bound_where_a_solver_is_asked_for() -> None:
    samples = torch.rand(1, 9, 4, generator=torch.Generator().manual_seed(0)) / 10
    samples[:, :, 1] += 1e6
    cost = ScheduleCost(short=3.0, long=1.0, lower=0.3)
    solved, exact = solve_action(cost, samples, InteriorPoint()), solve_action(cost, samples)
    torch.testing.assert_close(solved.action, exact.action, rtol=1e-7, atol=1e-6)


TO_THE_END = InteriorPoint(iterations=60, tolerance=1e-11)


def days(kind: str, seed: int = 0, cases: int = 6, count: int = 7, hours: int = 6) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    values = 2 + 0.7 * torch.randn(cases, count, hours, generator=generator, dtype=torch.float64).cumsum(-1)
    return {"plain": values, "tied": values.round(), "dark": (values - 2).clamp(min=0.0)}[kind]


COSTS = {
    "straight": ScheduleCost(4.0, 1.0, ramp=0.4),
    "curved": ScheduleCost(4.0, 1.0, 0.6, 0.4, upper=3.0),
    "partly curved": ScheduleCost(9.0, 0.5, torch.tensor([0.0, 1.0, 0.0, 2.0, 0.0, 0.0]), 1.0, lower=-9.0),
    "own prices": ScheduleCost(torch.linspace(1, 9, 6), torch.ones(6, 1), 0.1, torch.linspace(0.1, 1, 6)[:, None]),
}


def certified_and_cheapest(cost: Any, samples: Tensor, weights: Tensor | None) -> ActionSolution:
    """The exact action: proven, also where nobody looks at numbers, and no dearer than that of the program."""
    solution = solve_action(cost, samples, weights=weights)
    assert bool(solution.certified.all())
    assert solution.gap is not None
    assert float(solution.gap.max()) < 1e-9
    with unwatched():
        blind = solve_action(cost, samples, weights=weights)
    assert bool(blind.certified.all())
    torch.testing.assert_close(blind.expected_cost, solution.expected_cost, rtol=1e-12, atol=1e-12)
    solved = cost.program(samples.shape[-1]).solve(samples, weights, TO_THE_END).action
    saved = expected_cost(cost, solution.action, samples, weights) - expected_cost(cost, solved, samples, weights)
    assert float(saved.max()) < 1e-9
    return solution


@pytest.mark.parametrize("kind", ["plain", "tied", "dark"])
@pytest.mark.parametrize("name", COSTS)
def test_nothing_costs_less_than_the_exact_action(name: str, kind: str) -> None:
    cost, samples = COSTS[name], days(kind)
    weights = days("plain", seed=1)[..., 0].abs() if kind == "dark" else None
    solution = certified_and_cheapest(cost, samples, weights)
    assert float(solution.residual.max()) < 1e-11
    ramp = cost.ramp if isinstance(cost.ramp, Tensor) else torch.tensor(cost.ramp)
    assert bool((solution.action.diff(dim=-1).abs() <= ramp + 1e-9).all())


def test_the_proof_fails_elsewhere() -> None:
    samples, cost = days("plain"), COSTS["straight"]
    costs = PartCosts.of(cost, samples, None)
    ramp = torch.full((6, 1), 0.4, dtype=torch.float64)
    _, _, residual = ramped_action(costs, costs.best().action, ramp)
    assert float(residual.max()) < 1e-11
    _, _, residual = ramped_action(costs, costs.best().action - 0.5, ramp)  # what it takes for the free action is not
    assert not bool((residual <= 1e-3).any())


def test_bounds_that_no_ramp_joins_are_flagged() -> None:
    lower, upper = torch.tensor([3.0, 0.0, 0.0]), torch.tensor([4.0, 1.0, 1.0])
    impossible = ScheduleCost(4.0, 1.0, ramp=0.4, lower=lower, upper=upper)
    samples = days("plain", hours=3).requires_grad_()
    solution = solve_action(impossible, samples)
    assert not bool(solution.certified.any())
    assert not bool(torch.autograd.grad(optimal_action(impossible, samples).sum(), samples)[0].any())


@pytest.mark.parametrize("lower", [-1e12, -1e15, -1e20])
def test_a_bound_that_stands_for_none_costs_no_digits(lower: float) -> None:
    samples = 3 * torch.randn(50, 20, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    near, far = (solve_action(ScheduleCost(3.0, 1.0, 1.0, 0.4, lower=bound), samples) for bound in (-100.0, lower))
    assert bool(far.certified.all())
    torch.testing.assert_close(far.action, near.action, rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("fill", [1e12, 9.97e36])
def test_a_member_without_weight_costs_no_digits(fill: float) -> None:
    samples = 3 * torch.randn(50, 20, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    weights, cost = torch.ones(20, dtype=torch.float64), ScheduleCost(3.0, 1.0, 1.0, 0.4)
    weights[0] = 0.0
    alone = solve_action(cost, samples[:, 1:])
    samples[:, 0] = fill
    solution = solve_action(cost, samples, weights=weights)
    assert bool(solution.certified.all())
    torch.testing.assert_close(solution.action, alone.action, rtol=0.0, atol=1e-9)


ALLOCATIONS = {
    "alike": AllocationCost(4.0, 1.0, 5.0),
    "own prices": AllocationCost(torch.tensor([1.0, 2.0, 4.0, 3.0]), 0.1, torch.tensor([[1.0], [5.0], [9.0]])),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ALLOCATIONS)
def test_nothing_costs_less_than_the_exact_allocation(name: str, weighted: bool) -> None:
    cost, samples = ALLOCATIONS[name], members(3, 9, 4)
    weights = members(3, 9, seed=1).abs() if weighted else None
    solution = certified_and_cheapest(cost, samples, weights)
    assert bool((solution.action >= 0).all())


@pytest.mark.parametrize("blind", [False, True])
@pytest.mark.parametrize("name", ["straight", "curved", "partly curved", *ALLOCATIONS])
def test_gradient(name: str, blind: bool) -> None:
    samples = members(3, 5, 4) if name in ALLOCATIONS else days("plain", seed=2, cases=2)

    def action(each: Tensor) -> Tensor:
        with unwatched() if blind else nullcontext():
            return optimal_action((COSTS | ALLOCATIONS)[name], each)

    leaf = samples.requires_grad_()
    assert torch.autograd.gradcheck(action, (leaf,), eps=1e-7, atol=1e-6, rtol=1e-4, fast_mode=True)


def test_the_proof_fails_where_the_budget_does_not_bind() -> None:
    samples = members(2, 9, 4)
    costs = PartCosts.of(AllocationCost(4.0, 1.0, 100.0), samples, None)
    budgeted = budgeted_action(costs, samples, torch.full((2, 1), 100.0, dtype=torch.float64))
    assert bool((budgeted.residual > 1e-3).all())


def test_lists_of_anything_else_are_refused() -> None:
    refuses(CostError, "short", ScheduleCost, short=["much"], long=1.0)


def test_lists_of_unequal_lengths_are_refused() -> None:
    for make in (
        lambda: ScheduleCost(short=[1.0, 2.0], long=[1.0, 2.0, 3.0]),
        lambda: ScheduleCost(1.0, 1.0, lower=[0.0, 1.0], upper=[4.0, 5.0, 6.0]),
        lambda: StorageCost([1.0, 2.0], [3.0, 4.0, 5.0], 0.0, 1.0, 1.0),
    ):
        refuses(CostError, r"got: .* has 2, .* has 3", make)
