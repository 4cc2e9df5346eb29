"""The search for the least conditional value at risk of a scalar action, against every action of a fine grid."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from stakes import Cost, ImbalanceCost, NewsvendorCost, NewtonBisection, ShortfallCost, cost_function
from stakes.actions.cvar import TailSearch, tail_weights

COSTS: dict[str, Callable[[], Cost]] = {
    "kinks": lambda: NewsvendorCost(3.0, 1.0, -3.0, 8.0),
    "crossings": lambda: ImbalanceCost(10.0, 1.0, -3.0, 8.0),
    "curved": lambda: cost_function(lambda a, y: torch.exp(a - y) - a, -3.0, 8.0, convex=True),
}
every_cost = pytest.mark.parametrize("cost", [make() for make in COSTS.values()], ids=COSTS)


def members(*shape: int, seed: int = 0) -> Tensor:
    return 2 + torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_weights_of_the_tail() -> None:
    costs = torch.tensor([5.0, 1.0, 4.0, 2.0, 3.0], dtype=torch.float64)[:, None]
    fifth = torch.full_like(costs, 0.2)
    weights, place = tail_weights(costs, fifth, 0.5)
    assert weights[:, 0].tolist() == pytest.approx([0.4, 0.0, 0.4, 0.0, 0.2])  # half of the third counts
    assert place.tolist() == [[4]]
    weights, place = tail_weights(costs, fifth, 0.6)  # a whole number of members below
    assert weights[:, 0].tolist() == pytest.approx([0.5, 0.0, 0.5, 0.0, 0.0])
    assert place.tolist() == [[4]]
    unlike = torch.tensor([0.1, 0.2, 0.3, 0.2, 0.2], dtype=torch.float64)[:, None]
    assert tail_weights(costs, unlike, 0.8).weights[:, 0].tolist() == pytest.approx([0.5, 0.0, 0.5, 0.0, 0.0])


@every_cost
@pytest.mark.parametrize(("level", "mix"), [(0.8, 1.0), (0.73, 0.4)])
def test_no_action_of_a_grid_is_better(cost: Cost, level: float, mix: float) -> None:
    samples = members(3, 21, 1)
    found = TailSearch(cost, level, mix)(samples, None)
    grid = torch.linspace(-3, 8, 2001, dtype=torch.float64)[:, None, None].expand(-1, 3, 1)  # (G, 3, 1)
    actions = torch.cat([found.action[None, :, :1], grid])
    costs = cost(actions, samples.movedim(-2, 0)[:, None])  # (M, G + 1, 3)
    tail = tail_weights(costs, torch.full_like(costs, 1 / 21), level).weights
    values = (mix * tail * costs).sum(0) + (1 - mix) * costs.mean(0)
    assert bool((values[0] <= values[1:].amin(0) + 1e-12).all())
    assert bool(found.solved.all())
    assert bool((values[0] - found.gap <= values[1:].amin(0)).all())
    threshold = found.action[:, 1]
    below, up_to = ((costs[:, 0] <= threshold + sign * 1e-6).double().mean(0) for sign in (-1, 1))  # members may tie
    assert bool(((below <= level) & (level <= up_to)).all())


@every_cost
@pytest.mark.parametrize(("level", "mix"), [(0.8, 1.0), (0.73, 0.4)])
def test_gradient_against_differences(cost: Cost, level: float, mix: float) -> None:
    samples, direction = members(3, 21, 1).requires_grad_(), members(3, 21, 1, seed=1) - 2
    exact, step = TailSearch(cost, level, mix, NewtonBisection(iterations=60)), 1e-6
    action = TailSearch(cost, level, mix)(samples, None, gradient=True).action
    ahead, behind = (exact(samples.detach() + s * direction, None).action for s in (step, -step))
    for part in range(2):
        (gradient,) = torch.autograd.grad(action[:, part].sum(), samples, retain_graph=True)
        moved = (gradient * direction).sum((-2, -1))
        torch.testing.assert_close(moved, ((ahead - behind) / (2 * step))[:, part], rtol=1e-5, atol=1e-6)


def test_at_a_bound_only_the_threshold_moves() -> None:
    samples = torch.full((1, 20, 1), 0.95, dtype=torch.float64, requires_grad=True)
    found = TailSearch(ShortfallCost(0.1), 0.5, 1.0)(samples, None, gradient=True)
    assert found.action[0, 0] == 1.0
    assert not bool(found.interior)
    assert bool(found.solved)
    parts = [torch.autograd.grad(part, samples, retain_graph=True)[0].abs().sum() for part in found.action[0]]
    assert parts[0] == 0.0
    assert parts[1] > 0.0


def test_a_coarse_search_says_how_far_it_may_be() -> None:
    samples = members(3, 21, 1)
    found = TailSearch(COSTS["crossings"](), 0.8, 1.0, NewtonBisection(iterations=1))(samples, None)
    assert not bool(found.solved.any())
    assert bool((found.gap > 1e-3).all())
