"""A figure of the paper: what it shows, which studies it needs, and what all figures have in common."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from reproduction.diagnostics import kernel_density
from reproduction.study import RegionBy, Study, defined_deviation, defined_mean
from reproduction.study_collection import Studies, StudyKey
from stakes.costs.cost import Cost
from stakes.evaluation.intervals import Difference
from stakes.plots import COLOURS, DASHES, band, error_bars, weight_colours


@dataclass(frozen=True, eq=False)
class Drawn:
    """A figure and its caption."""

    figure: Figure  # the drawing
    caption: str  # sentences that name the data and say what to look for


@dataclass(frozen=True)
class PaperFigure:
    """A figure of the paper, or one of our own."""

    label: str  # its LaTeX label in the paper, which is also the name of its file
    subject: str  # "method", or one of `reproduction.plan.SUBJECTS`
    title: str  # what stands above it in the report
    draw: Callable[[Studies], Drawn]
    needs: tuple[StudyKey, ...] = ()  # the studies without which it cannot be drawn; it may show others beside them

    @classmethod
    def of_study(cls, label: str, title: str, key: StudyKey, draw: Callable[[Study], Drawn]) -> "PaperFigure":
        """A figure of one study, or of the reduced one in its place."""

        def drawn(studies: Studies) -> Drawn:
            if key in studies or _reduced(key) not in studies:
                return draw(studies[key])
            figure = draw(studies[_reduced(key)])
            return replace(figure, caption=f"{figure.caption} From the reduced run: fewer seeds, weights and epochs.")

        return cls(label, key.task, title, drawn, (key,))

    def possible(self, studies: Studies) -> bool:
        """Whether all that it needs was evaluated."""
        return all(key in studies or _reduced(key) in studies for key in self.needs)


def _reduced(key: StudyKey) -> StudyKey:
    return replace(key, choice="reduced")


WIDTH = 6.75  # inches: two columns of a page
MARKERS = ("o", "s", "^", "D", "v", "P")
PARAMETERS = {"penalty": "λ", "false_alarm_ratio": "α", "short": "short"}
"""The paper's symbols of the costs' parameters."""
METRIC_LABELS = {
    "energy_score": "CRPS",
    "cost": "decision loss",
    "miscalibration": "miscalibration",
    "gap": "signed gap",
}
"""The paper's names of the metrics of a forecast of one site, and of our signed gap."""


def new_figure(rows: int = 1, columns: int = 1, height: float = 2.1, **options: Any) -> tuple[Figure, Any]:
    """A figure of the full width and its panels, always an array (rows, columns)."""
    figure = Figure(figsize=(WIDTH, height * rows))
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def parameter_colours(count: int) -> list[str]:
    """A colour for each cost parameter."""
    return [COLOURS[name] for name in ("blue", "orange", "green", "purple", "yellow", "sky")[:count]]


def nearest(wanted: Sequence[float], available: Sequence[float]) -> list[float]:
    """For each wanted value the nearest one that is there, each once."""
    places = np.abs(np.subtract.outer(wanted, available)).argmin(1)
    return list(dict.fromkeys(available[place] for place in places))


def unit_of(study: Study) -> str:
    """The unit of the outcomes as it is written."""
    return str(study.about["unit"]).replace("deg", "°")


def metric_label(study: Study, metric: str) -> str:
    """The name of a metric and its unit: a score has that of the outcome, all else that of the cost."""
    unit = unit_of(study) if metric == "energy_score" else "cost"
    return f"{METRIC_LABELS[metric]} ({unit or '–'})"


def drawn_density(values: NDArray[np.float64], grid: NDArray[np.float64], bandwidth: float) -> NDArray[np.float64]:
    """A density at the points of a grid; NaN, which is not drawn, for a run that failed."""
    return kernel_density(values, grid, bandwidth) if np.isfinite(values).any() else np.full(len(grid), np.nan)


def cost_curves(axes: Axes, cost: Cost, outcome: NDArray[np.float64]) -> None:
    """Draw c(a, y) against the outcome for five actions between the bounds."""
    actions = np.linspace(float(cost.lower), float(cost.upper), 5)
    for action, colour, dashes in zip(actions, weight_colours(actions), DASHES, strict=True):
        levels = torch.full((len(outcome), 1), action, dtype=torch.float64)
        paid = cost(levels, torch.from_numpy(outcome)[:, None])
        axes.plot(outcome, paid.numpy(), color=colour, linestyle=dashes, label=f"a = {action:g}")


def legend_below(figure: Figure, axes: Axes) -> None:
    """Draw one legend for all panels under them."""
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=6)


_IN_PER_CENT = ("energy_score", "miscalibration")
BANDS = "bands are ±1 standard deviation over seeds"
FILLED = "marks are filled where the paired 95 % interval of the difference to weight 0 leaves out zero"

