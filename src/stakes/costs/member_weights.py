"""Members: sorted, weighted (only ratios matter), in chunks of cases; expected costs and their derivatives."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from stakes.argument_checks import known_false
from stakes.errors import NonFiniteError, SettingError, ShapeError


def register_operator(
    name: str, schema: str, function: Callable[..., Any], fake: Callable[..., Any]
) -> Callable[..., Any]:
    """An operator of one tensor, without a gradient; it returns what may be called in place of the function."""
    full_name = f"stakes::{name}"
    torch.library.define(full_name, schema)
    torch.library.impl(full_name, "CompositeExplicitAutograd", function)
    torch.library.register_fake(full_name, fake)
    operator: Callable[..., Any] = getattr(torch.ops.stakes, name).default

    def over_batch(_info: Any, in_dims: tuple[int | None], values: torch.Tensor) -> tuple[Any, Any]:
        results = operator(values.movedim(in_dims[0] or 0, 0))
        return results, (0,) * len(results) if isinstance(results, tuple) else 0

    torch.library.register_vmap(full_name, over_batch)
    return operator


_FEW = 4096  # below this many numbers torch's sort costs less than the way to numpy
_AT_ONCE = 1 << 17  # numbers ranked at a time, so that what lies between stays in the cache
_INDEX_BITS = 28  # spare mantissa bits of a float32 held in a float64, less the one that decides rounding


def sort_members(values: Tensor) -> Tensor:
    """The values in ascending order along the last axis, without gradient."""
    if values.numel() <= _FEW:
        return torch.sort(values.detach(), dim=-1).values
    ordered: Tensor = _sort_members(values.detach())
    return ordered


def rank_balance(values: Tensor) -> Tensor:
    """How many members lie below each one, less how many lie above it, (..., M), without gradient.

    It is the derivative of sum_{m<j} |y_m - y_j| by y_m; tied members share one number.
    """
    balance: Tensor = _rank_balance(values.detach())
    return balance


def _sorted(values: Tensor) -> Tensor:
    values = values.contiguous()
    if values.device.type == "cpu":
        return torch.from_numpy(np.sort(values.numpy(), axis=-1))
    return torch.sort(values, dim=-1).values


def _balance(values: Tensor) -> Tensor:
    values = values.contiguous()
    if values.device.type != "cpu":
        return _balance_by_search(torch.sort(values, dim=-1).values, values)
    flat = values.reshape(-1, values.shape[-1])
    balance = torch.empty_like(flat)
    rows = max(1, _AT_ONCE // flat.shape[-1])
    for part, result in zip(flat.split(rows), balance.split(rows), strict=True):
        _balance_on_cpu(part, result)
    return balance.reshape(values.shape)


def _balance_on_cpu(values: Tensor, result: Tensor) -> None:
    members = values.shape[-1]
    ordered, order = _argsort_on_cpu(values)
    ranks = torch.arange(1 - members, members, 2, dtype=values.dtype)  # below less above, without ties
    result.scatter_(-1, order, ranks.expand_as(values))
    tied = (ordered[:, 1:] == ordered[:, :-1]).any(-1)
    if tied.any():
        result[tied] = _balance_by_search(ordered[tied], values[tied])


def _balance_by_search(ordered: Tensor, values: Tensor) -> Tensor:
    below = torch.searchsorted(ordered, values)
    below_or_tied = torch.searchsorted(ordered, values, right=True)
    return (below + below_or_tied - values.shape[-1]).to(values.dtype)


def _argsort_on_cpu(values: Tensor) -> tuple[Tensor, Tensor]:
    """Sorted values and their order. A float32 widened to float64 carries its index in the spare low bits."""
    if values.dtype != torch.float32 or values.shape[-1] >= 1 << _INDEX_BITS:
        ordered, order = torch.sort(values, dim=-1)
        return ordered, order
    indices = torch.arange(values.shape[-1])
    keys = (values.double() + 0.0).view(torch.int64) | indices
    keys = torch.from_numpy(np.sort(keys.view(torch.float64).numpy(), axis=-1))
    return keys.float(), keys.view(torch.int64) & ((1 << _INDEX_BITS) - 1)


def _same_shape(values: Tensor) -> Tensor:
    return torch.empty_like(values, memory_format=torch.contiguous_format)


_sort_members = register_operator("sort_members", "(Tensor values) -> Tensor", _sorted, _same_shape)
_rank_balance = register_operator("rank_balance", "(Tensor values) -> Tensor", _balance, _same_shape)


def relative_weights(weights: Tensor | None, samples: Tensor) -> Tensor | None:
    """The weights as multiples of an equal share, (..., M), each case adding up to M; None stays None."""
    if weights is None:
        return None
    if not isinstance(weights, Tensor):
        raise ShapeError(f"weights must be a torch.Tensor of shape (..., M), got {type(weights).__name__}")
    wanted = samples.shape[:-1]
    if weights.shape[-1:] != wanted[-1:] or not broadcasts_to(weights.shape[:-1], wanted[:-1]):
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


def broadcasts_to(shape: torch.Size, cases: torch.Size) -> bool:
    """Whether a shape broadcasts to that of the cases, and not beyond it."""
    sizes = zip(reversed(shape), reversed(cases), strict=False)
    return len(shape) <= len(cases) and all(size in (1, wanted) for size, wanted in sizes)


def refuse_weights(weights: Tensor | None, estimator: str, instead: str) -> None:
    """Raise if members are weighted and the estimator counts them."""
    if weights is not None:
        raise SettingError(
            f'estimator must be "{instead}" for weighted members: "{estimator}" corrects for the number of equally '
            "weighted members"
        )


def mean_of_members(values: Tensor, weights: Tensor | None, axis: int) -> Tensor:
    """The weighted mean over the members; one of weight zero is ignored, whatever its value."""
    if weights is None:
        return values.mean(axis)
    counts = weights != 0
    return (weights * torch.where(counts, values, 0.0)).mean(axis)


def member_costs(cost: Callable[[Tensor, Tensor], Tensor], action: Tensor, members: Tensor) -> Tensor:
    """The cost of actions (..., A) at each member (M, ..., D), (M, ...)."""
    costs, shape = cost(action, members), members.shape[:-1]
    if not isinstance(costs, Tensor) or costs.shape != shape:
        came = tuple(costs.shape) if isinstance(costs, Tensor) else type(costs).__name__
        raise ShapeError(
            f"the cost must return a tensor of shape {tuple(shape)} for action {tuple(action.shape)} and outcome "
            f"{tuple(members.shape)}, got {came}"
        )
    return costs


def mean_cost(
    cost: Callable[[Tensor, Tensor], Tensor], action: Tensor, samples: Tensor, weights: Tensor | None = None
) -> Tensor:
    """The mean cost of actions (..., A) over members (..., M, D), (...)."""
    return mean_of_members(cost(action, samples.movedim(-2, 0)), None if weights is None else weights.movedim(-1, 0), 0)


def counted(values: Tensor, weights: Tensor | None) -> Tensor:
    """The members, with the heaviest one in place of each member of weight zero."""
    if weights is None:
        return values
    each = weights.expand(values.shape[:-1])
    heaviest = each.argmax(-1)[..., None, None].expand(*values.shape[:-2], 1, values.shape[-1])
    return torch.where(each[..., None] > 0, values, values.gather(-2, heaviest))


class OrderedMembers(NamedTuple):
    """Members in ascending order, without gradient; zero weights count for nothing."""

    values: Tensor  # the values, (..., M)
    counts: Tensor  # how many members there are up to each, or what they weigh, (..., M) or (M,)
    sums: Tensor  # the sum of the members up to each, each times its weight, (..., M)


def in_order(values: Tensor, weights: Tensor | None) -> OrderedMembers:
    """The members in ascending order, with their counts and sums."""
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
    """
    fixed = values.detach().contiguous()
    ordered, order = torch.sort(fixed, dim=-1)
    up_to = pad(weights.gather(-1, order).double().cumsum(-1), (1, 0))  # (..., M + 1), nothing below the first
    below, below_or_tied = (
        up_to.gather(-1, torch.searchsorted(ordered, fixed, right=right)) for right in (False, True)
    )
    return weights * (below + below_or_tied - up_to[..., -1:]).to(values.dtype)


