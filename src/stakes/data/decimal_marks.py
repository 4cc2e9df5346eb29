"""Whether the commas and points in the numbers of a text file stand before decimals or between thousands.

12,5 shows that its comma is a decimal one, and so does 1,234 beside 98765, which has no mark between its thousands; the
column 987, 1,234 shows nothing. Where a file has commas and points in its numbers, such a column may be either, which
is a factor of a thousand: it is refused.
"""

import re
from collections.abc import Collection, Mapping, Sequence

from stakes.errors import TableError

__all__ = ["has_decimal_commas"]

_NUMBER = re.compile(r"[+-]?(?:\d++(?:[.,]\d*+)?|[.,]\d++)(?:[eE][+-]?\d++)?")
_PERHAPS_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}")
_UNMARKED_THOUSANDS = re.compile(r"[+-]?\d{4,}")


def has_decimal_commas(columns: Mapping[str, Sequence[str]], missing: Collection[str], name: str) -> bool:
    """Whether some column shows that commas stand before decimals.

    Args:
        columns: The cells of the columns of a file whose commas do not separate.
        missing: What cells without a value hold.
        name: What messages call the file.
    """
    certain: set[str] = set()
    doubtful: dict[str, tuple[str, str]] = {}  # the first column and its cell, by mark
    for column, cells in columns.items():
        shown, unclear = _marks(cells, missing)
        certain |= shown
        for mark, cell in unclear.items():
            doubtful.setdefault(mark, (column, cell))
    for mark, (column, cell) in doubtful.items():
        if (certain | doubtful.keys()) - {mark}:
            whole = cell.replace(mark, "")
            raise TableError(
                f"column {column!r} of {name} holds {cell!r}, which may be {whole} or have decimals, since the "
                "file has numbers with commas and others with points; write numbers without a mark between thousands, "
                "and all decimals with the same mark"
            )
    return "," in certain


def _marks(cells: Sequence[str], missing: Collection[str]) -> tuple[set[str], dict[str, str]]:
    """The marks that stand before decimals for certain, and a cell for each that may part thousands.

    A column that holds anything but numbers has neither.
    """
    certain: set[str] = set()
    doubtful: dict[str, str] = {}
    unmarked = False
    for cell in map(str.strip, cells):
        if cell in missing:
            continue
        if not _NUMBER.fullmatch(cell):
            return set(), {}
        mark = "," if "," in cell else "." if "." in cell else ""
        if not mark:
            unmarked = unmarked or _UNMARKED_THOUSANDS.fullmatch(cell) is not None
        elif _PERHAPS_THOUSANDS.fullmatch(cell):
            doubtful.setdefault(mark, cell)
        else:
            certain.add(mark)
    if unmarked:
        certain |= doubtful.keys()
    return certain, {mark: cell for mark, cell in doubtful.items() if mark not in certain}
