"""CVaR of programs: the row that charges the tail, answers against Clarabel, and gradients against differences."""

from collections.abc import Callable
from typing import Any

import cvxpy
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from refusals import refuses
from torch import Tensor

from stakes import (
    ActionSolution,
    AllocationCost,
    ArbitrageCost,
    CVaRCost,
    InteriorPoint,
    Program,
    Quantity,
    ScenarioProgram,
    ScheduleCost,
    StorageCost,
    optimal_action,
    solve_action,
)
from stakes.actions.cvar import CVaRProgram
from stakes.errors import CostError

EXACT = InteriorPoint(iterations=30, tolerance=1e-12)
PARTS, MEMBERS = 4, 11
PRICES = (5.0, 4.0, 3.0, 2.0)
Paid = Callable[[Any, NDArray[np.float64]], tuple[Any, list[Any]]]


def members(*shape: int, seed: int = 0) -> Tensor:
    return (2 + torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)).abs()


def prices(*shape: int, seed: int = 0) -> Tensor:
    """That rise over the day, so that a battery earns."""
    return members(*shape, seed=seed) + torch.tensor([0.0, 1.0, 4.0, 6.0], dtype=torch.float64)


def imbalance(quadratic: float, limits: Callable[[Any], list[Any]]) -> Paid:
    def paid(a: Any, y: NDArray[np.float64]) -> tuple[Any, list[Any]]:
        off = cvxpy.reshape(a, (1, PARTS), order="C") - y
        cost = cvxpy.neg(off) @ np.array(PRICES) + cvxpy.sum(cvxpy.pos(off) + quadratic / 2 * cvxpy.square(off), axis=1)
        return cost, [a >= 0, *limits(a)]

    return paid


def ramps(a: Any) -> list[Any]:
    return [cvxpy.abs(cvxpy.diff(a)) <= 0.3]


def battery(charged: Any, discharged: Any) -> list[Any]:
    held = cvxpy.cumsum(0.9 * charged - discharged, axis=len(charged.shape) - 1)
    return [charged <= 1, discharged <= 1, held >= 0, held <= 2]


def arbitrage(a: Any, y: NDArray[np.float64]) -> tuple[Any, list[Any]]:
    limits = [a >= 0, *battery(a[:PARTS], a[PARTS:])]
    return y @ (a[:PARTS] - a[PARTS:]) + 0.05 * cvxpy.sum_squares(a), limits


def storage(a: Any, y: NDArray[np.float64]) -> tuple[Any, list[Any]]:
    charged, discharged, bought, spilled = (cvxpy.Variable(y.shape, nonneg=True) for _ in range(4))
    met = y + discharged - charged + bought - spilled == cvxpy.reshape(a, (1, PARTS), order="C") + 0 * bought
    return -EARNED.numpy() @ a + cvxpy.sum(7 * bought + 0.1 * spilled, axis=1), [
        a >= 0,
        met,
        *battery(charged, discharged),
    ]


def mended(a: Any, y: NDArray[np.float64]) -> tuple[Any, list[Any]]:
    bought, urgent, spilled = (cvxpy.Variable(y.shape, nonneg=True) for _ in range(3))
    met = cvxpy.reshape(a, (1, PARTS), order="C") + bought + urgent - spilled == y
    return cvxpy.sum(a + 0.1 * cvxpy.square(a)) + cvxpy.sum(7 * bought + 4 * urgent + 0.3 * spilled, axis=1), [
        a >= 0,
        met,
        urgent <= 0.5,
    ]


SHORT, EARNED = torch.tensor(PRICES), torch.tensor([1.0, 1.3, 0.8, 1.1], dtype=torch.float64)
PROBLEMS: dict[str, tuple[Any, Any, Paid]] = {
    "schedule": (ScheduleCost(SHORT, 1.0, ramp=0.3), members, imbalance(0.0, ramps)),
    "curved": (ScheduleCost(SHORT, 1.0, 0.7, 0.3), members, imbalance(0.7, ramps)),
    "allocation": (AllocationCost(SHORT, 1.0, 6.0), members, imbalance(0.0, lambda a: [cvxpy.sum(a) <= 6])),
    "arbitrage": (ArbitrageCost(1.0, 2.0, 0.9, 0.1), prices, arbitrage),
    "storage": (StorageCost(EARNED, 7.0, 0.1, 1.0, 2.0), members, storage),
    "recourse in groups": (
        Program(
            decide={"plan": Quantity(cost=1, square=0.1)},
            recourse={"bought": Quantity(cost=7), "urgent": Quantity(cost=4, upper=0.5), "spilled": Quantity(cost=0.3)},
            recourse_constraints={"balance": "plan + bought + urgent - spilled = outcome"},
        ),
        members,
        mended,
    ),
}


