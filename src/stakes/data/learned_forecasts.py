"""What forecasts were like that a correction has learned from, and whether new ones are like them: in the same unit."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from stakes.data.forecast_values import ForecastValues
from stakes.data.unit_conversion import in_unit
from stakes.number_text import number_text

__all__ = ["LearnedForecasts"]

Floats = NDArray[np.float64]
_ENDS = (0.01, 0.99)  # quantiles of the sizes of cases
_TIMES = 3.0  # beyond them: cases of the usual size are then in another unit


@dataclass(frozen=True)
class LearnedForecasts:
    """Unit, number and size of the forecasts that were learned from.

    The size of a case is its largest member or quantile, without its sign.

    Attributes:
        count: How many members or quantiles each case had.
        sizes: For each target that is not always 0, from and up to which size nearly all of its cases were, those of
            size 0 apart.
        unit: Their unit, where their file said it, or the one they were turned into; None where it is not known.
    """

    count: int
    sizes: Mapping[str, tuple[float, float]]
    unit: str | None = None

    @classmethod
    def of(cls, found: ForecastValues) -> Self:
        """What these forecasts are like.

        Args:
            found: The forecasts.
        """
        sizes = {}
        for place, target in enumerate(found.targets):
            if len(seen := _sizes(found.values[..., place])):
                low, high = np.quantile(seen, _ENDS).tolist()
                sizes[target] = (low, high)
        return cls(found.values.shape[1], sizes, found.unit)

    def in_its_unit(self, found: ForecastValues, name: str) -> ForecastValues:
        """New forecasts in the unit of those that were learned from, with a note; refused where there is no way.

        Args:
            found: The forecasts.
            name: What messages call their file.
        """
        if self.unit is None or found.unit == self.unit:
            return found
        if found.unit is None:
            note = f"{name} does not say its unit and is taken to be in {self.unit}, as the past forecasts"
            return replace(found, notes=(*found.notes, note))
        note = f"the forecasts in {name} are turned from {found.unit} into {self.unit}, the unit of the past ones"
        values = in_unit(found.values, found.unit, self.unit)
        return replace(found, values=values, unit=self.unit, notes=(*found.notes, note))

    def doubts(self, found: ForecastValues) -> tuple[str, ...]:
        """A sentence where there are more or fewer members than in the past, and where they seem to be in another unit.

        Args:
            found: New forecasts; a target that is not known may be any of those that are.
        """
        doubts = []
        if (count := found.values.shape[1]) != self.count:
            doubts.append(
                f"each forecast has {count} members, and the past ones had {self.count}: the correction was learned "
                f"for {self.count}"
            )
        for place, target in enumerate(found.targets):
            of_target = f" of {target}" if len(found.targets) > 1 else ""
            doubts += self._other_size(target, of_target, _sizes(found.values[..., place]))
        return tuple(doubts)

    def _other_size(self, target: str, of_target: str, sizes: Floats) -> list[str]:
        known = [self.sizes[target]] if target in self.sizes else [*self.sizes.values()]
        if not known or not len(sizes):
            return []
        low, high = min(low for low, _ in known), max(high for _, high in known)
        usual = float(np.median(sizes))
        if low / _TIMES <= usual <= high * _TIMES:
            return []
        new, least, most = (number_text(each, 3) for each in (usual, low, high))
        return [f"forecasts{of_target} reach {new}, where past ones reached {least} to {most}: another unit?"]


def _sizes(values: Floats) -> Floats:
    """The sizes of those cases (N, M) that have one."""
    sizes = np.nan_to_num(np.abs(values)).max(axis=1)
    return np.asarray(sizes[sizes > 0])
