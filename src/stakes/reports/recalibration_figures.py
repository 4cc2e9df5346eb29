"""The reliability of a forecast before and after: ranks, spread and error, expected and realised cost."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Drawing
from numpy.typing import NDArray

from stakes.evaluation.intervals import Difference
from stakes.evaluation.judged_correction import Version
from stakes.number_text import count_text
from stakes.reports.binned_means import binned_means
from stakes.reports.error_bars import crosses, diagonal
from stakes.reports.fit_panels import LOOKS, axis_label, drawing_style, figure_of_panels, legend_below_panel, new_panel
from stakes.reports.judged_recalibration import JudgedRecalibration
from stakes.reports.page import Figure

__all__ = ["pit_shares", "reliability_figure"]

Floats = NDArray[np.float64]
Sides = list[list[Difference]]  # of both axes

_TICKS = 5  # on axes whose numbers may be long
_NO_WIDTH = 1e-9  # of a PIT that is known exactly


def reliability_figure(fit: JudgedRecalibration) -> Figure:
    """Where outcomes lie among the members, spread and error, expected and realised cost, before and after.

    Not of a point forecast as it came, which knows of no uncertainty.

    Args:
        fit: The recalibration that is reported.
    """
    versions = [version for version in fit.versions if version == "corrected" or fit.form != "points"]
    bins = max(2, min(10, fit.cases // 20))
    point = " A point forecast has none of this as it comes." if fit.form == "points" else ""
    with drawing_style():
        panels = [_draw_ranks(fit, versions), _draw_spread(fit, versions, bins), _draw_costs(fit, versions, bins)]
        caption = (
            f"On {count_text(fit.cases, 'test case')}. First: how often the outcome has each place among the members, "
            "flat for a forecast that is right; a slope is a bias, a valley says that members lie too close together, "
            "a hill that they lie too far apart. The grey band is where 95 % of the bars of a right forecast would "
            "lie, were cases independent. Second: root mean squared error of the members' mean against their spread, "
            f"in {bins} bins of the spread; above the diagonal the forecast is too sure of itself. Third: mean "
            f"realised against mean expected cost, in {bins} bins of the expected cost; above the diagonal decisions "
            f"turn out more expensive than expected. Bars are 95 % intervals.{point}"
        )
        return figure_of_panels("reliability", "Reliability", caption, panels, fit.settings)


def pit_shares(lower: Floats, upper: Floats, bins: int) -> Floats:
    """The share of outcomes in each bin of the PIT, each spread evenly over where its PIT may lie.

    >>> pit_shares(np.array([0.0, 0.5]), np.array([0.5, 1.0]), 4)
    array([0.25, 0.25, 0.25, 0.25])

    Args:
        lower: Where the PIT of each outcome begins, (N,).
        upper: Where it ends, (N,).
        bins: How many bins there are.
    """
    first = np.minimum(lower, 1 - _NO_WIDTH)
    width = np.maximum(upper - first, _NO_WIDTH)
    edges = np.linspace(0.0, 1.0, bins + 1)[:, None]
    return np.diff(np.clip((edges - first) / width, 0.0, 1.0).mean(-1))


def _draw_ranks(fit: JudgedRecalibration, versions: Sequence[Version]) -> Drawing:
    """A histogram for each, since one may dwarf the other."""
    panel, rows = new_panel(len(versions), height=1.6 + 1.2 * len(versions), sharex=True)
    bins = max(4, min(20, fit.cases // 10))
    even = 1 / bins
    reach = 196 * np.sqrt(even * (1 - even) / fit.cases)
    for axes, version in zip(rows, versions, strict=True):
        lower, upper = (fit.judged.values(name, version) for name in ("pit_from", "pit_to"))
        shares, edges = 100 * pit_shares(lower, upper, bins), np.linspace(0.0, 1.0, bins + 1)
        axes.axhspan(max(0.0, 100 * even - reach), 100 * even + reach, color="#DDDDDD", linewidth=0, zorder=0)
        axes.stairs(shares, edges, color=_look(fit, version)["color"], linewidth=1.4)
        axes.set(ylim=(0, None), ylabel=f"{version} (%)")
    place = "rank of the outcome among the members" if fit.form == "members" else "PIT: the level of the outcome"
    rows[-1].set_xlabel(f"{place} (–)")
    return panel


def _draw_spread(fit: JudgedRecalibration, versions: Sequence[Version], bins: int) -> Drawing:
    sides = {}
    for version in versions:
        spread, error = (fit.judged.values(name, version) for name in ("spread", "error"))
        squares = binned_means(fit.resampling, spread, (spread**2, error**2), bins)
        sides[version] = [[fit.stated(each.applied(np.sqrt)) for each in means] for means in squares]
    return _draw_sides(fit, sides, "spread", "error of the mean")


def _draw_costs(fit: JudgedRecalibration, versions: Sequence[Version], bins: int) -> Drawing:
    sides = {}
    for version in versions:
        expected, realised = (fit.judged.values(name, version) for name in ("expected_cost", "cost"))
        means = binned_means(fit.resampling, expected, (expected, realised), bins)
        sides[version] = [[fit.stated(each) for each in side] for side in means]
    return _draw_sides(fit, sides, *(axis_label(f"{name} cost", fit.unit) for name in ("expected", "realised")))


def _draw_sides(fit: JudgedRecalibration, sides: Mapping[Version, Sides], x: str, y: str) -> Drawing:
    """Two sides that should be equal; an interval that is much longer than the axes is cut off."""
    panel, (axes,) = new_panel(height=3.0)
    for version, both in sides.items():
        crosses(axes, *both, **_look(fit, version))
    means = [each.mean for both in sides.values() for side in both for each in side]
    span = max(means) - min(means) or 1.0
    lowest = max(min(means) - 0.2 * span, -0.05 * span if min(means) >= 0 else -math.inf)
    ends = lowest, max(means) + 0.2 * span
    axes.set(xlim=ends, ylim=ends, xlabel=x, ylabel=y)
    diagonal(axes)
    axes.locator_params(axis="x", nbins=_TICKS)
    legend_below_panel(panel)
    return panel


def _look(fit: JudgedRecalibration, version: Version) -> dict[str, Any]:
    name = "plain" if version == "raw" else "taken"
    return {**LOOKS[name], "label": fit.labels[name]}
