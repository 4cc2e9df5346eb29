"""Derivatives of the expected cost, row by row, in eager code, under transforms and compiled."""

from collections.abc import Callable

import torch
from torch import Tensor

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
