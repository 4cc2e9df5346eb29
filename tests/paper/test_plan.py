from pathlib import Path

import pytest

from stakes.errors import SettingError
from stakes.paper import reproduce
from stakes.paper.claims.register import all_claims
from stakes.paper.figures.registry import known_figures
from stakes.paper.plan import CHOICES, MAIN, SUBJECTS, Part, planned_parts
from stakes.tasks import find_task


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("subject", SUBJECTS)
def test_every_part_is_a_sweep_with_a_baseline(subject: str, quick: bool) -> None:
    parts = planned_parts([subject], quick)
    assert len({part.key for part in parts}) == len(parts)
    shipped = [part for part in parts if part.task != "european_wind"]  # a fingerprint reads the data
    assert len({part.fingerprint for part in shipped}) == len(shipped)
    assert [part.choice == MAIN for part in parts] == sorted((part.choice == MAIN for part in parts), reverse=True)
    for part in parts:
        runs = [point.run for point in part.sweep().points]
        assert {run.task.name for run in runs} == {part.task}
        assert part.model in ("policy", runs[0].model.name)
        assert min(run.decision_weight for run in runs) == 0
        assert {parameter for parameter in (part.assessment.parameter, part.assessment.group) if parameter} <= set(
            vars(runs[0].task)
        )


def test_the_whole_run_has_the_grids_of_the_paper() -> None:
    for part in planned_parts(["synthetic", "wind", "frost"]):
        if part.choice == MAIN:
            runs = [point.run for point in part.sweep().points]
            grid = find_task(part.task).paper.grid
            assert {run.decision_weight for run in runs} == set(grid["decision_weight"])
            assert {run.seed for run in runs} == set(grid["seed"])


def test_a_reduced_run_trains_less() -> None:
    for subject in SUBJECTS:
        whole, quick = (planned_parts([subject], reduced) for reduced in (False, True))
        assert {part.key for part in quick} <= {part.key for part in whole}
        by_key = {part.key: part for part in whole}
        for part in quick:
            reduced, runs = ([point.run for point in each.sweep().points] for each in (part, by_key[part.key]))
            assert len(reduced) <= len(runs)
            assert reduced[0].training.epochs < runs[0].training.epochs
            assert part.assessment.members <= by_key[part.key].assessment.members
            if part.task != "european_wind":
                assert part.fingerprint != by_key[part.key].fingerprint


@pytest.mark.parametrize("quick", [False, True])
def test_whatever_figures_and_claims_need_is_planned(quick: bool) -> None:
    planned = {part.key for part in planned_parts(SUBJECTS, quick)}
    assert {key for spec in known_figures().values() for key in spec.needs} <= planned
    models = {(key.task, key.model) for key in planned if key.choice == MAIN}
    assert {source for claim in all_claims() for source in claim.sources} <= models
    assert {key.choice for key in planned} <= set(CHOICES)


def test_one_model_or_another_record() -> None:
    assert {part.model for part in planned_parts(["wind"], model="implicit")} == {"implicit"}
    parts = planned_parts(["frost"], record="frost_era5")
    assert {part.choice for part in parts} == {MAIN}
    assert {point.run.task.record for part in parts for point in part.sweep().points} == {"frost_era5"}  # type: ignore[attr-defined]
    assert not {part.fingerprint for part in parts} & {part.fingerprint for part in planned_parts(["frost"])}


@pytest.mark.parametrize("subject", ["synthetic", "portfolio"])
def test_simulations_have_no_record(subject: str) -> None:
    with pytest.raises(SettingError, match="--record is for wind and frost"):
        planned_parts([subject], record="wind_nora10")


def test_unknown_names_are_refused() -> None:
    with pytest.raises(SettingError, match="did you mean 'portfolio'"):
        planned_parts(["portfolios"])
    with pytest.raises(SettingError, match="did you mean 'diffusion'"):
        planned_parts(["wind"], model="difusion")
    with pytest.raises(SettingError, match="no implicit model for synthetic"):
        planned_parts(["synthetic"], model="implicit")


def test_data_that_changed_under_their_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = planned_parts(["wind"])[0]
    digests = part.data_digests()
    assert len(set(digests.values())) == 1  # one record, whatever the penalty
    reproduce._require_same_data([part], tmp_path)
    reproduce._require_same_data([part], tmp_path)
    monkeypatch.setattr(Part, "data_digests", lambda self: dict.fromkeys(digests, "another"))
    with pytest.raises(SettingError, match="not those that"):
        reproduce._require_same_data([part], tmp_path)


@pytest.mark.parametrize("subject", ["synthetic", "portfolio"])
def test_simulated_data_may_differ_in_their_last_bits_between_machines(subject: str) -> None:
    part = next(part for part in planned_parts([subject]) if part.task in ("synthetic", "simulated_portfolio"))
    assert part.data_digests() == {}
