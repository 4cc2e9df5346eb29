"""Checks of arguments where the library is entered: type, range, shape, finite numbers."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from numbers import Integral, Real
from typing import cast

import torch
from torch import Tensor

from stakes.errors import NonFiniteError, SettingError, ShapeError, StakesError

_SHOWN = 4  # numbers of a tensor in a message
_watched = ContextVar("watched", default=True)


@contextmanager
def unwatched() -> Iterator[None]:
    """Look at no number inside, as on an accelerator: the caller deals with NaN and infinity by itself."""
    before = _watched.set(False)
    try:
        yield
    finally:
        _watched.reset(before)


def working_precision(tensor: Tensor) -> Tensor:
    """The tensor in float32 at least: half precision is for networks, not for actions and scores."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def number_on_host(value: Tensor) -> float | None:
    """The number in a tensor, or None: compiled and vmapped code has none, an accelerator would be waited for."""
    unknown = torch.compiler.is_compiling() or not _watched.get()  # compiled code cannot ask who watches
    return None if unknown else _number(value)


def _number(value: Tensor) -> float | None:
    if torch.compiler.is_compiling() or value.device.type != "cpu":
        return None
    try:
        return float(value)
    except RuntimeError:
        return None


def known_on_host(condition: Tensor) -> bool | None:
    """The truth of a one-element tensor, or None where `number_on_host` is."""
    number = number_on_host(condition)
    return None if number is None else number != 0


def cheaply_known(condition: Tensor) -> bool | None:
    """The same for what merely saves work, and changes no result: it is looked at inside `unwatched` too."""
    number = _number(condition)
    return None if number is None else number != 0


def known_false(condition: bool | Tensor) -> bool:
    """Whether a condition is known to fail somewhere; False where Python cannot look, see `known_on_host`."""
    return known_on_host(condition.all()) is False if isinstance(condition, Tensor) else not condition


def shown_numbers(value: object) -> str:
    """A value for a message: of a tensor the numbers, the first few where there are many.

    >>> shown_numbers(torch.tensor([[50.0]])), shown_numbers(50.0), shown_numbers("much")
    ('50', '50.0', "'much'")
    """
    if not isinstance(value, Tensor):
        return str(value) if isinstance(value, Real) else repr(value)
    numbers = [f"{number:g}" for number in value.detach().flatten()[: _SHOWN + 1].tolist()]
    return ", ".join([*numbers[:_SHOWN], "..."] if len(numbers) > _SHOWN else numbers)


def _require_number(name: str, value: object, error: type[StakesError]) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float | Tensor):
        raise error(f"{name} must be a number or a tensor, got {type(value).__name__}")


def require_positive(name: str, value: float | Tensor, error: type[StakesError] = SettingError) -> None:
    """Raise unless the number, or every number of the tensor, is positive and finite."""
    _require_number(name, value, error)
    if known_false((value > 0) & (value < float("inf"))):
        raise error(f"{name} must be positive and finite, got {shown_numbers(value)}")


def require_finite(name: str, value: float | Tensor, error: type[StakesError] = SettingError) -> None:
    """Raise unless the number, or every number of the tensor, is finite."""
    _require_number(name, value, error)
    if known_false((value > -float("inf")) & (value < float("inf"))):
        raise error(f"{name} must be finite, got {shown_numbers(value)}")


def require_below(
    name: str, value: float | Tensor, other_name: str, other: float | Tensor, error: type[StakesError] = SettingError
) -> None:
    """Raise unless two numbers, or two tensors number by number, are finite and the first is below the second."""
    require_finite(name, value, error)
    require_finite(other_name, other, error)
    if known_false(value < other):
        came = f"{shown_numbers(value)} and {shown_numbers(other)}"
        raise error(f"{name} must be below {other_name}, got {came}")


def require_decision_weight(
    value: object,
    name: str = "decision_weight",
    expected: str = "lie in [0, 1]",
    error: type[StakesError] = SettingError,
) -> None:
    """Raise unless the value is a decision weight: a number from 0 to 1, or a tensor of such numbers."""
    if isinstance(value, Real) and not isinstance(value, bool):
        fits = 0 <= float(value) <= 1
    else:
        fits = isinstance(value, Tensor) and not known_false((value >= 0) & (value <= 1))
    if not fits:
        raise error(f"{name} must {expected}, got {shown_numbers(value)}")


def require_count(name: str, value: object, least: int = 1) -> None:
    """Raise unless the value is a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise SettingError(f"{name} must be a whole number of at least {least}, got {value!r}")


def require_counts(**counts: int) -> None:
    """Raise unless every one of these is a whole number of at least 1."""
    for name, count in counts.items():
        require_count(name, count)


def whole_number(name: str, value: object, least: int = 1) -> int:
    """The value as a whole number of Python, also where it is one of numpy, as grids of parameters have them."""
    number = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else value
    require_count(name, number, least)
    return cast(int, number)


def require_one_of(name: str, value: str, choices: tuple[str, ...], error: type[StakesError] = SettingError) -> None:
    """Raise unless the value is one of the choices."""
    if value not in choices:
        raise error(f"{name} must be one of {', '.join(choices)}, got {value!r}")


def check_samples(samples: Tensor, name: str = "samples") -> None:
    """Raise unless this is a floating tensor (..., M, D) with at least one member and one outcome."""
    if not isinstance(samples, Tensor):
        raise ShapeError(f"{name} must be a torch.Tensor of shape (..., M, D), got {type(samples).__name__}")
    if not samples.is_floating_point():
        raise ShapeError(f"{name} must hold floating-point numbers, got {samples.dtype}")
    if samples.dim() < 2:
        raise ShapeError(f"{name} must have shape (..., M, D), members on axis -2, got {tuple(samples.shape)}")
    if samples.shape[-2] == 0 or samples.shape[-1] == 0:
        raise ShapeError(f"{name} has an empty member or outcome axis: shape {tuple(samples.shape)}, (..., M, D)")


def check_outcome(outcome: Tensor, samples: Tensor, name: str = "outcome") -> None:
    """Raise unless this is a floating tensor whose shape (..., D) fits the members."""
    if not isinstance(outcome, Tensor):
        raise ShapeError(f"{name} must be a torch.Tensor of shape (..., D), got {type(outcome).__name__}")
    if not outcome.is_floating_point():
        raise ShapeError(f"{name} must hold floating-point numbers, got {outcome.dtype}")
    expected = (*samples.shape[:-2], samples.shape[-1])
    if tuple(outcome.shape) != expected:
        raise ShapeError(
            f"{name} must have shape {expected} to match samples {tuple(samples.shape)}, got {tuple(outcome.shape)}"
        )


def check_finite(tensor: Tensor, name: str, wanted: bool | None = None) -> None:
    """Raise if the tensor holds NaN or infinity."""
    if wanted is False or (wanted is None and tensor.device.type != "cpu"):
        return
    total = tensor.detach().sum()  # NaN and infinity come through; so does a sum that overflows, hence the count
    number = total.item() if wanted else number_on_host(total)
    if number is not None and not math.isfinite(number) and (count := int((~torch.isfinite(tensor)).sum())):
        raise NonFiniteError(f"{name} must be finite, got {count} NaN or infinite values of {tensor.numel()}")


def prepared_pair(samples: Tensor, outcome: Tensor) -> tuple[Tensor, Tensor]:
    """Members and outcomes as a scoring rule takes them: checked, of one type, in float32 at least."""
    check_samples(samples)
    check_outcome(outcome, samples)
    check_finite(samples, "samples")
    check_finite(outcome, "outcome")
    samples = working_precision(samples)
    return samples, outcome.to(samples.dtype)
