"""Forecasts of quantiles made ready for a decision: put in order, between their bounds, and told about."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from stakes.data.outcome_bounds import OutcomeBounds, Pair, outcome_bounds
from stakes.data.quantile_members import TailShape, checked_levels, quantile_members, uncrossed
from stakes.method.costs import TotalCost
from stakes.method.named_costs import ShortfallCost, WindDispatchCost
from stakes.number_text import number_text

__all__ = ["WeightedQuantiles", "given_bounds", "quantile_bounds", "weighted_quantiles", "within"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class WeightedQuantiles:
    """Weighted members of N forecasts of quantiles.

    Attributes:
        members: The members (N, M), ascending.
        weights: What each of them weighs, (M,), adding up to 1.
        notes: Sentences about what the user should know.
    """

    members: Floats
    weights: Floats
    notes: tuple[str, ...]


def weighted_quantiles(
    levels: Sequence[float],
    quantiles: Floats,
    name: str,
    *,
    tails: TailShape = "exponential",
    bounds: Pair | Literal["auto"] | None = "auto",
    cost: object = None,
    target: str = "outcome",
) -> WeightedQuantiles:
    """The weighted members of quantiles, sorted where these cross.

    Args:
        levels: Levels from 0 to 1, ascending, on both sides of the median.
        quantiles: Quantiles (N, K) at the levels.
        name: What messages call them.
        tails: What lies beyond the outermost quantiles: "exponential" tails, or nothing, "flat".
        bounds: What outcomes cannot cross. "auto" takes what the cost knows: wind speeds are not negative, power lies
            between 0 and its capacity, and neither is what is decided for in amounts from 0 up, where no quantile is;
            or else 0 and a maximum at which many quantiles lie exactly. None for none.
        cost: The cost whose `outcome_bounds` are known; None for no cost.
        target: What is forecast.
    """
    checked_levels(levels)
    ordered, notes = uncrossed(quantiles, name)
    known = quantile_bounds(cost, ordered) if bounds == "auto" else given_bounds(bounds)
    members, weights = quantile_members(levels, ordered, tails)
    if 0.5 not in levels:
        low, high = max(level for level in levels if level < 0.5), min(level for level in levels if level > 0.5)
        apart = f"between {number_text(low)} and {number_text(high)}"
        notes += (f"there is no median: {apart} the quantiles are on a line",)
    notes += known.sentences([target]) if known is not None else ()
    return WeightedQuantiles(within(members, known), weights, notes)


def quantile_bounds(cost: object, quantiles: Floats) -> OutcomeBounds | None:
    """What outcomes cannot cross, as the cost knows or quantiles show it; None where there is nothing.

    Args:
        cost: The cost; None for no cost.
        quantiles: Quantiles of any shape.
    """
    bounds = outcome_bounds("auto", cost, torch.from_numpy(quantiles.reshape(-1, 1)))
    if bounds is not None or not isinstance(cost, TotalCost) or isinstance(cost, WindDispatchCost):
        return bounds
    if isinstance(cost, ShortfallCost) and quantiles.min() >= 0 and quantiles.max() <= 1:
        return OutcomeBounds(((0.0, 1.0),), "cost")
    from_zero = not isinstance(cost.lower, torch.Tensor) and cost.lower == 0 and quantiles.min() >= 0
    return OutcomeBounds(((0.0, None),), "cost") if from_zero else None


def given_bounds(bounds: Pair | Literal["auto"] | None) -> OutcomeBounds | None:
    """The bounds that a user has given; None where there are none, or they are to be found.

    Args:
        bounds: As a user gives them.
    """
    return OutcomeBounds((bounds,), "given") if isinstance(bounds, tuple) else None


def within(members: Floats, bounds: OutcomeBounds | None) -> Floats:
    """Members of any shape between the bounds, which all targets share.

    Args:
        members: The members.
        bounds: What they are drawn to; None leaves them as they are.
    """
    if bounds is None:
        return members
    lower, upper = bounds.pairs[0]
    return np.clip(members, -np.inf if lower is None else lower, np.inf if upper is None else upper)
