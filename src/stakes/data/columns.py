"""Names of columns, looked up or refused with the nearest that exists."""

from collections.abc import Sequence

from stakes.errors import SettingError, did_you_mean

__all__ = ["check_names", "find_columns"]


def find_columns(wanted: Sequence[str], known: Sequence[str]) -> list[int]:
    """Where the wanted columns stand among the known.

    Args:
        wanted: The names that are looked for.
        known: The names that there are.
    """
    check_names("columns", wanted)
    for column in wanted:
        if column not in known:
            raise SettingError(f"there is no column {column!r}; {did_you_mean(column, known)}")
    return [known.index(column) for column in wanted]


def check_names(field: str, names: Sequence[str]) -> None:
    """Raise unless the names are texts; one text alone would be read letter by letter.

    Args:
        field: What the names are, such as "columns"; it begins the message.
        names: A sequence of names.
    """
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise SettingError(f"{field} must be a tuple of names, got {names!r}")
