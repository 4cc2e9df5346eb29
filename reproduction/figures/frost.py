"""The figures of frost protection: aggregate metrics, and where the forecasts change around the freezing point."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, MultipleLocator
from numpy.typing import NDArray

from reproduction.diagnostics import conditional_density, kernel_density, quantile_shift, window_centres
from reproduction.figures.paper_figure import (
    BANDS,
    FILLED,
    MARKERS,
    METRIC_LABELS,
    Drawn,
    Line,
    PaperFigure,
    cost_curves,
    draw_levels,
    drawn_density,
    legend_below,
    metric_label,
    nearest,
    new_figure,
    parameter_colours,
    shared_legend,
    unit_of,
)
from reproduction.study import RegionBy, Study, defined_deviation, defined_mean
from reproduction.study_collection import Studies, StudyKey
from reproduction.tasks.frost import FrostTask
from stakes.actions.solve import optimal_action
from stakes.plots import COLOURS, DASHES, band

Floats = NDArray[np.float64]
Place = tuple[float, float]  # a decision weight and an alpha

_IMPLICIT, _DIFFUSION = StudyKey("frost", "implicit"), StudyKey("frost", "diffusion")
_MODELS = {"implicit": "implicit generative model", "diffusion": "distributional diffusion model"}
_RECORDS = {
    "frost_merra2": "MERRA-2 at La Haute Borne, 9 channels x 3 lags, in place of the paper's 3 x 3 patch around Berlin",
    "frost_era5": "ERA5 at La Haute Borne, 4 channels x 3 lags, in place of the paper's 3 x 3 patch around Berlin",
}
_HALF_WIDTH = 1.0  # °C, the paper's windows
_BANDWIDTH = 0.6  # °C, the same for forecasts and observations
_DILEMMA = "cases are chosen by what was observed, which favours forecasts that exaggerate (the forecaster's dilemma)"


def _cost_function(studies: Studies) -> Drawn:
    """The task's own cost, and what it makes of a forecast."""
    drawing, grid = new_figure(1, 2, height=2.5)
    left, right = grid[0]
    temperature = np.linspace(-6.0, 6.0, 241)
    cost_curves(left, FrostTask(false_alarm_ratio=0.5).cost, temperature)
    left.set(xlabel="observed temperature (°C)", ylabel="cost c(a, y) (–)")
    left.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, handlelength=2.2)
    members = torch.from_numpy(temperature)[:, None, None] + 2.0 * _normal_members()
    alphas = (0.2, 0.3, 0.5)
    for alpha, colour, dashes in zip(alphas, parameter_colours(3), DASHES, strict=False):
        action = optimal_action(FrostTask(false_alarm_ratio=alpha).cost, members)
        right.plot(temperature, action, color=colour, linestyle=dashes, label=f"α = {alpha:g}")
    right.set(xlabel="mean of the forecast (°C)", ylabel="best action a* (–)")
    right.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
    for axes in grid[0]:
        axes.axvline(0.0, color="black", linestyle=":", linewidth=0.8)
    return Drawn(
        drawing,
        "Left: the frost protection cost c(a, y) for α = 0.5 and five protection levels a, our reconstruction of a "
        "cost that the paper does not print; the threshold 0 °C is dotted and an unprotected frost costs 1. Right, "
        "ours: the level that is best for a normal forecast with a standard deviation of 2 °C, for the three α.",
    )


def _kde(study: Study) -> Drawn:
    """The baseline, and weight 0.3 for every alpha."""
    weight = _weights(study, [0.3])[0]
    places = [(0.0, study.parameters[0]), *((weight, alpha) for alpha in nearest([0.2, 0.3, 0.5], study.parameters))]
    drawing, grid = new_figure(1, len(places), height=2.35, sharex=True, sharey=True)
    _conditional_densities(drawing, grid[0], study, places)
    return Drawn(
        drawing,
        f"{_conditional_caption(study)}; left the shared baseline, then weight {weight:g} for each α. The "
        f"orange line is the median of the density. To look for: on which side of the diagonal the forecasts lie below "
        f"0 °C; {_DILEMMA}.",
    )


def _marginal(study: Study) -> Drawn:
    """Predicted and observed temperatures, alpha = 0.5."""
    (alpha,) = nearest([0.5], study.parameters)
    weights = _weights(study, [0.0, 0.3, 0.5, 0.9])
    drawing, grid = new_figure(1, len(weights), height=2.3, sharex=True, sharey=True)
    outcome = study.case_values("outcome")
    temperature = np.linspace(outcome.min() - 4, outcome.max() + 4, 241)
    observed = kernel_density(outcome, temperature, _BANDWIDTH)
    for axes, weight in zip(grid[0], weights, strict=True):
        by_seed = study.values("quantile", weight, alpha)[0]
        densities = np.stack([drawn_density(each, temperature, _BANDWIDTH) for each in by_seed])
        mean, deviation = defined_mean(densities, 0), defined_deviation(densities, 0)
        axes.fill_between(temperature, observed, color="#CCCCCC", linewidth=0, label="observed")
        axes.plot(temperature, mean, color=COLOURS["blue"], label="forecasts")
        band(axes, temperature, mean - deviation, mean + deviation, COLOURS["blue"])
        axes.axvline(0.0, color="black", linestyle=":", linewidth=0.8)
        axes.xaxis.set_major_locator(MultipleLocator(10))
        axes.set(xlabel=f"temperature ({unit_of(study)})", title=f"weight {weight:g}")
    grid[0, 0].set_ylabel(f"density (1/{unit_of(study)})")
    legend_below(drawing, grid[0, 0])
    return Drawn(
        drawing,
        f"The marginal of the 2 m temperature, observed (grey) and as forecast (line; 25 equally likely quantiles of "
        f"every test case stand for its members), at α = {alpha:g}; {_of(study)}; {BANDS}. "
        "Both densities have the same bandwidth. To look for: the mass on either side of 0 °C (dotted).",
    )


