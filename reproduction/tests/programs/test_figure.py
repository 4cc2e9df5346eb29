"""The figure of a problem."""

from pathlib import Path
from xml.etree import ElementTree

import pytest
from small_programs import EFFORT, small_plan, small_problem

from reproduction.programs.report import compared, problem_figure
from reproduction.programs.run import run_problem

pytestmark = pytest.mark.usefixtures("unarranged_figures")


def test_every_method_has_its_place(tmp_path: Path) -> None:
    about = compared(run_problem(small_plan(), small_problem(), tmp_path, EFFORT))
    about["methods"][0] |= {"energy_score": None, "less_reference": None}  # as of actions without a forecast
    figure = problem_figure("small", about)
    assert ElementTree.fromstring(figure.svg).tag == "{http://www.w3.org/2000/svg}svg"
    for title in ("what happens", "moved a little", "by validation", "mean cost on test cases (EUR)"):
        assert title in figure.svg
    assert "“moved a little”" in figure.caption
    assert "40 test cases" in figure.caption
