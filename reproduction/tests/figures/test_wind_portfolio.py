"""The figures of wind and portfolios draw from full and reduced studies, with what a reader needs to read them."""

from dataclasses import replace
from functools import cache
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from invented_studies import invented_studies
from matplotlib.figure import Figure
from matplotlib.text import Text

from reproduction.calibration import spread_skill
from reproduction.figures import portfolio, wind
from reproduction.figures.all_figures import find_figure
from reproduction.figures.paper_figure import WIDTH, Drawn, Line
from reproduction.study import Study
from reproduction.study_collection import Studies, StudyKey
from stakes.plots import style
from stakes.reports.drawing import to_svg

FIGURES = (*wind.WIND_FIGURES, *portfolio.PORTFOLIO_FIGURES)
OF_STUDIES = [figure.label for figure in FIGURES if figure.needs]
KINDS = [(label, kind) for label in OF_STUDIES for kind in ("full", "reduced")]
KINDS += [(figure.label, "reduced") for figure in FIGURES if not figure.needs]  # the same whatever the studies
SMALLEST = 6.5  # pt


@cache
def made(kind: str) -> Studies:
    """Full studies, or reduced ones of two seeds, of which one failed at weight 0.9."""
    if kind == "full":
        return invented_studies()
    return Studies({key: _failed(study) for key, study in invented_studies(reduced=True).items()})


@cache
def made_figure(label: str, kind: str) -> Drawn:
    return drawn(label, made(kind))


@cache
def made_picture(label: str, kind: str) -> str:
    return to_svg(made_figure(label, kind).figure)


def drawn(label: str, studies: Studies) -> Drawn:
    figure = find_figure(label)
    assert figure.possible(studies)
    with style():
        return figure.draw(studies)


@pytest.mark.parametrize(("label", "kind"), KINDS)
def test_draws_a_labelled_figure_with_a_caption(label: str, kind: str) -> None:
    result = made_figure(label, kind)
    text = made_picture(label, kind)
    assert ElementTree.fromstring(text).tag.endswith("svg")
    assert len(result.caption) > 100
    assert result.caption.endswith(".")
    assert result.figure.get_figwidth() == WIDTH
    for axes in result.figure.axes:
        assert axes.has_data() or axes.collections
        assert labelled(axes, "x")
        assert labelled(axes, "y")
    assert min(text.get_fontsize() for text in result.figure.findobj(Text) if text.get_text()) >= SMALLEST
    assert inside(result.figure)


def labelled(axes: mpl.axes.Axes, side: str) -> bool:
    """Whether the axis, or one that shares its scale in the same row or column, has a label; colour bars have one."""
    if axes.get_label() == "<colorbar>":
        return bool(axes.get_ylabel() or axes.get_xlabel())
    shared = axes.get_shared_x_axes() if side == "x" else axes.get_shared_y_axes()
    group = [axes, *shared.get_siblings(axes)]
    return any(each.get_xlabel() if side == "x" else each.get_ylabel() for each in group)


def inside(figure: Figure) -> bool:
    """Whether the legends lie on the page, under the panels."""
    boxes = [legend.get_window_extent() for legend in figure.legends]
    bottom = min(axes.get_position().y0 for axes in figure.axes)
    lowest = min(axes.get_tightbbox().y0 for axes in figure.axes if axes.get_position().y0 < bottom + 0.1)
    page = figure.bbox
    return all(box.x0 >= page.x0 and box.x1 <= page.x1 and box.y1 <= lowest + 1 for box in boxes)


@cache
def failed() -> Studies:
    """The weights 0 and 0.9 of one parameter, of which the last seed failed at 0.9."""
    return Studies({key: _failed(study) for key, study in made("full").items()})


def _failed(study: Study) -> Study:
    few = study.forecasts.isel(parameter=[-1]).sel(decision_weight=[0.0, 0.9], method="nearest")
    return replace(study, forecasts=few.where((few["decision_weight"] == 0) | (few["seed"] < study.seeds - 1)))


@pytest.mark.parametrize("label", OF_STUDIES)
def test_a_seed_that_failed_takes_nothing_else_away(label: str) -> None:
    if find_figure(label).subject == "portfolio":  # drawn of more studies than the reduced ones
        result = drawn(label, failed())
        result.figure.set_layout_engine("none")  # half of the time, for places that are not looked at here
        assert to_svg(result.figure)
    else:
        result = made_figure(label, "reduced")
        assert made_picture(label, "reduced")
    for line in (line for axes in result.figure.axes for line in axes.lines):
        assert np.isfinite(np.asarray(line.get_ydata(), float)).all()


def test_changes_are_those_of_the_seeds_that_both_have() -> None:
    study = failed()[StudyKey("wind", "implicit")]
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


@pytest.mark.parametrize("label", ["windpower_setup", "windpower_cal_decomp_implicit", "portfolio_calibration"])
def test_the_same_studies_give_the_same_picture(label: str) -> None:
    assert to_svg(drawn(label, made("reduced")).figure) == made_picture(label, "reduced")


def test_regions_by_forecast_stand_beside_those_by_observation() -> None:
    study = made("full")[StudyKey("wind", "implicit")]
    panel = made_figure("windpower_cutoff_implicit", "full").figure.axes[1]
    dashed = [line for line in panel.get_lines() if line.get_linestyle() == "--"]
    for line, penalty in zip(dashed, study.parameters, strict=True):
        pairs = [study.pair("cost", weight, penalty, "cut-off", "forecast") for weight in study.weights]
        np.testing.assert_allclose(line.get_ydata(), [(mean - at_0).estimate for mean, at_0 in pairs], atol=1e-12)
