"""From what the library computes with to what JSON can hold."""

import math
from collections.abc import Mapping
from dataclasses import is_dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from stakes.errors import SettingError
from stakes.settings import shown, to_plain


def json_value(value: object) -> Any:
    """The same in the types of JSON: tables as lists of rows, times as ISO texts, numbers that are not finite as null.

    Whatever has no such form is refused, rather than written as a text that nobody can read again.

    >>> json_value({"share": np.float32(0.5), "worst": math.nan, "at": Path("a/b")})
    {'share': 0.5, 'worst': None, 'at': 'a/b'}
    """
    if isinstance(value, pd.DataFrame):
        columns = [str(column) for column in value.columns]
        return [dict(zip(columns, map(_cell, row), strict=True)) for row in value.itertuples(index=False, name=None)]
    if isinstance(value, Mapping):
        return {_text(key): json_value(inner) for key, inner in value.items()}
    if isinstance(value, np.datetime64):
        value = pd.Timestamp(value)
    if isinstance(value, np.ndarray | np.generic) and value.ndim == 0:
        value = value.item()
    if isinstance(value, list | tuple | np.ndarray):
        return [json_value(inner) for inner in value]
    return _single(value)


def _single(value: object) -> Any:
    if value is pd.NaT or value is pd.NA or (isinstance(value, float) and not math.isfinite(value)):
        return None
    if isinstance(value, date):  # and datetime, and pandas' Timestamp
        return value.isoformat().replace("+00:00", "Z")
    if is_dataclass(value) and not isinstance(value, type):
        return json_value(to_plain(value))
    if isinstance(value, Path):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise SettingError(f"a {type(value).__name__} cannot be written as JSON: {shown(value)}")


def _text(key: object) -> str:
    if not isinstance(key, str):
        raise SettingError(f"a mapping must have texts as keys, got {shown(key)}")
    return key


def _cell(value: object) -> Any:
    try:
        return json_value(value)
    except SettingError:
        return str(value)