@pytest.mark.parametrize(
    ("name", "level", "mix"),
    [*((name, 0.5, 1.0) for name in PROBLEMS), ("curved", 0.45, 0.4), ("arbitrage", 0.45, 0.4)],
)
def test_against_clarabel(name: str, level: float, mix: float) -> None:
    cost, draw, paid = PROBLEMS[name]
    samples = draw(1, MEMBERS, PARTS)
    solution = solve_action(CVaRCost(cost, level, mix), samples)
    a, t = cvxpy.Variable(solution.action.shape[-1] - 1), cvxpy.Variable()
    costs, limits = paid(a, samples[0].numpy())
    tail = t + cvxpy.sum(cvxpy.pos(costs - t)) / MEMBERS / (1 - level)
    charge = mix * tail + (1 - mix) * cvxpy.sum(costs) / MEMBERS
    least = cvxpy.Problem(cvxpy.Minimize(charge), limits).solve(solver="CLARABEL")
    assert float(solution.expected_cost) == pytest.approx(least, rel=1e-7)
    assert bool(solution.certified)
    assert solution.gap is not None
    assert float(solution.gap) < 1e-6


@pytest.mark.parametrize(
    ("name", "count", "seed"),
    [
        ("schedule", 11, 1),
        ("curved", 11, 1),
        ("arbitrage", 11, 1),
        ("storage", 11, 1),
        ("curved", 20, 2),
        ("recourse in groups", 11, 1),
    ],
)
def test_gradient_against_differences(name: str, count: int, seed: int) -> None:
    """Of 20 members a whole number lies below the threshold, which is then free within an interval."""
    cost, draw, _ = PROBLEMS[name]
    averse, step = CVaRCost(cost, 0.45, 0.6), 1e-5
    samples, direction = draw(3, count, PARTS, seed=seed), members(3, count, PARTS, seed=2) - 2
    moves = torch.tensor([0.0, step, -step], dtype=torch.float64)[:, None, None, None] * direction
    samples.requires_grad_()
    action, ahead, behind = optimal_action(averse, samples + moves, EXACT)
    for part, moved in enumerate(((ahead - behind) / (2 * step)).unbind(-1)):
        (gradient,) = torch.autograd.grad(action[:, part].sum(), samples, retain_graph=True)
        torch.testing.assert_close((gradient * direction).sum((-2, -1)), moved, rtol=1e-4, atol=1e-4)


