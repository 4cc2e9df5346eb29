"""A forecast as a table has it, wide or long: its members or quantiles, and how its cases are known."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from stakes.data.forecasts.columns import (
    LEVEL_DIMENSIONS,
    MEMBER_DIMENSIONS,
    RUN_COLUMNS,
    ForecastColumns,
    chosen_columns,
    forecast_columns,
    site_labels,
    target_columns,
    with_ranges,
    without_coordinates,
)
from stakes.data.forecasts.forecast_set import ROW, ForecastSet, Naming, as_index, one_row_each
from stakes.data.forecasts.layout import ForecastLayout, ReadAs
from stakes.data.tables.columns import (
    column_numbers,
    column_times,
    is_text,
    numeric_columns,
    require_columns,
    zone_notes,
)
from stakes.errors import TableError, did_you_mean, listed
from stakes.text import number_text

_PLACE = "their place"
_TIME = ("time", "valid_time", "datetime", "date", "ds", "timestamp", "target_end_date")
_CASE, _AHEAD = "case", "horizon"


def case_index(table: pd.DataFrame, time: str | None, runs: Sequence[str] = ()) -> "pd.Index[Any] | None":
    """The times, or the labels in the column `case`, or what counts the rows, as `ds` and `horizon` may; or None."""
    index = _times_or_labels(table, time)
    if not runs:
        return index
    levels = [*([] if index is None else [index]), *(_run_labels(table, run) for run in runs)]
    return levels[0] if len(levels) == 1 else pd.MultiIndex.from_arrays(levels, names=[each.name for each in levels])


def _run_labels(table: pd.DataFrame, column: str) -> "pd.Index[Any]":
    """Hours, or times."""
    require_columns(table, [column], "issued or lead")
    if not pd.api.types.is_numeric_dtype(table[column].dtype):
        return pd.DatetimeIndex(column_times(table, column, unique=False), name=column)
    if len(missing := np.flatnonzero(table[column].isna().to_numpy())):
        raise TableError(f"column {column!r} must hold hours in every row, but data row {missing[0] + 1} has none")
    return pd.Index(table[column].astype(np.float64), name=column)


def _times_or_labels(table: pd.DataFrame, time: str | None) -> "pd.Index[Any] | None":
    known = time is None
    if time is None:
        lower = {str(column).lower(): str(column) for column in reversed(table.columns)}
        time = next((lower[name] for name in (*_TIME, _CASE, _AHEAD) if name in lower), None)
    if time is None:
        return None
    counts = known and time.lower() in ("ds", _AHEAD) and pd.api.types.is_numeric_dtype(table[time].dtype)
    if counts and not table[time].isna().any():
        return pd.Index(table[time], name=time)
    if time.lower() not in (_CASE, _AHEAD):
        return pd.DatetimeIndex(column_times(table, time, unique=False), name=time)
    require_columns(table, [time], "case")
    if len(missing := np.flatnonzero(table[time].isna().to_numpy())):
        raise TableError(f"column {time!r} must hold a label in every row, but data row {missing[0] + 1} has none")
    return pd.Index(table[time].astype("str"), name=time)


def time_level(index: "pd.Index[Any] | None") -> Any:
    """The column of the times in an index of cases; None where there are none."""
    first = index.get_level_values(0) if index is not None else None
    return first.name if isinstance(first, pd.DatetimeIndex) else None


def require_once(index: "pd.Index[Any]", name: str) -> None:
    """Raise where a case is there more than once."""
    if not index.is_unique:
        twice = index[index.duplicated()]
        which = ", ".join(map(str, twice[0])) if isinstance(index, pd.MultiIndex) else twice[0]
        kinds = " and ".join(map(str, index.names))
        raise TableError(f"{name} has the {kinds} {which} more than once ({len(twice)} in all)")


Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CaseRows:
    """The rows of a table, each known by its case; several rows of one case, such as its members, must agree."""

    table: pd.DataFrame  # the table, of n rows
    name: str  # what messages call its file
    index: "pd.Index[Any]"  # the case of each row, (n,); rows counted from 0 where nothing else is known
    sites: "pd.Series[Any] | None" = None  # the site of each row, (n,); None where there is no column of sites

    @classmethod
    def of(
        cls, table: pd.DataFrame, name: str, time: str | None, runs: Sequence[str] = (), site: str | None = None
    ) -> Self:
        """The rows of a table."""
        index, sites = case_index(table, time, runs), site_labels(table, site)
        if index is None and sites is not None and not sites.duplicated().any():  # one case, with a row for each site
            index = pd.Index(np.zeros(len(table), np.int64), name=ROW)
        return cls(table, name, pd.RangeIndex(len(table), name=ROW) if index is None else index, sites)

    @property
    def by_place(self) -> bool:
        """Whether nothing but its place tells the case of a row."""
        return _kind(self.index) == _PLACE

    def values(self, columns: Sequence[str], cases: "pd.Index[Any]", sites: NDArray[Any] | None = None) -> Floats:
        """The numbers (N, C) of columns for some cases, NaN where the table has no such case or number."""
        self._require_kind(cases)
        by_site = sites is not None and self.sites is not None
        rows, wanted = (_with(self.index, self.sites), _with(cases, sites)) if by_site else (self.index, cases)
        numbers = pd.DataFrame(column_numbers(self.table, columns, self.name), index=rows, columns=list(columns))
        return one_row_each(numbers, self.name).reindex(wanted).to_numpy(np.float64)

    def has(self, cases: "pd.Index[Any]", sites: NDArray[Any]) -> NDArray[np.bool_]:
        """Whether there is a row of each case and site, (N,), or of the case where no column tells sites."""
        by_site = self.sites is not None
        rows, wanted = (_with(self.index, self.sites), _with(cases, sites)) if by_site else (self.index, cases)
        has_row: NDArray[np.bool_] = wanted.isin(rows)
        return has_row

    def among(self, cases: "pd.Index[Any]", sites: Sequence[str]) -> NDArray[np.bool_]:
        """Whether each row, (n,), is of one of some cases, and of one of some sites where a column tells them."""
        of_cases: NDArray[np.bool_] = self.index.isin(cases)
        return of_cases if self.sites is None else of_cases & self.sites.isin(list(sites)).to_numpy()

    def _require_kind(self, cases: "pd.Index[Any]") -> None:
        """Raise where times are looked up among labels, or rows among times."""
        words = [_kind(each) for each in (self.index, cases)]
        if words[0] != words[1]:
            raise TableError(
                f"{self.name} has cases by {words[0]}, but the forecasts have them by {words[1]}; give the column of "
                "times the same name in both, and name it with --time"
            )
        if words[0] == _PLACE and self.index.max() != cases.max():
            raise TableError(
                f"{self.name} has {self.index.max() + 1} rows, but the forecasts have {cases.max() + 1}; without "
                "times or labels both must have equally many"
            )


def _kind(index: "pd.Index[Any]") -> str:
    first = index.get_level_values(0)
    return "time" if isinstance(first, pd.DatetimeIndex) else _PLACE if first.name == ROW else "label"


def _with(index: "pd.Index[Any]", sites: Any) -> pd.MultiIndex:
    levels = [index.get_level_values(level) for level in range(index.nlevels)]
    return pd.MultiIndex.from_arrays([*levels, np.asarray(sites, dtype=object)])


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


def table_forecast(cases: CaseRows, layout: ForecastLayout) -> ForecastSet:
    """The members or quantiles in a table, wide or long."""
    table, name = cases.table, cases.name
    table = table.drop(columns=[column for column in layout.beside if column in table.columns])
    rows = None if layout.columns else _rows(table, name, layout.read_as)
    return _wide(table, cases, layout) if rows is None else _long(rows, name, layout)


def _long(rows: _Rows, name: str, layout: ForecastLayout) -> ForecastSet:
    index, labels = case_index(rows.table, layout.time, layout.runs), site_labels(rows.table, layout.site)
    if index is None:
        raise TableError(
            f"{name} has the column {rows.key!r} but none that names the case; call it time or case, or use --time"
        )
    known = [*index.names, *([] if labels is None else [labels.name])]
    columns, notes = _value_columns(rows, known, layout.outcomes, name)
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
    return ForecastSet(
        values.reshape(len(cases), len(members), -1),
        targets=tuple(columns) if labels is None else tuple(sites),
        index=cases.set_names(index.names),
        levels=tuple(map(float, members)) if rows.has_levels else None,
        naming=Naming(sites=labels is not None, order=labels is None),
        incomplete=True,
        horizon=_horizons(rows, case_codes, index),
        notes=rows.notes + notes + zone_notes(rows.table, time_level(index)),
    )


def of_target(table: pd.DataFrame, name: str, target: str | None, required: bool = True) -> pd.DataFrame:
    """The rows of one target of a hub's table, of its forecasts or of what happened."""
    if target is None:
        return table
    if _HUB_TARGET not in table.columns:
        if required:
            raise TableError(
                f"--variable is for NetCDF files and for the targets of a hub's table, but {name} has none"
            )
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
        raise TableError(f"{name} has quantiles and samples; give --read-as quantiles or --read-as members")
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
    named = set(with_ranges(wanted, numeric, name))
    values, notes = without_coordinates(numeric)
    if named <= set(numeric) and not named <= set(values):  # coordinates that are meant
        values, notes = numeric, ()
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


