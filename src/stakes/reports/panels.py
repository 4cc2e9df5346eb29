"""Panels that stand beside each other on a wide screen and below each other on a phone, readable on both."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.lines import Line2D

from stakes.reports.drawing import COLOURS, style, to_svg
from stakes.reports.page import Chart, Figure

_WIDTH, _HEIGHT = 3.75, 2.7  # inches: 8 pt on it are legible where a screen is 360 pixels wide
LOOKS: dict[str, dict[str, Any]] = {
    "plain": {"color": COLOURS["blue"], "marker": "o"},
    "selected": {"color": COLOURS["orange"], "marker": "s"},
    "today": {"color": COLOURS["purple"], "marker": "^"},
}
"""Weight 0, the selected weight, and today's action."""
CHOSEN: dict[str, Any] = {"marker": "o", "markersize": 10, "markerfacecolor": "none", "color": "black", "zorder": 5}


@contextmanager
def drawing_style() -> Iterator[None]:
    """Draw and write inside this; letters that our font lacks are the reader's font's to show."""
    with style(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        yield


def new_panel(rows: int = 1, height: float = _HEIGHT, **options: Any) -> tuple[Drawing, list[Axes]]:
    """A small drawing and its axes, one per row."""
    figure = Drawing(figsize=(_WIDTH, height))
    grid = figure.subplots(rows, 1, squeeze=False, **options)
    return figure, list(grid[:, 0])


def figure_of_panels(
    label: str,
    title: str,
    caption: str,
    panels: Sequence[Drawing],
    settings: Mapping[str, Any],
    charts: Sequence[tuple[Chart, ...]] = (),
) -> Figure:
    """The panels as one figure of the page."""
    first, *others = [to_svg(each) for each in panels]
    return Figure(label, title, caption, first, settings, tuple(others), tuple(charts))


def legend_below_panel(
    figure: Drawing, handles: Sequence[Any] | None = None, columns: int = 3, title: str = ""
) -> None:
    """What the lines are, under the panel."""
    entries = handles if handles is not None else figure.axes[0].get_legend_handles_labels()[0]
    look: dict[str, Any] = {"handlelength": 2.2, "columnspacing": 1.2, "title_fontsize": 7}
    figure.legend(handles=list(entries), loc="outside lower center", ncols=columns, title=title or None, **look)


def legend_entry(label: str, **look: Any) -> Line2D:
    """An entry of a legend."""
    return Line2D([], [], label=label, **look)


def axis_label(name: str, unit: str) -> str:
    """The text of an axis: the name of what it shows and its unit."""
    return f"{name} ({literal_text(unit)})" if unit else name


def literal_text(text: str) -> str:
    """A user's text as matplotlib shows it, letter by letter: no formula between dollars, nothing unprintable."""
    return "".join(letter for letter in text if letter.isprintable()).replace("$", r"\$")
