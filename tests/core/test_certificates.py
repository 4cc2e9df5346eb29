"""A certificate is a proof: it is given for convex costs alone, and no other action is ever better."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from nonconvex_costs import audit
from refusals import refuses
from torch import Tensor

from stakes import (
    Cost,
    ImbalanceCost,
    NewsvendorCost,
    NewtonBisection,
    ProtectionCost,
    ShortfallCost,
    cost_function,
    optimal_action,
    solve_action,
)
from stakes.costs.member_weights import slope_of
from stakes.errors import CostError

DOUBLE = torch.float64
Function = Callable[[Tensor, Tensor], Tensor]
CONVEX: dict[str, Function] = {
    "quadratic": lambda a, y: (a - y) ** 2,
    "pinball": lambda a, y: torch.maximum(3 * (y - a), a - y),
    "shortfall": lambda a, y: -a + 5 * torch.relu(a - y) ** 2,
    "linear": lambda a, y: a * (0.3 - y),
    "exponential": lambda a, y: torch.exp(a - y) - a,
}
every_dtype = pytest.mark.parametrize("dtype", [torch.float32, DOUBLE])


def members(rows: int = 40, dtype: torch.dtype = DOUBLE) -> Tensor:
    return torch.rand(rows, 21, 1, generator=torch.Generator().manual_seed(0), dtype=DOUBLE).to(dtype)


def saturating(a: Tensor, y: Tensor) -> Tensor:
    return 1 - torch.exp(-((a - y) ** 2) / 8)


def two_clusters(rows: int = 200) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    first = torch.rand(rows, 20, 1, generator=generator) < 0.4
    centre = 100 * torch.rand(2, rows, 1, 1, generator=generator)
    return torch.where(first, *centre) + torch.randn(rows, 20, 1, generator=generator)


def test_random_costs_that_are_not_convex() -> None:
    result = audit(40, seed=1)
    assert result.certified_and_wrong == 0
    assert len(result.missed) <= 0.01 * result.problems, result.missed


def test_a_saturating_penalty_is_not_certified_and_its_best_minimum_found() -> None:
    samples = two_clusters(60)
    solution = solve_action(cost_function(saturating, 0.0, 100.0), samples)
    assert not solution.certified.any()
    grid = torch.linspace(0, 100, 20_001)
    best = torch.stack(
        [saturating(part[:, None], samples[:, None, :, 0]).mean(-1).amin(-1) for part in grid.split(999)]
    )
    assert (solution.expected_cost <= best.amin(0) + 1e-4).all()


@every_dtype
@pytest.mark.parametrize("name", CONVEX)
@pytest.mark.parametrize("solver", [None, NewtonBisection()])
def test_the_word_of_the_author_certifies(name: str, dtype: torch.dtype, solver: NewtonBisection | None) -> None:
    stated, silent = (cost_function(CONVEX[name], 0.0, 1.0, convex) for convex in (True, False))
    solution = solve_action(stated, members(dtype=dtype), solver)
    assert solution.certified.all()
    other = solve_action(silent, members(dtype=dtype), solver)
    assert not other.certified.any()
    torch.testing.assert_close(other.expected_cost, solution.expected_cost, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["quadratic", "shortfall", "exponential"])
def test_without_a_certificate_there_is_a_gradient_where_the_search_converged(name: str) -> None:
    samples = members().requires_grad_()
    stated, silent = (cost_function(CONVEX[name], 0.0, 1.0, convex) for convex in (True, False))
    solution = solve_action(silent, samples)
    assert solution.converged.all()
    first, second = (torch.autograd.grad(optimal_action(cost, samples).sum(), samples)[0] for cost in (stated, silent))
    assert torch.equal(first, second)
    assert first.any()


def test_a_false_word_is_an_error_that_names_the_place() -> None:
    cost = cost_function(saturating, 0.0, 100.0, convex=True)
    refuses(CostError, "convex=True", solve_action, cost, two_clusters())
    assert optimal_action(cost, two_clusters()).shape == (200, 1)  # training does not look


def test_convex_must_be_a_truth() -> None:
    refuses(CostError, "convex", cost_function, saturating, 0.0, 100.0, convex=1)


def powers_of_ten(least: float, most: float, *shape: int, generator: torch.Generator) -> Tensor:
    return 10 ** (least + (most - least) * torch.rand(shape, generator=generator, dtype=DOUBLE))


@dataclass(frozen=True)
class Extremes:
    """A named cost whose prices and weights of members are many orders of magnitude apart, (..., M) for each case."""

    make: Callable[[Tensor, Tensor], Cost]  # of two prices (...)
    unit: float = 1.0  # outcomes lie from -unit to unit

    def certified_and_wrong(self, dtype: torch.dtype, rounds: int, rows: int = 500) -> tuple[int, int]:
        """How many actions are certified, and how many of these are beyond the tolerance and cost too much.

        What is best is found by halving the bounds, in double precision.
        """
        generator = torch.Generator().manual_seed(0)
        certified = wrong = 0
        for number in range(rounds):
            size = 1 + number % 11
            members = (2 * torch.rand(rows, size, 1, generator=generator, dtype=DOUBLE) - 1) * self.unit
            members = ((4 * members).round() / 4 if number % 3 == 0 else members).to(dtype)
            weights = powers_of_ten(-12, 0, rows, size, generator=generator).to(dtype) if number % 4 else None
            prices = [powers_of_ten(-6, 9, rows, generator=generator).to(dtype) for _ in range(2)]
            solution = solve_action(self.make(*prices), members, weights=weights)
            cost = self.make(*(price.double() for price in prices))
            shares = 1.0 if weights is None else weights.double().T
            outcomes = members.double().movedim(-2, 0)

            def expected(a: Tensor) -> Tensor:
                return (shares * cost(a[..., None], outcomes)).sum(0)  # noqa: B023

            low, high = (torch.full((rows,), float(bound), dtype=DOUBLE) for bound in (cost.lower, cost.upper))
            action, reach = solution.action[..., 0].double(), 1e-5 * (high - low)
            for _ in range(70):
                middle = (low + high) / 2
                falls = slope_of(expected, middle) < 0
                low, high = torch.where(falls, middle, low), torch.where(falls, high, middle)
            best = torch.minimum(expected(low), expected(high))
            beyond = torch.maximum(low - action, action - high) > 1.001 * reach
            costly = expected(action) - best > 1e-6 * expected(action).abs()
            certified += int(solution.certified.sum())
            wrong += int((solution.certified & beyond & costly).sum())
        return certified, wrong


EXTREMES = {
    "newsvendor": Extremes(lambda first, second: NewsvendorCost(first, second, -1.1, 1.1)),
    "imbalance": Extremes(lambda first, second: ImbalanceCost(first, second, -1.1, 1.1)),
    "shortfall": Extremes(lambda first, _: ShortfallCost(first)),
    "protection": Extremes(lambda first, _: ProtectionCost(0.0, first), unit=3.0),
}


@every_dtype
@pytest.mark.parametrize("name", EXTREMES)
def test_prices_and_weights_far_apart_leave_the_certificate_true(name: str, dtype: torch.dtype) -> None:
    certified, wrong = EXTREMES[name].certified_and_wrong(dtype, rounds=8)
    assert wrong == 0
    assert certified >= 0.999 * 8 * 500


def test_a_member_that_hardly_weighs_decides_where_its_price_is_high() -> None:
    """Up to the first member's 1 the slope is -100, which single precision takes for the rounding of 1e9."""
    cost = NewsvendorCost(1e9, 1.0, 0.0, 10.0)
    samples, weights = torch.tensor([[1.0], [5.0]]), torch.tensor([1.0, 1e-7])
    solution = solve_action(cost, samples, weights=weights)
    assert (solution.action.item(), solution.certified.item()) == (5.0, True)
    assert solution.expected_cost.item() == pytest.approx(4.0, rel=1e-5)
    assert optimal_action(cost, samples, weights=weights, thorough=True).item() == 5.0


