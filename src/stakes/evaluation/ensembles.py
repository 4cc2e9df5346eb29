"""Evaluation of an ensemble that anybody has, in and out as xarray or pandas."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from stakes.costs.cost import Cost, has_part_of_each
from stakes.data.case_table import as_table, like_given
from stakes.data.forecasts.columns import may_be_members, named_quantiles
from stakes.errors import NonFiniteError, SettingError, ShapeError, did_you_mean
from stakes.evaluation.case_metrics import ensemble_metrics
from stakes.evaluation.intervals import Resampling, Sampled
from stakes.evaluation.metrics import LEVELS, Region

_Labelled = TypeVar("_Labelled", xr.DataArray, xr.Dataset)
_MEMBER, _SEED, _TIME, _LEVEL, _PART = "number", "seed", "time", "level", "part"
_OF_OUTCOME = ("energy_score", "tail_crps")  # in the unit of the outcome, as is the spread in a region
_OF_TOTAL = ("quantile", "error", "spread")  # the same, where the total is the outcome
_SHARES = ("pit", "interior")


def evaluate(
    members: xr.DataArray,
    outcome: xr.DataArray,
    cost: Cost,
    regions: Mapping[str, Region] | None = None,
    *,
    site: str | None = None,
) -> xr.Dataset:
    """All metrics of an ensemble, case by case; `stakes.evaluation.metrics.Assessor` says which.

    Members and outcomes are brought together by their coordinates. A case with a missing value is NaN in every metric,
    and counted in the attribute `missing_cases`.

    >>> import numpy as np, stakes, xarray as xr
    >>> members = xr.DataArray(np.array([[0.2, 0.4, 0.9], [0.5, 0.6, 0.7]]), dims=("time", "number"))
    >>> outcome = xr.DataArray(np.array([0.3, 0.8]), dims="time")
    >>> evaluate(members, outcome, stakes.ShortfallCost(penalty=5.0))["action"].values.round(2)
    array([0.45, 0.7 ])

    Args:
        members: The ensemble, with the dimension `number`, one or several case dimensions (`time`, or `time` and
            `station`) and, where one decision is about several sites, a dimension of sites.
        outcome: What happened, with the dimensions of `members` without `number`.
        cost: What a decision costs.
        regions: Parts of the outcomes by name, of which the members' share is taken too: functions from outcomes
            (..., D) to bool (...). None for no such parts.
        site: The name of the dimension of sites; None where each case is one number.
    """
    cases = _case_dimensions(members, outcome, site)
    sites = [] if site is None else [site]
    outcome = _aligned(outcome, members, [*cases, *sites], ("outcome", "members"))
    _require_one_unit(members, outcome)
    forecast, seen = _arrays(members.transpose(*cases, _MEMBER, *sites), outcome.transpose(*cases, *sites), site)
    metrics, complete = ensemble_metrics(forecast, seen, cost, regions)
    blank = members.isel(dict.fromkeys((_MEMBER, *sites), 0), drop=True).transpose(*cases).drop_attrs()
    _require_free(blank, metrics)
    parts = metrics["action"].shape[1:]
    of_sites = bool(parts) and has_part_of_each(cost, forecast.shape[2])
    action = by_part(metrics["action"], complete, blank, members, site if of_sites else None)
    variables = {
        name: action if name == "action" else on_all_cases(values, complete, blank) for name, values in metrics.items()
    }
    for name, variable in variables.items():
        variable.attrs |= _unit(name, members, outcome, one_site=forecast.shape[2] == 1)
    about = {"cost": repr(cost), "members": forecast.shape[1], "missing_cases": int((~complete).sum())}
    return xr.Dataset(variables, attrs=about)


def evaluate_table(members: Any, outcome: Any, cost: Cost, regions: Mapping[str, Region] | None = None) -> Any:
    """`evaluate` for tables: one row per case and one column per metric, quantiles as `quantile_0.02` and so on.

    Tables of pandas, polars and others go in, and one of the same kind comes out.

    Args:
        members: The ensemble, one row per case and one column per member.
        outcome: What happened, with the labels of the cases of `members` in any order.
        cost: What a decision costs.
        regions: Parts of the outcomes by name, as for `evaluate`.
    """
    given_table, members, outcome = members, as_table(members, "members"), as_table(outcome, "outcome")
    named = named_quantiles([str(column) for column in members.columns])
    if named and not may_be_members(named):
        raise ShapeError(
            f"members has columns named as quantiles, {named[0].column} to {named[-1].column}, which are not equally "
            "likely; rename them if they are members, or convert them with stakes.quantile_members"
        )
    wanted, given = members.index, outcome.index
    if not wanted.equals(given):
        _require_same_labels(wanted, given, "index", ("outcome", "members"))
        outcome = outcome.reindex(wanted)
    forecast = xr.DataArray(column_values(members, "members"), dims=("case", _MEMBER))
    seen = xr.DataArray(column_values(outcome.to_frame(), "outcome")[:, 0], dims="case")
    metrics = evaluate(forecast, seen, cost, regions)
    columns = {str(name): metrics[name].values for name in metrics.data_vars if name != "quantile"}
    columns |= {f"quantile_{level}": metrics["quantile"].values[:, place] for place, level in enumerate(LEVELS)}
    table = pd.DataFrame(columns, index=wanted)
    table.attrs = dict(metrics.attrs)
    return like_given(table, given_table)


def compare(
    first: xr.Dataset,
    second: xr.Dataset,
    metrics: Sequence[str] | None = None,
    block: int = 1,
    *,
    time: str | None = None,
) -> pd.DataFrame:
    """Two results of `evaluate` on the same cases: both means, their difference first - second and its 95 % interval.

    The interval is that of the paired differences, over time and, where there is a dimension `seed`, over seeds.
    Whatever else there is, such as stations, stays together at each time. A case that is missing in one is left out of
    both.

    Args:
        first: A result of `evaluate`.
        second: Another of the same cases, in any order.
        metrics: Which metrics are compared; None for all that both have.
        block: How many neighbours along the time dimension depend on each other.
        time: The dimension along which neighbours are counted, in the order of its coordinate; None for `time`, or for
            the only dimension.
    """
    chosen = _shared_metrics(first, second, metrics)
    dims = [str(dim) for dim in first[chosen[0]].dims]
    along = _time_dimension(dims, time)
    first, second = first[chosen], second[chosen]
    if set(dims) != set(second.dims):
        raise ShapeError(f"first and second must have the same dimensions, got {dims} and {list(second.dims)}")
    second = _aligned(second, first, dims, ("second", "first"))
    if along in first.indexes and not first.indexes[along].is_monotonic_increasing:
        first, second = first.sortby(along), second.sortby(along)
    resampling = Resampling(first.sizes[along], first.sizes.get(_SEED, 1), block=block)
    rows = {name: _row(first[name], second[name], along, resampling) for name in chosen}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("metric")


# What goes in


def _case_dimensions(members: xr.DataArray, outcome: xr.DataArray, site: str | None) -> list[Hashable]:
    """The dimensions of the cases, after a look at the others."""
    for name, array in (("members", members), ("outcome", outcome)):
        if not isinstance(array, xr.DataArray):
            raise ShapeError(
                f"{name} must be an xarray.DataArray, got {type(array).__name__}; evaluate_table takes tables"
            )
    dims = list(members.dims)
    if _MEMBER not in dims:
        raise ShapeError(f"members must have the dimension {_MEMBER!r}, got {dims}; rename that of the members")
    for name, array in (("members", members), ("outcome", outcome)):
        if site is not None and site not in array.dims:
            raise ShapeError(f"{name} must have the site dimension {site!r}, got the dimensions {list(array.dims)}")
        if array.dtype.kind not in "fiu":
            raise ShapeError(f"{name} must hold numbers, got {array.dtype}")
    if members.sizes[_MEMBER] < 2:
        raise ShapeError(
            f"members must be at least two along {_MEMBER!r}, which fair scores and the spread need, got "
            f"{members.sizes[_MEMBER]}"
        )
    cases = [dim for dim in dims if dim not in (_MEMBER, site)]
    if not cases:
        raise ShapeError(f"members must have a dimension of cases, such as 'time', got the dimensions {dims}")
    if {*outcome.dims} != {*dims} - {_MEMBER}:
        expected = [dim for dim in dims if dim != _MEMBER]
        raise ShapeError(f"outcome must have the dimensions {expected}, those of members, got {list(outcome.dims)}")
    if not all(members.sizes.values()):
        raise ShapeError(f"members must have at least one case, got the sizes {dict(members.sizes)}")
    return cases


def _aligned(other: _Labelled, reference: _Labelled, dims: Sequence[Hashable], names: tuple[str, str]) -> _Labelled:
    """`other` in the order of the coordinates of `reference`, which must be the same."""
    for dim in dims:
        if dim in reference.indexes and dim in other.indexes:
            wanted, given = reference.indexes[dim], other.indexes[dim]
            if not wanted.equals(given):
                _require_same_labels(wanted, given, str(dim), names)
                other = other.sel({dim: wanted})
        elif other.sizes[dim] != reference.sizes[dim]:
            raise ShapeError(
                f"{names[0]} must have the size of {names[1]} along {dim!r}, got {other.sizes[dim]} and "
                f"{reference.sizes[dim]}"
            )
    return other


def _require_same_labels(wanted: "pd.Index[Any]", given: "pd.Index[Any]", dim: str, names: tuple[str, str]) -> None:
    for index, name in ((wanted, names[1]), (given, names[0])):
        if not index.is_unique:
            raise ShapeError(f"{name} has the {dim} {index[index.duplicated()][0]} more than once")
    lacks = ((names[0], names[1], wanted.difference(given)), (names[1], names[0], given.difference(wanted)))
    for name, has, labels in lacks:
        if len(labels):
            raise ShapeError(
                f"{name} must have the same {dim} as {has}, but {labels[0]} is missing, the first of {len(labels)}"
            )


def _require_one_unit(members: xr.DataArray, outcome: xr.DataArray) -> None:
    units = [array.attrs["units"] for array in (members, outcome) if "units" in array.attrs]
    if len(set(units)) > 1:
        raise ShapeError(f"members and outcome must have the same units, got {units[0]!r} and {units[1]!r}")


def _arrays(members: xr.DataArray, outcome: xr.DataArray, site: str | None) -> tuple[NDArray[Any], NDArray[Any]]:
    """Members (N, M, D) and outcome (N, D), in single precision where both are."""
    single = np.result_type(members.dtype, outcome.dtype, np.float32) == np.float32
    count, sites = members.sizes[_MEMBER], 1 if site is None else members.sizes[site]
    shapes = {"members": (-1, count, sites), "outcome": (-1, sites)}
    arrays = []
    for (name, shape), array in zip(shapes.items(), (members, outcome), strict=True):
        values = array.values.astype(np.float32 if single else np.float64).reshape(shape)
        if infinite := int(np.isinf(values).sum()):
            raise NonFiniteError(f"{name} must be finite or missing, got {infinite} infinite values of {values.size}")
        arrays.append(values)
    return arrays[0], arrays[1]


def column_values(table: pd.DataFrame, name: str) -> NDArray[np.float64]:
    """The numbers of a table, NaN where one is missing."""
    for column, kind in table.dtypes.items():
        if not pd.api.types.is_numeric_dtype(kind) or pd.api.types.is_bool_dtype(kind):
            raise ShapeError(f"{name} must hold numbers, got {kind} in the column {column!r}")
    return table.to_numpy(dtype=np.float64, na_value=np.nan)


# What comes out


def _require_free(blank: xr.DataArray, metrics: Mapping[str, Any]) -> None:
    if taken := {*blank.dims, *blank.coords} & {*metrics, _LEVEL}:
        names = ", ".join(sorted(map(str, taken)))
        raise ShapeError(f"members must not have dimensions or coordinates named like results; rename {names}")


def on_all_cases(values: NDArray[Any], complete: NDArray[np.bool_], blank: xr.DataArray) -> xr.DataArray:
    """The values of the complete cases on the case dimensions, NaN or False for the others."""
    blanked = False if values.dtype == bool else np.nan
    every = np.full((len(complete), *values.shape[1:]), blanked, values.dtype)
    every[complete] = values
    every = every.reshape(*blank.shape, *values.shape[1:])
    if values.ndim == 1:
        return blank.copy(data=every)
    return xr.DataArray(every, {**blank.coords, _LEVEL: list(LEVELS)}, (*blank.dims, _LEVEL))


def by_part(
    values: NDArray[Any], complete: NDArray[np.bool_], blank: xr.DataArray, members: xr.DataArray, site: str | None
) -> xr.DataArray:
    """Values (n,) or (n, A) of complete cases; several parts have a dimension, that of the sites where each has one."""
    if values.ndim == 1:
        return on_all_cases(values, complete, blank)
    along = _PART if site is None else site
    every = [on_all_cases(part, complete, blank) for part in values.T]
    labels = members[site] if site in members.coords else xr.IndexVariable(along, range(values.shape[1]))
    return xr.concat(every, labels).transpose(*blank.dims, along)


def _unit(name: str, members: xr.DataArray, outcome: xr.DataArray, one_site: bool) -> dict[str, str]:
    if name in _SHARES or name.startswith("mass_"):
        return {"units": "1"}
    units = outcome.attrs.get("units", members.attrs.get("units"))
    known = name in _OF_OUTCOME or name.startswith("spread_") or (one_site and name in _OF_TOTAL)
    return {"units": units} if known and units is not None else {}


# Comparison


def _shared_metrics(first: xr.Dataset, second: xr.Dataset, wanted: Sequence[str] | None) -> list[str]:
    fewest = min((array.ndim for array in first.data_vars.values()), default=0)  # an action of many parts has more
    told = [name for name, array in first.data_vars.items() if _LEVEL not in array.dims and array.ndim == fewest]
    shared = [str(name) for name in told if name in second]
    if not shared:
        raise SettingError(f"first and second must share a metric, got {list(first)} and {list(second)}")
    for name in wanted or ():
        if name not in shared:
            raise SettingError(f"metrics must be in both first and second, not {name!r}; {did_you_mean(name, shared)}")
    return list(wanted) if wanted else shared


def _time_dimension(dims: Sequence[str], wanted: str | None) -> str:
    others = [dim for dim in dims if dim != _SEED]
    along = wanted or (_TIME if _TIME in others else others[0] if len(others) == 1 else None)
    if along not in others:
        raise SettingError(f"time must be the dimension along which blocks are drawn, one of {others}, got {wanted!r}")
    return along


def _row(first: xr.DataArray, second: xr.DataArray, along: str, resampling: Resampling) -> dict[str, Any]:
    means, count = _paired_means(first, second, along, resampling)
    difference = (means[0] - means[1]).interval()
    return {
        "first": means[0].estimate,
        "second": means[1].estimate,
        "difference": difference.mean,
        "low": difference.low,
        "high": difference.high,
        "significant": difference.significant,
        "cases": count,
    }


def _paired_means(
    first: xr.DataArray, second: xr.DataArray, along: str, resampling: Resampling
) -> tuple[tuple[Sampled, Sampled], int]:
    """The mean of each over what both have: that of each time, weighted by how many it is of."""
    order = [dim for dim in (_SEED, along) if dim in first.dims]
    shape = (resampling.groups, resampling.seeds, resampling.cases, -1)
    values = [array.transpose(*order, ...).values.astype(np.float64).reshape(shape) for array in (first, second)]
    both = np.isfinite(values[0]) & np.isfinite(values[1])
    number = both.sum(-1)
    first_mean, second_mean = (np.where(both, part, 0.0).sum(-1) / np.maximum(number, 1) for part in values)
    return resampling.pair(first_mean, second_mean, number), int(both.sum())
