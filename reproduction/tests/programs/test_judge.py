"""Candidates are judged by the cost of their best actions."""

from dataclasses import replace

import numpy as np
import torch
from small_programs import small_problem
from torch import Tensor

import stakes
from reproduction.programs.problem import Actions, Forecast
from reproduction.programs.run import judge


def test_a_forecast_is_judged_by_its_best_actions() -> None:
    problem = small_problem()
    members = problem.test.outcome[:, None] + torch.tensor([-0.5, 0.0, 0.5])[:, None]
    judged = judge(problem, Forecast(None, members), "test")
    solution = stakes.solve_action(problem.cost, members)
    np.testing.assert_allclose(judged["cost"], problem.cost(solution.action, problem.test.outcome), rtol=1e-6)
    np.testing.assert_allclose(judged["expected_cost"], solution.expected_cost, rtol=1e-6)
    np.testing.assert_allclose(judged["energy_score"], stakes.energy_score(members, problem.test.outcome), rtol=1e-6)
    assert judged["certified"].all()


def test_validation_cases_are_not_scored_and_what_is_not_there_is_not_judged() -> None:
    problem = small_problem()
    forecast = Forecast(problem.validation.outcome[:, None], problem.test.outcome[:, None])
    assert np.isnan(judge(problem, forecast, "validation")["energy_score"]).all()
    assert judge(problem, Forecast(None, forecast.test), "validation") == {}


def test_actions_are_paid_as_they_are() -> None:
    def largest(action: Tensor, outcome: Tensor) -> Tensor:
        return action.amax(-1)

    problem = replace(small_problem(), measures={"largest": largest})
    action = problem.test.outcome + 1.0
    judged = judge(problem, Actions(None, action), "test")
    np.testing.assert_allclose(judged["cost"], 3.0, rtol=1e-5)  # three hours, one unit long each
    np.testing.assert_allclose(judged["largest"], action.amax(-1), rtol=1e-6)
    assert np.isnan(judged["expected_cost"]).all()
    assert np.isnan(judged["energy_score"]).all()
