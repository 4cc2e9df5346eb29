"""Figures of a cost, and of vector actions part by part.

Every `draw_` function draws its data on axes that it is given.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from numpy.typing import ArrayLike
from torch import Tensor

from stakes.actions.check_cost import CostCheck, check_cost
from stakes.actions.solve import optimal_action
from stakes.costs.cost import Cost, action_is_outcome, outcome_total
from stakes.evaluation.case_metrics import BAND_LEVELS, JudgedParts, ShownCase
from stakes.plots import COLOURS, literal_text, outcome_rows, panel, plot_cost, plot_decision, plot_schedule
from stakes.reports.comparison import Comparison
from stakes.reports.page import Chart, ChartBand, ChartLimit, ChartLine, Figure
from stakes.text import amount_text

_SETS, _MEMBERS = 100, 50  # of forecasts made of the outcomes
_MOST_OF_IT = 0.8  # of the gradient


def cost_figure(cost: Cost, outcomes: ArrayLike, unit: str, action_unit: str) -> Figure:
    """What a cost rewards: costs by action, the best one, and where the gradient acts."""
    sample = outcome_rows(cost, "outcomes", outcomes)
    best = optimal_action(cost, sample, thorough=True).item()
    check = check_cost(cost, _neighbours(sample[outcome_total(cost, sample).argsort(stable=True)]))
    units = {"unit": unit, "action_unit": action_unit}
    panels = [
        panel(lambda axes: plot_cost(cost, sample, **units, ax=axes)),
        panel(lambda axes: plot_decision(cost, sample, **units, ax=axes)),
        panel(draw_gradient, check, sample.shape[1]),
    ]
    caption = (
        "First: what an action costs for outcomes from low to high. Second: its expected cost over "
        f"{len(sample):,} outcomes, lowest at {amount_text(best, action_unit)}, the best constant action without a "
        "forecast. Third: where the decision gradient acts, for forecasts made of neighbouring outcomes: the shares of "
        f"members and of gradient, by the value of a member. {_gradient_words(check)}"
    )
    return Figure(
        "cost", "What the cost function rewards", caption, panels, {"cost": str(cost), "outcomes": len(sample)}
    )


def draw_gradient(check: CostCheck, targets: int, axes: Axes) -> None:
    """The shares of members and of the decision gradient, by the member's value."""
    mass = check.gradient_mass
    edges = mass.edges.numpy()
    axes.stairs(100 * mass.member_share.numpy(), edges, fill=True, color="#CCCCCC", label="members")
    axes.stairs(100 * mass.gradient_share.numpy(), edges, color=COLOURS["orange"], linewidth=1.6, label="gradient")
    label = "value of a member" if targets == 1 else "mean of a member over the targets"
    axes.set(xlabel=label, ylabel="share (%)", ylim=(0, None))


def _neighbours(ordered: Tensor) -> Tensor:
    """Forecasts (S, M, D) made of outcomes (N, D) in the order of their totals: from a quarter of them each."""
    count = len(ordered)
    width = max(1, count // 4)
    members = np.linspace(0, width - 1, min(_MEMBERS, width)).round().astype(int)
    starts = np.linspace(0, count - width, min(_SETS, count - width + 1)).round().astype(int)
    return ordered[torch.from_numpy(starts[:, None] + members)]


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


_JOINED = 2  # parts that a limit is drawn between; with more it is named in the title
_LOW, _LOWER, _, _UPPER, _HIGH = (f"{100 * level:g}" for level in BAND_LEVELS)
_LOOKS = ("orange", "blue dashed", "ink")


def parts_figure(comparison: Comparison, parts: JudgedParts) -> Figure:
    """A few vector actions over their parts, with the forecast behind them and the limits that bind."""
    together = action_is_outcome(comparison.cost)
    panels = [
        panel(draw_parts, comparison, parts, case, rows=1 if together else 2, height=3.2 if together else 4.2, legend=2)
        for case in parts.shown
    ]
    charts = [tuple(_parts_charts(comparison, parts, case)) for case in parts.shown]
    caption = (
        f"The {_LOW} to {_HIGH} % range of the forecast and its middle half, what was decided for each part, and what "
        "happened. Bars mark binding limits: on a step that cannot be larger, on a part at its bound."
    )
    return Figure("parts-of-decisions", "Decisions part by part", caption, panels, comparison.settings, charts)


def draw_parts(comparison: Comparison, parts: JudgedParts, case: ShownCase, *axes: Axes) -> None:
    """One case: its forecast and outcome on the first axes, its action on the last, which may be the same."""
    above, below, unit = axes[0], axes[-1], comparison.action_unit
    quantiles, limits = dict(zip(BAND_LEVELS, case.quantiles, strict=True)), [limit.parts for limit in case.binding]
    forecast: dict[str, Any] = {"forecast": quantiles, "outcome": case.outcome or None, "names": parts.outcomes}
    if above is below:
        plot_schedule(case.action, **forecast, limits=limits, unit=unit, ax=above)
    else:
        plot_schedule(None, **forecast, ax=above)
        plot_schedule(case.action, names=parts.parts, limits=limits, unit=unit, ax=below)
    wide = [limit for limit in case.binding if len(limit.parts) > _JOINED]
    prices = [f"{limit.kind} binds, {amount_text(limit.price, _price_unit(comparison))}" for limit in wide[:2]]
    above.set_title("\n".join(map(literal_text, [_name(comparison, case), *prices])))


def _parts_charts(comparison: Comparison, parts: JudgedParts, case: ShownCase) -> Iterator[Chart]:
    """The same as numbers."""
    name, unit = _name(comparison, case), f", in {comparison.action_unit}" if comparison.action_unit else ""
    (lowest, low, _, high, highest) = case.quantiles
    bands = (
        ChartBand(f"{_LOW} to {_HIGH} %", "blue band", lowest, highest),
        ChartBand(f"{_LOWER} to {_UPPER} %", "blue half band", low, high),
    )
    outcome = (ChartLine("outcome", "ink dotted", case.outcome),) if case.outcome else ()
    places, planned = _planned(parts, case)
    limits = tuple(
        ChartLimit(
            tuple(part % len(places) for part in limit.parts),
            f"{limit.kind} {limit.place}: {amount_text(limit.price, _price_unit(comparison))}",
            limit.parts[0] // len(places),
        )
        for limit in case.binding
    )
    if action_is_outcome(comparison.cost):
        yield Chart(f"{name}{unit}", "part", places, (*planned, *outcome), bands, limits, steps=True)
        return
    yield Chart(f"{name}, outcomes", "part", parts.outcomes, outcome, bands, steps=True, group=name)
    yield Chart(f"The action{unit}", "part", places, planned, (), limits, steps=True, group=name)


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


def _name(comparison: Comparison, case: ShownCase) -> str:
    times = comparison.times
    when = f"case {case.case + 1:,}" if times is None else str(np.datetime_as_string(times[case.case], "D"))
    return f"{case.name[:1].upper()}{case.name[1:]}: {when}"


def _price_unit(comparison: Comparison) -> str:
    unit, action_unit = comparison.unit, comparison.action_unit
    return f"{unit} / {action_unit}" if unit and action_unit else unit
