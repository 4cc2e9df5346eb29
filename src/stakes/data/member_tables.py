"""The members, or quantiles, in a table: one column for each, or one row."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from stakes.data.case_index import ROW, case_index, require_once
from stakes.data.forecast_columns import ReadAs, forecast_columns
from stakes.data.forecast_values import ForecastValues
from stakes.data.member_columns import chosen_columns, target_columns, without_coordinates
from stakes.data.table_columns import column_numbers, numeric_columns, zone_notes
from stakes.errors import TableError

__all__ = ["table_forecast"]

_NUMBER = ("number", "member", "realization", "realisation")


def table_forecast(
    table: pd.DataFrame,
    name: str,
    *,
    time: str | None = None,
    columns: Sequence[str] = (),
    targets: Sequence[str] = (),
    read_as: ReadAs = "auto",
) -> ForecastValues:
    """The members or quantiles in a table, wide or long.

    Args:
        table: The table.
        name: What messages call the file.
        time: The column of times; None looks for the usual names and for a column `case`.
        columns: The members of a wide table, also as ranges such as m1:m50; none for all that look like members.
        targets: The columns of values of a long table; none for the only one.
        read_as: What the columns of a wide table hold.
    """
    number = next((column for column in _NUMBER if column in table.columns and not columns), None)
    if number is None:
        return _wide(table, name, time, columns, read_as)
    return _long(table, name, time, number, targets)


def _wide(table: pd.DataFrame, name: str, time: str | None, wanted: Sequence[str], read_as: ReadAs) -> ForecastValues:
    index = case_index(table, time)
    others = [str(column) for column in table.columns if index is None or column != index.name]
    if not others:
        raise TableError(f"{name} has no column of members")
    columns, notes = (chosen_columns(wanted, others, name), ()) if wanted else without_coordinates(others)
    numeric = set(numeric_columns(table))
    text = next((column for column in columns if column not in numeric and _is_text(table[column])), None)
    if text is not None:
        raise TableError(
            f"{name} has text in the column {text!r}; columns of members hold numbers, and the column of the case "
            "is called time or case"
        )
    found = forecast_columns(columns, name, read_as, bool(wanted))
    values = np.stack([column_numbers(table, of_target, name) for of_target in found.of_target.values()], -1)
    notes += found.notes
    notes += zone_notes(table, index.name if isinstance(index, pd.DatetimeIndex) else None)
    index = pd.RangeIndex(len(table), name=ROW) if index is None else index
    require_once(index, name)
    targets = tuple(found.of_target)
    return ForecastValues(values, index, targets, found.levels, sited=read_as != "points", notes=notes)


def _long(table: pd.DataFrame, name: str, time: str | None, number: str, wanted: Sequence[str]) -> ForecastValues:
    index = case_index(table, time)
    if index is None:
        raise TableError(f"{name} has the column {number!r} but none of the case; it is called time or case")
    numeric = [column for column in numeric_columns(table) if column not in (index.name, number)]
    if not numeric:
        raise TableError(f"{name} has no column of numbers besides {number!r} and {index.name!r}")
    values, notes = (numeric, ()) if wanted and set(wanted) <= set(numeric) else without_coordinates(numeric)
    targets = target_columns(wanted, values, name)
    keys = pd.MultiIndex.from_arrays([index, column_numbers(table, [number], name)[:, 0]])
    if keys.get_level_values(1).hasnans:
        raise TableError(f"{name} must have a member in the column {number!r} of every row")
    if len(twice := np.flatnonzero(keys.duplicated())):
        case, member = keys[twice[0]]
        raise TableError(f"{name} has member {member:g} of case {case} more than once")
    wide = pd.DataFrame(column_numbers(table, targets, name), keys).unstack().sort_index()
    members = wide.to_numpy(np.float64).reshape(len(wide), len(targets), -1).swapaxes(1, 2)
    notes += zone_notes(table, index.name if isinstance(index, pd.DatetimeIndex) else None)
    return ForecastValues(members, wide.index.set_names(index.name), tuple(targets), notes=notes)


def _is_text(column: "pd.Series[Any]") -> bool:
    """Whether most of a column is text, not a number misspelt."""
    present = column.dropna().astype("str")
    return bool(pd.to_numeric(present, errors="coerce").isna().mean() > 0.5)
