"""One battery for every task: frozen settings, sound splits, a cost to decide by, regions, the paper's grid."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import combinations
from math import nan
from typing import Any

import numpy as np
import pytest
import torch
from fake_tables import fake_table

from reproduction.tables import SERIES, PowerReadings
from reproduction.tasks import portfolio as european_wind
from reproduction.tasks import portfolio as gefcom_wind
from reproduction.tasks import portfolio as new_york_load
from reproduction.tasks import task_types
from reproduction.tasks.task import KnownTruth, TaskData
from stakes import optimal_action
from stakes.data.case_table import CaseTable
from stakes.errors import StakesError

TASKS: dict[str, Any] = {name: task() for name, task in task_types().items()}
TASKS["wind, NORA10"] = task_types()["wind"](record="wind_nora10")
TASKS["frost, ERA5"] = task_types()["frost"](record="frost_era5")
every_task = pytest.mark.parametrize("name", TASKS)
SIMULATED = [name for name, task in TASKS.items() if isinstance(task, KnownTruth)]


def fake_readings(wheel: str | None) -> dict[str, PowerReadings]:
    """Smooth hourly power that rises and falls everywhere at once, with some hours missing: the wheel is not ours."""
    times = np.arange("2017", "2021", dtype="datetime64[h]").astype("datetime64[s]")
    hours = np.arange(len(times))
    power = [500 * (2 + np.sin(hours / (20 + place)) + np.sin(hours / 150)) for place in range(len(SERIES))]
    power[3][4000:4100] = np.nan
    return {name: PowerReadings(times, values) for name, values in zip(SERIES, power, strict=True)}


@pytest.fixture(autouse=True)
def without_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the wheel nor the tables are ours."""
    monkeypatch.setattr(european_wind, "read_wind_power", fake_readings)
    for module in (gefcom_wind, new_york_load):
        monkeypatch.setattr(module, "read_reference_table", fake_table)


@cache
def data_of(name: str) -> TaskData:
    return TASKS[name].data()


def splits_of(data: TaskData) -> tuple[CaseTable, CaseTable, CaseTable]:
    return data.train, data.validation, data.test


def tensors(data: TaskData) -> Iterator[torch.Tensor]:
    for split in splits_of(data):
        yield from (split.features, split.outcome)


def regions_of(name: str) -> dict[str, torch.Tensor]:
    return {region: mask(data_of(name).test.outcome) for region, mask in TASKS[name].regions.items()}


@every_task
def test_data_are_finite_float32_cases(name: str) -> None:
    data = data_of(name)
    for split in splits_of(data):
        assert split.features.shape == (len(split), len(data.feature_names))
        assert split.outcome.shape == (len(split), len(data.outcome_names))
        assert len(split) >= 100
    for values in tensors(data):
        assert values.dtype == torch.float32
        assert values.isfinite().all()
    assert (data.train.features.std(0) > 0).all()
    assert (data.train.outcome.std(0) > 0).all()
    for names in (data.feature_names, data.outcome_names):
        assert len(set(names)) == len(names)
        assert all(names)


@every_task
def test_splits_follow_each_other(name: str) -> None:
    splits = splits_of(data_of(name))
    if name in SIMULATED:
        assert all(split.times is None for split in splits)
        for one, other in combinations(splits, 2):
            shared = {*map(tuple, one.outcome.tolist())} & {*map(tuple, other.outcome.tolist())}
            assert not shared
        return
    times = [split.times for split in splits if split.times is not None]
    assert [len(found) for found in times] == [len(split) for split in splits]
    assert (np.diff(np.concatenate(times)) > np.timedelta64(0)).all()
    assert data_of(name).attribution


@every_task
def test_data_are_the_same_every_time(name: str) -> None:
    for one, other in zip(tensors(data_of(name)), tensors(TASKS[name].data()), strict=True):
        assert torch.equal(one, other)


