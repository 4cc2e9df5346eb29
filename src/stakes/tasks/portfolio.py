"""Many sites, one decision on their sum: the simulated portfolio of wind sites, where the truth is known."""

from dataclasses import dataclass

import torch
from torch import Tensor

from stakes.costs import PowerCurve, WindDispatchCost

__all__ = ["SimulatedPortfolio"]

_FEATURES = 5


@dataclass(frozen=True)
class SimulatedPortfolio:
    """Commit the mean power of D wind sites whose hub-height speeds share a common factor.

    y_d = o_d + x W_d + 2 tanh(x_2 x_3) + 1.6 (1.2 + 0.8 sigmoid(2 x_1)) z_d,  x in R^5 standard normal,
    z_d = sqrt(rho) common + sqrt(1 - rho) own, o_d = 9 + N(0, 1), W_d = 0.6 N(0, 1) own + 1.2 N(0, 1) shared.
    """

    sites: int = 60
    correlation: float = 0.3
    penalty: float = 20.0
    seed: int = 0

    @property
    def cost(self) -> WindDispatchCost:
        return WindDispatchCost(self.penalty, PowerCurve(shear=0.0))

    def draw(self, cases: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Features (N, 5) and hub-height wind speeds (N, D)."""
        features = torch.randn(cases, _FEATURES, generator=generator)
        return features, self.draw_outcomes(features, 1, generator)[:, 0]

    def draw_outcomes(self, features: Tensor, members: int, generator: torch.Generator) -> Tensor:
        """Members (N, M, D) of the true conditional distribution."""
        parameters = torch.Generator().manual_seed(self.seed)
        offset = 9 + torch.randn(self.sites, generator=parameters)
        slopes = 0.6 * torch.randn(_FEATURES, self.sites, generator=parameters)
        slopes = slopes + 1.2 * torch.randn(_FEATURES, 1, generator=parameters)
        mean = offset + features @ slopes + 2 * torch.tanh(features[:, 1:2] * features[:, 2:3])  # (N, D)
        scale = 1.6 * (1.2 + 0.8 * torch.sigmoid(2 * features[:, :1]))  # (N, 1)
        common = torch.randn(len(features), members, 1, generator=generator)
        own = torch.randn(len(features), members, self.sites, generator=generator)
        noise = self.correlation**0.5 * common + (1 - self.correlation) ** 0.5 * own
        return mean[:, None, :] + scale[:, None, :] * noise

    def mean_power(self, speeds: Tensor) -> Tensor:
        """What the decision is about: speeds (..., D) to (...)."""
        return self.cost.power_curve(speeds).mean(-1)
