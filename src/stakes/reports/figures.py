"""Figures of decisions: what a cost rewards, what was decided over time, and what each candidate costs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure as Drawing
from numpy.typing import ArrayLike
from torch import Tensor

from stakes.actions.check_cost import CostCheck, check_cost
from stakes.actions.solve import optimal_action
from stakes.costs.cost import Cost, vector_cost
from stakes.errors import CostError, ShapeError
from stakes.evaluation.intervals import Difference
from stakes.evaluation.metrics import Assessor
from stakes.evaluation.selection import ModelSelection, TestedCandidate
from stakes.reports.comparison import Policy, PolicyComparison
from stakes.reports.drawing import (
    COLOURS,
    DASHES,
    LOOKS,
    axis_label,
    band,
    drawing_style,
    figure_of_panels,
    legend_below_panel,
    legend_entry,
    literal_text,
    new_panel,
    reach,
    weight_colours,
)
from stakes.reports.page import Chart, ChartBand, ChartLine, Figure
from stakes.reports.selection_text import candidate_title
from stakes.text import amount_text, count_text

_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_ACTIONS = 201  # on a curve
_SETS, _MEMBERS = 100, 50  # of forecasts made of the outcomes
_MOST_OF_IT = 0.8  # of the gradient
_LITTLE = 1e-3


def cost_figure(cost: Cost, outcomes: ArrayLike, unit: str, action_unit: str) -> Figure:
    """What a cost rewards: costs by action, the best one, and where the gradient acts."""
    if vector_cost(cost) is not None:
        raise CostError("of a decision with several parts, or averse to risk, no curve shows what an action costs")
    values = np.asarray(outcomes, dtype=np.float64)
    if values.ndim != 2 or not np.isfinite(values).all(1).any():
        raise ShapeError(f"outcomes must be cases by targets, with some finite, got shape {values.shape}")
    sample = torch.from_numpy(values[np.isfinite(values).all(1)])
    total = Assessor(cost).total(sample)
    sample = sample[total.argsort(stable=True)]
    best = optimal_action(cost, sample, thorough=True).item()
    sets = _stand_ins(sample)
    check = check_cost(cost, sets)
    typical = sample[[round(level * (len(sample) - 1)) for level in _QUANTILES]].unique(dim=0)
    alone = optimal_action(cost, torch.cat([sets, typical[:, None].expand(-1, sets.shape[1], -1)]), thorough=True)
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


_WINDOW = 60  # cases that can be told apart on one panel
_GAP = 5  # steps between neighbours, above which no line joins them
_CHANCE = 80  # per cent between the quantiles of the forecast
_NOISE = 1e-6  # of the largest value
_POINTS = 300  # of a line that readers can point at


def decisions_figure(fit: PolicyComparison) -> Figure:
    """Actions and outcomes of the last cases, of all of them in short, and what was saved as time went by."""
    table = fit.case_table
    with drawing_style():
        what = "test case" if len(table) == fit.cases else "time"
        last = f"the last {count_text(min(_WINDOW, len(table)), what)}"
        panels = [_draw_cases(fit, table.iloc[-_WINDOW:])]
        charts = [_case_charts(fit, table.iloc[-_WINDOW:], last)]
        caption = f"First: {last}: the outcome"
        caption += f", the range that the forecast gives {_CHANCE} % of the chance" if "low" in table else ""
        caption += " and the actions."
        caption += f" All are means of {len(fit.parts)} parts." if fit.parts else ""
        caption += "" if len(table) == fit.cases else " A time with several cases is shown by their mean."
        if len(table) > 2 * _WINDOW:
            size = -(-len(table) // _WINDOW)
            panels.append(_draw_cases(fit, _thinned(table, size)))
            charts.append(_case_charts(fit, _thinned(table, size), f"means of {size} neighbours"))
            caption += f" Second: the same for all {len(table):,} {what}s, as means of {size} neighbours."
        if (rival := _rival(fit)) is not None:
            saved = _saved(fit, rival)
            panels.append(_draw_saved(fit, saved))
            charts.append((_saved_chart(fit, saved),))
            caption += f" Last: {_saved_words(fit, rival)}"
        title = "Decisions case by case" if fit.times is None else "Decisions over time"
        return figure_of_panels("decisions", title, caption, panels, fit.settings, charts)


def _thinned(table: pd.DataFrame, size: int) -> pd.DataFrame:
    """Means of so many neighbouring cases, at the first of them."""
    groups = np.arange(len(table)) // size
    return table.groupby(groups).mean().set_index(table.index[::size])


def _broken(table: pd.DataFrame) -> pd.DataFrame:
    """With a row of nothing wherever a gap lies between neighbours, so that no line crosses it."""
    places = table.index.to_numpy()
    apart = np.diff(places)
    if not len(apart):
        return table
    gaps = np.flatnonzero(apart > _GAP * np.median(apart.astype(np.float64)).astype(apart.dtype))
    holes = pd.DataFrame(np.nan, index=places[gaps] + apart[gaps] / 2, columns=table.columns)
    return pd.concat([table, holes]).sort_index() if len(gaps) else table


def _draw_cases(fit: PolicyComparison, table: pd.DataFrame) -> Drawing:
    """The outcome and its forecast above the actions."""
    figure, (above, below) = new_panel(2, height=3.8, sharex=True)
    shown = _broken(table)
    if "low" in shown:
        band(above, shown.index, shown["low"], shown["high"], COLOURS["blue"])
    above.plot(shown.index, shown["outcome"], color="black", linewidth=1.0, marker=".", markersize=3)
    handles = [legend_entry("outcome", color="black", linewidth=1.0, marker=".")]
    if "low" in shown:
        handles.append(legend_entry("forecast", color=COLOURS["blue"], alpha=0.18, linewidth=7))
    for name, label in _actions(fit):
        if name in shown:
            look = {"color": LOOKS[name]["color"], "linestyle": _DASHES[name]}
            below.plot(shown.index, shown[name], drawstyle="steps-mid", linewidth=1.2, **look)
            handles.append(legend_entry(label, **look))
    _leave_room(below, shown[[name for name, _ in _actions(fit) if name in shown]])
    above.set_ylabel("outcome")
    below.set_ylabel(axis_label("action", fit.action_unit))
    _time_axis(below, fit)
    legend_below_panel(figure, handles, columns=2)
    return figure


def _leave_room(axes: Axes, actions: pd.DataFrame) -> None:
    """Above and below actions that are all the same but for rounding, which would fill the axes with noise."""
    if actions.empty:
        return
    values = actions.to_numpy(np.float64)
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    size = max(abs(low), abs(high))
    if high - low <= _NOISE * size:
        axes.set_ylim(low - 0.05 * (size or 1.0), high + 0.05 * (size or 1.0))


_DASHES = {"plain": "-", "selected": "--", "today": ":"}


def _actions(fit: PolicyComparison) -> list[tuple[str, str]]:
    return [
        ("plain", f"action, {fit.labels['plain']}"),
        ("selected", f"action, {fit.labels['selected']}"),
        ("today", "today's action"),
    ]


def _case_charts(fit: PolicyComparison, table: pd.DataFrame, which: str) -> tuple[Chart, ...]:
    """The same as numbers."""
    shown = _broken(table)
    place: dict[str, Any] = {"x": _what_runs(fit), "places": shown.index, "group": which}
    forecast = (
        (ChartBand(f"forecast, {_CHANCE} %", "blue band", shown["low"], shown["high"]),) if "low" in shown else ()
    )
    actions = tuple(ChartLine(label, _LOOKS[name], shown[name]) for name, label in _actions(fit) if name in shown)
    outcome = ChartLine("outcome", "ink", shown["outcome"], dots=True)
    above = Chart(f"Outcome, {which}", lines=(outcome,), bands=forecast, **place)
    below = Chart(f"Action{_in_unit(fit.action_unit)}, {which}", lines=actions, steps=True, **place)
    return (above, below) if actions else (above,)


_LOOKS = {"plain": "blue", "selected": "orange dashed", "today": "purple dotted"}


def _in_unit(unit: str) -> str:
    return f" in {unit}" if unit else ""


def _rival(fit: PolicyComparison) -> Policy | None:
    """What is saved against: the plain forecast, else today's action, else climatology."""
    rivals = [way for way in (fit.way("today"), fit.way("climatology")) if way is not None]
    return fit.ways[0] if fit.has_left_plain else next(iter(rivals), None)


