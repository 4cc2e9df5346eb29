"""The linear part of a model: where its training starts, and what it may always come back to."""

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from stakes.method.argument_checks import require_count, require_counts
from stakes.method.models.linear_start import factor_count, fit_linear_start, residual_factors
from stakes.method.models.networks import linear_in_parts

__all__ = ["LinearPart"]

_RATE = 0.1  # of the network's


class LinearPart(nn.Module):
    """W x + b + z L of standardised features and outcomes, fitted to data before training begins.

    Each coefficient is its start, a buffer, plus a tenth of a trained change that begins at 0. Adam's steps do not
    depend on the scale of a gradient, so the linear part learns at a tenth of the rate of its companions, and weight
    decay draws it to where it started. Until it is fitted it is the standard normal distribution.

    Args:
        features: F, how many features a case has.
        outcomes: D, how many outcomes a case has.
        gap: How many rows on both sides of a held-out block the cross-validation leaves out as well.
    """

    weight: Tensor
    bias: Tensor
    factors: Tensor
    diagonal: Tensor

    def __init__(self, features: int, outcomes: int, gap: int = 0) -> None:
        super().__init__()
        require_counts(features=features, outcomes=outcomes)
        require_count("gap", gap, least=0)
        self.gap = gap
        self.seen = factor_count(outcomes)
        has_diagonal = self.seen < outcomes
        self.noise = self.seen + outcomes * has_diagonal
        starts = {"weight": torch.zeros(outcomes, features), "bias": torch.zeros(outcomes)}
        starts["factors"] = torch.zeros(self.seen, outcomes)
        if has_diagonal:
            starts["diagonal"] = torch.ones(outcomes)
        else:
            starts["factors"].fill_diagonal_(1.0)
        # Neither `torch.eye` nor `torch.zeros_like`: on the device meta they would import sympy, for seconds.
        for name, start in starts.items():
            self.register_buffer(name, start)
            self.register_parameter(f"{name}_change", nn.Parameter(torch.zeros(start.shape)))

    def fit(self, features: Tensor, outcome: Tensor) -> None:
        """Start from ridge regression and the covariance of its out-of-fold residuals.

        Args:
            features: Standardised features (N, F), rows in the order of time.
            outcome: Standardised outcomes (N, D).
        """
        start = fit_linear_start(features, outcome, self.gap)
        factors, diagonal = residual_factors(start.residuals)
        learned = {"weight": start.weight, "bias": start.bias, "factors": factors, "diagonal": diagonal}
        for name, value in learned.items():
            if value is not None:
                self.get_buffer(name).copy_(value)

    def forward(self, features: Tensor, noise: Tensor) -> Tensor:
        """Standardised members (..., M, D).

        Args:
            features: Standardised features (..., F).
            noise: Noise vectors (..., M, `noise`), of which L takes the first ones, `seen`, and the diagonal the rest.
        """
        location = linear(features, self._now("weight"), self._now("bias"))[..., None, :]
        members = location + linear_in_parts(noise[..., : self.seen], self._now("factors").mT)
        if self.noise == self.seen:
            return members
        return members + noise[..., self.seen :] * self._now("diagonal")

    def _now(self, name: str) -> Tensor:
        start: Tensor = getattr(self, name)  # `functional_call` puts plain tensors in place of parameters
        change: Tensor = getattr(self, f"{name}_change")
        return start + _RATE * change
