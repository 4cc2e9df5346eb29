"""A few cases with their features and outcomes, kept beside a fit to be looked at later."""

import io
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pyarrow.lib import ArrowException  # type: ignore[import-untyped]
from pyarrow.parquet import ParquetFile  # type: ignore[import-untyped]

from stakes.data.layout import TableCases
from stakes.data.table_columns import column_numbers
from stakes.data.tables import write_table
from stakes.errors import TableError
from stakes.files import check_sha256, read_bytes, short_ascii

__all__ = ["STORED_CASES", "StoredCases", "load_cases", "read_kept", "save_cases"]

STORED_CASES = Path("evaluation", "features.parquet")
"""Where the cases lie within the folder of a fit."""

_KEPT = 200
_MOST_BYTES = 2**26  # of the file, and of what it holds
_LABEL, _FEATURE, _OUTCOME = "label", "feature ", "outcome "  # the column of labels, how those of the others begin


@dataclass(frozen=True, eq=False)
class StoredCases:
    """Some of the cases that a fit was judged on.

    Attributes:
        labels: The time or row of each of N cases.
        features: Features (N, F).
        outcomes: Outcomes (N, D).
    """

    labels: tuple[str, ...]
    features: NDArray[np.float64]
    outcomes: NDArray[np.float64]


def save_cases(folder: Path, cases: TableCases) -> None:
    """Write the last 200 cases into the folder of a fit.

    Args:
        folder: The folder of the fit.
        cases: The cases it was judged on, with their outcomes.
    """
    assert cases.outcomes is not None
    features, outcomes = cases.features.iloc[-_KEPT:], cases.outcomes.iloc[-_KEPT:]
    row = "row " if features.index.name == "row" else ""
    labels = [f"{row}{label.isoformat() if isinstance(label, pd.Timestamp) else label}" for label in features.index]
    parts = [features.add_prefix(_FEATURE), outcomes.add_prefix(_OUTCOME)]
    table = pd.concat([part.reset_index(drop=True) for part in parts], axis=1)
    table.insert(0, _LABEL, labels)
    (folder / STORED_CASES).parent.mkdir(parents=True, exist_ok=True)
    write_table(table, folder / STORED_CASES)


def load_cases(
    folder: Path, features: tuple[str, ...], targets: tuple[str, ...], sha256: str | None = None
) -> StoredCases | None:
    """The cases that `save_cases` wrote; None where it did not.

    Args:
        folder: The folder of the fit.
        features: The names of its features.
        targets: The names of its targets.
        sha256: What the file must hash to; None where nothing vouches for it.
    """
    path = folder / STORED_CASES
    if not os.path.lexists(path):
        return None
    table = read_kept(path, sha256, _KEPT)
    if _LABEL not in table.columns:
        raise TableError(f"{str(path)!r} has no column {_LABEL!r}")
    wanted = ([f"{_FEATURE}{name}" for name in features], [f"{_OUTCOME}{name}" for name in targets])
    features_and_outcomes = [column_numbers(table, columns, str(path)) for columns in wanted]
    if any(np.isnan(values).any() for values in features_and_outcomes):
        raise TableError(f"{str(path)!r} has missing values")
    return StoredCases(tuple(map(str, table[_LABEL])), *features_and_outcomes)


def read_kept(path: Path, sha256: str | None, most_rows: int) -> pd.DataFrame:
    """The table of a parquet file, if it is no larger than it can be: a small file may hold many rows.

    Args:
        path: The file, within the folder of a fit.
        sha256: What it must hash to; None where nothing vouches for it.
        most_rows: How many rows it may have.
    """
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
