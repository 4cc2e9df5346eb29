"""A value with a stated gradient, for results that are found rather than computed."""

from typing import Any

import torch
from torch import Tensor

__all__ = ["with_gradient"]


def with_gradient(value: Tensor, members: Tensor, jacobian: Tensor) -> Tensor:
    """The value (...) whose derivative by the members (..., M, D) is the jacobian (..., M, D)."""
    return _WithGradient.apply(value, members, jacobian)


class _WithGradient(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(value: Tensor, members: Tensor, jacobian: Tensor) -> Tensor:
        return value.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[2])

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[None, Tensor, None]:
        (jacobian,) = ctx.saved_tensors
        return None, grad_output[..., None, None] * jacobian, None