def _saved(fit: PolicyComparison, rival: Policy) -> pd.Series:
    """The cost saved so far, by time or number."""
    index = pd.RangeIndex(1, fit.cases + 1) if fit.times is None else pd.DatetimeIndex(fit.times)
    saved = pd.Series(rival.cost - fit.selected.cost, index).sort_index(kind="stable")
    return saved[np.isfinite(saved)].cumsum()


def _draw_saved(fit: PolicyComparison, saved: pd.Series) -> Drawing:
    figure, (axes,) = new_panel(height=3.0)
    axes.axhline(0.0, color="black", linewidth=0.8)
    axes.plot(saved.index, saved, color=LOOKS["selected" if fit.has_left_plain else "plain"]["color"])
    axes.set_ylabel(axis_label("cost saved so far", fit.unit))
    _time_axis(axes, fit)
    return figure


def _saved_chart(fit: PolicyComparison, saved: pd.Series) -> Chart:
    kept = saved.iloc[np.linspace(0, len(saved) - 1, min(_POINTS, len(saved))).round().astype(np.int64)]
    line = ChartLine("cost saved so far", "orange" if fit.has_left_plain else "blue", kept)
    return Chart(f"Cost saved so far{_in_unit(fit.unit)}", _what_runs(fit), kept.index, (line,))


def _saved_words(fit: PolicyComparison, other: Policy) -> str:
    who, plain = fit.who_saves
    rival = plain if fit.has_left_plain else other.name
    return (
        f"what {who} has saved so far against {rival}, summed over the test cases; a steady "
        "rise is a gain that can be counted on, a few steps are luck."
    )


