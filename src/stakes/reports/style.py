"""How every figure looks: sizes for a column of a page, colours that everybody can tell apart, vector output."""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import Formatter, ScalarFormatter
from numpy.typing import ArrayLike, NDArray

from stakes.number_text import tick_texts

__all__ = ["COLOURS", "DASHES", "band", "style", "to_svg", "weight_colours"]

COLOURS = {  # Okabe and Ito (2008)
    "blue": "#0072B2",
    "orange": "#D55E00",
    "green": "#009E73",
    "yellow": "#E69F00",
    "sky": "#56B4E9",
    "purple": "#CC79A7",
    "black": "#000000",
    "grey": "#7F7F7F",
}
DASHES: Sequence[Any] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
_SETTINGS: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "legend.fontsize": 7,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.4,
    "lines.markersize": 4,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "stakes",
    "figure.constrained_layout.use": True,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Arial", "Helvetica", "sans-serif"],
}
_METADATA = ("Creator", "Date", "Format", "Type")  # none of them


@contextmanager
def style() -> Iterator[None]:
    """Draw inside this."""
    with mpl.rc_context(_SETTINGS):
        yield


class NumberFormatter(Formatter):
    """Ticks as `stakes.number_text` writes them, instead of matplotlib's own with its offsets and powers of ten."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        return self.format_ticks([x])[0]

    def format_ticks(self, values: Sequence[float]) -> list[str]:
        return [self.fix_minus(text) for text in tick_texts(values)]


def to_svg(figure: Figure) -> str:
    """The figure as SVG text, the same every time; numbers on its axes are written by `NumberFormatter`.

    Args:
        figure: The figure; its formatters are changed.
    """
    for axis in (each for axes in figure.axes for each in (axes.xaxis, axes.yaxis)):
        if type(axis.get_major_formatter()) is ScalarFormatter:
            axis.set_major_formatter(NumberFormatter())
    text = io.StringIO()
    with style():
        FigureCanvasSVG(figure).print_svg(text, metadata=dict.fromkeys(_METADATA))  # `savefig` would draw it twice
    return text.getvalue()


def weight_colours(weights: Sequence[float] | NDArray[np.float64]) -> list[Any]:
    """A colour for each decision weight, dark for low ones, along a perceptually uniform map.

    Args:
        weights: The weights in increasing order.
    """
    places = np.linspace(0.0, 0.85, max(2, len(weights)))
    return [mpl.colormaps["viridis"](place) for place in places[: len(weights)]]


def band(axes: Axes, places: ArrayLike, low: ArrayLike, high: ArrayLike, colour: Any) -> None:
    """The space between two curves, faint.

    Args:
        axes: Where it is drawn.
        places: Places on the horizontal axis, (K,).
        low: The lower curve, (K,).
        high: The upper curve, (K,).
        colour: Its colour.
    """
    axes.fill_between(places, low, high, color=colour, alpha=0.18, linewidth=0)
