"""The members, or quantiles, in a table: one column for each, or one row."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from stakes.data.forecasts.columns import (
    RUN_COLUMNS,
    ForecastColumns,
    ReadAs,
    chosen_columns,
    forecast_columns,
    site_labels,
    target_columns,
    with_ranges,
    without_coordinates,
)
from stakes.data.forecasts.grids import LEVEL_DIMENSIONS, MEMBER_DIMENSIONS
from stakes.data.forecasts.values import ROW, ForecastValues, as_index, case_index, require_once, time_level
from stakes.data.tables.columns import column_numbers, is_text, numeric_columns, zone_notes
from stakes.errors import TableError, did_you_mean, listed
from stakes.text import number_text

_MEMBER = (*MEMBER_DIMENSIONS, "sample_id", "member_id", "ensemble_member")
_HUB_TYPE, _HUB_KEY, _HUB_VALUE = "output_type", "output_type_id", "value"
_HUB_TARGET, _HUB_AHEAD = "target", "horizon"
_HUB_KINDS = {"quantile": "quantiles", "sample": "members"}


class _Rows(NamedTuple):
    """The rows of a long table, and the column that tells the members or levels of a case apart."""

    table: pd.DataFrame
    key: str
    has_levels: bool
    values: tuple[str, ...] = ()  # known columns of values; none where they are still to be found
    notes: tuple[str, ...] = ()


def long_forecast(
    table: pd.DataFrame,
    name: str,
    time: str | None,
    runs: Sequence[str],
    site: str | None,
    targets: Sequence[str],
    read_as: ReadAs,
) -> ForecastValues | None:
    """The forecast in a long table; None where the table is not one."""
    rows = _rows(table, name, read_as)
    if rows is None:
        return None
    index, labels = case_index(rows.table, time, runs), site_labels(rows.table, site)
    if index is None:
        raise TableError(
            f"{name} has the column {rows.key!r} but none of the case; it is called time or case, or --time says which"
        )
    columns, notes = _value_columns(rows, [*index.names, *([] if labels is None else [labels.name])], targets, name)
    if labels is not None and len(columns) > 1:
        raise TableError(f"{name} must have one column of values beside that of sites, got {listed(columns)}")
    keys = _key_labels(rows, name)
    cases, case_codes = _coded(index)
    members, member_codes = _coded(keys)
    sites, site_codes = _coded(pd.Index(["" for _ in keys]) if labels is None else pd.Index(labels), sort=False)
    places = (case_codes, member_codes, site_codes)
    _require_once(rows, places, (cases, members, sites), name)
    numbers = column_numbers(rows.table, columns, name)  # (rows, T)
    values = np.full((len(cases), len(members), len(sites), len(columns)), np.nan)
    values[places] = numbers
    return ForecastValues(
        values.reshape(len(cases), len(members), -1),
        cases.set_names(index.names),
        tuple(columns) if labels is None else tuple(sites),
        levels=tuple(map(float, members)) if rows.has_levels else None,
        sited=labels is not None,
        ordered=labels is None,
        horizon=_horizons(rows, case_codes, index),
        notes=rows.notes + notes + zone_notes(rows.table, time_level(index)),
    )


def of_target(table: pd.DataFrame, name: str, target: str | None, required: bool = True) -> pd.DataFrame:
    """The rows of one target of a hub's table, of its forecasts or of what happened."""
    if target is None:
        return table
    if _HUB_TARGET not in table.columns:
        if required:
            raise TableError(f"a variable is one of a NetCDF file, or a target of a hub's table, but {name} has none")
        return table
    targets = table[_HUB_TARGET].astype("str")
    there = list(dict.fromkeys(targets.dropna()))
    if target in there:
        return table[(targets == target).to_numpy()].reset_index(drop=True)
    if required:
        raise TableError(f"{name} has no target {target!r}; {did_you_mean(target, there)}")
    return table


def _rows(table: pd.DataFrame, name: str, read_as: ReadAs) -> _Rows | None:
    if {_HUB_TYPE, _HUB_KEY, _HUB_VALUE} <= set(table.columns):
        return _hub_rows(table, name, read_as)
    lower = {str(column).lower(): str(column) for column in reversed(table.columns)}
    for names, has_levels in ((_MEMBER, False), (LEVEL_DIMENSIONS, True)):
        if (key := next((lower[known] for known in names if known in lower), None)) is not None:
            return _Rows(table, key, has_levels)
    return None