def _what_runs(fit: PolicyComparison) -> str:
    return "test case" if fit.times is None else "time (UTC)"


def _time_axis(axes: Axes, fit: PolicyComparison) -> None:
    if fit.times is None:
        axes.set_xlabel("test case (number)")
        return
    locator = AutoDateLocator(minticks=3, maxticks=6)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    axes.set_xlabel("time (UTC)")


_ROOM, _ROW = 1.15, 0.34  # inches
_TICKS = 5  # on the axis of costs, whose numbers may be long
_DWARFED = 4.0  # times the range of the others: the range with the first candidate
_KINDS: dict[str, dict[str, Any]] = {
    "selected": {**LOOKS["selected"], "linestyle": "", "markersize": 7},
    "accepted": {**LOOKS["plain"], "linestyle": ""},
    "tried, not selected": {"color": "#B0B0B0", "marker": "o", "markerfacecolor": "white", "linestyle": ""},
}
_SELECTED = _KINDS["selected"]


def selection_figure(fit: PolicyComparison, selection: ModelSelection, *, refitted: bool = True) -> Figure:
    """What each candidate costs on the test cases, and how sure its distance from the selected forecast is."""
    candidates = selection.tested
    parts = [candidates, candidates[1:]] if _dwarfed([candidate.cost for candidate in candidates]) else [candidates]
    caption = (
        f"Mean cost of each candidate on {count_text(fit.cases, 'test case')}, which chose nothing; less is better, "
        "and each candidate is compared with the last one accepted before it. "
        f"{_REFITTED if refitted else _LEARNED} A bar is the paired 95 % interval of the distance from it: where the "
        "bar does not touch the orange line, the candidate differs from the forecast beyond doubt."
    )
    caption += f" Second: the same without {candidate_title(candidates[0].name)}." if len(parts) > 1 else ""
    with drawing_style():
        panels = [_panel(fit, selection, part, refitted) for part in parts]
        return figure_of_panels("selection", "What each candidate costs", caption, panels, fit.settings)


_REFITTED = (
    "The candidates were fitted without the validation cases; the last line of the figure is the selected forecast, "
    "fitted again on all rows before the test cases, and climatology is the constant action that is best for these."
)
_LEARNED = "Each was learned from the cases before these. The orange line is the selected forecast."


def _dwarfed(costs: Sequence[float]) -> bool:
    """Whether the first cost is so large that the others cannot be told apart beside it."""
    return len(costs) > 2 and np.ptp(costs) > _DWARFED * np.ptp(costs[1:])


def _panel(
    fit: PolicyComparison, selection: ModelSelection, candidates: Sequence[TestedCandidate], refitted: bool
) -> Drawing:
    titles = [*(candidate_title(candidate.name) for candidate in candidates), *(["fitted again"] if refitted else [])]
    panel, (axes,) = new_panel(height=_ROOM + _ROW * len(titles))
    final = candidates[0].cost + candidates[0].cost_change.mean
    beside = [candidate.cost for candidate in selection.tested]
    axes.axvline(final, color=COLOURS["orange"], linewidth=1.0, zorder=1)
    if refitted:
        axes.plot(final, len(candidates), **_SELECTED)
        _amount(axes, final, len(candidates), beside)
    for place, candidate in enumerate(candidates):
        kind, stated = _kind(selection, candidate.name), fit.stated(candidate.cost_change)
        apart = Difference(final - stated.mean, final - stated.high, final - stated.low)
        bar = None if np.isnan(apart.low) else reach([apart])
        axes.errorbar(candidate.cost, place, xerr=bar, elinewidth=1.0, **_KINDS[kind])
        _amount(axes, candidate.cost, place, beside, COLOURS["grey"] if kind == "tried, not selected" else "black")
    axes.set_yticks(range(len(titles)), titles)
    axes.set_ylim(len(titles) - 0.4, -0.8)  # from above, as the table has them
    axes.locator_params(axis="x", nbins=_TICKS)
    axes.margins(x=0.12)
    axes.grid(visible=False, axis="y")
    axes.set(xlabel=axis_label("mean cost per test case", fit.unit), ylabel="candidate")
    used = {_kind(selection, candidate.name) for candidate in selection.tested}
    legend_below_panel(panel, [legend_entry(name, **look) for name, look in _KINDS.items() if name in used])
    return panel


def _amount(axes: Axes, cost: float, place: int, beside: Sequence[float], colour: str = "black") -> None:
    look: dict[str, Any] = {"ha": "center", "fontsize": 7, "color": colour}
    behind = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
    text = amount_text(cost, beside=beside)
    axes.annotate(text, (cost, place), xytext=(0, 6), textcoords="offset points", bbox=behind, **look)


def _kind(selection: ModelSelection, name: str) -> str:
    """What became of a candidate."""
    if name == selection.selected.name:
        return "selected"
    accepted = next(candidate.accepted for candidate in selection.candidates if candidate.name == name)
    return "accepted" if accepted else "tried, not selected"
