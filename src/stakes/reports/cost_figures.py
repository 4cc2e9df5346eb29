"""Figures of a cost, and of vector actions part by part.

Every `draw_` function draws its data on axes that it is given.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.axes import Axes
from numpy.typing import ArrayLike
from torch import Tensor

from stakes.actions.check_cost import CostCheck, check_cost
from stakes.actions.solve import optimal_action
from stakes.costs.cost import Cost, outcome_total, plain_cost_of, vector_cost
from stakes.errors import CostError, ShapeError
from stakes.evaluation.case_metrics import BAND_LEVELS, JudgedParts, ShownCase
from stakes.plots import COLOURS, DASHES, axis_label, key, literal_text, weight_colours
from stakes.reports.comparison import Comparison
from stakes.reports.drawing import figure_of_panels, panel
from stakes.reports.page import Chart, ChartBand, ChartLimit, ChartLine, Figure
from stakes.text import amount_text

_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_ACTIONS = 201  # on a curve
_SETS, _MEMBERS = 100, 50  # of forecasts made of the outcomes
_MOST_OF_IT = 0.8  # of the gradient
_LITTLE = 1e-3


class CostCurves(NamedTuple):
    """What is drawn of a cost."""

    cost: Cost
    actions: Tensor  # a grid of them around the best ones, (A,)
    outcomes: Tensor  # (N, D) in the order of their totals
    best: float  # the one action that is best for all outcomes
    check: CostCheck  # where the gradient acts, for forecasts made of neighbouring outcomes
    unit: str
    action_unit: str

    @classmethod
    def of(cls, cost: Cost, outcomes: ArrayLike, unit: str, action_unit: str) -> "CostCurves":
        """From outcomes (N, D), some of which may be missing."""
        if vector_cost(cost) is not None:
            raise CostError("of a vector action, or a risk-averse one, no curve shows what it costs")
        values = np.asarray(outcomes, dtype=np.float64)
        if values.ndim != 2 or not np.isfinite(values).all(1).any():
            raise ShapeError(f"outcomes must be cases by targets, with some finite, got shape {values.shape}")
        sample = torch.from_numpy(values[np.isfinite(values).all(1)])
        sample = sample[outcome_total(cost, sample).argsort(stable=True)]
        best = optimal_action(cost, sample, thorough=True)
        sets = _neighbours(sample)
        typical = _typical(cost, sample)[:, None].expand(-1, sets.shape[1], -1)
        alone = optimal_action(cost, torch.cat([sets, typical]), thorough=True)
        every = torch.cat([alone.flatten(), best.flatten().double()])
        lower, upper = float(cost.lower), float(cost.upper)
        low, high = every.min().item(), every.max().item()
        room = max(0.3 * (high - low), _LITTLE * (upper - lower))
        ends = max(lower, low - room), min(upper, high + room)
        actions = torch.linspace(*ends, _ACTIONS, dtype=torch.float64)
        return cls(cost, actions, sample, best.item(), check_cost(cost, sets), unit, action_unit)

    def paid(self, actions: Tensor, outcomes: Tensor) -> Tensor:
        """Every action (A,) with every outcome (N, D): (A, N)."""
        rows = len(actions), len(outcomes)
        with torch.no_grad():
            paid = self.cost(actions.repeat_interleave(rows[1])[:, None], outcomes.repeat(rows[0], 1))
        return paid.reshape(rows)


def cost_figure(cost: Cost, outcomes: ArrayLike, unit: str, action_unit: str) -> Figure:
    """What a cost rewards: costs by action, the best one, and where the gradient acts."""
    curves = CostCurves.of(cost, outcomes, unit, action_unit)
    panels = [panel(draw, curves) for draw in (draw_cost, draw_mean_cost, draw_gradient)]
    caption = (
        "First: what an action costs for outcomes from low to high. Second: its mean cost over "
        f"{len(curves.outcomes):,} outcomes, lowest at {amount_text(curves.best, action_unit)}, the best constant "
        "action without a forecast. Third: where the decision gradient acts, over forecasts made of neighbouring "
        f"outcomes, as shares of members and of gradient by the member's value. {_gradient_words(curves.check)}"
    )
    settings = {"cost": str(cost), "outcomes": len(curves.outcomes)}
    return figure_of_panels("cost", "What the cost function rewards", caption, panels, settings)


def draw_cost(curves: CostCurves, axes: Axes) -> None:
    """What actions cost at a few outcomes from low to high."""
    outcomes = _typical(curves.cost, curves.outcomes)
    totals = outcome_total(curves.cost, outcomes).tolist()
    paid = curves.paid(curves.actions, outcomes)
    looks = zip(weight_colours(totals), DASHES, strict=False)
    for column, total, (colour, dashes) in zip(paid.T, totals, looks, strict=False):
        axes.plot(curves.actions, column, color=colour, linestyle=dashes, label=f"outcome {amount_text(total)}")
    axes.set(xlabel=axis_label("action", curves.action_unit), ylabel=axis_label("cost", curves.unit))


def draw_mean_cost(curves: CostCurves, axes: Axes) -> None:
    """The mean cost of actions over all outcomes, and the best one."""
    expected = curves.paid(curves.actions, curves.outcomes).mean(1)
    lowest = float(curves.paid(torch.tensor([curves.best], dtype=torch.float64), curves.outcomes).mean())
    axes.plot(curves.actions, expected, color=COLOURS["blue"])
    axes.plot(curves.best, lowest, color=COLOURS["orange"], marker="o", markersize=6, linestyle="")
    axes.axvline(curves.best, color=COLOURS["orange"], linestyle="--", linewidth=0.9)
    least = amount_text(lowest, curves.unit, beside=expected.tolist())
    axes.set_title(f"best action {literal_text(amount_text(curves.best, curves.action_unit))}: {literal_text(least)}")
    axes.set(xlabel=axis_label("action", curves.action_unit), ylabel=axis_label("mean cost", curves.unit))


def draw_gradient(curves: CostCurves, axes: Axes) -> None:
    """The shares of members and of the decision gradient, by the member's value."""
    mass = curves.check.gradient_mass
    edges = mass.edges.numpy()
    axes.stairs(100 * mass.member_share.numpy(), edges, fill=True, color="#CCCCCC", label="members")
    axes.stairs(100 * mass.gradient_share.numpy(), edges, color=COLOURS["orange"], linewidth=1.6, label="gradient")
    label = "value of a member" if curves.outcomes.shape[1] == 1 else "mean of a member over the targets"
    axes.set(xlabel=label, ylabel="share (%)", ylim=(0, None))


