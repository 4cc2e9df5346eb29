"""Figures of a comparison: policies, candidates, calibration, groups of cases, and decisions over time.

Every `draw_` function draws its data on axes that it is given.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from stakes.evaluation.intervals import Difference
from stakes.evaluation.selection import Frontier, ModelSelection, candidate_title
from stakes.plots import (
    CHOSEN,
    COLOURS,
    LOOKS,
    TICKS,
    axis_label,
    band,
    binned_means,
    draw_sides,
    error_bars,
    key,
    leave_room,
    literal_text,
    panel,
    plot_reliability,
    plot_selection,
    reach,
)
from stakes.reports.comparison import (
    BY_FORECAST,
    BY_OUTCOME,
    HOUR,
    MONTH,
    SITE,
    CaseGroup,
    Comparison,
    Forecast,
    Policy,
)
from stakes.reports.page import Chart, ChartBand, ChartLine, Figure
from stakes.text import amount_text, count_text

Floats = NDArray[np.float64]


def policies_figure(comparison: Comparison) -> Figure:
    """The mean cost of every policy, and what others add to that of the reference."""
    height = 0.7 + 0.35 * len(comparison.policies)  # inches
    panels = [panel(draw_policy_costs, comparison, height=height)]
    caption = "First: mean cost per test case. Perfect foresight is the best action for each outcome: a lower bound."
    if comparison.policy("climatology"):
        priced = comparison.cost_spec is not None and comparison.cost_spec.columns
        whose = " at the prices of each case" if priced else ""
        caption += f" Climatology is the one action that was best for the training outcomes{whose}."
    if _compared(comparison):
        panels.append(panel(draw_policy_changes, comparison, height=height))
        caption += f" Second: the paired change from {comparison.reference.name} with 95 % intervals."
    return Figure("policies", "What each policy costs", caption, panels, comparison.settings)


def draw_policy_costs(comparison: Comparison, axes: Axes) -> None:
    """A bar per policy: its mean cost."""
    labels, colours = [policy.label for policy in comparison.policies], _colours(comparison)
    means = [float(np.nanmean(policy.cost)) for policy in comparison.policies]
    bars = axes.barh(labels, means, color=[colours.get(label, COLOURS["grey"]) for label in labels], height=0.6)
    axes.bar_label(bars, [amount_text(mean, beside=means) for mean in means], padding=3, fontsize=7)
    axes.margins(x=0.2)
    axes.set(xlabel=axis_label("mean cost per test case", comparison.unit))
    _arrange_bars(axes)


def draw_policy_changes(comparison: Comparison, axes: Axes) -> None:
    """What the selected policy and today's action cost more or less than the reference."""
    colours, rivals = _colours(comparison), _compared(comparison)
    for policy in rivals:
        change = comparison.change(policy)
        axes.errorbar(
            change.mean, policy.label, xerr=reach([change]), color=colours[policy.label], marker="o", markersize=5
        )
    label = axis_label(f"change from {comparison.reference.label}", comparison.unit)
    axes.set(xlabel=label, ylim=(-0.6, len(rivals) - 0.4))
    _arrange_bars(axes)


def _compared(comparison: Comparison) -> list[Policy]:
    colours = _colours(comparison)
    return [policy for policy in comparison.policies if policy.label in colours and policy is not comparison.reference]


def _colours(comparison: Comparison) -> dict[str, str]:
    colours = {comparison.reference.label: LOOKS["plain"]["color"], "today": LOOKS["today"]["color"]}
    return colours | ({comparison.selected.label: LOOKS["selected"]["color"]} if comparison.left_reference else {})


def _arrange_bars(axes: Axes) -> None:
    axes.axvline(0.0, color="black", linewidth=0.8)
    axes.invert_yaxis()
    axes.set_axisbelow(True)
    axes.locator_params(axis="x", nbins=TICKS)
    axes.grid(visible=False, axis="y")


_DWARFED = 4.0  # times the range of the others: the range with the first candidate