def _conditional(study: Study) -> Drawn:
    """Rows are what was observed, columns metrics."""
    metrics = [metric for metric in METRIC_LABELS if metric != "gap"]
    drawing, grid = new_figure(2, len(metrics), height=2.1)
    lines: list[Line] = []
    for row, region in zip(grid, ("frost", "no frost"), strict=True):
        lines = [*_by_alpha(study, region), *_by_alpha(study, region, "forecast")]
        for axes, metric in zip(row, metrics, strict=True):
            _draw_by_weight(axes, metric, lines)
        row[0].set_title(f"{region} observed", loc="left")
    shared_legend(drawing, lines)
    return Drawn(
        drawing,
        "Mean CRPS, decision loss and miscalibration over the cases with observed frost (top) and without (bottom; the "
        "scales of the rows differ), against the decision weight; "
        f"{_of(study)}; {BANDS}, and {FILLED}. {_DILEMMA[0].upper()}{_DILEMMA[1:]}, so "
        "dashed lines show as many cases chosen by the probability of frost or of none, the mean of all forecasts of "
        "the study.",
    )


def _rolling_dq(study: Study) -> Drawn:
    """The shift of three quantiles against weight 0, alpha = 0.3."""
    (alpha,) = nearest([0.3], study.parameters)
    weights = _weights(study, [0.1, 0.2, 0.3])
    drawing, grid = new_figure(1, len(weights), height=2.5, sharex=True, sharey=True)
    centres = window_centres(study.case_values("outcome"), _HALF_WIDTH, count=24)
    lines = list(zip((0.3, 0.5, 0.7), ("blue", "black", "orange"), ("s", "o", "^"), DASHES, strict=False))
    reach = 0.0
    for axes, weight in zip(grid[0], weights, strict=True):
        for level, name, marker, dashes in lines:
            curve = quantile_shift(study, level, weight, _HALF_WIDTH, alpha, centres)
            sure = (curve.low > 0) | (curve.high < 0)
            look: dict[str, Any] = {"color": COLOURS[name], "markersize": 3}
            axes.plot(centres, curve.mean, linestyle=dashes, **look)
            axes.plot(centres[sure], curve.mean[sure], linestyle="", marker=marker, **look)
            axes.plot([], [], linestyle=dashes, marker=marker, label=f"quantile {level:g}", **look)
            reach = max(reach, 1.6 * float(np.nanmax(np.abs(curve.mean))))
            if level == 0.5:
                band(axes, centres, curve.low, curve.high, COLOURS[name])
        axes.set_ylim(-reach, reach)
        axes.axhline(0.0, color="black", linewidth=0.6)
        axes.axvline(0.0, color="black", linestyle=":", linewidth=0.8)
        axes.set(xlabel=f"observed ({unit_of(study)})", title=f"weight {weight:g}")
    grid[0, 0].set_ylabel(f"shift against weight 0 ({unit_of(study)})")
    legend_below(drawing, grid[0, 0])
    return Drawn(
        drawing,
        f"How far the quantiles 0.3, 0.5 and 0.7 of the forecasts move against weight 0, in windows of ±1 °C of the "
        f"observed temperature, at α = {alpha:g}; {_of(study)}. The band is the paired 95 % "
        "interval of the median's shift, cut off where it is wide; marks stand where an interval leaves out zero. To "
        f"look for: which quantile moves most on either side of the threshold (dotted); {_DILEMMA}.",
    )


def _overview(study: Study) -> Drawn:
    """Four metrics by weight, then the conditional density at weight 0 and 0.3, alpha = 0.3."""
    drawing, grid = new_figure(2, 4, height=2.3)
    for axes, metric in zip(grid[0], METRIC_LABELS, strict=True):
        _draw_by_weight(axes, metric, _by_alpha(study))
    (alpha,) = nearest([0.3], study.parameters)
    weights = nearest([0.0, 0.3], study.weights)
    specification = grid[1, 0].get_gridspec()
    for axes in grid[1]:
        axes.remove()
    first = drawing.add_subplot(specification[1, :2])
    panels = [first, drawing.add_subplot(specification[1, 2:], sharex=first, sharey=first)][: len(weights)]
    _conditional_densities(drawing, np.array(panels), study, [(weight, alpha) for weight in weights])
    legend_below(drawing, grid[0, 0])
    return Drawn(
        drawing,
        f"Top: mean CRPS, decision loss, miscalibration (mean |predicted − realised cost|, as in the paper) and, ours, "
        f"the signed gap predicted − realised cost by decision weight and α; {_of(study)}; {BANDS}, "
        f"and {FILLED}. Bottom: the density of the forecasts given the observed temperature in windows of ±1 °C at "
        f"α = {alpha:g}, the diagonal dashed, its median orange; {_DILEMMA}.",
    )


