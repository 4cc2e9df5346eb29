"""A user's own file of series read as a `Record`: all of it, the 10 m wind, or the 2 m temperature and all else."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stakes.data.records import Record
from stakes.data.tables.gridded_files import COMPONENTS, SPEEDS, one_version, open_dataset
from stakes.data.tables.time_axis import Times, check_regular, to_utc
from stakes.errors import NetCDFError, SeriesError, one_line

if TYPE_CHECKING:
    from xarray import DataArray, Dataset


Floats = NDArray[np.float64]
_TIMES = ("valid_time", "time")
_ORIGIN = ("source", "institution", "attribution", "licence", "license")


@dataclass(frozen=True, eq=False)
class SeriesFile:
    """An open file of series."""

    path: str  # the file
    dataset: "Dataset"  # its data
    axis: str  # the dimension along which time runs
    times: Times  # the times (T,), in UTC
    step: int  # their step, in seconds

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
    """A file of series, for as long as the context lasts; an error unless its times lie on a regular axis."""
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


_TEMPERATURES = ("t2m", "2t")
_GRID = ("lat", "latitude", "lon", "longitude")  # in the order of the axes
_METRES_PER_SECOND = ("m/s", "ms-1", "metres/second", "meters/second")
_KELVIN = ("k", "kelvin", "degk")
_CELSIUS = ("degc", "c", "°c", "celsius", "degreecelsius", "degreescelsius")
_FREEZING = 273.15  # K
_COLDEST, _WARMEST = -100.0, 70.0  # degC, beyond anything measured at 2 m
_FARTHEST = 1.0  # degree of latitude or longitude from a wanted point to the nearest of the grid


def read_series(path: str) -> Record:
    """Every time series of a file, at all its times; the columns are named as by `read_temperature`.

    Where there are the components of the 10 m wind and no speed, the columns ws10, sqrt(u10^2 + v10^2), come last.
    """
    with open_series_file(path) as file:
        names = [name for name, array in file.series.items() if set(file.grid(array)) <= set(_GRID)]
        columns = _columns(file, names)
        if not columns:
            raise file.lacks("a time series with values along time, latitude and longitude")
        if file.find(SPEEDS) is None:
            columns |= _speeds(columns)
        return file.record(None, columns, f"{len(columns)} columns{_place(file, names[0])} in {Path(path).name}")


def read_wind(path: str, hours: int, point: tuple[float, float] | None = None) -> Record:
    """The 10 m wind speed of a file in m/s, one value in so many hours; the title says of which point.

    It is the variable ws10, si10, 10si or W10, or sqrt(u10^2 + v10^2). On a grid it is that of the point nearest to the
    wanted one, and by default that of the central point.
    """
    with open_series_file(path) as file:
        speed = file.find(SPEEDS)
        names = _components(file) if speed is None else (speed,)
        parts = [_at_point(file, name, point) for name in names]
        values = np.sqrt(np.sum([part**2 for part, _ in parts], axis=0)) if speed is None else parts[0][0]
        if (values < 0).any():
            raise NetCDFError(
                f"variable {speed!r} of {path!r} must not be negative, got {np.nanmin(values):g}; a missing value must "
                "be NaN or the variable's _FillValue"
            )
        title = f"10 m wind speed from {' and '.join(names)}{parts[0][1]} in {Path(path).name}"
        return file.record(hours, {speed or "ws10": ("m/s", values)}, title)


def read_temperature(path: str, hours: int) -> Record:
    """The 2 m temperature of a file in degC, the first column, and all its other time series, one row in so many hours.

    The target is the variable t2m or 2t, or else the first whose name begins with t2m_. On a grid it is the central
    point, and the columns of every variable are the points next to the centre and the centre itself, at most 3 x 3, as
    in the paper: "t2m[-1,0]" is one row of the grid before the centre. Kelvin becomes degC throughout. Columns without
    any value are left out, and so are variables with other dimensions.
    """
    with open_series_file(path) as file:
        target = file.find(_TEMPERATURES)
        if target is None:
            raise file.lacks("the 2 m temperature t2m")
        _require_grid(file, target)
        ordered = sorted(file.series, key=lambda name: name != target)
        patch = _patch(file, target)
        if np.isnan(next(iter(patch.values()))).all():
            raise NetCDFError(f"variable {target!r} of {path!r} has no value at any time{_place(file, target)}")
        _require_temperatures(file, target, patch)
        columns = _columns(file, ordered)
        others = f"{len(columns) - 1} more columns"
        title = f"2 m temperature {target}{_place(file, target)} and {others} in {Path(path).name}"
        return file.record(hours, columns, title)


def _components(file: SeriesFile) -> tuple[str, str]:
    for east, north in COMPONENTS:
        eastward = file.find((east,))
        partners = {name.lower(): name for name in file.series}
        if eastward is not None and (partner := north + eastward[len(east) :].lower()) in partners:
            return eastward, partners[partner]
    raise file.lacks("the 10 m wind speed (ws10, si10 or W10, or the components u10 and v10)")


def _at_point(file: SeriesFile, name: str, point: tuple[float, float] | None) -> tuple[Floats, str]:
    """The values (T,) of a wind variable at one point, and where that is, in words."""
    _require_grid(file, name)
    array = file.series[name]
    if (unit := _unit(array)) and _plain(unit) not in _METRES_PER_SECOND:
        raise NetCDFError(f"variable {name!r} of {file.path!r} must be in m/s, got units {unit!r}")
    if not unit:
        raise NetCDFError(f"variable {name!r} of {file.path!r} has no units attribute, expected 'm s-1'")
    place = {dim: _nearest(file, array, dim, point) for dim in file.grid(array)}
    values = file.values(array.isel(place))
    words = _place(file, name, None if point is None else place)
    if np.isnan(values).all():
        raise NetCDFError(f"variable {name!r} of {file.path!r} has no value at any time{words}")
    return values, words


def _nearest(file: SeriesFile, array: "DataArray", dim: str, point: tuple[float, float] | None) -> int:
    if point is None:
        return _centre(array.sizes[dim])
    wanted = point[dim.startswith("lon")]
    away = np.abs((array[dim].to_numpy().astype(np.float64) - wanted + 180) % 360 - 180)  # 350 E is 10 W
    if away.min() > _FARTHEST:
        raise NetCDFError(f"point must lie in the grid of {file.path!r}, got {point}, {away.min():g} from any {dim}")
    return int(away.argmin())


def _columns(file: SeriesFile, names: list[str]) -> dict[str, tuple[str, Floats]]:
    """Unit and values (T,) by column of these variables, but of none with other dimensions and none without a value."""
    return {
        column: (_celsius_unit(_unit(file.series[name])), values)
        for name in names
        if set(file.grid(file.series[name])) <= set(_GRID)
        for column, values in _patch(file, name).items()
        if not np.isnan(values).all()
    }


def _speeds(columns: dict[str, tuple[str, Floats]]) -> dict[str, tuple[str, Floats]]:
    """The wind speed wherever both components of it are there."""
    lower = {column.lower(): column for column in columns}
    speeds = {}
    for column, (unit, east) in columns.items():
        for name, partner in COMPONENTS:
            rest = column[len(name) :]
            other = lower.get(partner + rest.lower())
            if column.lower().startswith(name) and rest[:1] in ("", "_", "[") and other is not None:
                speeds[f"ws10{rest}"] = (unit, np.hypot(east, columns[other][1]))
    return speeds


def _patch(file: SeriesFile, name: str) -> dict[str, Floats]:
    """The values (T,) of the points around the centre by column name, the centre first; Kelvin made degC."""
    array = file.series[name]
    grid = file.grid(array)
    centres = {dim: _centre(array.sizes[dim]) for dim in grid}
    around = {dim: slice(max(centre - 1, 0), centre + 2) for dim, centre in centres.items()}
    patch = array.isel(around)
    values = file.values(patch).reshape(len(file.times), -1)
    if _plain(_unit(array)) in _KELVIN:
        values = values - _FREEZING
    offsets = product(*(range(around[dim].start - centres[dim], 2)[: patch.sizes[dim]] for dim in grid))
    columns = dict(zip(offsets, values.T, strict=True))
    first = sorted(columns, key=any)  # a stable sort: only the centre has no offset
    return {f"{name}[{','.join(map(str, offset))}]" if grid else name: columns[offset] for offset in first}


def _require_grid(file: SeriesFile, name: str) -> None:
    array = file.series[name]
    for dim in file.grid(array):
        if dim not in _GRID:
            raise NetCDFError(
                f"variable {name!r} of {file.path!r} must run along time, latitude and longitude alone, got "
                f"{array.sizes[dim]} entries along {dim!r}"
            )


def _require_temperatures(file: SeriesFile, name: str, patch: dict[str, Floats]) -> None:
    unit = _unit(file.series[name])
    if unit and _plain(unit) not in (*_KELVIN, *_CELSIUS):
        raise NetCDFError(f"variable {name!r} of {file.path!r} must be in K or degC, got units {unit!r}")
    values = np.stack(list(patch.values()))
    lowest, highest = np.nanmin(values), np.nanmax(values)
    if lowest >= _COLDEST and highest <= _WARMEST:
        return
    if not unit:
        raise NetCDFError(
            f"variable {name!r} of {file.path!r} has no units attribute, expected 'K' or 'degC', for its values from "
            f"{lowest:g} to {highest:g} are no temperatures in degC"
        )
    raise NetCDFError(
        f"variable {name!r} of {file.path!r} must lie in [{_COLDEST:g}, {_WARMEST:g}] degC by its units {unit!r}, got "
        f"{lowest:g} to {highest:g} degC; a missing value must be NaN or the variable's _FillValue"
    )


def _place(file: SeriesFile, name: str, chosen: dict[str, int] | None = None) -> str:
    """Where a variable is read, in words: the chosen point of the grid or, by default, the central one."""
    array = file.series[name]
    grid = file.grid(array)
    point = array.isel(chosen or {dim: _centre(array.sizes[dim]) for dim in grid})
    degrees = {axis: float(point[dim]) for dim in _GRID for axis in [dim[:3]] if dim in point.coords}
    words = ""
    if len(degrees) == 2:
        east = (degrees["lon"] + 180) % 360 - 180
        words = f" at {abs(degrees['lat']):g} {'SN'[degrees['lat'] >= 0]} {abs(east):g} {'WE'[east >= 0]}"
    if grid:
        size = " x ".join(str(array.sizes[dim]) for dim in grid)
        words += f", the {'central' if chosen is None else 'nearest'} of {size} grid points,"
    return words


def _centre(size: int) -> int:
    return (size - 1) // 2


def _unit(array: "DataArray") -> str:
    return str(array.attrs.get("units", "")).strip()


def _plain(unit: str) -> str:
    """A unit without the signs in which its spellings differ: "m s**-1" and "m s-1" are both "ms-1"."""
    return unit.lower().translate(str.maketrans("", "", " *^_."))


def _celsius_unit(unit: str) -> str:
    return "degC" if _plain(unit) in (*_KELVIN, *_CELSIUS) else unit
