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
from reproduction.programs.wind_battery import COST, WIND_PLANS, decided, shuffled, wind_problem


@pytest.fixture
def problem(tmp_path: Path) -> Problem:
    made_wind(tmp_path, first="2013-02-20", days=136)
    whole = wind_problem(str(tmp_path))
    return replace(whole, validation=whole.validation.rows(np.arange(6)), test=whole.test.rows(np.arange(3)))


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
    few = replace(EFFORT, seeds=1, members=4, epochs=1, decision_members=4)
    small = replace(problem, train=problem.train.rows(np.arange(16)))
    about = compared(run_problem(plan, small, tmp_path, few))
    assert [row["name"] for row in about["methods"]] == [method.name for method in plan.methods]
    for row in about["methods"]:
        assert row["cost"] >= about["foresight_cost"] - 1e-6
        assert row["causal_cost"] >= row["cost"] - 1e-6
        assert row["certified"] == 1
    assert about["methods"][0]["energy_score"] is None  # of the mean alone
