"""What became of the rows of a table: how many gave a case, why others did not, and the facts of each column."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stakes.data.blamed_columns import BlamedColumns
from stakes.data.time_axis import Times, most_frequent_step

__all__ = ["DataQuality", "data_quality", "left_out_notes"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class DataQuality:
    """What became of a table's rows.

    Attributes:
        rows: Rows of the table.
        used: Cases that were made of them.
        left_out: How many rows or target times gave no case, by reason.
        first: The earliest time, ISO in UTC; None without a column of times.
        last: The latest time, likewise.
        step_hours: The most frequent step between neighbours in time, in hours; None without times or with one only.
        gaps: Places where more than that step lies between neighbours in time.
        constant: The columns that hold one value only.
        columns: "min", "mean", "max" and the number of "missing" values of each column that is used.
        unsorted: Rows that came after a later one and were put in order.
        blamed: The columns for which most rows were left out; None where no feature is missing.
    """

    rows: int
    used: int
    left_out: dict[str, int]
    first: str | None
    last: str | None
    step_hours: float | None
    gaps: int
    constant: tuple[str, ...]
    columns: dict[str, dict[str, float]]
    unsorted: int = 0
    blamed: BlamedColumns | None = None


def data_quality(
    columns: Mapping[str, Floats],
    times: Times | None,
    rows: int,
    used: int,
    left_out: dict[str, int],
    blamed: BlamedColumns | None = None,
) -> DataQuality:
    """The facts of a table whose cases have been made.

    Args:
        columns: The numbers of each column that is used, NaN where they are missing.
        times: The times of the rows as they stand, or None.
        rows: Rows of the table.
        used: Cases that were made of them.
        left_out: How many rows or target times gave no case, by reason.
        blamed: The columns for which most rows were left out; None where no feature is missing.
    """
    facts = {name: _column_facts(values) for name, values in columns.items()}
    return DataQuality(
        rows=rows,
        used=used,
        left_out=left_out,
        constant=tuple(name for name, known in facts.items() if "min" in known and known["min"] == known["max"]),
        columns=facts,
        blamed=blamed,
        **_time_facts(times),
    )


def left_out_notes(quality: DataQuality) -> tuple[str, ...]:
    """Sentences about rows that gave no case, and about the columns to blame.

    Args:
        quality: What became of the table's rows.
    """
    counted = (f"{count:,} of {quality.rows:,} rows left out: {reason}" for reason, count in quality.left_out.items())
    return (*counted, *(() if quality.blamed is None else (quality.blamed.sentence,)))


def _time_facts(times: Times | None) -> dict[str, Any]:
    if times is None:
        return {"first": None, "last": None, "step_hours": None, "gaps": 0}
    ordered = np.sort(times)
    apart = np.diff(ordered).astype(np.int64)
    step = most_frequent_step(apart) if len(apart) else None
    return {
        "first": str(ordered[0]),
        "last": str(ordered[-1]),
        "step_hours": None if step is None else float(step / 3600),
        "gaps": 0 if step is None else int((apart > step).sum()),
        "unsorted": int((np.diff(times).astype(np.int64) < 0).sum()),
    }


def _column_facts(values: Floats) -> dict[str, float]:
    present = values[~np.isnan(values)]
    missing = {"missing": float(len(values) - len(present))}
    if not len(present):
        return missing
    return {"min": float(present.min()), "mean": float(present.mean()), "max": float(present.max())} | missing
