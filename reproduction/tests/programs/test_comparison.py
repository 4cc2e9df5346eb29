"""Rows of a table from what candidates cost."""

from pathlib import Path

import pytest
from small_programs import EFFORT, small_plan, small_problem

from reproduction.programs.report import chosen_candidates, compared
from reproduction.programs.run import run_problem
from stakes.evaluation.intervals import paired_difference


def test_rows_by_hand(tmp_path: Path) -> None:
    plan, problem = small_plan(), small_problem()
    results = run_problem(plan, problem, tmp_path, EFFORT)
    assert chosen_candidates(results, plan.method("chosen")) == ["near", "near"]  # though "far" is better afterwards
    about = compared(results)
    rows = {row["name"]: row for row in about["methods"]}
    assert about["cases"] == {"train": 90, "validation": 120, "test": 40}
    assert about["from"]["test"] == "2020-07-29"
    assert rows["foresight"]["cost"] == pytest.approx(about["foresight_cost"])
    assert rows["near"]["less_reference"] == pytest.approx([0.0, 0.0, 0.0])
    assert rows["chosen"]["cost"] == rows["near"]["cost"]
    assert rows["chosen"]["taken"] == {"near": 2, "far": 0}
    expected = paired_difference(
        results.values("known", "test", "cost"), results.values("near", "test", "cost"), problem.block
    )
    assert rows["foresight"]["less_reference"] == pytest.approx(list(expected))
    gap = results.values("near", "test", "expected_cost") - results.values("near", "test", "cost")
    assert rows["near"]["gap"][0] == pytest.approx(gap.mean())
    assert about["pairs"][0]["cost"][0] == pytest.approx(-expected.mean)
    assert rows["near"]["certified"] == 1.0
