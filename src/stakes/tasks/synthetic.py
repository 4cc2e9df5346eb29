"""The paper's synthetic task: two modes whose weight swings with x, and a hazard behind a threshold between them."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from stakes.costs import ProtectionCost

__all__ = ["SyntheticTask"]

_MEANS = (0.0, 2.5)
_DEVIATIONS = (0.2, 0.4)
_QUADRATURE = 4001  # equally likely points of each mode, for expectations under the truth


@dataclass(frozen=True)
class SyntheticTask:
    """x uniform on [0, 1]; y from N(0, 0.2) or, with probability w(x) = 0.4 + 0.38 sin(2 pi frequency x), N(2.5, 0.4).

    w and x are not printed in the paper; this is a reconstruction (at frequency 3 plain CRPS training fails at the
    transitions, as the paper describes).
    """

    frequency: float = 3.0

    @property
    def cost(self) -> ProtectionCost:
        return ProtectionCost(threshold=1.0, false_alarm_ratio=0.5, sharpness=10.0)

    def mode_weight(self, features: Tensor) -> Tensor:
        """w(x), the probability of the second mode: (N, 1) to (N,)."""
        return 0.4 + 0.38 * torch.sin(2 * math.pi * self.frequency * features[..., 0])

    def draw(self, cases: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Features (N, 1) and outcomes (N, 1)."""
        features = torch.rand(cases, 1, generator=generator)
        second = torch.rand(cases, generator=generator) < self.mode_weight(features)
        means, deviations = torch.tensor(_MEANS), torch.tensor(_DEVIATIONS)
        outcome = means[second.long()] + deviations[second.long()] * torch.randn(cases, generator=generator)
        return features, outcome[:, None]

    def true_action(self, features: Tensor) -> Tensor:
        """a*(x) under the true distribution, (N, 1)."""
        severities = torch.stack([self._mode_severity(mode) for mode in (0, 1)])
        weight = self.mode_weight(features)
        severity = (1 - weight) * severities[0] + weight * severities[1]
        half = float(self.cost.false_alarm_ratio) / 2
        return (1 + half - half / severity).clamp(0, 1)[:, None]

    def _mode_severity(self, mode: int) -> Tensor:
        levels = (torch.arange(_QUADRATURE, dtype=torch.float64) + 0.5) / _QUADRATURE
        points = _MEANS[mode] + _DEVIATIONS[mode] * math.sqrt(2) * torch.erfinv(2 * levels - 1)
        return self.cost.severity(points[:, None]).mean().to(torch.get_default_dtype())
