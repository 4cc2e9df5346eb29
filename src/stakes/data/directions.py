"""Columns of directions in degrees, of which sine and cosine are features: 359 and 1 are neighbours."""

import re
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from stakes.data.table_columns import column_numbers

__all__ = ["direction_features", "likely_directions", "with_waves"]

_NAME = re.compile(r"dir(?!ect(?!ion))|(?:^|[\W\d_])wd(?![a-z])", re.IGNORECASE)  # wind_dir, wd10; no direct_radiation
_QUARTER, _CIRCLE = 90.0, 360.0


def direction_features(column: str, directions: Sequence[str]) -> tuple[str, ...]:
    """The names of the features that a column makes: its own, or those of its sine and cosine.

    >>> direction_features("wd10", ("wd10",)), direction_features("ws10", ("wd10",))
    (('wd10_sin', 'wd10_cos'), ('ws10',))

    Args:
        column: The name of the column.
        directions: The names of the columns of directions.
    """
    return (f"{column}_sin", f"{column}_cos") if column in directions else (column,)


def with_waves(values: NDArray[np.float64], columns: Sequence[str], directions: Sequence[str]) -> NDArray[np.float64]:
    """The features that the columns make, in the order of `direction_features`, (N, C + directions).

    Args:
        values: The numbers (N, C) of the columns; directions in degrees.
        columns: The names of the C columns.
        directions: The names of those that are directions.
    """
    places = [place for place, name in enumerate(columns) if name in directions]
    if not places:
        return values
    angles = np.deg2rad(values[:, places])
    waved = values.copy()
    waved[:, places] = np.sin(angles)
    return np.insert(waved, [place + 1 for place in places], np.cos(angles), axis=1)


def likely_directions(table: pd.DataFrame, columns: Iterable[str]) -> tuple[str, ...]:
    """The columns that look like directions in degrees, by their name and values that go around the circle.

    >>> table = pd.DataFrame({"wind_dir": [2.0, 135.0, 358.0], "direct_radiation": [0.0, 90.0, 300.0]})
    >>> likely_directions(table, table.columns)
    ('wind_dir',)

    Args:
        table: The table.
        columns: The columns of numbers that are looked at.
    """
    named = [name for name in dict.fromkeys(columns) if _NAME.search(name)]
    ranges = ((name, column_numbers(table, [name], "directions")) for name in named)
    return tuple(
        name
        for name, values in ranges
        if 0 <= np.nanmin(values) < _QUARTER and _CIRCLE - _QUARTER < np.nanmax(values) <= _CIRCLE
        if not any(feature in table.columns for feature in direction_features(name, (name,)))
    )