@pytest.fixture(scope="module")
def priced_by_the_outcome() -> ScenarioProgram:
    """Two parts, with a recourse and an own cost whose prices depend on the outcome too."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    return ScenarioProgram(
        T=torch.eye(2),
        W=torch.cat([torch.eye(2, dtype=torch.float64), 0.3 * normal(2, 2)], 1),
        h_y=torch.eye(2),
        q=torch.full((4,), 3.0),
        q_y=0.3 * normal(4, 2),
        P=0.1 * torch.eye(2),
        p=torch.ones(2),
        p_y=0.2 * normal(2, 2),
        lower=torch.zeros(2),
    )


def test_prices_that_depend_on_the_outcome(priced_by_the_outcome: ScenarioProgram) -> None:
    program, samples = priced_by_the_outcome, members(1, 7, 2)
    widened = CVaRProgram(program, 0.4, 0.5)
    nothing = torch.zeros(1, 7, dtype=torch.float64)
    action = widened.solve(samples, nothing).action
    own, t = action[..., :-1], action[..., -1]
    costs = program.own_cost(own, samples.movedim(-2, 0)) + program.recourse_cost(own, samples.movedim(-2, 0))
    charge = 0.5 * (t + torch.relu(costs - t).mean(0) / 0.6) + 0.5 * costs.mean(0)
    y, a, threshold = samples[0].numpy(), cvxpy.Variable(2, nonneg=True), cvxpy.Variable()
    z = cvxpy.Variable((7, 4), nonneg=True)
    assert program.q_y is not None
    assert program.p_y is not None
    paid = cvxpy.sum(a) + 0.05 * cvxpy.sum_squares(a) + y @ program.p_y.T.numpy() @ a
    paid = paid + cvxpy.sum(cvxpy.multiply(3.0 + y @ program.q_y.T.numpy(), z), axis=1)
    reached = z @ program.W.T.numpy() + cvxpy.reshape(a, (1, 2), order="C") >= y
    tail = threshold + cvxpy.sum(cvxpy.pos(paid - threshold)) / 7 / 0.6
    least = cvxpy.Problem(cvxpy.Minimize(0.5 * tail + 0.5 * cvxpy.sum(paid) / 7), [reached]).solve(solver="CLARABEL")
    assert float(charge) == pytest.approx(least, rel=1e-7)


def test_gradient_where_prices_depend_on_the_outcome(priced_by_the_outcome: ScenarioProgram) -> None:
    samples, direction, step = members(2, 7, 2).requires_grad_(), members(2, 7, 2, seed=3) - 2, 1e-5
    widened, nothing = CVaRProgram(priced_by_the_outcome, 0.4, 0.5), torch.zeros(3, 2, 7, dtype=torch.float64)
    moves = torch.tensor([0.0, step, -step], dtype=torch.float64)[:, None, None, None] * direction
    action, ahead, behind = widened.solve(samples + moves, nothing, solver=EXACT, gradient=True).action
    for part, moved in enumerate(((ahead - behind) / (2 * step)).unbind(-1)):
        (gradient,) = torch.autograd.grad(action[:, part].sum(), samples, retain_graph=True)
        torch.testing.assert_close((gradient * direction).sum((-2, -1)), moved, rtol=1e-4, atol=1e-4)


def test_a_curved_recourse_is_refused() -> None:
    program = ScenarioProgram(torch.eye(2), torch.ones(2), torch.eye(2), torch.ones(2), Q=torch.ones(2))
    refuses(CostError, "linear recourse", CVaRProgram(program, 0.5, 1.0).solve, members(1, 4, 2), torch.zeros(1, 4))


@pytest.mark.parametrize("name", ["schedule", "curved", "arbitrage", "storage"])
@pytest.mark.parametrize("fill", [1e9, 1e30])
def test_a_member_without_weight_changes_nothing(name: str, fill: float) -> None:
    cost, draw, _ = PROBLEMS[name]
    samples, weights = draw(2, MEMBERS, PARTS), torch.ones(MEMBERS, dtype=torch.float64)
    weights[0] = 0.0
    averse = CVaRCost(cost, 0.5)
    expected = solve_action(averse, samples, weights=weights)
    samples[:, 0] = fill
    solution = solve_action(averse, samples, weights=weights)
    assert bool(solution.certified.all())
    torch.testing.assert_close(solution.expected_cost, expected.expected_cost, rtol=1e-9, atol=0.0)


@pytest.mark.parametrize("level", [5e4, 1e6])
def test_squares_far_from_zero_cost_no_digits(level: float) -> None:
    samples = 100 * torch.randn(4, 50, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def solved(moved: float, averse: bool) -> ActionSolution:
        cost = ScheduleCost(50.0, 10.0, 1.0, ramp=20.0, lower=moved - 1000)
        if averse:
            return solve_action(CVaRCost(cost, 0.8), samples + moved)
        return solve_action(cost, samples + moved, InteriorPoint())

    for averse in (True, False):
        near, far = solved(0.0, averse), solved(level, averse)
        assert bool(far.certified.all())
        torch.testing.assert_close(far.expected_cost, near.expected_cost, rtol=1e-8, atol=0.0)
        torch.testing.assert_close(far.action[:, :6] - level, near.action[:, :6], rtol=0.0, atol=1e-4)
