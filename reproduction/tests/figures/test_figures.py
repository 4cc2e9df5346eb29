"""Every figure of the paper draws from full and reduced studies, made without training, with what a reader needs."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from invented_studies import invented_studies
from made_studies import made_studies
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from reproduction.calibration import spread_skill
from reproduction.figures import frost, method, portfolio, synthetic, wind
from reproduction.figures.all_figures import find_figure
from reproduction.figures.paper_figure import WIDTH, Drawn, Line, by_weight
from reproduction.study import Study
from reproduction.study_collection import Studies, StudyKey
from stakes.plots import style, to_svg

INVENTED = (*wind.WIND_FIGURES, *portfolio.PORTFOLIO_FIGURES)
FIGURES = (*method.METHOD_FIGURES, *synthetic.SYNTHETIC_FIGURES, *frost.FROST_FIGURES, *INVENTED)
KINDS = [
    (figure.label, kind) for figure in FIGURES for kind in ("full", "reduced") if figure.needs or kind == "reduced"
]
ARRANGED = {figure.label for figure in INVENTED}  # whose legends stand below the panels, wherever these end
SMALLEST = 6.5  # pt


@cache
def made(kind: str) -> Studies:
    """Full studies, or reduced ones of two seeds, of which one failed at weight 0.9."""
    made = {**made_studies("synthetic"), **made_studies("frost")}
    if kind == "full":
        return Studies({**made, **invented_studies()})
    return Studies({key: _failed(study) for key, study in {**made, **invented_studies(reduced=True)}.items()})


def _failed(study: Study) -> Study:
    """The weights 0 and 0.9 of one data set and parameter, of which the last seed failed at 0.9."""
    few = study.forecasts.isel(parameter=[-1], group=[0]).sel(decision_weight=[0.0, 0.9], method="nearest")
    known = (few["decision_weight"] == 0) | (few["seed"] < study.seeds - 1)
    cases = study.cases.isel(
        {axis: [place] for axis, place in (("parameter", -1), ("group", 0)) if axis in study.cases.dims}
    )
    return replace(study, forecasts=few.where(known), cases=cases)


@cache
def made_figure(label: str, kind: str) -> Drawn:
    figure = find_figure(label)
    assert figure.possible(made(kind))
    arranged = kind == "reduced" and label in ARRANGED  # which takes half of the time
    with style(), mpl.rc_context({"figure.constrained_layout.use": arranged}):
        return figure.draw(made(kind))


@pytest.mark.parametrize(("label", "kind"), KINDS)
def test_every_figure_can_be_drawn_and_read(label: str, kind: str) -> None:
    drawn = made_figure(label, kind)
    assert ElementTree.fromstring(to_svg(drawn.figure)).tag.endswith("svg")
    assert (len(drawn.caption) > 60, drawn.caption[-1]) == (True, ".")
    assert drawn.figure.get_figwidth() == WIDTH
    texts = [text for text in drawn.figure.findobj(Text) if text.get_text().strip()]
    assert min(text.get_fontsize() for text in texts) >= SMALLEST
    for axes in drawn.figure.axes:
        if axes.axison and axes.get_visible() and axes.get_label() != "<colorbar>":
            assert _labelled(Axes.get_xlabel, axes.get_shared_x_axes().get_siblings(axes))
            assert _labelled(Axes.get_ylabel, axes.get_shared_y_axes().get_siblings(axes))
    assert kind == "full" or label not in ARRANGED or _legends_inside(drawn.figure)


def _labelled(label_of: Callable[[Axes], str], siblings: list[Axes]) -> bool:
    """Whether one of the panels that share an axis names it, and none leaves its unit empty."""
    found = [label_of(axes) for axes in siblings if label_of(axes)]
    return bool(found) and not any("()" in label for label in found)


def _legends_inside(figure: Figure) -> bool:
    """Whether the legends lie on the page, under the panels."""
    boxes = [legend.get_window_extent() for legend in figure.legends]
    bottom = min(axes.get_position().y0 for axes in figure.axes)
    lowest = min(axes.get_tightbbox().y0 for axes in figure.axes if axes.get_position().y0 < bottom + 0.1)
    page = figure.bbox
    return all(box.x0 >= page.x0 and box.x1 <= page.x1 and box.y1 <= lowest + 1 for box in boxes)


@pytest.mark.parametrize("label", [figure.label for figure in FIGURES if figure.needs])
def test_a_seed_that_failed_takes_nothing_else_away(label: str) -> None:
    lines = [line for axes in made_figure(label, "reduced").figure.axes for line in axes.lines if len(line.get_ydata())]
    empty = [line for line in lines if not np.isfinite(np.asarray(line.get_ydata(), float)).any()]
    assert len(empty) == (label == "synthetic_marginals"), "that has a panel for each seed"


@pytest.mark.parametrize("label", ["windpower_setup", "windpower_cal_decomp_implicit", "portfolio_calibration"])
def test_the_same_studies_give_the_same_picture(label: str) -> None:
    first, second = (made_figure.__wrapped__(label, "reduced") for _ in range(2))
    assert to_svg(first.figure) == to_svg(second.figure)


def test_filled_marks_are_the_differences_whose_interval_leaves_out_zero() -> None:
    study = made("full")[StudyKey("frost", "implicit")]
    metric = study.forecasts["miscalibration"]
    lower = metric.where(metric["decision_weight"] < 0.5, metric.sel(decision_weight=0.0) - 1.0)
    study = replace(study, forecasts=study.forecasts.assign(miscalibration=lower.transpose(*metric.dims)))
    axes = Figure().subplots()
    by_weight(axes, study, "miscalibration", 0.2)
    hollow, filled = axes.lines
    means = {weight: study.mean("miscalibration", weight, 0.2) for weight in study.weights}
    sure = [weight for weight, mean in means.items() if (mean - means[0.0]).interval().significant]
    assert 0 < len(sure) < len(study.weights)
    np.testing.assert_array_equal(hollow.get_xdata(), study.weights)
    np.testing.assert_array_equal(filled.get_xdata(), sure)
    assert hollow.get_markerfacecolor() == "white" != filled.get_markerfacecolor()


def test_regions_by_forecast_stand_beside_those_by_observation() -> None:
    study = made("full")[StudyKey("frost", "implicit")]
    axes = made_figure("frost_conditional", "full").figure.axes
    for row, region in enumerate(("frost", "no frost")):
        dashed = [line for line in axes[3 * row + 1].get_lines() if line.get_linestyle() == "--"]
        for line, alpha in zip(dashed, study.parameters, strict=True):
            means = [study.mean("cost", weight, alpha, region, "forecast").estimate for weight in study.weights]
            np.testing.assert_allclose(line.get_ydata(), means)
    study = made("full")[StudyKey("wind", "implicit")]
    panel = made_figure("windpower_cutoff_implicit", "full").figure.axes[1]
    dashed = [line for line in panel.get_lines() if line.get_linestyle() == "--"]
    for line, penalty in zip(dashed, study.parameters, strict=True):
        pairs = [study.pair("cost", weight, penalty, "cut-off", "forecast") for weight in study.weights]
        np.testing.assert_allclose(line.get_ydata(), [(mean - at_0).estimate for mean, at_0 in pairs], atol=1e-12)


def test_the_true_quantiles_hold_the_true_mass_of_the_second_mode() -> None:
    found = synthetic._true_quantiles(np.linspace(0.0, 1.0, 400))
    assert (found > 1.0).mean() == pytest.approx(0.4, abs=0.01)
    assert found[found < 1.0].mean() == pytest.approx(0.0, abs=0.02)


def test_changes_are_those_of_the_seeds_that_both_have() -> None:
    study = _failed(made("full")[StudyKey("wind", "implicit")])
    same = study.forecasts.sel(decision_weight=[0.0, 0.0]).assign_coords(decision_weight=[0.0, 0.9])
    level = same["cost"] + 10 * same["seed"]
    runs = (same["decision_weight"] == 0) | (same["seed"] < 2)
    line = Line(replace(study, forecasts=same.assign(cost=level).where(runs)), "", {}, None, "rated", "forecast")
    for relative in (False, True):
        assert line.changes("cost", relative) == [(0.0, 0.0, 0.0)] * 2
    assert portfolio._spread_change(line.study, 0.9, None) == (0.0, 0.0, 0.0)


def test_seeds_deviate_in_the_ratio_that_is_drawn() -> None:
    study = made("full")[StudyKey("irish_wind", "implicit")]
    each = [replace(study, forecasts=study.forecasts.isel(seed=[seed])) for seed in range(3)]
    ratios = [spread_skill(seed, 0.5, 5.0).estimate for seed in each]
    assert portfolio._seed_deviation(study, 0.5, 5.0) == pytest.approx(np.std(ratios))