def selection_figure(comparison: Comparison, selection: ModelSelection) -> Figure:
    """What each candidate costs on the test cases, and how sure its distance from the selected forecast is."""
    tested, costs = selection.tested, [candidate.cost for candidate in selection.tested]
    dwarfed = len(costs) > 2 and np.ptp(costs) > _DWARFED * np.ptp(costs[1:])
    stated = tuple(replace(each, cost_change=comparison.stated(each.cost_change)) for each in tested)
    parts = [replace(selection, tested=each) for each in ((stated, stated[1:]) if dwarfed else (stated,))]
    final = (
        "Candidates were fitted without the validation cases. The orange line is the selected forecast, fitted again "
        "on all rows before the test cases."
        if not selection.corrects
        else "The orange line is the selected forecast."
    )
    caption = (
        f"Mean cost of each candidate on {count_text(comparison.cases, 'test case')}, which took no part in the "
        f"selection. {final} A bar that does not touch the line differs significantly from the forecast "
        "(paired 95 % interval)."
    )
    caption += f" Second: the same without {candidate_title(tested[0].name)}." if dwarfed else ""
    height = 1.15 + 0.34 * (len(tested) + (not selection.corrects))
    panels = [
        panel(lambda axes, part=part: plot_selection(part, unit=comparison.unit, ax=axes), height=height)
        for part in parts
    ]
    return Figure("selection", "What each candidate costs", caption, panels, comparison.settings)


def frontier_figure(frontier: Frontier, unit: str, settings: Mapping[str, Any], base: str) -> Figure:
    """Cost against score by decision weight, and cost by weight, on the validation cases."""
    panels = [panel(draw_frontier, frontier, unit, base), panel(draw_cost_by_weight, frontier, unit)]
    caption = (
        f"Mean cost and score at each decision weight less those of {base}, on {frontier.cases:,} validation cases. "
        "Lower left is better. Bars are paired 95 % intervals. "
    )
    if frontier.tolerance is not None:
        caption += f"A weight is allowed if its score is at most {frontier.tolerance:g} % worse (dashed line). "
    caption += "Second: filled marks differ significantly from zero; the ring is the selected weight."
    failed = [f"{point.weight:g}" for point in frontier.points if point.failed]
    caption += f" Training failed at {', '.join(failed)}." if failed else ""
    return Figure("frontier", "Cost and score by decision weight", caption, panels, settings)


def draw_frontier(frontier: Frontier, unit: str, base: str, axes: Axes) -> None:
    """The change of the cost against that of the score, a mark per decision weight."""
    axes.axhline(0.0, color="black", linewidth=0.8)
    axes.axvline(0.0, color="black", linewidth=0.8)
    if frontier.tolerance is not None:
        axes.axvline(frontier.tolerance, color=COLOURS["grey"], linestyle="--")
        key(axes, "allowed", **LOOKS["selected"], linestyle="")
        key(axes, "score too bad", **_REFUSED, linestyle="")
    for point in frontier.points:
        if point.score_change is None or point.cost_change is None:
            continue
        x, y = point.score_change, point.cost_change
        look = LOOKS["selected"] if point.allowed else _REFUSED
        axes.errorbar(x.mean, y.mean, reach([y]), reach([x]), elinewidth=0.6, **look)
        axes.annotate(
            point.named(base), (x.mean, y.mean), xytext=(4, 4), textcoords="offset points", fontsize=7, zorder=6
        )
        if point.weight == frontier.chosen:
            axes.plot(x.mean, y.mean, label="selected", linestyle="", **CHOSEN)
    axes.set(xlabel="change of the score (%)", ylabel=axis_label("change of the cost", unit))


_REFUSED: dict[str, Any] = {"color": COLOURS["grey"], "marker": "x"}


def draw_cost_by_weight(frontier: Frontier, unit: str, axes: Axes) -> None:
    """The change of the cost by decision weight."""
    look = LOOKS["selected"]
    axes.axhline(0.0, color="black", linewidth=0.8)
    changes = {point.weight: point.cost_change for point in frontier.points if point.cost_change is not None}
    error_bars(axes, list(changes), list(changes.values()), **look)
    key(axes, "interval holds zero", **look, markerfacecolor="white", linestyle="")
    key(axes, "leaves it out", **look, linestyle="")
    if frontier.chosen in changes:
        axes.plot(frontier.chosen, changes[frontier.chosen].mean, label="selected", linestyle="", **CHOSEN)
    axes.set(xlabel="decision weight (–)", ylabel=axis_label("change of the cost", unit))


