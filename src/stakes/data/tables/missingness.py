"""What became of the rows of a table: how many gave a case, and which columns are to blame for the others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stakes.data.tables.time_axis import Times, most_frequent_step
from stakes.settings import shown

_MOSTLY = 0.95  # of the missing values lie before the first known one, or after the last
_NAMED = 3


@dataclass(frozen=True)
class MissingColumns:
    """The columns that are missing together in most of the rows that are left out."""

    columns: tuple[str, ...]  # their names
    given_back: int  # how many more rows could be used without them as features
    when: str  # where they are missing: "before 1988-01-02", "after 2003-05-06" or "in 12 rows"

    @property
    def sentence(self) -> str:
        """The same in words."""
        names, more = ", ".join(map(shown, self.columns[:_NAMED])), len(self.columns) - _NAMED
        names += f" and {more} more" if more > 0 else ""
        verb, them = ("is", "it") if len(self.columns) == 1 else ("are", "them")
        return f"{names} {verb} missing {self.when}: without {them} {self.given_back:,} more rows could be used"


def missing_columns(
    missing: NDArray[np.bool_],
    column_of: Sequence[str],
    columns: Mapping[str, NDArray[np.float64]],
    times: Times | None,
) -> MissingColumns | None:
    """Look at the rows that are left out; None where nothing is missing in any of them."""
    places = np.flatnonzero(missing.any(0)).tolist()
    position = {name: index for index, name in enumerate(dict.fromkeys(column_of[place] for place in places))}
    names = tuple(position)
    if not names:
        return None
    by_column = np.zeros((len(missing), len(names)), bool)
    for place in places:
        by_column[:, position[column_of[place]]] |= missing[:, place]
    kinds, counts = np.unique(np.packbits(by_column, axis=1), axis=0, return_counts=True)
    together = np.unpackbits(kinds[counts.argmax()], count=len(names)).astype(bool)
    given_back = int((~by_column[:, ~together].any(1)).sum())
    blamed = tuple(name for name, is_blamed in zip(names, together, strict=True) if is_blamed)
    known = np.all([~np.isnan(columns[name]) for name in blamed], axis=0)
    return MissingColumns(blamed, given_back, _when(known, times))


def _when(known: NDArray[np.bool_], times: Times | None) -> str:
    if times is not None and known.any():
        first, last, lacking = times[known].min(), times[known].max(), times[~known]
        if (lacking < first).mean() >= _MOSTLY:
            return f"before {np.datetime_as_string(first, 'D')}"
        if (lacking > last).mean() >= _MOSTLY:
            return f"after {np.datetime_as_string(last, 'D')}"
    count = int((~known).sum())
    return f"in {count:,} row{'' if count == 1 else 's'}"


Floats = NDArray[np.float64]


@dataclass(frozen=True)
class DataQuality:
    """What became of a table's rows."""

    rows: int  # rows of the table
    used: int  # cases that were made of them
    left_out: dict[str, int]  # how many rows or target times gave no case, by reason
    first: str | None  # the earliest time, ISO in UTC; None without a column of times
    last: str | None  # the latest time, likewise
    step_hours: float | None
    gaps: int  # places where more than that step lies between neighbours in time
    constant: tuple[str, ...]  # the columns that hold one value only
    columns: dict[str, dict[str, float]]
    unsorted: int = 0  # rows that came after a later one and were put in order
    blamed: MissingColumns | None = None


def data_quality(
    columns: Mapping[str, Floats],
    times: Times | None,
    rows: int,
    used: int,
    left_out: dict[str, int],
    blamed: MissingColumns | None = None,
) -> DataQuality:
    """The facts of a table whose cases have been made."""
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
    """Sentences about rows that gave no case, and about the columns to blame."""
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
