import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import hypothesis
import pytest
import torch
from example_counts import examples
from hypothesis import strategies
from refusals import refuses
from torch import Tensor

from stakes import (
    Cost,
    ImbalanceCost,
    NewsvendorCost,
    NewtonBisection,
    ProjectedGradient,
    ProtectionCost,
    ShortfallCost,
    Solver,
    cost_function,
    optimal_action,
    solve_action,
)
from stakes.actions.scalar_solvers import Located
from stakes.errors import CostError, NonFiniteError, ShapeError, StakesError

DOUBLE = torch.float64


@dataclass(frozen=True)
class Problem:
    """A cost on [0, 1], three members 0.2, 0.3 and 0.7, and what is known of the best action."""

    cost: Callable[[Tensor, Tensor], Tensor]
    action: float
    interior: bool = True
    converged: bool = True


MEMBERS = (0.2, 0.3, 0.7)
MEAN = sum(MEMBERS) / 3
EXPONENTIAL = -math.log(sum(math.exp(-member) for member in MEMBERS) / 3)


def bisect(slope: Callable[[float], float]) -> float:
    low, high = 0.0, 1.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if slope(middle) > 0 else (middle, high)
    return low


PROBLEMS = {
    "quadratic": Problem(lambda a, y: (a - y) ** 2, MEAN),
    "quartic": Problem(lambda a, y: 20 * (a - y) ** 4, bisect(lambda a: sum((a - y) ** 3 for y in MEMBERS))),
    "log_cosh": Problem(
        lambda a, y: torch.log(torch.cosh(3 * (a - y))), bisect(lambda a: sum(math.tanh(3 * (a - y)) for y in MEMBERS))
    ),
    "exponential": Problem(lambda a, y: torch.exp(a - y) - a, EXPONENTIAL),
    "piecewise": Problem(
        lambda a, y: 3 * torch.relu(a - y) ** 2 + torch.relu(y - a) ** 2, (3 * 0.2 + 3 * 0.3 + 0.7) / 7
    ),
    "kinked": Problem(lambda a, y: (a - y).abs(), 0.3, converged=False),
    "rising": Problem(lambda a, y: a + 0 * y, 0.0, interior=False),
    "falling": Problem(lambda a, y: -a + 0 * y, 1.0, interior=False),
    "at_lower": Problem(lambda a, y: a**2 + 0 * y, 0.0, interior=False),
    "at_upper": Problem(lambda a, y: (a - 1) ** 2 + 0 * y, 1.0, interior=False),
    "concave_falling": Problem(lambda a, y: -(a**2) + 0 * y, 1.0, interior=False),
    "quadratic_below": Problem(lambda a, y: (a + y) ** 2, 0.0, interior=False),
}
SEVERAL_MINIMA = {
    "concave": Problem(lambda a, y: -((a - y) ** 2), 1.0, interior=False, converged=False),
    "double_well": Problem(
        lambda a, y: 4 * ((a - 0.15) * (a - 0.85)) ** 2 + 0.02 * a + 0 * y,
        bisect(lambda a: 8 * (a - 0.15) * (a - 0.85) * (2 * a - 1) + 0.02 if a < 0.3 else 1.0),
        converged=False,
    ),
    "double_well_far_side": Problem(
        lambda a, y: 4 * ((a - 0.15) * (a - 0.65)) ** 2 + 0.02 * a + 0 * y,
        bisect(lambda a: 8 * (a - 0.15) * (a - 0.65) * (2 * a - 0.8) + 0.02 if a < 0.3 else 1.0),
        converged=False,
    ),
}
SOLVERS: dict[str, Solver] = {"newton": NewtonBisection(), "projected": ProjectedGradient(steps=200, step_size=0.1)}
ACCURACY = {"newton": 1e-9, "projected": 1e-2}
BISECTED = 1e-6  # what bisection alone reaches, where there is no curvature to go by
every_solver = pytest.mark.parametrize("solver", SOLVERS)


def members(rows: int = 2, dtype: torch.dtype = DOUBLE) -> Tensor:
    return torch.tensor(MEMBERS, dtype=dtype)[:, None].repeat(rows, 1, 1)


def as_cost(problem: Problem) -> Cost:
    return cost_function(problem.cost, 0.0, 1.0)


@every_solver
@pytest.mark.parametrize("name", PROBLEMS)
def test_known_minimum(solver: str, name: str) -> None:
    problem = PROBLEMS[name]
    solution = solve_action(as_cost(problem), members(), SOLVERS[solver])
    assert solution.action.shape == (2, 1)
    accuracy = max(ACCURACY[solver], BISECTED if name == "kinked" else 0.0)
    assert solution.action.flatten().tolist() == pytest.approx([problem.action] * 2, abs=accuracy)
    assert solution.converged.tolist() == [problem.converged] * 2
    if problem.converged and solver == "newton":
        assert solution.interior.tolist() == [problem.interior] * 2


