"""Tables of users, in and out, and the numbers and times in them, or one sentence about what is wrong.

Rows are counted as a reader of the file does: data row 1 is the first below the header.
"""

import gzip
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from numpy.typing import NDArray

from stakes.data.csv_files import parse_delimited
from stakes.data.record_files import read_series
from stakes.data.time_axis import Times
from stakes.data.xarray_files import is_gridded
from stakes.errors import StakesError, TableError, did_you_mean, one_line
from stakes.files import write_atomically
from stakes.settings import shown

__all__ = ["TableError", "csv_text", "is_numeric", "numbers", "read_table", "require_columns", "times", "write_table"]
__all__ += ["zone_notes"]

_TEXT = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
_PARQUET = (".parquet", ".pq")
_SHEETS = (".xlsx", ".xls", ".xlsm", ".ods")
_ISO = re.compile(r"\d{4}.*")
_ZONED = r"[T:].*(?:Z|[+-]\d\d(?::?\d\d)?)$"
_ZERO = r"(?:Z|[+-]00(?::?00)?)$"
_EXAMPLE = "2020-02-01 13:00"


def read_table(path: Path, *, separator: str | None = None, encoding: str | None = None) -> pd.DataFrame:
    """The table in a CSV file (any usual separator, also .tsv, .txt, .gz) or a parquet file, with at least one row.

    A NetCDF file or a Zarr store becomes the column `time` and the columns of `stakes.data.record_files.read_series`.
    The decimal comma of a text file is recognised, and its missing values are empty fields, NA, NaN, null, None and a
    hyphen.

    Args:
        path: The file, or the folder of a Zarr store; its name says what it is.
        separator: The character between the fields of a text file; None finds it out.
        encoding: The encoding of a text file; None finds it out: UTF-8, UTF-16, else Latin-1.
    """
    path = Path(path)
    if is_gridded(path):
        return _series_table(path)
    name, content = repr(str(path)), _content(path)
    table = (
        _parquet(content, name) if _suffix(path) in _PARQUET else parse_delimited(content, name, separator, encoding)
    )
    if not len(table) or not len(table.columns):
        raise TableError(f"{name} has {len(table)} rows and {len(table.columns)} columns, expected at least one each")
    return table


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write a .csv (.csv.gz) or .parquet file, atomically; a named index becomes the first column."""
    path = Path(path)
    suffix = _suffix(path)
    table = table.reset_index() if any(name is not None for name in table.index.names) else table
    if suffix in _PARQUET:
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
    """The table, without its index, as CSV; times with a zone as ISO in UTC, such as 2020-02-01T13:00:00Z."""
    table = table.copy(deep=False)
    for column in table.select_dtypes("datetimetz"):
        table[column] = table[column].dt.tz_convert("UTC").dt.strftime("%Y-%m-%dT%H:%M:%SZ")
    return table.to_csv(index=False, lineterminator="\n")


def require_columns(table: pd.DataFrame, columns: Sequence[str], what: str) -> None:
    """Raise unless the table has the columns."""
    known = [str(column) for column in table.columns]
    for column in columns:
        if column not in known:
            raise TableError(f"{what}: the table has no column {shown(column)}; {did_you_mean(column, known)}")


def is_numeric(column: "pd.Series[Any]") -> bool:
    """Whether a column holds numbers, or true and false."""
    return bool(pd.api.types.is_numeric_dtype(column.dtype)) and not pd.api.types.is_complex_dtype(column.dtype)


def numbers(table: pd.DataFrame, columns: Sequence[str], what: str) -> NDArray[np.float64]:
    """The columns as numbers (N, len(columns)), NaN where they are missing; `what` says what for, in messages."""
    require_columns(table, columns, what)
    found = [_column_numbers(table[column], column, what) for column in columns]
    return np.stack(found, axis=1) if found else np.empty((len(table), 0))


def times(table: pd.DataFrame, column: str, *, unique: bool = True) -> Times:
    """The column as times in UTC, datetime64[s] in the order of the rows, each known and, if so wanted, there once.

    Times without a zone are taken as UTC. Texts must be ISO: whether 01.02.2020 is in January or in February is not
    guessed.
    """
    require_columns(table, [column], "time")
    values = table[column]
    if not pd.api.types.is_datetime64_any_dtype(values.dtype):
        values = _parsed(values, column)
    if len(missing := np.flatnonzero(values.isna().to_numpy())):
        raise TableError(f"column {column!r} must hold a time in every row, but data row {missing[0] + 1} has none")
    naive = values.dt.tz_convert(None) if values.dt.tz is not None else values
    found = naive.to_numpy()
    seconds: Times = found.astype("datetime64[s]")
    if len(fractional := np.flatnonzero(seconds != found)):
        raise TableError(f"column {column!r} must hold whole seconds, got {naive.iloc[fractional[0]]}")
    if unique:
        _require_unique(seconds, column)
    return seconds


def zone_notes(table: pd.DataFrame, column: Any) -> tuple[str, ...]:
    """A sentence where the column of times, if there is one, is written in a zone other than UTC."""
    if column is None:
        return ()
    values = table[column]
    if pd.api.types.is_datetime64_any_dtype(values.dtype):
        another = values.dt.tz is not None and str(values.dt.tz) != "UTC"
    else:
        text = values.astype("str").str.strip()
        another = bool((text.str.contains(_ZONED, regex=True) & ~text.str.contains(_ZERO, regex=True)).any())
    return ("times are UTC here, although the table has them in another zone",) if another else ()


def _suffix(path: Path) -> str:
    """The suffix in lower case, with the one before .gz."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    return "".join(suffixes[-2:]) if suffixes[-1:] == [".gz"] else "".join(suffixes[-1:])


