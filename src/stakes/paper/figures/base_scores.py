"""What a decision term is worth to forecasts trained point by point, and to those trained all sites together, ours."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from stakes.paper.base_scores import BASES, SHUFFLED, TOTAL, ScoreChoice
from stakes.paper.figures.paper_figure import Drawn, PaperFigure
from stakes.paper.figures.paper_style import new_figure
from stakes.paper.score_rows import score_rows
from stakes.paper.study_collection import StudyKey
from stakes.reports.style import COLOURS

__all__ = ["BASE_SCORE_FIGURES", "draw_base_scores"]

_TITLES = {
    "european_wind": "European wind, 21 series",
    "gefcom_wind": "GEFCom2014, 10 wind farms",
    "irish_wind": "Irish wind, 12 stations",
    "new_york_load": "New York load, 11 zones",
}
_LOOKS: dict[str, tuple[str, dict[str, Any]]] = {  # by method, from the top of a base's place to its bottom
    "plain": ("score alone", {"color": COLOURS["black"], "marker": "o", "markerfacecolor": "white"}),
    SHUFFLED: ("shuffled by past errors", {"color": COLOURS["purple"], "marker": "D"}),
    TOTAL: ("+ CRPS of the total", {"color": COLOURS["green"], "marker": "^"}),
    "variogram": ("+ variogram score", {"color": COLOURS["yellow"], "marker": "v"}),
    "decision": ("+ decision", {"color": COLOURS["blue"], "marker": "o"}),
    "many": ("+ decision, 64 members", {"color": COLOURS["sky"], "marker": "s"}),
}
_POLICY: dict[str, Any] = {"color": COLOURS["grey"], "linestyle": "--", "linewidth": 0.9}
_APART = 0.13  # of the distance between bases


def draw_base_scores(rows: pd.DataFrame) -> Drawn:
    """One panel per record, at its highest cost parameter.

    Args:
        rows: Those of `stakes.paper.score_rows.score_rows`, as they are or as JSON has them.
    """
    records = [name for name in _TITLES if name in set(rows["portfolio"])]
    drawing, grid = new_figure(-(-len(records) // 2), min(2, len(records)), height=2.6, sharey=True)
    for axes in grid.flat[len(records) :]:
        axes.remove()
    for axes, name in zip(grid.flat, records, strict=False):
        own = rows[rows["portfolio"] == name]
        _panel(axes, own[own["parameter"] == own["parameter"].max()])
        axes.set(title=_TITLES[name], xlabel="cost above perfect foresight (%)")
        axes.set_ylabel("trained on")
    handles = [Line2D([], [], linestyle="", label=label, **look) for label, look in _LOOKS.values()]
    handles.append(Line2D([], [], label="direct policy, no forecast", **_POLICY))
    drawing.legend(handles=handles, loc="outside lower center", ncols=4)
    return Drawn(
        drawing,
        "What is paid above the cost of perfect foresight, in per cent of what the forecast trained point by point "
        "pays, for wind power (λ = 20) and for load (short 10 times as dear as long). Each at the weight that "
        "validation data choose; bars are paired 95 % intervals of the difference to the same forecast trained on its "
        "score alone, and marks are filled where one leaves out zero. To look for: how far the blue marks lie left of "
        "the white ones where forecasts are trained point by point, and that they hardly do where sites are trained "
        "together.",
    )


def _panel(axes: Axes, rows: pd.DataFrame) -> None:
    """Bases from top to bottom, and the methods of each from top to bottom."""
    plain = rows[(rows["method"] == "decision") & (rows["weight"] == 0)].set_index("base")["above_foresight"]
    unit = float(plain.get("pointwise", plain.iloc[0])) / 100
    for place, base in enumerate(BASES):
        own = rows[(rows["base"] == base) & rows["chosen"].astype(bool)].set_index("method")
        for step, (method, (_, look)) in enumerate(_LOOKS.items()):
            height = -place - _APART * (step - (len(_LOOKS) - 1) / 2)
            if method == "plain" and base in plain:
                axes.plot(plain[base] / unit, height, **look)
            elif method in own.index:
                change = np.array(own["above_foresight_change"][method])  # mean, low, high in per cent
                ends = plain[base] * (1 + change / 100) / unit
                sure = change[1] > 0 or change[2] < 0
                filled = look if sure else {**look, "markerfacecolor": "white"}
                axes.errorbar(ends[0], height, xerr=[[ends[0] - ends[1]], [ends[2] - ends[0]]], capsize=0, **filled)
        if place:
            axes.axhline(0.5 - place, color=COLOURS["grey"], linewidth=0.4)
    policy = rows[rows["method"] == "policy"]["above_foresight"]
    if len(policy):
        axes.axvline(policy.iloc[0] / unit, **_POLICY)
    axes.set(yticks=[-place for place in range(len(BASES))], ylim=(0.5 - len(BASES), 0.5))
    axes.set_yticklabels([title.replace(", ", ",\n") for title, _ in BASES.values()])


_NEEDED = (ScoreChoice("pointwise"), ScoreChoice("pointwise", SHUFFLED))

BASE_SCORE_FIGURES = (
    PaperFigure(
        "portfolio_base_scores",
        "portfolio",
        "Forecasts trained point by point, and what may be added to them",
        lambda studies: draw_base_scores(score_rows(studies)),
        tuple(StudyKey("irish_wind", "implicit", choice.name) for choice in _NEEDED),
    ),
)
"""One figure, of all records."""
