from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

from reproduction import run_studies as policies
from reproduction.calibration import skill
from reproduction.run_studies import assess_policies
from reproduction.runs.evaluations import Assessment
from reproduction.study import Study
from reproduction.tasks.synthetic import SyntheticTask

TASKS = [SyntheticTask(false_alarm_ratio=ratio) for ratio in (0.3, 0.5)]
SETTINGS = Assessment(parameter="false_alarm_ratio")


@pytest.fixture(scope="module", autouse=True)
def few_epochs() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(policies, "_SETTINGS", replace(policies._SETTINGS, epochs=15))
        yield


@pytest.fixture(scope="module")
def study(few_epochs: None) -> Study:
    return assess_policies(TASKS, [0, 1], SETTINGS, {"model": "policy"})


def test_policies_stand_at_weight_1(study: Study) -> None:
    assert study.weights == [1.0]
    assert study.parameters == [0.3, 0.5]
    assert study.seeds == 2
    assert {"action", "cost", "regret", "tracking"} <= set(study.forecasts.data_vars)
    assert study.about["task"] == "synthetic"
    assert study.about["model"] == "policy"
    assert np.isfinite(study.values("cost", 1.0, 0.3)).all()


def test_the_cost_is_that_of_the_actions(study: Study) -> None:
    action, outcome = study.values("action", 1.0, 0.5)[0, 0], study.case_values("outcome", 0.5)[0]
    paid = TASKS[1].cost(torch.from_numpy(action)[:, None], torch.from_numpy(outcome)[:, None])
    assert study.values("cost", 1.0, 0.5)[0, 0] == pytest.approx(paid.numpy(), abs=1e-5)
    assert (study.values("regret", 1.0, 0.5) > -1e-3).all()


def test_a_policy_learns_more_than_climatology(study: Study) -> None:
    assert skill(study, 1.0, 0.3).estimate > 0


def test_every_policy_is_told_when_it_is_done_and_none_depends_on_the_others(study: Study) -> None:
    told: list[tuple[int, int]] = []
    again = assess_policies(TASKS[1:], [1], SETTINGS, {}, lambda done, of: told.append((done, of)))
    assert told == [(1, 1)]
    assert (again.values("cost", 1.0, 0.5)[0, 0] == study.values("cost", 1.0, 0.5)[0, 1]).all()