def calibration_figure(comparison: Comparison) -> Figure:
    """Realised against expected cost, their gap, the ranks of outcomes, and error against spread."""
    spread = _spread_forecasts(comparison)
    rows, colours = len(spread), _side_colours(comparison, spread)
    costs = {policy.label: (forecast.expected_cost, policy.cost) for policy, forecast in spread.items()}
    about: dict[str, Any] = {"bins": _bins(comparison), "block": comparison.resampling.block, "unit": comparison.unit}
    panels = [
        panel(lambda axes: plot_reliability(costs, **about, colours=colours, ax=axes)),
        panel(draw_gap, comparison),
        panel(draw_ranks, comparison, rows=rows, height=1.6 + 1.4 * rows, legend=0),
        panel(draw_spread, comparison),
    ]
    caption = (
        f"On {count_text(comparison.cases, 'test case')}. First: realised against expected cost in "
        f"{_bins(comparison)} bins with equally many cases. Above the diagonal, decisions cost more than expected. "
        "Second: expected less realised cost, filled where the interval excludes zero. Third: how often the outcome "
        "has each rank among the members (PIT). A calibrated forecast is flat, a slope shows bias, a valley "
        "under-dispersion, a hill over-dispersion; the grey band holds 95 % of the bars of a calibrated forecast with "
        "independent cases. Fourth: root mean squared error of the ensemble mean against the spread. Above the "
        "diagonal the ensemble is under-dispersed. Bars are 95 % intervals."
    )
    if rows < len(comparison.forecasts) and comparison.kind == "recalibration":
        caption += " A point forecast has no spread: it is not shown."
    return Figure("calibration", "Calibration", caption, panels, comparison.settings)


def draw_gap(comparison: Comparison, axes: Axes) -> None:
    """Expected less realised cost, in bins of the expected cost."""
    for policy, forecast in _spread_forecasts(comparison).items():
        expected = forecast.expected_cost
        places, gaps = _binned(comparison, expected, (expected, expected - policy.cost))
        error_bars(axes, [each.mean for each in places], gaps, markersize=4, **_look(comparison, policy))
    leave_room(axes, "x", [forecast.expected_cost for forecast in _spread_forecasts(comparison).values()])
    axes.axhline(0.0, color="black", linewidth=0.8)
    axes.locator_params(axis="x", nbins=TICKS)
    axes.set(
        xlabel=axis_label("expected cost", comparison.unit), ylabel=axis_label("expected − realised", comparison.unit)
    )


