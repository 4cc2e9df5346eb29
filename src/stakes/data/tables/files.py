"""Tables of users: CSV, parquet and gridded files read, or one sentence about why a file is none; and written."""

import csv
import gzip
import io
import math
import re
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from operator import or_
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pandas.api.extensions import ExtensionArray
from pandas.api.types import is_float_dtype

from stakes.errors import TableError, first_repeated, nearest_hint, one_line
from stakes.files import is_pipe_or_device, unpacked_limit, write_atomically

_NUMBER = re.compile(r"[+-]?(?:\d++(?:[.,]\d*+)?|[.,]\d++)(?:[eE][+-]?\d++)?")
_PERHAPS_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}")
_PERHAPS_NUMBER = re.compile(r"[+-]?(?:[\d.,]++(?:[eE][+-]?\d++)?|inf(?:inity)?|nan)", re.IGNORECASE)
_UNMARKED_THOUSANDS = re.compile(r"[+-]?\d{4,}")


class CsvOptions(TypedDict, total=False):
    """How a text file is read, where that is not found by itself."""

    separator: str | None
    encoding: str | None


def has_decimal_commas(columns: Mapping[str, Sequence[str]], missing: Collection[str], name: str) -> bool:
    """Whether some column shows that commas stand before decimals."""
    certain: set[str] = set()
    doubtful: dict[str, tuple[str, str]] = {}  # the first column and its cell, by mark
    for column, cells in columns.items():
        shown, unclear = _marks(cells, missing)
        certain |= shown
        for mark, cell in unclear.items():
            doubtful.setdefault(mark, (column, cell))
    for mark, (column, cell) in doubtful.items():
        if (certain | doubtful.keys()) - {mark}:
            whole = cell.replace(mark, "")
            raise TableError(
                f"column {column!r} of {name} holds {cell!r}, which may be {whole} or have decimals, since the "
                "file has numbers with commas and others with points; write numbers without a mark between thousands, "
                "and all decimals with the same mark"
            )
    return "," in certain


def _marks(cells: Sequence[str], missing: Collection[str]) -> tuple[set[str], dict[str, str]]:
    """The marks that stand before decimals in numbers, and a cell for each that may part thousands instead."""
    certain: set[str] = set()
    doubtful: dict[str, str] = {}
    unmarked = False
    for cell in map(str.strip, cells):
        if cell in missing:
            continue
        if not _NUMBER.fullmatch(cell):
            return set(), {}
        mark = "," if "," in cell else "." if "." in cell else ""
        if not mark:
            unmarked = unmarked or _UNMARKED_THOUSANDS.fullmatch(cell) is not None
        elif _PERHAPS_THOUSANDS.fullmatch(cell):
            doubtful.setdefault(mark, cell)
        else:
            certain.add(mark)
    if unmarked:
        certain |= doubtful.keys()
    return certain, {mark: cell for mark, cell in doubtful.items() if mark not in certain}


_SEPARATORS = (";", "\t", "|", ",")  # a comma, which may also be a decimal one, wins no draw
_SNIFFED_ROWS = 20
_LOOKED_AT = 100_000  # characters
_MANY_ROWS = 100  # that pandas reads at once sooner than ours go one by one
_MISSING = frozenset(
    ["", "-", "NA", "N/A", "n/a", "na", "NaN", "nan", "-nan", "NULL", "null", "None", "NaT", "<NA>", "#N/A", "#NA"]
)
_MARKS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_MAGIC = (
    (b"PK\x03\x04", "looks like an Excel or ZIP file; export the sheet as CSV"),
    (b"\xd0\xcf\x11\xe0", "looks like an Excel file; export the sheet as CSV"),
    (b"PAR1", "is a parquet file; let its name end in .parquet"),
    (b"\x89HDF", "is a NetCDF or HDF5 file, not text"),
    (b"CDF", "is a NetCDF file, not text"),
)
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f]")
_DECIMAL_COMMA = re.compile(r"^([+-]?\d*),(\d+(?:[eE][+-]?\d+)?)$")
_THOUSANDS, _HUNDREDS = (re.compile(text) for text in (r"[+-]?[1-9]\d{0,2},\d{3}", r"[+-]?\d{1,3}"))
_TRUTHS = {"true": 1.0, "false": 0.0}
_NUMBER_OR_TIME = re.compile(r"[+-]?(?:\d++(?:[.,]\d*+)?|[.,]\d++)(?:[eE][+-]?\d++)?|\d{4}-\d\d-\d\d.*")


