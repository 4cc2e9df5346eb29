"""Decisions with many parts as a page of the documentation."""

from pathlib import Path

import pytest
from small_programs import EFFORT, small_plan, small_problem

from benchmarks.publish_programs import programs_markdown, publish_programs
from reproduction.programs.report import compared
from reproduction.programs.run import run_problem
from stakes.files import write_atomically


def test_every_method_has_its_line(tmp_path: Path) -> None:
    about = compared(run_problem(small_plan(), small_problem(), tmp_path, EFFORT))
    page = programs_markdown({"small": about})
    assert "## A small schedule" in page
    assert "![A small schedule](figures/small.svg)" in page
    lines = {line.split(" | ")[0].removeprefix("| "): line for line in page.splitlines() if line.startswith("| ")}
    assert "the reference" in lines["moved a little"]
    assert "near: 2" in page
    cells = lines["what happens"].split(" | ")
    assert float(cells[1]) == pytest.approx(about["foresight_cost"], rel=1e-3)


def test_files_are_copied(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    write_atomically(source / "results.json", b'{"problems": {}}')
    write_atomically(source / "figures" / "one.svg", b"<svg/>")
    write_atomically(target / "figures" / "old.svg", b"<svg/>")
    publish_programs(source, target)
    assert [file.name for file in (target / "figures").iterdir()] == ["one.svg"]
    assert (target / "tables.md").read_text().startswith("# Decisions with many parts")
