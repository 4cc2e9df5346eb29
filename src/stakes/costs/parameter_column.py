"""Decision makers who differ in one number: the range among a cost's parameters, and the column with each case's."""

import math
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor

from stakes.costs.cost import Cost, Parameter, plain_cost_of
from stakes.costs.parameter_range import ParameterRange
from stakes.errors import CostError, SettingError


@dataclass(frozen=True)
class RangedParameter:
    """The parameter of a cost that is a range."""

    name: str  # what the cost calls it
    range: ParameterRange  # its values

    def __str__(self) -> str:
        return f"{self.name} {self.range}"

    def require_inside(self, least: float, most: float) -> None:
        """Raise unless all values lie in the range."""
        for value in (least, most):
            if not self.range.low <= value <= self.range.high:
                raise CostError(
                    f"{self.name} must lie in {self.range.low:g} to {self.range.high:g}, for which the forecast is "
                    f"trained, got {value:g}"
                )


def ranged_parameter(cost: object) -> RangedParameter | None:
    """The parameter of the cost that is a range; None where all are numbers."""
    own = _ranges(plain_cost_of(cost))
    return own[0] if own else None


def refuse_range(cost: object) -> None:
    """Raise where a parameter of the cost is a range, and all cases belong to one decision maker."""
    if (ranged := ranged_parameter(cost)) is not None:
        ranged.range.refuse()


def parameter_value(cost: object, name: str) -> float | None:
    """The number that the cost has for a parameter; None where it has none of that name."""
    values = (getattr(each, name, None) for each in (cost, plain_cost_of(cost)))
    return next((float(value) for value in values if isinstance(value, int | float)), None)


def with_parameter(cost: Cost, name: str, value: Parameter) -> Cost:
    """The cost with a value in place of its range."""
    if _ranges(cost):
        return cast(Cost, replace(cast(Any, cost), **{name: value}))
    inner = with_parameter(cast(Any, cost).cost, name, value)
    return cast(Cost, replace(cast(Any, cost), cost=inner))


def checked_at_both_ends(cost: object) -> bool:
    """Whether a parameter of the cost is a range, at both ends of which the cost is then checked."""
    ranges = _ranges(cost)
    if len(ranges) > 1:
        raise CostError(f"one parameter of a cost may be a range, got {' and '.join(map(str, ranges))}")
    for each in ranges:
        if each.name in ("lower", "upper"):
            raise CostError(f"{each.name} cannot be a range, got {each.range}: it is the same for all decision makers")
        for end in (each.range.low, each.range.high):
            replace(cast(Any, cost), **{each.name: end})
    return bool(ranges)


def _ranges(cost: object) -> list[RangedParameter]:
    if not is_dataclass(cost):
        return []
    values = {field.name: getattr(cost, field.name) for field in fields(cost)}
    return [RangedParameter(name, value) for name, value in values.items() if isinstance(value, ParameterRange)]


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
