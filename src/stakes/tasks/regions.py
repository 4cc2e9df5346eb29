"""Regions of interest: the cases in which one number made of the outcome lies between two bounds."""

from collections.abc import Callable
from math import inf

from torch import Tensor

from stakes.tasks.task import Region

__all__ = ["only_outcome", "region_between"]


def region_between(value: Callable[[Tensor], Tensor], lower: float = -inf, upper: float = inf) -> Region:
    """The region of the cases whose value lies in [lower, upper).

    Args:
        value: The number that the region goes by: outcomes (..., D) to (...).
        lower: The least value that belongs to the region.
        upper: The least value above it that no longer does.
    """

    def belongs(outcome: Tensor) -> Tensor:
        values = value(outcome)
        return (values >= lower) & (values < upper)

    return belongs


def only_outcome(outcome: Tensor) -> Tensor:
    """The value of a case with a single outcome.

    Args:
        outcome: Outcomes (..., 1), which become (...).
    """
    return outcome.squeeze(-1)
