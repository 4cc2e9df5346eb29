"""The report of a run."""

from dataclasses import replace

import pytest
from golden.make_run import FOLDER, RUN

from reproduction.runs.folder import RunFolder
from reproduction.runs.judged import JudgedRun, build_run_report, judge_run
from stakes.reports.page import render

FINISHED = RunFolder(FOLDER / "finished")


@pytest.fixture(scope="module")
def judged() -> JudgedRun:
    return judge_run(FINISHED)


def test_it_shows_what_a_run_has(judged: JudgedRun) -> None:
    report = build_run_report(judged, FINISHED.metrics())
    assert report.title == "A run of the task synthetic"
    assert report.subtitle.startswith("Model implicit, decision weight 0.4, seed 3. Judged on 400 test cases that")
    cost = judged.mean("cost")
    assert f"cost {cost.mean:.3f} (95 % interval {cost.low:.3f} to {cost.high:.3f}) per test case" in report.summary[0]
    metrics, training, settings = report.sections
    (table,) = metrics.tables
    assert [row[0] for row in table.rows] == ["all", "hazard", "calm"]
    assert [row[1] for row in table.rows] == [400, *(int(cases.sum()) for cases in judged.regions.values())]
    assert [column.name for column in table.columns[2:5]] == ["cost", "expected cost", "gap"]
    assert table.shown_rows()[0][2].key == cost.mean
    assert training.text[0].startswith("The training finished after 6 epochs and ")
    (figure,) = training.figures
    assert len(figure.names) == 3  # loss, energy score and cost
    assert ("training.epochs", "6") in settings.tables[0].rows
    assert settings.tables[0].title == "Settings of the run"
    assert report.provenance["run"] == RUN.name
    assert report.provenance["weights"] == f"SHA-256 {judged.state.weights_sha256}"
    assert report.provenance.keys() >= {"stakes", "torch", "python"}


def test_a_region_without_a_case_is_left_empty(judged: JudgedRun) -> None:
    nowhere = replace(judged, regions={"nowhere": judged.regions["calm"] & ~judged.regions["calm"]})
    report = build_run_report(nowhere, [])
    assert report.sections[0].tables[0].rows[1][:3] == ("nowhere", 0, None)
    assert "nowhere" in render(report)


def test_a_failure_is_told(judged: JudgedRun) -> None:
    failed = replace(judged, state=replace(judged.state, status="failed", failure="the score is no number"))
    report = build_run_report(failed, FINISHED.metrics())
    assert report.summary[-1] == "Training failed, the score is no number; the last good weights are judged."
    assert report.sections[1].text[0].startswith("The training failed after")