WEIGHT_TICKS = (0.0, 0.3, 0.6, 0.9)
_BESIDE = 0.02  # of a decision weight, between the error bars of neighbouring lines
_THIN = 0.9


@dataclass(frozen=True, eq=False)
class Line:
    """One line of a panel: a study, what part of it, and how it is drawn."""

    study: Study  # where its numbers come from
    label: str  # what the legend calls it
    look: Mapping[str, Any]  # colour, marker and other settings of a matplotlib line
    parameter: float | None = None  # the cost parameter; None for the first of the study
    region: str | None = None  # the region whose cases are averaged; None for all cases
    by: RegionBy = "observed"  # whether a region's cases are chosen by the outcome or by the forecast

    def changes(self, metric: str, relative: bool = False) -> list[Difference]:
        """The change of a metric at every weight against weight 0, paired; a relative one is in per cent."""
        pairs = [self.study.pair(metric, weight, self.parameter, self.region, self.by) for weight in self.study.weights]
        return [(mean.relative_to(at_0) if relative else mean - at_0).interval() for mean, at_0 in pairs]


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
    by_seed = np.array([study.seed_means(metric, weight, parameter, region) for weight in study.weights])
    mean, deviation = defined_mean(by_seed, 1), defined_deviation(by_seed, 1)
    (drawn,) = axes.plot(study.weights, mean, marker=line.pop("marker", "o"), markerfacecolor="white", **line)
    band(axes, study.weights, mean - deviation, mean + deviation, drawn.get_color())
    pairs = (study.pair(metric, weight, parameter, region) for weight in study.weights)
    sure = [(mean_of_weight - at_0).interval().significant for mean_of_weight, at_0 in pairs]
    places = np.array(study.weights)[sure]
    axes.plot(places, mean[sure], linestyle="", marker=drawn.get_marker(), color=drawn.get_color())


def draw_levels(axes: Axes, metric: str, lines: Sequence[Line]) -> None:
    """Draw a metric by weight; lines of regions by forecast are thin and dashed, without a band."""
    for line in lines:
        if line.by == "observed":
            by_weight(axes, line.study, metric, line.parameter, line.region, label=line.label, **line.look)
            continue
        weights = line.study.weights
        by_seed = [line.study.seed_means(metric, weight, line.parameter, line.region, line.by) for weight in weights]
        axes.plot(weights, defined_mean(by_seed, 1), linestyle="--", linewidth=_THIN, color=line.look["color"])
    if metric == "gap":
        axes.axhline(0.0, color="black", linewidth=0.8)
    axes.set_xticks(WEIGHT_TICKS)


def draw_changes(axes: Axes, metric: str, lines: Sequence[Line], relative: bool = False) -> None:
    """Draw the change of a metric against weight 0 with paired 95 % intervals.

    Regions by forecast have no bars, and marks only where the interval leaves out zero.
    """
    axes.axhline(0.0, color="black", linewidth=0.8)
    drawn = [line for line in lines if line.by == "observed"]
    for place, line in enumerate(drawn):
        places = np.array(line.study.weights) + _BESIDE * (place - (len(drawn) - 1) / 2)
        error_bars(axes, places, line.changes(metric, relative), **line.look)
    for line in lines:
        if line.by == "forecast":
            changes = line.changes(metric, relative)
            means = [change.mean for change in changes]
            sure = [place for place, change in enumerate(changes) if change.significant]
            look = {**line.look, "linestyle": "--", "linewidth": _THIN, "markersize": 2.5}
            axes.plot(line.study.weights, means, markevery=sure, **look)
    axes.set_xticks(WEIGHT_TICKS)


def draw_change_panel(axes: Axes, metric: str, lines: Sequence[Line]) -> None:
    """The change of a metric against weight 0: in per cent where the metric itself is not near zero."""
    relative = metric in _IN_PER_CENT
    draw_changes(axes, metric, lines, relative)
    label = f"Δ {METRIC_LABELS[metric]} (%)" if relative else f"Δ {metric_label(lines[0].study, metric)}"
    axes.set(xlabel="decision weight (–)", ylabel=label)


def shared_legend(figure: Figure, lines: Sequence[Line], others: Sequence[Line2D] = (), columns: int = 6) -> None:
    """Draw one legend for all panels under them: the lines, then what else needs a word."""
    handles = [
        Line2D([], [], label=line.label, markerfacecolor="white", **line.look)
        for line in lines
        if line.by == "observed"
    ]
    dot: dict[str, Any] = {"linestyle": "", "marker": "o", "color": "black"}
    handles.append(Line2D([], [], label="filled: interval leaves out 0", **dot))
    if any(line.by == "forecast" for line in lines):
        handles.append(Line2D([], [], color="black", linestyle="--", linewidth=_THIN, label="region by forecast"))
    figure.legend(handles=[*handles, *others], loc="outside lower center", ncols=columns, handlelength=2.8)
