"""Best actions on the log barrier: their gradient is that of their own differences, and they come to the exact ones."""

from collections.abc import Callable

import pytest
import torch
from core.random_programs import random_scenario_program
from refusals import refuses
from torch import Tensor

from stakes import (
    ArbitrageCost,
    CVaRCost,
    DecisionScore,
    ImbalanceCost,
    InteriorPoint,
    NewsvendorCost,
    ProtectionCost,
    ScenarioProgram,
    ScheduleCost,
    ShortfallCost,
    StorageCost,
    optimal_action,
)
from stakes.actions.solve import with_log_barrier
from stakes.errors import SettingError
from stakes.programs.scenario_program import central_point

SMOOTH = InteriorPoint(smoothing=0.01)
COSTS = {
    "protection": ProtectionCost(1.0, 0.5, sharpness=10.0),
    "shortfall": ShortfallCost(5.0),
    "imbalance": ImbalanceCost(3.0, 1.0, 0.0, 0.5),
}


def members(seed: int = 0) -> Tensor:
    return torch.rand(6, 9, 1, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def action_with_log_barrier(cost: ProtectionCost, samples: Tensor, height: Tensor) -> Tensor:
    """By bisection of the slope, which only rises."""
    low, high = (torch.full_like(samples[:, 0, 0], bound) for bound in (cost.lower, cost.upper))
    left, right = low.clone(), high.clone()
    for _ in range(60):
        middle = (left + right) / 2
        leaf = middle.clone().requires_grad_()
        (slope,) = torch.autograd.grad(cost(leaf[:, None], samples.movedim(-2, 0)).mean(0).sum(), leaf)
        rises = slope - height / (middle - low) + height / (high - middle) > 0
        left, right = torch.where(rises, left, middle), torch.where(rises, middle, right)
    return (left + right) / 2


@pytest.mark.parametrize("kind", COSTS)
def test_the_smoothed_gradient_is_that_of_the_barrier(kind: str) -> None:
    cost, samples = COSTS[kind], members()
    direction = members(1)
    jacobian = torch.autograd.functional.jacobian(lambda each: optimal_action(cost, each, SMOOTH)[:, 0], samples)
    slope = torch.einsum("bcmd,cmd->b", jacobian, direction)

    def expected_cost(action: Tensor) -> Tensor:
        return cost(action[..., None], samples.movedim(-2, 0)).mean(0)

    bounds = tuple(torch.full((6,), bound, dtype=torch.float64) for bound in (cost.lower, cost.upper))
    height = with_log_barrier(cost, expected_cost, bounds, 0.01).height  # type: ignore[arg-type]
    before, after = (action_with_log_barrier(cost, samples + step * direction, height) for step in (-1e-5, 1e-5))
    torch.testing.assert_close(slope, (after - before) / 2e-5, rtol=1e-3, atol=1e-6)


def test_a_bound_blocks_the_exact_gradient_and_not_the_smoothed_one() -> None:
    calm = (0.3 * members()).requires_grad_()  # a hazard is unlikely
    exact, smooth = (optimal_action(COSTS["protection"], calm, solver) for solver in (None, SMOOTH))
    assert float(exact.detach().abs().max()) == float(smooth.detach().abs().max()) == 0.0
    of_exact, of_smooth = (torch.autograd.grad(each.sum(), calm)[0] for each in (exact, smooth))
    assert float(of_exact.abs().max()) == 0.0
    assert bool((of_smooth > 0).all())


def test_a_cost_with_kinks_keeps_its_exact_gradient() -> None:
    cost, samples = NewsvendorCost(3.0, 1.0, 0.0, 1.0), members().requires_grad_()
    exact, smooth = (
        torch.autograd.grad(optimal_action(cost, samples, each).sum(), samples)[0] for each in (None, SMOOTH)
    )
    assert torch.equal(exact, smooth)


def test_in_the_decision_score_and_under_vmap() -> None:
    samples, outcome = 0.3 * members(), members(2)[:, 0]
    score = DecisionScore(COSTS["protection"], solver=SMOOTH)
    torch.testing.assert_close(score(samples, outcome), DecisionScore(COSTS["protection"])(samples, outcome))
    slope = torch.func.grad(lambda each: score(each, outcome).sum())(samples)
    mapped = torch.func.vmap(torch.func.grad(lambda each, seen: score(each, seen)))(samples, outcome)
    torch.testing.assert_close(mapped, slope, rtol=1e-4, atol=1e-7)
    assert bool((slope != 0).any())


def test_without_smoothing_it_solves_no_cost_of_one_number() -> None:
    refuses(SettingError, "solver", optimal_action, COSTS["shortfall"], members(), InteriorPoint())


MEMBERS = 2 + torch.randn(2, 4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
PROGRAMS = {
    "schedule": ScheduleCost(4.0, 1.0, ramp=0.3),
    "quadratic schedule": ScheduleCost(4.0, 1.0, quadratic=0.5, ramp=0.3, upper=2.5),
    "storage": StorageCost(1.0, 3.0, 0.1, power=0.8, energy=1.5),
    "arbitrage": ArbitrageCost(power=0.5, energy=1.2, efficiency=0.9),
}


def smooth_action(program: ScenarioProgram, samples: Tensor, smoothing: float) -> Tensor:
    return central_point(program.data(samples), smoothing).iterate.a


def difference(program: ScenarioProgram, samples: Tensor, direction: Tensor, smoothing: float) -> Tensor:
    """Of actions with a log barrier; the unit, that of the largest outcome, must not change."""
    before, after = (smooth_action(program, samples + step * direction, smoothing) for step in (-1e-5, 1e-5))
    return (after - before) / 2e-5


def slope_along(action: Callable[[Tensor], Tensor], samples: Tensor, direction: Tensor) -> Tensor:
    """How actions (B, A) move along a direction of the members, (B, A)."""
    jacobian = torch.autograd.functional.jacobian(action, samples)
    return torch.einsum("bacmd,cmd->ba", jacobian, direction)  # type: ignore[no-any-return]


def small_direction(samples: Tensor) -> Tensor:
    """A random direction of all hours but that of the largest outcomes and prices."""
    direction = torch.randn(samples.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    hours = torch.cat([samples.abs().amax((0, 1)).topk(1).indices, samples.mean(1).amax(0).topk(1).indices])
    largest = samples.abs() == samples.abs().amax((1, 2), keepdim=True)
    places = largest.any(1, keepdim=True) | torch.isin(torch.arange(samples.shape[-1]), hours)
    return torch.where(places, 0.0, direction)


@pytest.mark.parametrize("smoothing", [1e-3, 1e-1])
@pytest.mark.parametrize("kind", PROGRAMS)
def test_the_smoothed_gradient_of_a_program_is_that_of_its_barrier(kind: str, smoothing: float) -> None:
    cost, direction = PROGRAMS[kind], small_direction(MEMBERS)
    solver = InteriorPoint(smoothing=smoothing)
    slope = slope_along(lambda each: optimal_action(cost, each, solver), MEMBERS, direction)
    expected = difference(cost.program(5), MEMBERS, direction, smoothing)
    assert float(expected.abs().max()) > 1e-4
    torch.testing.assert_close(slope, expected, rtol=1e-5, atol=1e-7)


def test_of_any_program() -> None:
    program, samples = random_scenario_program(torch.Generator().manual_seed(4))
    large = torch.cat([samples, 50 * torch.ones_like(samples[:, :1])], 1)  # sets the unit
    direction = torch.randn(large.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    direction[:, -1] = 0.0
    solver = InteriorPoint(smoothing=0.01)
    slope = slope_along(lambda each: program.solve(each, None, solver, gradient=True).action, large, direction)
    torch.testing.assert_close(slope, difference(program, large, direction, 0.01), rtol=1e-4, atol=1e-7)


def test_a_low_barrier_leaves_the_exact_action() -> None:
    program = PROGRAMS["quadratic schedule"].program(5)
    exact = program.solve(MEMBERS).action
    far = [float((smooth_action(program, MEMBERS, each) - exact).abs().max()) for each in (1e-1, 1e-3, 1e-8)]
    assert far[0] > far[1] > far[2]
    assert far[2] < 1e-4


def test_a_linear_program_has_a_gradient_by_its_prices() -> None:
    members = MEMBERS.clone().requires_grad_()
    exact, smooth = (
        optimal_action(PROGRAMS["arbitrage"], members, each) for each in (None, InteriorPoint(smoothing=0.01))
    )
    assert torch.equal(exact.detach(), smooth.detach())
    of_exact, of_smooth = (torch.autograd.grad(each.square().sum(), members)[0] for each in (exact, smooth))
    assert float(of_exact.abs().max()) < 1e-4
    assert float(of_smooth.abs().max()) > 1e-2


def test_no_case_depends_on_another_and_what_has_no_inside_has_no_gradient() -> None:
    eye = torch.eye(2, dtype=torch.float64)
    upper = torch.tensor([[1.0, 1.0], [1.0, -1.0]])  # the second case has bounds that cross
    program = ScenarioProgram(T=eye, W=torch.ones(2), h_y=eye, q=2 * torch.ones(2), P=eye, lower=0 * upper, upper=upper)
    members = MEMBERS[..., :2].clone().requires_grad_()
    centre = central_point(program.data(members.detach()), 0.01)
    assert centre.reached.tolist() == [True, False]
    action = program.solve(members, None, InteriorPoint(smoothing=0.01), gradient=True).action
    (gradient,) = torch.autograd.grad(action.sum(), members)
    assert bool((gradient[0] != 0).any())
    assert bool((gradient[1] == 0).all())


def test_wrong_smoothing() -> None:
    refuses(SettingError, "smoothing", InteriorPoint, smoothing=0.0)
    with pytest.raises(SettingError, match="smoothing"):
        optimal_action(CVaRCost(PROGRAMS["storage"], 0.5), MEMBERS.repeat(1, 3, 1), InteriorPoint(smoothing=0.1))
