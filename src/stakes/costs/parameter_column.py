"""Where each case has a decision maker of its own: the last column of its features is its cost parameter."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from stakes.costs.cost import Cost
from stakes.errors import SettingError

if TYPE_CHECKING:
    from stakes.costs.cost import Cost

from stakes.costs.parameter_range import RangedParameter, ranged_parameter, with_parameter

_GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class ParameterColumn:
    """The column of features that holds the parameter of each case; there is none where no parameter is a range."""

    parameter: RangedParameter | None = None
    conditioned: bool = False  # whether models see it, as a feature standardised over the range

    def __post_init__(self) -> None:
        if self.conditioned and self.parameter is None:
            raise SettingError(
                "conditioned is for a cost with a range, such as shortfall:penalty=1..50, got one without: fit anew, "
                "without it, for one decision maker"
            )

    @classmethod
    def of(cls, cost: Cost, conditioned: bool = False) -> "ParameterColumn":
        """The column of the cases that a cost with a range is paid for."""
        return cls(ranged_parameter(cost), conditioned)

    @property
    def width(self) -> int:
        """How many columns there are, 0 or 1."""
        return 0 if self.parameter is None else 1

    def spread(self, cases: int) -> Tensor:
        """A value for each case, (N, width), the same every time: any stretch of cases covers the range evenly."""
        shares = ((torch.arange(cases, dtype=torch.float64) + 0.5) * _GOLDEN) % 1
        return self.at(shares[:, None].expand(cases, self.width))

    def at(self, shares: Tensor) -> Tensor:
        """Values (..., width) at shares of the way through the range."""
        return shares if self.parameter is None else self.parameter.range.at(shares)

    def values(self, features: Tensor) -> Tensor:
        """The column itself, (...), of features that have it."""
        return features[..., -1]

    def parameters(self, features: Tensor) -> Tensor | None:
        """The column of features (N, F + width) that have it, (N,); None where there is none."""
        return None if self.parameter is None else self.values(features)

    def replaced(self, features: Tensor, values: Tensor) -> Tensor:
        """The features with other values in the column."""
        return features if self.parameter is None else torch.cat([features[..., :-1], values.to(features)], -1)

    def without(self, features: Tensor) -> Tensor:
        """The features (..., F) alone."""
        return features if self.parameter is None else features[..., :-1]

    def seen(self, features: Tensor) -> Tensor:
        """What a model sees: features and parameter where it is conditioned, (..., F + 1), else features alone."""
        if self.parameter is None or not self.conditioned:
            return self.without(features)
        return torch.cat([features[..., :-1], self.parameter.range.standardised(features[..., -1:])], -1)

    def unmoved(self, features: Tensor) -> Tensor:
        """What a model is scaled by: as `seen`, with 0, the middle of the range, for every parameter."""
        if not self.conditioned:
            return self.without(features)
        return torch.cat([features[..., :-1], torch.zeros_like(features[..., -1:])], -1)

    def cost(self, cost: Cost, features: Tensor) -> Cost:
        """The cost that each of these cases pays: as it is where it has no range."""
        own = ranged_parameter(cost)
        return cost if own is None else with_parameter(cost, own.name, self.values(features))
