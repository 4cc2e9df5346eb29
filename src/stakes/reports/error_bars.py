"""Means with their intervals: bars, and marks that are filled where an interval leaves out zero."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from stakes.evaluation.intervals import Difference

__all__ = ["crosses", "diagonal", "error_bars", "reach"]

_THIN = 0.9


def error_bars(axes: Axes, places: Any, intervals: Sequence[Difference], **look: Any) -> None:
    """Means joined by a line, bars for their intervals, marks filled where an interval leaves out zero.

    Args:
        axes: Where it is drawn.
        places: Where the means stand on the horizontal axis, (K,).
        intervals: The K means with their intervals.
        look: How lines and marks look, as matplotlib's `errorbar` takes it; `color` must be given.
    """
    mean = np.array([each.mean for each in intervals])
    colour, marker = look["color"], look.pop("marker", "o")
    axes.errorbar(places, mean, reach(intervals), linewidth=_THIN, marker=marker, markerfacecolor="white", **look)
    sure = np.array([each.significant for each in intervals])
    size = look.get("markersize")
    axes.plot(
        np.asarray(places)[sure], mean[sure], linestyle="", marker=marker, color=colour, markersize=size, zorder=3
    )


def reach(intervals: Sequence[Difference]) -> NDArray[np.float64]:
    """How far the intervals reach below and above their means, (2, K); not below zero, whatever the rounding.

    Args:
        intervals: The K means with their intervals.
    """
    mean, low, high = np.array(intervals, dtype=np.float64).reshape(-1, 3).T
    return np.maximum(0.0, [mean - low, high - mean])


def crosses(axes: Axes, x: Sequence[Difference], y: Sequence[Difference], **look: Any) -> None:
    """Marks with the intervals of both their coordinates.

    Args:
        axes: Where they are drawn.
        x: The horizontal coordinates, K of them.
        y: The vertical ones.
        look: How the marks look, as matplotlib's `errorbar` takes it.
    """
    places, means = ([each.mean for each in side] for side in (x, y))
    axes.errorbar(places, means, reach(y), reach(x), linestyle="", elinewidth=0.6, markersize=4, **look)


def diagonal(axes: Axes) -> None:
    """Both axes alike, and the dotted line on which they are equal.

    Args:
        axes: Where all else is drawn already.
    """
    ends = (min(axes.get_xlim()[0], axes.get_ylim()[0]), max(axes.get_xlim()[1], axes.get_ylim()[1]))
    axes.plot(ends, ends, color="black", linestyle=":", linewidth=0.9, zorder=1)
    axes.set(xlim=ends, ylim=ends)
