"""Tables of users, read from any file and written to CSV or parquet."""

import gzip
import io
import math
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_float_dtype

from stakes.data.records.series_files import read_series
from stakes.data.tables.files import PARQUET, file_suffix, read_flat_file
from stakes.data.tables.gridded_files import is_gridded
from stakes.errors import StakesError, TableError
from stakes.files import write_atomically

_FORMULA = ("=", "+", "-", "@")
_DIGITS = 14  # that a sum of numbers of double precision can be trusted to have


def read_table(
    path: Path, keys: Collection[str] = (), /, *, separator: str | None = None, encoding: str | None = None
) -> pd.DataFrame:
    """The table in a CSV file (any usual separator, also .tsv, .txt, .gz) or a parquet file, with at least one row.

    A NetCDF file or a Zarr store becomes the column `time` and the columns of `read_series`.
    The decimal comma of a text file is recognised, and its missing values are empty fields, NA, NaN, null, None and a
    hyphen.
    """
    path = Path(path)
    return _series_table(path) if is_gridded(path) else read_flat_file(path, separator, encoding, keys)


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write a table to a file, atomically."""
    path = Path(path)
    suffix = file_suffix(path)
    table = table.reset_index() if any(name is not None for name in table.index.names) else table
    if suffix in PARQUET:
        stream = io.BytesIO()
        table.to_parquet(stream, index=False)
        content = stream.getvalue()
    elif suffix in (".csv", ".csv.gz"):
        content = csv_text(table).encode()
        content = gzip.compress(content, mtime=0) if suffix == ".csv.gz" else content
    else:
        raise TableError(f"a table is written to a .csv or .parquet file, got {str(path)!r}")
    write_atomically(path, content)


def csv_text(table: pd.DataFrame) -> str:
    """The text of a CSV file; times with a zone are written as ISO in UTC, such as 2020-02-01T13:00:00Z.

    Names and texts that a spreadsheet would take for a formula, since they begin with = + - or @, have an apostrophe in
    front; numbers have none.

    >>> csv_text(pd.DataFrame({"=a": ["@b", "-c"], "d": [-1.5, 2.0]})).splitlines()
    ["'=a,d", "'@b,-1.5", "'-c,2.0"]
    """
    table = table.copy(deep=False)
    for column in table.select_dtypes("datetimetz"):
        table[column] = table[column].dt.tz_convert("UTC").dt.strftime("%Y-%m-%dT%H:%M:%SZ")
    for column in table.select_dtypes(["object", "str", "category"]):
        table[column] = table[column].map(_no_formula, na_action="ignore")
    return table.rename(columns=_no_formula).to_csv(index=False, lineterminator="\n")


def without_noise(table: pd.DataFrame) -> pd.DataFrame:
    """The table with no more digits than its numbers have: 14 of the largest of a column, 7 in single precision.

    >>> without_noise(pd.DataFrame({"a": [4159.999999999991, 6.1e-17], "b": np.float32([0.1, 0.2])})).values.tolist()
    [[4160.0, 0.1], [0.0, 0.2]]
    """
    return table.apply(lambda column: _without_noise(column) if is_float_dtype(column.dtype) else column)


def _without_noise(column: "pd.Series[Any]") -> "pd.Series[Any]":
    if column.dtype == np.float32:
        return column.astype("str").astype(np.float64)
    largest = column[np.isfinite(column)].abs().max()
    return column.round(_DIGITS - 1 - math.floor(math.log10(largest))) + 0.0 if largest > 0 else column


def _no_formula(cell: Any) -> Any:
    if not isinstance(cell, str) or not cell.startswith(_FORMULA):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def _series_table(path: Path) -> pd.DataFrame:
    try:
        record = read_series(str(path))
    except StakesError as error:
        raise TableError(str(error)) from error
    if "time" in record.columns:
        raise TableError(f"{str(path)!r} has a variable 'time' besides its times")
    return pd.DataFrame({"time": record.times, **dict(zip(record.columns, record.values.T, strict=True))})