@every_solver
@pytest.mark.parametrize("name", SEVERAL_MINIMA)
def test_several_minima_are_flagged_and_newton_finds_the_best(solver: str, name: str) -> None:
    problem = SEVERAL_MINIMA[name]
    solution = solve_action(as_cost(problem), members(), SOLVERS[solver])
    assert not solution.converged.any()
    if solver == "newton":
        assert solution.action.flatten().tolist() == pytest.approx([problem.action] * 2, abs=1e-9)


def test_too_few_or_too_large_steps_are_flagged() -> None:
    cost = cost_function(lambda a, y: 10 * (a - y) ** 2, 0.0, 1.0)
    for step, converges in ((0.05, True), (1e-4, False), (0.2, False)):
        assert solve_action(cost, members(), ProjectedGradient(50, step)).converged.tolist() == [converges] * 2


@every_solver
@pytest.mark.parametrize(
    "flat",
    [lambda a, y: 0 * a * y, lambda a, y: 0 * y, lambda a, y: 3 + 0 * (a + y), lambda a, y: (a - 0.37) ** 4 + 0 * y],
)
def test_flat_cost_is_flagged(solver: str, flat: Callable[[Tensor, Tensor], Tensor]) -> None:
    solution = solve_action(cost_function(flat, 0.0, 1.0), members(), SOLVERS[solver])
    assert solution.action.isfinite().all()
    assert not solution.converged.any()


@every_solver
@pytest.mark.parametrize("name", [*PROBLEMS, *SEVERAL_MINIMA])
def test_gradient_is_that_of_the_theorem_or_none(solver: str, name: str) -> None:
    problem = (PROBLEMS | SEVERAL_MINIMA)[name]
    samples = members(1).requires_grad_()
    solution = solve_action(as_cost(problem), samples, SOLVERS[solver])
    (gradient,) = torch.autograd.grad(optimal_action(as_cost(problem), samples, SOLVERS[solver]).sum(), samples)
    assert gradient.isfinite().all()
    if bool(solution.interior & solution.converged):
        torch.testing.assert_close(gradient, theorem(problem.cost, solution.action, samples))
    else:
        assert torch.equal(gradient, torch.zeros_like(gradient))


def theorem(function: Callable[[Tensor, Tensor], Tensor], action: Tensor, samples: Tensor) -> Tensor:
    """-1/(M H) d^2 c / da dy, row by row, by two nested derivatives."""
    action = action.detach().requires_grad_()
    (slope,) = torch.autograd.grad(function(action, samples[..., 0]).mean(), action, create_graph=True)
    curvature, cross = torch.autograd.grad(slope.sum(), (action, samples), materialize_grads=True)
    return -cross / curvature


def test_residual_is_the_newton_step_still_to_go() -> None:
    class Lazy:
        tolerance = 1e-3

        def __call__(self, expected_cost: Any, lower: Tensor, upper: Tensor) -> Located:
            return Located(torch.full_like(lower, 0.6), torch.ones_like(lower, dtype=torch.bool), upper - lower)

    samples = members(1).requires_grad_()
    cost = as_cost(PROBLEMS["quadratic"])
    solution = solve_action(cost, samples, Lazy())
    assert solution.residual.item() == pytest.approx(0.2)
    assert not solution.converged.any()
    (gradient,) = torch.autograd.grad(optimal_action(cost, samples, Lazy()).sum(), samples)
    assert torch.equal(gradient, torch.zeros_like(gradient))


def test_infinite_curvature_at_a_bound_does_not_hold_the_action_there() -> None:
    cost = cost_function(lambda a, y: y * (1 - a) ** 2 + (1 - y) * a**1.5, 0.0, 1.0)
    samples = torch.full((1, 3, 1), 0.05, dtype=DOUBLE)
    exact = bisect(lambda a: -2 * 0.05 * (1 - a) + 1.5 * 0.95 * a**0.5)
    solution = solve_action(cost, samples)
    assert solution.action.item() == pytest.approx(exact, abs=1e-9)
    assert solution.interior.all()


def test_batch_of_different_decision_makers() -> None:
    lower, upper = torch.tensor([0.0, 0.5, 0.0], dtype=DOUBLE), torch.tensor([1.0, 1.0, 0.25], dtype=DOUBLE)
    target = torch.tensor([1.0, 1.0, 2.0], dtype=DOUBLE)
    samples = members(3).requires_grad_()
    cost = cost_function(lambda a, y: (a - target * y) ** 2, lower, upper)
    solution = solve_action(cost, samples)
    assert solution.action.flatten().tolist() == pytest.approx([0.4, 0.5, 0.25])
    assert solution.interior.tolist() == [True, False, False]
    assert solution.converged.all()
    (gradient,) = torch.autograd.grad(optimal_action(cost, samples).sum(), samples)
    expected = torch.zeros(3, 3, 1, dtype=DOUBLE)
    expected[0] = 1 / 3
    torch.testing.assert_close(gradient, expected)


