"""The reliability of a forecast before and after: ranks, spread and error, expected and realised cost."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Drawing
from numpy.typing import NDArray

from stakes.evaluation.judged_correction import Version
from stakes.number_text import count_text
from stakes.reports.binned_means import binned_means
from stakes.reports.error_bars import crosses, diagonal
from stakes.reports.fit_panels import LOOKS, axis_label, drawing_style, figure_of_panels, legend_below_panel, new_panel
from stakes.reports.judged_recalibration import JudgedRecalibration
from stakes.reports.page import Figure

__all__ = ["pit_shares", "reliability_figure"]

Floats = NDArray[np.float64]

_TICKS = 5  # on axes whose numbers may be long
_NO_WIDTH = 1e-9  # of a PIT that is known exactly


def reliability_figure(fit: JudgedRecalibration) -> Figure:
    """Where outcomes lie among the members, spread and error, expected and realised cost, before and after.

    Args:
        fit: The recalibration that is reported.
    """
    spread = [version for version in fit.versions if version == "corrected" or fit.form != "points"]
    bins = max(2, min(10, fit.cases // 20))
    with drawing_style():
        panels = [_draw_ranks(fit, spread), _draw_spread(fit, spread, bins)] if spread else []
        panels.append(_draw_costs(fit, bins))
        captions = iter(("First", "Second", "Third"))
        caption = f"On {count_text(fit.cases, 'test case')}."
        if spread:
            point = " A point forecast has neither as it comes." if fit.form == "points" else ""
            caption += (
                f" {next(captions)}: how often the outcome has each place among the members, flat for a forecast that "
                "is right; a slope is a bias, a valley says that members lie too close together, a hill that they lie "
                "too far apart. The grey band is where 95 % of the bars of a right forecast would lie, were cases "
                f"independent. {next(captions)}: root mean squared error of the members' mean against their spread, in "
                f"{bins} bins of the spread; above the diagonal the forecast is too sure of itself.{point}"
            )
        caption += (
            f" {next(captions)}: mean realised against mean expected cost, in {bins} bins of the expected cost; above "
            "the diagonal decisions turn out more expensive than expected. Bars are 95 % intervals."
        )
        title = "Reliability before and after" if fit.has_left_plain else "Reliability of the raw forecast"
        return figure_of_panels("reliability", title, caption, panels, fit.settings)


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
    panel, (axes,) = new_panel(height=3.0)
    for version in versions:
        spread, error = (fit.judged.values(name, version) for name in ("spread", "error"))
        squares = binned_means(fit.resampling, spread, (spread**2, error**2), bins)
        roots = ([fit.stated(each.applied(np.sqrt)) for each in means] for means in squares)
        crosses(axes, *roots, **_look(fit, version))
    axes.set(xlabel="spread", ylabel="error of the mean")
    return _with_diagonal(panel)


def _draw_costs(fit: JudgedRecalibration, bins: int) -> Drawing:
    panel, (axes,) = new_panel(height=3.0)
    for version in fit.versions:
        expected, realised = (fit.judged.values(name, version) for name in ("expected_cost", "cost"))
        means = binned_means(fit.resampling, expected, (expected, realised), bins)
        crosses(axes, *([fit.stated(each) for each in side] for side in means), **_look(fit, version))
    axes.set(xlabel=axis_label("expected cost", fit.unit), ylabel=axis_label("realised cost", fit.unit))
    return _with_diagonal(panel)


def _with_diagonal(panel: Drawing) -> Drawing:
    axes = panel.axes[0]
    diagonal(axes)
    axes.locator_params(axis="x", nbins=_TICKS)
    legend_below_panel(panel)
    return panel


def _look(fit: JudgedRecalibration, version: Version) -> dict[str, Any]:
    name = "plain" if version == "raw" else "taken"
    return {**LOOKS[name], "label": fit.labels[name]}