# Derivatives of the expected cost, row by row, in eager code, under transforms and compiled

ExpectedCost = Callable[[Tensor], Tensor]
"""f: actions (...) to expected costs (...)."""


def slope_of(f: ExpectedCost, action: Tensor) -> Tensor:
    """The slope f'(a) of each row, (...)."""
    if (leaf := _leaf(action)) is None:
        return torch.func.grad(lambda a: f(a).sum())(action)
    with torch.enable_grad():
        return _gradient(f(leaf), (leaf,))[0]


def slope_and_curvature(f: ExpectedCost, action: Tensor) -> tuple[Tensor, Tensor]:
    """The slope f'(a) and the curvature f''(a) of each row, both (...).

    Rows are independent, so the derivative of their sum holds every row's own.
    """
    if (leaf := _leaf(action)) is None:
        curvature, slope = torch.func.grad(lambda a: _with_self(slope_of(f, a)), has_aux=True)(action)
        return slope, curvature
    with torch.enable_grad():
        (slope,) = _gradient(f(leaf), (leaf,), create_graph=True)
        return slope.detach(), _gradient(slope, (leaf,))[0]


def slope_and_hessian(f: ExpectedCost, action: Tensor) -> tuple[Tensor, Tensor]:
    """The slope of each row by all parts of its action, (..., A), and its second derivatives, (..., A, A)."""

    def total(each: Tensor) -> Tensor:
        return f(each).sum()

    slope, back = torch.func.vjp(torch.func.grad(total), action)[:2]
    parts = action.shape[-1]
    basis = torch.eye(parts, dtype=action.dtype, device=action.device).reshape(parts, *[1] * (action.dim() - 1), parts)
    rows = torch.func.vmap(lambda direction: back(direction)[0])(basis.expand(parts, *action.shape))
    return slope, rows.movedim(0, -2)


