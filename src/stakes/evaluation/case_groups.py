"""Cases grouped by the season or hour they happened in, or by how far ahead they were forecast."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stakes.data.time_axis import Times, to_utc
from stakes.errors import SettingError, ShapeError

__all__ = ["Grouping", "group_names"]

Grouping = Literal["season", "hour", "lead"]
"""By what cases may be grouped: three months of the year, the hour of the day in UTC, or the hours ahead."""

_SEASONS = np.array(["December to February", "March to May", "June to August", "September to November"])


def group_names(
    by: Sequence[Grouping], cases: int, times: Any = None, leads: ArrayLike | None = None
) -> NDArray[np.str_]:
    """The name of the group of each case, (N,), such as "hour 06, lead 24".

    >>> group_names(("season", "lead"), 2, ["2020-02-29T06", "2020-06-01T06"], [24, 48.5]).tolist()
    ['December to February, lead 24', 'June to August, lead 48.5']

    Args:
        by: What the cases are grouped by; a group shares all of it.
        cases: N, how many cases there are.
        times: When they happened (N,), for seasons and hours; None where neither is asked for.
        leads: How many hours ahead they were forecast (N,), for leads; None where that is not asked for.
    """
    if not by:
        return np.full(cases, "", dtype=np.str_)
    columns = [_names(each, times, leads) for each in by]
    for each, column in zip(by, columns, strict=True):
        if len(column) != cases:
            raise ShapeError(
                f"{'leads' if each == 'lead' else 'times'} must be one for each of the {cases} cases, got {len(column)}"
            )
    return np.array([", ".join(parts) for parts in zip(*columns, strict=True)])


def _names(by: Grouping, times: Any, leads: ArrayLike | None) -> NDArray[np.str_]:
    given = leads if by == "lead" else times
    if given is None:
        raise SettingError(f"{'leads' if by == 'lead' else 'times'} must be given where cases are grouped by {by}")
    if by == "lead":
        return np.array([f"lead {hours:g}" for hours in np.asarray(given, dtype=np.float64)])
    moments: Times = to_utc(times, "times")
    if by == "hour":
        hours = moments.astype("datetime64[h]").astype(np.int64) % 24
        return np.array([f"hour {hour:02d}" for hour in hours])
    months = moments.astype("datetime64[M]").astype(np.int64) % 12  # 0 is January
    return _SEASONS[(months + 1) % 12 // 3]
