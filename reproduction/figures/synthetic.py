"""The figures of the synthetic task, whose true distribution is known."""

import numpy as np
import torch
from matplotlib.axes import Axes
from numpy.typing import NDArray

from reproduction.diagnostics import binned_mass, kernel_density
from reproduction.figures.paper_figure import (
    BANDS,
    FILLED,
    METRIC_LABELS,
    Drawn,
    Line,
    PaperFigure,
    by_weight,
    cost_curves,
    draw_levels,
    drawn_density,
    legend_below,
    metric_label,
    nearest,
    new_figure,
)
from reproduction.study import Study, defined_deviation, defined_mean
from reproduction.study_collection import Studies, StudyKey
from reproduction.tasks.synthetic import SyntheticTask
from stakes.evaluation.intervals import paired_difference
from stakes.evaluation.metrics import LEVELS
from stakes.plots import COLOURS, DASHES, band, weight_colours

Floats = NDArray[np.float64]

_DIFFUSION = StudyKey("synthetic", "diffusion")
_TASK = SyntheticTask()
_THRESHOLD = 1.0
_FEATURES = np.linspace(0.0, 1.0, 201)
_OUTCOMES = np.linspace(-1.0, 4.0, 251)
_BANDWIDTH = 0.1  # half the narrower mode's deviation


def _overview(study: Study) -> Drawn:
    """The cost over the marginal, a*(x) at weight 0 and 0.95, the mass of the second mode."""
    drawing, grid = new_figure(2, 2, height=2.35)
    _cost_and_marginal(grid[0, 0])
    _mode_mass(grid[0, 1], study)
    shown = nearest([0.0, 0.95], study.weights)
    for axes, weight in zip(grid[1], shown, strict=False):
        _actions(axes, study, weight, group=0)
        axes.set_title(f"decision weight {weight:g}", loc="left")
        axes.set(xlabel="feature x (–)", ylabel="action a*(x) (–)")
    for axes in grid[1, len(shown) :]:
        axes.set_visible(False)
    legend_below(drawing, grid[1, 0])
    return Drawn(
        drawing,
        "The synthetic task with the distributional diffusion model. Top: the cost c(a, y) of five protection levels "
        "over the true marginal density (grey), the threshold at y = 1 dotted; and the forecasts' mass beyond the "
        "threshold, the second mode, against the true 0.4 (dashed), pooled over training and data seeds. Bottom: the "
        "forecasts' a*(x) on the test cases of the first data seed against the true one, without and with decision "
        f"loss; the number is the mean distance |a* − true a*|. In the panels of forecasts {BANDS}, and {FILLED}.",
    )


def _setup(studies: Studies) -> Drawn:
    """p(y | x) above a*(x), from the task itself."""
    drawing, grid = new_figure(2, 1, height=1.75, sharex=True)
    top, bottom = grid[:, 0]
    mesh = top.contourf(
        _FEATURES, _OUTCOMES, _true_density(_FEATURES).T, levels=np.linspace(0.2, 2, 10), cmap="Blues", extend="max"
    )
    mesh.set_edgecolor("face")
    top.axhline(_THRESHOLD, color="black", linestyle=":")
    top.text(0.01, _THRESHOLD + 0.08, "threshold", fontsize=7)
    top.set(ylabel="outcome y (–)", title="true density p(y | x)")
    top.grid(visible=False)
    drawing.colorbar(mesh, ax=top, label="density (–)", ticks=[0.2, 1, 2])
    features = torch.from_numpy(_FEATURES)[:, None]
    weight = _TASK.mode_weight(features)
    bottom.plot(_FEATURES, _TASK.true_action(features), color="black", label="best action a*(x)")
    bottom.plot(_FEATURES, weight, color=COLOURS["orange"], linestyle="--", label="mode weight w(x)")
    bottom.set(xlabel="feature x (–)", ylabel="action, weight (–)", ylim=(-0.05, 1.05), xlim=(0, 1))
    bottom.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2)
    return Drawn(
        drawing,
        "Top: the true conditional density of the synthetic task, two normal modes whose places are fixed and whose "
        "weight swings with x (w(x) = 0.4 + 0.38 sin(6πx), our reconstruction: the paper does not print it). Bottom: "
        "the action that is best under the true distribution, beside the weight of the second mode, on which alone it "
        "depends; it is 0, on the bound, where the hazard is unlikely.",
    )