def _content(path: Path) -> bytes:
    name, suffix = repr(str(path)), _suffix(path)
    if path.is_dir():
        raise TableError(f"{name} is a folder, expected a CSV, parquet or NetCDF file, or a Zarr store, *.zarr")
    if not path.exists():
        same = sorted(other.name for other in path.parent.glob("*") if other.is_file()) if path.parent.is_dir() else []
        hint = did_you_mean(path.name, same)
        raise TableError(f"there is no file {name}" + (f"; {hint}" if hint.startswith("did you mean") else ""))
    if suffix in _SHEETS:
        raise TableError(f"{name} is a spreadsheet; export the sheet as CSV and give that file")
    if suffix not in (*_TEXT, *_PARQUET):
        raise TableError(f"{name} must end in .csv, .tsv, .txt (or these with .gz), .parquet, .nc or .zarr")
    try:
        return path.read_bytes()
    except OSError as error:
        raise TableError(f"{name} cannot be read: {error.strerror}") from error


def _series_table(path: Path) -> pd.DataFrame:
    try:
        record = read_series(str(path))
    except StakesError as error:
        raise TableError(str(error)) from error
    if "time" in record.columns:
        raise TableError(f"{str(path)!r} has a variable 'time' besides its times")
    return pd.DataFrame({"time": record.times, **dict(zip(record.columns, record.values.T, strict=True))})


def _parquet(content: bytes, name: str) -> pd.DataFrame:
    try:
        columns = list(pq.ParquetFile(io.BytesIO(content)).schema_arrow.names)
    except Exception as error:  # which ones damaged content can provoke is not documented
        raise TableError(f"{name} is no parquet file, or a damaged one") from error
    if twice := [column for place, column in enumerate(columns) if column in columns[:place]]:
        raise TableError(f"{name} has the column {twice[0]!r} twice; column names must differ")
    try:
        table = pd.read_parquet(io.BytesIO(content))
    except Exception as error:  # as above
        raise TableError(f"{name} cannot be read: {one_line(error)}") from error
    if table.index.names == [None] and isinstance(table.index, pd.DatetimeIndex) and "time" not in table.columns:
        table = table.rename_axis("time")
    table = table.reset_index(drop=table.index.names == [None])  # row numbers are no column
    if isinstance(table.columns, pd.MultiIndex):
        raise TableError(f"{name} has several levels of column names, expected one")
    table.columns = pd.Index([str(column) for column in table.columns])
    return table


