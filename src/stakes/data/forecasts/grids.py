"""The members, or quantiles, in a NetCDF file or a Zarr store: a variable along members or levels."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from stakes.costs.cost import action_parts, vector_cost
from stakes.data.forecasts.checks import in_unit
from stakes.data.forecasts.columns import LEVEL_DIMENSIONS, MEMBER_DIMENSIONS
from stakes.data.forecasts.forecast_set import ROW, ForecastSet, Naming
from stakes.data.forecasts.layout import ForecastFormat, GridPoint
from stakes.data.forecasts.tables import require_once
from stakes.data.tables.gridded_files import require_unpackable
from stakes.data.tables.time_axis import Times
from stakes.errors import StakesError, TableError, did_you_mean, listed, one_line

if TYPE_CHECKING:
    from xarray import DataArray, Dataset


_VARIABLE = "variable"  # along which several variables lie
_SITES = (_VARIABLE, "site", "station", "location")
_LATITUDE, _LONGITUDE = ("latitude", "lat"), ("longitude", "lon")
_VALID, _TIME = "valid_time", "time"
_ISSUED = ("forecast_reference_time", "reference_time", "init_time")
_CASE, _SITE = "case", "site"
_FARTHEST = 1.0  # degree of latitude or longitude from a wanted point to the nearest of the grid


def forecast_array(
    dataset: "Dataset", name: str, layout: ForecastFormat, path: Path | None = None
) -> "tuple[DataArray, str]":
    """The variable of members or quantiles in a dataset, of a file if a path is given, and the dimension of these."""
    dimension = layout.member_dimension
    known = (dimension,) if dimension else (*MEMBER_DIMENSIONS, *LEVEL_DIMENSIONS)
    array = _forecast_variable(dataset, name, layout.variable, known, path)
    there = [str(dim) for dim in array.dims if dim in known]
    if len(there) > 1:
        raise TableError(
            f"variable {array.name!r} of {name} has the dimensions {listed(there)}; name that of the members with "
            "--member-dimension"
        )
    array = _at_points(array, name, layout.point)
    require_unpackable(array, path)
    if layout.unit is None:
        return array, there[0]
    if (given := _own_unit(array)) is None:
        wanted = repr(layout.unit)
        raise TableError(f"variable {array.name!r} of {name} states no unit, so it cannot be converted to {wanted}")
    turned = in_unit(array.astype(np.float64), given, layout.unit)
    return turned.assign_attrs(units=layout.unit, turned_from=given), there[0]


def array_forecast(
    array: "DataArray", number: str, name: str, site: str | None = None, at_points: bool = False
) -> ForecastSet:
    """The members or quantiles in what `forecast_array` returns."""
    site, plain = site_dimension(array, number, name, site) or _SITE, site is not None
    plain = plain or site == _VARIABLE
    array = array.squeeze([dim for dim in array.dims if array.sizes[dim] == 1 and dim != number])
    cases = _case_dimensions(array, (number, site), name)
    array = array if cases else array.expand_dims(_CASE)
    cases = cases or [_CASE]
    array = array if site in array.dims else array.expand_dims(site)
    levels = _levels(array, number, name) if number in LEVEL_DIMENSIONS else None
    array = array if levels is None else array.sortby(number)
    try:
        values = array.transpose(*cases, number, site).to_numpy().astype(np.float64)
    except Exception as error:  # which ones damaged content can provoke is not documented
        raise TableError(f"variable {array.name!r} of {name} cannot be read: {one_line(error)}") from error
    if np.isinf(values).any():
        raise TableError(f"variable {array.name!r} of {name} must be finite or missing, got infinite values")
    index: pd.Index[Any]
    if len(cases) == 1:
        index = _dataset_index(array, cases[0])
    else:  # every combination of labels
        labels = [array.indexes[dim] for dim in cases]
        labels = [each.as_unit("s") if isinstance(each, pd.DatetimeIndex) else each for each in labels]
        index = pd.MultiIndex.from_product(labels, names=cases)
    require_once(index, name)
    values = values.reshape(len(index), *values.shape[-2:])
    targets = _site_names(array, site, plain, name) if values.shape[2] > 1 else [str(array.name)]
    by_run = _VALID in array.coords  # as in files made of GRIB, whose `time` is that of the run
    times = _moments(array, cases, [_VALID if by_run else _TIME])
    issued = _moments(array, cases, [*_ISSUED, *([_TIME] if by_run else [])])
    return ForecastSet(
        values,
        targets=tuple(targets),
        index=index,
        levels=levels,
        naming=Naming(order=at_points or site == _VARIABLE),
        incomplete=True,
        times=times,
        issued=issued,
        unit=_own_unit(array),
        notes=_told(array, cases),
    )


def site_dimension(array: "DataArray", number: str, name: str, wanted: str | None = None) -> str | None:
    """The dimension of sites; None where there is none."""
    others = [str(dim) for dim in array.dims if dim != number]
    if wanted is not None and wanted not in others:
        hint = did_you_mean(wanted, others) if others else "there is none"
        raise TableError(f"variable {array.name!r} of {name} has no dimension {wanted!r} for --site; {hint}")
    return wanted or next((dim for dim in others if dim in _SITES), None)


def require_parts(array: "DataArray", number: str, name: str, cost: object) -> None:
    """Raise where a decision with many parts would be made part by part, along a dimension that no flag speaks of."""
    if vector_cost(cost) is None:
        return
    dims = _case_dimensions(array, (number, _SITE), name)
    alone = _parts_of(cost, 1)
    always_many = alone is not None and alone > 1  # however many outcomes there are: they may be along any dimension
    for dim in reversed(dims[1:]):
        if array.sizes[dim] > 1 and (always_many or _parts_of(cost, array.sizes[dim]) not in (None, alone)):
            raise TableError(
                f"variable {array.name!r} of {name} has the dimension {dim!r} besides {dims[0]!r}, and this cost "
                f"takes a vector action; --site {dim} makes it the dimension of its parts, --sites each decides for "
                "each label separately"
            )


def _parts_of(cost: Any, outcomes: int) -> int | None:
    """How many parts an action has; None where the cost is not one of so many outcomes."""
    try:
        return action_parts(cost, outcomes)
    except StakesError:
        return None


def _site_names(array: "DataArray", site: str, plain: bool, name: str) -> list[str]:
    """The labels of the sites, by themselves or behind the name of the variable."""
    if not plain:
        return [f"{array.name}[{label}]" for label in array[site].values.tolist()]
    labels = [str(label) for label in array[site].to_index()]
    if len(set(labels)) < len(labels):
        raise TableError(f"{name} must have different labels along the dimension {site!r}, got {listed(labels)}")
    return labels


def _own_unit(array: "DataArray") -> str | None:
    """The unit that the file says."""
    unit = array.attrs.get("units")
    return unit if isinstance(unit, str) and unit else None


def _told(array: "DataArray", cases: Sequence[str]) -> tuple[str, ...]:
    """Notes about the unit, and about cases of several dimensions."""
    unit, turned_from, notes = _own_unit(array), array.attrs.get("turned_from"), []
    if turned_from is not None:
        notes.append(f"{array.name} is converted from {turned_from} to {unit}")
    elif unit is not None:
        hint = "; --unit degC converts it to degrees Celsius" if unit in ("K", "kelvin", "Kelvin") else ""
        notes.append(f"{array.name} is in {unit}, as the file says{hint}")
    if len(cases) > 1:
        every = " and ".join(cases)
        flags = f"--site {cases[-1]} makes one decision for all of {cases[-1]}"
        if set(cases) & {*_LATITUDE, *_LONGITUDE}:
            flags = "--point LATITUDE,LONGITUDE chooses points of a grid"
        notes.append(f"there is a case for every {every}; {flags}")
    return tuple(notes)


def _forecast_variable(
    dataset: "Dataset", name: str, wanted: str | None, dimensions: Sequence[str], path: Path | None
) -> "DataArray":
    numeric = {str(key): array for key, array in dataset.data_vars.items() if array.dtype.kind in "fiu"}
    suited = [key for key, array in numeric.items() if set(array.dims) & set(dimensions)]
    several = [each.strip() for each in wanted.split(",")] if wanted is not None and wanted not in suited else []
    if len(several) > 1 and set(several) <= set(suited):
        for each in several:  # which are read to be joined
            require_unpackable(numeric[each], path)
        return _side_by_side(dataset, several, name)
    if wanted is not None and wanted not in suited:
        hint = did_you_mean(wanted, suited) if suited else "there is none"
        raise TableError(f"{name} has no variable {wanted!r} with the dimension {dimensions[0]!r}; {hint}")
    if not suited:
        there = ", ".join(f"{key} ({', '.join(map(str, array.dims))})" for key, array in numeric.items())
        raise TableError(
            f"{name} has no variable with the dimension {dimensions[0]!r}; it holds {there or 'none'}; name the "
            "dimension of the members with --member-dimension"
        )
    if wanted is None and len(suited) > 1:
        raise TableError(
            f"{name} has several variables with the dimension {dimensions[0]!r}, {listed(suited)}; name one with "
            f"--variable, or all that one decision is about, as in {','.join(suited[:2])}"
        )
    return numeric[wanted or suited[0]]


def _side_by_side(dataset: "Dataset", names: Sequence[str], name: str) -> "DataArray":
    """Several variables as one, along a dimension of their own."""
    if len(set(names)) < len(names):
        raise TableError(f"--variable must name different variables of {name}, got {listed(names)}")
    alike = {(dataset[each].dims, _own_unit(dataset[each])) for each in names}
    if len(alike) > 1:
        raise TableError(f"the variables {listed(names)} of {name} must have the same dimensions and one unit")
    array = dataset[list(names)].to_dataarray(_VARIABLE, name=listed(names))
    return array.assign_attrs(units=dataset[names[0]].attrs.get("units"))


def _levels(array: "DataArray", dimension: str, name: str) -> tuple[float, ...]:
    if dimension not in array.coords or array[dimension].dtype.kind != "f":
        raise TableError(f"{name} must have levels between 0 and 1 along the dimension {dimension!r}")
    return tuple(sorted(array[dimension].values.tolist()))


def _at_points(array: "DataArray", name: str, points: Sequence[GridPoint]) -> "DataArray":
    """The values at the points of the grid that are nearest to the wanted ones, along the dimension `site`."""
    if not points:
        return array
    places = []
    for known, which in ((_LATITUDE, 0), (_LONGITUDE, 1)):
        dim = next((str(dim) for dim in array.dims if dim in known), None)
        if dim is None or dim not in array.coords:
            raise TableError(f"variable {array.name!r} of {name} has no dimension {known[0]!r} to choose points of")
        grid = array[dim].to_numpy().astype(np.float64)
        away = np.abs((grid - np.array([[point[which]] for point in points]) + 180) % 360 - 180)  # 350 E is 10 W
        if (nearest := away.min(1)).max() > _FARTHEST:
            point = points[int(nearest.argmax())]
            raise TableError(f"point must lie in the grid of {name}, got {point}, {nearest.max():g} from any {dim}")
        places.append((dim, away.argmin(1)))
    from xarray import DataArray

    chosen = array.isel({dim: DataArray(place, dims=_SITE) for dim, place in places})
    return chosen.assign_coords({_SITE: [f"{latitude:g} {longitude:g}" for latitude, longitude in points]})


def _moments(array: "DataArray", cases: Sequence[str], names: Sequence[str]) -> Times | None:
    """The times of all cases in the first of these coordinates that has them; None where none does."""
    for name in names:
        if name not in array.coords or array[name].dtype.kind != "M" or not set(array[name].dims) <= set(cases):
            continue
        along = array[name].expand_dims({dim: array.sizes[dim] for dim in cases if dim not in array[name].dims})
        return along.transpose(*cases).to_numpy().ravel().astype("datetime64[s]")
    return None


def _case_dimensions(array: "DataArray", others: Sequence[str], name: str) -> list[str]:
    """The dimensions that make up the cases, times first; several are crossed, if each has labels to be known by."""
    dims = [str(dim) for dim in array.dims if dim not in others]
    if len(dims) > 1 and not all(dim in array.indexes for dim in dims):
        sizes = ", ".join(f"{dim} ({array.sizes[dim]})" for dim in dims)
        raise TableError(
            f"variable {array.name!r} of {name} must have one dimension of cases besides {others[0]!r} and "
            f"{others[1]!r}, or labels along each, got {sizes}"
        )
    return sorted(dims, key=lambda dim: len(dims) > 1 and array[dim].dtype.kind != "M")


def _dataset_index(array: "DataArray", case: str) -> "pd.Index[Any]":
    """The valid times along the cases where there are some, or else the labels of the dimension."""
    for known in (_VALID, case):
        if known in array.coords and array[known].dims == (case,):
            labels = array[known].to_numpy()
            if labels.dtype.kind == "M":
                return pd.DatetimeIndex(labels.astype("datetime64[s]"), name="time")
            return pd.Index([str(label) for label in labels.tolist()], name=_CASE)
    for known in (_VALID, _TIME) if array.sizes[case] == 1 else ():
        if known in array.coords and array[known].ndim == 0 and array[known].dtype.kind == "M":
            return pd.DatetimeIndex(array[known].to_numpy().astype("datetime64[s]").reshape(1), name="time")
    return pd.RangeIndex(array.sizes[case], name=ROW)
