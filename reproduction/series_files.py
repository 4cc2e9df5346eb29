"""A user's own file of series as a `Record`: the 10 m wind, or the 2 m temperature and all else."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from stakes.data.records import Record
from stakes.data.tables.columns import column_times, numeric_columns
from stakes.data.tables.files import TABLES, read_flat_file
from stakes.data.tables.gridded_files import (
    COMPONENTS,
    GRID,
    KELVIN,
    SPEEDS,
    SeriesFile,
    open_dataset,
    plain_unit,
    series_of,
)
from stakes.errors import TableError

if TYPE_CHECKING:
    from xarray import Dataset

Floats = NDArray[np.float64]
_TIMES = ("time", "valid_time", "datetime", "timestamp", "date")
_ORIGIN = ("source", "institution", "attribution", "licence", "license")
_TEMPERATURES = ("t2m", "2t")
_METRES_PER_SECOND = ("m/s", "ms-1", "metres/second", "meters/second")
_CELSIUS = ("degc", "c", "°c", "celsius", "degreecelsius", "degreescelsius")
_COLDEST, _WARMEST = -100.0, 70.0  # degC, beyond anything measured at 2 m
_FARTHEST = 1.0  # degree of latitude or longitude from a wanted point to the nearest of the grid


@contextmanager
def open_series(path: str) -> Iterator[SeriesFile]:
    """A file of series, a gridded one or a table, for as long as the context lasts."""
    if path.lower().endswith(TABLES):
        yield series_of(path, _table(path))
        return
    with open_dataset(path) as dataset:
        yield series_of(path, dataset)


def _table(path: str) -> "Dataset":
    """A table as variables along the dimension time, in the order of the times."""
    import xarray

    table = read_flat_file(Path(path))
    column = _time_column(path, table)
    at = column_times(table, column)
    order = at.argsort(kind="stable")
    numeric = [name for name in numeric_columns(table) if name != column]
    variables = {
        name: ("time", table[label].to_numpy(dtype="float64", na_value=float("nan"))[order], {"units": unit})
        for label in numeric
        for name, unit in [_name_and_unit(label)]
    }
    if len(variables) < len(numeric):
        raise TableError(f"{path!r} has two columns whose names differ in their unit alone")
    return xarray.Dataset(variables, {"time": pd.DatetimeIndex(at[order]).as_unit("ns")})


def _time_column(path: str, table: pd.DataFrame) -> str:
    known = {str(column).lower(): str(column) for column in table.columns}
    dates = [str(column) for column in table.columns if table[column].dtype.kind == "M"]
    column = next((known[name] for name in _TIMES if name in known), dates[0] if len(dates) == 1 else None)
    if column is None:
        raise TableError(
            f"{path!r} has no column of times, expected one that is called {', '.join(_TIMES[:-1])} or {_TIMES[-1]}; "
            f"it has {', '.join(known.values())}"
        )
    return column


def _name_and_unit(label: str) -> tuple[str, str]:
    if label.endswith((")", "]")):
        start = max(label.rfind("("), label.rfind("["))
        name, unit = label[: max(start, 0)].rstrip(), label[start + 1 : -1].strip()
        if name and unit and not set(unit) & set(")],"):  # no comma: "t2m[0,1]" is a point of a grid
            return name, unit
    winds = (*SPEEDS, *(name for pair in COMPONENTS for name in pair))
    wind = any(label.lower() == name or label.lower().startswith((f"{name}_", f"{name}[")) for name in winds)
    return label, "m/s" if wind else ""


def read_wind(path: str, hours: int, point: tuple[float, float] | None = None) -> Record:
    """The 10 m wind speed of a file in m/s, one value in so many hours; the title says of which point.

    It is the variable ws10, si10, 10si or W10, or sqrt(u10^2 + v10^2). On a grid it is that of the point nearest to the
    wanted one, and by default that of the central point.
    """
    with open_series(path) as file:
        speed = file.find(SPEEDS)
        names = _components(file) if speed is None else (speed,)
        parts = [_at_point(file, name, point) for name in names]
        values = np.sqrt(np.sum([part**2 for part, _ in parts], axis=0)) if speed is None else parts[0][0]
        if (values < 0).any():
            raise TableError(
                f"variable {speed!r} of {path!r} must not be negative, got {np.nanmin(values):g}; a missing value must "
                "be NaN or the variable's _FillValue"
            )
        title = f"10 m wind speed from {' and '.join(names)}{parts[0][1]} in {Path(path).name}"
        return _record(file, hours, {speed or "ws10": ("m/s", values)}, title)


def read_temperature(path: str, hours: int) -> Record:
    """The 2 m temperature of a file in degC, the first column, and all its other time series, one row in so many hours.

    The target is the variable t2m or 2t, or else the first whose name begins with t2m_. On a grid it is the central
    point, and the columns of every variable are the points next to the centre and the centre itself, at most 3 x 3, as
    in the paper: "t2m[-1,0]" is one row of the grid before the centre. Kelvin becomes degC throughout. Columns without
    any value are left out, and so are variables with other dimensions.
    """
    with open_series(path) as file:
        target = file.find(_TEMPERATURES)
        if target is None:
            raise file.lacks("the 2 m temperature t2m")
        _require_grid(file, target)
        patch = file.around_centre(target)
        if np.isnan(next(iter(patch.values()))).all():
            raise TableError(f"variable {target!r} of {path!r} has no value at any time{_place(file, target)}")
        _require_temperatures(file, target, patch)
        found = sorted(file.columns().items(), key=lambda each: each[1][0] != target)
        columns = {column: (_celsius_unit(file.unit(name)), values) for column, (name, values) in found}
        others = f"{len(columns) - 1} more columns"
        title = f"2 m temperature {target}{_place(file, target)} and {others} in {Path(path).name}"
        return _record(file, hours, columns, title)


def _record(file: SeriesFile, hours: int, columns: dict[str, tuple[str, Floats]], title: str) -> Record:
    """Units and values (T,) of each column, thinned to the times that are multiples of so many hours."""
    rows = _thinned(file, hours)
    attributes = [file.dataset.attrs.get(name) for name in _ORIGIN]
    source = "; ".join(str(value) for value in attributes if value is not None) or f"file {file.path}"
    return Record(
        name=file.path,
        title=title,
        times=file.times[rows],
        values=np.stack([values[rows] for _, values in columns.values()], axis=1),
        columns=tuple(columns),
        units=tuple(unit for unit, _ in columns.values()),
        attribution=f"{title}; {source}",
        source=source,
    )


def _thinned(file: SeriesFile, hours: int) -> NDArray[np.intp]:
    """The rows at multiples of so many hours, from midnight UTC or from where the steps of the file begin."""
    if hours * 3600 % file.step:
        raise TableError(f"the step of {file.path!r} must divide {hours} h, got {file.step / 3600:g} h")
    seconds = file.times.astype(np.int64)
    return np.flatnonzero((seconds - seconds[0] % file.step) % (hours * 3600) == 0)


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
    unit = file.unit(name)
    if unit and plain_unit(unit) not in _METRES_PER_SECOND:
        raise TableError(f"variable {name!r} of {file.path!r} must be in m/s, got units {unit!r}")
    if not unit:
        raise TableError(f"variable {name!r} of {file.path!r} has no units attribute, expected 'm s-1'")
    place = file.centre(name) if point is None else {dim: _nearest(file, name, dim, point) for dim in file.grid(name)}
    values = file.values(name, place)
    words = _place(file, name, None if point is None else place)
    if np.isnan(values).all():
        raise TableError(f"variable {name!r} of {file.path!r} has no value at any time{words}")
    return values, words


def _nearest(file: SeriesFile, name: str, dim: str, point: tuple[float, float]) -> int:
    wanted = point[dim.startswith("lon")]
    away = np.abs((file.series[name][dim].to_numpy().astype(np.float64) - wanted + 180) % 360 - 180)  # 350 E is 10 W
    if away.min() > _FARTHEST:
        raise TableError(f"point must lie in the grid of {file.path!r}, got {point}, {away.min():g} from any {dim}")
    return int(away.argmin())


def _require_grid(file: SeriesFile, name: str) -> None:
    for dim in file.grid(name):
        if dim not in GRID:
            raise TableError(
                f"variable {name!r} of {file.path!r} must run along time, latitude and longitude alone, got "
                f"{file.series[name].sizes[dim]} entries along {dim!r}"
            )


def _require_temperatures(file: SeriesFile, name: str, patch: dict[str, Floats]) -> None:
    unit = file.unit(name)
    if unit and plain_unit(unit) not in (*KELVIN, *_CELSIUS):
        raise TableError(f"variable {name!r} of {file.path!r} must be in K or degC, got units {unit!r}")
    values = np.stack(list(patch.values()))
    lowest, highest = np.nanmin(values), np.nanmax(values)
    if lowest >= _COLDEST and highest <= _WARMEST:
        return
    if not unit:
        raise TableError(
            f"variable {name!r} of {file.path!r} has no units attribute, expected 'K' or 'degC', for its values from "
            f"{lowest:g} to {highest:g} are no temperatures in degC"
        )
    raise TableError(
        f"variable {name!r} of {file.path!r} must lie in [{_COLDEST:g}, {_WARMEST:g}] degC by its units {unit!r}, got "
        f"{lowest:g} to {highest:g} degC; a missing value must be NaN or the variable's _FillValue"
    )


def _place(file: SeriesFile, name: str, chosen: dict[str, int] | None = None) -> str:
    """Where a variable is read, in words: the chosen point of the grid or, by default, the central one."""
    array, grid = file.series[name], file.grid(name)
    point = array.isel(chosen or file.centre(name))
    degrees = {axis: float(point[dim]) for dim in GRID for axis in [dim[:3]] if dim in point.coords}
    words = ""
    if len(degrees) == 2:
        east = (degrees["lon"] + 180) % 360 - 180
        words = f" at {abs(degrees['lat']):g} {'SN'[degrees['lat'] >= 0]} {abs(east):g} {'WE'[east >= 0]}"
    if grid:
        size = " x ".join(str(array.sizes[dim]) for dim in grid)
        words += f", the {'central' if chosen is None else 'nearest'} of {size} grid points,"
    return words


def _celsius_unit(unit: str) -> str:
    return "degC" if plain_unit(unit) in (*KELVIN, *_CELSIUS) else unit
