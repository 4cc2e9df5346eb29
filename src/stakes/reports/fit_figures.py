"""The figures of a fit: policies, weights, calibration, and where decisions are cheap or expensive."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from numpy.typing import NDArray

from stakes.evaluation.calibration import binned_gap, pit_histogram
from stakes.evaluation.intervals import Difference
from stakes.evaluation.selection import Frontier, FrontierPoint
from stakes.evaluation.study import RegionBy
from stakes.reports.comparison import JudgedFit, PolicyComparison
from stakes.reports.drawing import (
    CHOSEN,
    COLOURS,
    LOOKS,
    axis_label,
    binned_means,
    crosses,
    diagonal,
    drawing_style,
    error_bars,
    figure_of_panels,
    legend_below_panel,
    legend_entry,
    new_panel,
    reach,
)
from stakes.reports.page import Figure
from stakes.reports.selection_text import weight_label
from stakes.text import amount_text, count_text

OBSERVED, PREDICTED, MONTH, HOUR = "third by outcome", "third by forecast", "month", "hour"
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class CaseGroup(NamedTuple):
    """Some of the test cases, and what decisions cost in them."""

    kind: str  # what the cases are grouped by: `OBSERVED`, `PREDICTED`, `MONTH` or `HOUR`
    name: str  # the name of the group, such as "high", "Jan" or "06:00"
    place: int  # where the group stands among those of its kind; the number of the month, the hour of the day
    cases: int  # how many cases it holds
    weight_0_cost: float  # their mean cost at weight 0
    cost: float  # their mean cost at the selected weight
    change: Difference  # their paired difference, cost less weight_0_cost


def case_groups(fit: JudgedFit) -> list[CaseGroup]:
    """All groups that hold a case; times are UTC."""
    weight_0, selected = (fit.values("cost", weight) for weight in (0.0, fit.weight))
    chosen = [each for each in _masks(fit) if each[-1].any()]
    if not chosen:
        return []
    apart = np.stack([np.where(mask, selected - weight_0, np.nan) for *_, mask in chosen])
    changes = fit.study.resampling.means(apart[:, None, None])
    return [
        CaseGroup(
            kind,
            name,
            place,
            int(mask.sum()),
            float(weight_0[mask].mean()),
            float(selected[mask].mean()),
            fit.stated(change, mask),
        )
        for (kind, name, place, mask), change in zip(chosen, changes, strict=True)
    ]


def _masks(fit: JudgedFit) -> Iterator[tuple[str, str, int, NDArray[np.bool_]]]:
    """Kind, name, place within the kind, and which cases."""
    study = fit.study
    for place, name in enumerate(study.regions):
        yield OBSERVED, name, place, _of_region(fit, name, "observed")
    for place, name in enumerate(study.regions):
        if f"mass_{name}" in study.forecasts:
            yield PREDICTED, name, place, _of_region(fit, name, "forecast")
    if fit.times is None:
        return
    times = pd.DatetimeIndex(fit.times)
    for kind, values in ((MONTH, times.month.to_numpy()), (HOUR, times.hour.to_numpy())):
        present = np.unique(values)
        for value in present if len(present) > 1 else ():
            name = MONTHS[value - 1] if kind == MONTH else f"{value:02d}:00"
            yield kind, name, int(value), values == value


def _of_region(fit: JudgedFit, name: str, by: RegionBy) -> NDArray[np.bool_]:
    mask = fit.study.region(name, by)
    assert mask is not None  # the region has a name
    return mask[0, 0]


def case_groups_figure(fit: JudgedFit, groups: Sequence[CaseGroup]) -> Figure:
    """Mean cost, and its change against weight 0, by third of the outcome, month and hour."""
    with drawing_style():
        panels = [_draw_thirds(fit, [group for group in groups if group.kind in (OBSERVED, PREDICTED)])]
        for kind, name in ((MONTH, "month"), (HOUR, "hour of the day (UTC)")):
            chosen = [group for group in groups if group.kind == kind]
            if chosen:
                panels.append(_draw_group(fit, chosen, name))
        caption = "Mean cost per test case in parts of the cases"
        if fit.weight:
            caption += ", and below it the change against weight 0 with paired 95 % intervals, filled where they leave "
            caption += "out zero; where there is no bar, the cases are too few for one"
        caption += (
            ". Thirds go by the outcome, or, as many cases, by what the forecasts expected. To judge forecasts by "
            "cases chosen by their outcome rewards those that exaggerate (the forecaster's dilemma); cases chosen by "
            "the forecast do not have that fault."
        )
        return figure_of_panels("parts", "Cost in parts of the cases", caption, panels, fit.settings)


def _draw_thirds(fit: JudgedFit, groups: Sequence[CaseGroup]) -> Drawing:
    """By outcome on the left of each tick, by forecast on the right."""
    figure, axes = _rows(fit)
    for kind, offset, marker in _SIDES:
        chosen = [group for group in groups if group.kind == kind]
        if chosen:
            _draw_groups(axes, fit, chosen, offset, marker=marker, linestyle="")
    names = {group.place: group.name for group in groups}
    axes[-1].set_xticks(list(names), list(names.values()))
    axes[-1].set(xlabel="third of the cases", xlim=(-0.5, len(names) - 0.5))
    kinds = {group.kind for group in groups}
    black: dict[str, Any] = {"color": "black", "linestyle": ""}
    sides = [legend_entry(kind, marker=marker, **black) for kind, _, marker in _SIDES if kind in kinds]
    legend_below_panel(figure, [*_weight_keys(fit, marker="_", markeredgewidth=3), *sides], columns=2)
    return figure


_SIDES = ((OBSERVED, -0.15, "o"), (PREDICTED, 0.15, "D"))  # side by side


def _draw_group(fit: JudgedFit, groups: Sequence[CaseGroup], name: str) -> Drawing:
    figure, axes = _rows(fit)
    months = groups[0].kind == MONTH
    apart = months and groups[-1].place - groups[0].place >= len(groups)  # no line crosses months without a case
    _draw_groups(axes, fit, groups, 0.0, **({"linestyle": ""} if apart else {}))
    if months:
        axes[-1].set_xticks([group.place for group in groups], [MONTHS[group.place - 1] for group in groups])
    else:
        axes[-1].set_xticks(range(0, 24, 6))
    axes[-1].set_xlabel(name)
    legend_below_panel(figure, _weight_keys(fit), columns=2)
    return figure


def _rows(fit: JudgedFit) -> tuple[Drawing, list[Axes]]:
    """Costs and, where there are two weights, their change below."""
    figure, axes = new_panel(2 if fit.weight else 1, height=3.8 if fit.weight else 3.0, sharex=True)
    axes[0].set_ylabel(axis_label("cost", fit.unit))
    if fit.weight:
        axes[1].axhline(0.0, color="black", linewidth=0.8)
        axes[1].set_ylabel(axis_label("change", fit.unit))
    return figure, axes


def _draw_groups(axes: Sequence[Axes], fit: JudgedFit, groups: Sequence[CaseGroup], offset: float, **look: Any) -> None:
    places = np.array([group.place for group in groups]) + offset
    plain, selected = ({**LOOKS[name], "markersize": 4, **look} for name in ("plain", "selected"))
    axes[0].plot(places, [group.weight_0_cost for group in groups], **plain)
    if fit.weight:
        axes[0].plot(places, [group.cost for group in groups], **selected)
        error_bars(axes[1], places, [group.change for group in groups], **selected)


def _weight_keys(fit: JudgedFit, **look: Any) -> list[Any]:
    looks = zip(fit.weights, ("plain", "selected"), strict=False)
    return [legend_entry(fit.label(weight), **{**LOOKS[name], "linestyle": "", **look}) for weight, name in looks]


_TICKS = 5  # on an axis of costs, whose numbers may be long
_ROOM, _ROW = 0.7, 0.35  # inches, of bars


def money_figure(fit: PolicyComparison) -> Figure:
    """The mean cost of every way to decide, and what others add to that of the first, the plain forecast."""
    ways = {way.short: way for way in fit.ways}
    first = fit.ways[0].short
    colours = {first: LOOKS["plain"]["color"], "today": LOOKS["today"]["color"]}
    if fit.has_left_plain:
        colours[fit.selected.short] = LOOKS["selected"]["color"]
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
    """Cost against score by weight, and cost by weight, on the validation cases."""
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
        error_bars(lines, [point.weight for point in points], changes, **LOOKS["selected"])
        chosen = next(point for point in points if point.weight == frontier.chosen)
        selected = [legend_entry("selected", **CHOSEN, linestyle="")]
        if chosen.cost_change:
            lines.plot(chosen.weight, chosen.cost_change.mean, **CHOSEN)
        lines.set(xlabel="decision weight (–)", ylabel=axis_label("change of the cost", unit))
        legend_below_panel(plane, [*([] if frontier.tolerance is None else _limit_keys()), *selected])
        legend_below_panel(by_weight, [*_signs(), *selected])
    caption = (
        f"Mean cost and score at each decision weight, less those of {rival}, on {frontier.cases:,} validation cases; "
        "lower left is better. Bars are paired 95 % intervals."
    )
    if frontier.tolerance is not None:
        caption += f" A weight is allowed if its score is at most {frontier.tolerance:g} % worse (dashed line)."
    caption += (
        f" In the second panel{f', where {base} stands at 0,' if base else ''} marks are filled where the interval "
        "leaves out zero; a ring is the selected weight."
    )
    caption += f" Training failed at {', '.join(failed)}." if failed else ""
    with drawing_style():
        return figure_of_panels("frontier", "Cost and score by decision weight", caption, [plane, by_weight], settings)


def calibration_figure(fit: JudgedFit) -> Figure:
    """Predicted against realised cost, the gap in bins, the histogram of ranks, and error against spread."""
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
            predicted, realised = ([fit.stated(getattr(each, side)) for each in gaps_by_cost] for side in _PANEL_SIDES)
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


_PANEL_SIDES = ("predicted", "realised")


def _looks(fit: JudgedFit) -> list[tuple[float, dict[str, Any]]]:
    return list(zip(fit.weights, (LOOKS["plain"], LOOKS["selected"]), strict=False))


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
        look = LOOKS["selected"] if point.allowed else _REFUSED
        axes.errorbar(x.mean, y.mean, reach([y]), reach([x]), elinewidth=0.6, **look)
        label = weight_label(point, base)
        axes.annotate(label, (x.mean, y.mean), xytext=(4, 4), textcoords="offset points", fontsize=7, zorder=6)
        if point.weight == frontier.chosen:
            axes.plot(x.mean, y.mean, **CHOSEN)


_REFUSED: dict[str, Any] = {"color": COLOURS["grey"], "marker": "x"}


def _limit_keys() -> list[Any]:
    allowed = legend_entry("allowed", **LOOKS["selected"], linestyle="")
    return [allowed, legend_entry("score too bad", **_REFUSED, linestyle="")]


def _signs() -> list[Any]:
    look = LOOKS["selected"]
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
