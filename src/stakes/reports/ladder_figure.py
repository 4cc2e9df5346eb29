"""The figure that a report opens with: what each rung of the ladder costs on the test cases."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from stakes.evaluation.intervals import Difference
from stakes.evaluation.ladder import Ladder, RungOnTest
from stakes.number_text import amount_text, count_text
from stakes.reports.error_bars import reach
from stakes.reports.fit_panels import (
    LOOKS,
    axis_label,
    drawing_style,
    figure_of_panels,
    legend_below_panel,
    legend_entry,
    new_panel,
)
from stakes.reports.judged_ways import JudgedWays
from stakes.reports.ladder_words import rung_title
from stakes.reports.page import Figure
from stakes.reports.style import COLOURS

__all__ = ["ladder_figure"]

_ROOM, _ROW = 1.15, 0.34  # inches
_TICKS = 5  # on the axis of costs, whose numbers may be long
_DWARFED = 4.0  # times the range of the others: the range with the first rung
_KINDS: dict[str, dict[str, Any]] = {
    "taken": {**LOOKS["taken"], "linestyle": "", "markersize": 7},
    "climbed": {**LOOKS["plain"], "linestyle": ""},
    "tried, not taken": {"color": "#B0B0B0", "marker": "o", "markerfacecolor": "white", "linestyle": ""},
}
_TAKEN = _KINDS["taken"]


def ladder_figure(fit: JudgedWays, ladder: Ladder, *, refitted: bool = True) -> Figure:
    """What each rung costs on the test cases, and how sure its distance from the forecast that was taken is.

    Args:
        fit: What is reported.
        ladder: Its ladder, with test cases.
        refitted: Whether the forecast that was taken was fitted again before the test cases, and has a line of its own.
    """
    rungs = ladder.tested
    parts = [rungs, rungs[1:]] if _dwarfed([rung.cost for rung in rungs]) else [rungs]
    caption = (
        f"Mean cost of each rung on {count_text(fit.cases, 'test case')}, which chose nothing; less is better, and "
        f"each rung is tried on the one below that was climbed. {_REFITTED if refitted else _LEARNED} A bar is the "
        "paired 95 % interval of the distance from it: where the bar does not touch the orange line, the rung differs "
        "from the forecast beyond doubt."
    )
    caption += f" Second: the same without {rung_title(rungs[0].name)}." if len(parts) > 1 else ""
    with drawing_style():
        panels = [_panel(fit, ladder, part, refitted) for part in parts]
        return figure_of_panels("ladder", "What each rung costs", caption, panels, fit.settings)


_REFITTED = (
    "The rungs were fitted without the validation cases; the last line of the figure is the forecast that was taken, "
    "fitted again on all rows before the test cases, and climatology is the constant action that is best for these."
)
_LEARNED = "Each was learned from the cases before these. The orange line is the forecast that was taken."


def _dwarfed(costs: Sequence[float]) -> bool:
    """Whether the first cost is so large that the others cannot be told apart beside it."""
    return len(costs) > 2 and np.ptp(costs) > _DWARFED * np.ptp(costs[1:])


def _panel(fit: JudgedWays, ladder: Ladder, rungs: Sequence[RungOnTest], refitted: bool) -> Drawing:
    titles = [*(rung_title(rung.name) for rung in rungs), *(["fitted again"] if refitted else [])]
    panel, (axes,) = new_panel(height=_ROOM + _ROW * len(titles))
    final = rungs[0].cost + rungs[0].cost_change.mean
    beside = [rung.cost for rung in ladder.tested]
    axes.axvline(final, color=COLOURS["orange"], linewidth=1.0, zorder=1)
    if refitted:
        axes.plot(final, len(rungs), **_TAKEN)
        _amount(axes, final, len(rungs), beside)
    for place, rung in enumerate(rungs):
        kind, stated = _kind(ladder, rung.name), fit.stated(rung.cost_change)
        apart = Difference(final - stated.mean, final - stated.high, final - stated.low)
        bar = None if np.isnan(apart.low) else reach([apart])
        axes.errorbar(rung.cost, place, xerr=bar, elinewidth=1.0, **_KINDS[kind])
        _amount(axes, rung.cost, place, beside, COLOURS["grey"] if kind == "tried, not taken" else "black")
    axes.set_yticks(range(len(titles)), titles)
    axes.set_ylim(len(titles) - 0.4, -0.8)  # from above, as the table has them
    axes.locator_params(axis="x", nbins=_TICKS)
    axes.margins(x=0.12)
    axes.grid(visible=False, axis="y")
    axes.set(xlabel=axis_label("mean cost per test case", fit.unit), ylabel="rung")
    used = {_kind(ladder, rung.name) for rung in ladder.tested}
    legend_below_panel(panel, [legend_entry(name, **look) for name, look in _KINDS.items() if name in used])
    return panel


def _amount(axes: Axes, cost: float, place: int, beside: Sequence[float], colour: str = "black") -> None:
    look: dict[str, Any] = {"ha": "center", "fontsize": 7, "color": colour}
    behind = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
    text = amount_text(cost, beside=beside)
    axes.annotate(text, (cost, place), xytext=(0, 6), textcoords="offset points", bbox=behind, **look)


def _kind(ladder: Ladder, name: str) -> str:
    """What became of a rung."""
    if name == ladder.taken.name:
        return "taken"
    climbed = next(rung.climbed for rung in ladder.rungs if rung.name == name)
    return "climbed" if climbed else "tried, not taken"
