"""The method at a glance: how samples become two losses, and how their gradients come back."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from reproduction.figures.paper_figure import Drawn, PaperFigure, new_figure
from reproduction.study_collection import Studies
from stakes.plots import COLOURS

Point = tuple[float, float]

_CAPTION = (
    "Features x and noise ε enter the model, which gives M samples ŷ of the forecast. They feed two branches: the "
    "energy score (CRPS for one site) compares them with the observed y, and the optimisation layer finds the action "
    "a* that is cheapest on average over them, which the decision loss settles at y. The two losses, each divided by "
    "its scale, are combined with the decision weight w. Gradients return through automatic differentiation (green, "
    "dashed) and, from the decision loss through the optimisation layer, through implicit differentiation (orange, "
    "dash-dotted), which is zero where a* lies on a bound."
)


class _Box(NamedTuple):
    """A rounded box around its centre, in inches."""

    x: float
    y: float
    width: float
    height: float
    text: str
    fill: str = "white"

    def edge(self, right: float = 0.0, up: float = 0.0, along: float = 0.0) -> Point:
        """The middle of the side in that direction, moved along the side."""
        return (
            self.x + right * self.width / 2 + (along if up else 0.0),
            self.y + up * self.height / 2 + (along if right else 0.0),
        )

    def draw(self, axes: Axes) -> None:
        corner = (self.x - self.width / 2, self.y - self.height / 2)
        style = "round,pad=0,rounding_size=0.08"
        axes.add_patch(FancyBboxPatch(corner, self.width, self.height, style, fc=self.fill, ec="#333333", lw=0.9))
        axes.text(self.x, self.y, self.text, ha="center", va="center", fontsize=7.5, linespacing=1.35)


_GIVEN, _STEP, _LOSS = "#EEEEEE", "#E3F0F8", "#FFF3DC"
_FEATURES = _Box(0.45, 2.0, 0.8, 0.42, "features x", _GIVEN)
_NOISE = _Box(0.45, 1.2, 0.8, 0.42, "noise ε", _GIVEN)
_MODEL = _Box(1.55, 1.6, 0.8, 0.7, "model\nh(x, ε; θ)", _STEP)
_SAMPLES = _Box(2.65, 1.6, 0.8, 0.7, "M samples\nŷ", _STEP)
_SCORE = _Box(4.55, 2.6, 1.2, 0.55, "energy score\nES(ŷ, y)", _LOSS)
_OBSERVED = _Box(4.55, 1.6, 0.95, 0.42, "observed y", _GIVEN)
_LAYER = _Box(3.1, 0.45, 1.75, 0.6, "optimisation layer\na* = argmin mean c(a, ŷ)", _STEP)
_DECISION = _Box(4.9, 0.45, 1.0, 0.6, "decision loss\nc(a*, y)", _LOSS)
_COMBINED = _Box(6.1, 1.6, 1.2, 0.85, "combined loss\n(1 − w) · score\n+ w · decision", _LOSS)
_BOXES = (_FEATURES, _NOISE, _MODEL, _SAMPLES, _SCORE, _OBSERVED, _LAYER, _DECISION, _COMBINED)

_APART = 0.1  # between an arrow forth and the gradient that comes back beside it
_FORTH: tuple[tuple[Point, Point], ...] = (
    (_FEATURES.edge(right=1), _MODEL.edge(right=-1, along=0.12)),
    (_NOISE.edge(right=1), _MODEL.edge(right=-1, along=-0.12)),
    (_MODEL.edge(right=1, along=_APART), _SAMPLES.edge(right=-1, along=_APART)),
    (_SAMPLES.edge(right=1, along=0.25), _SCORE.edge(right=-1, along=_APART)),
    (_SAMPLES.edge(up=-1, along=-_APART), _LAYER.edge(up=1, along=-0.45 - _APART)),
    (_LAYER.edge(right=1, along=_APART), _DECISION.edge(right=-1, along=_APART)),
    (_OBSERVED.edge(up=1), _SCORE.edge(up=-1)),
    (_OBSERVED.edge(up=-1, along=0.2), _DECISION.edge(up=1, along=-0.15)),
    (_SCORE.edge(right=1, along=_APART), _COMBINED.edge(up=1, along=_APART)),
    (_DECISION.edge(right=1, along=-_APART), _COMBINED.edge(up=-1, along=_APART)),
)
_AUTOMATIC: tuple[tuple[Point, Point], ...] = (
    (_COMBINED.edge(up=1, along=-2 * _APART), _SCORE.edge(right=1, along=-_APART)),
    (_SCORE.edge(right=-1, along=-_APART), _SAMPLES.edge(right=1, along=0.05)),
    (_SAMPLES.edge(right=-1, along=-_APART), _MODEL.edge(right=1, along=-_APART)),
    (_COMBINED.edge(up=-1, along=-2 * _APART), _DECISION.edge(right=1, along=_APART)),
)
_IMPLICIT: tuple[tuple[Point, Point], ...] = (
    (_DECISION.edge(right=-1, along=-_APART), _LAYER.edge(right=1, along=-_APART)),
    (_LAYER.edge(up=1, along=-0.45 + _APART), _SAMPLES.edge(up=-1, along=_APART)),
)


def _overview(studies: Studies) -> Drawn:
    """A diagram; it needs no study."""
    drawing, grid = new_figure(height=3.35)
    axes = grid[0, 0]
    axes.set(xlim=(0, 6.75), ylim=(-0.35, 3.0), aspect="equal")
    axes.axis("off")
    for box in _BOXES:
        box.draw(axes)
    kinds: tuple[tuple[str, Sequence[tuple[Point, Point]], str, Any], ...] = (
        ("forward pass", _FORTH, "#333333", "-"),
        ("gradient, automatic differentiation", _AUTOMATIC, COLOURS["green"], (0, (3, 1.2))),
        ("gradient, implicit differentiation", _IMPLICIT, COLOURS["orange"], (0, (3, 1, 0.8, 1))),
    )
    for _, arrows, colour, dashes in kinds:
        for start, end in arrows:
            _arrow(axes, start, end, colour, dashes)
    handles = [Line2D([], [], color=colour, linestyle=dashes, label=name) for name, _, colour, dashes in kinds]
    axes.legend(handles=handles, loc="lower center", ncols=3, handlelength=3)
    return Drawn(drawing, _CAPTION)


def _arrow(axes: Axes, start: Point, end: Point, colour: str, dashes: Any) -> None:
    width = 1.0 if dashes == "-" else 1.7
    head = "-|>,head_length=3.5,head_width=1.8"
    arrow = FancyArrowPatch(start, end, arrowstyle=head, color=colour, lw=width, shrinkA=1, shrinkB=1)
    arrow.set_linestyle(dashes)
    axes.add_patch(arrow)


METHOD_FIGURES = (PaperFigure("method_overview", "method", "Decision-aware training at a glance", _overview),)
"""In the order of the paper."""