def draw_ranks(comparison: Comparison, *axes: Axes) -> None:
    """A histogram of the PIT for each forecast, since one may dwarf the other."""
    bins = max(4, min(20, comparison.cases // 10))
    share = 1 / bins
    chance = 196 * np.sqrt(share * (1 - share) / comparison.cases)
    for each, (policy, forecast) in zip(axes, _spread_forecasts(comparison).items(), strict=True):
        assert forecast.pit is not None
        shares, edges = 100 * pit_shares(*forecast.pit, bins), np.linspace(0.0, 1.0, bins + 1)
        each.axhspan(max(0.0, 100 * share - chance), 100 * share + chance, color="#DDDDDD", linewidth=0, zorder=0)
        each.stairs(shares, edges, color=_look(comparison, policy)["color"], linewidth=1.4)
        each.set(ylim=(0, None), ylabel=f"{policy.label}\nshare of cases (%)")
    axes[-1].set_xlabel("rank of the outcome among the members (–)")


def pit_shares(lower: NDArray[np.float64], upper: NDArray[np.float64], bins: int) -> NDArray[np.float64]:
    """The share of outcomes in each bin of the PIT, each spread evenly over where its PIT may lie.

    >>> pit_shares(np.array([0.0, 0.5]), np.array([0.5, 1.0]), 4)
    array([0.25, 0.25, 0.25, 0.25])
    """
    narrow = 1e-9  # of a PIT that is known exactly
    first = np.minimum(lower, 1 - narrow)
    width = np.maximum(upper - first, narrow)
    edges = np.linspace(0.0, 1.0, bins + 1)[:, None]
    return np.diff(np.clip((edges - first) / width, 0.0, 1.0).mean(-1))


def draw_spread(comparison: Comparison, axes: Axes) -> None:
    """Root mean squared error of the ensemble mean against the spread, in bins of the spread."""
    sides = {}
    for policy, forecast in _spread_forecasts(comparison).items():
        assert forecast.spread is not None
        assert forecast.error is not None
        sides[policy] = _binned(comparison, forecast.spread, (forecast.spread, forecast.error), squared=True)
    named = {policy.label: both for policy, both in sides.items()}
    draw_sides(axes, named, _side_colours(comparison, sides))
    axes.set(xlabel="spread", ylabel="error of the mean")


def _spread_forecasts(comparison: Comparison) -> dict[Policy, Forecast]:
    """All but point forecasts."""
    return {policy: forecast for policy, forecast in comparison.forecasts.items() if forecast.pit is not None}


def _side_colours(comparison: Comparison, policies: Iterable[Policy]) -> list[str]:
    return ["blue" if policy is comparison.reference else "orange" for policy in policies]


def _look(comparison: Comparison, policy: Policy) -> dict[str, Any]:
    return {**LOOKS["plain" if policy is comparison.reference else "selected"], "label": policy.label}


def _bins(comparison: Comparison) -> int:
    return max(2, min(10, comparison.cases // 20))


def _binned(
    comparison: Comparison, by: Floats, values: Sequence[Floats], squared: bool = False
) -> list[list[Difference]]:
    """The means of some values, or their root mean squares, in bins of a key."""
    power = 2 if squared else 1
    means = binned_means(comparison.resampling, by, [each**power for each in values], _bins(comparison))
    if squared:
        means = [[each.applied(np.sqrt) for each in side] for side in means]
    return [[comparison.stated(each) for each in side] for side in means]


_SIDES = {BY_OUTCOME: (-0.15, "o"), BY_FORECAST: (0.15, "D")}  # side by side
_MOST_SITES = 12  # on an axis


def groups_figure(comparison: Comparison) -> Figure:
    """Mean regret, and its change against the reference, by third, month, hour and site."""
    both, panels = comparison.left_reference, []
    for kinds in ((BY_OUTCOME, BY_FORECAST), (MONTH,), (HOUR,), (SITE,)):
        groups = [group for group in comparison.groups if group.kind in kinds]
        if groups and not (kinds == (SITE,) and len(groups) > _MOST_SITES):
            height = 3.8 if both else 3.0
            panels.append(panel(draw_groups, comparison, groups, rows=1 + both, height=height, legend=2))
    caption = "Mean regret per test case in groups of cases: what decisions cost above perfect foresight"
    if both:
        caption += (
            f", and its paired change from {comparison.reference.name} with 95 % intervals, filled where they exclude "
            "zero. Groups without a bar are too small for an interval"
        )
    caption += (
        ". Thirds are by outcome or, with equally many cases, by forecast. Judging forecasts by cases "
        "chosen by their outcome rewards exaggeration (the forecaster's dilemma); choosing by the forecast does not."
    )
    return Figure("groups", "Regret in groups of cases", caption, panels, comparison.settings)


def draw_groups(comparison: Comparison, groups: Sequence[CaseGroup], *axes: Axes) -> None:
    """Regret by group on the first axes and, where another forecast was selected, their change on the second."""
    for kind in dict.fromkeys(group.kind for group in groups):
        offset, marker = _SIDES.get(kind, (0.0, None))
        chosen = [group for group in groups if group.kind == kind]
        joined = kind in (MONTH, HOUR) and not (kind == MONTH and chosen[-1].place - chosen[0].place >= len(chosen))
        look: dict[str, Any] = {"markersize": 4} | ({"marker": marker} if marker else {})
        look |= {} if joined else {"linestyle": ""}  # no line crosses months without a case
        places, suffix = np.array([group.place for group in chosen]) + offset, f", {kind}" if marker else ""
        plain, selected = ({**_look(comparison, each), **look} for each in (comparison.reference, comparison.selected))
        axes[0].plot(places, [group.reference_regret for group in chosen], **plain | {"label": plain["label"] + suffix})
        if len(axes) > 1:
            axes[0].plot(places, [group.regret for group in chosen], **selected | {"label": selected["label"] + suffix})
            error_bars(axes[1], places, [group.change for group in chosen], **selected | {"label": None})
    names = {group.place: group.name for group in groups}
    if groups[0].kind == HOUR:
        axes[-1].set_xticks(range(0, 24, 6))
    else:
        axes[-1].set_xticks(list(names), [literal_text(name) for name in names.values()])
    if groups[0].kind in (*_SIDES, SITE):
        axes[-1].set_xlim(-0.5, len(names) - 0.5)
    if sum(map(len, names.values())) > 4 * _MOST_SITES and groups[0].kind == SITE:
        axes[-1].tick_params(axis="x", labelrotation=60)
    titles = {HOUR: "hour of the day (UTC)", MONTH: MONTH, SITE: SITE}
    axes[-1].set_xlabel(titles.get(groups[0].kind, "third of the cases"))
    axes[0].set_ylabel(axis_label("regret", comparison.unit))
    if len(axes) > 1:
        axes[1].axhline(0.0, color="black", linewidth=0.8)
        axes[1].set_ylabel(axis_label("change", comparison.unit))


_WINDOW = 60  # cases that can be told apart on one panel
_GAP = 5  # steps between neighbours, above which no line joins them
_POINTS = 300  # of a line that readers can point at
_DASHES = {"plain": "-", "selected": "--", "today": ":"}
_CHART_LOOKS = {"plain": "blue", "selected": "orange dashed", "today": "purple dotted"}


def decisions_figure(comparison: Comparison) -> Figure:
    """Outcomes and actions of the last cases, of all of them in short, and what was saved as time went by."""
    table = comparison.case_table
    what = "test case" if len(table) == comparison.cases else "time"
    size = -(-len(table) // _WINDOW)
    shown = {f"the last {count_text(min(_WINDOW, len(table)), what)}": table.iloc[-_WINDOW:]}
    if len(table) > 2 * _WINDOW:
        places = np.arange(len(table)) // size
        shown[f"means of {size} neighbours"] = table.groupby(places).mean().set_index(table.index[::size])
    panels = [panel(draw_cases, comparison, part, rows=2, height=3.8, legend=2) for part in shown.values()]
    charts = [_case_charts(comparison, part, which) for which, part in shown.items()]
    caption = f"First: {next(iter(shown))}: the outcome"
    caption += ", the 10 to 90 % range of the forecast" if "low" in table else ""
    caption += " and the actions."
    caption += " Actions and outcomes are means of their parts." if comparison.several else ""
    caption += "" if what == "test case" else " A time with several cases is shown by their mean."
    caption += f" Second: all {len(table):,} {what}s, averaged over {size} neighbours each." if len(shown) > 1 else ""
    if (rival := _saved_against(comparison)) is not None:
        saved = _saved(comparison, rival)
        panels.append(panel(draw_savings, comparison, saved))
        charts.append((_savings_chart(comparison, saved),))
        caption += (
            f" Last: what {comparison.selected.name} has saved so far against {rival.name}. A steady rise is a "
            "reliable gain; a few large steps may be luck."
        )
    title = "Decisions case by case" if comparison.times is None else "Decisions over time"
    return Figure("decisions", title, caption, panels, comparison.settings, charts)


def draw_cases(comparison: Comparison, table: pd.DataFrame, above: Axes, below: Axes) -> None:
    """The outcome and its forecast on the first axes, the actions on the second."""
    shown = _broken(table)
    above.plot(shown.index, shown["outcome"], color="black", linewidth=1.0, marker=".", markersize=3, label="outcome")
    if "low" in shown:
        band(above, shown.index, shown["low"], shown["high"], COLOURS["blue"], label="forecast")
    actions = _actions(comparison, shown)
    for name, label in actions.items():
        look = {"color": LOOKS[name]["color"], "linestyle": _DASHES[name], "label": label}
        below.plot(shown.index, shown[name], drawstyle="steps-mid", linewidth=1.2, **look)
    above.set_ylabel("outcome")
    below.set_ylabel(axis_label("action", comparison.action_unit))
    _time_axis(comparison, below)
    leave_room(below, "y", shown[list(actions)])


def draw_savings(comparison: Comparison, saved: "pd.Series[float]", axes: Axes) -> None:
    """The cost saved so far, case by case."""
    axes.axhline(0.0, color="black", linewidth=0.8)
    axes.plot(saved.index, saved, color=LOOKS["selected" if comparison.left_reference else "plain"]["color"])
    axes.set_ylabel(axis_label("cost saved so far", comparison.unit))
    _time_axis(comparison, axes)


def _broken(table: pd.DataFrame) -> pd.DataFrame:
    """With a row of nothing wherever a gap lies between neighbours, so that no line crosses it."""
    places = table.index.to_numpy()
    apart = np.diff(places)
    if not len(apart):
        return table
    gaps = np.flatnonzero(apart > _GAP * np.median(apart.astype(np.float64)).astype(apart.dtype))
    holes = pd.DataFrame(np.nan, index=places[gaps] + apart[gaps] / 2, columns=table.columns)
    return pd.concat([table, holes]).sort_index() if len(gaps) else table


def _actions(comparison: Comparison, table: pd.DataFrame) -> dict[str, str]:
    """The columns of actions, and what they are called."""
    labels = {
        "plain": f"action, {comparison.reference.label}",
        "selected": f"action, {comparison.selected.label}",
        "today": "today's action",
    }
    return {name: label for name, label in labels.items() if name in table}


def _case_charts(comparison: Comparison, table: pd.DataFrame, which: str) -> tuple[Chart, ...]:
    """The same as numbers."""
    shown, unit = _broken(table), f" in {comparison.action_unit}" if comparison.action_unit else ""
    place: dict[str, Any] = {"x": _what_runs(comparison), "places": shown.index, "group": which}
    bands = (ChartBand("forecast, 10 to 90 %", "blue band", shown["low"], shown["high"]),) if "low" in shown else ()
    lines = [ChartLine(label, _CHART_LOOKS[name], shown[name]) for name, label in _actions(comparison, shown).items()]
    outcome = ChartLine("outcome", "ink", shown["outcome"], dots=True)
    above = Chart(f"Outcome, {which}", lines=(outcome,), bands=bands, **place)
    return (above, Chart(f"Action{unit}, {which}", lines=tuple(lines), steps=True, **place)) if lines else (above,)


def _saved_against(comparison: Comparison) -> Policy | None:
    """The reference, where another forecast was selected, else today's action, else climatology."""
    if comparison.left_reference:
        return comparison.reference
    return comparison.policy("today") or comparison.policy("climatology")


def _saved(comparison: Comparison, rival: Policy) -> "pd.Series[float]":
    """The cost saved so far, by time or number."""
    number = pd.RangeIndex(1, comparison.cases + 1)
    index = number if comparison.times is None else pd.DatetimeIndex(comparison.times)
    saved = pd.Series(rival.cost - comparison.selected.cost, index).sort_index(kind="stable")
    return saved[np.isfinite(saved)].cumsum()


def _savings_chart(comparison: Comparison, saved: "pd.Series[float]") -> Chart:
    kept = saved.iloc[np.linspace(0, len(saved) - 1, min(_POINTS, len(saved))).round().astype(np.int64)]
    line = ChartLine("cost saved so far", "orange" if comparison.left_reference else "blue", kept)
    unit = f" in {comparison.unit}" if comparison.unit else ""
    return Chart(f"Cost saved so far{unit}", _what_runs(comparison), kept.index, (line,))


def _what_runs(comparison: Comparison) -> str:
    return "test case" if comparison.times is None else "time (UTC)"


def _time_axis(comparison: Comparison, axes: Axes) -> None:
    if comparison.times is None:
        axes.set_xlabel("test case (number)")
        return
    locator = AutoDateLocator(minticks=3, maxticks=6)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    axes.set_xlabel("time (UTC)")


def origins_figure(comparison: Comparison, origins: pd.DataFrame, rivals: Mapping[str, str]) -> Figure:
    """A panel per rival: what the decisions cost more or less than it after each origin of a backtest."""
    panels = [panel(draw_origins, origins, name, words, comparison.unit, height=2.7) for name, words in rivals.items()]
    caption = (
        "Mean cost of the decisions after each origin, less that of the rival on the same cases: below zero they cost "
        "less. Bars are paired 95 % intervals, marks are filled where they exclude zero."
    )
    return Figure("origins", "Against every rival", caption, panels, comparison.settings)


def draw_origins(origins: pd.DataFrame, rival: str, words: str, unit: str, axes: Axes) -> None:
    """What the decisions cost more or less than a rival after each origin."""
    look = LOOKS[{"weight_0": "plain", "today": "today"}.get(rival, "selected")]
    columns = [origins[f"{rival}_{name}"] for name in ("change", "low", "high")]
    axes.axhline(0.0, color="black", linewidth=0.8)
    error_bars(axes, range(1, 1 + len(origins)), [Difference(*row) for row in zip(*columns, strict=True)], **look)
    axes.set(xlabel="origin", ylabel=axis_label("change of the cost", unit), title=f"against {words}")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
