"""What a page calls the targets of a forecast: by their names, or, of many, by how many there are."""

from collections.abc import Sequence

from stakes.number_text import count_text

__all__ = ["folded_names", "targets_text"]

_MOST_NAMED = 3


def targets_text(names: Sequence[str], what: str = "target") -> str:
    """The names of a few targets, or how many there are.

    >>> targets_text(["north", "south"]), targets_text([f"farm {place}" for place in range(60)], "site")
    ('north, south', '60 sites')

    Args:
        names: The names of all.
        what: What one of them is called.
    """
    return count_text(len(names), what) if len(names) > _MOST_NAMED else ", ".join(names)


def folded_names(names: Sequence[str], what: str = "target") -> dict[str, tuple[str, ...]]:
    """The names of all, under what unfolds them, where `targets_text` leaves them out.

    Args:
        names: The names of all.
        what: What one of them is called.
    """
    return {f"The {targets_text(names, what)}": tuple(names)} if len(names) > _MOST_NAMED else {}