def _hub_rows(table: pd.DataFrame, name: str, read_as: ReadAs) -> _Rows:
    """The rows of quantiles, or of samples, for the one target of a hub's table."""
    kinds = table[_HUB_TYPE].astype("str").fillna("none")
    there = list(dict.fromkeys(kinds))
    wanted = [kind for kind in there if kind in _HUB_KINDS and read_as in ("auto", _HUB_KINDS[kind])]
    if not wanted:
        raise TableError(f"{name} has no output_type quantile or sample to read, it has {listed(there)}")
    if len(wanted) > 1:
        raise TableError(
            f"{name} has quantiles and samples; --read-as quantiles or --read-as members says which are meant"
        )
    chosen = table[(kinds == wanted[0]).to_numpy()].reset_index(drop=True)
    targets = [*chosen[_HUB_TARGET].unique()] if _HUB_TARGET in chosen.columns else []
    if len(targets) > 1:
        raise TableError(
            f"{name} has several targets, {listed([*map(str, targets)])}; --variable {str(targets[0])!r} takes one"
        )
    others = [kind for kind in there if kind != wanted[0]]
    notes = (f"left out beside the output_type {wanted[0]}: {listed(others)}",) if others else ()
    return _Rows(chosen, _HUB_KEY, wanted[0] == "quantile", (_HUB_VALUE,), notes)


def _value_columns(
    rows: _Rows, known: Sequence[object], wanted: Sequence[str], name: str
) -> tuple[list[str], tuple[str, ...]]:
    if rows.values:
        return list(rows.values), ()
    others = [str(column) for column in rows.table.columns if column not in (*known, rows.key)]
    numeric = [column for column in numeric_columns(rows.table) if column in others]
    misspelt = [column for column in others if column not in numeric and not is_text(rows.table[column])]
    column_numbers(rows.table, [column for column in misspelt if not wanted or column in wanted], name)
    if not numeric:
        besides = " and ".join(repr(column) for column in (rows.key, *known))
        raise TableError(f"{name} has no column of numbers besides {besides}")
    named = with_ranges(wanted, numeric, name)
    values, notes = (numeric, ()) if named and set(named) <= set(numeric) else without_coordinates(numeric)
    return target_columns(wanted, values, name), notes


def _key_labels(rows: _Rows, name: str) -> "pd.Index[Any]":
    """The member or the level of each row; members may have any name, levels are numbers."""
    column = rows.table[rows.key]
    if column.isna().any():
        what = "level" if rows.has_levels else "member"
        raise TableError(f"{name} must have a {what} in the column {rows.key!r} of every row")
    numbers = pd.to_numeric(column, errors="coerce")
    if rows.has_levels or not numbers.isna().any():
        return pd.Index(column_numbers(rows.table, [rows.key], name)[:, 0])
    return pd.Index(column.astype("str"))


def _horizons(rows: _Rows, case_codes: NDArray[np.intp], index: "pd.Index[Any]") -> NDArray[Any] | None:
    """How far ahead each case of a hub is; None where nothing tells, or the cases are known by it."""
    if not rows.values or _HUB_AHEAD not in rows.table.columns or _HUB_AHEAD in index.names:
        return None
    each = rows.table[_HUB_AHEAD].groupby(case_codes)
    return each.first().to_numpy() if each.nunique().eq(1).all() else None


def _coded(labels: "pd.Index[Any]", sort: bool = True) -> "tuple[pd.Index[Any], NDArray[np.intp]]":
    """The labels that there are, in ascending order or as they come, and the place of each row's among them."""
    codes, there = pd.factorize(labels, sort=sort)
    return as_index(there), codes


