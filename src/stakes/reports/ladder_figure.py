"""The figure that a report opens with: what each rung of the ladder costs on the test cases."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from stakes.evaluation.intervals import Difference
from stakes.evaluation.ladder import Ladder
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
from stakes.reports.judged_fit import JudgedFit
from stakes.reports.ladder_words import rung_title
from stakes.reports.page import Figure
from stakes.reports.style import COLOURS

__all__ = ["ladder_figure"]

_ROOM, _ROW = 1.15, 0.34  # inches
_TICKS = 5  # on the axis of costs, whose numbers may be long
_CLIMBED: dict[str, Any] = {**LOOKS["plain"], "linestyle": ""}
_LEFT: dict[str, Any] = {"color": "#B0B0B0", "marker": "o", "markerfacecolor": "white", "linestyle": ""}
_TAKEN: dict[str, Any] = {**LOOKS["taken"], "linestyle": "", "markersize": 7}


def ladder_figure(fit: JudgedFit, ladder: Ladder) -> Figure:
    """What each rung costs on the test cases, and how sure its distance from the forecast that was taken is.

    Args:
        fit: The fit that is reported.
        ladder: Its ladder, with test cases.
    """
    with drawing_style():
        panel, (axes,) = new_panel(height=_ROOM + _ROW * (1 + len(ladder.tested)))
        _draw(axes, fit, ladder)
        axes.locator_params(axis="x", nbins=_TICKS)
        axes.margins(x=0.12)
        axes.grid(visible=False, axis="y")
        axes.set(xlabel=axis_label("mean cost per test case", fit.unit), ylabel="rung")
        keys = [("taken", _TAKEN), ("climbed", _CLIMBED), ("tried, not taken", _LEFT)]
        used = {_kind(ladder, rung.name) for rung in ladder.tested}
        legend_below_panel(panel, [legend_entry(name, **look) for name, look in keys if name in used])
        caption = (
            f"Mean cost of each rung on {count_text(fit.cases, 'test case')}, which chose nothing; less is better, and "
            "each rung is tried on the one below that was climbed. The last line of the figure is the forecast that "
            "was taken, fitted again on all rows before the test cases. A bar is the paired 95 % interval of the "
            "distance from it: where the bar does not touch the orange line, the rung differs from the forecast beyond "
            "doubt."
        )
        return figure_of_panels("ladder", "What each rung costs", caption, [panel], fit.settings)


def _draw(axes: Axes, fit: JudgedFit, ladder: Ladder) -> None:
    costs = [rung.cost for rung in ladder.tested]
    final = ladder.tested[0].cost + ladder.tested[0].cost_change.mean
    axes.axvline(final, color=COLOURS["orange"], linewidth=1.0, zorder=1)
    looks = {"taken": _TAKEN, "climbed": _CLIMBED, "tried, not taken": _LEFT}
    axes.plot(final, len(costs), **_TAKEN)
    _amount(axes, final, len(costs), costs)
    for place, rung in enumerate(ladder.tested):
        kind = _kind(ladder, rung.name)
        stated = fit.stated(rung.cost_change)
        apart = Difference(final - stated.mean, final - stated.high, final - stated.low)
        known = not np.isnan(apart.low)
        axes.errorbar(rung.cost, place, xerr=reach([apart]) if known else None, elinewidth=1.0, **looks[kind])
        _amount(axes, rung.cost, place, costs, COLOURS["grey"] if kind == "tried, not taken" else "black")
    titles = [*(rung_title(rung.name) for rung in ladder.tested), "fitted again"]
    axes.set_yticks(range(len(titles)), titles)
    axes.set_ylim(len(titles) - 0.4, -0.8)  # from above, as the table has them


def _amount(axes: Axes, cost: float, place: int, beside: list[float], colour: str = "black") -> None:
    look: dict[str, Any] = {"ha": "center", "fontsize": 7, "color": colour}
    text = amount_text(cost, beside=beside)
    axes.annotate(text, (cost, place), xytext=(0, 6), textcoords="offset points", **look)


def _kind(ladder: Ladder, name: str) -> str:
    """What became of a rung."""
    if name == ladder.taken.name:
        return "taken"
    climbed = next(rung.climbed for rung in ladder.rungs if rung.name == name)
    return "climbed" if climbed else "tried, not taken"
