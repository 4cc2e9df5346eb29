"""Names of columns, looked up or refused with the nearest that exists; a table may have very many of them."""

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

from stakes.errors import SettingError, TableError, did_you_mean

_MOST_COLUMNS = 100_000  # a table with more is one that lies on its side
_Value = TypeVar("_Value", bound=Hashable)


def find_columns(wanted: Sequence[str], known: Sequence[str]) -> list[int]:
    """Where the wanted columns stand among the known."""
    check_names("columns", wanted)
    places = {column: place for place, column in enumerate(known)}
    for column in wanted:
        if column not in places:
            raise SettingError(f"there is no column {column!r}; {did_you_mean(column, known)}")
    return [places[column] for column in wanted]


def check_header(columns: Sequence[str], name: str) -> None:
    """Raise unless the columns of a file have different names, and are not too many."""
    if len(columns) > _MOST_COLUMNS:
        raise TableError(
            f"{name} has {len(columns):,} columns, expected at most {_MOST_COLUMNS:,}; cases and times are rows"
        )
    if (twice := first_repeated(columns)) is not None:
        raise TableError(f"{name} has the column {twice!r} twice; column names must differ")


def first_repeated(values: Iterable[_Value]) -> _Value | None:
    """The first value that was there before; None where all differ."""
    before: set[_Value] = set()
    for value in values:
        if value in before:
            return value
        before.add(value)
    return None


def check_names(field: str, names: Sequence[str]) -> None:
    """Raise unless the names are texts; one text alone would be read letter by letter."""
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise SettingError(f"{field} must be a tuple of names, got {names!r}")
