"""A cost parameter that is a range: decision makers who differ in one number but share one forecast."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, Self

from stakes.errors import CostError

if TYPE_CHECKING:
    from torch import Tensor


_LINEAR = ":linear"
_DEVIATION = math.sqrt(1 / 12)  # of a number drawn evenly between 0 and 1


@dataclass(frozen=True)
class ParameterRange:
    """A cost parameter that varies between cases, from `low` to `high`.

    Training draws a value for each case and step, by default uniformly in its logarithm. A cost with a range cannot be
    evaluated until each case has its value.

    Attributes:
        low: The smallest value; positive if `log` is true.
        high: The largest value, above `low`.
        log: Whether values are uniform in their logarithm.

    >>> shared = ParameterRange(1, 50)
    >>> str(shared), round(shared.middle, 2), [round(value, 2) for value in shared.points(3)]
    ('1..50', 7.07, [1.0, 7.07, 50.0])
    """

    low: float
    high: float
    log: bool = True

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise CostError(f"{name} of a range must be a finite number, got {value!r}")
            object.__setattr__(self, name, float(value))
        if not self.low < self.high:
            raise CostError(f"a range must run from a smaller to a larger number, got {self}")
        if self.log and self.low <= 0:
            raise CostError(
                f"a logarithmic range must be positive, got {self}; write {self}{_LINEAR}, or log=False in Python"
            )

    @classmethod
    def parse(cls, text: str) -> Self:
        """The range in text such as "1..50", or "-5..5:linear" for one that is uniform in the value itself.

        Args:
            text: The text.
        """
        low, dots, high = text.removesuffix(_LINEAR).partition("..")
        try:
            ends = float(low), float(high)
        except ValueError:
            dots = ""
        if not dots:
            raise CostError(f"a range must be written LOW..HIGH, as in 1..50, got {text!r}")
        return cls(*ends, log=not text.endswith(_LINEAR))

    def __str__(self) -> str:
        ends = "..".join(repr(end).removesuffix(".0") for end in (self.low, self.high))
        return ends if self.log else ends + _LINEAR

    def at(self, share: "Tensor") -> "Tensor":
        """The values (...) at fractions of the way from low to high.

        Args:
            share: Numbers (...) between 0 and 1.
        """
        if not self.log:
            return self.low + share * (self.high - self.low)
        way = math.log(self.high / self.low)
        return (self.low * (share * way).exp()).clamp(self.low, self.high)

    def standardised(self, value: "Tensor") -> "Tensor":
        """Values (...) as a model sees them: mean 0 and scale 1 over the range, in its logarithm if `log`.

        Args:
            value: Values (...) of the parameter.
        """
        return (self.share(value) - 0.5) / _DEVIATION

    def share(self, value: "Tensor") -> "Tensor":
        """How far values (...) are on the way from low to high, from 0 to 1; the inverse of `at`.

        Args:
            value: Values (...) of the parameter.
        """
        if self.log:
            return (value / self.low).log() / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def points(self, count: int) -> tuple[float, ...]:
        """Evenly spread values, both ends among them.

        Args:
            count: How many values, at least 2.
        """
        shares = [place / (count - 1) for place in range(count)]
        inner = [self._at(share) for share in shares[1:-1]]
        return (self.low, *inner, self.high)

    @property
    def middle(self) -> float:
        """The value half-way: the geometric mean of both ends, or their mean if the range is linear."""
        return self._at(0.5)

    def _at(self, share: float) -> float:
        if self.log:
            return self.low * math.exp(share * math.log(self.high / self.low))
        return self.low + share * (self.high - self.low)

    def refuse(self, *_: object) -> NoReturn:
        """Raise, as a range has no value to calculate with."""
        raise CostError(
            f"a parameter of the cost is the range {self}, so that each case needs its own value, such as "
            f"{self.middle:.3g}, before anything is decided or paid"
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __neg__ = refuse
    __lt__ = __le__ = __gt__ = __ge__ = __float__ = refuse
