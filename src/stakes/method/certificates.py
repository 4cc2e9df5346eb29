"""What proves that an action, one number, is the best of a convex expected cost, or how far it is from that."""

import torch
from torch import Tensor

from stakes.method.derivatives import ExpectedCost, slope_of

__all__ = ["interior_and_residual", "is_enclosed", "reach_of"]


def is_enclosed(
    f: ExpectedCost, action: Tensor, distance: Tensor, lower: Tensor, upper: Tensor, rounding: Tensor
) -> Tensor:
    """Whether, within a distance of the action, f falls before and rises after it, or a bound comes first, (...), bool.

    Args:
        f: Expected costs of actions, each row its own function of its own action.
        action: Actions (...).
        distance: How far from them f is looked at, (...).
        lower: Lower bounds (...).
        upper: Upper bounds (...).
        rounding: The largest slope that counts as none, (...).
    """
    before, after = action - distance, action + distance
    falls = (before <= lower) | (slope_of(f, torch.maximum(before, lower)) <= rounding)
    rises = (after >= upper) | (slope_of(f, torch.minimum(after, upper)) >= -rounding)
    return falls & rises


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
