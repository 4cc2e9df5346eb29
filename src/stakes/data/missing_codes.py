"""Outcomes that look like a code for a missing value, such as -999, and would be taken for what happened."""

import numpy as np
from numpy.typing import NDArray

from stakes.number_text import count_text, number_text

__all__ = ["missing_code_notes"]

Floats = NDArray[np.float64]

_USUAL = np.array([-99, -99.9, 999, 999.9, 9999, 9999.9, 99999, -999, -999.9, -9999, -9999.9, -99999, -32768])
_CODES = np.concatenate([_USUAL, _USUAL.astype(np.float32).astype(np.float64)])
_FAR = 10.0  # times the range of all else: what lies so far beyond it is doubted, whatever it is


def missing_code_notes(outcomes: Floats, forecasts: Floats, column: str, cells: Floats, name: str) -> tuple[str, ...]:
    """A sentence for each value that is a usual code beyond all other numbers, or lies absurdly far beyond them.

    Args:
        outcomes: What happened, in any shape, NaN where it is missing.
        forecasts: What was forecast, in the same unit, in any shape, NaN where it is missing.
        column: The column of the outcomes.
        cells: What stands in that column, row by row, (n,).
        name: What the sentences call the file.
    """
    seen, ahead = (values[~np.isnan(values)] for values in (outcomes, forecasts))
    known = np.concatenate([seen, ahead])
    plain = known[~np.isin(known, _CODES)]
    if not len(seen) or not len(plain):
        return ()
    codes = [value for value in np.unique(seen[np.isin(seen, _CODES)]) if _beyond(value, plain) > 0]
    ends = [value for value in (seen.min(), seen.max()) if value not in codes]
    far = [value for value in ends if _is_far(value, plain[plain != value])]
    return tuple(_note(float(value), column, cells, name) for value in (*codes, *far))


def _beyond(value: float, others: Floats) -> float:
    """How far a value lies outside the range of others; negative inside."""
    return float(max(others.min() - value, value - others.max()))


def _is_far(value: float, others: Floats) -> bool:
    return len(others) > 0 and _beyond(value, others) > _FAR * float(np.ptp(others)) > 0


def _note(value: float, column: str, cells: Floats, name: str) -> str:
    rows = np.flatnonzero(cells == value) + 1
    more = f" and {count_text(len(rows) - 1, 'row')} more" if len(rows) > 1 else ""
    return (
        f"{name} has {number_text(value)} in {column!r}, data row {rows[0]}{more}, beyond all other outcomes and "
        "forecasts; it is taken for what happened: if it stands for a missing value, leave the field empty"
    )
