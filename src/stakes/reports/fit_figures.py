"""The figures of a fit: what a cost rewards, what each weight costs, and whether the forecast is calibrated."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from stakes.errors import ShapeError
from stakes.evaluation.calibration import binned_gap, pit_histogram
from stakes.evaluation.intervals import Difference, Sampled
from stakes.evaluation.metrics import Assessor
from stakes.evaluation.weight_frontier import Frontier, FrontierPoint
from stakes.method.actions import optimal_action
from stakes.method.check_cost import CostCheck, check_cost
from stakes.method.costs import Cost
from stakes.number_text import amount_text, count_text
from stakes.reports.error_bars import error_bars, reach
from stakes.reports.fit_panels import (
    CHOSEN,
    LOOKS,
    axis_label,
    drawing_style,
    figure_of_panels,
    legend_below_panel,
    legend_entry,
    literal_text,
    new_panel,
)
from stakes.reports.judged_fit import JudgedFit
from stakes.reports.page import Figure
from stakes.reports.style import COLOURS, DASHES, weight_colours

__all__ = ["calibration_figure", "cost_figure", "frontier_figure", "money_figure"]

Floats = NDArray[np.float64]
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_ACTIONS = 201  # on a curve
_SETS, _MEMBERS = 100, 50  # of forecasts made of the outcomes
_MOST_OF_IT = 0.8  # of the gradient
_LITTLE = 1e-3
_TICKS = 5  # on an axis of costs, whose numbers may be long
_ROOM, _ROW = 0.7, 0.35  # inches, of bars


def money_figure(fit: JudgedFit) -> Figure:
    """The mean cost of every way to decide, and what a forecaster and today's action add to that of weight 0.

    Args:
        fit: The fit that is reported.
    """
    ways = {way.short: way for way in fit.ways}
    colours = {"weight 0": LOOKS["plain"]["color"], "today": LOOKS["today"]["color"]}
    if fit.weight:
        colours[fit.taken.short] = LOOKS["taken"]["color"]
    with drawing_style():
        costs, (axes,) = new_panel(height=_ROOM + _ROW * len(ways))
        means = [float(np.nanmean(way.cost)) for way in ways.values()]
        bars = axes.barh(list(ways), means, color=[colours.get(name, COLOURS["grey"]) for name in ways], height=0.6)
        axes.bar_label(bars, [amount_text(mean, beside=means) for mean in means], padding=3, fontsize=7)
        axes.margins(x=0.2)
        axes.set(xlabel=axis_label("mean cost per test case", fit.unit))
        panels = [costs]
        rivals = [name for name in ways if name in colours and name != "weight 0"]
        if rivals:
            changes, (below,) = new_panel(height=_ROOM + _ROW * len(ways))
            differences = [fit.change(ways[name]) for name in rivals]
            for name, change in zip(rivals, differences, strict=True):
                below.errorbar(change.mean, name, xerr=reach([change]), color=colours[name], marker="o", markersize=5)
            below.set(xlabel=axis_label("change from weight 0", fit.unit), ylim=(-0.6, len(rivals) - 0.4))
            panels.append(changes)
        for each in panels:
            lines = each.axes[0]
            lines.axvline(0.0, color="black", linewidth=0.8)
            lines.invert_yaxis()
            lines.locator_params(axis="x", nbins=_TICKS)
            lines.grid(visible=False, axis="y")
            lines.set_ylabel("way to decide")
        caption = (
            "First: mean cost per test case; less is better. Climatology is the one action that was best for the "
            "training outcomes, foresight the best action for each outcome known beforehand: no forecast can do better."
        )
        if rivals:
            caption += " Second: the change from weight 0, case by case, with paired 95 % intervals."
        return figure_of_panels("money", "What each way to decide costs", caption, panels, fit.settings)


def frontier_figure(frontier: Frontier, unit: str, settings: Mapping[str, Any]) -> Figure:
    """Cost against score by weight, and cost by weight, on the validation cases.

    Args:
        frontier: What every weight costs and scores.
        unit: The unit of the cost.
        settings: The settings of the fit, which stand below the figure.
    """
    points = [point for point in frontier.points if point.cost_change is not None]
    failed = [f"{point.weight:g}" for point in frontier.points if point.failed]
    with drawing_style():
        plane, (axes,) = new_panel(height=3.0)
        _draw_plane(axes, frontier, points)
        axes.set(xlabel="change of the score against weight 0 (%)", ylabel=axis_label("change of the cost", unit))
        by_weight, (lines,) = new_panel(height=3.0)
        lines.axhline(0.0, color="black", linewidth=0.8)
        changes = [point.cost_change for point in points if point.cost_change]
        error_bars(lines, [point.weight for point in points], changes, **LOOKS["taken"])
        chosen = next(point for point in points if point.weight == frontier.chosen)
        if chosen.cost_change:
            lines.plot(chosen.weight, chosen.cost_change.mean, **CHOSEN)
        lines.set(xlabel="decision weight (–)", ylabel=axis_label("change of the cost", unit))
        for figure in (plane, by_weight):
            allowed, refused = legend_entry("allowed", **LOOKS["taken"], linestyle=""), _refused_key()
            legend_below_panel(
                figure,
                [allowed, refused, legend_entry("taken", **CHOSEN, linestyle="")] if figure is plane else _signs(),
            )
    caption = (
        f"Mean cost and score at each decision weight, less those of weight 0, on {frontier.cases:,} validation cases; "
        "lower left is better. Bars are paired 95 % intervals. A weight is allowed if its score is at most "
        f"{frontier.tolerance:g} % worse (dashed line). In the second panel marks are filled where the interval leaves "
        "out zero; a ring is the weight that was taken."
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
            label = f"weight {weight:g}"
            gaps_by_cost = binned_gap(fit.study, weight, bins=bins)
            predicted, realised = ([fit.stated(getattr(each, side)) for each in gaps_by_cost] for side in _SIDES)
            _crosses(above, predicted, realised, label=label, **look)
            gap = [fit.stated(each.gap) for each in gaps_by_cost]
            error_bars(below, [each.mean for each in predicted], gap, label=label, markersize=4, **look)
            _draw_ranks(histogram, fit, weight, look["color"])
            _crosses(skill, *_spread_and_error(fit, weight, bins), label=label, **look)
        below.axhline(0.0, color="black", linewidth=0.8)
        for axes in (above, skill):
            _diagonal(axes)
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


def cost_figure(cost: Cost, outcomes: ArrayLike, unit: str, action_unit: str) -> Figure:
    """What a cost rewards: costs by action, the best one, and where the gradient acts.

    Args:
        cost: The cost.
        outcomes: A sample of outcomes (N, D) over which it is drawn.
        unit: The unit of the cost.
        action_unit: The unit of the action.
    """
    values = np.asarray(outcomes, dtype=np.float64)
    if values.ndim != 2 or not np.isfinite(values).all(1).any():
        raise ShapeError(f"outcomes must be cases by targets, with some finite, got shape {values.shape}")
    sample = torch.from_numpy(values[np.isfinite(values).all(1)])
    total = Assessor(cost).total(sample)
    sample = sample[total.argsort(stable=True)]
    best = optimal_action(cost, sample).item()
    sets = _stand_ins(sample)
    check = check_cost(cost, sets)
    typical = sample[[round(level * (len(sample) - 1)) for level in _QUANTILES]].unique(dim=0)
    alone = optimal_action(cost, torch.cat([sets, typical[:, None].expand(-1, sets.shape[1], -1)]))
    actions = _actions_around(cost, torch.cat([alone.flatten(), torch.tensor([best], dtype=torch.float64)]))
    expected = _costs(cost, actions, sample).mean(1)
    with drawing_style():
        curves = _draw_curves(cost, actions, typical)
        mean, (axes,) = new_panel(height=3.0)
        axes.plot(actions, expected, color=COLOURS["blue"])
        lowest = float(_costs(cost, torch.tensor([best], dtype=torch.float64), sample).mean())
        axes.plot(best, lowest, color=COLOURS["orange"], marker="o", markersize=6, linestyle="")
        axes.axvline(best, color=COLOURS["orange"], linestyle="--", linewidth=0.9)
        least = amount_text(lowest, unit, beside=expected.tolist())
        axes.set_title(f"best action {literal_text(amount_text(best, action_unit))}: {literal_text(least)}")
        for figure in (curves, mean):
            figure.axes[0].set(xlabel=axis_label("action", action_unit))
        curves.axes[0].set_ylabel(axis_label("cost", unit))
        axes.set_ylabel(axis_label("mean cost", unit))
        value = "value of a member" if sample.shape[1] == 1 else "mean of a member over the targets"
        gradient = _draw_gradient(check, value)
        caption = (
            "First: what an action costs for outcomes from low to high. Second: its mean cost over "
            f"{len(sample):,} outcomes, lowest at {amount_text(best, action_unit)}, the best single action without a "
            "forecast. Third: where the decision gradient acts, over forecasts made of neighbouring outcomes, as "
            f"shares of members and of gradient by the member's value. {_gradient_words(check)}"
        )
        settings = {"cost": str(cost), "outcomes": len(sample)}
        return figure_of_panels("cost", "What the cost function rewards", caption, [curves, mean, gradient], settings)


_SIDES = ("predicted", "realised")


def _looks(fit: JudgedFit) -> list[tuple[float, dict[str, Any]]]:
    return list(zip(fit.weights, (LOOKS["plain"], LOOKS["taken"]), strict=False))


def _draw_plane(axes: Axes, frontier: Frontier, points: Sequence[FrontierPoint]) -> None:
    """Every weight with both intervals, hollow where its score is too bad."""
    axes.axhline(0.0, color="black", linewidth=0.8)
    axes.axvline(0.0, color="black", linewidth=0.8)
    axes.axvline(frontier.tolerance, color=COLOURS["grey"], linestyle="--")
    for point in points:
        if point.score_change is None or point.cost_change is None:
            continue
        x, y = point.score_change, point.cost_change
        look = LOOKS["taken"] if point.allowed else _REFUSED
        axes.errorbar(x.mean, y.mean, reach([y]), reach([x]), elinewidth=0.6, **look)
        axes.annotate(
            f"{point.weight:g}", (x.mean, y.mean), xytext=(4, 4), textcoords="offset points", fontsize=7, zorder=6
        )
        if point.weight == frontier.chosen:
            axes.plot(x.mean, y.mean, **CHOSEN)


_REFUSED: dict[str, Any] = {"color": COLOURS["grey"], "marker": "x"}


def _refused_key() -> Any:
    return legend_entry("score too bad", **_REFUSED, linestyle="")


def _signs() -> list[Any]:
    look = LOOKS["taken"]
    hollow = legend_entry("interval holds zero", **look, markerfacecolor="white", linestyle="")
    return [hollow, legend_entry("leaves it out", **look, linestyle=""), legend_entry("taken", **CHOSEN, linestyle="")]


def _crosses(axes: Axes, x: Sequence[Difference], y: Sequence[Difference], **look: Any) -> None:
    places, means = ([each.mean for each in side] for side in (x, y))
    axes.errorbar(places, means, reach(y), reach(x), linestyle="", elinewidth=0.6, markersize=4, **look)


def _diagonal(axes: Axes) -> None:
    ends = (min(axes.get_xlim()[0], axes.get_ylim()[0]), max(axes.get_xlim()[1], axes.get_ylim()[1]))
    axes.plot(ends, ends, color="black", linestyle=":", linewidth=0.9, zorder=1)
    axes.set(xlim=ends, ylim=ends)


def _draw_ranks(axes: Axes, fit: JudgedFit, weight: float, colour: str) -> None:
    bins = max(4, min(20, fit.cases // 10))
    share = 100 * pit_histogram(fit.study, weight, bins=bins)
    axes.stairs(share, np.linspace(0.0, 1.0, bins + 1), color=colour, linewidth=1.4, label=f"weight {weight:g}")
    even = 1 / bins
    reach = 196 * np.sqrt(even * (1 - even) / fit.cases)
    axes.axhspan(max(0.0, 100 * even - reach), 100 * even + reach, color="#EEEEEE", linewidth=0, zorder=0)


def _spread_and_error(fit: JudgedFit, weight: float, bins: int) -> tuple[list[Difference], list[Difference]]:
    """The spread, as it should be for M members, and the error of their mean, in bins of the spread."""
    spread, error = (fit.study.values(name, weight) for name in ("spread", "error"))  # (1, 1, N)
    place = np.argsort(np.argsort(spread, axis=-1, kind="stable"), axis=-1) * bins // fit.cases
    of_mean = 1 + 1 / int(fit.study.about["members"])
    squares = np.stack(
        [np.where(place == each, values, np.nan) for values in (of_mean * spread**2, error**2) for each in range(bins)]
    )
    means = [_root(square) for square in fit.study.resampling.means(squares)]
    roots = [fit.stated(each) for each in means]
    return roots[:bins], roots[bins:]


def _root(square: Sampled) -> Sampled:
    return Sampled(float(np.sqrt(square.estimate)), np.sqrt(square.replicates))


def _stand_ins(ordered: Tensor) -> Tensor:
    """Forecasts (S, M, D) made of outcomes (N, D) in the order of their totals: from a quarter of them each."""
    count = len(ordered)
    width = max(1, count // 4)
    members = np.linspace(0, width - 1, min(_MEMBERS, width)).round().astype(int)
    starts = np.linspace(0, count - width, min(_SETS, count - width + 1)).round().astype(int)
    return ordered[torch.from_numpy(starts[:, None] + members)]


def _actions_around(cost: Cost, best: Tensor) -> Tensor:
    """Actions on a grid that holds the best ones with some room, within the bounds."""
    lower, upper = float(cost.lower), float(cost.upper)
    low, high = best.min().item(), best.max().item()
    room = max(0.3 * (high - low), _LITTLE * (upper - lower))
    return torch.linspace(max(lower, low - room), min(upper, high + room), _ACTIONS, dtype=torch.float64)


def _costs(cost: Cost, actions: Tensor, outcomes: Tensor) -> Tensor:
    """Every action (A,) with every outcome (N, D): (A, N)."""
    rows = len(actions), len(outcomes)
    with torch.no_grad():
        paid = cost(actions.repeat_interleave(rows[1])[:, None], outcomes.repeat(rows[0], 1))
    return paid.reshape(rows)


def _draw_curves(cost: Cost, actions: Tensor, typical: Tensor) -> Drawing:
    figure, (axes,) = new_panel(height=3.0)
    totals = Assessor(cost).total(typical)
    order = totals.argsort()
    paid = _costs(cost, actions, typical[order])
    looks = zip(weight_colours(totals.tolist()), DASHES, strict=False)
    for column, total, (colour, dashes) in zip(paid.T, totals[order].tolist(), looks, strict=False):
        axes.plot(actions, column, color=colour, linestyle=dashes, label=f"y = {amount_text(total)}")
    legend_below_panel(figure, title="outcome y")
    return figure


def _draw_gradient(check: CostCheck, label: str) -> Drawing:
    figure, (axes,) = new_panel(height=3.0)
    mass = check.gradient_mass
    edges = mass.edges.numpy()
    axes.stairs(100 * mass.member_share.numpy(), edges, fill=True, color="#CCCCCC", label="members")
    axes.stairs(100 * mass.gradient_share.numpy(), edges, color=COLOURS["orange"], linewidth=1.6, label="gradient")
    axes.set(xlabel=label, ylabel="share (%)", ylim=(0, None))
    legend_below_panel(figure)
    return figure


def _gradient_words(check: CostCheck) -> str:
    """Where the action can move at all, and which members move it."""
    pinned = [
        f"in {100 * share:.0f} % at the {name} bound"
        for name, share in (("lower", check.at_lower), ("upper", check.at_upper))
        if share
    ]
    words = f"The best action of such forecasts lies between the bounds in {100 * check.interior:.0f} % of them"
    words += f"; it lies {' and '.join(pinned)}, where there is no gradient." if pinned else "."
    share = check.gradient_mass.gradient_share
    if not share.sum():
        return f"{words} The decision term has no gradient anywhere: no weight can change this forecast."
    order = share.argsort(descending=True)
    count = int((share[order].cumsum(0) < _MOST_OF_IT).sum()) + 1
    edges, held = check.gradient_mass.edges, order[:count]
    low, high = edges[held.min()].item(), edges[held.max() + 1].item()
    return (
        f"{words} Members between {amount_text(low)} and {amount_text(high)} carry most of the gradient: there "
        "the decision term reshapes the forecast."
    )
