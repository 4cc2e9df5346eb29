"""What a command or the service tells as JSON."""

import math
from collections.abc import Mapping
from datetime import date
from typing import Any

import numpy as np
import pandas as pd

__all__ = ["plain"]


def plain(value: Any) -> Any:
    """What JSON can hold: tables as lists of rows, times as ISO texts, numbers that are not finite as null."""
    if isinstance(value, pd.DataFrame):
        columns = [str(column) for column in value.columns]
        return [dict(zip(columns, map(plain, row), strict=True)) for row in value.itertuples(index=False, name=None)]
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(inner) for inner in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is pd.NaT:
        return None
    if isinstance(value, date):  # and datetime, and pandas' Timestamp
        return value.isoformat().replace("+00:00", "Z")
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
