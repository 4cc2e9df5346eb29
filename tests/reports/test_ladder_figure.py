"""The figure that a report opens with."""

import re
from xml.etree import ElementTree

import pytest
from invented_fits import invented_fit, invented_ladder

from stakes.reports.figures import ladder_figure
from stakes.reports.page import Figure


def words(figure: Figure, panel: int = 0) -> list[str]:
    root = ElementTree.fromstring(str(figure.drawing(panel)))
    return [text.strip() for element in root.iter() if (text := element.text) and text.strip()]


def test_each_rung_stands_with_its_cost_in_the_unit() -> None:
    fit = invented_fit(cases=300, block=10)
    ladder = invented_ladder(fit, "decision")
    figure = ladder_figure(fit, ladder)
    said = words(figure)
    for title in ("climatology", "linear", "network", "fresh errors", "decision", "fitted again"):
        assert title in said
    assert "mean cost per test case (EUR)" in said
    assert {"taken", "climbed", "tried, not taken"} <= set(said)
    assert f"{ladder.tested[0].cost:.1f}" in said
    assert f"{fit.taken.cost.mean():.1f}" in said
    assert "300 test cases" in figure.caption


def test_rungs_that_the_first_one_dwarfs_are_drawn_once_more() -> None:
    fit = invented_fit(cases=300, block=10)
    far, near = (ladder_figure(fit, invented_ladder(fit, "decision", {"climatology": more})) for more in (90.0, 6.0))
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
            len(re.findall("LineCollection", str(ladder_figure(fit, invented_ladder(fit, "linear")).drawing())))
        )
    assert bars[0] > bars[1] == 0
