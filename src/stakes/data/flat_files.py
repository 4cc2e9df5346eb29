"""CSV and parquet files as tables, or one sentence about why a file is none."""

import io
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from stakes.data.columns import check_header
from stakes.data.csv_files import parse_delimited
from stakes.errors import TableError, nearest_hint, one_line
from stakes.files import is_pipe_or_device, unpacked_limit

__all__ = ["PARQUET", "TABLES", "file_suffix", "read_flat_file"]

PARQUET = (".parquet", ".pq")
_TEXT = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
TABLES = (*_TEXT, *PARQUET)
"""How the names of tables in files end."""

_SHEETS = (".xlsx", ".xls", ".xlsm", ".ods")


def read_flat_file(
    path: Path, separator: str | None = None, encoding: str | None = None, keys: Collection[str] = ()
) -> pd.DataFrame:
    """The table in a CSV or parquet file, with at least one row and one column.

    Args:
        path: A file .csv, .tsv or .txt, each also with .gz, or .parquet.
        separator: The character between the fields of a text file; None finds it out.
        encoding: The encoding of a text file; None finds it out.
        keys: Columns of a text file, in lower case, that stay text as it is written.
    """
    name, content = repr(str(path)), _content(path)
    if file_suffix(path) in PARQUET:
        table = _parquet(content, name)
    else:
        table = parse_delimited(content, name, separator, encoding, keys)
    if not len(table) or not len(table.columns):
        raise TableError(f"{name} has {len(table)} rows and {len(table.columns)} columns, expected at least one each")
    return table


def file_suffix(path: Path) -> str:
    """The suffix of a file in lower case, with the one before .gz.

    Args:
        path: The file, such as data/Load.CSV.gz, which gives ".csv.gz".
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    return "".join(suffixes[-2:]) if suffixes[-1:] == [".gz"] else "".join(suffixes[-1:])


def _content(path: Path) -> bytes:
    name, suffix = repr(str(path)), file_suffix(path)
    if path.is_dir():
        raise TableError(f"{name} is a folder, expected a CSV, parquet or NetCDF file, or a Zarr store, *.zarr")
    if not path.exists():
        same = sorted(other.name for other in path.parent.glob("*") if other.is_file()) if path.parent.is_dir() else []
        raise TableError(f"there is no file {name}{nearest_hint(path.name, same)}")
    if suffix in _SHEETS:
        raise TableError(f"{name} is a spreadsheet; export the sheet as CSV and give that file")
    if suffix not in TABLES:
        raise TableError(f"{name} must end in .csv, .tsv, .txt (or these with .gz), .parquet, .nc or .zarr")
    if is_pipe_or_device(path):
        raise TableError(f"{name} must be a regular file, not a pipe or a device")
    try:
        return path.read_bytes()
    except OSError as error:
        raise TableError(f"{name} cannot be read: {error.strerror}") from error


def _parquet(content: bytes, name: str) -> pd.DataFrame:
    try:
        file = pq.ParquetFile(io.BytesIO(content))
        schema, unpacked = file.schema_arrow, _unpacked_size(file.metadata)
    except Exception as error:  # which ones damaged content can provoke is not documented
        raise TableError(f"{name} is no parquet file, or a damaged one") from error
    check_header(schema.names, name)
    if unpacked > (limit := unpacked_limit(len(content))):
        raise TableError(
            f"{name} has {len(content):,} bytes and unpacks to {unpacked:,}, beyond the limit of {limit:,}; if that is "
            "right, give the table as CSV"
        )
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
    for field in schema:
        if field.name in table.columns and (plain := _plain(field.type)) is not None:
            table[field.name] = plain(table[field.name])
    return table


def _unpacked_size(metadata: pq.FileMetaData) -> int:
    """The bytes of all pages, or those of the numbers they stand for where many are written as one."""
    pages = sum(metadata.row_group(place).total_byte_size for place in range(metadata.num_row_groups))
    return max(pages, 8 * metadata.num_rows * metadata.num_columns)


def _plain(kind: pa.DataType) -> "Callable[[pd.Series[Any]], pd.Series[Any]] | None":
    """How decimals become numbers, and bytes the text that Python writes for them; None for what stays as it is."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_decimal(kind):
        return lambda column: column.astype("float64")
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return lambda column: column.astype("object").map(repr, na_action="ignore")
    return None
