"""The figure that a report opens with."""

import re
from xml.etree import ElementTree

import pytest
from invented_fits import invented_fit, invented_selection

from stakes.reports.figures import selection_figure
from stakes.reports.page import Figure


def words(figure: Figure, panel: int = 0) -> list[str]:
    root = ElementTree.fromstring(str(figure.drawing(panel)))
    return [text.strip() for element in root.iter() if (text := element.text) and text.strip()]


def test_each_candidate_stands_with_its_cost_in_the_unit() -> None:
    fit = invented_fit(cases=300, block=10)
    selection = invented_selection(fit, "decision")
    figure = selection_figure(fit, selection)
    said = words(figure)
    for title in ("climatology", "linear", "network", "recent errors", "decision", "fitted again"):
        assert title in said
    assert "mean cost per test case (EUR)" in said
    assert {"selected", "accepted", "tried, not selected"} <= set(said)
    assert f"{selection.tested[0].cost:.1f}" in said
    assert f"{fit.selected.cost.mean():.1f}" in said
    assert "300 test cases" in figure.caption


def test_candidates_that_the_first_one_dwarfs_are_drawn_once_more() -> None:
    fit = invented_fit(cases=300, block=10)
    far, near = (
        selection_figure(fit, invented_selection(fit, "decision", {"climatology": more})) for more in (90.0, 6.0)
    )
    assert (len(far.names), len(near.names)) == (2, 1)
    assert far.caption.endswith("Second: the same without climatology.")
    assert "climatology" not in words(far, 1)
    assert "linear" in words(far, 1)


@pytest.mark.filterwarnings("error")
def test_too_few_cases_have_no_bars() -> None:
    bars = []
    for cases in (300, 40):
        fit = invented_fit(cases=cases, block=10)
        bars.append(
            len(re.findall("LineCollection", str(selection_figure(fit, invented_selection(fit, "linear")).drawing())))
        )
    assert bars[0] > bars[1] == 0
