"""What a table says of cases: its rows, looked up by their time or label, by their run, and by their site."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from stakes.data.case_index import ROW, case_index
from stakes.data.site_columns import site_labels
from stakes.data.table_columns import column_numbers
from stakes.errors import TableError

__all__ = ["CaseRows", "one_row_each"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CaseRows:
    """The rows of a table, each known by its case; several rows of one case, such as its members, must agree.

    Attributes:
        table: The table, of n rows.
        name: What messages call its file.
        index: The case of each row, (n,); rows counted from 0 where nothing else is known.
        sites: The site of each row, (n,); None where there is no column of sites.
    """

    table: pd.DataFrame
    name: str
    index: "pd.Index[Any]"
    sites: "pd.Series[Any] | None" = None

    @classmethod
    def of(
        cls, table: pd.DataFrame, name: str, time: str | None, runs: Sequence[str] = (), site: str | None = None
    ) -> Self:
        """The rows of a table.

        Args:
            table: The table.
            name: What messages call its file.
            time: The column of times; None looks for the usual names and for a column `case`.
            runs: Columns that tell the forecasts of one time apart.
            site: The column of sites; None looks for the usual names.
        """
        index = case_index(table, time, runs)
        index = pd.RangeIndex(len(table), name=ROW) if index is None else index
        return cls(table, name, index, site_labels(table, site))

    def values(self, columns: Sequence[str], cases: "pd.Index[Any]", sites: NDArray[Any] | None = None) -> Floats:
        """The numbers (N, C) of columns for some cases, NaN where the table has no such case or number.

        Args:
            columns: The names of C columns.
            cases: N cases, of the same kind as those of the table.
            sites: The site of each case, where the rows of one site are meant; None looks cases up without.
        """
        self._require_kind(cases)
        by_site = sites is not None and self.sites is not None
        rows, wanted = (_with(self.index, self.sites), _with(cases, sites)) if by_site else (self.index, cases)
        numbers = pd.DataFrame(column_numbers(self.table, columns, self.name), index=rows, columns=list(columns))
        return one_row_each(numbers, self.name).reindex(wanted).to_numpy(np.float64)

    def has(self, cases: "pd.Index[Any]", sites: NDArray[Any]) -> NDArray[np.bool_]:
        """Whether there is a row of each case and site, (N,), or of the case where no column tells sites.

        Args:
            cases: N cases, of the same kind as those of the table.
            sites: The site of each case.
        """
        by_site = self.sites is not None
        rows, wanted = (_with(self.index, self.sites), _with(cases, sites)) if by_site else (self.index, cases)
        has_row: NDArray[np.bool_] = wanted.isin(rows)
        return has_row

    def among(self, cases: "pd.Index[Any]", sites: Sequence[str]) -> NDArray[np.bool_]:
        """Whether each row, (n,), is of one of some cases, and of one of some sites where a column tells them.

        Args:
            cases: N cases, of the same kind as those of the table.
            sites: Names of sites.
        """
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
    """The numbers with one row for each case, from rows of which several of one case must agree.

    Args:
        numbers: The numbers, by their case.
        name: What the message calls their file.
    """
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
