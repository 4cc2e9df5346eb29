"""Convex costs of vector actions: Newton on the barrier, against Clarabel, gradients, gaps, refusals."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import cvxpy
import pytest
import torch
from refusals import refuses
from scipy.optimize import linprog
from torch import Tensor
from torch.nn.functional import softplus

from stakes import InteriorPoint, cost_function, optimal_action, solve_action
from stakes.errors import CostError, SettingError, ShapeError
from stakes.programs.convex_actions import BarrierNewton, ConvexCost, LinearLimits

PARTS, MEMBERS = 3, 7
EYE = torch.eye(PARTS, dtype=torch.float64)
STEPS = EYE[1:] - EYE[:-1]
RAMPS = torch.cat([STEPS, -STEPS, torch.ones(1, PARTS, dtype=torch.float64)])
ALLOWED = torch.tensor([0.3] * 4 + [0.6], dtype=torch.float64)
LIMITS: dict[str, Any] = {
    "bounds": None,
    "limits": (RAMPS, ALLOWED),
    "equations": (RAMPS, ALLOWED, torch.tensor([[1.0, -2.0, 1.0]]), torch.tensor([0.1], dtype=torch.float64)),
}
Functions = tuple[Callable[[Tensor, Tensor], Tensor], Callable[[Any, Any], Any]]
FUNCTIONS: dict[str, Functions] = {
    "squares": (
        lambda a, y: ((a - y) ** 2).sum(-1) + (a.sum(-1) - 1) ** 2,
        lambda a, y: cvxpy.sum_squares(a - y) + cvxpy.square(cvxpy.sum(a) - 1),
    ),
    "log-sum-exp": (
        lambda a, y: torch.logsumexp(2 * (y - a), -1) + softplus(a).sum(-1),
        lambda a, y: cvxpy.log_sum_exp(2 * (y - a)) + cvxpy.sum(cvxpy.logistic(a)),
    ),
    "softplus": (
        lambda a, y: (5 * softplus(4 * (y - a)) + 4 * softplus(4 * (a - y))).sum(-1),
        lambda a, y: cvxpy.sum(5 * cvxpy.logistic(4 * (y - a)) + 4 * cvxpy.logistic(4 * (a - y))),
    ),
}
SQUARES = FUNCTIONS["squares"][0]


def members(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, PARTS, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def made(name: str, limits: str) -> ConvexCost:
    cost = cost_function(FUNCTIONS[name][0], -2.0, 2.0, convex=True, limits=LIMITS[limits], parts=PARTS)
    assert isinstance(cost, ConvexCost)
    return cost


@pytest.mark.parametrize(
    ("name", "limits"), [*((name, "limits") for name in FUNCTIONS), ("squares", "bounds"), ("squares", "equations")]
)
def test_against_clarabel(name: str, limits: str) -> None:
    samples = members(1, MEMBERS)
    solution = solve_action(made(name, limits), samples)
    a = cvxpy.Variable(PARTS)
    rows = [a >= -2, a <= 2]
    if LIMITS[limits] is not None:
        rows.append(RAMPS.numpy() @ a <= ALLOWED.numpy())
    if limits == "equations":
        rows.append(a[0] - 2 * a[1] + a[2] == 0.1)
    paid = sum(FUNCTIONS[name][1](a, y) for y in samples[0].numpy()) / MEMBERS
    least = cvxpy.Problem(cvxpy.Minimize(paid), rows).solve(solver="CLARABEL")
    assert float(solution.expected_cost) == pytest.approx(least, rel=1e-7)
    torch.testing.assert_close(solution.action[0], torch.from_numpy(a.value), rtol=0.0, atol=1e-4)
    assert bool(solution.certified)
    assert solution.gap is not None
    assert float(solution.gap) < 1e-8
    assert bool(solution.curvature > 0)


@pytest.mark.parametrize("limits", LIMITS)
def test_gradient_against_differences(limits: str) -> None:
    samples, direction, step = members(2, MEMBERS).requires_grad_(), members(2, MEMBERS, seed=1), 1e-5
    moves = torch.tensor([0.0, step, -step], dtype=torch.float64)[:, None, None, None] * direction
    action, ahead, behind = optimal_action(made("softplus", limits), samples + moves)
    for part, moved in enumerate(((ahead - behind) / (2 * step)).unbind(-1)):
        (gradient,) = torch.autograd.grad(action[:, part].sum(), samples, retain_graph=True)
        torch.testing.assert_close((gradient * direction).sum((-2, -1)), moved, rtol=1e-4, atol=1e-5)


def test_the_gap_is_that_of_frank_and_wolfe_or_above() -> None:
    """At an action that is not the best one, too; the linear program by SciPy."""
    samples = members(1, MEMBERS)
    for steps, tight in ((3, False), (40, True)):
        solution = solve_action(made("softplus", "limits"), samples, BarrierNewton(iterations=steps))
        leaf = solution.action.clone().requires_grad_()
        (slope,) = torch.autograd.grad(SOFT(leaf, samples.movedim(-2, 0)).mean(0).sum(), leaf)
        linear = linprog(slope[0].numpy(), RAMPS.numpy(), ALLOWED.numpy(), bounds=[(-2, 2)] * PARTS)
        exact = float((slope * solution.action).sum()) - linear.fun
        assert solution.gap is not None
        assert float(solution.gap) >= exact - 1e-10
        assert bool(solution.certified) == tight
        assert (exact < 1e-8) == tight


SOFT = FUNCTIONS["softplus"][0]


def test_equations_may_repeat_each_other() -> None:
    none, budget = (torch.zeros(0, 3), torch.zeros(0)), torch.tensor([[1.0, 1.0, 1.0]])
    repeated = torch.cat([budget, 2 * budget, 0 * budget]), torch.tensor([9.0, 18.0, 0.0])
    samples = 3 + torch.randn(4, 20, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    once, often = (
        solve_action(cost_function(lambda a, y: ((a - y) ** 2).sum(-1), 0.0, 9.0, True, limits=limits), samples)
        for limits in ((*none, budget, torch.tensor([9.0])), (*none, *repeated))
    )
    assert once.certified.all()
    assert often.certified.all()
    torch.testing.assert_close(often.action, once.action)


def test_weights_are_members_that_come_more_often() -> None:
    samples, counts = members(1, 4), torch.tensor([1, 3, 2, 1])
    cost = made("softplus", "limits")
    weighted = optimal_action(cost, samples, weights=counts.double())
    torch.testing.assert_close(weighted, optimal_action(cost, samples.repeat_interleave(counts, -2)))


def test_a_known_outcome_is_met() -> None:
    """Where the least cost is zero, the gap is judged by how much the cost varies."""
    cost = cost_function(lambda a, y: ((a - y) ** 2).sum(-1), -5.0, 5.0, convex=True, parts=3)
    solution = solve_action(cost, members(4, 1))
    torch.testing.assert_close(solution.action, members(4, 1)[:, 0], rtol=0.0, atol=1e-7)
    assert bool(solution.certified.all())
    assert bool(solution.interior.all())


@pytest.mark.parametrize(
    "function",
    [
        lambda a, y: (a[..., 0] - y[..., 0]) ** 2 - (a[..., 1:] ** 2).sum(-1),
        lambda a, y: torch.log(a - y).sum(-1),
        lambda a, y: (3 * torch.relu(y - a) + torch.relu(a - y)).sum(-1),
    ],
    ids=["saddle", "NaN", "kinks"],
)
def test_what_is_not_convex_and_smooth_has_no_certificate_and_no_gradient(
    function: Callable[[Tensor, Tensor], Tensor],
) -> None:
    cost, solver = cost_function(function, -2.0, 2.0, convex=True, parts=PARTS), BarrierNewton(iterations=12)
    samples = members(1, MEMBERS).requires_grad_()
    assert not bool(solve_action(cost, samples.detach(), solver, thorough=False).certified.any())
    (gradient,) = torch.autograd.grad(optimal_action(cost, samples, solver).sum(), samples)
    assert torch.equal(gradient, torch.zeros_like(gradient))


def two_wells(action: Tensor, outcome: Tensor) -> Tensor:
    return ((action**2 - 1) ** 2 + 0.3 * action + 0.1 * (action - outcome) ** 2).sum(-1)


def test_without_the_word_nothing_is_certified() -> None:
    samples = 0.1 * members(2, MEMBERS)
    cost = cost_function(two_wells, -2.0, 3.0, limits=LIMITS["equations"], parts=PARTS)
    assert isinstance(cost, ConvexCost)
    solution = solve_action(cost, samples)
    assert solution.gap is not None
    assert bool(solution.gap.isnan().all())
    assert not bool(solution.certified.any())
    refuses(CostError, "convex=True", solve_action, replace(cost, convex=True), samples)


def test_without_the_word_a_minimum_has_its_gradient() -> None:
    samples = (0.1 * members(2, MEMBERS)).requires_grad_()
    cost = cost_function(two_wells, -2.0, 3.0, parts=PARTS)
    solution = solve_action(cost, samples.detach())
    assert bool(solution.converged.all())
    action = optimal_action(cost, samples)
    (gradient,) = torch.autograd.grad(action[0, 0], samples)
    curvature = 12 * float(action[0, 0].detach()) ** 2 - 4 + 0.2
    torch.testing.assert_close(gradient[0, :, 0], torch.full((MEMBERS,), 0.2 / curvature / MEMBERS).double())


def test_convexity_is_looked_into_where_the_limits_allow() -> None:
    """Beyond the budget the function curves downwards, which is of no concern."""
    cost = cost_function(lambda a, y: ((a - y) ** 2).sum(-1) - torch.relu(a.sum(-1) - 1) ** 3, -2.0, 2.0, parts=PARTS)
    assert isinstance(cost, ConvexCost)
    assert bool(cost.violates_convexity(members(2, MEMBERS), None).all())
    within = replace(cost, limits=(BUDGET, torch.ones(1)))
    assert not bool(within.violates_convexity(members(2, MEMBERS), None).any())


def test_far_from_zero() -> None:
    shift = 1e4
    samples = members(2, MEMBERS) + shift
    cost = cost_function(lambda a, y: ((a - y) ** 2).sum(-1), shift - 2, shift + 2, convex=True, parts=3)
    solution = solve_action(cost, samples)
    torch.testing.assert_close(solution.action, samples.mean(-2).clamp(shift - 2, shift + 2), rtol=0.0, atol=1e-6)
    assert bool(solution.certified.all())


BUDGET = torch.ones(1, PARTS)
WRONG: list[tuple[type[Exception], str, dict[str, Any]]] = [
    (CostError, "limits", {"limits": (BUDGET, torch.tensor([-9.0]))}),  # without any room
    (CostError, "limits", {"limits": (BUDGET, torch.tensor([-6.0]))}),  # at an edge alone
    (CostError, "limits", {"limits": BUDGET, "parts": None}),
    (CostError, "limits", {"limits": (BUDGET, BUDGET[0, :1], BUDGET)}),
    (ShapeError, "limits", {"limits": (BUDGET, torch.zeros(2))}),
    (ShapeError, "limits", {"limits": (BUDGET, torch.ones(1)), "parts": 4}),
    (SettingError, "parts", {"parts": 1}),
    (CostError, "lower", {"lower": 2.0, "upper": -2.0}),
    (ShapeError, "lower", {"lower": torch.zeros(2)}),
    (CostError, "function", {"function": None}),
]


@pytest.mark.parametrize(("error", "said", "changed"), WRONG)
def test_what_makes_no_cost_is_named(error: type[Exception], said: str, changed: dict[str, Any]) -> None:
    refuses(error, said, cost_function, **{"function": SQUARES, "lower": -2.0, "upper": 2.0, "parts": 3} | changed)


def test_costs_that_do_not_fit_their_members_or_solver() -> None:
    samples = members(2, 5)
    by_part = cost_function(lambda a, y: (a - y) ** 2, -2.0, 2.0, parts=3)
    refuses(ShapeError, r"\(5, 2\)", optimal_action, by_part, samples)
    too_many = cost_function(SQUARES, -2.0, 2.0, parts=4)
    refuses(ShapeError, "4 parts and 3 outcomes", optimal_action, too_many, samples)
    refuses(CostError, r"\(2,\)", optimal_action, cost_function(SQUARES, torch.zeros(3, 1), 2.0, parts=3), samples)
    refuses(
        SettingError,
        "BarrierNewton",
        optimal_action,
        cost_function(SQUARES, 0.0, 2.0, parts=3),
        samples,
        InteriorPoint(),
    )


BOX = torch.cat([torch.eye(2), -torch.eye(2)]).double()
CENTRES = torch.tensor([[0.2, 0.3], [3.0, 0.4], [3.0, -5.0]], dtype=torch.float64)
WIDTH = torch.ones(3, 2, dtype=torch.float64)


def limits(equation: bool = False) -> LinearLimits:
    """The unit square, or the part of it where both are alike."""
    allowed = torch.tensor([1.0, 1.0, 0.0, 0.0], dtype=torch.float64).expand(3, -1)
    rows = torch.tensor([[1.0, -1.0]], dtype=torch.float64) if equation else BOX[:0]
    return LinearLimits(BOX, allowed, rows, torch.zeros(3, len(rows), dtype=torch.float64), torch.ones_like(allowed))


def squares(x: Tensor) -> Tensor:
    return (x - CENTRES).square().sum(-1)


def test_squares_are_projected() -> None:
    found = BarrierNewton()(squares, limits(), 0.5 * WIDTH, WIDTH)
    torch.testing.assert_close(found.x, CENTRES.clamp(0, 1), rtol=0.0, atol=1e-6)
    assert float(found.error.max()) < 1e-12
    pushed = 2 * (CENTRES - CENTRES.clamp(0, 1))  # what a bound pays for
    torch.testing.assert_close(found.price[:, :2] - found.price[:, 2:], pushed, rtol=0.0, atol=1e-6)


def test_a_hill_leads_to_a_corner() -> None:
    found = BarrierNewton(iterations=10)(lambda x: -squares(x), limits(), 0.5 * WIDTH, WIDTH)
    torch.testing.assert_close(found.x, found.x.round(), rtol=0.0, atol=1e-9)


def test_wrong_settings() -> None:
    refuses(SettingError, "tolerance", BarrierNewton, tolerance=0.0)
    refuses(SettingError, "iterations", BarrierNewton, iterations=0)
