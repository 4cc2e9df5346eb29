"""A few cases with their features and outcomes, kept beside a fit to be looked at later."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from stakes.data.layout import TableCases
from stakes.data.table_columns import column_numbers
from stakes.data.tables import read_table, write_table
from stakes.errors import TableError

__all__ = ["STORED_CASES", "StoredCases", "load_cases", "save_cases"]

STORED_CASES = Path("evaluation", "features.parquet")
"""Where the cases lie within the folder of a fit."""

_KEPT = 200
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


def load_cases(folder: Path, features: tuple[str, ...], targets: tuple[str, ...]) -> StoredCases | None:
    """The cases that `save_cases` wrote; None where it did not.

    Args:
        folder: The folder of the fit.
        features: The names of its features.
        targets: The names of its targets.
    """
    path = folder / STORED_CASES
    if not path.exists():
        return None
    table = read_table(path)
    if _LABEL not in table.columns:
        raise TableError(f"{str(path)!r} has no column {_LABEL!r}")
    wanted = ([f"{_FEATURE}{name}" for name in features], [f"{_OUTCOME}{name}" for name in targets])
    features_and_outcomes = [column_numbers(table, columns, str(path)) for columns in wanted]
    if any(np.isnan(values).any() for values in features_and_outcomes):
        raise TableError(f"{str(path)!r} has missing values")
    return StoredCases(tuple(map(str, table[_LABEL])), *features_and_outcomes)
