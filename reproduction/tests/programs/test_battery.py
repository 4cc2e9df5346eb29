"""A battery against made-up prices."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from made_days import made_prices
from small_programs import EFFORT

import stakes
from reproduction.programs.battery import BATTERY_PLANS, battery_problem, mean_members, mean_schedules, schedule_of_mean
from reproduction.programs.problem import Actions, Forecast, Problem
from reproduction.programs.report import compared
from reproduction.programs.run import judge, run_problem
from stakes.data.case_table import CaseTable


@pytest.mark.parametrize("averse", [False, True])
def test_all_methods_end_to_end(averse: bool, tmp_path: Path) -> None:
    table = made_prices(tmp_path, 640)  # halves of the validation days have 50, which a tail of a tenth needs
    random = np.random.default_rng(0)
    table["pjm_da_price"] += 5 * random.normal(size=len(table))
    table.to_csv(tmp_path / "donti_pjm_price_load_hourly_2008_2016.csv.gz", index=False, compression="gzip")
    problem = battery_problem(str(tmp_path), averse=averse)
    problem = replace(problem, train=problem.train.rows(np.arange(60)), test=problem.test.rows(np.arange(8)))
    effort = replace(EFFORT, seeds=1, members=50, epochs=1, decision_members=50)
    about = compared(run_problem(BATTERY_PLANS[averse], problem, tmp_path, effort))
    rows = {row["name"]: row for row in about["methods"]}
    assert list(rows) == ["mean", "ridge", "ridge_train", "ridge_recent", "linear", "decision"]
    for row in rows.values():
        assert row["cost"] >= about["foresight_cost"] - 1e-6
    assert about["measures"] == (["plain_cost", "worst_tenth"] if averse else [])
    if averse:
        assert all(row["worst_tenth"] >= row["plain_cost"] for row in rows.values())
    else:  # which the mean of the prices alone decides
        assert rows["mean"]["cost"] == pytest.approx(rows["ridge"]["cost"], rel=1e-5)


BATTERY = stakes.ArbitrageCost(power=1.0, energy=1.0, efficiency=0.9, quadratic=0.5)
PRICES = torch.tensor([[5.0, 1.0, 9.0], [2.0, 8.0, 4.0]])


def problem(cost: stakes.Cost) -> Problem:
    cases = CaseTable(torch.zeros(2, 1), PRICES)
    return Problem("small", "Small", "Three hours.", "EUR", cost, cases, cases, cases)


def scattered(members: int = 60) -> Forecast:
    noise = torch.randn(2, members, 3, generator=torch.Generator().manual_seed(0))
    return Forecast(None, PRICES[:, None] + noise - noise.mean(1, keepdim=True))


def test_for_the_mean_cost_scenarios_decide_as_their_mean_does() -> None:
    about, forecast = problem(BATTERY), scattered()
    ours = mean_schedules(about, forecast)
    assert isinstance(ours, Forecast)
    assert ours.test.shape == (2, 1, 3)
    torch.testing.assert_close(ours.test, mean_members(forecast).test)
    paid = [judge(about, each, "test")["cost"] for each in (ours, forecast)]
    torch.testing.assert_close(torch.from_numpy(paid[0]), torch.from_numpy(paid[1]), rtol=1e-6, atol=1e-6)


def test_for_the_worst_days_the_mean_has_the_threshold_of_its_members() -> None:
    averse = stakes.CVaRCost(BATTERY, level=0.9)
    about, forecast = problem(averse), scattered()
    ours = mean_schedules(about, forecast)
    assert isinstance(ours, Actions)
    assert ours.validation is None
    schedule, threshold = ours.test[:, :-1], ours.test[:, -1]
    torch.testing.assert_close(schedule, stakes.optimal_action(BATTERY, mean_members(forecast).test))
    paid = BATTERY(schedule, forecast.test.movedim(1, 0)).sort(0).values
    torch.testing.assert_close(threshold, paid[53].to(threshold))  # 54 of 60 cost as much at most
    expected = averse(ours.test, forecast.test.movedim(1, 0)).mean(0)
    best = stakes.solve_action(averse, forecast.test).expected_cost
    assert bool((expected >= best - 1e-5).all())


def test_without_any_spread_scenarios_are_the_deterministic_schedule() -> None:
    averse = stakes.CVaRCost(BATTERY, level=0.9)
    alike = PRICES[:, None].expand(2, 50, 3)
    solved = stakes.optimal_action(averse, alike)
    torch.testing.assert_close(schedule_of_mean(averse, alike), solved, rtol=1e-4, atol=1e-4)
