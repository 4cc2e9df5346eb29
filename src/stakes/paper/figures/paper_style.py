"""What the figures of the paper have in common: their width, names, symbols and colours."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from stakes.evaluation.study import Study
from stakes.method.costs import Cost
from stakes.paper.diagnostics import kernel_density
from stakes.reports.style import COLOURS, DASHES, weight_colours

__all__ = [
    "MARKERS",
    "METRIC_LABELS",
    "PARAMETERS",
    "WIDTH",
    "cost_curves",
    "drawn_density",
    "legend_below",
    "metric_label",
    "nearest",
    "new_figure",
    "parameter_colours",
    "unit_of",
]

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
    """A figure of the full width and its panels, always an array (rows, columns).

    Args:
        rows: How many rows of panels.
        columns: How many columns of panels.
        height: Inches per row.
        options: Further arguments of matplotlib's `Figure.subplots`.
    """
    figure = Figure(figsize=(WIDTH, height * rows))
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def parameter_colours(count: int) -> list[str]:
    """A colour for each cost parameter.

    Args:
        count: How many there are, at most six.
    """
    return [COLOURS[name] for name in ("blue", "orange", "green", "purple", "yellow", "sky")[:count]]


def nearest(wanted: Sequence[float], available: Sequence[float]) -> list[float]:
    """For each wanted value the nearest one that is there, each once.

    Args:
        wanted: The paper's values.
        available: Those of the study.
    """
    places = np.abs(np.subtract.outer(wanted, available)).argmin(1)
    return list(dict.fromkeys(available[place] for place in places))


def unit_of(study: Study) -> str:
    """The unit of the outcomes as it is written.

    Args:
        study: A study that says its unit.
    """
    return str(study.about["unit"]).replace("deg", "°")


def metric_label(study: Study, metric: str) -> str:
    """The name of a metric and its unit: a score has that of the outcome, all else that of the cost.

    Args:
        study: A study that says the unit of its outcomes.
        metric: A key of `METRIC_LABELS`.
    """
    unit = unit_of(study) if metric == "energy_score" else "cost"
    return f"{METRIC_LABELS[metric]} ({unit or '–'})"


def drawn_density(values: NDArray[np.float64], grid: NDArray[np.float64], bandwidth: float) -> NDArray[np.float64]:
    """A density at the points of a grid; NaN, which is not drawn, for a run that failed.

    Args:
        values: What the density is of, of any shape.
        grid: Where it is evaluated, (G,).
        bandwidth: The standard deviation of the kernel, in the unit of the values.
    """
    return kernel_density(values, grid, bandwidth) if np.isfinite(values).any() else np.full(len(grid), np.nan)


def cost_curves(axes: Axes, cost: Cost, outcome: NDArray[np.float64]) -> None:
    """Draw c(a, y) against the outcome for five actions between the bounds.

    Args:
        axes: The panel.
        cost: A cost of one action and one outcome.
        outcome: Where it is evaluated, (G,).
    """
    actions = np.linspace(float(cost.lower), float(cost.upper), 5)
    for action, colour, dashes in zip(actions, weight_colours(actions), DASHES, strict=True):
        levels = torch.full((len(outcome), 1), action, dtype=torch.float64)
        paid = cost(levels, torch.from_numpy(outcome)[:, None])
        axes.plot(outcome, paid.numpy(), color=colour, linestyle=dashes, label=f"a = {action:g}")


def legend_below(figure: Figure, axes: Axes) -> None:
    """Draw one legend for all panels under them.

    Args:
        figure: The figure of the panels.
        axes: The panel that has all labelled lines.
    """
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=6)