def _wide(table: pd.DataFrame, cases: CaseRows, layout: ForecastLayout) -> ForecastSet:
    name, index, sites = cases.name, cases.index, cases.sites
    known = {*([] if cases.by_place else index.names), *([] if sites is None else [sites.name])}
    others = [str(column) for column in table.columns if column not in known]
    if not others:
        raise TableError(f"{name} has no column of members")
    chosen = bool(layout.columns)
    columns, notes = (chosen_columns(layout.columns, others, name), ()) if chosen else without_coordinates(others)
    numeric = set(numeric_columns(table))
    if (text := next((each for each in columns if each not in numeric and is_text(table[each])), None)) is not None:
        raise TableError(
            f"{name} has text in the column {text!r}, where members must be numbers: name the columns of the forecast "
            "with --columns, a column of cases with --time, or one of sites with --site"
        )
    roles = forecast_columns(columns, name, layout.read_as, chosen)
    values = np.stack([column_numbers(table, of_target, name) for of_target in roles.of_target.values()], -1)
    notes += roles.notes + zone_notes(table, time_level(index))
    named = layout.read_as == "auto"
    if sites is not None:
        by_site = _by_site(values, index, sites, roles, name)
        own = (tuple(columns),) * len(by_site.targets)
        return replace(by_site, naming=Naming(levels=named, sites=True), notes=notes, columns=own)
    require_once(index, name)
    points = layout.read_as == "points"
    own = tuple(map(tuple, roles.of_target.values()))
    return ForecastSet(
        values,
        targets=tuple(roles.of_target),
        index=index,
        levels=roles.levels,
        naming=Naming(named, sites=not points, order=points and chosen),
        incomplete=True,
        notes=notes,
        columns=own,
    )


def _by_site(
    values: Any,
    index: "pd.Index[Any]",
    labels: "pd.Series[Any]",
    roles: ForecastColumns,
    name: str,
) -> ForecastSet:
    """The values of each case and site, of a table that has a row for each: (rows, M, 1) to (N, M, sites)."""
    if len(roles.of_target) > 1:
        raise TableError(
            f"{name} has sites in the column {labels.name!r} and in the names of others, {listed([*roles.of_target])}"
        )
    if _kind(index) == _PLACE and labels.duplicated().any():
        raise TableError(
            f"{name} has the column {labels.name!r} but none that names the case; call it time or case, or use --time"
        )
    levels: list[Any] = [*(index.get_level_values(level) for level in range(index.nlevels)), labels]
    require_once(pd.MultiIndex.from_arrays(levels, names=[*index.names, labels.name]), name)
    case_codes, cases = pd.factorize(index)
    site_codes, sites = pd.factorize(labels)
    placed = np.full((len(cases), values.shape[1], len(sites)), np.nan)
    placed[case_codes, :, site_codes] = values[..., 0]
    cases = as_index(cases).set_names(index.names)
    return ForecastSet(placed, targets=tuple(map(str, sites)), index=cases, levels=roles.levels, incomplete=True)
