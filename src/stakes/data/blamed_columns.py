"""Which columns are to blame for rows that are left out, and how many rows a fit without them could use."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stakes.data.time_axis import Times
from stakes.settings import shown

__all__ = ["BlamedColumns", "blamed_columns"]

_MOSTLY = 0.95  # of the missing values lie before the first known one, or after the last
_NAMED = 3


@dataclass(frozen=True)
class BlamedColumns:
    """The columns that are missing together in most of the rows that are left out.

    Attributes:
        columns: Their names.
        given_back: How many more rows could be used without them as features.
        when: Where they are missing: "before 1988-01-02", "after 2003-05-06" or "in 12 rows".
    """

    columns: tuple[str, ...]
    given_back: int
    when: str

    @property
    def sentence(self) -> str:
        """The same in words."""
        names, more = ", ".join(map(shown, self.columns[:_NAMED])), len(self.columns) - _NAMED
        names += f" and {more} more" if more > 0 else ""
        verb, them = ("is", "it") if len(self.columns) == 1 else ("are", "them")
        return f"{names} {verb} missing {self.when}: without {them} {self.given_back:,} more rows could be used"


def blamed_columns(
    missing: NDArray[np.bool_],
    column_of: Sequence[str],
    columns: Mapping[str, NDArray[np.float64]],
    times: Times | None,
) -> BlamedColumns | None:
    """Look at the rows that are left out; None where nothing is missing in any of them.

    Args:
        missing: Which features (K, F) are missing in each of K rows that lack nothing else.
        column_of: The column that each of the first features is made of; those beyond are never missing.
        columns: The numbers of each column as they stand in the table, NaN where they are missing.
        times: The times of the table's rows; None where there are none.
    """
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
    return BlamedColumns(blamed, given_back, _when(known, times))


def _when(known: NDArray[np.bool_], times: Times | None) -> str:
    if times is not None and known.any():
        first, last, lacking = times[known].min(), times[known].max(), times[~known]
        if (lacking < first).mean() >= _MOSTLY:
            return f"before {np.datetime_as_string(first, 'D')}"
        if (lacking > last).mean() >= _MOSTLY:
            return f"after {np.datetime_as_string(last, 'D')}"
    count = int((~known).sum())
    return f"in {count:,} row{'' if count == 1 else 's'}"
