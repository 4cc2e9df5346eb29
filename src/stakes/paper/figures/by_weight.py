"""What decision weights change, in two rows of panels: the metrics themselves, and their change against weight 0."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from stakes.evaluation.intervals import Difference, defined_deviation, defined_mean
from stakes.evaluation.study import RegionBy, Study
from stakes.reports.error_bars import error_bars
from stakes.reports.style import band

__all__ = [
    "BANDS",
    "FILLED",
    "WEIGHT_TICKS",
    "Line",
    "by_weight",
    "common_limits",
    "draw_changes",
    "draw_levels",
    "shared_legend",
]

BANDS = "bands are ±1 standard deviation over seeds"
FILLED = "marks are filled where the paired 95 % interval of the difference to weight 0 leaves out zero"

WEIGHT_TICKS = (0.0, 0.3, 0.6, 0.9)
_BESIDE = 0.02  # of a decision weight, between the error bars of neighbouring lines
_THIN = 0.9


@dataclass(frozen=True, eq=False)
class Line:
    """One line of a panel: a study, what part of it, and how it is drawn."""

    study: Study
    label: str
    look: Mapping[str, Any]  # colour and marker
    parameter: float | None = None
    region: str | None = None
    by: RegionBy = "observed"

    def changes(self, metric: str, relative: bool = False) -> list[Difference]:
        """Of every weight against weight 0, paired; relative ones in per cent."""
        pairs = [self.study.pair(metric, weight, self.parameter, self.region, self.by) for weight in self.study.weights]
        return [(found.relative_to(baseline) if relative else found - baseline).interval() for found, baseline in pairs]


def by_weight(
    axes: Axes,
    study: Study,
    metric: str,
    parameter: float | None = None,
    region: str | None = None,
    **line: Any,
) -> None:
    """A metric against the decision weight: mean and one standard deviation over seeds, as in the paper.

    The marker is filled where the paired 95 % interval of the difference to weight 0 leaves out zero.
    """
    found = np.array([study.seed_means(metric, weight, parameter, region) for weight in study.weights])
    mean, deviation = defined_mean(found, 1), defined_deviation(found, 1)
    (drawn,) = axes.plot(study.weights, mean, marker=line.pop("marker", "o"), markerfacecolor="white", **line)
    band(axes, study.weights, mean - deviation, mean + deviation, drawn.get_color())
    pairs = (study.pair(metric, weight, parameter, region) for weight in study.weights)
    sure = [(found_mean - baseline).interval().significant for found_mean, baseline in pairs]
    places = np.array(study.weights)[sure]
    axes.plot(places, mean[sure], linestyle="", marker=drawn.get_marker(), color=drawn.get_color())


def draw_levels(axes: Axes, metric: str, lines: Sequence[Line]) -> None:
    """A metric by weight; regions by forecast are thin and dashed, without band."""
    for line in lines:
        if line.by == "observed":
            by_weight(axes, line.study, metric, line.parameter, line.region, label=line.label, **line.look)
            continue
        weights = line.study.weights
        found = [line.study.seed_means(metric, weight, line.parameter, line.region, line.by) for weight in weights]
        axes.plot(weights, defined_mean(found, 1), linestyle="--", linewidth=_THIN, color=line.look["color"])
    if metric == "gap":
        axes.axhline(0.0, color="black", linewidth=0.8)
    axes.set_xticks(WEIGHT_TICKS)


def draw_changes(axes: Axes, metric: str, lines: Sequence[Line], relative: bool = False) -> None:
    """The change of a metric against weight 0 with paired 95 % intervals.

    Regions by forecast have no bars, and marks only where the interval leaves out zero.
    """
    axes.axhline(0.0, color="black", linewidth=0.8)
    drawn = [line for line in lines if line.by == "observed"]
    for place, line in enumerate(drawn):
        places = np.array(line.study.weights) + _BESIDE * (place - (len(drawn) - 1) / 2)
        error_bars(axes, places, line.changes(metric, relative), **line.look)
    for line in lines:
        if line.by == "forecast":
            found = line.changes(metric, relative)
            means, sure = [each.mean for each in found], [place for place, each in enumerate(found) if each.significant]
            look = {**line.look, "linestyle": "--", "linewidth": _THIN, "markersize": 2.5}
            axes.plot(line.study.weights, means, markevery=sure, **look)
    axes.set_xticks(WEIGHT_TICKS)


def common_limits(panels: Sequence[Axes]) -> None:
    """One scale for panels that are compared."""
    limits = np.array([panel.get_ylim() for panel in panels])
    for panel in panels:
        panel.set_ylim(limits[:, 0].min(), limits[:, 1].max())


def shared_legend(figure: Figure, lines: Sequence[Line], others: Sequence[Line2D] = (), columns: int = 6) -> None:
    """One legend for all panels, under them: the lines, then what else needs a word."""
    handles = [Line2D([], [], label=line.label, **line.look) for line in lines if line.by == "observed"]
    if any(line.by == "forecast" for line in lines):
        handles.append(Line2D([], [], color="black", linestyle="--", linewidth=_THIN, label="region by forecast"))
    figure.legend(handles=[*handles, *others], loc="outside lower center", ncols=columns, handlelength=2.8)
