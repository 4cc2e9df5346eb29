"""A forecast as a file has it, before anything is made of its numbers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from stakes.data.time_axis import Times
from stakes.label_order import number_order, shortened

__all__ = ["ForecastValues", "number_order_note"]


@dataclass(frozen=True, eq=False)
class ForecastValues:
    """The numbers of a file of forecasts, NaN where one is missing.

    Attributes:
        values: What is forecast, (N, M, D): cases, members or quantiles, and targets.
        index: The N cases: their times, their labels, or their places in the file, counted from 0 in an index "row".
        targets: The names of the D targets.
        levels: The levels of the M quantiles, ascending; None where the values are members.
        named: Whether the levels were told by the names of columns alone, which may mean something else.
        sited: Whether the targets are sites that were found in the table, not columns that the user has named.
        ordered: Whether the user has named the targets one by one, and so given their order.
        notes: Sentences about what the user should know.
        times: When the outcomes happen, (N,), where a gridded file tells; None otherwise, and in tables.
        issued: When the forecasts were made, (N,), where a gridded file tells; None otherwise, and in tables.
        horizon: How far ahead each case is, (N,), as a hub's table counts it; None where it is not known.
        unit: The unit of the values, where a gridded file tells; None otherwise, and in tables.
    """

    values: NDArray[np.float64]
    index: "pd.Index[Any]"
    targets: tuple[str, ...]
    levels: tuple[float, ...] | None = None
    named: bool = False
    sited: bool = False
    ordered: bool = False
    notes: tuple[str, ...] = ()
    times: Times | None = None
    issued: Times | None = None
    horizon: NDArray[Any] | None = None
    unit: str | None = None

    def each_by_itself(self) -> Self:
        """The same with every target of every case as a case of its own, known by its case and by its site."""
        cases, members, targets = self.values.shape
        values = self.values.transpose(0, 2, 1).reshape(cases * targets, members, 1)
        known_by = [self.index.get_level_values(level).repeat(targets) for level in range(self.index.nlevels)]
        sites = np.tile(np.array(self.targets, dtype=object), cases)
        index = pd.MultiIndex.from_arrays([*known_by, sites], names=[*self.index.names, "site"])
        beside = {name: each.repeat(targets) for name, each in self._beside.items()}
        return replace(self, values=values, index=index, targets=("outcome",), **beside)

    def cases(self, chosen: NDArray[np.bool_]) -> Self:
        """Some of the cases.

        Args:
            chosen: True for each of them, (N,).
        """
        beside = {name: each[chosen] for name, each in self._beside.items()}
        return replace(self, values=self.values[chosen], index=self.index[chosen], **beside)

    @property
    def _beside(self) -> dict[str, Any]:
        """What is known of each case beside its values."""
        fields = {"times": self.times, "issued": self.issued, "horizon": self.horizon}
        return {name: each for name, each in fields.items() if each is not None}

    def only(self, targets: Sequence[str]) -> Self:
        """The same with these targets alone.

        Args:
            targets: Names of targets that are there.
        """
        places = [self.targets.index(target) for target in targets]
        return replace(self, values=self.values[..., places], targets=tuple(targets))

    def by_number(self) -> Self:
        """The same with targets that differ by a number alone, and that nobody has put in an order, in that of it."""
        order = None if self.ordered else number_order(self.targets)
        if order is None:
            return self
        targets = [self.targets[place] for place in order]
        return replace(self.only(targets), notes=(*self.notes, number_order_note(targets)))


def number_order_note(targets: Sequence[str]) -> str:
    """What the user should know of outcomes that a file has in another order than that of their numbers.

    Args:
        targets: Their names, in the order of the numbers.
    """
    return f"outcomes are taken in the order of their numbers, not in that of the file: {shortened(targets)}"
