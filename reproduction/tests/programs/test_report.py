"""The page of the problems."""

from dataclasses import replace
from pathlib import Path

import pytest
from small_programs import EFFORT, small_plan, small_problem

from reproduction.programs.report import build_programs_report, compared, problem_figure
from reproduction.programs.run import run_problem
from stakes.reports.page import render

pytestmark = pytest.mark.usefixtures("unarranged_figures")


def test_what_the_page_tells(tmp_path: Path) -> None:
    problem = replace(small_problem(), measures={"late_hours": lambda action, outcome: action[..., -1]})
    problems = {"small": compared(run_problem(small_plan(), problem, tmp_path, EFFORT))}
    figures = {"small": problem_figure("small", problems["small"])}
    report = build_programs_report(problems, figures, "few seeds", ["something was left out."], {"command": "x"})
    (section,) = report.sections
    methods, pairs = section.tables
    assert [column.name for column in methods.columns][4] == "late hours"
    assert methods.rows[1][2] == "the reference"
    assert methods.rows[2][-1] == "near: 2"
    assert pairs.rows[0][:2] == ("by validation", "what happens")
    page = render(report)
    assert "something was left out." in page
    assert "90 cases to learn from, 120 to choose by, 40 to judge from 2020-07-29 on." in page
