"""A forecast as a file has it, before anything is made of its numbers, and how its cases are known."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from stakes.data.forecasts.columns import site_labels
from stakes.data.tables.columns import column_numbers, column_times, require_columns
from stakes.data.tables.time_axis import Times
from stakes.errors import TableError
from stakes.text import number_order, shortened

ROW = "row"
"""The name of an index that counts the rows of a file, from 0."""

_TIME = ("time", "valid_time", "datetime", "date", "ds", "timestamp", "target_end_date")
_CASE, _AHEAD = "case", "horizon"


def case_index(table: pd.DataFrame, time: str | None, runs: Sequence[str] = ()) -> "pd.Index[Any] | None":
    """The times, or the labels in the column `case`, of the rows; None where there are neither.

    A column `ds` may count instead of telling times, and `horizon` does where nothing else tells cases apart.
    """
    index = _times_or_labels(table, time)
    if not runs:
        return index
    levels = [*([] if index is None else [index]), *(_run_labels(table, run) for run in runs)]
    return levels[0] if len(levels) == 1 else pd.MultiIndex.from_arrays(levels, names=[each.name for each in levels])


def cases_text(index: "pd.Index[Any]", chosen: NDArray[np.bool_]) -> str:
    """The first of some cases, as a message has it, and how many more there are."""
    places = np.flatnonzero(chosen)
    label: Any = index[places[0]]
    text = ", ".join(map(str, label)) if isinstance(label, tuple) else str(label)
    more = f" and {len(places) - 1} more" if len(places) > 1 else ""
    return f"data row {label + 1}{more}" if index.name == ROW else f"case {text}{more}"


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


def as_index(labels: Any) -> "pd.Index[Any]":
    """Labels as an index; one of several levels as it is, since `pd.Index` would make tuples of them."""
    return labels if isinstance(labels, pd.Index) else pd.Index(labels)


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
        raise TableError(f"{name} has the {kinds} {which} more than once ({len(twice)} such)")


@dataclass(frozen=True, eq=False)
class ForecastValues:
    """The numbers of a file of forecasts, NaN where one is missing."""

    values: NDArray[np.float64]  # what is forecast, (N, M, D): cases, members or quantiles, and targets
    index: "pd.Index[Any]"
    targets: tuple[str, ...]  # the names of the D targets
    levels: tuple[float, ...] | None = None
    named: bool = False  # whether the levels were told by the names of columns alone, which may mean something else
    sited: bool = False
    ordered: bool = False  # whether the user has named the targets one by one, and so given their order
    notes: tuple[str, ...] = ()  # sentences about what the user should know
    times: Times | None = None
    issued: Times | None = None
    horizon: NDArray[Any] | None = None
    unit: str | None = None  # the unit of the values, where a gridded file tells; None otherwise, and in tables

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
        """Some of the cases."""
        beside = {name: each[chosen] for name, each in self._beside.items()}
        return replace(self, values=self.values[chosen], index=self.index[chosen], **beside)

    @property
    def _beside(self) -> dict[str, Any]:
        """What is known of each case beside its values."""
        fields = {"times": self.times, "issued": self.issued, "horizon": self.horizon}
        return {name: each for name, each in fields.items() if each is not None}

    def only(self, targets: Sequence[str]) -> Self:
        """The same with these targets alone."""
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
    """What the user should know of outcomes that a file has in another order than that of their numbers."""
    return f"outcomes are taken in the order of their numbers, not in that of the file: {shortened(targets)}"


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
        index = case_index(table, time, runs)
        index = pd.RangeIndex(len(table), name=ROW) if index is None else index
        return cls(table, name, index, site_labels(table, site))

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
                f"{self.name} has its cases by {words[0]}, but the forecasts theirs by {words[1]}; --time says which "
                "column holds the times, in both"
            )
        if words[0] == "their place" and len(self.index) <= cases.max():
            raise TableError(
                f"{self.name} has {len(self.index)} rows, but the forecasts {cases.max() + 1}; without times or labels "
                "for both there must be as many"
            )


def one_row_each(numbers: pd.DataFrame, name: str) -> pd.DataFrame:
    """The numbers with one row for each case, from rows of which several of one case must agree."""
    once = numbers[~numbers.reset_index().duplicated().to_numpy()]
    if once.index.is_unique:
        return once
    case = once.index[once.index.duplicated()][0]
    several = once.loc[[case]]
    column = next(each for each in several.columns if several[each].nunique(dropna=False) > 1)
    first, second = (f"{value:.15g}" for value in several[column].drop_duplicates()[:2])
    label = ", ".join(map(str, case)) if isinstance(case, tuple) else case
    raise TableError(f"{name} must have one {column!r} a case, but {label} has both {first} and {second}")


def _kind(index: "pd.Index[Any]") -> str:
    first = index.get_level_values(0)
    return "time" if isinstance(first, pd.DatetimeIndex) else "their place" if first.name == ROW else "label"


def _with(index: "pd.Index[Any]", sites: Any) -> pd.MultiIndex:
    levels = [index.get_level_values(level) for level in range(index.nlevels)]
    return pd.MultiIndex.from_arrays([*levels, np.asarray(sites, dtype=object)])
