"""The quantities of a decision with many parts, with their bounds and prices."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, cast

from stakes.errors import CostError
from stakes.method.program_checks import warn_of_parameters

__all__ = ["Amount", "Quantity", "amount_words", "plain_amount"]

Amount = float | tuple[float, ...] | str
"""A number, one for each outcome, or an expression of the program's numbers."""


@dataclass(frozen=True)
class Quantity:
    """A quantity that is decided, for each outcome or once for all.

    An amount is a number, a sequence with one for each outcome, or a text such as "2 * price" about the numbers of the
    program; that of `cost` may be about the outcome too.

    Attributes:
        cost: What one unit costs; negative where it earns.
        lower: What it does not fall below; None, or "none" in a file, for no such bound.
        upper: What it does not exceed; None for no such bound.
        square: What the square of it costs, not negative.
        each: Whether there is one for each outcome; False for a single one.

    >>> print(Quantity(cost=[3, 2], upper="capacity"))
    one for each outcome, 0 to capacity, at 3/2
    """

    cost: Amount = 0.0
    lower: Amount | None = 0.0
    upper: Amount | None = None
    square: Amount = 0.0
    each: bool = True

    def __post_init__(self) -> None:
        for name in ("cost", "lower", "upper", "square"):
            value = getattr(self, name)
            unbounded = name in ("lower", "upper") and (value is None or (isinstance(value, str) and value == "none"))
            object.__setattr__(self, name, None if unbounded else plain_amount(name, value))
        if not isinstance(self.each, bool):
            raise CostError(f"each must be True or False, got {self.each!r}")

    def __str__(self) -> str:
        words = ["one for each outcome" if self.each else "a single one", _range_words(self.lower, self.upper)]
        words += [f"at {amount_words(self.cost)}"] if self.cost else []
        words += [f"its square at {amount_words(self.square)}"] if self.square else []
        return ", ".join(filter(None, words))

    @property
    def amounts(self) -> dict[str, Amount | None]:
        """Cost, bounds and square by name."""
        return {name: getattr(self, name) for name in ("cost", "lower", "upper", "square")}


def plain_amount(where: str, value: object) -> Amount:
    """An amount with plain numbers.

    Args:
        where: What a message calls it.
        value: A number, a text, or a sequence, array or tensor of numbers.
    """
    warn_of_parameters({where: value})
    listed: Any = getattr(value, "tolist", lambda: value)()  # of an array or a tensor
    if isinstance(listed, str) and listed.strip():
        return listed.strip()
    if isinstance(listed, Sequence) and not isinstance(listed, str) and listed and all(map(_is_number, listed)):
        return tuple(map(float, listed))
    if _is_number(listed):
        return float(listed)
    expected, whole = "a finite number, one for each outcome, or a text", type(listed) is int
    raise CostError(f"{where} must be {expected}, got {'one beyond 1e308' if whole else repr(listed)}")


def _is_number(value: object) -> bool:
    real = isinstance(value, Real) and not isinstance(value, bool)
    return real and bool(-sys.float_info.max <= cast(float, value) <= sys.float_info.max)


def amount_words(amount: Amount) -> str:
    """An amount as people read it, such as 12, 3/2 or price.

    Args:
        amount: The amount.
    """
    if isinstance(amount, tuple):
        return "/".join(map(amount_words, amount))
    return amount if isinstance(amount, str) else f"{amount:.12g}"


def _range_words(lower: Amount | None, upper: Amount | None) -> str:
    if lower is None:
        return "" if upper is None else f"at most {amount_words(upper)}"
    least = amount_words(lower)
    return f"at least {least}" if upper is None else f"{least} to {amount_words(upper)}"
