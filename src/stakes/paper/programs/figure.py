"""One figure per problem: what each method cost beside what a practitioner does, and how good its forecast is."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from stakes.paper.figures.paper_style import new_figure
from stakes.reports.page import Figure
from stakes.reports.style import COLOURS, style, to_svg

__all__ = ["problem_figure"]

_LOOKS = {False: ("a rival", COLOURS["black"]), True: ("ours", COLOURS["blue"])}
_ROW, _REST = 0.24, 1.1  # inches


def problem_figure(name: str, about: Mapping[str, Any]) -> Figure:
    """The methods of a problem from top to bottom, their costs with intervals and their energy scores.

    Args:
        name: The name of the problem.
        about: What `stakes.paper.programs.comparison.compared` said.
    """
    rows = about["methods"]
    reference = next(row for row in rows if row["name"] == about["reference"])
    with style():
        drawing, grid = new_figure(1, 2, _ROW * len(rows) + _REST, sharey=True, width_ratios=(3, 1))
        costs, scores = grid[0]
        _costs(costs, rows, reference)
        _scores(scores, rows)
        costs.set(xlabel=f"mean cost on test cases ({about['unit']})")
        costs.set_yticks(-np.arange(len(rows)), [row["title"] for row in rows])
        costs.set_ylim(0.6 - len(rows), 0.6)
        scores.set(xlabel="energy score")
        handles = [
            Line2D([], [], color=colour, marker="o", linestyle="", label=label) for label, colour in _LOOKS.values()
        ]
        drawing.legend(handles=handles, loc="outside lower center", ncols=2)
        svg = to_svg(drawing)
    caption = (
        f"Mean cost on {about['cases']['test']:,} test cases. Bars are paired 95 % intervals, over time and "
        f"{about['seeds']} seeds, of the difference to “{reference['title']}”, the dashed line; marks are filled where "
        "one leaves out zero. Right: the energy score of the forecast, where there is one. To look for: blue marks "
        "that are filled and left of the line."
    )
    settings = {key: about[key] for key in ("cost", "cases", "from", "seeds", "reference", "foresight_cost")}
    return Figure(name, about["title"], caption, svg, settings)


def _costs(axes: Axes, rows: Sequence[Mapping[str, Any]], reference: Mapping[str, Any]) -> None:
    axes.axvline(reference["cost"], color=COLOURS["grey"], linestyle="--", linewidth=0.9)
    for place, row in enumerate(rows):
        colour = _LOOKS[row["ours"]][1]
        change = row["less_reference"]
        sure = change is not None and (change[1] > 0 or change[2] < 0)
        if change is not None:
            axes.plot([reference["cost"] + end for end in change[1:]], [-place, -place], color=colour, linewidth=0.9)
        fill = colour if sure or row is reference else "white"
        axes.plot(row["cost"], -place, color=colour, marker="o", markerfacecolor=fill)


def _scores(axes: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    for place, row in enumerate(rows):
        if row["energy_score"] is not None:
            axes.plot(row["energy_score"], -place, color=_LOOKS[row["ours"]][1], marker="o")
