"""What a user should know of cases that a fitted forecaster is used on: part of its fit, or unlike all that it saw."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from stakes.bundle.about_fit import AboutFit, FittedSpan
from stakes.data.layout import TableCases, TableLayout
from stakes.data.quality import DataQuality
from stakes.data.time_axis import Times
from stakes.number_text import number_text

__all__ = ["overlap_notes", "part_of_fit_notes", "unlike_fit_notes"]

_RANGES = 3.0  # so many times the range of a column away from it is far
_SHARE = 1 / 3  # of the smallest value: a column that stays below may be in another unit


def part_of_fit_notes(about: Mapping[str, Any], cases: TableCases, sha256: str | None) -> tuple[str, ...]:
    """A sentence where the fit saw these cases, or others of the same times.

    Args:
        about: What the bundle of the fit keeps, `stakes.bundle.Bundle.about`.
        cases: The cases that the forecaster is used on.
        sha256: Of the file of their table; None where there is none.
    """
    known = AboutFit.read(about)
    if known.data is None:
        return ()
    fitted = known.fitted or FittedSpan(len(cases))
    return overlap_notes(fitted, cases.times, len(cases), known.data.sha256 == sha256)


def overlap_notes(fitted: FittedSpan, times: Times | None, cases: int, same: bool) -> tuple[str, ...]:
    """A sentence where cases, or others of the same times, were learned from.

    Args:
        fitted: Which cases were learned from.
        times: The times of the cases, (N,); None where they have none.
        cases: How many cases there are.
        same: Whether they come from the very file that was learned from.
    """
    if times is None or fitted.first is None or fitted.last is None:
        count = min(fitted.cases, cases) if same else 0
    else:
        count = int(((times >= np.datetime64(fitted.first)) & (times <= np.datetime64(fitted.last))).sum())
    if not count:
        return ()
    if same:
        return (
            f"this is the table of the fit: {count} of {cases} cases were part of the fit, and what they cost "
            "says little about new cases",
        )
    return (
        f"{count} of {cases} cases lie in the time of the fit, {fitted.first} to {fitted.last}; what they "
        "cost says little about new cases if they were part of the fit",
    )


def unlike_fit_notes(about: Mapping[str, Any], layout: TableLayout, quality: DataQuality) -> tuple[str, ...]:
    """A sentence for each column of features with values far from those of the fit, as in another unit.

    Args:
        about: What the bundle of the fit keeps, `stakes.bundle.Bundle.about`.
        layout: What the columns of the table are.
        quality: The range of each column of the table that the forecaster is used on.
    """
    fitted = AboutFit.read(about).quality
    before = {} if fitted is None else fitted.columns
    doubts = (
        _doubt(name, before[name], quality.columns[name])
        for name in dict.fromkeys((*layout.features, *layout.known))
        if all({"min", "max"} <= known.get(name, {}).keys() for known in (before, quality.columns))
    )
    return tuple(filter(None, doubts))


def _doubt(name: str, before: Mapping[str, float], now: Mapping[str, float]) -> str:
    low, high = before["min"], before["max"]
    far = _RANGES * (high - low)
    if now["max"] - high > max(far, low - now["min"]) or _smaller(-high, -now["min"]):
        value = now["max"]
    elif low - now["min"] > far or _smaller(low, now["max"]):
        value = now["min"]
    else:
        return ""
    value_text, low_text, high_text = (number_text(each, 6) for each in (value, low, high))
    return f"{name}: {value_text} where the fit saw {low_text} to {high_text}: another unit?"


def _smaller(least: float, most: float) -> bool:
    """Whether numbers up to `most` are small beside those from `least` on, all of one sign."""
    return least > 0 and most < _SHARE * least