def _require_once(
    rows: _Rows, places: Sequence[NDArray[np.intp]], labels: "Sequence[pd.Index[Any]]", name: str
) -> None:
    sizes = [len(each) for each in labels]
    twice = np.flatnonzero(pd.Index(np.ravel_multi_index(tuple(places), sizes)).duplicated())
    if not len(twice):
        return
    case, key, site = (each[codes[twice[0]]] for each, codes in zip(labels, places, strict=True))
    what = "level" if rows.has_levels else "member"
    key = number_text(key) if isinstance(key, float) else key
    runs = [run for run in RUN_COLUMNS if run in rows.table.columns and rows.table[run].nunique() > 1]
    hint = f"; keep the rows of one {runs[0]}" if runs else ""
    case = ", ".join(map(str, case)) if isinstance(case, tuple) else case
    at_site = f" of site {site}" if site else ""
    raise TableError(f"{name} has {what} {key} of case {case}{at_site} more than once{hint}")


def table_forecast(
    table: pd.DataFrame,
    name: str,
    *,
    time: str | None = None,
    runs: Sequence[str] = (),
    site: str | None = None,
    columns: Sequence[str] = (),
    targets: Sequence[str] = (),
    read_as: ReadAs = "auto",
) -> ForecastValues:
    """The members or quantiles in a table, wide or long."""
    long = None if columns else long_forecast(table, name, time, runs, site, targets, read_as)
    return _wide(table, name, time, runs, site, columns, read_as) if long is None else long


def _wide(
    table: pd.DataFrame,
    name: str,
    time: str | None,
    runs: Sequence[str],
    site: str | None,
    wanted: Sequence[str],
    read_as: ReadAs,
) -> ForecastValues:
    index, sites = case_index(table, time, runs), site_labels(table, site)
    known = {*([] if index is None else index.names), *([] if sites is None else [sites.name])}
    others = [str(column) for column in table.columns if column not in known]
    if not others:
        raise TableError(f"{name} has no column of members")
    columns, notes = (chosen_columns(wanted, others, name), ()) if wanted else without_coordinates(others)
    _require_numbers(table, columns, name)
    roles = forecast_columns(columns, name, read_as, bool(wanted))
    values = np.stack([column_numbers(table, of_target, name) for of_target in roles.of_target.values()], -1)
    notes += roles.notes + zone_notes(table, time_level(index))
    if sites is not None:
        return replace(_by_site(values, index, sites, roles, name), named=read_as == "auto", notes=notes)
    index = pd.RangeIndex(len(table), name=ROW) if index is None else index
    require_once(index, name)
    targets = tuple(roles.of_target)
    points, named = read_as == "points", read_as == "auto"
    return ForecastValues(values, index, targets, roles.levels, named, not points, points and bool(wanted), notes)


def _by_site(
    values: Any,
    index: "pd.Index[Any] | None",
    labels: "pd.Series[Any]",
    roles: ForecastColumns,
    name: str,
) -> ForecastValues:
    """The values of each case and site, of a table that has a row for each: (rows, M, 1) to (N, M, sites)."""
    if len(roles.of_target) > 1:
        raise TableError(
            f"{name} has sites in the column {labels.name!r} and in the names of others, {listed([*roles.of_target])}"
        )
    if index is None:
        if labels.duplicated().any():
            raise TableError(
                f"{name} has the column {labels.name!r} but none of the case; it is called time or case, or --time "
                "says which"
            )
        index = pd.Index(np.zeros(len(labels), np.int64), name=ROW)
    levels: list[Any] = [*(index.get_level_values(level) for level in range(index.nlevels)), labels]
    require_once(pd.MultiIndex.from_arrays(levels, names=[*index.names, labels.name]), name)
    case_codes, cases = pd.factorize(index)
    site_codes, sites = pd.factorize(labels)
    placed = np.full((len(cases), values.shape[1], len(sites)), np.nan)
    placed[case_codes, :, site_codes] = values[..., 0]
    cases = as_index(cases).set_names(index.names)
    return ForecastValues(placed, cases, tuple(map(str, sites)), roles.levels, sited=True)


def _require_numbers(table: pd.DataFrame, columns: Sequence[str], name: str) -> None:
    numeric = set(numeric_columns(table))
    text = next((column for column in columns if column not in numeric and is_text(table[column])), None)
    if text is not None:
        raise TableError(
            f"{name} has text in the column {text!r}; columns of members hold numbers, and the column of the case "
            "is called time or case, or --time says which it is; --site says which is of sites"
        )
