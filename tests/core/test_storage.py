"""Batteries: commitments they repair, schedules against prices, and the recursion of their recourse."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from core.random_costs import random_decision
from refusals import refuses
from torch import Tensor

import stakes
from stakes import ArbitrageCost, InteriorPoint, StorageCost, optimal_action, solve_action
from stakes.errors import CostError
from stakes.programs.recourse import MemberBlocks, Recourse
from stakes.programs.storage import BatteryRecourse

STORAGE = StorageCost(price=1.0, short=3.0, long=0.1, power=0.8, energy=1.5, efficiency=0.9, start=0.3)
EXACT = InteriorPoint(iterations=30, tolerance=1e-12)


def members(*shape: int, seed: int = 0) -> Tensor:
    return (2 + torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)).clamp(min=0.0)


def test_a_battery_that_knows_the_day_never_pays_more() -> None:
    action, made = members(40, 6, seed=1), members(40, 6, seed=2)
    knowing, causal = STORAGE(action, made), STORAGE.causal_cost(action, made)
    assert bool((knowing <= causal + 1e-7).all())
    assert bool((knowing < causal - 1e-3).any())


def test_numbers_are_not_rounded_to_single_precision() -> None:
    # sums in the thousands, of which a difference of 0.1 is left: eight digits of a price would not do
    cost = StorageCost(price=1.0, short=1.3, long=0.3, power=1e-3, energy=1e-3, efficiency=1.0)
    spilled = cost(torch.zeros(2, dtype=torch.float64), torch.tensor([4000.0, 4000.0], dtype=torch.float64))
    torch.testing.assert_close(spilled - 2400.0, torch.tensor(-0.3e-3, dtype=torch.float64), rtol=0.0, atol=1e-6)
    assert StorageCost(price=0.3, short=0.3 + 1e-12, long=0.0, power=1.0, energy=1.0).short > 0.3


def test_a_causal_battery_by_hand() -> None:
    cost = StorageCost(price=0.0, short=3.0, long=0.5, power=1.0, energy=2.0, efficiency=0.5)
    action, made = torch.ones(1, 3), torch.tensor([[3.0, 1.0, 0.0]])
    # 2 are left, of which 1 is charged, as 0.5, and 1 spilled; then 1 is missing, and 0.5 of it are there
    assert cost.causal_cost(action, made).tolist() == [pytest.approx(0.5 + 3 * 0.5)]


def test_a_causal_battery_whose_room_shrinks_lets_go_of_what_no_longer_fits() -> None:
    cost = StorageCost(price=1.0, short=3.0, long=0.5, power=5.0, energy=[3.0, 1.0], efficiency=1.0)
    action, made = torch.tensor([0.0, 4.0]), torch.tensor([3.0, 0.0])
    assert cost.causal_cost(action, made).item() == pytest.approx(-4 + 3 * 1)  # all 3 are there for the second hour
    assert cost.causal_cost(torch.zeros(2), made).item() == pytest.approx(0.5 * 2)
    weak = StorageCost(price=1.0, short=3.0, long=0.5, power=[3.0, 1.0], energy=[3.0, 1.0], efficiency=1.0)
    assert weak.causal_cost(torch.zeros(2), made).item() == torch.inf
    generator = torch.Generator().manual_seed(0)
    energy = 0.5 + torch.rand(200, 6, generator=generator, dtype=torch.float64)
    moving = StorageCost(price=1.0, short=3.0, long=0.1, power=1.0, energy=energy, efficiency=0.8)
    action, made = members(200, 6, seed=1), members(200, 6, seed=2)
    assert bool((moving(action, made) <= moving.causal_cost(action, made) + 1e-6).all())


def test_gradient_of_commitments() -> None:
    """With a price of its own for every t: with one price for all, a day has many best commitments."""
    samples = members(1, 3, 3).requires_grad_()
    cost = replace(STORAGE, price=torch.tensor([1.0, 1.3, 0.8]))
    assert torch.autograd.gradcheck(
        lambda each: optimal_action(cost, each, EXACT), (samples,), eps=1e-4, atol=1e-5, rtol=1e-4, fast_mode=True
    )


def test_what_a_plan_against_prices_costs() -> None:
    cost = ArbitrageCost(power=2.0, energy=2.0, efficiency=1.0, quadratic=0.5)
    paid = cost(torch.tensor([2.0, 0.0, 0.0, 1.0]), torch.tensor([3.0, 4.0]))  # 2 charged at 3, and 1 discharged at 4
    assert float(paid) == 2 * 3.0 - 1 * 4.0 + 0.25 * (2**2 + 1**2)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"short": 1.0}, "short"),
        ({"long": -1.0}, "long"),
        ({"power": 0.0}, "power"),
        ({"energy": -1.0}, "energy"),
        ({"efficiency": 1.2}, "efficiency"),
        ({"efficiency": torch.ones(2)}, "efficiency"),
        ({"start": 9.0}, "start"),
        ({"start": "full"}, "start"),
        ({"efficiency": None}, "efficiency"),
        ({"start": [0.5, 0.0]}, "start"),
    ],
)
def test_wrong_batteries(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(CostError, match=said):
        StorageCost(**{"price": 1.0, "short": 3.0, "long": 0.1, "power": 1.0, "energy": 1.0} | wrong)


def test_a_battery_without_losses_that_often_rests_is_solved() -> None:
    """Charge and discharge are both zero at many prices alike, and so are the prices of these limits."""
    cost = ArbitrageCost(power=1.0, energy=0.98, efficiency=1.0, quadratic=0.1)
    noise = torch.randn(8, 6, 19, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    solution = solve_action(cost, noise.cumsum(-1).round())
    assert bool(solution.certified.all())


def test_wear_is_one_number() -> None:
    refuses(CostError, "quadratic", ArbitrageCost, power=1.0, energy=1.0, quadratic=[1.0, 2.0])
    assert ArbitrageCost(1.0, 1.0, quadratic=[0.1])(torch.ones(6), torch.ones(3)).shape == ()  # type: ignore[arg-type]
    assert ArbitrageCost(1.0, 2.0, efficiency=np.float32(0.5)).efficiency == 0.5  # type: ignore[arg-type]


def test_a_battery_that_holds_more_than_it_may_later_on_gets_rid_of_it() -> None:
    cost = StorageCost(1.0, 3.0, 0.0, power=1.0, energy=[2.0, 1.0, 0.5], efficiency=1.0, start=1.0)
    solution = solve_action(cost, torch.zeros(1, 4, 3, dtype=torch.float64))
    assert bool(solution.certified.all())
    torch.testing.assert_close(solution.action.sum(-1), torch.ones(1, dtype=torch.float64), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("quadratic", [0.0, 0.5])
def test_a_plan_stands_on_its_bounds_and_breaks_no_limit(quadratic: float) -> None:
    """No part is 1.16e-13 where it is meant to rest, nor 0.999999999 where it is meant to be full."""
    cost = ArbitrageCost(power=1.0, energy=2.0, efficiency=0.9, quadratic=quadratic)
    prices = 60 + 20 * torch.randn(200, 20, 24, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    solution = solve_action(cost, prices)
    assert bool(solution.certified.all())
    aside = torch.minimum(solution.action.abs(), (solution.action - 1.0).abs())
    assert (solution.action == 0).double().mean() > 0.4
    assert not ((aside > 1e-14) & (aside < 1e-9)).any()
    assert cost.program(24, prices.device).slack(solution.action, prices).min() >= -1e-14


COST = stakes.StorageCost(price=1.0, short=3.0, long=0.2, power=0.1, energy=0.25, efficiency=0.9, start=0.05)


def spread_out(*shape: int, seed: int, decades: float) -> Tensor:
    normal = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.exp(decades * normal)


def days(cases: int, members: int, hours: int) -> Tensor:
    steps = torch.randn(cases, members, hours, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return (0.4 + 0.05 * steps.cumsum(-1)).clamp(0, 1)


@pytest.mark.parametrize("hours", [1, 2, 7])
@pytest.mark.parametrize("curved", [0.0, 0.3])
def test_blocks_are_those_of_the_matrices(hours: int, curved: float) -> None:
    recourse = COST.program(hours).recourse
    assert isinstance(recourse, BatteryRecourse)
    recourse = replace(recourse, Q=recourse.Q + curved)
    curvature = spread_out(2, 1, 1, seed=1, decades=0.5)
    z, v = spread_out(2, 3, 3 * hours, seed=2, decades=2.0), spread_out(2, 3, 5 * hours, seed=3, decades=2.0)
    blocks = recourse.blocks(curvature, z, v)
    whole = MemberBlocks(Recourse(recourse.Q, recourse.W, recourse.T), curvature, z, v)
    rows, weights = torch.randn(2, 3, 5 * hours, dtype=torch.float64), spread_out(2, 3, seed=4, decades=0.5)
    for ours, theirs in (
        (blocks.solve(rows), whole.solve(rows)),
        (blocks.theta(rows[..., : 3 * hours]), whole.theta(rows[..., : 3 * hours])),
        (blocks.on_actions(weights), whole.on_actions(weights)),
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-9 * float(theirs.abs().max()))


def test_prices_as_unequal_as_at_a_solution_are_found_to_the_last_digits() -> None:
    """A row that is met to 1e-12 beside others that are loose by 1e12, as where the battery is empty or full."""
    recourse = COST.program(6).recourse
    signs = torch.randint(0, 2, (4, 5, 48), generator=torch.Generator().manual_seed(5)).double()
    ratios = 10.0 ** (24 * signs - 12)
    z, v = ratios.split([18, 30], -1)
    blocks = recourse.blocks(torch.ones(4, 1, 1, dtype=torch.float64), z, v)
    rows = torch.randn(4, 5, 30, generator=torch.Generator().manual_seed(6), dtype=torch.float64) * v.clamp(max=1.0)
    prices = blocks.solve(rows)
    left = v * prices + recourse.reached(blocks.theta(recourse.priced(prices))) - rows
    size = v * prices.abs() + (blocks._theta * recourse.priced(prices).abs()) @ recourse.W.abs().mT + rows.abs()
    assert (left.abs() / size.amax(-1, keepdim=True)).max() < 1e-9


def test_actions_and_their_gradients_are_those_of_the_whole_matrices() -> None:
    program = COST.program(6)
    whole = stakes.ScenarioProgram(**vars(program))
    assert type(whole.recourse) is Recourse
    members = days(4, 5, 6)
    direction = torch.randn(4, 5, 6, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    actions, slopes = [], []
    for each in (program, whole):
        moved = members.clone().requires_grad_()
        solved = each.solve(moved, solver=InteriorPoint(), gradient=True)
        assert bool(solved.solution.solved.all())
        (slope,) = torch.autograd.grad((solved.action**2).sum(), moved)
        actions.append(solved)
        slopes.append((slope * direction).sum((-2, -1)))
    torch.testing.assert_close(actions[0].solution.objective, actions[1].solution.objective, rtol=1e-8, atol=1e-9)
    torch.testing.assert_close(actions[0].action, actions[1].action, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(slopes[0], slopes[1], rtol=1e-3, atol=1e-3)


def test_no_search_stalls_where_prices_change_over_the_day() -> None:
    price = torch.tensor([1.0, 1.0, 1.5, 1.5, 0.7, 0.7, 0.7, 1.0])
    cost = stakes.StorageCost(price=price, short=3 * price, long=0.0, power=0.1, energy=0.3, efficiency=0.9)
    solved = cost.program(8).solve(days(12, 10, 8)).solution
    assert bool(solved.solved.all())
    assert solved.iterations <= 20
    assert solved.residual.max() < 1e-8


def test_a_case_that_rounding_keeps_from_the_tolerance_is_left_alone() -> None:
    hours = torch.arange(24, dtype=torch.float64)
    cost = stakes.StorageCost(1 + 0.5 * torch.sin(hours / 3), short=4.0, long=0.1, power=1.0, energy=3.0)
    steps = torch.randn(4, 50, 24, generator=torch.Generator().manual_seed(0), dtype=torch.float64).cumsum(-1)
    members = (3 + torch.sin(hours / 4) + steps / 6).clamp(min=0.0)
    never = InteriorPoint(tolerance=1e-14)
    solved, exact = (cost.program(24).solve(members, solver=solver).solution for solver in (never, InteriorPoint()))
    assert solved.iterations < 30
    assert bool(solved.solved.all())
    torch.testing.assert_close(solved.objective, exact.objective, rtol=1e-8, atol=0.0)


@pytest.mark.parametrize("seed", [1, 14])
def test_where_rounding_breaks_the_recursion_down_the_matrices_solve(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for _ in range(5):
        decision = random_decision(generator, "storage", 4)
    solution = stakes.solve_action(decision.cost, decision.samples, weights=decision.weights)
    assert bool(solution.certified.all())
    assert bool(torch.isfinite(solution.expected_cost).all())
