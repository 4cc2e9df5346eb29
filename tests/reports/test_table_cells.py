import math

import pytest
from refusals import refuses

from stakes.errors import SettingError
from stakes.reports.page import Cell, ShownCell, shown_cells


@pytest.mark.parametrize(
    ("cells", "texts"),
    [
        ([0.0, 0.3, 0.9], ["0.0", "0.3", "0.9"]),
        ([1.0, 2.0], ["1", "2"]),
        ([-0.371234, -0.4], ["-0.3712", "-0.4000"]),
        ([1234.5, 20.0], ["1,234", "20"]),
        ([100.0, 1e-9], ["100", "0"]),
        ([2024, 7], ["2,024", "7"]),
        ([math.inf, -math.inf, math.nan, None], ["∞", "-∞", "–", "–"]),
        (["text", 1.5], ["text", "1.5"]),
        ([], []),
    ],
)
def test_how_a_column_is_shown(cells: list[Cell], texts: list[str]) -> None:
    assert [shown.text for shown in shown_cells(cells)] == texts


@pytest.mark.parametrize(
    ("cell", "key"),
    [(1.5, "1.5"), (3, "3.0"), (1e300, "1e+300"), (-math.inf, "-Infinity"), (math.nan, ""), (None, ""), ("a", None)],
)
def test_what_a_cell_is_sorted_by(cell: Cell, key: str | None) -> None:
    (shown,) = shown_cells([cell])
    assert shown.sort_key == key


@pytest.mark.parametrize(
    ("low", "high", "strong"), [(-0.2, -0.05, True), (0.01, 0.2, True), (-0.2, 0.1, False), (0.0, 0.1, False)]
)
def test_intervals_that_leave_out_zero_are_strong(low: float, high: float, strong: bool) -> None:
    shown = ShownCell.interval((low + high) / 2, low, high)
    assert (shown.key, shown.strong) == ((low + high) / 2, strong)


@pytest.mark.parametrize("cell", [True, [1.0], 1j])
def test_other_cells_are_refused(cell: object) -> None:
    refuses(SettingError, f"a cell must be .* of type {type(cell).__name__}", shown_cells, [cell])
