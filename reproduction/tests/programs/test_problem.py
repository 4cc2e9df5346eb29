"""Problems and how much is done about them."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from small_programs import small_problem

from stakes.data.case_table import CaseTable
from stakes.errors import SettingError
from stakes.programs.schedules import ScheduleCost


def test_parts_that_do_not_belong_together() -> None:
    problem = small_problem()
    wider = CaseTable(torch.zeros(5, 3), torch.zeros(5, 3))
    with pytest.raises(SettingError, match="the parts of small must have the same features and outcomes"):
        replace(problem, test=wider)


def test_all_cases_before_the_test() -> None:
    problem = small_problem()
    before = problem.before_test
    assert len(before) == len(problem.train) + len(problem.validation)
    assert torch.equal(before.outcome[: len(problem.train)], problem.train.outcome)
    assert torch.equal(before.features[-1], problem.validation.features[-1])


def test_the_digest_changes_with_numbers_and_cost() -> None:
    problem = small_problem()
    other: Any = ScheduleCost(8.0, 1.0)
    moved = CaseTable(problem.test.features, problem.test.outcome + 1e-3)
    digests = {
        problem.digest,
        replace(problem, test=moved).digest,
        replace(problem, cost=other).digest,
        replace(problem, gap=2).digest,
    }
    assert len(digests) == 4
    assert small_problem().digest == problem.digest
