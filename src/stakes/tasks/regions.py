"""Regions of interest as bands of one number made of the outcome."""

from collections.abc import Callable
from math import inf

from torch import Tensor

from stakes.tasks.task import Region

__all__ = ["band", "only_outcome"]


def band(value: Callable[[Tensor], Tensor], lower: float = -inf, upper: float = inf) -> Region:
    """The cases whose value, outcomes (..., D) to (...), lies in [lower, upper)."""

    def belongs(outcome: Tensor) -> Tensor:
        found = value(outcome)
        return (found >= lower) & (found < upper)

    return belongs


def only_outcome(outcome: Tensor) -> Tensor:
    """(..., 1) to (...)."""
    return outcome.squeeze(-1)