def _column_numbers(column: "pd.Series[Any]", name: str, what: str) -> NDArray[np.float64]:
    if pd.api.types.is_datetime64_any_dtype(column.dtype) or pd.api.types.is_timedelta64_dtype(column.dtype):
        raise TableError(f"{what}: column {name!r} must hold numbers, got dates and times")
    values = column if is_numeric(column) else pd.to_numeric(column, errors="coerce")
    if len(bad := np.flatnonzero((values.isna() & column.notna()).to_numpy())):
        raise TableError(
            f"{what}: column {name!r} must hold numbers, got {shown(column.iloc[bad[0]])} in data row {bad[0] + 1}"
            f"{_hint(str(column.iloc[bad[0]]))}"
        )
    found = values.to_numpy(dtype=np.float64, na_value=np.nan)
    if len(infinite := np.flatnonzero(np.isinf(found))):
        raise TableError(
            f"{what}: column {name!r} must be finite, got {found[infinite[0]]} in data row {infinite[0] + 1}"
        )
    return found


def _hint(text: str) -> str:
    if re.fullmatch(r"[+-]?\d{1,3}(\s\d{3})+([.,]\d+)?", text):
        return "; write numbers without spaces"
    if re.fullmatch(r"[+-]?[1-9]\d{0,2}([.,']\d{3})+([.,]\d+)?", text):
        return "; write numbers without a mark between thousands, and decimals with a point"
    if re.fullmatch(r"[+-]?\d+,\d+", text):
        return "; write decimals with a point, or separate the columns by semicolons"
    return ""


def _parsed(column: "pd.Series[Any]", name: str) -> "pd.Series[Any]":
    if is_numeric(column):
        raise TableError(f"column {name!r} must hold ISO times such as {_EXAMPLE}, got the number {column.iloc[0]}")
    text = column.astype("str").str.strip().mask(column.isna())
    parsed = pd.to_datetime(text, format="ISO8601", utc=True, errors="coerce")
    parsed = parsed.mask(~text.str.fullmatch(_ISO).fillna(False).astype(bool))
    if len(bad := np.flatnonzero((parsed.isna() & text.notna()).to_numpy())):
        dotted = re.match(r"\d{1,2}[./-]\d{1,2}[./-]\d{2,4}", text.iloc[bad[0]])
        hint = ", where it is not certain which is the day and which the month" if dotted else ""
        raise TableError(
            f"column {name!r} must hold ISO times such as {_EXAMPLE}, got {shown(text.iloc[bad[0]])} in data row "
            f"{bad[0] + 1}{hint}"
        )
    zoned = text[text.notna()].str.contains(_ZONED, regex=True)
    if zoned.nunique() > 1:
        row = int(np.flatnonzero((zoned != zoned.iloc[0]).to_numpy())[0])
        raise TableError(
            f"column {name!r} must have a time zone in every row or in none, but data rows 1 and {row + 1} differ"
        )
    return parsed


def _require_unique(seconds: Times, column: str) -> None:
    order = np.argsort(seconds, kind="stable")
    if len(twice := np.flatnonzero(np.diff(seconds[order]).astype(np.int64) == 0)):
        first, second = sorted(order[twice[0] : twice[0] + 2] + 1)
        raise TableError(
            f"column {column!r} must have each time once, but data rows {first} and {second} are both "
            f"{seconds[first - 1]} ({len(twice)} such); where clocks are set back, write UTC or the zone with each time"
        )
