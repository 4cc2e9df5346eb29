"""The figures of wind power dispatch, for both models."""

from collections.abc import Sequence
from itertools import product
from typing import Any, get_args

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from reproduction.calibration import calibration_sides
from reproduction.diagnostics import quantile_shift, window_centres
from reproduction.figures.paper_figure import (
    BANDS,
    MARKERS,
    METRIC_LABELS,
    Drawn,
    Line,
    PaperFigure,
    draw_change_panel,
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
from reproduction.tasks.wind import WindTask
from stakes.costs.scalar_costs import ShortfallCost
from stakes.plots import COLOURS, band, error_bars, weight_colours

_IMPLICIT, _DIFFUSION = StudyKey("wind", "implicit"), StudyKey("wind", "diffusion")
_MODELS = {"implicit": "implicit generative model", "diffusion": "distributional diffusion model"}
_RECORDS = {
    "wind_north_sea": (
        "reanalysis at 58.0 N 1.5 W in the northern North Sea, in place of the paper's ERA5 point off Norway"
    ),
    "wind_nora10": "NORA10 hindcast at an offshore point of Norway, in place of the paper's ERA5 point off Norway",
}
_REGIONS = {"cut-off": ("orange", "o"), "rated": ("blue", "s"), "ramp": ("green", "^")}
_HALF_WIDTH = 1.5  # m/s, the paper's windows
_WEIGHT = "decision weight (–)"
_BARS = "bars are paired 95 % intervals, and marks filled where one leaves out zero"
_DILEMMA = (
    "cases are chosen by what was observed, which rewards forecasts that exaggerate (the forecaster's dilemma), so "
    "dashed lines show as many cases chosen by the probability of the region, the mean of all forecasts of the study, "
    "and dots on them differences whose interval leaves out zero"
)


def _setup(studies: Studies) -> Drawn:
    """The task's own power curve and cost."""
    task = WindTask(penalty=5.0)
    drawing, ((left, right),) = new_figure(1, 2, height=2.5)
    speed = torch.linspace(0.0, 28.0, 281, dtype=torch.float64)
    left.plot(speed, task.power_curve(speed / task.power_curve.hub_factor), color="black")
    for (name, (colour, _)), low, high in zip(_REGIONS.items(), (20, 15, 3), (28, 20, 15), strict=True):
        left.axvspan(low, high, color=COLOURS[colour], alpha=0.15, linewidth=0)
        left.text((low + high) / 2, 1.03, name, ha="center", fontsize=7)
    left.set(xlabel="wind speed at hub height (m/s)", ylabel="power P (of capacity)", xlim=(0, 28))
    left.set_ylim(0, 1.12)
    power = torch.linspace(0.0, 1.0, 201, dtype=torch.float64)
    paid = ShortfallCost(task.penalty)(power[:, None, None], power[:, None])  # rows a, columns P
    levels = np.arange(-1.0, 4.01, 0.25)
    mesh = right.contourf(power, power, paid, levels=levels, cmap="viridis")
    mesh.set_edgecolor("face")
    lines = right.contour(power, power, paid, levels=[-0.75, -0.5, -0.25, 0, 1, 2], colors="white", linewidths=0.6)
    lines.set_linestyle("-")
    right.clabel(lines, fontsize=6.5, fmt="%g")
    right.plot([0, 1], [0, 1], color="white", linestyle="--")
    right.set(xlabel="observed power P(y) (of capacity)", ylabel="committed power a (of capacity)")
    right.grid(visible=False)
    drawing.colorbar(mesh, ax=right, label="cost c(a, y) (–)", ticks=range(-1, 5))
    return Drawn(
        drawing,
        "Left: the power curve that takes the wind speed at hub height to power, with the regions by which results are "
        "shown (ramp 3–15, rated 15–20, cut-off from 20 m/s on). Right: the dispatch cost c(a, y) = −a + λ relu(a − "
        "P(y))² for λ = 5; below the dashed line a = P(y) nothing is missing and the cost is −a. A cost of −1 is the "
        "revenue of full capacity.",
    )


def _aggregate(study: Study) -> Drawn:
    """All cases, by lambda."""
    drawing, lines = _four_changes(_by_penalty(study))
    shared_legend(drawing, lines)
    return Drawn(
        drawing,
        f"The change of four metrics of all test cases against weight 0, by decision weight and λ; {_of(study)}; "
        f"{_BARS}. To look for: {_MEASURES}.",
    )


def _regional(study: Study) -> Drawn:
    """A column a lambda, each with its own scale."""
    penalties = nearest([3.0, 5.0, 10.0], study.parameters)
    drawing, grid = new_figure(2, len(penalties), height=2.2)
    lines: list[Line] = []
    for column, penalty in zip(grid.T, penalties, strict=True):
        lines = _by_region(study, penalty)
        for axes, metric in zip(column, ("energy_score", "cost"), strict=True):
            draw_change_panel(axes, metric, lines)
        column[0].set_title(f"λ = {penalty:g}", loc="left", fontweight="bold")
    shared_legend(drawing, lines)
    return Drawn(
        drawing,
        "The change of CRPS (top, in per cent) and cost (bottom) against weight 0 by region of the power curve and "
        f"decision weight, a column for each λ with its own scale; {_of(study)}; {_BARS}. {_sentence(_DILEMMA)}.",
    )


_MEASURES = (
    "whether the miscalibration, mean |predicted − realised cost| as in the paper, and the signed gap, whose mean is "
    "zero for a perfect forecaster, move the same way"
)


def _trade_off(study: Study, wanted: Sequence[float]) -> Drawn:
    """CRPS against cost, and the changes by region: four panels for one lambda, a row of three for each of two."""
    penalties = nearest(wanted, study.parameters)
    single = len(penalties) == 1
    drawing, grid = new_figure(2, 2 if single else 3, height=2.3)
    rows = [grid.reshape(-1)] if single else list(grid)
    lines: list[Line] = []
    for panels, penalty in zip(rows, penalties, strict=False):
        lines = _by_region(study, penalty)
        _scatter(panels[0], study, penalty)
        for axes, metric in zip(panels[1:], ("energy_score", "cost", "miscalibration"), strict=False):
            draw_change_panel(axes, metric, lines)
        panels[0].set_title(f"λ = {penalty:g}", loc="left", fontweight="bold")
    weights = study.weights
    dots = [
        Line2D([], [], linestyle="", marker="o", color=colour, label=f"weight {weight:g}")
        for weight, colour in zip(weights, weight_colours(weights), strict=True)
    ]
    shared_legend(drawing, lines, dots, columns=5)
    penalty_names = " and ".join(f"{penalty:g}" for penalty in penalties)
    return Drawn(
        drawing,
        f"Wind power dispatch at λ = {penalty_names}; {_of(study)}. First: mean CRPS against mean cost of every weight "
        "and seed, means joined. Then the change of CRPS, cost and, at one λ, miscalibration against weight 0 by "
        f"region of the power curve; {_BARS}. {_sentence(_DILEMMA)}.",
    )


def _cut_off(study: Study) -> Drawn:
    drawing, lines = _four_changes(_by_penalty(study, "cut-off"))
    shared_legend(drawing, lines)
    return Drawn(
        drawing,
        "The change of four metrics in the cut-off region (from 20 m/s at hub height on) against weight 0, by decision "
        f"weight and λ; {_of(study)}; {_BARS}. To look for: {_MEASURES}. {_sentence(_DILEMMA)}.",
    )


def _four_changes(lines: list[Line]) -> tuple[Figure, list[Line]]:
    drawing, grid = new_figure(2, 2, height=2.1)
    for axes, metric in zip(grid.flat, METRIC_LABELS, strict=True):
        draw_change_panel(axes, metric, lines)
    return drawing, lines


def _median_shift(study: Study) -> Drawn:
    """Delta Q_0.5 in windows of the observed speed, and the slope of the power curve underneath."""
    penalties, weights = nearest([3.0, 5.0, 10.0], study.parameters), study.weights[1:]
    options: dict[str, Any] = {"sharex": True, "sharey": "row", "height_ratios": (3, 1)}
    drawing, grid = new_figure(2, len(penalties), height=1.7, **options)
    curve = _task(study).power_curve
    centres = window_centres(study.case_values("outcome"), _HALF_WIDTH, count=30)
    speed = torch.linspace(float(centres[0]), float(centres[-1]), 200, dtype=torch.float64)
    looks = list(zip(weights, weight_colours(weights), MARKERS, strict=False))
    for (above, below), penalty in zip(grid.T, penalties, strict=True):
        for weight, colour, marker in looks:
            shift = quantile_shift(study, 0.5, weight, _HALF_WIDTH, penalty, centres)
            sure = (shift.low > 0) | (shift.high < 0)
            above.plot(centres, shift.mean, color=colour)
            above.plot(centres[sure], shift.mean[sure], linestyle="", marker=marker, markersize=3, color=colour)
            above.plot([], [], marker=marker, markersize=3, color=colour, label=f"weight {weight:g}")
            band(above, centres, shift.mean - shift.deviation, shift.mean + shift.deviation, colour)
        above.set_title(f"λ = {penalty:g}")
        below.plot(speed, np.gradient(curve(speed).numpy(), speed.numpy()), color="black", linewidth=1)
        below.set_xlabel(f"observed wind speed ({unit_of(study)})")
        for panel in (above, below):
            panel.axhline(0.0, color="black", linewidth=0.8)
            for border in (15.0, 20.0):
                panel.axvline(border / curve.hub_factor, color="black", linestyle=":", linewidth=0.8)
    grid[0, 0].set_ylabel(f"median shift ΔQ₀.₅ ({unit_of(study)})")
    grid[1, 0].set_ylabel("slope dP/dy\n(1/(m/s))")
    legend_below(drawing, grid[0, 0])
    return Drawn(
        drawing,
        f"Top: how far the median of the forecasts moves against weight 0 in windows of ±{_HALF_WIDTH:g} m/s of the "
        f"observed wind speed at 10 m, for each λ; {_of(study)}; {BANDS}, and marks stand where the paired 95 % "
        "interval leaves out zero. Bottom: the slope of the power curve; dotted lines are the borders of the rated and "
        "the cut-off region (15 and 20 m/s at hub height). To look for: whether the shift follows the slope and its "
        "sign; windows go by what was observed, which rewards forecasts that exaggerate (the forecaster's dilemma).",
    )


def _both_sides(study: Study) -> Drawn:
    """Predicted and realised cost as bars, how each changes, and the gap between them, for lambda = 3 and 10."""
    penalties, weights = nearest([3.0, 10.0], study.parameters), study.weights
    drawing, grid = new_figure(3, len(penalties), height=1.6, sharex=True, sharey="row")
    looks = {"realised": ("cost", "blue", "s", ""), "predicted": ("expected_cost", "yellow", "o", "///")}
    places = np.arange(len(weights))
    for panel in grid.flat:
        panel.set_axisbelow(True)
    for (bars, changes, gaps), penalty in zip(grid.T, penalties, strict=True):
        for side, (name, (metric, colour, marker, hatch)) in zip((-0.2, 0.2), looks.items(), strict=True):
            by_seed = np.array([study.seed_means(metric, weight, penalty) for weight in weights])
            bars.bar(
                places + side,
                defined_mean(by_seed, 1),
                0.38,
                yerr=defined_deviation(by_seed, 1),
                label=f"{name} cost",
                color=COLOURS[colour],
                hatch=hatch,
                edgecolor="white",
                error_kw={"linewidth": 1},
            )
            line = Line(study, name, {}, penalty)
            error_bars(changes, places + side / 3, line.changes(metric), color=COLOURS[colour], marker=marker)
        gap = [calibration_sides(study, weight, penalty).gap.interval() for weight in weights]
        error_bars(gaps, places, gap, color="black", marker="D")
        bars.set_title(f"λ = {penalty:g}")
        for panel in (bars, changes, gaps):
            panel.axhline(0.0, color="black", linewidth=0.8)
        gaps.set(xlabel=_WEIGHT, xticks=places, xticklabels=[f"{weight:g}" for weight in weights])
    for panel, label in zip(grid[:, 0], ("cost (–)", "change against\nweight 0 (–)", "signed gap (–)"), strict=True):
        panel.set_ylabel(label)
    legend_below(drawing, grid[0, 0])
    return Drawn(
        drawing,
        f"Both sides of decision calibration over all test cases, by decision weight and λ; {_of(study)}. Top: mean "
        "realised cost and mean cost predicted by the forecast itself, error bars ±1 standard deviation over seeds. "
        "Middle: how each changes against weight 0; bottom: the signed gap, predicted − realised; bars are (paired) "
        "95 % intervals and marks filled where one leaves out zero. To look for: whether the gap closes, and from "
        "which side.",
    )


def _scatter(axes: Axes, study: Study, penalty: float) -> None:
    """CRPS against cost: one dot per weight and seed, the means of the weights joined."""
    means = []
    for weight, colour in zip(study.weights, weight_colours(study.weights), strict=True):
        score, cost = (study.seed_means(metric, weight, penalty) for metric in ("energy_score", "cost"))
        axes.scatter(score, cost, s=9, color=colour, zorder=3, linewidth=0)
        means.append((defined_mean(score), defined_mean(cost)))
    axes.plot(*zip(*means, strict=True), color=COLOURS["grey"], linewidth=1)
    axes.set(xlabel=metric_label(study, "energy_score"), ylabel=metric_label(study, "cost"))


def _by_region(study: Study, penalty: float) -> list[Line]:
    return [
        Line(study, name, {"color": COLOURS[colour], "marker": marker}, penalty, name, by)
        for (name, (colour, marker)), by in product(_REGIONS.items(), get_args(RegionBy))
    ]


def _by_penalty(study: Study, region: str | None = None) -> list[Line]:
    looks = zip(study.parameters, parameter_colours(len(study.parameters)), MARKERS, strict=False)
    return [
        Line(study, f"λ = {penalty:g}", {"color": colour, "marker": marker}, penalty, region, by)
        for (penalty, colour, marker), by in product(looks, get_args(RegionBy) if region else ("observed",))
    ]


def _task(study: Study) -> WindTask:
    """The task that the study was trained on, as far as it says so."""
    settings = study.about["settings"].get("task", {})
    return WindTask(**{name: value for name, value in settings.items() if name != "name"})


def _of(study: Study) -> str:
    """Which data and model."""
    record = _task(study).record
    return f"{_RECORDS.get(record, f'data of {record}')}, {_MODELS[study.about['model']]}"


def _sentence(clause: str) -> str:
    return clause[0].upper() + clause[1:]


WIND_FIGURES = (
    PaperFigure.of_study(
        "windpower_main", "Wind power dispatch, implicit model", _IMPLICIT, lambda study: _trade_off(study, [5.0])
    ),
    PaperFigure("windpower_setup", "wind", "The power curve and the cost of dispatch", _setup),
    PaperFigure.of_study(
        "windpower_scatter_plus_regional",
        "Trade-off and regions at other penalties",
        _IMPLICIT,
        lambda study: _trade_off(study, [3.0, 10.0]),
    ),
    PaperFigure.of_study(
        "windpower_cutoff_implicit", "The cut-off region by penalty, implicit model", _IMPLICIT, _cut_off
    ),
    PaperFigure.of_study(
        "windpower_rolling_q_implicit", "How the median moves, implicit model", _IMPLICIT, _median_shift
    ),
    PaperFigure.of_study(
        "windpower_cal_decomp_implicit", "Predicted and realised cost, implicit model", _IMPLICIT, _both_sides
    ),
    PaperFigure.of_study(
        "windpower_aggregate_diffusion", "Wind power dispatch, diffusion model", _DIFFUSION, _aggregate
    ),
    PaperFigure.of_study(
        "windpower_regional_lam3_diffusion", "Regions by penalty, diffusion model", _DIFFUSION, _regional
    ),
    PaperFigure.of_study(
        "windpower_cutoff_diffusion", "The cut-off region by penalty, diffusion model", _DIFFUSION, _cut_off
    ),
    PaperFigure.of_study(
        "windpower_rolling_q_diffusion", "How the median moves, diffusion model", _DIFFUSION, _median_shift
    ),
    PaperFigure.of_study(
        "windpower_cal_decomp_diffusion", "Predicted and realised cost, diffusion model", _DIFFUSION, _both_sides
    ),
)
"""In the order of the paper."""
