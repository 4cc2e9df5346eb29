import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from forked_processes import Forked
from made_studies import made_studies

from reproduction.rivals import rival_rows
from reproduction.runs.evaluations import Assessment, evaluate_runs, metrics_by_member
from reproduction.runs.folder import RunFolder
from reproduction.runs.settings import task_data
from reproduction.runs.stacks import train_folders
from reproduction.runs.sweep import Point, Sweep, read_sweep
from reproduction.studies import assess, untrained_runs, with_decision_training
from reproduction.study import Study, StudyError
from reproduction.tasks.synthetic import SyntheticTask
from stakes import ImplicitModel, optimal_action
from stakes.evaluation.metrics import Assessor
from stakes.files import read_json, write_json

TINY: dict[str, Any] = {
    "task": "synthetic",
    "model": {"name": "implicit", "hidden": 4, "layers": 1, "noise": 2},
    "training": {"epochs": 2, "validate_every": 1, "members": 2, "validation_members": 4, "batch": 800},
}
RATIOS = (0.2, 0.5)
SWEEP = read_sweep({**TINY, "grid": {"decision_weight": [0.0, 0.5], "task.false_alarm_ratio": list(RATIOS)}})
SETTINGS = Assessment(members=20, parameter="false_alarm_ratio", validation=True, block=4)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sweep")
    for name, run in SWEEP.runs.items():
        runs = RunFolder(folder / "runs" / name)
        runs.create(run)
        train_folders([runs], runs.checkpoints, "cpu", 30.0, lambda: False)
    return folder


@pytest.fixture(scope="module")
def study(trained: Path) -> Study:
    return assess(SWEEP, trained, SETTINGS, {"choice": "tiny"})


@pytest.fixture
def copied(trained: Path, study: Study, tmp_path: Path) -> Path:
    """The folder of the sweep with what the study kept there."""
    return Path(shutil.copytree(trained, tmp_path / "sweep"))


