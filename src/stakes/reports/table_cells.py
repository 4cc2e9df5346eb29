"""What stands in a table: values, how they are shown, and what they are sorted by."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from stakes.errors import SettingError
from stakes.number_text import MISSING, column_texts, interval_text

__all__ = ["Cell", "ShownCell", "shown_cells"]


@dataclass(frozen=True)
class ShownCell:
    """A cell of a table as readers see it.

    Attributes:
        text: What is shown.
        key: What it is sorted by: a number in a column of numbers, text elsewhere. Without a key, text is sorted by
            what is shown, and in a column of numbers the cell comes last.
        strong: Whether it is shown in bold.
    """

    text: str
    key: float | str | None = None
    strong: bool = False

    @classmethod
    def interval(cls, mean: float, low: float, high: float, decimals: int = 3) -> "ShownCell":
        """A mean with its interval, sorted by the mean, strong where the interval leaves out zero.

        >>> ShownCell.interval(-0.12, -0.2, -0.05, 2)
        ShownCell(text='-0.12 [-0.20, -0.05]', key=-0.12, strong=True)
        """
        return cls(interval_text(mean, low, high, decimals), mean, strong=low > 0 or high < 0)

    @property
    def sort_key(self) -> str | None:
        """The key as JavaScript reads it; empty for what comes last, None for what is sorted by its text."""
        if not isinstance(self.key, float | int):
            return self.key
        if math.isnan(self.key):
            return ""
        return repr(float(self.key)).replace("inf", "Infinity")


Cell = str | float | int | None | ShownCell


def shown_cells(column: Sequence[Cell]) -> list[ShownCell]:
    """How the cells of one column are shown; its decimal numbers share one number of decimals.

    >>> [cell.text for cell in shown_cells([12.5, 0.25, 3, None])]
    ['12.50', '0.25', '3', '–']

    Args:
        column: The cells from top to bottom: text, numbers, None for what is missing, or cells that say themselves how
            they are shown.
    """
    numbers = [float(cell) for cell in column if isinstance(cell, float)]
    texts = iter(column_texts(numbers))
    return [ShownCell(next(texts), _key(cell)) if isinstance(cell, float) else _shown(cell) for cell in column]


def _key(value: float) -> float | str:
    return "" if math.isnan(value) else value


def _shown(cell: str | int | ShownCell | None) -> ShownCell:
    if isinstance(cell, ShownCell):
        return cell
    if isinstance(cell, str):
        return ShownCell(cell)
    if cell is None:
        return ShownCell(MISSING, "")
    if isinstance(cell, int) and not isinstance(cell, bool):
        return ShownCell(f"{cell:,}", cell)
    raise SettingError(f"a cell must be text, a number, None or ShownCell, got {cell!r} of type {type(cell).__name__}")
