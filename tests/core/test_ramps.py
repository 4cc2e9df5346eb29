"""Schedules with a ramp limit: exact ones against the interior-point method, their proof and their gradient."""

import pytest
import torch
from torch import Tensor

from stakes import InteriorPoint, ScheduleCost, optimal_action, solve_action
from stakes.argument_checks import unwatched
from stakes.programs.schedules import ramped_action
from stakes.programs.vector_cost import PartCosts

EXACT = InteriorPoint(iterations=60, tolerance=1e-11)


def days(kind: str, seed: int = 0, cases: int = 6, count: int = 7, hours: int = 6) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    values = 2 + 0.7 * torch.randn(cases, count, hours, generator=generator, dtype=torch.float64).cumsum(-1)
    return {"plain": values, "tied": values.round(), "dark": (values - 2).clamp(min=0.0)}[kind]


def expected(cost: ScheduleCost, action: Tensor, samples: Tensor, weights: Tensor | None) -> Tensor:
    paid = cost(action, samples.movedim(-2, 0))
    return paid.mean(0) if weights is None else (weights.mT * paid).sum(0) / weights.sum(-1)


COSTS = {
    "straight": ScheduleCost(4.0, 1.0, ramp=0.4),
    "curved": ScheduleCost(4.0, 1.0, 0.6, 0.4, upper=3.0),
    "partly curved": ScheduleCost(9.0, 0.5, torch.tensor([0.0, 1.0, 0.0, 2.0, 0.0, 0.0]), 1.0, lower=-9.0),
    "own prices": ScheduleCost(torch.linspace(1, 9, 6), torch.ones(6, 1), 0.1, torch.linspace(0.1, 1, 6)[:, None]),
}


@pytest.mark.parametrize("kind", ["plain", "tied", "dark"])
@pytest.mark.parametrize("name", COSTS)
def test_nothing_costs_less_than_the_exact_action(name: str, kind: str) -> None:
    cost, samples = COSTS[name], days(kind)
    weights = days("plain", seed=1)[..., 0].abs() if kind == "dark" else None
    solution = solve_action(cost, samples, weights=weights)
    assert bool(solution.certified.all())
    assert solution.gap is not None
    assert float(solution.gap.max()) < 1e-9
    with unwatched():
        blind = solve_action(cost, samples, weights=weights)
    assert bool(blind.certified.all())
    torch.testing.assert_close(blind.expected_cost, solution.expected_cost, rtol=1e-12, atol=1e-12)
    assert float(solution.residual.max()) < 1e-11
    solved = cost.program(6).solve(samples, weights, EXACT).action
    saved = expected(cost, solution.action, samples, weights) - expected(cost, solved, samples, weights)
    assert float(saved.max()) < 1e-9
    ramp = cost.ramp if isinstance(cost.ramp, Tensor) else torch.tensor(cost.ramp)
    assert bool((solution.action.diff(dim=-1).abs() <= ramp + 1e-9).all())


@pytest.mark.parametrize("blind", [False, True])
@pytest.mark.parametrize("name", ["straight", "curved", "partly curved"])
def test_gradient(name: str, blind: bool) -> None:
    samples = days("plain", seed=2, cases=2).requires_grad_()

    def action(members: Tensor) -> Tensor:
        if not blind:
            return optimal_action(COSTS[name], members)
        with unwatched():
            return optimal_action(COSTS[name], members)

    assert torch.autograd.gradcheck(action, (samples,), eps=1e-7, atol=1e-6, rtol=1e-4, fast_mode=True)


@pytest.mark.parametrize("hours", [1, 2, 3])
def test_short_days(hours: int) -> None:
    samples, cost = days("plain", hours=hours), ScheduleCost(4.0, 1.0, 0.5, ramp=0.1)
    solution = solve_action(cost, samples)
    assert bool(solution.certified.all())
    solved = cost.program(hours).solve(samples, None, EXACT).action
    torch.testing.assert_close(solution.action, solved, rtol=0.0, atol=1e-6)


def test_the_proof_fails_elsewhere() -> None:
    samples, cost = days("plain"), COSTS["straight"]
    costs = PartCosts.of(cost, samples, None)
    ramp = torch.full((6, 1), 0.4, dtype=torch.float64)
    exact = ramped_action(costs, costs.best().action, ramp)
    assert float(exact.residual.max()) < 1e-11
    wrong = ramped_action(costs, costs.best().action - 0.5, ramp)  # what it takes for the free action is not
    assert not bool((wrong.residual <= 1e-3).any())


def test_bounds_that_no_ramp_joins_are_flagged() -> None:
    lower, upper = torch.tensor([3.0, 0.0, 0.0]), torch.tensor([4.0, 1.0, 1.0])
    impossible = ScheduleCost(4.0, 1.0, ramp=0.4, lower=lower, upper=upper)
    samples = days("plain", hours=3).requires_grad_()
    solution = solve_action(impossible, samples)
    assert not bool(solution.certified.any())
    assert not bool(torch.autograd.grad(optimal_action(impossible, samples).sum(), samples)[0].any())


def test_a_case_without_a_number_does_not_spoil_others() -> None:
    samples = days("plain")
    spoilt = torch.cat([samples[:1] * torch.nan, samples[1:]])
    solution = solve_action(COSTS["curved"], spoilt, check=False)
    assert solution.certified.tolist() == [False] + [True] * 5
    torch.testing.assert_close(solution.action[1:], solve_action(COSTS["curved"], samples[1:]).action)


def test_large_and_small_units() -> None:
    samples, unit = days("plain"), 1e9
    plain = optimal_action(ScheduleCost(4.0, 1.0, 0.6, 0.4), samples)
    large = solve_action(ScheduleCost(4e-6, 1e-6, 0.6e-6 / unit, 0.4 * unit), unit * samples)
    assert bool(large.certified.all())
    torch.testing.assert_close(large.action / unit, plain, rtol=1e-9, atol=1e-9)


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
