"""Columns of a table: looked up by name, as numbers or times, and directions as sine and cosine."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from stakes.data.tables.time_axis import Times
from stakes.errors import TableError, did_you_mean
from stakes.settings import shown

_ISO = re.compile(r"\d{4}.*")
_ZONED = r"[^T:]*[T:].*(?:Z|[+-]\d\d(?::?\d\d)?)$"
_ZERO = r"(?:Z|[+-]00(?::?00)?)$"
_FIRST, _LAST = np.datetime64("1678-01-01", "s"), np.datetime64("2261-12-31T23:59:59", "s")  # in nanoseconds
_EXAMPLE = "2020-02-01 13:00"


def require_columns(table: pd.DataFrame, columns: Sequence[str], what: str) -> None:
    """Raise unless the table has the columns."""
    for column in columns:
        if column not in table.columns:
            known = [str(known) for known in table.columns]
            raise TableError(f"{what}: the table has no column {shown(column)}; {did_you_mean(column, known)}")


def numeric_columns(table: pd.DataFrame) -> list[str]:
    """The columns that hold numbers, or true and false, in the order of the table."""
    numeric = {kind for kind in set(table.dtypes) if _is_numeric(kind)}
    return [str(column) for column, kind in zip(table.columns, table.dtypes, strict=True) if kind in numeric]


def is_text(column: "pd.Series[Any]") -> bool:
    """Whether most of a column is text, not a number misspelt."""
    present = column.dropna().astype("str")
    return bool(pd.to_numeric(present, errors="coerce").isna().mean() > 0.5)


def column_numbers(table: pd.DataFrame, columns: Sequence[str], what: str) -> NDArray[np.float64]:
    """The columns as numbers (N, C), NaN where they are missing."""
    require_columns(table, columns, what)
    chosen = table[list(columns)]
    plain = np.array([isinstance(kind, np.dtype) and kind.kind in "fiu" for kind in chosen.dtypes], dtype=bool)
    values = np.zeros(chosen.shape)
    values[:, plain] = chosen.loc[:, plain].to_numpy(np.float64)  # all at once: a table may have very many columns
    for place in map(int, np.flatnonzero(~plain | np.isinf(values).any(0))):
        values[:, place] = _numbers_of(chosen.iloc[:, place], columns[place], what)
    return values


def column_times(table: pd.DataFrame, column: str, *, unique: bool = True) -> Times:
    """The column as times in UTC, (N,), every one known; texts must be ISO, and those without a zone are UTC."""
    require_columns(table, [column], "time")
    values = table[column]
    if not pd.api.types.is_datetime64_any_dtype(values.dtype):
        values = _parsed_times(values, column)
    if len(missing := np.flatnonzero(values.isna().to_numpy())):
        raise TableError(f"column {column!r} must hold a time in every row, but data row {missing[0] + 1} has none")
    naive = values.dt.tz_convert(None) if values.dt.tz is not None else values
    exact = naive.to_numpy()
    seconds: Times = exact.astype("datetime64[s]")
    if len(fractional := np.flatnonzero(seconds != exact)):
        raise TableError(f"column {column!r} must hold whole seconds, got {naive.iloc[fractional[0]]}")
    if len(far := np.flatnonzero((seconds < _FIRST) | (seconds > _LAST))):
        raise TableError(
            f"column {column!r} must hold times of the years 1678 to 2261, got {seconds[far[0]]} in data row "
            f"{far[0] + 1}"
        )
    if unique:
        _require_unique(seconds, column)
    return seconds


def zone_notes(table: pd.DataFrame, column: Any) -> tuple[str, ...]:
    """A sentence where the column of times is written in a zone other than UTC; none where it is not."""
    if column is None:
        return ()
    values = table[column]
    if pd.api.types.is_datetime64_any_dtype(values.dtype):
        another = values.dt.tz is not None and str(values.dt.tz) != "UTC"
    else:
        text = values.astype("str").str.strip()
        another = bool((text.str.match(_ZONED) & ~text.str.contains(_ZERO, regex=True)).any())
    return ("times are UTC here, although the table has them in another zone",) if another else ()


def _is_numeric(kind: Any) -> bool:
    return bool(pd.api.types.is_numeric_dtype(kind)) and not pd.api.types.is_complex_dtype(kind)


def _numbers_of(column: "pd.Series[Any]", name: str, what: str) -> NDArray[np.float64]:
    if pd.api.types.is_datetime64_any_dtype(column.dtype) or pd.api.types.is_timedelta64_dtype(column.dtype):
        raise TableError(f"{what}: column {name!r} must hold numbers, got dates and times")
    numeric = _is_numeric(column.dtype)
    values = column if numeric else pd.to_numeric(column, errors="coerce")
    if not numeric and len(bad := np.flatnonzero((values.isna() & column.notna()).to_numpy())):
        raise TableError(
            f"{what}: column {name!r} must hold numbers, got {shown(column.iloc[bad[0]])} in data row {bad[0] + 1}"
            f"{_spelling_hint(str(column.iloc[bad[0]]))}"
        )
    floats = values.to_numpy(dtype=np.float64, na_value=np.nan)
    if len(infinite := np.flatnonzero(np.isinf(floats))):
        raise TableError(
            f"{what}: column {name!r} must be finite, got {floats[infinite[0]]} in data row {infinite[0] + 1}"
        )
    return floats


def _spelling_hint(text: str) -> str:
    if re.fullmatch(r"[+-]?\d{1,3}(\s\d{3})+([.,]\d+)?", text):
        return "; write numbers without spaces"
    if re.fullmatch(r"[+-]?[1-9]\d{0,2}([.,']\d{3})+([.,]\d+)?", text):
        return "; write numbers without a mark between thousands, and decimals with a point"
    if re.fullmatch(r"[+-]?\d+,\d+", text):
        return "; write decimals with a point, or separate the columns by semicolons"
    return ""


def _parsed_times(column: "pd.Series[Any]", name: str) -> "pd.Series[Any]":
    if _is_numeric(column.dtype):
        raise TableError(f"column {name!r} must hold ISO times such as {_EXAMPLE}, got the number {column.iloc[0]}")
    text = column.astype("str").str.strip().mask(column.isna())
    parsed = pd.to_datetime(text, format="ISO8601", utc=True, errors="coerce")
    parsed = parsed.mask(~text.str.fullmatch(_ISO).fillna(False).astype(bool))
    if len(bad := np.flatnonzero((parsed.isna() & text.notna()).to_numpy())):
        dotted = re.match(r"\d{1,2}[./-]\d{1,2}[./-]\d{2,4}", text.iloc[bad[0]])
        hint = "; write the year first, then the month and the day" if dotted else ""
        raise TableError(
            f"column {name!r} must hold ISO times such as {_EXAMPLE}, got {shown(text.iloc[bad[0]])} in data row "
            f"{bad[0] + 1}{hint}"
        )
    zoned = text[text.notna()].str.match(_ZONED)
    if zoned.nunique() > 1:
        row = int(np.flatnonzero((zoned != zoned.iloc[0]).to_numpy())[0])
        raise TableError(
            f"column {name!r} must have a time zone in every row or in none, but data rows 1 and {row + 1} differ"
        )
    return parsed


def _require_unique(seconds: Times, column: str) -> None:
    order = np.argsort(seconds, kind="stable")
    if len(twice := np.flatnonzero(np.diff(seconds[order]).astype(np.int64) == 0)):
        first, second = sorted(order[twice[0] : twice[0] + 2] + 1)
        raise TableError(
            f"column {column!r} must have each time once, but data rows {first} and {second} are both "
            f"{seconds[first - 1]} ({len(twice)} in all); where clocks are set back, write UTC or add the zone"
        )


_NAME = re.compile(r"dir(?!ect(?!ion))|(?:^|[\W\d_])wd(?![a-z])", re.IGNORECASE)  # wind_dir, wd10; no direct_radiation
_QUARTER, _CIRCLE = 90.0, 360.0


def direction_features(column: str, directions: Sequence[str]) -> tuple[str, ...]:
    """The names of the features that a column makes: its own, or those of its sine and cosine.

    >>> direction_features("wd10", ("wd10",)), direction_features("ws10", ("wd10",))
    (('wd10_sin', 'wd10_cos'), ('ws10',))
    """
    return (f"{column}_sin", f"{column}_cos") if column in directions else (column,)


def encode_angles(
    values: NDArray[np.float64], columns: Sequence[str], directions: Sequence[str]
) -> NDArray[np.float64]:
    """The features that the columns make, in the order of `direction_features`, (N, C + directions)."""
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
    """
    named = [name for name in dict.fromkeys(columns) if _NAME.search(name)]
    ranges = ((name, column_numbers(table, [name], "directions")) for name in named)
    return tuple(
        name
        for name, values in ranges
        if 0 <= np.nanmin(values) < _QUARTER and _CIRCLE - _QUARTER < np.nanmax(values) <= _CIRCLE
        if not any(feature in table.columns for feature in direction_features(name, (name,)))
    )