def parse_delimited(content: bytes, name: str, keys: Collection[str] = (), **csv: Unpack[CsvOptions]) -> pd.DataFrame:
    """The table of a text file."""
    text = _decoded(_unpacked(content, name), name, csv.get("encoding"))
    named, text = _named_separator(text)
    separator = csv.get("separator") or named or _likely_separator(text)
    if len(separator) != 1:
        raise TableError(f"separator must be one character, got {separator!r}")
    if separator in _SEPARATORS and (clean := _clean(text, separator, name, keys)) is not None:
        return clean
    rows = _rows(text, separator, name)
    if not rows:
        raise TableError(f"{name} is empty, expected a line of column names and rows below it")
    header = _header(rows, name)
    cells = zip(*rows[1:], strict=True)
    columns = {column: texts for column, texts in zip(header, cells, strict=True) if column}
    decimal_commas = separator != "," and has_decimal_commas(columns, _MISSING, name)
    return pd.DataFrame(
        {
            column: _text(texts) if column.lower() in keys else _column(texts, separator, decimal_commas)
            for column, texts in columns.items()
        }
    )


def _clean(text: str, separator: str, name: str, keys: Collection[str]) -> pd.DataFrame | None:
    """The table of a long, plain text, whose numbers pandas reads as `_numbers` does, at once; or None."""
    first, _, body = text.strip("\r\n").partition("\n")
    header, lines = first.rstrip("\r").split(separator), body.count("\n") + 1
    if lines < _MANY_ROWS:
        return None
    marks = {'"', "\0", ",", "\t"} - {separator}
    if any(mark in text for mark in marks) or ("\r" in text and text.count("\r") != text.count("\r\n")):
        return None
    if len(header) < 2 or not all(map(str.strip, header)):
        return None
    if "_" in body and re.search(r"\d_\d", body):  # which pandas takes for digits of one number
        return None
    texts = {place: "str" for place, column in enumerate(header) if " ".join(column.split()).lower() in keys}
    missing: dict[str, Any] = {"keep_default_na": False, "na_values": sorted(_MISSING)}
    try:
        read = pd.read_csv(
            io.BytesIO(body.encode()),
            sep=separator,
            header=None,
            dtype=texts,
            skipinitialspace=True,
            low_memory=False,
            **missing,
        )
    except ValueError:  # as of rows that are too long
        return None
    if read.shape != (lines, len(header)):
        return None
    short = read[len(header) - 1].isna().any()  # a row that lacks fields lacks the last one
    if short and body.count(separator) != lines * (len(header) - 1):
        return None
    columns = _header([header, []], name)
    others = [place for place, kind in enumerate(read.dtypes) if kind.kind not in "iuf"]
    table = read.set_axis(columns, axis=1)
    for place in others:
        cells = read[place].astype("str").fillna("").tolist()
        table[columns[place]] = _text(cells) if place in texts else _column(cells, separator, False)
    begun = table[table.iloc[:, 0].isna()]
    return None if begun.isna().all(axis=1).any() else table  # rows without content are no rows


