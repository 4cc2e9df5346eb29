"""The last cases of a fit, kept in its folder to look at."""

import io
import os
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from pyarrow.lib import ArrowException
from pyarrow.parquet import ParquetFile

from stakes.data.case_table import CaseTable, Category
from stakes.data.tables.columns import column_numbers
from stakes.data.tables.files import write_table
from stakes.errors import TableError
from stakes.files import check_sha256, read_bytes, short_ascii

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
