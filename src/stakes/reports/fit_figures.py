"""The figures of a fit: what each way to decide and each weight costs, and whether the forecast is calibrated."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from stakes.evaluation.calibration import binned_gap, pit_histogram
from stakes.evaluation.intervals import Difference
from stakes.evaluation.weight_frontier import Frontier, FrontierPoint
from stakes.number_text import amount_text, count_text
from stakes.reports.binned_means import binned_means
from stakes.reports.error_bars import crosses, diagonal, error_bars, reach
from stakes.reports.fit_panels import (
    CHOSEN,
    LOOKS,
    axis_label,
    drawing_style,
    figure_of_panels,
    legend_below_panel,
    legend_entry,
    new_panel,
)
from stakes.reports.judged_fit import JudgedFit
from stakes.reports.judged_ways import JudgedWays
from stakes.reports.ladder_words import weight_label
from stakes.reports.page import Figure
from stakes.reports.style import COLOURS

__all__ = ["calibration_figure", "frontier_figure", "money_figure"]

_TICKS = 5  # on an axis of costs, whose numbers may be long
_ROOM, _ROW = 0.7, 0.35  # inches, of bars


def money_figure(fit: JudgedWays) -> Figure:
    """The mean cost of every way to decide, and what others add to that of the first, the plain forecast.

    Args:
        fit: What is reported.
    """
    ways = {way.short: way for way in fit.ways}
    first = fit.ways[0].short
    colours = {first: LOOKS["plain"]["color"], "today": LOOKS["today"]["color"]}
    if fit.has_left_plain:
        colours[fit.taken.short] = LOOKS["taken"]["color"]
    with drawing_style():
        costs, (axes,) = new_panel(height=_ROOM + _ROW * len(ways))
        means = [float(np.nanmean(way.cost)) for way in ways.values()]
        bars = axes.barh(list(ways), means, color=[colours.get(name, COLOURS["grey"]) for name in ways], height=0.6)
        axes.bar_label(bars, [amount_text(mean, beside=means) for mean in means], padding=3, fontsize=7)
        axes.margins(x=0.2)
        axes.set(xlabel=axis_label("mean cost per test case", fit.unit))
        panels = [costs]
        rivals = [name for name in ways if name in colours and name != first]
        if rivals:
            changes, (below,) = new_panel(height=_ROOM + _ROW * len(ways))
            differences = [fit.change(ways[name]) for name in rivals]
            for name, change in zip(rivals, differences, strict=True):
                below.errorbar(change.mean, name, xerr=reach([change]), color=colours[name], marker="o", markersize=5)
            below.set(xlabel=axis_label(f"change from {first}", fit.unit), ylim=(-0.6, len(rivals) - 0.4))
            panels.append(changes)
        for each in panels:
            lines = each.axes[0]
            lines.axvline(0.0, color="black", linewidth=0.8)
            lines.invert_yaxis()
            lines.locator_params(axis="x", nbins=_TICKS)
            lines.grid(visible=False, axis="y")
            lines.set_ylabel("way to decide")
        foresight = f"{_CLIMATOLOGY}, foresight" if "climatology" in ways else "Foresight is"
        caption = (
            f"First: mean cost per test case; less is better. {foresight} the best action for each outcome known "
            "beforehand: no forecast can do better."
        )
        if rivals:
            caption += f" Second: the change from {first}, case by case, with paired 95 % intervals."
        return figure_of_panels("money", "What each way to decide costs", caption, panels, fit.settings)


_CLIMATOLOGY = "Climatology is the one action that was best for the training outcomes"


def frontier_figure(frontier: Frontier, unit: str, settings: Mapping[str, Any], base: str = "") -> Figure:
    """Cost against score by weight, and cost by weight, on the validation cases.

    Args:
        frontier: What every weight costs and scores.
        unit: The unit of the cost.
        settings: The settings of the fit, which stand below the figure.
        base: What stands in the place of weight 0; empty for weight 0 itself.
    """
    rival = base or "weight 0"
    points = [point for point in frontier.points if point.cost_change is not None]
    failed = [f"{point.weight:g}" for point in frontier.points if point.failed]
    with drawing_style():
        plane, (axes,) = new_panel(height=3.0)
        _draw_plane(axes, frontier, points, base)
        axes.set(
            xlabel=f"change of the score{'' if base else ' against weight 0'} (%)",
            ylabel=axis_label("change of the cost", unit),
        )
        by_weight, (lines,) = new_panel(height=3.0)
        lines.axhline(0.0, color="black", linewidth=0.8)
        changes = [point.cost_change for point in points if point.cost_change]
        error_bars(lines, [point.weight for point in points], changes, **LOOKS["taken"])
        chosen = next(point for point in points if point.weight == frontier.chosen)
        taken = [legend_entry("taken", **CHOSEN, linestyle="")]
        if chosen.cost_change:
            lines.plot(chosen.weight, chosen.cost_change.mean, **CHOSEN)
        lines.set(xlabel="decision weight (–)", ylabel=axis_label("change of the cost", unit))
        legend_below_panel(plane, [*([] if frontier.tolerance is None else _limit_keys()), *taken])
        legend_below_panel(by_weight, [*_signs(), *taken])
    caption = (
        f"Mean cost and score at each decision weight, less those of {rival}, on {frontier.cases:,} validation cases; "
        "lower left is better. Bars are paired 95 % intervals."
    )
    if frontier.tolerance is not None:
        caption += f" A weight is allowed if its score is at most {frontier.tolerance:g} % worse (dashed line)."
    caption += (
        f" In the second panel{f', where {base} stands at 0,' if base else ''} marks are filled where the interval "
        "leaves out zero; a ring is the weight that was taken."
    )
    caption += f" Training failed at {', '.join(failed)}." if failed else ""
    with drawing_style():
        return figure_of_panels("frontier", "Cost and score by decision weight", caption, [plane, by_weight], settings)


def calibration_figure(fit: JudgedFit) -> Figure:
    """Predicted against realised cost, the gap in bins, the histogram of ranks, and error against spread.

    Args:
        fit: The fit that is reported.
    """
    unit = fit.unit
    with drawing_style():
        reliability, (above,) = new_panel(height=3.0)
        gaps, (below,) = new_panel(height=3.0)
        ranks, (histogram,) = new_panel(height=3.0)
        spread, (skill,) = new_panel(height=3.0)
        bins = max(2, min(10, fit.cases // 20))
        for weight, look in _looks(fit):
            label = fit.label(weight)
            gaps_by_cost = binned_gap(fit.study, weight, bins=bins)
            predicted, realised = ([fit.stated(getattr(each, side)) for each in gaps_by_cost] for side in _SIDES)
            crosses(above, predicted, realised, label=label, **look)
            gap = [fit.stated(each.gap) for each in gaps_by_cost]
            error_bars(below, [each.mean for each in predicted], gap, label=label, markersize=4, **look)
            _draw_ranks(histogram, fit, weight, look["color"])
            crosses(skill, *_spread_and_error(fit, weight, bins), label=label, **look)
        below.axhline(0.0, color="black", linewidth=0.8)
        for axes in (above, skill):
            diagonal(axes)
        for axes in (above, below, skill):
            axes.locator_params(axis="x", nbins=_TICKS)
        above.set(xlabel=axis_label("predicted cost", unit), ylabel=axis_label("realised cost", unit))
        below.set(xlabel=axis_label("predicted cost", unit), ylabel=axis_label("predicted − realised", unit))
        histogram.set(xlabel="rank of the outcome among the members (–)", ylabel="share of cases (%)", ylim=(0, None))
        skill.set(xlabel="spread", ylabel="error of the mean")
        for figure in (reliability, gaps, ranks, spread):
            legend_below_panel(figure)
        caption = (
            f"On {count_text(fit.cases, 'test case')}. First: mean realised against mean predicted cost in {bins} bins "
            "of the predicted cost with equally many cases; on the dotted diagonal a forecast knows what its decisions "
            "cost. Second: their difference, filled where the interval leaves out zero; below zero, decisions turn out "
            "more expensive than predicted. Third: how often the outcome has each rank among the members, flat for a "
            "calibrated forecast; the grey band is where 95 % of its bars would lie, were cases independent. Fourth: "
            "root mean squared error of the members' mean against their spread, in bins of the spread; above the "
            "diagonal the members lie too close together. Bars are 95 % intervals."
        )
        return figure_of_panels("calibration", "Calibration", caption, [reliability, gaps, ranks, spread], fit.settings)


_SIDES = ("predicted", "realised")


def _looks(fit: JudgedFit) -> list[tuple[float, dict[str, Any]]]:
    return list(zip(fit.weights, (LOOKS["plain"], LOOKS["taken"]), strict=False))


def _draw_plane(axes: Axes, frontier: Frontier, points: Sequence[FrontierPoint], base: str) -> None:
    """Every weight with both intervals, hollow where its score is too bad."""
    axes.axhline(0.0, color="black", linewidth=0.8)
    axes.axvline(0.0, color="black", linewidth=0.8)
    if frontier.tolerance is not None:
        axes.axvline(frontier.tolerance, color=COLOURS["grey"], linestyle="--")
    for point in points:
        if point.score_change is None or point.cost_change is None:
            continue
        x, y = point.score_change, point.cost_change
        look = LOOKS["taken"] if point.allowed else _REFUSED
        axes.errorbar(x.mean, y.mean, reach([y]), reach([x]), elinewidth=0.6, **look)
        label = weight_label(point, base)
        axes.annotate(label, (x.mean, y.mean), xytext=(4, 4), textcoords="offset points", fontsize=7, zorder=6)
        if point.weight == frontier.chosen:
            axes.plot(x.mean, y.mean, **CHOSEN)


_REFUSED: dict[str, Any] = {"color": COLOURS["grey"], "marker": "x"}


def _limit_keys() -> list[Any]:
    allowed = legend_entry("allowed", **LOOKS["taken"], linestyle="")
    return [allowed, legend_entry("score too bad", **_REFUSED, linestyle="")]


def _signs() -> list[Any]:
    look = LOOKS["taken"]
    hollow = legend_entry("interval holds zero", **look, markerfacecolor="white", linestyle="")
    return [hollow, legend_entry("leaves it out", **look, linestyle="")]


def _draw_ranks(axes: Axes, fit: JudgedFit, weight: float, colour: str) -> None:
    bins = max(4, min(20, fit.cases // 10))
    share = 100 * pit_histogram(fit.study, weight, bins=bins)
    axes.stairs(share, np.linspace(0.0, 1.0, bins + 1), color=colour, linewidth=1.4, label=fit.label(weight))
    even = 1 / bins
    reach = 196 * np.sqrt(even * (1 - even) / fit.cases)
    axes.axhspan(max(0.0, 100 * even - reach), 100 * even + reach, color="#EEEEEE", linewidth=0, zorder=0)


def _spread_and_error(fit: JudgedFit, weight: float, bins: int) -> tuple[list[Difference], list[Difference]]:
    """The spread, as it should be for M members, and the error of their mean, in bins of the spread."""
    spread, error = (fit.values(name, weight) for name in ("spread", "error"))
    of_mean = 1 + 1 / int(fit.study.about["members"])
    squares = binned_means(fit.resampling, spread, (of_mean * spread**2, error**2), bins)
    spreads, errors = ([fit.stated(each.applied(np.sqrt)) for each in means] for means in squares)
    return spreads, errors
