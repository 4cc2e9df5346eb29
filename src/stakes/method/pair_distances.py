"""How far apart the members are: the sum of their pairwise distances, with its gradient, in bounded memory."""

import torch
from torch import Tensor

from stakes.method.derivatives import with_gradient
from stakes.method.member_weights import weight_balance
from stakes.method.operators import register_operator
from stakes.method.sorting import rank_balance

__all__ = ["pair_distance_sum"]

_FEW_PAIRS = 1 << 17  # on a CPU all pairs at once beat sorting up to about this many
_FEW_MEMBERS = 16  # the same on an accelerator, where a kernel's launch counts for more than its work
_PAIRS_AT_ONCE = 1 << 24  # distances held at one time for D > 1: 64 MiB in float32


def pair_distance_sum(samples: Tensor, weights: Tensor | None = None) -> Tensor:
    """The sum of all distances between two members, sum_{m<j} |y_m - y_j|, (...), differentiable once.

    The sum is homogeneous of degree one, so with g_m = sum_j (y_m - y_j) / |y_m - y_j| it equals sum_m <g_m, y_m>,
    and g is its gradient; tied members push each other nowhere. For D = 1, g_m is a matter of ranks: O(M log M).

    Args:
        samples: Members (..., M, D).
        weights: What each member weighs, (..., M): a distance counts w_m w_j times. None where all count once.
    """
    if weights is not None:
        return _weighted_sum(samples, weights)
    if samples.shape[-1] > 1 and samples.dtype == torch.float32 and not torch.is_grad_enabled():
        return _distance_sum(samples)
    if samples.shape[-1] > 1:
        distance_sum, gradient = _pair_distances(samples.detach())
        return with_gradient(distance_sum, samples, gradient)
    values = samples.squeeze(-1)
    if _few(values):
        fixed = values.detach()
        balance = torch.sign(fixed[..., :, None] - fixed[..., None, :]).sum(-1)
    else:
        balance = rank_balance(values)
    return (balance * values).sum(-1)


def _weighted_sum(samples: Tensor, weights: Tensor) -> Tensor:
    if samples.shape[-1] > 1:
        distance_sum, gradient = _weighted_pair_distances(torch.cat([samples.detach(), weights[..., None]], -1))
        return with_gradient(distance_sum, samples, gradient)
    values = samples.squeeze(-1)
    return (weight_balance(values, weights) * values).sum(-1)


def _few(values: Tensor) -> bool:
    members = values.shape[-1]
    return values.numel() * members <= _FEW_PAIRS if values.device.type == "cpu" else members <= _FEW_MEMBERS


def _distance_sum(samples: Tensor) -> Tensor:
    """The sum (...) alone, by |a - b|^2 = |a|^2 + |b|^2 - 2 ab; twice the digits make up for the cancellation."""
    members, dimensions = samples.shape[-2:]
    cases = max(1, _PAIRS_AT_ONCE // members**2)
    sums = []
    for part in samples.reshape(-1, members, dimensions).split(cases):
        centred = (part - part.mean(-2, keepdim=True)).double()
        sums.append(torch.cdist(centred, centred, compute_mode="use_mm_for_euclid_dist").sum((-2, -1)) / 2)
    return torch.cat(sums).to(samples.dtype).reshape(samples.shape[:-2])


def _sum_and_gradient(samples: Tensor, weights: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The sum (...) and its gradient (..., M, D), a few cases, or a few members of one case, at a time."""
    members, dimensions = samples.shape[-2:]
    flat = samples.reshape(-1, members, dimensions).contiguous()
    count = None if weights is None else weights.reshape(-1, members)
    sums = flat.new_zeros(flat.shape[0])
    gradient = torch.empty_like(flat)
    cases = max(1, _PAIRS_AT_ONCE // members**2)
    rows = max(1, _PAIRS_AT_ONCE // (cases * members))
    for case in range(0, flat.shape[0], cases):
        some = flat[case : case + cases]
        for row in range(0, members, rows):
            part = some[:, row : row + rows].contiguous()
            distances = torch.cdist(part, some, compute_mode="donot_use_mm_for_euclid_dist")  # exact for near ties
            pairs = torch.ones_like(distances)
            if count is not None:
                of_case = count[case : case + cases]
                pairs = of_case[:, row : row + rows, None] * of_case[:, None, :]
            sums[case : case + cases] += (distances if count is None else distances * pairs).sum((-2, -1)) / 2
            gradient[case : case + cases, row : row + rows] = torch.ops.aten._cdist_backward(
                pairs, part, some, 2.0, distances
            )
    return sums.reshape(samples.shape[:-2]), gradient.reshape(samples.shape)


def _empty(samples: Tensor) -> tuple[Tensor, Tensor]:
    return samples.new_empty(samples.shape[:-2]), torch.empty_like(samples, memory_format=torch.contiguous_format)


_pair_distances = register_operator("pair_distances", "(Tensor samples) -> (Tensor, Tensor)", _sum_and_gradient, _empty)


def _split_sum_and_gradient(samples_and_weights: Tensor) -> tuple[Tensor, Tensor]:
    """The same of weighted members, whose weight stands behind their D values: (..., M, D + 1)."""
    return _sum_and_gradient(samples_and_weights[..., :-1], samples_and_weights[..., -1])


def _empty_of_split(samples_and_weights: Tensor) -> tuple[Tensor, Tensor]:
    return _empty(samples_and_weights[..., :-1])


_weighted_pair_distances = register_operator(
    "weighted_pair_distances",
    "(Tensor samples_and_weights) -> (Tensor, Tensor)",
    _split_sum_and_gradient,
    _empty_of_split,
)
