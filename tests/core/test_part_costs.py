"""The cost of every part alone: its best action against a search, its slopes against differences, its gradient."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from stakes import AllocationCost, ArbitrageCost, Cost, ScheduleCost, StorageCost, optimal_action
from stakes.argument_checks import unwatched
from stakes.errors import CostError, ShapeError
from stakes.programs.vector_cost import AT_BOUND, BETWEEN, PartAction, PartCosts, parameter_parts, redone, take_lists


def members(*shape: int, seed: int = 0) -> Tensor:
    return 2 + torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def cost_of_parts(cost: ScheduleCost, action: Tensor, samples: Tensor, weights: Tensor) -> Tensor:
    off = action[:, None] - samples  # (B, M, A)
    paid = cost.short * torch.relu(-off) + cost.long * torch.relu(off) + 0.5 * cost.quadratic * off**2
    return (weights[..., None] * paid).sum(1) / weights.sum(-1)[:, None]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("quadratic", [0.0, 0.8])
def test_no_other_action_of_a_part_costs_less(quadratic: float, weighted: bool) -> None:
    samples, cost = members(3, 7, 2), ScheduleCost(4.0, 1.0, quadratic, upper=3.0)
    weights = members(3, 7, seed=1).abs() if weighted else None
    best = PartCosts.of(cost, samples, weights).best().action
    shares = torch.ones(3, 7, dtype=torch.float64) if weights is None else weights
    least = cost_of_parts(cost, best, samples, shares)
    for other in torch.linspace(0.0, 3.0, 61, dtype=torch.float64):
        assert bool((cost_of_parts(cost, other.expand(3, 2), samples, shares) >= least - 1e-12).all())


def test_slopes_are_those_beside_an_action() -> None:
    samples, cost = members(2, 5, 3), ScheduleCost(4.0, 1.0, 0.8)
    costs, shares = PartCosts.of(cost, samples, None), torch.ones(2, 5, dtype=torch.float64)
    at, step = costs.members[..., 2], 1e-6
    slopes = costs.slopes(at, torch.full((2, 1), 1e-12, dtype=torch.float64))
    middle, below, above = (cost_of_parts(cost, at + change, samples, shares) for change in (0.0, -step, step))
    torch.testing.assert_close(slopes.least, (middle - below) / step, rtol=0.0, atol=1e-5)
    torch.testing.assert_close(slopes.most, (above - middle) / step, rtol=0.0, atol=1e-5)
    torch.testing.assert_close(slopes.most - slopes.least, torch.ones_like(at), rtol=0.0, atol=1e-9)  # 5 / 5 members


def test_parts_move_with_what_holds_their_leader() -> None:
    samples = members(1, 5, 4).requires_grad_()
    costs = PartCosts.of(ScheduleCost(4.0, 1.0, torch.tensor([1.0, 3.0, 1.0, 1.0])), samples, None)
    held_by = torch.tensor([[BETWEEN, BETWEEN, 3 * 5 + 4, AT_BOUND]])
    found = PartAction(torch.zeros(1, 4, dtype=torch.float64), held_by, torch.tensor([[1, 1, 2, 3]]))
    action = costs.with_gradient(found, samples, None)
    assert torch.equal(action.detach(), found.action)
    of_part = [torch.autograd.grad(action[0, part], samples, retain_graph=True)[0][0] for part in range(4)]
    together = torch.tensor([0.25, 0.75, 0.0, 0.0]).double().expand(5, 4) / 5  # by their curvatures
    torch.testing.assert_close(of_part[0], together)
    torch.testing.assert_close(of_part[1], together)
    highest = torch.zeros(5, 4, dtype=torch.float64)
    highest[int(samples[0, :, 3].argmax()), 3] = 1.0
    assert torch.equal(of_part[2], highest)
    assert not bool(of_part[3].any())


def test_only_what_breaks_a_limit_is_solved_and_all_is_where_nobody_can_look() -> None:
    allowed, alone = torch.tensor([True, False, True]), (torch.zeros(3, 2), torch.zeros(3))
    asked: list[object] = []

    def solve(places: Tensor | None) -> tuple[Tensor, ...]:
        asked.append(None if places is None else places.tolist())
        count = 3 if places is None else len(places)
        return torch.ones(count, 2), torch.ones(count)

    seen = redone(allowed, alone, solve)
    with unwatched():  # as in training
        unseen = redone(allowed, alone, solve)
    blind = torch.func.vmap(lambda each: redone(each, alone, solve))(allowed[None])
    assert asked == [[1], [1], None]
    assert all(torch.equal(one, other) for one, other in zip(seen, unseen, strict=True))
    assert all(torch.equal(one, other[0]) for one, other in zip(seen, blind, strict=True))
    assert seen[1].tolist() == [0.0, 1.0, 0.0]
    assert redone(torch.tensor([True]), (torch.zeros(1),), solve)[0].tolist() == [0.0]


def test_a_parameter_of_another_length() -> None:
    with pytest.raises(ShapeError, match="short must be one number, or one for each of 4 outcomes, got 3"):
        parameter_parts(ScheduleCost(torch.ones(3), 1.0), "short", 4, None)


COSTS: dict[str, Callable[[Any], Cost]] = {
    "schedule": lambda each: ScheduleCost(short=each, long=1.0, ramp=0.5),
    "allocation": lambda each: AllocationCost(short=each, long=1.0, budget=4.0),
    "storage": lambda each: StorageCost(price=each, short=9.0, long=0.0, power=1.0, energy=1.0),
    "arbitrage": lambda each: ArbitrageCost(power=each, energy=2.0, quadratic=1.0),
}


@pytest.mark.parametrize("make", COSTS.values(), ids=COSTS)
def test_lists_and_arrays_are_taken_as_tensors(make: Callable[[Any], Cost]) -> None:
    samples, numbers = members(1, 4, 3), [1.0, 2.0, 3.0]
    expected = optimal_action(make(torch.tensor(numbers, dtype=torch.float64)), samples)
    assert torch.equal(optimal_action(make(numbers), samples), expected)
    assert torch.equal(optimal_action(make(np.array(numbers)), samples), expected)


def test_lists_of_anything_else_are_refused() -> None:
    with pytest.raises(CostError, match=r"short must be numbers, one for each outcome, got \['much'\]"):
        ScheduleCost(short=["much"], long=1.0)  # type: ignore[arg-type]


def test_lists_of_unequal_lengths_are_refused() -> None:
    for make in (
        lambda: ScheduleCost(short=[1.0, 2.0], long=[1.0, 2.0, 3.0]),
        lambda: ScheduleCost(1.0, 1.0, lower=[0.0, 1.0], upper=[4.0, 5.0, 6.0]),
        lambda: StorageCost([1.0, 2.0], [3.0, 4.0, 5.0], 0.0, 1.0, 1.0),
    ):
        with pytest.raises(CostError, match=r"equally many, got: .* has 2, .* has 3"):
            make()


def test_numbers_of_numpy_are_numbers() -> None:
    assert float(ScheduleCost(np.float32(2), np.int64(1)).short) == 2.0


def test_what_is_a_number_already_stays_so() -> None:
    cost = ScheduleCost(1.0, 2.0)
    take_lists(cost)
    assert (cost.short, cost.upper) == (1.0, None)
