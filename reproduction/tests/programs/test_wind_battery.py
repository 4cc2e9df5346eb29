"""Commitments of a made-up wind record, with a battery."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from made_days import made_wind
from small_programs import EFFORT

import stakes
from reproduction.programs.problem import Forecast, Problem
from reproduction.programs.report import compared
from reproduction.programs.run import run_problem
from reproduction.programs.wind_battery import (
    COST,
    WIND_PLANS,
    decided,
    power_by_speed,
    shuffled,
    wind_cases,
    wind_days,
    wind_problem,
)


@pytest.fixture
def problem(tmp_path: Path) -> Problem:
    made_wind(tmp_path, first="2013-02-20", days=136)
    whole = wind_problem(str(tmp_path))
    return replace(whole, validation=whole.validation.rows(np.arange(4)), test=whole.test.rows(np.arange(3)))


def test_commitments_are_those_of_the_library(problem: Problem) -> None:
    members = problem.test.outcome[:, None] + 0.05 * torch.randn(3, 6, 24, generator=torch.Generator().manual_seed(0))
    ours = decided(COST, Forecast(None, members), problem.test.outcome)
    solution = stakes.solve_action(COST, members.double())
    torch.testing.assert_close(ours.test, solution.action, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(ours.known["expected_cost"], solution.expected_cost, rtol=1e-6, atol=1e-6)
    assert bool(ours.known["certified"].all())
    torch.testing.assert_close(ours.known["energy_score"], stakes.energy_score(members, problem.test.outcome))
    assert "energy_score" not in decided(COST, Forecast(None, members[:, :1]), problem.test.outcome).known


def test_a_battery_that_knows_the_hour_alone_never_pays_less(problem: Problem) -> None:
    outcome = problem.test.outcome.double()
    for moved in (-0.1, 0.0, 0.1):
        action = (outcome.roll(1, -1) + moved).clamp(min=0)
        assert bool((problem.measures["causal_cost"](action, outcome) >= COST(action, outcome) - 1e-6).all())


def test_shuffling_moves_members_within_their_hour(problem: Problem) -> None:
    generator = torch.Generator().manual_seed(0)
    validation, test = (
        part.outcome[:, None] + 0.1 * torch.randn(len(part), 8, 24, generator=generator)
        for part in (problem.validation, problem.test)
    )
    mixed = shuffled(problem, Forecast(validation, test)).test
    torch.testing.assert_close(mixed.sort(1).values, test.double().sort(1).values)
    assert not torch.equal(mixed, test.double())


def test_all_methods_end_to_end(problem: Problem, tmp_path: Path) -> None:
    (plan,) = WIND_PLANS
    few = replace(EFFORT, seeds=1, members=3, epochs=1, decision_members=3)
    small = replace(problem, train=problem.train.rows(np.arange(12)))
    about = compared(run_problem(plan, small, tmp_path, few))
    assert [row["name"] for row in about["methods"]] == [method.name for method in plan.methods]
    for row in about["methods"]:
        assert row["cost"] >= about["foresight_cost"] - 1e-6
        assert row["causal_cost"] >= row["cost"] - 1e-6
        assert row["certified"] == 1
    assert about["methods"][0]["energy_score"] is None  # of the mean alone


def test_features_by_hand(tmp_path: Path) -> None:
    table = made_wind(tmp_path)
    days = wind_days(str(tmp_path))
    assert days.features.shape == (104, 27)
    assert days.days[0] == np.datetime64("2013-03-26")
    power = table.filter(like="power_").to_numpy().reshape(-1, 24, 10)
    np.testing.assert_allclose(days.power, np.nanmean(power, axis=2)[1:])  # the farm that does not report is left out
    speed = np.hypot(table["u100_z01"], table["v100_z01"]).to_numpy()[:, None]
    known = np.arange(len(speed)) < 7 * 24  # to the end of March
    farms = [power_by_speed(speed, table[[f"power_z{farm:02d}"]].to_numpy(), known) for farm in range(1, 11)]
    meant = np.mean(farms, axis=0).reshape(-1, 24)
    np.testing.assert_allclose(days.features[:, :24], meant[1:])
    np.testing.assert_allclose(days.features[:, 24], (np.nanmean(power, axis=2) - meant)[:-1, -1])
    np.testing.assert_allclose(days.features[:, 25] ** 2 + days.features[:, 26] ** 2, 1.0)


def test_a_curve_is_the_mean_power_of_a_class_and_a_line_between_classes() -> None:
    speed = np.repeat([[4.0], [6.0], [10.0]], 20, axis=0)
    power = np.repeat([[0.1], [0.3], [0.9]], 20, axis=0)
    known = np.arange(60) < 40  # nothing of 10 m/s is known
    meant = power_by_speed(np.vstack([speed, [[5.0]]]), np.vstack([power, [[0.0]]]), np.append(known, False))
    np.testing.assert_allclose(meant[[0, 20, 40, 60], 0], [0.1, 0.3, 0.3, 0.2])


def test_parts_by_their_dates(tmp_path: Path) -> None:
    made_wind(tmp_path)
    train, validation, test = wind_cases(wind_days(str(tmp_path)))
    assert train.times is not None
    assert test.times is not None
    assert (str(train.times[-1]), str(test.times[0])) == ("2013-03-31", "2013-07-01")
    assert [len(part) for part in (train, validation, test)] == [6, 91, 7]
