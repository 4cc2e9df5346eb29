"""An open file of series: its time axis, its variables by name, and the record made of some of them.

Both layouts of the Climate Data Store are read, with times named `time` or `valid_time`; times are UTC. Dimensions of
length 1 (`number`, a single point) are dropped, and of two `expver`, of which each has what the other lacks, one is
made.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stakes.data.records.record import Record
from stakes.data.time_axis import Times, check_regular, to_utc
from stakes.data.xarray_files import one_version, open_dataset
from stakes.errors import NetCDFError, SeriesError, one_line

if TYPE_CHECKING:  # importing it for real takes a second, which only a file needs
    from xarray import DataArray, Dataset

__all__ = ["SeriesFile", "open_series_file"]

Floats = NDArray[np.float64]
_TIMES = ("valid_time", "time")
_ORIGIN = ("source", "institution", "attribution", "licence", "license")


@dataclass(frozen=True, eq=False)
class SeriesFile:
    """An open file of series.

    Attributes:
        path: The file.
        dataset: Its data.
        axis: The dimension along which time runs.
        times: The times (T,), in UTC.
        step: Their step, in seconds.
    """

    path: str
    dataset: "Dataset"
    axis: str
    times: Times
    step: int

    @cached_property
    def series(self) -> dict[str, "DataArray"]:
        """The numeric variables that run along the time axis, without dimensions of length 1."""
        numeric = {str(name): array for name, array in self.dataset.data_vars.items() if array.dtype.kind in "fiu"}
        return {name: self._squeezed(array) for name, array in numeric.items() if self.axis in array.dims}

    def _squeezed(self, array: "DataArray") -> "DataArray":
        array = one_version(array)
        return array.squeeze([dim for dim in array.dims if dim != self.axis and array.sizes[dim] == 1])

    def grid(self, array: "DataArray") -> list[str]:
        """The dimensions besides time, latitude first."""
        return sorted(str(dim) for dim in array.dims if dim != self.axis)

    def find(self, names: tuple[str, ...]) -> str | None:
        """The variable with one of these names, in any case, or else the first that begins with NAME_ or NAME[."""
        known = {name.lower(): name for name in self.series}
        alike = (lower for name in names for lower in known if lower.startswith((f"{name}_", f"{name}[")))
        return known.get(next((name for name in names if name in known), next(alike, "")))

    def lacks(self, needed: str) -> NetCDFError:
        return NetCDFError(f"{self.path!r} lacks {needed}; its time series are {', '.join(self.series) or 'none'}")

    def values(self, array: "DataArray") -> Floats:
        """The values, time on the first axis, NaN where they are missing."""
        try:
            values = array.transpose(self.axis, *self.grid(array)).to_numpy().astype(np.float64)
        except Exception as error:  # which ones damaged content can provoke is not documented
            raise NetCDFError(f"variable {array.name!r} of {self.path!r} cannot be read: {one_line(error)}") from error
        return np.where(np.isfinite(values), values, np.nan)

    def record(self, hours: int | None, columns: dict[str, tuple[str, Floats]], title: str) -> Record:
        """Units and values (T,) of each column, thinned to the times that are multiples of so many hours."""
        rows = slice(None) if hours is None else self._thinned(hours)
        attributes = [self.dataset.attrs.get(name) for name in _ORIGIN]
        source = "; ".join(str(value) for value in attributes if value is not None) or f"file {self.path}"
        return Record(
            name=self.path,
            title=title,
            times=self.times[rows],
            values=np.stack([values[rows] for _, values in columns.values()], axis=1),
            columns=tuple(columns),
            units=tuple(unit for unit, _ in columns.values()),
            attribution=f"{title}; {source}",
            source=source,
        )

    def _thinned(self, hours: int) -> NDArray[np.intp]:
        """The rows at multiples of so many hours, from midnight UTC or from where the steps of the file begin."""
        if hours * 3600 % self.step:
            raise NetCDFError(f"the step of {self.path!r} must divide {hours} h, got {self.step / 3600:g} h")
        seconds = self.times.astype(np.int64)
        return np.flatnonzero((seconds - seconds[0] % self.step) % (hours * 3600) == 0)


@contextmanager
def open_series_file(path: str) -> Iterator[SeriesFile]:
    """A file of series, for as long as the context lasts; an error unless its times lie on a regular axis.

    Args:
        path: A NetCDF, CSV or parquet file, or the folder of a Zarr store.
    """
    with open_dataset(path) as dataset:
        if not dataset.variables:
            raise NetCDFError(f"{path!r} holds no variables, expected time series")
        axis, moments = _time_axis(path, dataset)
        try:
            times = to_utc(moments, "times")
            step = check_regular(times)
        except SeriesError as error:
            raise SeriesError(f"{path!r}: {error}") from error
        yield SeriesFile(path, dataset, axis, times, step)


def _time_axis(path: str, dataset: "Dataset") -> tuple[str, Any]:
    for name in _TIMES:
        times = dataset.variables.get(name)
        if times is not None and times.ndim == 1 and times.dtype.kind == "M":
            return str(times.dims[0]), times.to_numpy()
    raise NetCDFError(
        f"{path!r} has no time axis, expected a variable time or valid_time of dates along a dimension; it holds "
        f"{', '.join(map(str, dataset.variables))}"
    )
