"""The figures of the method, the synthetic task and frost protection, drawn from studies made without training."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from made_studies import made_studies
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from reproduction.figures import frost, method, synthetic
from reproduction.figures.all_figures import find_figure
from reproduction.figures.paper_figure import Drawn, by_weight
from reproduction.study import Study
from reproduction.study_collection import Studies, StudyKey
from stakes.plots import style
from stakes.reports.drawing import to_svg

FIGURES = {
    figure.label: figure for figure in (*method.METHOD_FIGURES, *synthetic.SYNTHETIC_FIGURES, *frost.FROST_FIGURES)
}
KINDS = [(label, "whole") for label in FIGURES]
KINDS += [(label, "reduced") for label, figure in FIGURES.items() if figure.needs]  # the others show no study


@cache
def made(grid: str) -> Studies:
    """The studies, whole or changed by one of the functions below."""
    whole = Studies({**made_studies("synthetic"), **made_studies("frost")})
    changed = {"whole": lambda study: study, "reduced": _reduced, "failed": _failed}[grid]
    return Studies({key: changed(study) for key, study in whole.items()})


def _reduced(study: Study) -> Study:
    """The weights 0 and 0.9, one seed, one data set, one parameter."""
    few = {"parameter": [0], "group": [0]}
    forecasts = study.forecasts.isel(few | {"seed": [0]}).sel(decision_weight=[0.0, 0.9], method="nearest")
    return replace(study, forecasts=forecasts, cases=study.cases.isel(few))


def test_every_figure_is_found_by_its_label() -> None:
    assert {label: find_figure(label) for label in FIGURES} == FIGURES


@pytest.mark.parametrize(("label", "grid"), KINDS)
def test_every_figure_can_be_drawn_and_read(label: str, grid: str) -> None:
    drawn = _made_figure(label, grid)
    assert ElementTree.fromstring(to_svg(drawn.figure)).get("viewBox")
    assert drawn.caption.endswith(".")
    texts = [text for text in drawn.figure.findobj(Text) if text.get_text().strip()]
    assert min(text.get_fontsize() for text in texts) >= 6.5
    for axes in _data_axes(drawn.figure):
        for label_of, shared in (
            (Axes.get_xlabel, axes.get_shared_x_axes()),
            (Axes.get_ylabel, axes.get_shared_y_axes()),
        ):
            assert _labels(label_of, shared.get_siblings(axes))


def _failed(study: Study) -> Study:
    """The weights 0 and 0.9 of one data set and parameter, of which the second seed failed at 0.9."""
    few = {"parameter": [0], "group": [0]}
    forecasts = study.forecasts.isel(few).sel(decision_weight=[0.0, 0.9], method="nearest")
    runs = (forecasts["decision_weight"] > 0) & (forecasts["seed"] == forecasts["seed"][1])
    return replace(study, forecasts=forecasts.where(~runs), cases=study.cases.isel(few))


@pytest.mark.parametrize("label", [label for label, figure in FIGURES.items() if figure.needs])
def test_a_seed_that_failed_takes_nothing_else_away(label: str) -> None:
    drawn = _made_figure(label, "failed")
    assert ElementTree.fromstring(to_svg(drawn.figure)).get("viewBox")
    lines = [line for axes in drawn.figure.axes for line in axes.lines if len(line.get_ydata())]
    empty = [line for line in lines if not np.isfinite(np.asarray(line.get_ydata(), float)).any()]
    assert len(empty) == (label == "synthetic_marginals"), "that has a panel for each seed"


@cache
def _made_figure(label: str, grid: str) -> Drawn:
    return _drawn(label, made(grid))


def _drawn(label: str, studies: Studies) -> Drawn:
    with style(), mpl.rc_context({"figure.constrained_layout.use": False}):  # no test here looks at the places
        return FIGURES[label].draw(studies)


def _data_axes(figure: Figure) -> list[Axes]:
    return [axes for axes in figure.axes if axes.axison and axes.get_visible() and axes.get_label() != "<colorbar>"]


def _labels(label_of: Callable[[Axes], str], siblings: list[Axes]) -> bool:
    """Whether one of the panels that share an axis names it, and all that do give the unit."""
    found = [label_of(axes) for axes in siblings if label_of(axes)]
    return bool(found) and all(label.endswith(")") and "()" not in label for label in found)


def test_filled_marks_are_the_differences_whose_interval_leaves_out_zero() -> None:
    study = made("whole")[StudyKey("frost", "implicit")]
    metric = study.forecasts["miscalibration"]
    lower = metric.where(metric["decision_weight"] < 0.5, metric.sel(decision_weight=0.0) - 1.0)
    study = replace(study, forecasts=study.forecasts.assign(miscalibration=lower.transpose(*metric.dims)))
    axes = Figure().subplots()
    by_weight(axes, study, "miscalibration", 0.2)
    hollow, filled = axes.lines
    baseline = study.mean("miscalibration", 0.0, 0.2)
    sure = [
        weight
        for weight in study.weights
        if (study.mean("miscalibration", weight, 0.2) - baseline).interval().significant
    ]
    assert 0 < len(sure) < len(study.weights)
    np.testing.assert_array_equal(hollow.get_xdata(), study.weights)
    np.testing.assert_array_equal(filled.get_xdata(), sure)
    assert hollow.get_markerfacecolor() == "white" != filled.get_markerfacecolor()


def test_frost_by_forecast_stands_beside_frost_observed() -> None:
    study = made("whole")[StudyKey("frost", "implicit")]
    drawn = _made_figure("frost_conditional", "whole")
    for row, region in enumerate(("frost", "no frost")):
        panel = drawn.figure.axes[3 * row + 1]
        dashed = [line for line in panel.get_lines() if line.get_linestyle() == "--"]
        for line, alpha in zip(dashed, study.parameters, strict=True):
            means = [study.mean("cost", weight, alpha, region, "forecast").estimate for weight in study.weights]
            np.testing.assert_allclose(line.get_ydata(), means)
    assert "chosen by the probability of frost" in drawn.caption


def test_the_true_quantiles_hold_the_true_mass_of_the_second_mode() -> None:
    features = np.linspace(0.0, 1.0, 400)
    found = synthetic._true_quantiles(features)
    assert (found > 1.0).mean() == pytest.approx(0.4, abs=0.01)
    assert found[found < 1.0].mean() == pytest.approx(0.0, abs=0.02)
