"""A run of a task on the task's test cases."""

import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from golden_run import FOLDER, RUN
from torch import Tensor

from reproduction.runs import evaluations as run_evaluations
from reproduction.runs import settings as run_settings
from reproduction.runs.evaluations import Assessment
from reproduction.runs.folder import RunFolder
from reproduction.runs.judged import JudgedRun, build_run_report, judge_run
from reproduction.runs.settings import task_data
from reproduction.runs.sweep import read_sweep
from reproduction.tasks import portfolio
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


class ApartModel(torch.nn.Module):
    """Members that scatter around the right mean, every site by itself."""

    def sample(self, features: Tensor, members: int, generator: torch.Generator) -> Tensor:
        return 8 + 3 * torch.randn(len(features), members, 5, generator=generator)


class FakeRun:
    def model(self) -> torch.nn.Module:
        return ApartModel()

    def state(self) -> SimpleNamespace:
        return SimpleNamespace(best_epoch=3)


def test_shuffled_members_keep_every_site_and_vary_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portfolio, "_SPLITS", (150, 20, 30))
    run_settings._load.cache_clear()
    sweep = read_sweep({"task": {"name": "simulated_portfolio", "sites": 5}, "decision_weight": 0.0, "seed": 0})
    settings = Assessment(50, "penalty", validation=True)
    drawn, shuffled = (
        next(iter(run_evaluations._evaluate(cast(Any, FakeRun()), sweep.points, each)))
        for each in (settings, replace(settings, shuffled=True))
    )
    run_settings._load.cache_clear()
    np.testing.assert_allclose(shuffled["crps_of_sites"], drawn["crps_of_sites"], rtol=1e-5)
    assert (shuffled["spread"] > 1.2 * drawn["spread"]).mean() > 0.9, "the sites of the simulation err together"
    assert shuffled["validation_cost"] != drawn["validation_cost"]
    task = sweep.points[0].run.task
    assert settings.key(task) != replace(settings, shuffled=True).key(task)
