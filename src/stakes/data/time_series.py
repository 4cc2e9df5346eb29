"""A series of named columns on a regular time axis, with gaps, from numpy, pandas or a patch of a grid."""

from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stakes.data.columns import check_names
from stakes.data.time_axis import Times, check_regular, to_utc
from stakes.errors import SeriesError

__all__ = ["Series", "TimeSeries"]

Floats = NDArray[np.floating[Any]]


class Series(Protocol):
    """Anything with named columns over time: a `TimeSeries`, or a `Record` of the package."""

    @property
    def times(self) -> Times:
        """The times (T,), increasing."""
        ...

    @property
    def values(self) -> Floats:
        """The values (T, C), NaN where they are missing."""
        ...

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the C columns."""
        ...


@dataclass(frozen=True, eq=False)
class TimeSeries:
    """Values with named columns at increasing times, whole multiples of one step apart; steps may be absent.

    Attributes:
        times: The times (T,), given as those of numpy, pandas or Python or as ISO texts, kept as datetime64[s] in UTC.
        values: The values (T, C), or (T,) of a single column; NaN, masked and infinite ones count as missing. float32
            stays float32, all else becomes float64.
        columns: The names of the C columns.
        step_hours: The step in hours; None takes the most frequent distance of neighbours.
        step_seconds: The step in seconds, derived from the above.
    """

    times: Times
    values: Floats
    columns: tuple[str, ...]
    step_hours: float | None = None
    step_seconds: int = field(init=False)

    def __post_init__(self) -> None:
        times, values = to_utc(self.times, "times"), _floats(self.values)
        if values.ndim == 1:
            values = values[:, None]
        check_names("columns", self.columns)
        expected = (len(times), len(self.columns))
        if values.shape != expected:
            raise SeriesError(f"values must have shape {expected}, times by columns, got {values.shape}")
        if len(set(self.columns)) < len(self.columns):
            raise SeriesError(f"columns must have different names, got {', '.join(self.columns)}")
        step = check_regular(times, self.step_hours)
        checked = {"times": times, "values": values, "columns": tuple(self.columns), "step_seconds": step}
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_patch(
        cls,
        times: Times,
        values: ArrayLike,
        row: int,
        column: int,
        name: str = "value",
        radius: int = 1,
        step_hours: float | None = None,
    ) -> Self:
        """The square patch around a point of a grid as columns, "value[0,0]" the centre.

        Args:
            times: The times (T,).
            values: The grid (T, Y, X).
            row: The place of the centre along Y.
            column: The place of the centre along X.
            name: What the columns' names begin with.
            radius: How many points the patch reaches to each side: 1 makes 3 x 3 columns.
            step_hours: The step in hours; None takes the most frequent distance of neighbours.
        """
        grid = _floats(values)
        if grid.ndim != 3:
            raise SeriesError(f"values must be a grid (T, Y, X), got shape {grid.shape}")
        for label, centre, size in (("row", row, grid.shape[1]), ("column", column, grid.shape[2])):
            if not radius <= centre < size - radius:
                raise SeriesError(f"{label} must be {radius} to {size - radius - 1} for the patch to fit, got {centre}")
        offsets = range(-radius, radius + 1)
        patch = grid[:, row - radius : row + radius + 1, column - radius : column + radius + 1]
        names = tuple(f"{name}[{down},{right}]" for down in offsets for right in offsets)
        return cls(times, patch.reshape(len(grid), -1), names, step_hours)


def _floats(values: ArrayLike) -> Floats:
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(values.astype(np.result_type(values.dtype, np.float32)), np.nan)
    numbers = np.asarray(values)
    if numbers.dtype.kind not in "fiub":
        raise SeriesError(f"values must be real numbers, got {numbers.dtype}")
    return numbers if numbers.dtype == np.float32 else numbers.astype(np.float64, copy=False)