def _typical(cost: Cost, ordered: Tensor) -> Tensor:
    """Different outcomes from low to high, of those in the order of their totals."""
    chosen = ordered[[round(level * (len(ordered) - 1)) for level in _QUANTILES]].unique(dim=0)
    return chosen[outcome_total(cost, chosen).argsort()]


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


_MOST_TICKS = 8
_JOINED = 2  # parts that a limit is drawn between; with more it is named in the title
_BANDS = ((0, 4, 0.18), (1, 3, 0.3))  # of `BAND_LEVELS`: lower, upper, and how dark
_LOW, _LOWER, _, _UPPER, _HIGH = (f"{100 * level:g}" for level in BAND_LEVELS)
_LOOKS = ("orange", "blue dashed", "ink")


def parts_figure(comparison: Comparison, parts: JudgedParts) -> Figure:
    """A few vector actions over their parts, with the forecast behind them and the limits that bind."""
    together = _are_outcomes(comparison.cost)
    panels = [
        panel(draw_parts, comparison, parts, case, rows=1 if together else 2, height=3.2 if together else 4.2, legend=2)
        for case in parts.shown
    ]
    charts = [tuple(_parts_charts(comparison, parts, case)) for case in parts.shown]
    caption = (
        f"The {_LOW} to {_HIGH} % range of the forecast and its middle half, what was decided for each part, and what "
        "happened. Bars mark binding limits: on a step that cannot be larger, on a part at its bound."
    )
    return figure_of_panels(
        "parts-of-decisions", "Decisions part by part", caption, panels, comparison.settings, charts
    )


def draw_parts(comparison: Comparison, parts: JudgedParts, case: ShownCase, *axes: Axes) -> None:
    """One case: its forecast and outcome on the first axes, its action on the last, which may be the same."""
    above, below, unit = axes[0], axes[-1], comparison.action_unit
    edges = np.arange(len(case.quantiles[0]) + 1) - 0.5
    for low, high, dark in _BANDS:
        look: dict[str, Any] = {"color": COLOURS["blue"], "alpha": dark, "linewidth": 0, "fill": True}
        above.stairs(case.quantiles[high], edges, baseline=case.quantiles[low], **look)
    key(above, "forecast", color=COLOURS["blue"], alpha=0.3, linewidth=7)
    if case.outcome:
        above.plot(case.outcome, color="black", marker=".", markersize=4, linestyle="", label="outcome")
    bound: dict[str, Any] = {"color": COLOURS["purple"], "linewidth": 3}
    action = np.array(case.action)
    edges = np.arange(len(action) + 1) - 0.5
    below.stairs(action, edges, baseline=None, color=COLOURS["orange"], linewidth=1.4)
    key(below, "action", color=COLOURS["orange"])
    for limit in case.binding:
        places = list(limit.parts)
        if len(places) == _JOINED and places[1] == places[0] + 1:
            below.plot([places[0] + 0.5] * 2, action[places], **bound)
        elif len(places) == 1:
            below.plot([places[0] - 0.5, places[0] + 0.5], action[places * 2], **bound)
    if case.binding:
        key(below, "limit binds", **bound)
    wide = [limit for limit in case.binding if len(limit.parts) > _JOINED]
    prices = [f"{limit.kind} binds, {amount_text(limit.price, _price_unit(comparison))}" for limit in wide[:2]]
    above.set_title("\n".join(map(literal_text, [_name(comparison, case), *prices])))
    named = {above: ("outcome", "", parts.outcomes), below: ("action", unit, parts.parts)}
    if above is below:
        named = {above: ("outcome and action", unit, parts.outcomes)}
    for each, (what, measured, names) in named.items():
        each.set_axisbelow(True)
        each.set_ylabel(axis_label(what, measured))
        every = -(-len(names) // _MOST_TICKS)
        each.set_xticks(range(0, len(names), every), [literal_text(name) for name in names[::every]])
        if max(map(len, names)) > _MOST_TICKS // 2:
            each.tick_params(axis="x", labelrotation=30)


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
    if _are_outcomes(comparison.cost):
        yield Chart(f"{name}{unit}", "part", places, (*planned, *outcome), bands, limits, steps=True)
        return
    yield Chart(f"{name}, outcomes", "part", parts.outcomes, outcome, bands, steps=True, group=name)
    yield Chart(f"The action{unit}", "part", places, planned, (), limits, steps=True, group=name)


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


def _name(comparison: Comparison, case: ShownCase) -> str:
    times = comparison.times
    when = f"case {case.case + 1:,}" if times is None else str(np.datetime_as_string(times[case.case], "D"))
    return f"{case.name[:1].upper()}{case.name[1:]}: {when}"


def _price_unit(comparison: Comparison) -> str:
    unit, action_unit = comparison.unit, comparison.action_unit
    return f"{unit} / {action_unit}" if unit and action_unit else unit
