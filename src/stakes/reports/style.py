"""How every figure looks: sizes for a column of a page, colours that everybody can tell apart, vector output."""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from stakes.evaluation.diagnostics import density
from stakes.evaluation.intervals import defined_deviation, defined_mean
from stakes.evaluation.study import Study
from stakes.method.costs import Cost

__all__ = [
    "COLOURS",
    "DASHES",
    "MARKERS",
    "METRICS",
    "PARAMETERS",
    "band",
    "by_weight",
    "cost_curves",
    "drawn_density",
    "legend_below",
    "metric_label",
    "nearest",
    "new_figure",
    "parameter_colours",
    "style",
    "to_svg",
    "unit_of",
    "weight_colours",
]

WIDTH = 6.75  # inches: two columns of a page
COLOURS = {  # Okabe and Ito (2008)
    "blue": "#0072B2",
    "orange": "#D55E00",
    "green": "#009E73",
    "yellow": "#E69F00",
    "sky": "#56B4E9",
    "purple": "#CC79A7",
    "black": "#000000",
    "grey": "#7F7F7F",
}
MARKERS = ("o", "s", "^", "D", "v", "P")
DASHES: Sequence[Any] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
PARAMETERS = {"penalty": "λ", "false_alarm_ratio": "α", "short": "short"}
"""The paper's symbols of the costs' parameters."""
METRICS = {
    "energy_score": "CRPS",
    "cost": "decision loss",
    "miscalibration": "miscalibration",
    "gap": "signed gap",
}
"""The paper's names of the metrics of a forecast of one site, and of our signed gap."""

_SETTINGS: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "legend.fontsize": 7,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.4,
    "lines.markersize": 4,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "stakes",
    "figure.constrained_layout.use": True,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Arial", "Helvetica", "sans-serif"],
}


@contextmanager
def style() -> Iterator[None]:
    """Draw inside this."""
    with mpl.rc_context(_SETTINGS):
        yield


def new_figure(rows: int = 1, columns: int = 1, height: float = 2.1, **options: Any) -> tuple[Figure, Any]:
    """A figure of the full width and its axes (rows, columns), always an array; height in inches a row."""
    figure = Figure(figsize=(WIDTH, height * rows))
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def to_svg(figure: Figure) -> str:
    """The figure as SVG text, the same every time."""
    text = io.StringIO()
    with style():
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None}, transparent=False)
    return text.getvalue()


def weight_colours(weights: Sequence[float] | NDArray[np.float64]) -> list[Any]:
    """A colour for each decision weight, dark for low ones, along a perceptually uniform map."""
    places = np.linspace(0.0, 0.85, max(2, len(weights)))
    return [mpl.colormaps["viridis"](place) for place in places[: len(weights)]]


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
    return f"{METRICS[metric]} ({unit or '–'})"


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


def band(axes: Axes, places: ArrayLike, low: ArrayLike, high: ArrayLike, colour: Any) -> None:
    """The space between two curves, faint."""
    axes.fill_between(places, low, high, color=colour, alpha=0.18, linewidth=0)


def drawn_density(values: NDArray[np.float64], grid: NDArray[np.float64], bandwidth: float) -> NDArray[np.float64]:
    """A density at the points of a grid; NaN, which is not drawn, for a run that failed."""
    return density(values, grid, bandwidth) if np.isfinite(values).any() else np.full(len(grid), np.nan)


def cost_curves(axes: Axes, cost: Cost, outcome: NDArray[np.float64]) -> None:
    """c(a, y) against the outcome for five actions between the bounds."""
    actions = np.linspace(float(cost.lower), float(cost.upper), 5)
    for action, colour, dashes in zip(actions, weight_colours(actions), DASHES, strict=True):
        levels = torch.full((len(outcome), 1), action, dtype=torch.float64)
        paid = cost(levels, torch.from_numpy(outcome)[:, None])
        axes.plot(outcome, paid.numpy(), color=colour, linestyle=dashes, label=f"a = {action:g}")


def legend_below(figure: Figure, axes: Axes) -> None:
    """One legend for all panels, under them."""
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=6)