@pytest.fixture
def sampled(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many cases were sampled, call by call."""
    calls: list[int] = []
    sample = ImplicitModel.sample

    def counted(self: ImplicitModel, features: torch.Tensor, *arguments: Any, **options: Any) -> torch.Tensor:
        calls.append(len(features))
        return sample(self, features, *arguments, **options)

    monkeypatch.setattr(ImplicitModel, "sample", counted)
    return calls


def members_of(point: Point, folder: Path, split: str = "test") -> tuple[torch.Tensor, torch.Tensor]:
    model = cast(Any, RunFolder(folder / "runs" / point.run.name).model())
    cases = getattr(task_data(point.run.task), split)
    generator = torch.Generator().manual_seed(point.run.seed)
    return model.sample(cases.features, SETTINGS.members, generator), cases.outcome


def same(first: Study, second: Study) -> None:
    for before, after in ((first.forecasts, second.forecasts), (first.cases, second.cases)):
        assert set(before.data_vars) == set(after.data_vars)
        for name in before.data_vars:
            np.testing.assert_array_equal(before[name].values, after[name].values)


def test_values_equal_a_direct_recomputation(study: Study, trained: Path) -> None:
    for point in SWEEP.points:
        task: Any = point.run.task
        place = (point.run.decision_weight, task.false_alarm_ratio)
        wanted = Assessor(task.cost, task.regions)(*members_of(point, trained))
        for name, values in wanted.items():
            if name not in study.forecasts:
                assert name == "pit" or name.startswith("spread_")
                continue
            kept = study.values(name, *place)[0, 0].astype(np.float32)
            coarse = name.startswith(("quantile", "mass_"))  # kept in half precision
            np.testing.assert_allclose(kept, values.numpy(), rtol=5e-4 if coarse else 0)
        test = task_data(task).test
        regret = task.regret(test.features, wanted["action"][:, None])
        np.testing.assert_allclose(study.values("regret", *place)[0, 0], regret, atol=1e-6)
        tracking = (wanted["action"] - task.true_action(test.features)[:, 0]).abs()
        np.testing.assert_allclose(study.values("tracking", *place)[0, 0], tracking, atol=1e-6)
        judged = Assessor(task.cost)(*members_of(point, trained, "validation"))
        for name in ("cost", "energy_score"):
            assert study.validation(name, *place).item() == pytest.approx(float(judged[name].mean()))


def test_what_is_known_of_the_cases(study: Study) -> None:
    for point in SWEEP.points:
        task: Any = point.run.task
        data = task_data(task)
        outcome, ratio = data.test.outcome, task.false_alarm_ratio
        np.testing.assert_array_equal(study.case_values("outcome", ratio)[0], outcome[:, 0])
        np.testing.assert_array_equal(study.case_values("feature", ratio)[0], data.test.features[:, 0])
        for name, region in task.regions.items():
            np.testing.assert_array_equal(study.case_values(f"observed_{name}", ratio)[0], region(outcome))
        always = optimal_action(task.cost, data.train.outcome)  # one action for all cases
        np.testing.assert_allclose(study.case_values("climatology_cost", ratio)[0], task.cost(always, outcome))
        np.testing.assert_array_equal(
            study.case_values("true_action", ratio)[0], task.true_action(data.test.features)[:, 0]
        )


def test_weight_zero_is_one_run_for_all_cost_parameters(study: Study, trained: Path) -> None:
    assert len(SWEEP.points) == 4
    assert len(SWEEP.runs) == 3
    assert len(list((trained / "evaluations").glob("*.metrics"))) == 4
    first, second = (study.values("energy_score", 0.0, ratio) for ratio in RATIOS)
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(*(study.values("cost", 0.0, ratio) for ratio in RATIOS))
    assert not np.array_equal(*(study.values("energy_score", 0.5, ratio) for ratio in RATIOS))


def test_kept_evaluations_are_used_again(study: Study, copied: Path, sampled: list[int]) -> None:
    for weights in copied.glob("runs/*/weights.safetensors"):
        weights.unlink()
    same(assess(SWEEP, copied, SETTINGS, {}), study)
    assert sampled == []


@pytest.mark.parametrize("damage", ["cut", "flipped", "absent"])
def test_a_damaged_evaluation_is_made_again(study: Study, copied: Path, sampled: list[int], damage: str) -> None:
    file = next(copied.glob("evaluations/*-w0.5-*.metrics"))
    content = bytearray(file.read_bytes())
    if damage == "absent":
        file.unlink()
    else:
        content[len(content) // 2] ^= 255
        broken = {"cut": content[: len(content) // 2], "flipped": content}
        file.write_bytes(broken[damage])
    same(assess(SWEEP, copied, SETTINGS, {}), study)
    assert sampled == [400, 200]  # one run's test and validation cases
    same(assess(SWEEP, copied, SETTINGS, {}), study)
    assert len(sampled) == 2


def test_other_settings_are_evaluated_anew(study: Study, copied: Path, sampled: list[int]) -> None:
    fewer = assess(SWEEP, copied, Assessment(members=10, parameter="false_alarm_ratio"), {})
    assert sampled == [400, 400, 400]
    assert not {"validation_cost", "validation_energy_score"} & set(fewer.forecasts.data_vars)
    assert not np.array_equal(fewer.values("cost", 0.0), study.values("cost", 0.0))


def test_several_processes_give_the_same(study: Study, copied: Path, workers: list[Forked]) -> None:
    for file in (copied / "evaluations").iterdir():
        file.unlink()
    evaluate_runs([(SWEEP, SETTINGS)], copied, processes=2)
    assert len(workers) == 2
    assert len(list((copied / "evaluations").iterdir())) == 4
    same(assess(SWEEP, copied, SETTINGS, {}), study)


def test_a_point_that_is_not_there_is_missing(copied: Path) -> None:
    part = Sweep(tuple(point for point in SWEEP.points if point.axes != SWEEP.points[-1].axes))
    found = assess(part, copied, SETTINGS, {})
    assert np.isnan(found.values("cost", 0.5, 0.5)).all()
    assert np.isfinite(found.values("cost", 0.5, 0.2)).all()


def fail(folder: Path, *names: str) -> None:
    """Let the runs have ended in failure."""
    for name in names:
        file = folder / "runs" / name / "state.json"
        write_json(file, read_json(file) | {"status": "failed", "failure": "the loss was not finite"})


def test_a_run_that_failed_is_named_and_missing(copied: Path) -> None:
    name = SWEEP.points[-1].run.name
    fail(copied, name)
    found = assess(SWEEP, copied, SETTINGS, {})
    assert found.about["failed"] == [name]
    assert np.isnan(found.values("cost", 0.5, 0.5)).all()
    assert np.isfinite(found.values("cost", 0.5, 0.2)).all()


def test_a_sweep_without_a_trained_run_is_refused(copied: Path) -> None:
    fail(copied, *SWEEP.runs)
    with pytest.raises(StudyError, match="none of the 3 runs"):
        assess(SWEEP, copied, SETTINGS, {})


def test_runs_without_decision_training_have_no_say() -> None:
    study = made_studies("synthetic").find("synthetic", "diffusion")
    best = study.forecasts["cost"].isel(case=0, drop=True) * 0 + 40.0
    kept = best.where(~((best["seed"] == 1) & (best["decision_weight"] == 0.5)), 0.0)
    marked = replace(study, forecasts=study.forecasts.assign(validation_best_epoch=kept))
    assert untrained_runs(marked) == study.groups
    left = with_decision_training(marked)
    assert np.isnan(left.values("cost", 0.5)[:, 1]).all()
    np.testing.assert_array_equal(left.values("cost", 0.5)[:, 0], study.values("cost", 0.5)[:, 0])
    np.testing.assert_array_equal(left.values("cost", 0.9), study.values("cost", 0.9))


def test_members_are_told_apart_by_where_they_lie() -> None:
    task = SyntheticTask()
    generator = torch.Generator().manual_seed(0)
    low = 0.2 * torch.randn(4, 4000, 1, generator=generator)
    high = 2.5 + 0.4 * torch.randn(4, 1000, 1, generator=generator)
    found = metrics_by_member(task, torch.cat([low, high], 1), torch.zeros(4, 1))
    np.testing.assert_allclose(found["quartiles_calm"], 1.349 * 0.2, rtol=0.05)
    np.testing.assert_allclose(found["quartiles_hazard"], 1.349 * 0.4, rtol=0.08)
    few = metrics_by_member(task, low[:, :20], torch.zeros(4, 1))
    assert few["quartiles_hazard"].isnan().all()
    whole = Assessor(task.cost)(torch.cat([low, high], 1), torch.zeros(4, 1))
    np.testing.assert_allclose(found["gradient_calm"] + found["gradient_hazard"], whole["gradient"], rtol=1e-5)


def test_rivals_are_compared_on_the_same_runs() -> None:
    studies = made_studies("synthetic", "main", "tail_crps")
    rows = rival_rows(studies)
    (base,) = (row for row in rows if (row["choice"], row["model"], row["weight"]) == ("main", "diffusion", 0.0))
    assert base["cost"][1:] == [0.0, 0.0, 0.0]
    main, rival = (studies.find("synthetic", "diffusion", choice) for choice in ("main", "tail_crps"))
    (row,) = (row for row in rows if (row["choice"], row["weight"]) == ("tail_crps", 0.9))
    expected = rival.values("cost", 0.9)[:1].mean() - main.values("cost", 0.0)[:1].mean()
    assert row["cost"][1] == pytest.approx(expected)
