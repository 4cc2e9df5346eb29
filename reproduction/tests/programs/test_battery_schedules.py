"""Schedules for the mean of a forecast, with and without risk."""

import torch

import stakes
from reproduction.programs.battery import mean_members, mean_schedules, schedule_of_mean
from reproduction.programs.problem import Actions, Forecast, Problem
from reproduction.programs.run import judge
from stakes.data.case_table import CaseTable

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
