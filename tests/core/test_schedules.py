"""Schedules and allocations: closed forms against programs and cvxpy, limits, wrong parameters."""

from typing import Any

import cvxpy
import pytest
import torch
from torch import Tensor

from stakes import AllocationCost, InteriorPoint, ScheduleCost, optimal_action, solve_action
from stakes.errors import CostError, ShapeError

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
    free = cost.free_action(samples, weights).action
    solved = cost.program(4).solve(samples, weights, EXACT, gradient=True).action
    torch.testing.assert_close(free, solved, rtol=0.0, atol=1e-8)
    ours, theirs = (torch.autograd.grad(each.sum(), samples)[0] for each in (free, solved))
    torch.testing.assert_close(ours, theirs, rtol=0.0, atol=1e-6)


@pytest.mark.parametrize(("short", "long", "expected"), [(0.0, 1.0, 0.25), (1.0, 0.0, None)])
def test_what_costs_nothing_on_one_side(short: float, long: float, expected: float | None) -> None:
    samples = members(1, 9, 3)
    action = optimal_action(ScheduleCost(short, long, lower=0.25), samples)
    assert torch.equal(action, torch.full((1, 3), expected) if expected else samples.amax(-2))


def test_ramps_against_cvxpy() -> None:
    samples, (short, long, quadratic, ramp) = members(2, 7, 5), (5.0, 1.0, 0.4, 0.2)
    cost = ScheduleCost(short, long, quadratic, ramp)
    solution = solve_action(cost, samples)
    for case, of_case in enumerate(samples.numpy()):
        a = cvxpy.Variable(5, nonneg=True)
        off = cvxpy.reshape(a, (1, 5), order="C") - of_case
        paid = (
            short * cvxpy.sum(cvxpy.neg(off))
            + long * cvxpy.sum(cvxpy.pos(off))
            + quadratic / 2 * cvxpy.sum_squares(off)
        )
        least = cvxpy.Problem(cvxpy.Minimize(paid / 7), [cvxpy.abs(cvxpy.diff(a)) <= ramp]).solve(solver="CLARABEL")
        assert float(solution.expected_cost[case]) == pytest.approx(least, rel=1e-7)
    assert bool(solution.certified.all())
    assert not bool(solution.interior.any())
    assert solution.gap is not None
    assert float(solution.gap.max()) < 1e-7
    assert solution.curvature.tolist() == pytest.approx([quadratic] * 2)


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


def test_gradient_where_a_ramp_binds() -> None:
    samples = members(1, 4, 4).requires_grad_()
    cost = ScheduleCost(4.0, 1.0, quadratic=1.0, ramp=0.3)
    assert torch.autograd.gradcheck(
        lambda each: optimal_action(cost, each, EXACT), (samples,), eps=1e-4, atol=1e-6, rtol=1e-4, fast_mode=True
    )


def test_a_budget_that_binds_is_spent_where_the_next_unit_helps_most() -> None:
    samples = members(4, 50, 3, seed=3).clamp(min=0.1)
    short = torch.tensor([1.0, 2.0, 4.0])
    cost = AllocationCost(short, 0.1, budget=4.0)
    action = optimal_action(cost, samples)
    torch.testing.assert_close(action.sum(-1), torch.full((4,), 4.0, dtype=torch.float64), rtol=0.0, atol=1e-6)
    paid = expected_cost(cost, action, samples)
    for giver in range(3):
        for taker in range(3):
            moved = action.clone()
            moved[:, giver] -= 1e-3
            moved[:, taker] += 1e-3
            allowed = moved[:, giver] >= 0
            assert bool((expected_cost(cost, moved, samples) >= paid - 1e-7)[allowed].all())


def test_every_case_may_have_parameters_of_its_own() -> None:
    samples = members(3, 6, 4)
    short, ramp = torch.tensor([[1.0], [5.0], [9.0]]), torch.tensor([[0.1], [0.5], [0.3]])
    together = optimal_action(ScheduleCost(short, 1.0, 0.5, ramp), samples)
    for case in range(3):
        alone = optimal_action(ScheduleCost(float(short[case]), 1.0, 0.5, float(ramp[case])), samples[case])
        torch.testing.assert_close(together[case], alone, rtol=0.0, atol=1e-6)


def test_single_precision_stays_single() -> None:
    samples = members(2, 6, 4).float()
    action = optimal_action(ScheduleCost(4.0, 1.0, ramp=0.3), samples)
    assert action.dtype == torch.float32
    torch.testing.assert_close(action.double(), optimal_action(ScheduleCost(4.0, 1.0, ramp=0.3), samples.double()))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"short": -1.0}, "short must not be negative"),
        ({"short": 0.0, "long": 0.0}, "nothing would be at stake"),
        ({"quadratic": -1.0}, "quadratic must not be negative"),
        ({"ramp": 0.0}, "ramp"),
        ({"upper": -1.0}, "lower must not lie above upper"),
        ({"lower": [1.0, 1.0, 3.0], "upper": 2.0}, "lower must not lie above upper, got 3 and 2 in part 3"),
        ({"short": float("nan")}, "short"),
    ],
)
def test_wrong_parameters(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(CostError, match=said):
        ScheduleCost(**{"short": 1.0, "long": 1.0} | wrong)


def test_parameters_of_another_length() -> None:
    with pytest.raises(ShapeError, match=r"^short must be one number, or one for each of 4 outcomes, got 3$"):
        optimal_action(ScheduleCost(torch.ones(3), 1.0, ramp=0.1), members(2, 6, 4))


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