KINKED: dict[str, Function] = {
    "pinball": lambda a, y: 3 * torch.relu(y - a) + 4 * torch.relu(a - y),
    "two squares": lambda a, y: 3 * torch.relu(y - a) ** 2 + 4 * torch.relu(a - y) ** 2,
}


@every_dtype
@pytest.mark.parametrize("name", KINKED)
@pytest.mark.parametrize("bound", [1.0, 1e3, 1e6, 1e9, 1e12])
@pytest.mark.parametrize("outcome", [0.168, 0.0, -3e-5])
def test_bounds_far_beyond_the_outcomes_do_not_loosen_the_certificate(
    name: str, dtype: torch.dtype, bound: float, outcome: float
) -> None:
    cost, samples = cost_function(KINKED[name], -bound, bound, convex=True), torch.full((3, 1), outcome, dtype=dtype)
    solution = solve_action(cost, samples)
    assert solution.certified.item()
    assert solution.converged.item()
    assert solution.residual.item() <= 1e-5 * max(abs(outcome), 1e-30)
    assert solution.action.item() == pytest.approx(samples[0].item(), rel=2e-5, abs=1e-30)
    assert optimal_action(cost, samples, thorough=True).item() == solution.action.item()


@dataclass(frozen=True)
class Formula:
    """A cost with a formula of its own, which may be wrong."""

    function: Function
    action: float
    convex: bool = False
    lower: float = 0.0
    upper: float = 1.0

    def __call__(self, action: Tensor, outcome: Tensor) -> Tensor:
        return self.function(action[..., 0], outcome[..., 0])

    def best_action(self, samples: Tensor) -> Tensor:
        return torch.full_like(samples[..., 0, :], self.action)


