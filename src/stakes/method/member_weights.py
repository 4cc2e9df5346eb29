"""Members that do not count alike: weights (..., M), of which only the ratios matter.

Inside the library weights are multiples of an equal share, so that they add up to M and weights that are all alike are
ones: every formula for plain members then holds with w_m beside y_m. They are constants: no gradient goes to them.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from stakes.errors import NonFiniteError, SettingError, ShapeError
from stakes.method.argument_checks import known_false
from stakes.method.sorting import sort_members

__all__ = [
    "OrderedMembers",
    "counted",
    "in_order",
    "mean_of_members",
    "refuse_weights",
    "relative_weights",
    "weight_balance",
]


def relative_weights(weights: Tensor | None, samples: Tensor) -> Tensor | None:
    """The weights as multiples of an equal share, (..., M), each case adding up to M; None stays None.

    Args:
        weights: What each member weighs, not negative and not all zero: (..., M) that broadcasts to the cases, such as
            (M,) for weights that all cases share. None where all members count alike.
        samples: Members (..., M, D), whose type the result has.
    """
    if weights is None:
        return None
    if not isinstance(weights, Tensor):
        raise ShapeError(f"weights must be a torch.Tensor of shape (..., M), got {type(weights).__name__}")
    wanted = samples.shape[:-1]
    if not _fits(weights.shape, wanted):
        raise ShapeError(
            f"weights must have shape (..., M) and broadcast to {tuple(wanted)}, got {tuple(weights.shape)}"
        )
    exact = weights.detach().double()
    if known_false(torch.isfinite(exact)):
        raise NonFiniteError("weights must be finite, got NaN or infinite values")
    total = exact.sum(-1, keepdim=True)
    if known_false(exact >= 0) or known_false(total > 0):
        raise SettingError("weights must not be negative, and not all zero in any case")
    return (exact * (exact.shape[-1] / total)).to(samples.dtype).expand(wanted)


def _fits(shape: torch.Size, wanted: torch.Size) -> bool:
    """Whether there is a weight for each member, and the other axes broadcast."""
    sizes = zip(reversed(shape[:-1]), reversed(wanted[:-1]), strict=False)
    return shape[-1:] == wanted[-1:] and len(shape) <= len(wanted) and all(size in (1, other) for size, other in sizes)


def refuse_weights(weights: Tensor | None, estimator: str, instead: str) -> None:
    """Raise where members are weighted and an estimator counts them.

    Args:
        weights: What each member weighs; None passes.
        estimator: The estimator that is asked for.
        instead: The one that takes weights.
    """
    if weights is not None:
        raise SettingError(
            f'estimator must be "{instead}" where members have weights: "{estimator}" corrects for the number of equal '
            "members, and weights say nothing about it"
        )


def mean_of_members(values: Tensor, weights: Tensor | None, axis: int) -> Tensor:
    """The weighted mean over the members; one without weight counts for nothing, whatever its value.

    Args:
        values: A value of each member, with M on the axis.
        weights: Multiples of an equal share that broadcast against the values; None where all members count alike.
        axis: That of the members.
    """
    if weights is None:
        return values.mean(axis)
    counts = weights != 0
    return (weights * torch.where(counts, values, 0.0)).mean(axis)


def counted(values: Tensor, weights: Tensor | None) -> Tensor:
    """The values of the members, each without weight in place of the heaviest one: whatever it is, it asks for nothing.

    Args:
        values: Numbers of each member, (..., M, n).
        weights: What each member weighs, (..., M); None where all count alike.
    """
    if weights is None:
        return values
    each = weights.expand(values.shape[:-1])
    heaviest = each.argmax(-1)[..., None, None].expand(*values.shape[:-2], 1, values.shape[-1])
    return torch.where(each[..., None] > 0, values, values.gather(-2, heaviest))


class OrderedMembers(NamedTuple):
    """Members in ascending order, without gradient; zero weights count for nothing.

    Attributes:
        values: The values, (..., M).
        counts: How many members there are up to each, or what they weigh, (..., M) or (M,).
        sums: The sum of the members up to each, each times its weight, (..., M).
    """

    values: Tensor
    counts: Tensor
    sums: Tensor


def in_order(values: Tensor, weights: Tensor | None) -> OrderedMembers:
    """The members in ascending order, with their counts and sums.

    Args:
        values: One number a member, (..., M).
        weights: Multiples of an equal share, (..., M); None where all members count alike.
    """
    if weights is None:
        ordered = sort_members(values)
        counts = torch.arange(1, values.shape[-1] + 1, dtype=values.dtype, device=values.device)
        return OrderedMembers(ordered, counts, torch.cumsum(ordered, -1))
    ordered, order = torch.sort(values.detach(), dim=-1)
    each = weights.gather(-1, order)
    counts = each.double().cumsum(-1).to(values.dtype)
    return OrderedMembers(ordered, counts, torch.cumsum(each * ordered, -1))


def weight_balance(values: Tensor, weights: Tensor) -> Tensor:
    """What lies below each member, less what lies above it, times its own weight, (..., M), without gradient.

    It is the derivative of sum_{m<j} w_m w_j |y_m - y_j| by y_m; tied members share the weight between them.

    Args:
        values: Members (..., M) with one value each.
        weights: What each of them weighs, (..., M).
    """
    fixed = values.detach().contiguous()
    ordered, order = torch.sort(fixed, dim=-1)
    up_to = pad(weights.gather(-1, order).double().cumsum(-1), (1, 0))  # (..., M + 1), nothing below the first
    below, below_or_tied = (
        up_to.gather(-1, torch.searchsorted(ordered, fixed, right=right)) for right in (False, True)
    )
    return weights * (below + below_or_tied - up_to[..., -1:]).to(values.dtype)