def case_labels(index: "pd.Index[Any]") -> "pd.Index[Any]":
    """Times and names as they are, rows counted from 1 as a reader of the file does."""
    if isinstance(index, pd.MultiIndex) and index.names[0] == "row":
        rows, *others = (index.get_level_values(level) for level in range(index.nlevels))
        return pd.MultiIndex.from_arrays([rows + 1, *others], names=index.names)
    return index + 1 if index.name == "row" else index


def newest_cases(index: "pd.Index[Any]") -> NDArray[np.int64]:
    """The place of the newest case, or of all sites of it where each is a case by itself."""
    if isinstance(index, pd.MultiIndex):
        newest = index.get_level_values(0)
        return np.flatnonzero(newest == newest.max())
    return np.argsort(index, kind="stable")[-1:]


def in_utc(table: pd.DataFrame) -> pd.DataFrame:
    """The table with its cases' times, in the first column where there are some, marked as UTC."""
    first = table.columns[0]
    if not pd.api.types.is_datetime64_dtype(table[first].dtype):
        return table
    return table.assign(**{first: table[first].dt.tz_localize("UTC")})


def told_labels(index: "pd.Index[Any]") -> tuple[str, ...]:
    """The cases as messages call them, times as tables write them.

    >>> told_labels(pd.DatetimeIndex(["2020-02-01T13:00"])), told_labels(pd.Index([7]))
    (('2020-02-01T13:00:00Z',), ('7',))
    """
    return tuple(_told(each) for each in index)


def _told(label: Any) -> str:
    if isinstance(label, tuple):
        return ", ".join(map(_told, label))
    return f"{label.isoformat()}Z" if isinstance(label, pd.Timestamp) else str(label)
