"""How cases are named to people: times in UTC, rows as a reader of the file counts them."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = ["case_labels", "in_utc", "newest_cases", "told_labels"]


def case_labels(index: "pd.Index[Any]") -> "pd.Index[Any]":
    """Times and names as they are, rows counted from 1 as a reader of the file does.

    Args:
        index: The index of the cases; one called "row", or a first level of this name, counts from 0.
    """
    if isinstance(index, pd.MultiIndex) and index.names[0] == "row":
        rows, *others = (index.get_level_values(level) for level in range(index.nlevels))
        return pd.MultiIndex.from_arrays([rows + 1, *others], names=index.names)
    return index + 1 if index.name == "row" else index


def newest_cases(index: "pd.Index[Any]") -> NDArray[np.int64]:
    """The place of the newest case, or of all sites of it where each is a case by itself.

    Args:
        index: The index of the cases, with their sites as a second level where there are some.
    """
    if isinstance(index, pd.MultiIndex):
        newest = index.get_level_values(0)
        return np.flatnonzero(newest == newest.max())
    return np.argsort(index, kind="stable")[-1:]


def in_utc(table: pd.DataFrame) -> pd.DataFrame:
    """The table with its cases' times, in the first column where there are some, marked as UTC.

    Args:
        table: One row per case; times without a zone in its first column are those of the cases.
    """
    first = table.columns[0]
    if not pd.api.types.is_datetime64_dtype(table[first].dtype):
        return table
    return table.assign(**{first: table[first].dt.tz_localize("UTC")})


def told_labels(index: "pd.Index[Any]") -> tuple[str, ...]:
    """The cases as messages call them, times as tables write them.

    >>> told_labels(pd.DatetimeIndex(["2020-02-01T13:00"])), told_labels(pd.Index([7]))
    (('2020-02-01T13:00:00Z',), ('7',))

    Args:
        index: The index of the cases, as `case_labels` gives it; a case of several levels is told by all of them.
    """
    return tuple(_told(each) for each in index)


def _told(label: Any) -> str:
    if isinstance(label, tuple):
        return ", ".join(map(_told, label))
    return f"{label.isoformat()}Z" if isinstance(label, pd.Timestamp) else str(label)
