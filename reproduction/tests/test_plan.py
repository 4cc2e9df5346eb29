from pathlib import Path

import numpy as np
import pytest
from refusals import refuses

from reproduction import run_studies
from reproduction.claims.judging import all_claims
from reproduction.figures.all_figures import all_figures
from reproduction.plan import (
    CHOICES,
    MAIN,
    NOT_SHIPPED,
    SCORE_CHOICES,
    SUBJECTS,
    PlannedStudy,
    planned_studies,
    score_choice,
    unknown_settings,
)
from reproduction.reproduce import Effort
from reproduction.runs.jobs import Execution
from reproduction.runs.sweep import read_overrides
from reproduction.study_collection import StudyKey
from reproduction.tasks import find_task
from stakes.errors import SettingError
from stakes.training.settings import ImplicitSettings


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("subject", SUBJECTS)
def test_every_study_is_a_sweep_with_a_baseline(subject: str, quick: bool) -> None:
    planned = planned_studies([subject], quick)
    assert len({study.key for study in planned}) == len(planned)
    planned = [study for study in planned if not (scored := score_choice(study.choice)) or scored.base == "energy"]
    shipped = [study for study in planned if study.task not in NOT_SHIPPED]  # a fingerprint reads the data
    assert len({study.fingerprint for study in shipped}) == len(shipped)
    others = [study.choice != MAIN for study in planned]
    assert others == sorted(others), "the main settings come first"
    for study in planned:
        if study.choice in SCORE_CHOICES and study.task in NOT_SHIPPED:
            continue  # like those of the Irish stations
        runs = [point.run for point in study.sweep.points]
        assert {run.task.name for run in runs} == {study.task}
        assert study.model in ("policy", runs[0].model.name)
        assert min(run.decision_weight for run in runs) == 0
        assert {parameter for parameter in (study.assessment.parameter, study.assessment.group) if parameter} <= set(
            vars(runs[0].task)
        )


def test_the_whole_run_has_the_grids_of_the_paper() -> None:
    for study in planned_studies(["synthetic", "wind", "frost"]):
        reduced = study.task in ("wind", "frost") and study.model == "diffusion"  # which takes long
        if study.choice == MAIN and study.model in ("implicit", "diffusion") and not reduced:
            runs = [point.run for point in study.sweep.points]
            grid = find_task(study.task).paper.grid
            assert {run.decision_weight for run in runs} == set(grid["decision_weight"])
            assert {run.seed for run in runs} == set(grid["seed"])


def test_a_reduced_run_trains_less() -> None:
    for subject in SUBJECTS:
        whole, quick = (planned_studies([subject], reduced) for reduced in (False, True))
        assert {study.key for study in quick} <= {study.key for study in whole}
        by_key = {study.key: study for study in whole}
        for study in quick:
            reduced, runs = ([point.run for point in each.sweep.points] for each in (study, by_key[study.key]))
            assert len(reduced) <= len(runs)
            assert reduced[0].training.epochs < runs[0].training.epochs
            assert study.assessment.members <= by_key[study.key].assessment.members
            if study.task not in NOT_SHIPPED:
                assert study.fingerprint != by_key[study.key].fingerprint


@pytest.mark.parametrize("quick", [False, True])
def test_whatever_figures_and_claims_need_is_planned(quick: bool) -> None:
    planned = {study.key for study in planned_studies(SUBJECTS, quick)}
    assert {key for spec in all_figures().values() for key in spec.needs} <= planned
    models = {(key.task, key.model) for key in planned if key.choice == MAIN}
    assert {source for claim in all_claims() for source in claim.sources} <= models
    assert {key.choice for key in planned} <= set(CHOICES)


def test_one_model_or_another_record() -> None:
    assert {study.model for study in planned_studies(["wind"], model="implicit")} == {"implicit"}
    planned = planned_studies(["frost"], record="frost_era5")
    assert {study.choice for study in planned} == {MAIN}
    assert {point.run.task.record for study in planned for point in study.sweep.points} == {"frost_era5"}  # type: ignore[attr-defined]
    assert not {study.fingerprint for study in planned} & {study.fingerprint for study in planned_studies(["frost"])}


def test_unknown_names_are_refused() -> None:
    with pytest.raises(SettingError, match="did you mean 'portfolio'"):
        planned_studies(["portfolios"])
    with pytest.raises(SettingError, match="did you mean 'diffusion'"):
        planned_studies(["wind"], model="difusion")
    with pytest.raises(SettingError, match="no implicit model for synthetic"):
        planned_studies(["synthetic"], model="implicit")


def test_data_that_changed_under_their_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = planned_studies(["wind"])[0]
    digests = study.data_digests()
    assert len(set(digests.values())) == 1  # one record, whatever the penalty
    run_studies._require_same_data([study], tmp_path)
    run_studies._require_same_data([study], tmp_path)
    monkeypatch.setattr(PlannedStudy, "data_digests", lambda self: dict.fromkeys(digests, "another"))
    with pytest.raises(SettingError, match="not those that"):
        run_studies._require_same_data([study], tmp_path)


