"""Numbers that look like a code for a missing value, such as -999, and would be taken for what happened, or may."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from stakes.data.case_index import cases_text
from stakes.number_text import count_text, number_text

__all__ = ["case_code_notes", "doubtful_end", "missing_code_notes", "without_codes"]

Floats = NDArray[np.float64]

_USUAL = np.array([-99, -99.9, 999, 999.9, 9999, 9999.9, 99999, -999, -999.9, -9999, -9999.9, -99999, -32768])
_CODES = np.concatenate([_USUAL, _USUAL.astype(np.float32).astype(np.float64)])
_FAR = 10.0  # times the range of all else: what lies so far beyond it is doubted, whatever it is
_LARGER = 1.25  # times all else: a code that is no larger may be one of the numbers, as 999 MW or 999.9 hPa
_HUGE, _ABSURD = (
    1e6,
    1000.0,
)  # no smaller number is absurd by itself, nor one less beyond: one of many may have all rain


def missing_code_notes(outcomes: Floats, forecasts: Floats, column: str, cells: Floats, name: str) -> tuple[str, ...]:
    """A sentence for each value that is a usual code beyond all other numbers, or lies absurdly far beyond them.

    Args:
        outcomes: What happened, in any shape, NaN where it is missing.
        forecasts: What was forecast, in the same unit, in any shape, NaN where it is missing.
        column: The column of the outcomes.
        cells: What stands in that column, row by row, (n,).
        name: What the sentences call the file.
    """
    return tuple(_note(value, column, _rows(cells, value), name) for value in _doubted(outcomes, forecasts))


def case_code_notes(
    outcomes: Floats, forecasts: Floats, column: str, index: "pd.Index[Any]", name: str
) -> tuple[str, ...]:
    """The same of outcomes that are known by their case, be they ever so few; one that is merely far is not doubted.

    Args:
        outcomes: What happened, (N,), NaN where it is missing.
        forecasts: What was forecast, in the same unit, in any shape, NaN where it is missing.
        column: The column of the outcomes.
        index: The N cases.
        name: What the sentences call the file.
    """
    known = np.concatenate([values[~np.isnan(values)] for values in (outcomes, forecasts)])
    value = doubtful_end(known) if len(known) else None
    if value is None or not (outcomes == value).any():
        return ()
    return (_note(value, column, cases_text(index, outcomes == value), name),)


def without_codes(values: Floats) -> Floats:
    """The values with NaN in place of what looks like a code for a missing one, of each target by itself.

    Args:
        values: Numbers (..., D) of D targets, NaN where they are missing.
    """
    kept = values.copy()
    for place in range(values.shape[-1]):
        known = values[..., place][~np.isnan(values[..., place])]
        code = doubtful_end(known) if len(known) else None
        if code is not None:
            kept[..., place][values[..., place] == code] = np.nan
    return kept


def _doubted(outcomes: Floats, forecasts: Floats) -> list[float]:
    """Outcomes that are usual codes beyond all other numbers, or lie absurdly far beyond them."""
    seen, ahead = (values[~np.isnan(values)] for values in (outcomes, forecasts))
    known = np.concatenate([seen, ahead])
    plain = known[~np.isin(known, _CODES)]
    if not len(seen) or not len(plain):
        return []
    codes = [value for value in np.unique(seen[np.isin(seen, _CODES)]) if _is_apart(value, plain)]
    ends = [value for value in (seen.min(), seen.max()) if value not in codes]
    far = [value for value in ends if _is_far(value, plain[plain != value])]
    return [float(value) for value in (*codes, *far)]


def doubtful_end(values: Floats) -> float | None:
    """The least or the largest of many values, where it is a usual code or absurd, far beyond all others; else None.

    Args:
        values: Numbers in any shape, none of them missing.
    """
    for end in (values.min(), values.max()):
        others = values[values != end]
        if not len(others):
            continue
        absurd = abs(end) > _HUGE and _beyond(end, others) > _ABSURD * float(np.abs(others).max())
        if absurd or (end in _CODES and _is_apart(end, others)):
            return float(end)
    return None


def _beyond(value: float, others: Floats) -> float:
    """How far a value lies outside the range of others; negative inside."""
    return float(max(others.min() - value, value - others.max()))


def _is_apart(code: float, others: Floats) -> bool:
    """Whether a code beyond other numbers is none of them: of another sign, or much larger."""
    low, high = float(others.min()), float(others.max())
    other_sign = code < 0 <= low or high <= 0 < code
    return _beyond(code, others) > 0 and (other_sign or abs(code) > _LARGER * max(-low, high))


def _is_far(value: float, others: Floats) -> bool:
    return len(others) > 0 and _beyond(value, others) > _FAR * float(np.ptp(others)) > 0


def _rows(cells: Floats, value: float) -> str:
    rows = np.flatnonzero(cells == value) + 1
    more = f" and {count_text(len(rows) - 1, 'row')} more" if len(rows) > 1 else ""
    return f"data row {rows[0]}{more}"


def _note(value: float, column: str, where: str, name: str) -> str:
    return (
        f"{name} has {number_text(value)} in {column!r}, {where}, beyond all other outcomes and forecasts; it is taken "
        "for what happened: if it stands for a missing value, leave the field empty"
    )
