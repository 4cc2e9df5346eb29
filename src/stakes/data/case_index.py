"""How the cases of a table of forecasts are known: by their time, by the column `case`, or by their place."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from stakes.data.table_columns import column_times, require_columns
from stakes.errors import TableError

__all__ = ["ROW", "as_index", "case_index", "cases_text", "require_once", "time_level"]

ROW = "row"
"""The name of an index that counts the rows of a file, from 0."""

_TIME = ("time", "valid_time", "datetime", "date", "ds", "timestamp", "target_end_date")
_CASE, _AHEAD = "case", "horizon"


def case_index(table: pd.DataFrame, time: str | None, runs: Sequence[str] = ()) -> "pd.Index[Any] | None":
    """The times, or the labels in the column `case`, of the rows; None where there are neither.

    A column `ds` may count instead of telling times, and `horizon` does where nothing else tells cases apart.

    Args:
        table: The table.
        time: The column of times; None looks for the usual names and for a column `case`.
        runs: Columns that tell the forecasts of one time apart, by when they were made or by how many hours ahead;
            each is a further level of the index.
    """
    index = _times_or_labels(table, time)
    if not runs:
        return index
    levels = [*([] if index is None else [index]), *(_run_labels(table, run) for run in runs)]
    return levels[0] if len(levels) == 1 else pd.MultiIndex.from_arrays(levels, names=[each.name for each in levels])


def cases_text(index: "pd.Index[Any]", chosen: NDArray[np.bool_]) -> str:
    """The first of some cases, as a message has it, and how many more there are.

    Args:
        index: All cases.
        chosen: True for each that is meant, one at least.
    """
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
    """Labels as an index; one of several levels as it is, since `pd.Index` would make tuples of them.

    Args:
        labels: An index, or an array of labels.
    """
    return labels if isinstance(labels, pd.Index) else pd.Index(labels)


def time_level(index: "pd.Index[Any] | None") -> Any:
    """The column of the times in an index of cases; None where there are none.

    Args:
        index: The cases, as `case_index` has them.
    """
    first = index.get_level_values(0) if index is not None else None
    return first.name if isinstance(first, pd.DatetimeIndex) else None


def require_once(index: "pd.Index[Any]", name: str) -> None:
    """Raise where a case is there more than once.

    Args:
        index: The cases.
        name: What the message calls the file.
    """
    if not index.is_unique:
        twice = index[index.duplicated()]
        which = ", ".join(map(str, twice[0])) if isinstance(index, pd.MultiIndex) else twice[0]
        kinds = " and ".join(map(str, index.names))
        raise TableError(f"{name} has the {kinds} {which} more than once ({len(twice)} such)")
