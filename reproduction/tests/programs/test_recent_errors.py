"""Validation cases are never corrected by their own errors."""

from dataclasses import replace

import torch
from small_programs import EFFORT, small_problem

from reproduction.programs.candidates import halves, mended_members, recent_vectors
from reproduction.programs.problem import Forecast, Problem, RunEffort
from stakes.data.case_table import CaseTable


def with_outcome(problem: Problem, outcome: torch.Tensor) -> Problem:
    return replace(problem, validation=CaseTable(problem.validation.features, outcome))


def test_error_vectors_by_hand() -> None:
    problem = small_problem(validation=5)
    points = Forecast(problem.validation.outcome[:, None] - 1.0, problem.test.outcome[:, None])
    moved = with_outcome(problem, problem.validation.outcome + torch.arange(5.0)[:, None])  # errors 1, 2, 3, 4, 5
    recent = recent_vectors(moved, points, RunEffort(members=100))
    assert recent.validation is not None
    assert points.validation is not None
    of_test = recent.test - points.test
    of_validation = recent.validation - points.validation
    torch.testing.assert_close(of_test[0, :, 0], torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]))
    torch.testing.assert_close(of_validation[0, :, 0], torch.tensor([3.0, 5.0]))  # of the other half, two of three
    torch.testing.assert_close(of_validation[4, :, 0], torch.tensor([1.0, 2.0]))
    assert halves(5) == (slice(0, 2), slice(2, 5))


def test_no_more_vectors_than_wanted() -> None:
    problem = small_problem()
    points = Forecast(problem.validation.outcome[:, None], problem.test.outcome[:, None])
    assert recent_vectors(problem, points, EFFORT).test.shape == (40, EFFORT.members, 3)


def test_bias_and_spread_are_mended_by_the_other_half() -> None:
    problem = small_problem()
    generator = torch.Generator().manual_seed(0)

    def members(cases: CaseTable) -> torch.Tensor:
        return cases.outcome[:, None] - 2 + 0.1 * torch.randn(len(cases), 20, 3, generator=generator)

    forecast = Forecast(members(problem.validation), members(problem.test))
    corrected = mended_members(problem, forecast)
    assert corrected.validation is not None
    assert abs(float((corrected.test.mean(1) - problem.test.outcome).mean())) < 0.05
    assert abs(float((corrected.validation.mean(1) - problem.validation.outcome).mean())) < 0.05
    first, second = halves(len(problem.validation))
    outcome = problem.validation.outcome.clone()
    outcome[first] += 5.0  # what the first half errs by moves the second half alone
    moved = mended_members(with_outcome(problem, outcome), forecast).validation
    assert moved is not None
    torch.testing.assert_close(moved[first], corrected.validation[first])
    assert float((moved[second] - corrected.validation[second]).mean()) > 4
