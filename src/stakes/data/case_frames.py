"""Cases and pandas: what people call them, what the estimator is given, and those that are kept beside a fit."""

import io
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from pyarrow.lib import ArrowException
from pyarrow.parquet import ParquetFile

from stakes.data.case_table import CaseTable, Category
from stakes.data.tables.columns import column_numbers
from stakes.data.tables.tables import write_table
from stakes.errors import ShapeError, TableError
from stakes.files import check_sha256, read_bytes, short_ascii


def case_labels(index: "pd.Index[Any]") -> "pd.Index[Any]":
    """Times and names as they are, rows counted from 1 as a reader of the file does."""
    if isinstance(index, pd.MultiIndex) and index.names[0] == "row":
        rows, *others = (index.get_level_values(level) for level in range(index.nlevels))
        return pd.MultiIndex.from_arrays([rows + 1, *others], names=index.names)
    return index + 1 if index.name == "row" else index


def newest_cases(index: "pd.Index[Any]") -> NDArray[np.int64]:
    """The place of the newest case, or of all sites of it where each is a case by itself."""
    if isinstance(index, pd.MultiIndex):
        newest = index.get_level_values(0)
        return np.flatnonzero(newest == newest.max())
    return np.argsort(index, kind="stable")[-1:]


def in_utc(table: pd.DataFrame) -> pd.DataFrame:
    """The table with its cases' times, in the first column where there are some, marked as UTC."""
    first = table.columns[0]
    if not pd.api.types.is_datetime64_dtype(table[first].dtype):
        return table
    return table.assign(**{first: table[first].dt.tz_localize("UTC")})


def told_labels(index: "pd.Index[Any]") -> tuple[str, ...]:
    """The cases as messages call them, times as tables write them.

    >>> told_labels(pd.DatetimeIndex(["2020-02-01T13:00"])), told_labels(pd.Index([7]))
    (('2020-02-01T13:00:00Z',), ('7',))
    """
    return tuple(_told(each) for each in index)


def _told(label: Any) -> str:
    if isinstance(label, tuple):
        return ", ".join(map(_told, label))
    return f"{label.isoformat()}Z" if isinstance(label, pd.Timestamp) else str(label)


def as_table(values: Any, name: str) -> Any:
    """A DataArray (case, feature) or a Dataset of variables along one dimension as a DataFrame; all else as it is."""
    xarray = sys.modules.get("xarray")  # who passes its objects has imported it
    if xarray is None or not isinstance(values, xarray.DataArray | xarray.Dataset):
        return values
    if isinstance(values, xarray.Dataset):
        dims = {each.dims for each in values.data_vars.values()}
        if len(dims) != 1 or len(values.dims) != 1:
            raise ShapeError(f"{name} must have variables along one dimension of cases, got {dict(values.sizes)}")
        return pd.DataFrame({key: each.values for key, each in values.data_vars.items()})
    if values.ndim == 1:
        return pd.Series(values.values, name=values.name)
    if values.ndim != 2:
        raise ShapeError(f"{name} must have the dimensions case and column, got {list(values.dims)}")
    columns = values.dims[1]
    if columns not in values.indexes:
        return values.values
    return pd.DataFrame(values.values, columns=values.indexes[columns])


def outcome_names(values: Any, count: int) -> tuple[str, ...]:
    """The names of the columns of a table or of the one column; else y, or y0, y1 and so on."""
    if isinstance(values, pd.DataFrame):
        return tuple(map(str, values.columns))
    if isinstance(values, pd.Series) and values.name is not None:
        return (str(values.name),)
    return ("y",) if count == 1 else tuple(f"y{place}" for place in range(count))


STORED_CASES = Path("evaluation", "features.parquet")
"""Where the cases lie within the folder of a fit."""

_KEPT = 200
_MOST_BYTES = 2**26  # of the file, and of what it holds


_LABEL, _CATEGORY, _FEATURE, _OUTCOME = "label", "category ", "feature ", "outcome "  # how names of columns begin


def save_cases(folder: Path, cases: CaseTable) -> None:
    """Write the last 200 cases into the folder of a fit."""
    last = cases.rows(slice(-_KEPT, None))
    features, outcomes = last.feature_table, last.outcome_table
    row = "row " if features.index.name == "row" else ""
    labels = [f"{row}{label.isoformat() if isinstance(label, pd.Timestamp) else label}" for label in features.index]
    words = pd.DataFrame({f"{_CATEGORY}{name}": category.words for name, category in last.categories.items()})
    parts = [words, features.add_prefix(_FEATURE), outcomes.add_prefix(_OUTCOME)]
    table = pd.concat([part.reset_index(drop=True) for part in parts], axis=1)
    table.insert(0, _LABEL, labels)
    (folder / STORED_CASES).parent.mkdir(parents=True, exist_ok=True)
    write_table(table, folder / STORED_CASES)


def load_cases(
    folder: Path, features: tuple[str, ...], targets: tuple[str, ...], sha256: str | None = None
) -> CaseTable | None:
    """The cases that `save_cases` wrote, called by their time or row; None where it did not."""
    path = folder / STORED_CASES
    if not os.path.lexists(path):
        return None
    table = read_kept(path, sha256, _KEPT)
    if _LABEL not in table.columns:
        raise TableError(f"{str(path)!r} has no column {_LABEL!r}")
    wanted = ([f"{_FEATURE}{name}" for name in features], [f"{_OUTCOME}{name}" for name in targets])
    numbers, outcomes = (column_numbers(table, columns, str(path)) for columns in wanted)
    if np.isnan(numbers).any() or np.isnan(outcomes).any():
        raise TableError(f"{str(path)!r} has missing values")
    words = [str(column) for column in table.columns if str(column).startswith(_CATEGORY)]
    return CaseTable(
        torch.from_numpy(numbers),
        torch.from_numpy(outcomes),
        feature_names=features,
        outcome_names=targets,
        index=pd.Index([str(label) for label in table[_LABEL]], name=_LABEL),
        categories={column.removeprefix(_CATEGORY): Category.of(table[column].tolist()) for column in words},
    )


def read_kept(path: Path, sha256: str | None, most_rows: int) -> pd.DataFrame:
    """The table of a parquet file, if it is no larger than it can be: a small file may hold many rows."""
    content = read_bytes(path, _MOST_BYTES)
    if sha256 is not None:
        check_sha256(str(path), content, sha256)
    try:
        file = ParquetFile(io.BytesIO(content))
        rows, groups = file.metadata.num_rows, range(file.metadata.num_row_groups)
        size = sum(file.metadata.row_group(place).total_byte_size for place in groups)
        if rows > most_rows or size > _MOST_BYTES:
            limit = f"at most {most_rows} cases in {_MOST_BYTES} bytes"
            raise TableError(f"{str(path)!r} must hold {limit}, got {rows} in {size}")
        return file.read().to_pandas()
    except (ArrowException, OSError, ValueError) as error:
        raise TableError(f"{str(path)!r} is no parquet file that can be read: {short_ascii(str(error))}") from error
