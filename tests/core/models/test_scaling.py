"""Means and scales: physical units outside, standardised inside."""

from typing import Any

import pytest
import torch

from stakes.errors import NonFiniteError, SettingError, ShapeError
from stakes.models.sample_model import Scaling


def fitted(values: torch.Tensor) -> Scaling:
    scaling = Scaling(values.shape[1]).to(values.dtype)
    scaling.fit(values)
    return scaling


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_standardised_values_have_mean_zero_and_deviation_one(dtype: torch.dtype) -> None:
    values = (torch.randn(500, 3, generator=torch.Generator().manual_seed(0)) * 20 + 280).to(dtype)
    standardised = fitted(values).standardise(values)
    tolerance = 1e-4 if dtype == torch.float32 else 1e-12
    torch.testing.assert_close(standardised.mean(0), torch.zeros(3, dtype=dtype), rtol=0.0, atol=tolerance)
    torch.testing.assert_close(standardised.std(0, correction=0), torch.ones(3, dtype=dtype), rtol=tolerance, atol=0.0)


def test_restored_values_are_the_values() -> None:
    values = torch.rand(50, 2, dtype=torch.float64) * torch.tensor([1e5, 1e-3], dtype=torch.float64)
    scaling = fitted(values)
    torch.testing.assert_close(scaling.restore(scaling.standardise(values)), values, rtol=1e-12, atol=0.0)
    members = values.expand(4, 3, 50, 2)
    torch.testing.assert_close(scaling.restore(scaling.standardise(members)), members, rtol=1e-12, atol=0.0)


def test_unfitted_scaling_changes_nothing() -> None:
    values = torch.rand(5, 2)
    assert torch.equal(Scaling(2).standardise(values), values)
    assert torch.equal(Scaling(2).restore(values), values)


@pytest.mark.parametrize("value", [273.15, 101325.1, 0.0])
def test_a_constant_column_keeps_scale_one(value: float) -> None:
    scaling = fitted(torch.full((1000, 1), value))
    assert scaling.scale.item() == 1
    assert scaling.mean.item() == pytest.approx(value)


def test_mean_and_scale_are_saved() -> None:
    scaling, other = fitted(torch.rand(20, 2)), Scaling(2)
    other.load_state_dict(scaling.state_dict())
    assert torch.equal(other.mean, scaling.mean)
    assert torch.equal(other.scale, scaling.scale)


@pytest.mark.parametrize("values", [torch.rand(5), torch.rand(5, 3), torch.rand(0, 2), torch.rand(2, 5, 2)])
def test_values_of_another_shape_are_refused(values: torch.Tensor) -> None:
    with pytest.raises(ShapeError, match=r"scaling needs values of shape \(N, 2\), got"):
        Scaling(2).fit(values)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_values_that_are_not_finite_are_refused(bad: float) -> None:
    with pytest.raises(NonFiniteError, match="values for scaling must be finite, got 1"):
        Scaling(2).fit(torch.tensor([[0.0, 1.0], [bad, 1.0]]))


def test_columns_that_do_not_fit_are_named() -> None:
    with pytest.raises(ShapeError, match=r"expected 2 columns, \(..., columns\), got shape \(4, 3\)"):
        Scaling(2).standardise(torch.rand(4, 3))


@pytest.mark.parametrize("width", [0, -1, 1.5, None])
def test_bad_widths_are_refused(width: Any) -> None:
    with pytest.raises(SettingError, match="width must be a whole number of at least 1"):
        Scaling(width)