def _unpacked(content: bytes, name: str) -> bytes:
    for start, words in _MAGIC:
        if content.startswith(start):
            raise TableError(f"{name} {words}")
    if not content.startswith(b"\x1f\x8b"):
        return content
    limit = unpacked_limit(len(content))
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            unpacked = file.read(limit + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise TableError(f"{name} cannot be unpacked by gzip: {error}") from error
    if len(unpacked) > limit:
        raise TableError(
            f"{name} has {len(content):,} bytes and unpacks to more than {limit:,}, the limit; if that is right, "
            "unpack it and give the unpacked file"
        )
    return unpacked


def _decoded(content: bytes, name: str, encoding: str | None) -> str:
    """Text by the file's mark, as UTF-16 without one, as UTF-8, or else as Latin-1 with the additions of Windows."""
    marked = next((known for start, known in _MARKS if content.startswith(start)), None)
    candidates = [encoding] if encoding else [marked or _unmarked_utf16(content), "utf-8", "cp1252", "latin-1"]
    text = None
    for candidate in filter(None, candidates):
        try:
            text = content.decode(candidate)
            break
        except LookupError:
            raise TableError(f"encoding must be one that Python knows, such as utf-8, got {candidate!r}") from None
        except UnicodeDecodeError:
            continue
    if text is None:
        raise TableError(f"{name} cannot be read in the encoding {encoding!r}")
    if control := _CONTROL.search(text, 0, _LOOKED_AT):
        raise TableError(
            f"{name} is not a text file: it holds the byte {ord(control[0]):#04x}; expected CSV or parquet"
        )
    return text.removeprefix("\ufeff")


def _unmarked_utf16(content: bytes) -> str | None:
    """UTF-16 of mostly Latin letters has zeros in every second place."""
    start = content[:1000]
    for offset, known in ((0, "utf-16-be"), (1, "utf-16-le")):
        if len(start) > 3 and start[offset::2].count(0) > 0.8 * len(start[offset::2]):
            return known if start[1 - offset :: 2].count(0) == 0 else None
    return None


def _named_separator(text: str) -> tuple[str | None, str]:
    """The separator in a first line such as sep=; as Excel has it, and the text with that line blank."""
    line, end, rest = text.partition("\n")
    word = line.rstrip("\r").removeprefix('"').removesuffix('"')
    return (word[4], end + rest) if len(word) == 5 and word[:4].lower() == "sep=" else (None, text)


def _likely_separator(text: str) -> str:
    """The separator that gives the first rows the most fields, if possible the same number in each."""
    scores = {}
    for separator in _SEPARATORS:
        reader = csv.reader(io.StringIO(text[:_LOOKED_AT], newline=""), delimiter=separator, skipinitialspace=True)
        widths = []
        try:
            for row in reader:
                widths += [len(row)] if any(map(str.strip, row)) else []
                if len(widths) == _SNIFFED_ROWS:
                    break
        except csv.Error:
            pass
        first = widths[0] if widths else 1
        scores[separator] = (first > 1, len(set(widths)) == 1, first)
    return max(_SEPARATORS, key=lambda separator: scores[separator])


def _rows(text: str, separator: str, name: str) -> list[list[str]]:
    """The fields of the header and of every row with content, all of one number."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True, strict=True)
    rows: list[list[str]] = []
    try:
        for row in reader:
            if not any(map(str.strip, row)):
                continue
            if rows and len(row) != len(rows[0]):
                raise TableError(
                    f"line {reader.line_num} of {name} has {len(row)} fields, but the header has {len(rows[0])} "
                    f"(separator {separator!r})"
                )
            rows.append(row)
    except csv.Error as error:
        raise TableError(f"line {reader.line_num} of {name} cannot be read: {error}") from error
    return rows


def _header(rows: Sequence[Sequence[str]], name: str) -> list[str]:
    """The column names; empty for a last column without any content, as a separator at the end of each line makes."""
    header = [" ".join(cell.split()) for cell in rows[0]]
    if not _counts(header) and all(
        _NUMBER_OR_TIME.fullmatch(part) for cell in header for part in re.split("[;,|]", cell)
    ):
        raise TableError(
            f"{name} has no header: its first line holds {', '.join(header[:3])}; put a line of column names first"
        )
    if len(rows) == 1:
        raise TableError(f"{name} has a header but no rows")
    unnamed = [place for place, cell in enumerate(header) if not cell]
    trailing = unnamed == [len(header) - 1] and not any(row[-1].strip() for row in rows)
    if unnamed and not trailing:
        raise TableError(f"column {unnamed[0] + 1} of {name} has no name; every column needs one in the first line")
    check_header(header, name)
    return header


def _counts(header: Sequence[str]) -> bool:
    """Whether the names are 0, 1, 2, ... or 1, 2, 3, ..., as members have them; two numbers may well be data."""
    starts = (0, 1) if len(header) > 2 else ()
    return any(all(cell == str(start + place) for place, cell in enumerate(header)) for start in starts)


def _column(cells: Sequence[str], separator: str, decimal_commas: bool) -> NDArray[Any] | ExtensionArray:
    """A column as numbers, as true and false, or as text; a `Series` for each of many would take most of the time."""
    is_number = True
    if len(cells) >= _MANY_ROWS:  # of which the first one tells
        first = next((text for cell in cells if (text := cell.strip()) not in _MISSING), "0")
        is_number = _PERHAPS_NUMBER.fullmatch(first) is not None
    if is_number and not np.isnan(as_they_are := _numbers(cells)).any():  # most columns
        return as_they_are
    texts = _present(cells)
    present = [text for text in texts if text is not None]
    with_commas = separator != "," and any("," in text for text in present)
    if with_commas and (decimal_commas or not _has_thousands_commas(present)):
        texts = [text and _DECIMAL_COMMA.sub(r"\1.\2", text) for text in texts]
    if is_number and len(present) == len(texts) - np.isnan(numbers := _numbers(texts)).sum():
        return numbers
    if all(text.lower() in _TRUTHS for text in present):
        return np.array([np.nan if text is None else _TRUTHS[text.lower()] for text in texts])
    return pd.array(texts, dtype="str")


def _present(cells: Sequence[str]) -> list[str | None]:
    """The texts of the cells, None where one is missing."""
    return [None if (text := cell.strip()) in _MISSING else text for cell in cells]


def _text(cells: Sequence[str]) -> ExtensionArray:
    return pd.array(_present(cells), dtype="str")


def _numbers(cells: Sequence[str | None]) -> NDArray[Any]:
    """The numbers of the cells, NaN where one holds none."""
    return pd.to_numeric(np.array(cells, dtype=object), errors="coerce")


def _has_thousands_commas(texts: Sequence[str]) -> bool:
    """Whether commas part thousands, as where 987 and 1,234 stand together; 1,234 alone may be a decimal number."""
    large, small = ([pattern.fullmatch(text) is not None for text in texts] for pattern in (_THOUSANDS, _HUNDREDS))
    return any(large) and any(small) and all(map(or_, large, small))


PARQUET = (".parquet", ".pq")
_TEXT = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
TABLES = (*_TEXT, *PARQUET)
"""How the names of tables in files end."""

GRIB = (".grib", ".grib2", ".grb", ".grb2", ".grib1")
"""How the names of GRIB files end, which are refused with a way on."""

GRIDDED = (".nc", ".nc4", ".netcdf", ".cdf", ".zarr", *GRIB)
"""How the names of gridded files end."""

_SHEETS = (".xlsx", ".xls", ".xlsm", ".ods")


def read_flat_file(path: Path, keys: Collection[str] = (), **csv: Unpack[CsvOptions]) -> pd.DataFrame:
    """The table in a CSV or parquet file, with at least one row and one column."""
    name, content = repr(str(path)), _content(path)
    table = _parquet(content, name) if file_suffix(path) in PARQUET else parse_delimited(content, name, keys, **csv)
    if not len(table) or not len(table.columns):
        raise TableError(f"{name} has {len(table)} rows and {len(table.columns)} columns, expected at least one each")
    return table


def is_gridded(path: str | Path) -> bool:
    """Whether the name is that of a gridded file."""
    return str(path).rstrip("/").lower().endswith(GRIDDED)


def file_suffix(path: Path) -> str:
    """The suffix of a file in lower case, with the one before .gz."""
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
        raise TableError(f"{name} is not a valid parquet file") from error
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


_MOST_COLUMNS = 100_000  # a table with more is one that lies on its side


def check_header(columns: Sequence[str], name: str) -> None:
    """Raise unless the columns of a file have different names, and are not too many."""
    if len(columns) > _MOST_COLUMNS:
        raise TableError(
            f"{name} has {len(columns):,} columns, expected at most {_MOST_COLUMNS:,}; cases and times are rows"
        )
    if (twice := first_repeated(columns)) is not None:
        raise TableError(f"{name} has the column {twice!r} twice; column names must differ")


_FORMULA = ("=", "+", "-", "@")
_DIGITS = 14  # that a sum of numbers of double precision can be trusted to have


def read_table(path: Path, keys: Collection[str] = (), /, **csv: Unpack[CsvOptions]) -> pd.DataFrame:
    """The table in a CSV file (any usual separator, also .tsv, .txt, .gz) or a parquet file, with at least one row.

    A NetCDF file or a Zarr store becomes the column `time` and the columns of `read_series`.
    The decimal comma of a text file is recognised, and its missing values are empty fields, NA, NaN, null, None and a
    hyphen.
    """
    path = Path(path)
    if not is_gridded(path):
        return read_flat_file(path, keys, **csv)
    from stakes.data.tables.gridded_files import read_series  # which reads tables by these functions

    return read_series(str(path))


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
        raise TableError(f"a table must be written to a .csv or .parquet file, got {str(path)!r}")
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
