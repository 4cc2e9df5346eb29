"""Sections of a report: what its cost rewards, many decision makers, and vector decisions part by part."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from numpy.typing import NDArray

from stakes.cost_spec.spec import CostSpec
from stakes.costs.cost import Cost, plain_cost_of, vector_cost
from stakes.costs.parameter_column import RangedParameter, ranged_parameter, with_parameter
from stakes.errors import StakesError
from stakes.evaluation.vector_cases import BAND_LEVELS, BindingLimit, JudgedParts, LimitWorth, ShownCase
from stakes.reports.comparison import JudgedFit, PolicyComparison
from stakes.reports.drawing import (
    COLOURS,
    axis_label,
    drawing_style,
    figure_of_panels,
    legend_below_panel,
    legend_entry,
    literal_text,
    new_panel,
)
from stakes.reports.figures import cost_figure
from stakes.reports.fit_tables import interval_cell
from stakes.reports.page import Cell, Chart, ChartBand, ChartLimit, ChartLine, Column, Figure, Section, Table
from stakes.text import amount_text, count_text, number_text

_ABOUT_COST = (
    "The cost c(a, y) is what is paid for action a when the outcome is y. Whether these curves are what you pay is "
    "worth a look: everything in this report follows from them.",
)


def cost_section(
    cost: Cost,
    outcomes: NDArray[np.float64],
    spec: CostSpec | None,
    settings: Mapping[str, Any],
    targets: Sequence[str] = (),
) -> Section:
    """What the cost is at some outcomes; why not, where it cannot be drawn; and which of its numbers goes to which."""
    title, units = "What the cost function rewards", ("", "") if spec is None else (spec.unit, spec.action_unit)
    about: tuple[str, ...] = _ABOUT_COST
    ranged = ranged_parameter(cost)
    if ranged is not None:
        middle = ranged.range.middle
        cost = with_parameter(cost, ranged.name, middle)
        about = (*about, f"They are drawn for {ranged.name} {number_text(middle, 3)}, the middle of its range.")
    try:
        figure = cost_figure(cost, outcomes, *units)
    except StakesError as error:
        return Section("cost", title, (f"The figure was left out: {error}.", *_by_outcome(cost, spec, targets)))
    return Section("cost", title, (*about, *_by_outcome(cost, spec, targets)), (replace(figure, settings=settings),))


def _by_outcome(cost: Cost, spec: CostSpec | None, targets: Sequence[str]) -> tuple[str, ...]:
    """What the user was told of the order of outcomes, and of numbers that each of them has."""
    return () if spec is None else tuple(spec.outcome_notes(cost, targets))


def spread_sentence(spec: CostSpec | None) -> tuple[str, ...]:
    """How cases were judged where the cost has a range; nothing where it has none."""
    if spec is None or spec.ranged is None:
        return ()
    return (
        f"One forecast serves all decision makers with {_from_to(spec.ranged)}: each case, in validation and in the "
        "test, is judged for one of them, spread evenly over the range and the same for every way to decide; "
        "climatology takes the one action that was best for that decision maker, read between those of 33.",
    )


def decision_makers_section(fit: JudgedFit, ranged: RangedParameter) -> Section:
    """What all test cases cost at some values of the parameter."""
    beside = any(each.change is not None for each in fit.by_parameter)
    rows: list[tuple[Cell, ...]] = []
    for each in fit.by_parameter:
        row: tuple[Cell, ...] = (each.value, each.cost, each.climatology_cost)
        rows.append((*row, each.weight_0_cost, interval_cell(each.difference)) if beside else row)
    columns = [
        Column(ranged.name, help="of a decision maker"),
        Column("cost", fit.unit, "number", "mean realised cost per test case"),
        Column("climatology", fit.unit, "number", "that of the one action that was best for this decision maker"),
    ]
    if beside:
        columns.append(Column("weight 0", fit.unit, "number", "that of the forecast trained on its score alone"))
        columns.append(Column("\N{GREEK CAPITAL LETTER DELTA} cost", fit.unit, "number", "less that of weight 0"))
    note = "Every row is over all test cases. Intervals are paired 95 % ones, bold where they leave out zero."
    table = Table("decision-makers", "What each decision maker pays", tuple(columns), tuple(rows), note)
    return Section("decision-makers", "What is it worth to each decision maker?", (), (), (table,))


def _from_to(ranged: RangedParameter) -> str:
    return f"{ranged.name} from {number_text(ranged.range.low, 6)} to {number_text(ranged.range.high, 6)}"


_BOUNDS = ("upper", "lower")
_MOST_TICKS = 8
_JOINED = 2  # parts that a limit is drawn between; with more it is named in the title
_BANDS = ((0, 4, 0.18), (1, 3, 0.3))  # of `BAND_LEVELS`: lower, upper, and how dark


def parts_section(fit: PolicyComparison, parts: JudgedParts) -> Section:
    """A few schedules over their parts with the forecast behind them, the limits that bind, and what those cost."""
    known = [limit for limit in parts.limits if limit.share or limit.kind not in _BOUNDS]
    tables = (_limits_table(fit, known, parts.cases),) if known else ()
    return Section(
        "parts-of-decisions", "Decisions part by part", _sentences(fit, known), (_figure(fit, parts),), tables
    )


def _sentences(fit: PolicyComparison, limits: list[LimitWorth]) -> tuple[str, ...]:
    joining = [limit for limit in limits if limit.kind not in _BOUNDS]
    if joining and not any(limit.share for limit in joining):
        names = " and ".join(limit.kind for limit in joining)
        return (f"On these cases no limit of {names} ever binds: every part is decided by itself.",)
    dearest = max(limits, key=lambda limit: limit.saved, default=None)
    if dearest is None or not dearest.saved > 0:
        return ()
    more = f"One {fit.action_unit or 'unit'} more of {dearest.kind}"
    return (
        f"{more} would save {amount_text(dearest.saved, fit.unit)} a case in the mean: it binds in "
        f"{100 * dearest.share:.0f} % of the cases, most often at {dearest.place} ({100 * dearest.place_share:.0f} %). "
        "Such a price holds for small changes.",
    )


def _limits_table(fit: PolicyComparison, limits: list[LimitWorth], cases: int) -> Table:
    unit = f"{fit.unit or 'cost'} / {fit.action_unit or 'unit'}"
    columns = (
        Column("limit"),
        Column("binds in", "% of cases", "number", "where at least one limit of this parameter binds"),
        Column("one unit more saves", unit, "number", "mean over the cases, allowed everywhere at once"),
        Column("most often at"),
        Column("there in", "% of cases", "number"),
    )
    rows = [
        (limit.kind, 100 * limit.share, limit.saved, limit.place or "nowhere", 100 * limit.place_share)
        for limit in limits
    ]
    note = f"Shadow prices over {count_text(cases, 'test case')}: how fast the expected cost falls as a limit is eased."
    return Table("limits", "What the limits cost", columns, tuple(rows), note)


def _figure(fit: PolicyComparison, parts: JudgedParts) -> Figure:
    low, high = _percent(BAND_LEVELS[0]), _percent(BAND_LEVELS[-1])
    caption = (
        f"The range of the forecast from {low} to {high} % and its middle half, what was decided of each part, and "
        "what happened. Bars mark limits that bind: on a step that may not be larger, on a part at its bound."
    )
    with drawing_style():
        panels = [_panel(fit, parts, case) for case in parts.shown]
        charts = [_charts(fit, parts, case) for case in parts.shown]
        return figure_of_panels("parts-of-decisions", "Decisions part by part", caption, panels, fit.settings, charts)


def _panel(fit: PolicyComparison, parts: JudgedParts, case: ShownCase) -> Drawing:
    together = _are_outcomes(fit.cost)
    figure, axes = new_panel(1 if together else 2, height=3.2 if together else 4.2)
    for each in axes:
        each.set_axisbelow(True)
    _draw_forecast(axes[0], case)
    _draw_action(axes[-1], case)
    axes[0].set_title("\n".join(map(literal_text, _titles(fit, case))))
    axes[0].set_ylabel(axis_label("outcome and action" if together else "outcome", fit.action_unit if together else ""))
    _name_parts(axes[0], parts.outcomes)
    if not together:
        axes[1].set_ylabel(axis_label("action", fit.action_unit))
        _name_parts(axes[1], parts.parts)
    entries = [
        legend_entry("forecast", color=COLOURS["blue"], alpha=0.3, linewidth=7),
        legend_entry("action", color=COLOURS["orange"]),
        legend_entry("outcome", color="black", marker=".", linestyle=""),
    ]
    if case.binding:
        entries.append(legend_entry("limit binds", color=COLOURS["purple"], linewidth=3))
    legend_below_panel(figure, entries, columns=2)
    return figure


def _charts(fit: PolicyComparison, parts: JudgedParts, case: ShownCase) -> tuple[Chart, ...]:
    """The same as numbers."""
    name = _name(fit, case)
    (lowest, low, _, high, highest) = case.quantiles
    bands = (
        ChartBand(f"{_percent(BAND_LEVELS[0])} to {_percent(BAND_LEVELS[-1])} %", "blue band", lowest, highest),
        ChartBand(f"{_percent(BAND_LEVELS[1])} to {_percent(BAND_LEVELS[3])} %", "blue half band", low, high),
    )
    outcome = (ChartLine("outcome", "ink dotted", case.outcome),) if case.outcome else ()
    unit = f", in {fit.action_unit}" if fit.action_unit else ""
    places, planned = _planned(parts, case)
    limits = tuple(_limit(fit, limit, len(places)) for limit in case.binding)
    if _are_outcomes(fit.cost):
        return (Chart(f"{name}{unit}", "part", places, (*planned, *outcome), bands, limits, steps=True),)
    forecast = Chart(f"{name}, outcomes", "part", parts.outcomes, outcome, bands, steps=True, group=name)
    return forecast, Chart(f"The action{unit}", "part", places, planned, (), limits, steps=True, group=name)


def _are_outcomes(cost: Cost) -> bool:
    """Whether parts are on the scale of the outcomes, one for each, as commitments of a schedule are."""
    vector = vector_cost(plain_cost_of(cost))
    return vector is not None and vector.action_is_outcome


def _planned(parts: JudgedParts, case: ShownCase) -> tuple[tuple[str, ...], tuple[ChartLine, ...]]:
    """Parts as lines over the outcomes, such as charge and discharge over the hours; else one line over the parts."""
    names, outcomes = parts.parts, parts.outcomes
    size = len(outcomes)
    if len(names) % size or not all(name.endswith(f"_{outcomes[place % size]}") for place, name in enumerate(names)):
        return names, (ChartLine("action", _LOOKS[0], case.action),)
    kinds = [names[start].removesuffix(f"_{outcomes[0]}") for start in range(0, len(names), size)]
    lines = [
        ChartLine(kind, _LOOKS[row % len(_LOOKS)], case.action[row * size : (row + 1) * size])
        for row, kind in enumerate(kinds)
    ]
    return outcomes, tuple(lines)


_LOOKS = ("orange", "blue dashed", "ink")


def _limit(fit: PolicyComparison, limit: BindingLimit, size: int) -> ChartLimit:
    text = f"{limit.kind} {limit.place}: {amount_text(limit.price, _price_unit(fit))}"
    return ChartLimit(tuple(part % size for part in limit.parts), text, limit.parts[0] // size)


def _titles(fit: PolicyComparison, case: ShownCase) -> list[str]:
    """Which case it is, and the limits over many parts that bind."""
    wide = [limit for limit in case.binding if len(limit.parts) > _JOINED]
    prices = [f"{limit.kind} binds, {amount_text(limit.price, _price_unit(fit))}" for limit in wide[:2]]
    return [_name(fit, case), *prices]


def _name(fit: PolicyComparison, case: ShownCase) -> str:
    when = f"case {case.case + 1:,}" if fit.times is None else str(np.datetime_as_string(fit.times[case.case], "D"))
    return f"{case.name[:1].upper()}{case.name[1:]}: {when}"


def _price_unit(fit: PolicyComparison) -> str:
    return f"{fit.unit} / {fit.action_unit}" if fit.unit and fit.action_unit else fit.unit


def _percent(level: float) -> str:
    return f"{100 * level:g}"


def _draw_forecast(axes: Axes, case: ShownCase) -> None:
    edges = np.arange(len(case.quantiles[0]) + 1) - 0.5
    for low, high, dark in _BANDS:
        below, above = case.quantiles[low], case.quantiles[high]
        axes.stairs(above, edges, baseline=below, fill=True, color=COLOURS["blue"], alpha=dark, linewidth=0)
    if case.outcome:
        axes.plot(case.outcome, color="black", marker=".", markersize=4, linestyle="")


def _draw_action(axes: Axes, case: ShownCase) -> None:
    action = np.array(case.action)
    axes.stairs(action, np.arange(len(action) + 1) - 0.5, baseline=None, color=COLOURS["orange"], linewidth=1.4)
    for limit in case.binding:
        places = list(limit.parts)
        if len(places) == _JOINED and places[1] == places[0] + 1:
            axes.plot([places[0] + 0.5] * 2, action[places], color=COLOURS["purple"], linewidth=3)
        elif len(places) == 1:
            axes.plot([places[0] - 0.5, places[0] + 0.5], action[places * 2], color=COLOURS["purple"], linewidth=3)


def _name_parts(axes: Axes, names: tuple[str, ...]) -> None:
    every = -(-len(names) // _MOST_TICKS)
    axes.set_xticks(range(0, len(names), every), [literal_text(name) for name in names[::every]])
    if max(map(len, names)) > _MOST_TICKS // 2:
        axes.tick_params(axis="x", labelrotation=30)
