"""Functions of our own as operators of torch: opaque to `torch.compile`, and usable under `torch.func.vmap`.

`torch.library.custom_op` does the same, but its first call imports the compiler, which takes as long as torch itself
and is of no use in a process that compiles nothing; and every call takes twice as long.
"""

from collections.abc import Callable
from typing import Any

import torch

__all__ = ["register_operator"]


def register_operator(
    name: str, schema: str, function: Callable[..., Any], fake: Callable[..., Any]
) -> Callable[..., Any]:
    """An operator of one tensor, without a gradient; it returns what may be called in place of the function.

    Args:
        name: Its name, without that of the package.
        schema: Its arguments and results, such as "(Tensor values) -> Tensor".
        function: What it does. The leading axes of its argument and its results are batch axes, however many.
        fake: Empty results of the right shapes for an argument.
    """
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