@pytest.mark.parametrize("subject", ["synthetic", "portfolio"])
def test_simulated_data_may_differ_in_their_last_bits_between_machines(subject: str) -> None:
    study = next(study for study in planned_studies([subject]) if study.task in ("synthetic", "simulated_portfolio"))
    assert study.data_digests() == {}


def test_base_scores_have_ten_seeds_and_share_what_they_start_from() -> None:
    planned = [study for study in planned_studies(["portfolio"]) if study.choice in SCORE_CHOICES]
    assert {study.task for study in planned} == {"irish_wind", *NOT_SHIPPED}
    irish = {study.key: study for study in planned if study.task == "irish_wind"}
    assert len(irish) * 4 == len(planned)
    runs = [
        set(irish[StudyKey("irish_wind", "implicit", name)].sweep.runs)
        for name in ("energy_linear", "energy_linear_total")
    ]
    assert [len(each) for each in (*runs, runs[0] & runs[1])] == [40, 40, 10], "weight 0 is trained once"
    shuffled = irish[StudyKey("irish_wind", "implicit", "energy_linear_shuffled")]
    assert shuffled.assessment.shuffled
    assert set(shuffled.sweep.runs) == runs[0] & runs[1]
    (run,) = {point.run for point in shuffled.sweep.points if point.run.seed == 9}
    assert (run.training.score, run.training.members, run.training.weight_decay) == ("energy", 20, 0.1)
    assert run.model == ImplicitSettings(16, 64, 3, linear=True, gap=1)


ONE = Execution("cpu", workers=1)


@pytest.mark.parametrize(
    ("models", "minutes", "quick", "sentence"),
    [
        (
            1,
            1.2,
            True,
            "a reduced run (--budget quick) of 1 model: about 1 minute and 2 GiB of memory, if nothing is there yet",
        ),
        (9, 15, True, "a reduced run (--budget quick) of 9 models: about 15 minutes and 2 GiB of memory"),
        (9, 119, False, "the whole run of 9 models: about 119 minutes and 2 GiB of memory"),
        (900, 1200, False, "the whole run of 900 models: about 20 hours and 2 GiB of memory"),
    ],
)
def test_what_to_expect_is_one_sentence(models: int, minutes: float, quick: bool, sentence: str) -> None:
    assert Effort(models, minutes, 2.3).sentence(quick).startswith(sentence)


def test_settings_on_top_of_the_plan() -> None:
    words = ["model.prediction=v", "task.cutoff_sharpness=1.5", "solver=projected_gradient", "seed=[0, 1]"]
    overrides = read_overrides(None, words)
    planned = planned_studies(["synthetic", "wind"], overrides=overrides)
    assert {study.choice for study in planned} == {MAIN}
    for study in planned:
        run = study.sweep.points[0].run
        assert {point.run.seed for point in study.sweep.points} == {0, 1}
        assert (run.training.solver, run.training.solver_steps) == ("projected_gradient", 50)
        assert study.assessment.solver_steps == 200
        assert study.model != "diffusion" or run.model.prediction == "v"  # type: ignore[attr-defined]
        assert getattr(run.task, "cutoff_sharpness", 1.5) == 1.5
    assert unknown_settings(overrides, planned) == []
    synthetic = planned_studies(["synthetic"], overrides=overrides)
    assert unknown_settings(overrides, synthetic) == ["task.cutoff_sharpness"]
    refuses(SettingError, "model.prediction", unknown_settings, {"model.predicton": "v"}, synthetic)


def test_a_file_of_settings(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text('seed = [3]\n[model]\nprediction = "v"\n')
    read = read_overrides(tmp_path / "own.toml", ["model.prediction=target"])
    assert read == {"seed": [3], "model.prediction": "target"}
    refuses(SettingError, "set must be", read_overrides, None, ["model.prediction"])


def test_test_years_are_data_sets_of_one_shape() -> None:
    study = next(study for study in planned_studies(["wind"]) if study.choice == "rolling")
    tasks = {point.run.task.test_year: point.run.task for point in study.sweep.points}  # type: ignore[attr-defined]
    assert sorted(tasks) == list(range(2015, 2022))
    for year, task in ((2015, tasks[2015]), (2021, tasks[2021])):
        data = task.data()
        assert [len(split) for split in (data.train, data.validation, data.test)] == [15 * 52 * 28, 52 * 28, 52 * 28]
        years = [np.unique(each.times.astype("datetime64[Y]")).astype(int) + 1970 for each in (data.train, data.test)]  # type: ignore[union-attr]
        assert (years[0].max(), years[1].tolist()) == (year - 2, [year])
