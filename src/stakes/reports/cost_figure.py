"""What a cost rewards, as a figure: costs by action, the best action, and where the decision gradient acts."""

import numpy as np
import torch
from matplotlib.figure import Figure as Drawing
from numpy.typing import ArrayLike
from torch import Tensor

from stakes.errors import CostError, ShapeError
from stakes.evaluation.metrics import Assessor
from stakes.method.actions import optimal_action
from stakes.method.check_cost import CostCheck, check_cost
from stakes.method.costs import Cost
from stakes.method.program_actions import PartsCost, ProgramCost
from stakes.number_text import amount_text
from stakes.reports.fit_panels import (
    axis_label,
    drawing_style,
    figure_of_panels,
    legend_below_panel,
    literal_text,
    new_panel,
)
from stakes.reports.page import Figure
from stakes.reports.style import COLOURS, DASHES, weight_colours

__all__ = ["cost_figure"]

_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_ACTIONS = 201  # on a curve
_SETS, _MEMBERS = 100, 50  # of forecasts made of the outcomes
_MOST_OF_IT = 0.8  # of the gradient
_LITTLE = 1e-3


def cost_figure(cost: Cost, outcomes: ArrayLike, unit: str, action_unit: str) -> Figure:
    """What a cost rewards: costs by action, the best one, and where the gradient acts.

    Args:
        cost: The cost.
        outcomes: A sample of outcomes (N, D) over which it is drawn.
        unit: The unit of the cost.
        action_unit: The unit of the action.
    """
    if isinstance(cost, ProgramCost | PartsCost):
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
