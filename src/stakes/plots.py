"""How every figure looks: sizes, colors that everybody can tell apart, error bars."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import Formatter
from numpy.typing import ArrayLike, NDArray

from stakes.evaluation.intervals import Difference, Resampling, Sampled
from stakes.text import tick_texts

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


@contextmanager
def style() -> Iterator[None]:
    """Draw inside this."""
    with mpl.rc_context(_SETTINGS):
        yield


class NumberFormatter(Formatter):
    """Ticks as `stakes.text` writes them, instead of matplotlib's own with its offsets and powers of ten."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        return self.format_ticks([x])[0]

    def format_ticks(self, values: Sequence[float]) -> list[str]:
        return [self.fix_minus(text) for text in tick_texts(values)]


def weight_colours(weights: Sequence[float] | NDArray[np.float64]) -> list[Any]:
    """A colour for each decision weight, dark for low ones, along a perceptually uniform map."""
    places = np.linspace(0.0, 0.85, max(2, len(weights)))
    return [mpl.colormaps["viridis"](place) for place in places[: len(weights)]]


_NOISE = 1e-6  # of the largest value


def leave_room(axes: Axes, side: Literal["x", "y"], values: ArrayLike) -> None:
    """Around values that are all the same but for rounding, which would fill the axes with noise."""
    numbers = np.asarray(values, np.float64)
    numbers = numbers[np.isfinite(numbers)]
    size = float(np.abs(numbers).max(initial=0.0))
    if len(numbers) and float(np.ptp(numbers)) <= _NOISE * size:
        ends = float(numbers.min()) - 0.05 * (size or 1.0), float(numbers.max()) + 0.05 * (size or 1.0)
        axes.set(**{f"{side}lim": ends})


def band(axes: Axes, places: ArrayLike, low: ArrayLike, high: ArrayLike, colour: Any, label: str = "") -> None:
    """The space between two curves, faint."""
    axes.fill_between(places, low, high, color=colour, alpha=0.18, linewidth=0, label=label or None)


Floats = NDArray[np.float64]


def binned_means(resampling: Resampling, key: Floats, values: Sequence[Floats], bins: int) -> list[list[Sampled]]:
    """The means of each of some values within bins of a key, from its lowest to its highest."""
    place = np.argsort(np.argsort(key, kind="stable")) * bins // len(key)
    parts = np.stack([np.where(place == each, value, np.nan) for value in values for each in range(bins)])
    means = resampling.means(parts[:, None, None])
    return [means[start : start + bins] for start in range(0, len(means), bins)]


_THIN = 0.9


def error_bars(axes: Axes, places: Any, intervals: Sequence[Difference], **look: Any) -> None:
    """Means joined by a line, bars for their intervals, marks filled where an interval leaves out zero."""
    mean = np.array([each.mean for each in intervals])
    colour, marker = look["color"], look.pop("marker", "o")
    axes.errorbar(places, mean, reach(intervals), linewidth=_THIN, marker=marker, markerfacecolor="white", **look)
    sure = np.array([each.significant for each in intervals])
    size = look.get("markersize")
    axes.plot(
        np.asarray(places)[sure], mean[sure], linestyle="", marker=marker, color=colour, markersize=size, zorder=3
    )


def reach(intervals: Sequence[Difference]) -> NDArray[np.float64]:
    """How far the intervals reach below and above their means, (2, K); not below zero, whatever the rounding."""
    mean, low, high = np.array(intervals, dtype=np.float64).reshape(-1, 3).T
    return np.maximum(0.0, [mean - low, high - mean])


def crosses(axes: Axes, x: Sequence[Difference], y: Sequence[Difference], **look: Any) -> None:
    """Marks with the intervals of both their coordinates."""
    places, means = ([each.mean for each in side] for side in (x, y))
    axes.errorbar(places, means, reach(y), reach(x), linestyle="", elinewidth=0.6, markersize=4, **look)


def diagonal(axes: Axes) -> None:
    """Both axes alike, and the dotted line on which they are equal."""
    ends = (min(axes.get_xlim()[0], axes.get_ylim()[0]), max(axes.get_xlim()[1], axes.get_ylim()[1]))
    axes.plot(ends, ends, color="black", linestyle=":", linewidth=0.9, zorder=1)
    axes.set(xlim=ends, ylim=ends)


LOOKS: dict[str, dict[str, Any]] = {
    "plain": {"color": COLOURS["blue"], "marker": "o"},
    "selected": {"color": COLOURS["orange"], "marker": "s"},
    "today": {"color": COLOURS["purple"], "marker": "^"},
}
"""The reference, the selected forecast, and today's action."""
CHOSEN: dict[str, Any] = {"marker": "o", "markersize": 10, "markerfacecolor": "none", "color": "black", "zorder": 5}


def key(axes: Axes, label: str, **look: Any) -> None:
    """An entry of the legend without data."""
    axes.plot([], [], label=label, **look)


def axis_label(name: str, unit: str) -> str:
    """The text of an axis: the name of what it shows and its unit."""
    return f"{name} ({literal_text(unit)})" if unit else name


def literal_text(text: str) -> str:
    """A user's text as matplotlib shows it, letter by letter: no formula between dollars, nothing unprintable."""
    return "".join(letter for letter in text if letter.isprintable()).replace("$", r"\$")