def _aggregate(study: Study) -> Drawn:
    """Four metrics against the weight."""
    line = Line(study, "diffusion", {"color": COLOURS["blue"], "marker": "o"})
    drawing, grid = new_figure(2, 2, height=1.95, sharex=True)
    for axes, metric in zip(grid.flat, METRIC_LABELS, strict=True):
        draw_levels(axes, metric, [line])
        axes.set_ylabel(metric_label(study, metric))
    for axes in grid[1]:
        axes.set_xlabel("decision weight (–)")
    return Drawn(
        drawing,
        "Mean CRPS, decision loss, miscalibration (mean |predicted − realised cost|, as in the paper) and, ours, the "
        "signed gap predicted − realised cost, which is zero for a calibrated forecast; synthetic task, diffusion "
        f"model with the paper's settings, pooled over training and data seeds; {BANDS}, and {FILLED}.",
    )


def _marginals(study: Study) -> Drawn:
    """Rows are weights, columns training seeds."""
    weights = nearest([0.0, 0.95], study.weights)
    drawing, grid = new_figure(len(weights), study.seeds, height=1.45, sharex=True, sharey=True)
    truth = kernel_density(_true_quantiles(study.case_values("feature")[0]), _OUTCOMES, _BANDWIDTH)
    for row, weight in zip(grid, weights, strict=True):
        quantiles = study.values("quantile", weight)[0]  # (seeds, cases, levels)
        mass = defined_mean(study.values("mass_hazard", weight)[0], -1)
        for seed, axes in enumerate(row):
            axes.fill_between(_OUTCOMES, truth, color="#CCCCCC", linewidth=0, label="truth")
            forecasts = drawn_density(quantiles[seed], _OUTCOMES, _BANDWIDTH)
            axes.plot(_OUTCOMES, forecasts, color=COLOURS["blue"], label="forecasts")
            axes.axvline(_THRESHOLD, color="black", linestyle=":", linewidth=0.8)
            title = f"second mode {mass[seed]:.2f}" if np.isfinite(mass[seed]) else "failed"
            axes.set_title(title, loc="right", fontsize=7)
        row[0].set_ylabel(f"weight {weight:g}\ndensity (–)")
    _label_columns(grid, [f"training seed {seed}" for seed in _numbers(study, "seed")], "outcome y (–)")
    legend_below(drawing, grid[0, 0])
    return Drawn(
        drawing,
        "The marginal of the forecasts (line) against the true one at the same x (grey), both from 25 equally likely "
        "quantiles of every test case; diffusion model, first data seed, rows are decision weights and columns "
        "training seeds. The number is the forecasts' mass beyond the threshold (dotted), where the truth has 0.4 on "
        "average. To look for: the balance of the two modes, and their width.",
    )


def _action_curves(study: Study) -> Drawn:
    """Rows are data seeds, columns weights."""
    weights = nearest([0.0, 0.95], study.weights)
    drawing, grid = new_figure(study.groups, len(weights), height=1.5, sharex=True, sharey=True)
    for group, (row, number) in enumerate(zip(grid, _numbers(study, "group"), strict=True)):
        for axes, weight in zip(row, weights, strict=True):
            _actions(axes, study, weight, group)
        row[0].set_ylabel(f"data seed {number}\naction a*(x) (–)")
    _label_columns(grid, [f"weight {weight:g}" for weight in weights], "feature x (–)")
    legend_below(drawing, grid[0, 0])
    return Drawn(
        drawing,
        "The action a*(x) of the forecasts on the test cases against the one that is best under the true distribution, "
        f"diffusion model; rows are data seeds, columns decision weights; {BANDS}. The number is the mean "
        f"distance |a* − true a*|; {FILLED}. To look for: the transitions, and the troughs "
        "on the bound a* = 0, where the decision loss has no gradient.",
    )


def _mode_weight(study: Study) -> Drawn:
    """One panel per data seed."""
    weights = nearest([0.0, 0.5, 0.95], study.weights)
    drawing, grid = new_figure(study.groups, 1, height=1.6, sharex=True, sharey=True)
    truth = _TASK.mode_weight(torch.from_numpy(_FEATURES)[:, None])
    for group, (axes, number) in enumerate(zip(grid[:, 0], _numbers(study, "group"), strict=True)):
        axes.plot(_FEATURES, truth, color="black", linewidth=1, label="true w(x)")
        for weight, colour, dashes in zip(weights, weight_colours(weights), DASHES, strict=False):
            centres, mass = binned_mass(study, "hazard", weight, group)
            mean, deviation = defined_mean(mass, 0), defined_deviation(mass, 0)
            axes.plot(centres, mean, color=colour, linestyle=dashes, label=f"weight {weight:g}")
            band(axes, centres, mean - deviation, mean + deviation, colour)
        axes.set(ylabel=f"data seed {number}\nmode mass (–)", ylim=(-0.05, 1.05), xlim=(0, 1))
    grid[-1, 0].set_xlabel("feature x (–)")
    legend_below(drawing, grid[0, 0])
    return Drawn(
        drawing,
        "The forecasts' mass beyond the threshold, the second mode, within 40 bins of x, against the true w(x) (black) "
        f"for some decision weights, one panel a data seed; test cases, diffusion model; {BANDS}. To "
        "look for: the peaks and transitions, and whether a high weight overshoots them.",
    )


