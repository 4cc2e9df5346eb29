from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from reproduction import run_studies
from reproduction.claims.judging import all_claims
from reproduction.figures.all_figures import all_figures
from reproduction.plan import (
    BASES,
    CHOICES,
    MAIN,
    METHODS,
    NOT_SHIPPED,
    SCORE_CHOICES,
    SUBJECTS,
    PlannedStudy,
    ScoreChoice,
    planned_studies,
    score_choice,
)
from reproduction.reproduce import Effort, expected_effort
from reproduction.study_collection import StudyKey
from reproduction.tasks import find_task
from stakes.errors import SettingError
from stakes.training.execution import Execution
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
        if study.choice == MAIN:
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


def test_every_base_with_every_method_is_a_choice() -> None:
    assert len(SCORE_CHOICES) == len(BASES) * len(METHODS)
    assert SCORE_CHOICES.items() <= CHOICES.items()
    assert score_choice("main") is None
    for name in SCORE_CHOICES:
        choice = score_choice(name)
        assert choice is not None
        assert choice.name == name


@pytest.mark.parametrize(
    ("choice", "name", "title", "settings"),
    [
        (ScoreChoice("pointwise"), "pointwise", "point by point + decision", {"training.score": "pointwise"}),
        (
            ScoreChoice("energy_linear", "many"),
            "energy_linear_many",
            "energy score, linear start + decision, 64 members",
            {"model.linear": True, "training.weight_decay": 0.1, "training.decision_member_count": 64},
        ),
        (
            ScoreChoice("energy", "total"),
            "energy_total",
            "energy score + CRPS of the total, a rival",
            {"training.companion": "crps_of_total"},
        ),
    ],
)
def test_a_choice_in_words_and_settings(
    choice: ScoreChoice, name: str, title: str, settings: dict[str, object]
) -> None:
    assert (choice.name, choice.title) == (name, title)
    everywhere = ScoreChoice("energy").settings
    assert everywhere["training.members"] == 20
    assert choice.settings == everywhere | settings


ONE = Execution("cpu", workers=1)


def test_more_studies_take_longer() -> None:
    planned = planned_studies(["synthetic", "wind"], quick=True)
    planned = [replace(study, settings={**study.settings, "training.epochs": 5000}) for study in planned]
    efforts = [expected_effort(planned[:count], ONE) for count in range(1, len(planned) + 1)]
    for less, more in pairwise(efforts):
        assert more.models > less.models
        assert more.minutes > less.minutes
        assert more.memory >= less.memory


def test_runs_that_studies_share_are_counted_once() -> None:
    (study,) = (each for each in planned_studies(["frost"], model="implicit") if each.choice == "main")
    once = expected_effort([study], ONE)
    assert expected_effort([study, study], ONE) == once
    assert once.models == len(study.sweep.runs)


@pytest.mark.parametrize(
    ("models", "minutes", "quick", "sentence"),
    [
        (
            1,
            1.2,
            True,
            "a reduced run (--quick) of 1 model: about 1 minute and 2 GiB of memory, if nothing is there yet",
        ),
        (9, 15, True, "a reduced run (--quick) of 9 models: about 15 minutes and 2 GiB of memory"),
        (9, 119, False, "the whole run of 9 models: about 119 minutes and 2 GiB of memory"),
        (900, 1200, False, "the whole run of 900 models: about 20 hours and 2 GiB of memory"),
    ],
)
def test_what_to_expect_is_one_sentence(models: int, minutes: float, quick: bool, sentence: str) -> None:
    assert Effort(models, minutes, 2.3).sentence(quick).startswith(sentence)
