"""What forecasts were like that a correction has learned from, and whether new ones are like them: in the same unit."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from stakes.data.forecast_values import ForecastValues
from stakes.data.unit_conversion import in_unit
from stakes.errors import names_text
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
    def of(cls, forecast: ForecastValues) -> Self:
        """What these forecasts are like.

        Args:
            forecast: The forecasts of all cases.
        """
        sizes = {}
        for place, target in enumerate(forecast.targets):
            if len(seen := _sizes(forecast.values[..., place])):
                low, high = np.quantile(seen, _ENDS).tolist()
                sizes[target] = (low, high)
        return cls(forecast.values.shape[1], sizes, forecast.unit)

    def in_its_unit(self, forecast: ForecastValues, name: str) -> ForecastValues:
        """New forecasts in the unit of those that were learned from, with a note; refused where there is no way.

        Args:
            forecast: The forecasts of all cases.
            name: What messages call their file.
        """
        if self.unit is None or forecast.unit == self.unit:
            return forecast
        if forecast.unit is None:
            note = f"{name} does not say its unit and is taken to be in {self.unit}, as the past forecasts"
            return replace(forecast, notes=(*forecast.notes, note))
        note = f"the forecasts in {name} are turned from {forecast.unit} into {self.unit}, the unit of the past ones"
        values = in_unit(forecast.values, forecast.unit, self.unit)
        return replace(forecast, values=values, unit=self.unit, notes=(*forecast.notes, note))

    def doubts(self, forecast: ForecastValues) -> tuple[str, ...]:
        """A sentence where there are more or fewer members than in the past, and where they seem to be in another unit.

        Args:
            forecast: New forecasts; a target that is not known may be any of those that are.
        """
        doubts = []
        if (count := forecast.values.shape[1]) != self.count:
            doubts.append(
                f"each forecast has {count} members, and the past ones had {self.count}: the correction was learned "
                f"for {self.count}"
            )
        sizes = {target: _sizes(forecast.values[..., place]) for place, target in enumerate(forecast.targets)}
        strange = {target: told for target in sizes if (told := self._other_size(target, sizes[target]))}
        if strange:
            of_targets = f" of {names_text([*strange])}" if len(forecast.targets) > 1 else ""
            of_first = f", those of {next(iter(strange))}" if len(strange) > 1 else ""
            doubts.append(f"forecasts{of_targets}{of_first} {next(iter(strange.values()))}: another unit?")
        return tuple(doubts)

    def _other_size(self, target: str, sizes: Floats) -> str | None:
        """How far forecasts of a target are from what past ones reached; None where they are near."""
        known = [self.sizes[target]] if target in self.sizes else [*self.sizes.values()]
        if not known or not len(sizes):
            return None
        low, high = min(low for low, _ in known), max(high for _, high in known)
        usual = float(np.median(sizes))
        if low / _TIMES <= usual <= high * _TIMES:
            return None
        new, least, most = (number_text(each, 3) for each in (usual, low, high))
        return f"reach {new}, where past ones reached {least} to {most}"


def _sizes(values: Floats) -> Floats:
    """The sizes of those cases (N, M) that have one."""
    sizes = np.nan_to_num(np.abs(values)).max(axis=1)
    return np.asarray(sizes[sizes > 0])