@pytest.mark.parametrize("make", [lambda: ShortfallCost(5.0), lambda: as_cost(PROBLEMS["quadratic"])])
@pytest.mark.parametrize("solve", [solve_action, optimal_action])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_members_must_be_finite(make: Callable[[], Cost], solve: Callable[..., Any], bad: float) -> None:
    samples = members()
    samples[1, 2] = bad
    for check in (None, True):
        refuses(NonFiniteError, "samples", solve, make(), samples, check=check)


@pytest.mark.parametrize("solve", [solve_action, optimal_action])
def test_bad_samples_are_named(solve: Callable[..., Any]) -> None:
    shapes = [torch.zeros(3, 0, 1), torch.zeros(3, 4, 0), torch.zeros(3), torch.tensor(1.0)]
    types: list[Any] = [torch.zeros(3, 4, 1, dtype=torch.long), torch.zeros(3, 4, 1, dtype=torch.bool), [[1.0]], None]
    for samples in shapes + types:
        refuses(ShapeError, "samples", solve, ShortfallCost(5.0), samples)


@dataclass(frozen=True)
class OwnCost:
    lower: Any
    upper: Any

    def __call__(self, action: Tensor, outcome: Tensor) -> Tensor:
        return (action[..., 0] - outcome[..., 0]) ** 2


@pytest.mark.parametrize("solve", [solve_action, optimal_action])
@pytest.mark.parametrize(
    ("lower", "upper"),
    [
        (1.0, 1.0),
        (2.0, 1.0),
        (math.nan, 1.0),
        (0.0, math.nan),
        (-math.inf, 1.0),
        (0.0, math.inf),
        (torch.tensor([0.0, 1.0]), torch.tensor([1.0, 1.0])),
        (torch.tensor([0.0, 2.0]), 1.0),
        (0.0, torch.tensor([1.0, math.nan])),
    ],
)
def test_bounds_of_own_costs_are_checked(solve: Callable[..., Any], lower: Any, upper: Any) -> None:
    refuses(CostError, r"lower|upper", solve, OwnCost(lower, upper), members())


@pytest.mark.parametrize("solve", [solve_action, optimal_action])
@pytest.mark.parametrize(
    "function", [lambda a, y: (a - y).sum(), lambda a, y: (a - y)[..., None], lambda a, y: (a - y).mean(0)]
)
def test_cost_of_wrong_shape_is_named(solve: Callable[..., Any], function: Callable[..., Tensor]) -> None:
    refuses(ShapeError, r"\(3, 2\)", solve, cost_function(function, 0.0, 1.0), members())


def test_closed_form_is_used_unless_a_solver_is_named() -> None:
    class Formula(OwnCost):
        def best_action(self, samples: Tensor) -> Tensor:
            return torch.full((*samples.shape[:-2], 1), 0.123, dtype=samples.dtype)

    cost = Formula(0.0, 1.0)
    assert optimal_action(cost, members()).flatten().tolist() == pytest.approx([0.123, 0.123])
    assert optimal_action(cost, members(), NewtonBisection()).flatten().tolist() == pytest.approx([0.4, 0.4])
    assert not solve_action(cost, members()).converged.any()


numbers = strategies.one_of(
    strategies.floats(-1e6, 1e6, width=32),
    strategies.floats(-(2.0**-20), 2.0**-20, width=32),
    strategies.sampled_from([0.0, 1.0, -1.0, 0.25, 1e6, -1e6]),
)
member_lists = strategies.lists(numbers, min_size=1, max_size=12)
ratios = strategies.sampled_from([0.05, 0.5, 1.0, 3.0, 40.0])


def assert_best(cost: Cost, samples: Tensor, solver: Solver | None) -> None:
    """No action of a grid, nor any member, costs less by more than rounding; what is flagged need only be in bounds."""
    solution = solve_action(cost, samples, solver)
    lower, upper = float(cost.lower), float(cost.upper)
    assert lower <= solution.action.item() <= upper
    if solver is not None and not solution.converged:
        return
    assert solution.converged.all()
    exact = samples.double()
    grid = torch.cat([torch.linspace(lower, upper, 201, dtype=DOUBLE), exact.sum(-1).clamp(lower, upper)])
    costs = cost(grid[:, None], exact[:, None, :]).mean(0)
    reached = cost(solution.action.double(), exact).mean()
    allowance = 64 * torch.finfo(samples.dtype).eps * costs.abs().max()
    assert reached <= costs.min() + allowance


