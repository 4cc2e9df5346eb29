"""A run of a task on the task's test cases."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from golden.make_run import FOLDER, RUN

from reproduction.runs.folder import RunFolder
from reproduction.runs.judged import JudgedRun, judge_run
from reproduction.runs.settings import task_data
from stakes.evaluation.metrics import Assessor
from stakes.files import read_json, write_json

FINISHED = RunFolder(FOLDER / "finished")


@pytest.fixture(scope="module")
def judged() -> JudgedRun:
    return judge_run(FINISHED)


def test_every_test_case_is_judged(judged: JudgedRun) -> None:
    test = task_data(RUN.task).test
    generator = torch.Generator().manual_seed(RUN.seed)
    members = cast(Any, FINISHED.model()).sample(test.features, RUN.task.paper.test_members, generator)
    expected = Assessor(RUN.task.cost, RUN.task.regions)(members, test.outcome)
    for name in ("cost", "energy_score", "action", "gap"):
        np.testing.assert_array_equal(judged.cases.chosen[name], expected[name].double().numpy())
    assert judged.run == RUN
    assert judged.notes == ()
    assert judged.block == 8  # of 400 cases without times
    assert list(judged.cases.table().columns[:2]) == ["row", "y"]
    assert judged.cases.table()["row"].tolist() == list(range(1, 401))
    assert "regret" in judged.cases.chosen


def test_means_are_over_all_cases_or_those_of_a_region(judged: JudgedRun) -> None:
    cost, hazard = judged.cases.chosen["cost"], judged.regions["hazard"]
    assert judged.regions.keys() == {"hazard", "calm"}
    assert judged.mean("cost").mean == pytest.approx(cost.mean())
    assert judged.mean("cost", "hazard").mean == pytest.approx(cost[hazard].mean())
    low, high = judged.mean("cost", "hazard")[1:]
    assert low < cost[hazard].mean() < high
    summary = judged.cases.summary(judged.block).set_index("metric")
    assert summary.loc["cost", "value"] == pytest.approx(cost.mean())


def test_a_run_that_failed_is_told(judged: JudgedRun, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(FINISHED.path, tmp_path / "run"))
    state = read_json(folder / "state.json")
    write_json(folder / "state.json", state | {"status": "failed", "failure": "the score is no number"})
    assert judge_run(RunFolder(folder)).notes == (
        "training failed, the score is no number; the last good weights are judged",
    )
    assert replace(judged, state=RunFolder(folder).state()).notes != ()
