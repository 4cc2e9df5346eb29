"""How cases are named to people: times in UTC, rows as a reader of the file counts them."""

from typing import Any

import pandas as pd

__all__ = ["case_labels", "in_utc"]


def case_labels(index: "pd.Index[Any]") -> "pd.Index[Any]":
    """Times and names as they are, rows counted from 1 as a reader of the file does.

    Args:
        index: The index of the cases; one called "row" counts from 0.
    """
    return index + 1 if index.name == "row" else index


def in_utc(table: pd.DataFrame) -> pd.DataFrame:
    """The table with its cases' times, in the first column where there are some, marked as UTC.

    Args:
        table: One row per case; times without a zone in its first column are those of the cases.
    """
    first = table.columns[0]
    if not pd.api.types.is_datetime64_dtype(table[first].dtype):
        return table
    return table.assign(**{first: table[first].dt.tz_localize("UTC")})
