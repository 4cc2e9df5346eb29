"""Bounds of one number as walls, which an action feels before it reaches them.

    c(a, y) - smoothing * unit * (log(a - lower) + log(upper - a))

Its best action lies between the bounds and moves with every member, also where the exact one stays at a bound. The unit
is the distance between the bounds times the larger slope of the expected cost at them.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from stakes.method.costs import Cost
from stakes.method.derivatives import ExpectedCost, slope_of

__all__ = ["WalledCost", "walled"]


@dataclass(frozen=True, eq=False)
class WalledCost:
    """A cost of one number between walls.

    Attributes:
        cost: The cost itself.
        bounds: Where the walls stand, (...) each.
        height: What the logarithms of the distances are multiplied by, (...).
        lower: What no best action falls below, (...): a share of the way from one wall to the other.
        upper: What no best action exceeds, (...).
    """

    cost: Cost
    bounds: tuple[Tensor, Tensor]
    height: Tensor
    lower: Tensor
    upper: Tensor

    def __call__(self, action: Tensor, outcome: Tensor) -> Tensor:
        """The cost and that of the walls, (...).

        Args:
            action: Actions (..., 1) between the walls.
            outcome: Outcomes (..., D).
        """
        low, high = self.bounds
        level = action[..., 0]
        return self.cost(action, outcome) - self.height * ((level - low).log() + (high - level).log())


def walled(cost: Cost, expected_cost: ExpectedCost, bounds: tuple[Tensor, Tensor], smoothing: float) -> WalledCost:
    """The cost between walls.

    Args:
        cost: The cost of one number.
        expected_cost: Its mean over the members of each case, a function of actions (...).
        bounds: Its lower and upper bound, (...) each.
        smoothing: The height of the walls in units of the case, positive.
    """
    low, high = bounds
    width = high - low
    steepest = torch.maximum(slope_of(expected_cost, low).abs(), slope_of(expected_cost, high).abs())
    # No slope between the bounds of a convex cost exceeds the steepest, which a wall at this distance outdoes.
    least = 0.5 * smoothing / (1 + 2 * smoothing) * width
    return WalledCost(cost, bounds, smoothing * width * steepest, low + least, high - least)
