"""How the action of a program moves, against the programs solved again."""

from dataclasses import replace

import torch
from core.random_programs import random_programs
from torch import Tensor

from stakes import ArbitrageCost, ScenarioProgram, optimal_action
from stakes.programs.gradient import implicit_change
from stakes.programs.interior_point import InteriorPoint

EXACT = InteriorPoint(iterations=60, tolerance=1e-12)


def test_by_rows_prices_and_slope() -> None:
    generator = torch.Generator().manual_seed(0)
    data = random_programs(generator, "solvable")
    solution = EXACT.solve(data)
    assert bool(solution.solved.all())

    def normal(like: Tensor) -> Tensor:
        return torch.randn(like.shape, generator=generator, dtype=torch.float64)

    rows, prices, slope = normal(data.h), normal(data.q), normal(data.p)
    step = 1e-6
    ahead, behind = (
        EXACT.solve(replace(data, h=data.h + s * rows, q=data.q + s * prices, p=data.p + s * slope)).iterate.a
        for s in (step, -step)
    )
    moved = implicit_change(data, solution, rows, prices, slope)
    assert float(moved.abs().max()) > 0.01
    torch.testing.assert_close(moved, (ahead - behind) / (2 * step), rtol=1e-4, atol=1e-5)


def test_what_is_not_solved_stays() -> None:
    data = random_programs(torch.Generator().manual_seed(0), "solvable")
    solution = EXACT.solve(data)
    unsolved = solution._replace(solved=torch.zeros_like(solution.solved))
    assert float(implicit_change(data, unsolved, torch.ones_like(data.h), None, None).abs().max()) == 0.0


def battery_gradient(prices: list[float]) -> Tensor:
    """By the prices of hours, for a battery without losses or wear."""
    members = torch.tensor([prices], dtype=torch.float64)[None].requires_grad_()
    action = optimal_action(ArbitrageCost(power=1.0, energy=1.5, efficiency=1.0), members)
    (gradient,) = torch.autograd.grad((action * torch.arange(8.0)).sum(), members)
    return gradient


def test_no_gradient_by_prices_where_many_actions_cost_the_same() -> None:
    assert float(battery_gradient([1.0, 1.0, 2.0, 2.0]).abs().max()) == 0.0
    assert float(battery_gradient([1.0, 1.5, 3.0, 2.0]).abs().max()) < 1e-6  # a corner


def test_a_limit_whose_price_is_small_still_blocks() -> None:
    """1/2 a^2 - y a with a <= 1, for y just above 1 and just below it."""
    one = torch.ones(1, 1, dtype=torch.float64)
    program = ScenarioProgram(T=0 * one, W=one[0], h_y=0 * one, q=one[0], P=one, p_y=-one, upper=one[0])
    members = torch.tensor([1.001, 0.999], dtype=torch.float64)[:, None, None].requires_grad_()
    action = program.solve(members, gradient=True).action
    (gradient,) = torch.autograd.grad(action.sum(), members)
    torch.testing.assert_close(gradient.flatten(), torch.tensor([0.0, 1.0]).double(), rtol=0.0, atol=1e-4)