@every_task
def test_the_cost_decides_on_members(name: str) -> None:
    outcome, cost = data_of(name).train.outcome, TASKS[name].cost
    rows = torch.randint(len(outcome), (20, 50), generator=torch.Generator().manual_seed(0))
    members = outcome[rows].requires_grad_()  # (20, 50, D)
    action = optimal_action(cost, members)
    assert action.shape == (20, 1)
    assert ((action >= cost.lower) & (action <= cost.upper)).all()
    assert (action > cost.lower).any(), "a decision at the bound in every case is none"
    costs = cost(action, outcome[:20])
    assert costs.shape == (20,)
    costs.sum().backward()
    assert members.grad is not None
    assert members.grad.isfinite().all()
    assert members.grad.abs().sum() > 0


@every_task
def test_regions_are_apart_and_not_empty(name: str) -> None:
    masks = regions_of(name)
    assert masks
    for mask in masks.values():
        assert mask.dtype == torch.bool
        assert mask.shape == (len(data_of(name).test),)
        assert 0 < mask.sum() < len(mask)
    for one, other in combinations(masks.values(), 2):
        assert not (one & other).any()
    members = data_of(name).test.outcome[:6].reshape(2, 3, -1)
    assert all(mask(members).shape == (2, 3) for mask in TASKS[name].regions.values())


@every_task
def test_cost_parameters_change_the_cost_alone(name: str) -> None:
    task, data = TASKS[name], data_of(name)
    assert task.cost_parameters
    outcome = data.test.outcome
    action = torch.linspace(task.cost.lower, task.cost.upper, len(outcome))[:, None]
    for parameter in task.cost_parameters:
        other = replace(task, **{parameter: 0.7 * getattr(task, parameter)})
        assert other != task
        assert not torch.equal(other.cost(action, outcome), task.cost(action, outcome))
        for one, two in zip(tensors(data), tensors(other.data()), strict=True):
            assert torch.equal(one, two)
        for region, mask in other.regions.items():
            assert torch.equal(mask(outcome), regions_of(name)[region])


@every_task
@pytest.mark.parametrize("wrong", [0.0, -1.0, nan, "much", None, True])
def test_cost_parameters_are_checked(name: str, wrong: object) -> None:
    for parameter in TASKS[name].cost_parameters:
        with pytest.raises(StakesError, match=parameter):
            replace(TASKS[name], **{parameter: wrong})


@pytest.mark.parametrize("name", SIMULATED)
def test_no_action_beats_the_true_one(name: str) -> None:
    task, features = TASKS[name], data_of(name).test.features[:60]
    truth = task.truth(features)
    assert truth.action.shape == (60, 1)
    assert torch.equal(truth.action, task.true_action(features))
    assert torch.equal(truth.regret(truth.action), torch.zeros(60))
    for shift in (-0.1, -0.01, 0.01, 0.1):
        other = (truth.action + shift).clamp(task.cost.lower, task.cost.upper)
        assert (truth.regret(other) >= -1e-6).all()
        assert truth.regret(other).mean() > 0
        assert torch.equal(truth.regret(other), task.regret(features, other))


@pytest.mark.parametrize("name", SIMULATED)
def test_the_truth_is_what_is_drawn(name: str) -> None:
    task, features = TASKS[name], data_of(name).test.features[:8]
    members = task.draw_outcomes(features, 20_000, torch.Generator().manual_seed(0))
    truth = task.truth(features)
    torch.testing.assert_close(optimal_action(task.cost, members), truth.action, atol=0.02, rtol=0)
    for level in (0.2, 0.5, 0.8):
        action = torch.full((8, 1), level)
        drawn = task.cost(action, members.movedim(-2, 0)).mean(0)
        torch.testing.assert_close(drawn, truth.expected_cost(action), atol=0.02, rtol=0.03)


@pytest.mark.parametrize("name", SIMULATED)
def test_another_data_seed_gives_other_cases(name: str) -> None:
    for one, other in zip(tensors(data_of(name)), tensors(replace(TASKS[name], data_seed=1).data()), strict=True):
        assert one.shape == other.shape
        assert not torch.isclose(one, other).any(0).all()