shares = strategies.lists(strategies.floats(0, 1, width=32), min_size=1, max_size=12)
PROPERTIES: dict[str, tuple[Callable[[float], Cost], Any, Solver | None]] = {
    "newsvendor": (lambda ratio: NewsvendorCost(ratio, 1.0, -1e5, 1e5), member_lists, None),
    "imbalance": (lambda ratio: ImbalanceCost(ratio, 1.0, -1e5, 1e5), member_lists, None),
    "searched imbalance": (lambda ratio: ImbalanceCost(ratio, 1.0, -1e5, 1e5), member_lists, NewtonBisection()),
    "shortfall": (lambda ratio: ShortfallCost(2.5 * ratio), shares, None),
    "protection": (lambda ratio: ProtectionCost(0.5, ratio), member_lists, None),
    "any": (
        lambda ratio: cost_function(lambda a, y: torch.sqrt(ratio + (a - y) ** 2), -1e3, 1e3),
        member_lists,
        NewtonBisection(),
    ),
}


@pytest.mark.parametrize(("make", "lists", "solver"), PROPERTIES.values(), ids=PROPERTIES)
@examples(80)
@hypothesis.given(data=strategies.data(), ratio=ratios, double=strategies.booleans())
def test_no_action_of_a_grid_and_no_member_is_better(
    make: Callable[[float], Cost], lists: Any, solver: Solver | None, data: Any, ratio: float, double: bool
) -> None:
    dtype = DOUBLE if double or solver is not None else torch.float32
    assert_best(make(ratio), torch.tensor(data.draw(lists), dtype=dtype)[:, None], solver)


QUADRATIC_SHORTFALL = cost_function(lambda a, y: -a + 5 * torch.relu(a - y) ** 2, 0.0, 1.0)


def test_a_steep_far_side_does_not_flag_a_well_curved_minimum() -> None:
    linex = cost_function(lambda a, y: torch.exp(a - y) - (a - y) - 1, 0.0, 20.0)
    samples = 5 + torch.randn(200, 20, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    solution = solve_action(linex, samples)
    assert solution.converged.all()
    truth = -torch.log(torch.exp(-samples).mean((-2, -1)))
    torch.testing.assert_close(solution.action[:, 0], truth, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", [(4, 1), (3,), (2, 4)])
def test_parameters_that_do_not_fit_the_cases_are_named(shape: tuple[int, ...]) -> None:
    refuses(CostError, "penalty", optimal_action, ShortfallCost(torch.ones(shape)), torch.rand(4, 10, 1))


@pytest.mark.parametrize(
    "call",
    [
        lambda: optimal_action(QUADRATIC_SHORTFALL, torch.rand(3, 4, 1), solver="newton"),  # type: ignore[arg-type]
        lambda: optimal_action(QUADRATIC_SHORTFALL, torch.rand(3, 4, 1), solver=NewtonBisection),  # type: ignore[arg-type]
        lambda: NewtonBisection(iterations=2.5),  # type: ignore[arg-type]
        lambda: ShortfallCost("5"),  # type: ignore[arg-type]
        lambda: ShortfallCost(None),  # type: ignore[arg-type]
        lambda: optimal_action(cost_function(lambda a, y: 3.0, 0.0, 1.0), torch.rand(3, 4, 1)),  # type: ignore[arg-type,return-value]
    ],
)
def test_things_of_the_wrong_kind_are_refused(call: Callable[[], object]) -> None:
    refuses(StakesError, "must", call)


@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE])
@pytest.mark.parametrize(("underage", "members"), [(4.0, 50), (1.0, 50), (4.0, 51), (9.0, 500)])
def test_a_flat_stretch_beside_the_order_statistic_is_certified(
    underage: float, members: int, dtype: torch.dtype
) -> None:
    """Where M tau is whole the expected cost is flat up to the next member, and its slope zero but for rounding."""
    demand = 100 + 30 * torch.randn(500, members, 1, dtype=dtype, generator=torch.Generator().manual_seed(0))
    solution = solve_action(NewsvendorCost(underage, 1.0, 0.0, 500.0), demand)
    assert solution.converged.all()


def test_an_action_beside_the_order_statistic_is_not_certified() -> None:
    class Wrong(NewsvendorCost):
        def best_action(self, samples: Tensor) -> Tensor:
            return super().best_action(samples) - 1.0

    demand = 100 + 30 * torch.randn(200, 50, 1, dtype=DOUBLE, generator=torch.Generator().manual_seed(0))
    assert not solve_action(Wrong(4.0, 1.0, 0.0, 500.0), demand).converged.any()
