"""A step against the linear equations it has to solve."""

from dataclasses import replace

import pytest
import torch
from core.random_programs import random_programs
from torch import Tensor

from stakes.programs.interior_point import (
    Iterate,
    Products,
    ScenarioData,
    StepSystem,
    gap_of,
    limited,
    residuals_of,
    scaled,
    stepped,
)


def some_iterate(data: ScenarioData) -> Iterate:
    """Positive slacks and prices, drawn at random."""
    generator = torch.Generator().manual_seed(1)

    def positive(like: Tensor) -> Tensor:
        return torch.rand(like.shape, generator=generator, dtype=torch.float64) + 0.2

    z = torch.zeros(*data.h.shape[:2], data.recourse.parts)
    parts = Iterate(data.p, data.d, data.d, data.e, z, data.h, data.h, z)
    x = Iterate(*map(positive, parts))
    return x._replace(price=limited(data, x.price))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["solvable", "unlimited"])
def test_a_step_solves_its_equations(seed: int, kind: str) -> None:
    data, _ = scaled(random_programs(torch.Generator().manual_seed(seed), kind))
    x = some_iterate(data)
    residuals, products = residuals_of(data, x), Products(x.s * x.price, x.v * x.mu, x.z * x.zeta)
    step = StepSystem(data, x).step(residuals, products)
    linear = replace(data, p=0 * data.p, d=torch.where(torch.isfinite(data.d), 0.0, torch.inf), e=0 * data.e)
    moved = residuals_of(replace(linear, q=0 * data.q, h=0 * data.h), step)
    for left, expected in zip(moved, residuals, strict=True):
        torch.testing.assert_close(left, -expected, rtol=0.0, atol=1e-9)
    torch.testing.assert_close(x.s * step.price + x.price * step.s, -products.s, rtol=0.0, atol=1e-9)
    torch.testing.assert_close(x.v * step.mu + x.mu * step.v, -products.v, rtol=0.0, atol=1e-9)
    torch.testing.assert_close(x.z * step.zeta + x.zeta * step.z, -products.z, rtol=0.0, atol=1e-9)


def test_slacks_and_prices_stay_positive_and_the_gap_falls() -> None:
    data, _ = scaled(random_programs(torch.Generator().manual_seed(0), "solvable"))
    x = some_iterate(data)
    before = gap_of(data, x)
    for _ in range(5):
        x = stepped(data, x, residuals_of(data, x))
        assert all(bool((each > 0).all()) for each in (x.s, x.price, x.z, x.v, x.mu, x.zeta))
    assert bool((gap_of(data, x) < 0.1 * before).all())