def all_derivatives(
    f: Callable[[Tensor, Tensor], Tensor], action: Tensor, samples: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The expected cost f, its slope f' and curvature f'', each (...), and d f'/d y_m, (..., M, D)."""
    action_leaf, samples_leaf = _leaf(action), _leaf(samples)
    if action_leaf is None or samples_leaf is None:
        both = torch.func.grad(lambda a, y: _with_self(slope_of(lambda b: f(b, y), a)), argnums=(0, 1), has_aux=True)
        (curvature, cross), slope = both(action, samples)
        return f(action, samples), slope, curvature, cross
    with torch.enable_grad():
        value = f(action_leaf, samples_leaf)
        (slope,) = _gradient(value, (action_leaf,), create_graph=True)
        curvature, cross = _gradient(slope, (action_leaf, samples_leaf))
    return value.detach(), slope.detach(), curvature, cross


def with_gradient(value: Tensor, members: Tensor, jacobian: Tensor) -> Tensor:
    """The same value, made differentiable: its derivative by the members is the jacobian.

    It adds zero times the jacobian, which costs less than an autograd function and passes through every transform.
    The jacobian counts as a constant: there is no second derivative to be had.
    """
    return value + (jacobian * (members - members.detach())).sum((-2, -1))


def _leaf(tensor: Tensor) -> Tensor | None:
    """A leaf for `torch.autograd.grad`, which is many times faster than `torch.func` in eager code.

    None inside `torch.compile` and under `torch.func` transforms, where only `torch.func` will do.
    """
    if torch.compiler.is_compiling():
        return None
    try:
        return tensor.detach().requires_grad_()
    except RuntimeError:
        return None


def _gradient(output: Tensor, inputs: tuple[Tensor, ...], create_graph: bool = False) -> tuple[Tensor, ...]:
    """Derivatives of the sum of `output`, zero for what it does not depend on."""
    if not output.requires_grad:
        return tuple(torch.zeros_like(each) for each in inputs)
    return torch.autograd.grad(output.sum(), inputs, create_graph=create_graph, materialize_grads=True)


def _with_self(values: Tensor) -> tuple[Tensor, Tensor]:
    return values.sum(), values


def member_quantiles(
    values: NDArray[Any], levels: Sequence[float], weights: NDArray[Any] | None = None
) -> NDArray[np.float64]:
    """Quantiles (n, Q, ...) of members (n, M, ...); of weighted members their order statistics."""
    if weights is None:
        return np.moveaxis(np.quantile(values, list(levels), axis=1, method="hazen"), 0, 1)
    shares = weights.reshape(*weights.shape, *[1] * (values.ndim - 2))
    shares = np.broadcast_to(shares, values.shape)
    return np.moveaxis(np.quantile(values, list(levels), axis=1, method="inverted_cdf", weights=shares), 0, 1)


_NUMBERS_AT_ONCE = {"cpu": 1 << 20, "cuda": 1 << 24}  # members of all sites: what the caches hold, what fills a GPU


def case_parts(members: Tensor) -> Iterator[slice]:
    """Which cases of members (N, M, D) are looked at together, so that memory stays bounded; one part of none."""
    at_once = _NUMBERS_AT_ONCE.get(members.device.type, 1 << 24)
    size = max(1, at_once // (members.shape[1] * members.shape[2]))
    yield from (slice(start, start + size) for start in range(0, max(1, len(members)), size))
