"""The paper's contrast (section 3.2): a parametric Gaussian forecast, whose gradient moves mean and width alone."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import softplus

from stakes.argument_checks import require_count
from stakes.models.implicit import ImplicitModel
from stakes.models.networks import Perceptron

_LEAST_WIDTH = 1e-3  # in standard deviations of the training outcomes


class GaussianModel(ImplicitModel):
    """y_m = mu(x) + sigma(x) z_m, with one network for both; the noise has the width of the outcome."""

    def __init__(self, features: int, outcomes: int, hidden: int = 50, layers: int = 5) -> None:
        super().__init__(features, outcomes, outcomes, hidden, layers)
        self.network = Perceptron(features, 2 * outcomes, hidden, layers)

    def forward(self, features: Tensor, noise: Tensor) -> Tensor:
        """Standardised members (..., M, D)."""
        both = self.network(self.feature_scaling.standardise(features))[..., None, :]
        mean, width = both.chunk(2, -1)
        return mean + (softplus(width) + _LEAST_WIDTH) * noise


@dataclass(frozen=True)
class GaussianSettings:
    """The Gaussian model, of the size of the others."""

    name: ClassVar[str] = "gaussian"
    hidden: int = 50  # width of the hidden layers
    layers: int = 5  # how many hidden layers there are

    def __post_init__(self) -> None:
        for name in ("hidden", "layers"):
            require_count(name, getattr(self, name))

    def build(self, features: int, outcomes: int) -> torch.nn.Module:
        """A model of this kind."""
        return GaussianModel(features, outcomes, self.hidden, self.layers)
