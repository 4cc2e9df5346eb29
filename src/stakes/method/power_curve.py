"""The power that a wind turbine makes of the wind."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from stakes.errors import CostError
from stakes.method.argument_checks import require_below, require_finite, require_positive

__all__ = ["PowerCurve"]


@dataclass(frozen=True)
class PowerCurve:
    """Wind speed in m/s to power as a fraction of capacity: a ramp, a rated plateau and the cut-off in storms.

    P(v) = sigmoid(ramp_sharpness (h - ramp_speed)) sigmoid(-cutoff_sharpness (h - cutoff_speed)),
    h = v (hub_height / reference_height)^shear. For speeds already at hub height set shear = 0.

    Attributes:
        ramp_speed: Speed at hub height at which half the capacity is reached, in m/s.
        ramp_sharpness: How steeply the power rises there, per m/s.
        cutoff_speed: Speed at hub height at which storms have halved the power again, in m/s; above `ramp_speed`.
        cutoff_sharpness: How steeply the power falls there, per m/s.
        hub_height: Height of the hub, in m.
        reference_height: Height at which the speed is given, in m.
        shear: Exponent of the power law by which the wind grows with height.
    """

    ramp_speed: float = 9.0
    ramp_sharpness: float = 0.8
    cutoff_speed: float = 22.0
    cutoff_sharpness: float = 2.0
    hub_height: float = 100.0
    reference_height: float = 10.0
    shear: float = 0.143

    def __post_init__(self) -> None:
        for name in ("ramp_sharpness", "cutoff_sharpness", "hub_height", "reference_height"):
            require_positive(name, getattr(self, name), CostError)
        require_finite("shear", self.shear, CostError)
        require_below("ramp_speed", self.ramp_speed, "cutoff_speed", self.cutoff_speed, CostError)

    @property
    def hub_factor(self) -> float:
        """Hub-height speed over the speed at the reference height."""
        return float((self.hub_height / self.reference_height) ** self.shear)

    def hub_speed(self, speed: Tensor) -> Tensor:
        """The wind speed at hub height.

        Args:
            speed: Wind speed at the reference height in m/s, of any shape.
        """
        return speed * self.hub_factor

    def __call__(self, speed: Tensor) -> Tensor:
        """Power as a fraction of capacity, of the shape of the speeds.

        Args:
            speed: Wind speed at the reference height in m/s, of any shape.
        """
        # Subtracting before scaling keeps the difference exact where the curve is steep.
        ramp = self.ramp_sharpness * self.hub_factor * (speed - self.ramp_speed / self.hub_factor)
        cutoff = self.cutoff_sharpness * self.hub_factor * (self.cutoff_speed / self.hub_factor - speed)
        return torch.exp(logsigmoid(ramp) + logsigmoid(cutoff))
