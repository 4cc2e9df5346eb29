"""Bounds as walls: the gradient of one number where the exact action stays at a bound."""

import pytest
import torch
from torch import Tensor

from stakes import (
    DecisionScore,
    ImbalanceCost,
    InteriorPoint,
    NewsvendorCost,
    ProtectionCost,
    ShortfallCost,
    optimal_action,
)
from stakes.actions.solve import walled
from stakes.errors import SettingError

SMOOTH = InteriorPoint(smoothing=0.01)
COSTS = {
    "protection": ProtectionCost(1.0, 0.5, sharpness=10.0),
    "shortfall": ShortfallCost(5.0),
    "imbalance": ImbalanceCost(3.0, 1.0, 0.0, 0.5),
}


def members(seed: int = 0) -> Tensor:
    return torch.rand(6, 9, 1, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def action_between_walls(cost: ProtectionCost, samples: Tensor, height: Tensor) -> Tensor:
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
def test_the_smoothed_gradient_is_that_of_the_action_between_walls(kind: str) -> None:
    cost, samples = COSTS[kind], members()
    direction = members(1)
    jacobian = torch.autograd.functional.jacobian(lambda each: optimal_action(cost, each, SMOOTH)[:, 0], samples)
    slope = torch.einsum("bcmd,cmd->b", jacobian, direction)

    def expected_cost(action: Tensor) -> Tensor:
        return cost(action[..., None], samples.movedim(-2, 0)).mean(0)

    bounds = tuple(torch.full((6,), bound, dtype=torch.float64) for bound in (cost.lower, cost.upper))
    height = walled(cost, expected_cost, bounds, 0.01).height  # type: ignore[arg-type]
    before, after = (action_between_walls(cost, samples + step * direction, height) for step in (-1e-5, 1e-5))
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
    with pytest.raises(SettingError, match="solver must be"):
        optimal_action(COSTS["shortfall"], members(), InteriorPoint())