def _weights(study: Study, wanted: Sequence[float]) -> list[float]:
    """The nearest weights of the study; not 0 where 0 is not wanted."""
    return nearest(wanted, study.weights if 0.0 in wanted else study.weights[1:] or study.weights)


def _by_alpha(study: Study, region: str | None = None, by: RegionBy = "observed") -> list[Line]:
    looks = zip(study.parameters, parameter_colours(len(study.parameters)), MARKERS, strict=False)
    return [
        Line(study, f"α = {alpha:g}", {"color": colour, "marker": marker}, alpha, region, by)
        for alpha, colour, marker in looks
    ]


def _draw_by_weight(axes: Axes, metric: str, lines: Sequence[Line]) -> None:
    draw_levels(axes, metric, lines)
    axes.set(xlabel="decision weight (–)", ylabel=metric_label(lines[0].study, metric))


def _conditional_densities(drawing: Figure, panels: NDArray[np.object_], study: Study, places: Sequence[Place]) -> None:
    """One density a panel, all on one scale of colours."""
    outcome = study.case_values("outcome")
    temperature = np.linspace(outcome.min() - 4, outcome.max() + 4, 101)
    densities = [conditional_density(study, weight, _HALF_WIDTH, temperature, alpha) for weight, alpha in places]
    levels = MaxNLocator(10).tick_values(0.0, max(rows.max() for _, rows in densities))[1:]  # the lowest stays white
    for axes, (weight, alpha), (centres, rows) in zip(panels, places, densities, strict=True):
        mesh = axes.contourf(centres, temperature, rows.T, levels=levels, cmap="Blues")
        mesh.set_edgecolor("face")
        axes.plot(centres, _medians(temperature, rows), color=COLOURS["orange"])
        axes.axline((0, 0), slope=1, color="black", linestyle="--", linewidth=0.8)
        axes.axvline(0.0, color="black", linestyle=":", linewidth=0.8)
        axes.set(xlabel=f"observed ({unit_of(study)})", xlim=(centres[0], centres[-1]))
        axes.set_title(f"weight {weight:g}" + (f", α = {alpha:g}" if weight else ""))
        axes.grid(visible=False)
    panels[0].set_ylabel(f"forecast ({unit_of(study)})")
    scale = panels[-1].inset_axes((0.5, 0.05, 0.46, 0.04))
    ends = [levels[0], levels[-1]]
    drawing.colorbar(mesh, cax=scale, orientation="horizontal", ticklocation="top", ticks=ends, format="%g")
    scale.set_title(f"density (1/{unit_of(study)})", fontsize=7)
    for label, side in zip(scale.get_xticklabels(), ("left", "right"), strict=True):
        label.set_horizontalalignment(side)


def _medians(grid: Floats, rows: Floats) -> Floats:
    """The median of each density (C, len(grid))."""
    below = np.cumsum(rows, 1)
    return grid[(below < below[:, -1:] / 2).sum(1)]


def _conditional_caption(study: Study) -> str:
    return (
        "The density of the forecasts given the observed temperature (diagonal dashed), in rolling windows of ±1 °C; "
        f"{_of(study)}"
    )


def _of(study: Study) -> str:
    """Which data these are, where the study says so, and which model."""
    record = str(study.about["settings"].get("task", {}).get("record", "frost_merra2"))
    return f"{_RECORDS.get(record, f'data of {record}')}, {_MODELS[study.about['model']]}"


def _normal_members(count: int = 500) -> torch.Tensor:
    """Equally likely members (M, 1) of the standard normal distribution."""
    levels = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    return torch.special.ndtri(levels)[:, None]


FROST_FIGURES = (
    PaperFigure.of_study("frost_main", "Frost protection, implicit model", _IMPLICIT, _overview),
    PaperFigure("frost_cost_function", "frost", "The cost of frost protection", _cost_function),
    PaperFigure.of_study("frost_kde", "Forecasts given the observed temperature", _IMPLICIT, _kde),
    PaperFigure.of_study("frost_marginal", "Marginals of forecasts and observations", _IMPLICIT, _marginal),
    PaperFigure.of_study("frost_conditional", "Metrics with and without observed frost", _IMPLICIT, _conditional),
    PaperFigure.of_study("frost_rolling_dq", "How quantiles move with the weight", _IMPLICIT, _rolling_dq),
    PaperFigure.of_study("frost_diffusion_kde", "Frost protection, diffusion model", _DIFFUSION, _overview),
)
"""In the order of the paper."""