def _numbers(study: Study, axis: str) -> list[int]:
    return [int(number) for number in study.forecasts[axis].values]


def _true_density(features: Floats) -> Floats:
    """p(y | x) at `_OUTCOMES`, (features, outcomes)."""
    x, y = torch.from_numpy(np.asarray(features, np.float64)), torch.from_numpy(_OUTCOMES)
    return _TASK.log_density(x[:, None, None], y[:, None]).exp().numpy()


def _true_quantiles(features: Floats) -> Floats:
    """The quantiles of p(y | x) at the levels of a study, (features, levels)."""
    below = np.cumsum(_true_density(features), 1)
    return np.stack([np.interp(LEVELS, each / each[-1], _OUTCOMES) for each in below])


def _cost_and_marginal(axes: Axes) -> None:
    cost_curves(axes, _TASK.cost, _OUTCOMES)
    marginal = _true_density(_FEATURES).mean(0)
    other = axes.twinx()
    other.fill_between(_OUTCOMES, marginal, color="#CCCCCC", linewidth=0)
    other.set(ylabel="density p(y) (–)", ylim=(0, 2.4))
    other.grid(visible=False)
    axes.set_zorder(other.get_zorder() + 1)
    axes.patch.set_visible(False)
    axes.axvline(_THRESHOLD, color="black", linestyle=":", linewidth=0.8)
    axes.set(xlabel="outcome y (–)", ylabel="cost c(a, y) (–)")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, handlelength=2.2)


def _mode_mass(axes: Axes, study: Study) -> None:
    by_weight(axes, study, "mass_hazard", color=COLOURS["blue"])
    axes.axhline(_TASK.marginal_mode_mass, color="black", linestyle="--", linewidth=1)
    axes.set(xlabel="decision weight (–)", ylabel="second mode's mass (–)")


def _actions(axes: Axes, study: Study, weight: float, group: int) -> None:
    """The forecasts' a*(x) and the true one, and how far they are apart on average."""
    order = np.argsort(study.case_values("feature")[group])
    x = study.case_values("feature")[group][order]
    actions = study.values("action", weight)[group][:, order]
    mean, deviation = defined_mean(actions, 0), defined_deviation(actions, 0)
    axes.plot(x, mean, color=COLOURS["blue"], linewidth=0.9, label="forecasts")
    band(axes, x, mean - deviation, mean + deviation, COLOURS["blue"])
    best = _TASK.true_action(torch.from_numpy(_FEATURES)[:, None])
    axes.plot(_FEATURES, best, color="black", linestyle="--", linewidth=1, label="truth")
    distance, at_0 = (study.values("tracking", each)[group] for each in (weight, 0.0))
    mark = "●" if paired_difference(distance, at_0).significant else "○"
    axes.set_title(f"{mark if weight else ''} {defined_mean(distance):.3f}", loc="right", fontsize=7)
    axes.set(ylim=(-0.05, 1.05), xlim=(0, 1), xticks=[0, 0.5, 1])


def _label_columns(grid: NDArray[np.object_], titles: list[str], below: str) -> None:
    for axes, title in zip(grid[0], titles, strict=True):
        axes.set_title(title, loc="left")
    for axes in grid[-1]:
        axes.set_xlabel(below)


SYNTHETIC_FIGURES = (
    PaperFigure.of_study("synthetic", "The synthetic decision task", _DIFFUSION, _overview),
    PaperFigure("synthetic_setup", "synthetic", "The synthetic data and the best action", _setup),
    PaperFigure.of_study("synthetic_aggregate", "Aggregate metrics by decision weight", _DIFFUSION, _aggregate),
    PaperFigure.of_study("synthetic_marginals", "Marginals of the forecasts", _DIFFUSION, _marginals),
    PaperFigure.of_study("synthetic_action_curves", "Actions by data seed and weight", _DIFFUSION, _action_curves),
    PaperFigure.of_study("synthetic_mode_weight", "Mass of the second mode along x", _DIFFUSION, _mode_weight),
)
"""In the order of the paper."""
