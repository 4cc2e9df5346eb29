"""The units of a case: what they are, and that they leave the programs what they were."""

import torch
from core.random_programs import random_programs

from stakes.programs.interior_point import beside, largest, scaled, times


def test_scaled_numbers_are_of_the_order_of_one() -> None:
    data = random_programs(torch.Generator().manual_seed(3), "solvable")
    even, units = scaled(data)
    assert float(largest(even.h).max()) <= 1.0
    assert float(largest(even.q, even.p, even.P).max()) <= 1.0
    torch.testing.assert_close(even.h * beside(units.action, even.h), data.h)
    torch.testing.assert_close(even.d * beside(units.action, even.d), data.d)
    torch.testing.assert_close(even.q * beside(units.cost, even.q), data.q)
    torch.testing.assert_close(even.curvature[:, 0, 0], units.action / units.cost)


def test_some_of_the_cases() -> None:
    data = random_programs(torch.Generator().manual_seed(3), "solvable")
    part = data.rows(torch.tensor([2, 0]))
    assert torch.equal(part.h, data.h[[2, 0]])
    assert torch.equal(part.P, data.P[[2, 0]])
    assert part.C is data.C


def test_largest_of_nothing_is_zero_and_times_is_by_case() -> None:
    assert largest(torch.ones(2, 0)).tolist() == [0.0, 0.0]
    assert times(torch.eye(2).expand(3, 2, 2), torch.ones(3, 2)).shape == (3, 2)
