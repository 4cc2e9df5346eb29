"""Support points against their definition: least energy distance, quantiles in one dimension, weights."""

import pytest
import torch
from torch import Tensor

from stakes.models.support_points import energy_distance, support_points, support_weights


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def by_all_pairs(members: Tensor, points: Tensor, weights: Tensor, chances: Tensor) -> Tensor:
    across, among, within = (
        (one[:, None] * other[None, :] * (a[:, None] - b[None, :]).norm(dim=-1)).sum()
        for a, b, one, other in (
            (members, points, weights, chances),
            (members, members, weights, weights),
            (points, points, chances, chances),
        )
    )
    return 2 * across - among - within


def test_the_energy_distance_is_that_of_all_pairs() -> None:
    members, points = drawn(300, 3) + 1e3, drawn(20, 3, seed=1) + 1e3
    weights, chances = torch.rand(300).double(), torch.rand(20).double()
    weights, chances = weights / weights.sum(), chances / chances.sum()
    expected = by_all_pairs(members, points, weights, chances)
    torch.testing.assert_close(energy_distance(members, points, weights, chances), expected, rtol=1e-6, atol=1e-9)


def test_one_dimension_is_exact() -> None:
    members = torch.arange(100.0).flip(0)[:, None]
    expected = torch.tensor([9.5, 29.5, 49.5, 69.5, 89.5], dtype=torch.float64)
    torch.testing.assert_close(support_points(members, 5)[:, 0], expected)
    heavy = torch.ones(100)
    heavy[0] = 300.0  # member 99: three quarters of all
    assert (support_points(members, 8, heavy)[2:, 0] == 99.0).all()


@pytest.mark.parametrize("dimensions", [2, 12])
def test_far_closer_than_random_members_and_nowhere_downhill(dimensions: int) -> None:
    members = drawn(4, 600, dimensions).exp()
    points = support_points(members, 30)
    least = energy_distance(members, points)
    random = torch.stack([energy_distance(members, members[:, 30 * k : 30 * k + 30]) for k in range(10)])
    assert (least < 0.6 * random.amin(0)).all()
    for seed in range(5):
        moved = points + 0.02 * drawn(*points.shape, seed=seed)
        assert (energy_distance(members, moved) > least - 1e-6).all()
    assert (points >= members.amin(1, keepdim=True)).all()
    assert (points <= members.amax(1, keepdim=True)).all()


def test_the_same_every_time_and_case_by_case() -> None:
    members = drawn(3, 200, 4)
    together = support_points(members, 10)
    assert together.equal(support_points(members, 10))
    alone = torch.stack([support_points(each, 10) for each in members])
    assert (energy_distance(members, alone) / energy_distance(members, together) - 1).abs().max() < 0.03


def test_weights_lower_the_distance_and_keep_moments() -> None:
    members = drawn(2, 500, 3).exp()
    points = members[:, :40]
    weights = support_weights(members, points)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, dtype=torch.float64))
    assert (weights >= 0).all()
    best = energy_distance(members, points, None, weights)
    assert (best < 0.9 * energy_distance(members, points)).all()
    for seed in range(5):  # convex: no feasible step goes down
        other = torch.rand(2, 40, generator=torch.Generator().manual_seed(seed)).double()
        step = weights + 0.01 * (other / other.sum(-1, keepdim=True) - weights)
        assert (energy_distance(members, points, None, step) > best - 1e-9).all()
    kept = support_weights(members, points, None, (points.mT, members.mean(1)))
    torch.testing.assert_close((kept[..., None] * points).sum(1), members.mean(1), rtol=1e-5, atol=1e-6)
    assert (energy_distance(members, points, None, kept) >= best - 1e-9).all()


def test_weights_that_cannot_be_stay_equal() -> None:
    members = drawn(100, 2)
    impossible = (torch.ones(1, 10).double(), torch.tensor([2.0]).double())
    torch.testing.assert_close(
        support_weights(members, members[:10], None, impossible), torch.full((10,), 0.1, dtype=torch.float64)
    )


def test_members_that_are_all_alike() -> None:
    members = torch.ones(50, 3)
    points = support_points(members, 5)
    assert points.equal(torch.ones(5, 3, dtype=torch.float64))
    assert support_weights(members, points).isfinite().all()
    assert energy_distance(members, points) == 0
