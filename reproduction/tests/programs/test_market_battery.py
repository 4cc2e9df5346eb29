"""A battery in made-up markets."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from made_days import made_markets
from small_programs import EFFORT

from reproduction.programs.market_battery import MARKET_PLANS, MarketProblem, by_market, market_problem
from reproduction.programs.report import compared
from reproduction.programs.run import run_problem


def test_each_market_learns_from_its_own_past(tmp_path: Path) -> None:
    made_markets(tmp_path)
    problem = market_problem(str(tmp_path))
    assert isinstance(problem, MarketProblem)
    told: list[tuple[int, int]] = []

    def learn(past: torch.Tensor, outcome: torch.Tensor):  # type: ignore[no-untyped-def]
        told.append((len(past), len(outcome)))
        level = outcome.mean()
        return lambda new: new[:, :1] * 0 + level

    made = by_market(problem, learn)
    assert told == 5 * [(6, 6)] + 5 * [(8, 8)]  # days before the validation, and before the test
    assert made.validation is not None
    assert made.validation.shape == (10, 1, 24)
    known = torch.cat([problem.train.outcome, problem.validation.outcome])
    torch.testing.assert_close(made.test[::5, 0, 0], known[::5].mean().expand(8))  # the first market's turns


@pytest.mark.parametrize("averse", [False, True])
def test_all_methods_end_to_end(averse: bool, tmp_path: Path) -> None:
    made_markets(tmp_path, days=160)
    problem = market_problem(str(tmp_path), averse=averse)
    problem = replace(problem, test=problem.test.rows(np.arange(40)), eight=(*problem.eight[:2], problem.eight[2][:40]))
    effort = replace(EFFORT, seeds=1, members=50, epochs=1, decision_members=50)
    about = compared(run_problem(MARKET_PLANS[averse], problem, tmp_path, effort))
    rows = {row["name"]: row for row in about["methods"]}
    assert list(rows) == ["mean", "eight", "corrected", "errors", "linear", "decision"]
    for row in rows.values():
        assert row["cost"] >= about["foresight_cost"] - 1e-6
    if not averse:  # which the mean of the prices alone decides
        assert rows["eight"]["cost"] == pytest.approx(rows["mean"]["cost"], rel=1e-5)
