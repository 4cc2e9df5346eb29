"""The mean and scale that a model keeps of its features and of its outcomes."""

import torch
from torch import Tensor, nn

from stakes.errors import ShapeError
from stakes.method.argument_checks import check_finite, require_counts

__all__ = ["Scaling"]


class Scaling(nn.Module):
    """Mean and scale of one kind of quantity, kept as buffers: physical units outside, standardised inside.

    Args:
        width: How many columns the quantity has.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        require_counts(width=width)
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("scale", torch.ones(width))

    @torch.no_grad()
    def fit(self, values: Tensor) -> None:
        """Take mean and standard deviation over the rows of values (N, width); a constant column keeps scale 1."""
        if values.dim() != 2 or values.shape[1] != len(self.mean) or not len(values):
            raise ShapeError(f"scaling needs values of shape (N, {len(self.mean)}), got {tuple(values.shape)}")
        check_finite(values, "values for scaling", True)
        mean, deviation = values.double().mean(0), values.double().std(0, correction=0)
        constant = deviation <= 8 * torch.finfo(values.dtype).eps * mean.abs()
        self.mean.copy_(mean)
        self.scale.copy_(torch.where(constant, 1.0, deviation))

    def standardise(self, values: Tensor) -> Tensor:
        """Physical values (..., width) less the mean, over the scale."""
        if values.shape[-1:] != self.mean.shape[-1:]:
            raise ShapeError(f"expected {self.mean.shape[-1]} columns, (..., columns), got shape {tuple(values.shape)}")
        return (values - self.mean) / self.scale

    def restore(self, values: Tensor) -> Tensor:
        """Standardised values (..., width) in physical units."""
        return values * self.scale + self.mean