@pytest.mark.parametrize("convex", [False, True])
@pytest.mark.parametrize(
    "function",
    [
        lambda a, y: -((a - 0.5) ** 2) + 0 * y,
        lambda a, y: -((a - 0.5) ** 4) + 0 * y,
        lambda a, y: (a - 0.5) ** 3 + 0 * y,
        lambda a, y: -(a - 0.5).abs() + 0 * y,
    ],
)
def test_a_formula_for_a_maximum_is_refused(function: Function, convex: bool) -> None:
    """The slope is zero there, exactly, or changes its sign the wrong way."""
    solution = solve_action(Formula(function, 0.5, convex), members())
    assert not solution.certified.any()
    assert not solution.converged.any()


def test_a_formula_converges_at_the_best_minimum_alone_and_is_certified_for_declared_convexity() -> None:
    lesser = Formula(lambda a, y: ((a - 0.2) * (a - 0.8)) ** 2 + 0.02 * a + 0 * y, 0.7693)
    assert not solve_action(lesser, members()).converged.any()
    for convex in (False, True):
        solution = solve_action(Formula(lambda a, y: (a - 0.4) ** 2 + 0 * y, 0.4, convex), members())
        assert solution.converged.all()
        assert bool(solution.certified.all()) == bool(solution.certified.any()) == convex


@pytest.mark.parametrize("solve", [solve_action, optimal_action])
def test_a_class_is_no_cost(solve: Callable[..., object]) -> None:
    refuses(CostError, "class ShortfallCost", solve, ShortfallCost, members())


def test_a_convex_cost_that_is_infinitely_steep_at_a_bound() -> None:
    cost = cost_function(lambda a, y: a * y - 0.2 * torch.sqrt(a), 0.0, 1.0, convex=True)
    solution = solve_action(cost, members())
    assert solution.certified.all()
    torch.testing.assert_close(solution.action, (0.1 / members().mean(-2)) ** 2)
