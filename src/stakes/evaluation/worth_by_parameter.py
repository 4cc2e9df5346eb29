"""What one forecast for many decision makers is worth to each of them: all cases, at some values of the parameter."""

from dataclasses import dataclass

from stakes.evaluation.intervals import Difference

__all__ = ["VALUES_SHOWN", "WorthAtValue"]

VALUES_SHOWN = 5
"""At how many values of a range a forecast is judged, both ends among them."""


@dataclass(frozen=True)
class WorthAtValue:
    """What all cases cost a decision maker with this parameter.

    Attributes:
        value: The value of the parameter.
        cost: The mean realised cost of the forecast that was taken.
        climatology_cost: That of the constant action which was best for this decision maker in training.
        weight_0_cost: That of the forecast of weight 0; None where there is none beside it.
        change: The cost less that of weight 0 with its 95 % interval: mean, low, high; None likewise.
    """

    value: float
    cost: float
    climatology_cost: float
    weight_0_cost: float | None = None
    change: tuple[float, float, float] | None = None

    @property
    def difference(self) -> Difference | None:
        """The change, as tables show it."""
        return None if self.change is None else Difference(*self.change)
