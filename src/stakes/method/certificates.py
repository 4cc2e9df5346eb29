"""What proves that an action, one number, is the best of a convex expected cost, or how far it is from that."""

from collections.abc import Callable

import torch
from torch import Tensor

from stakes.method.costs import Cost
from stakes.method.derivatives import slope_of
from stakes.method.expected_costs import member_costs
from stakes.method.member_weights import mean_of_members

__all__ = ["Slope", "bisected", "interior_and_residual", "is_enclosed", "reach_of", "slope_with_rounding"]

_WHOLE = {torch.float32: torch.int32, torch.float64: torch.int64}

Slope = Callable[[Tensor], tuple[Tensor, Tensor]]
"""From actions (...) to the slope f' there and what of it may be rounding, (...) each."""


def slope_with_rounding(cost: Cost, samples: Tensor, weights: Tensor | None) -> Slope:
    """The slope of the expected cost, and the rounding of the sum of the members' own slopes at the same action.

    Args:
        cost: What an action costs at an outcome.
        samples: Members (..., M, D).
        weights: Multiples of an equal share, (..., M); None where all members count alike.
    """
    members = samples.movedim(-2, 0).contiguous()
    shares = None if weights is None else weights.movedim(-1, 0).contiguous()

    def slope(action: Tensor) -> tuple[Tensor, Tensor]:
        each = slope_of(lambda a: member_costs(cost, a, members), action.expand(members.shape[:-1]))
        rounding = 8 * torch.finfo(each.dtype).eps * mean_of_members(each.abs(), shares, 0)
        return mean_of_members(each, shares, 0), rounding.nan_to_num(posinf=0.0)

    return slope


def is_enclosed(slope: Slope, action: Tensor, distance: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """Whether, within a distance of the action, f falls before and rises after it, or a bound comes first, (...), bool.

    Args:
        slope: The slope of f, and the largest one that counts as none.
        action: Actions (...).
        distance: How far from them f is looked at, (...).
        lower: Lower bounds (...).
        upper: Upper bounds (...).
    """
    before, after = action - distance, action + distance
    left, left_rounding = slope(torch.maximum(before, lower))
    right, right_rounding = slope(torch.minimum(after, upper))
    return ((before <= lower) | (left <= left_rounding)) & ((after >= upper) | (right >= -right_rounding))


def interior_and_residual(
    action: Tensor, slope: Tensor, curvature: Tensor, lower: Tensor, upper: Tensor
) -> tuple[Tensor, Tensor]:
    """Whether the action is interior, and its residual |f'|/H: none at a bound that the slope pushes against.

    Args:
        action: Actions (...).
        slope: f' there, (...).
        curvature: H = f'' there, (...).
        lower: Lower bounds (...).
        upper: Upper bounds (...).
    """
    pushed = ((action <= lower) & (slope >= 0)) | ((action >= upper) & (slope <= 0)) | (slope == 0)
    interior = (action > lower) & (action < upper)
    distance = torch.where(curvature < torch.inf, slope.abs() / curvature.clamp(min=0), torch.inf)
    return interior, torch.where(pushed, 0.0, distance)


def reach_of(tolerance: float, action: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """The largest residual that counts as none, (...): a share of the bounds' distance, or the rounding of the action.

    Args:
        tolerance: That share.
        action: Actions (...).
        lower: Lower bounds (...).
        upper: Upper bounds (...).
    """
    return torch.maximum(tolerance * (upper - lower), 8 * torch.finfo(action.dtype).eps * action.abs())


def bisected(slope: Slope, lower: Tensor, upper: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The ends of the shortest interval of a floating type between which the slope of a convex f changes its sign.

    Halving goes by the numbers that there are, not by distance: it takes as many steps as the type has bits, however
    far apart the bounds and however near zero the action.

    Args:
        slope: The slope of f, which may be in a higher precision.
        lower: Lower bounds (...).
        upper: Upper bounds (...).
        dtype: The type of the actions.
    """
    low, high = _place_of(lower.to(dtype)), _place_of(upper.to(dtype))
    for _ in range(torch.finfo(dtype).bits):
        middle = (low & high) + ((low ^ high) >> 1)  # the mean, without overflow
        there = slope(_number_at(middle, dtype).to(lower.dtype))[0]
        low, high = torch.where(there <= 0, middle, low), torch.where(there >= 0, middle, high)
    return _number_at(low, dtype), _number_at(high, dtype)


def _place_of(values: Tensor) -> Tensor:
    """Whole numbers in the order of the values, one for each that the type has."""
    return _turned(values.contiguous().view(_WHOLE[values.dtype])).long()


def _number_at(place: Tensor, dtype: torch.dtype) -> Tensor:
    return _turned(place.to(_WHOLE[dtype])).view(dtype)


def _turned(bits: Tensor) -> Tensor:
    """Bits of floating numbers to their places, and back: those of negative ones count the other way."""
    return torch.where(bits < 0, torch.iinfo(bits.dtype).min - bits, bits)
