"""What stands in a table: values, how they are shown, and what they are sorted by."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from stakes.errors import SettingError

__all__ = ["Cell", "ShownCell", "shown_cells"]

MISSING = "–"
DECIMALS = 6


@dataclass(frozen=True)
class ShownCell:
    """A cell that is shown as `text` and sorted by `key`: a number in a column of numbers, text elsewhere.

    Without a key, text is sorted by what is shown, and in a column of numbers the cell comes last.
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
        text = f"{mean:.{decimals}f} [{low:.{decimals}f}, {high:.{decimals}f}]"
        return cls(text, mean, strong=low > 0 or high < 0)

    @property
    def sort_key(self) -> str | None:
        """The key as JavaScript reads it; empty for what comes last, None for what is sorted by its text."""
        if not isinstance(self.key, float | int):
            return self.key
        if math.isnan(self.key):
            return ""
        return repr(float(self.key)).replace("inf", "Infinity")


Cell = str | float | int | None | ShownCell


def shown_cells(cells: Sequence[Cell]) -> list[ShownCell]:
    """How the cells of one column are shown; its decimal numbers share one number of decimals.

    >>> [cell.text for cell in shown_cells([12.5, 0.25, 3, None])]
    ['12.50', '0.25', '3', '–']
    """
    decimals = _decimals([cell for cell in cells if isinstance(cell, float)])
    return [_shown(cell, decimals) for cell in cells]


def _decimals(numbers: Sequence[float]) -> int | None:
    """So many that the largest has four digits and the smallest two, less zeros that end all of them.

    None if that takes more than DECIMALS.
    """
    finite = [number for number in numbers if math.isfinite(number)]
    orders = [math.floor(math.log10(abs(number))) for number in finite if number]
    decimals = max(0, 3 - max(orders), 1 - min(orders)) if orders else 1
    if decimals > DECIMALS:
        return None
    fractions = [f"{number:.{decimals}f}".partition(".")[2] for number in finite]
    return max((len(fraction.rstrip("0")) for fraction in fractions), default=0)


def _shown(cell: Cell, decimals: int | None) -> ShownCell:
    if isinstance(cell, ShownCell):
        return cell
    if isinstance(cell, str):
        return ShownCell(cell)
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return ShownCell(MISSING, "")
    if isinstance(cell, float):
        return ShownCell(_number(cell, decimals), cell)
    if isinstance(cell, int) and not isinstance(cell, bool):
        return ShownCell(str(cell), cell)
    raise SettingError(f"a cell must be text, a number, None or ShownCell, got {cell!r} of type {type(cell).__name__}")


def _number(value: float, decimals: int | None) -> str:
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return f"{value:.3g}" if decimals is None else f"{value:.{decimals}f}"
