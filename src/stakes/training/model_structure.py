"""What models must have in common to train as one."""

from typing import Any

from torch import nn

__all__ = ["structure"]


def structure(model: nn.Module) -> list[tuple[str, type[nn.Module], list[tuple[str, Any]]]]:
    """What models must have in common to train in one stack: name, type and plain values of every module.

    Args:
        model: One of them.
    """
    plain = (bool, int, float, str, tuple, type(None))
    return [
        (name, type(module), sorted((key, value) for key, value in vars(module).items() if isinstance(value, plain)))
        for name, module in model.named_modules()
    ]
