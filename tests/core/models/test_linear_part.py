"""The linear part of a model: where it starts, and how fast it learns."""

import pytest
import torch
from torch import Tensor

from stakes.errors import SettingError
from stakes.models.implicit import LinearPart
from stakes.models.linear import fit_linear_start, residual_factors


def table(rows: int, outcomes: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(rows, 3, generator=generator)
    noise = torch.randn(rows, 1, generator=generator) + 0.5 * torch.randn(rows, outcomes, generator=generator)
    return x, x[:, :1] + noise


@pytest.mark.parametrize(("outcomes", "noise", "seen"), [(1, 1, 1), (5, 5, 5), (64, 64, 64), (70, 102, 32)])
def test_it_starts_at_ridge_regression_with_the_covariance_of_its_errors(outcomes: int, noise: int, seen: int) -> None:
    x, y = table(400, outcomes)
    part = LinearPart(3, outcomes, gap=3)
    assert (part.noise, part.seen) == (noise, seen)
    part.fit(x, y)
    start = fit_linear_start(x, y, gap=3)
    z = torch.randn(7, 9, noise, generator=torch.Generator().manual_seed(1))
    factors, diagonal = residual_factors(start.residuals)
    expected = (x[:7].double() @ start.weight.mT + start.bias)[:, None] + z[..., :seen].double() @ factors
    if diagonal is not None:
        expected = expected + z[..., seen:] * diagonal
    torch.testing.assert_close(part(x[:7], z), expected.float(), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("outcomes", [2, 70])
def test_before_it_is_fitted_it_is_standard_normal(outcomes: int) -> None:
    part = LinearPart(3, outcomes)
    members = part(torch.randn(1, 3), torch.randn(1, 5000, part.noise, generator=torch.Generator().manual_seed(0)))
    torch.testing.assert_close(members[0].mT.cov(), torch.eye(outcomes), atol=0.1, rtol=0)


def test_it_learns_at_a_tenth_of_the_rate_and_decays_to_its_start() -> None:
    x, y = table(50, 2)
    part = LinearPart(3, 2)
    part.fit(x, y)
    z = torch.randn(50, 4, 2)
    before = part(x, z)
    optimiser = torch.optim.AdamW(part.parameters(), 0.01, weight_decay=0.5)
    (part(x, z) - 5).square().mean().backward()
    optimiser.step()
    for name in ("weight", "bias", "factors"):
        moved = part._now(name) - part.get_buffer(name)
        torch.testing.assert_close(moved.abs(), torch.full_like(moved, 0.001), atol=1e-6, rtol=1e-3)
    optimiser.zero_grad()
    for parameter in part.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimiser.param_groups[0]["betas"] = (0.0, 0.999)
    optimiser.param_groups[0]["lr"] = 1.0
    for _ in range(30):
        optimiser.step()
    torch.testing.assert_close(part(x, z), before, atol=1e-5, rtol=1e-5)


def test_bad_settings_are_named() -> None:
    with pytest.raises(SettingError, match=r"gap must be a whole number of at least 0, got 1\.5"):
        LinearPart(1, 1, gap=1.5)
    with pytest.raises(SettingError, match="outcomes must be a whole number of at least 1"):
        LinearPart(1, 0)
