"""Names of records and columns: found, or refused with the nearest that exists."""

from collections.abc import Sequence
from difflib import get_close_matches

from stakes.errors import SettingError

__all__ = ["check_names", "did_you_mean", "find_columns"]


def did_you_mean(wrong: str, known: Sequence[str]) -> str:
    """The end of a sentence about an unknown name: the nearest known one, or all of them.

    >>> did_you_mean("TEMP", ["load", "temp"]), did_you_mean("x", ["load", "temp"])
    ("did you mean 'temp'?", 'there are load, temp')
    """
    small = {name.casefold(): name for name in known}
    close = [small[name] for name in get_close_matches(wrong.casefold(), small, n=1)]
    return f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known)}"


def find_columns(wanted: Sequence[str], known: Sequence[str]) -> list[int]:
    """Where the wanted columns stand among the known."""
    check_names("columns", wanted)
    for column in wanted:
        if column not in known:
            raise SettingError(f"there is no column {column!r}; {did_you_mean(column, known)}")
    return [known.index(column) for column in wanted]


def check_names(field: str, names: Sequence[str]) -> None:
    """Raise unless `names` are texts; one text alone would be read letter by letter."""
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise SettingError(f"{field} must be a tuple of names, got {names!r}")
