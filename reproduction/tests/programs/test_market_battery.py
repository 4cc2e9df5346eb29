"""A battery in made-up markets."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from made_days import made_markets, made_prices
from small_programs import EFFORT

from reproduction.programs import market_battery
from reproduction.programs.battery import PRICE_TABLE, price_days
from reproduction.programs.market_battery import (
    MARKET_PLANS,
    MARKETS,
    MarketProblem,
    by_market,
    market_cases,
    market_days,
    market_members,
    market_problem,
)
from reproduction.programs.problem import chronological_cases
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


def test_all_methods_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Risk-averse; the others share every step but the solver, which `test_battery` runs."""
    monkeypatch.setattr(market_battery, "MARKETS", MARKETS[:2])
    made_markets(tmp_path, days=160)
    problem = market_problem(str(tmp_path), averse=True)
    problem = replace(problem, test=problem.test.rows(np.arange(16)), eight=(*problem.eight[:2], problem.eight[2][:16]))
    effort = replace(EFFORT, seeds=1, members=50, epochs=1, decision_members=50)
    about = compared(run_problem(MARKET_PLANS[True], problem, tmp_path, effort))
    rows = {row["name"]: row for row in about["methods"]}
    assert list(rows) == ["mean", "eight", "corrected", "errors", "linear", "decision"]
    for row in rows.values():
        assert row["cost"] >= about["foresight_cost"] - 1e-6


def test_prices_are_in_units_of_the_mean_of_the_days_that_teach(tmp_path: Path) -> None:
    table = made_markets(tmp_path)
    days = market_days(str(tmp_path))
    assert days.prices.shape == (16, 5, 24)
    assert days.forecasts.shape == (16, 5, 8, 24)
    np.testing.assert_allclose(days.prices[:6].mean((0, 2)), 1.0)  # 3 of 8 days teach
    french = table[table["market"] == "FR"]
    np.testing.assert_allclose(days.units[3], french["price"][: 6 * 24].mean())
    np.testing.assert_allclose(days.prices[7, 3] * days.units[3], french["price"][7 * 24 : 8 * 24])
    errors = (days.forecasts - days.prices[:, :, None]) * days.units[:, None, None]
    np.testing.assert_allclose(errors.mean((0, 1, 3)), np.arange(-4, 4) / 10, atol=1e-12)


def test_markets_take_turns(tmp_path: Path) -> None:
    made_markets(tmp_path)
    days = market_days(str(tmp_path))
    parts, members = market_cases(days), market_members(days)
    assert [len(part) for part in parts] == [30, 10, 40]
    assert [tuple(each.shape) for each in members] == [(30, 8, 24), (10, 8, 24), (40, 8, 24)]
    test = parts[2]
    np.testing.assert_allclose(test.outcome[2 * 5 + 4].numpy(), days.prices[10, MARKETS.index("DE")], rtol=1e-6)
    row = test.features[2 * 5 + 4].numpy()
    np.testing.assert_allclose(row[:24], days.forecasts[10, 4, :4].mean(0), rtol=1e-6)
    np.testing.assert_allclose(row[24:48], days.forecasts[10, 4, 4:].mean(0), rtol=1e-6)
    assert row[48:].tolist() == [0, 0, 0, 0, 1]
    np.testing.assert_allclose(members[2][14].numpy(), days.forecasts[10, 4], rtol=1e-6)
    assert test.times is not None
    assert test.times[14] == np.datetime64("2016-01-14")


def test_features_by_hand(tmp_path: Path) -> None:
    made_prices(tmp_path)
    days = price_days(str(tmp_path))
    assert days.features.shape == (13, 6 * 24 + 9)
    assert days.days[0] == np.datetime64("2011-01-10")  # a Monday, the eighth day
    hour = np.arange(24)
    np.testing.assert_allclose(days.prices[0], 37 + hour)
    parts = days.features[0, :144].reshape(6, 24)
    np.testing.assert_allclose(parts[0], 36 + hour)  # the day before
    np.testing.assert_allclose(parts[1], 30 + hour)  # a week before
    np.testing.assert_allclose(parts[2], 90 + hour)  # GW
    np.testing.assert_allclose(parts[3], (90 + hour) ** 2)
    np.testing.assert_allclose(parts[4:, 0], [47, 47**2])
    angle = 2 * np.pi * 9 / 365.25
    np.testing.assert_allclose(days.features[0, 144:], [1, 0, 0, 0, 0, 0, 0, np.cos(angle), np.sin(angle)])


def test_a_temperature_that_is_missing_lies_between_its_neighbours(tmp_path: Path) -> None:
    table = made_prices(tmp_path)
    table.loc[24 * 8 + 5, "temp_dca_F"] = np.nan
    table.to_csv(tmp_path / PRICE_TABLE, index=False, compression="gzip")
    assert price_days(str(tmp_path)).features[1, 4 * 24 + 5] == 48


def test_parts_are_in_the_order_of_time(tmp_path: Path) -> None:
    made_prices(tmp_path, 57)
    parts = chronological_cases(*price_days(str(tmp_path)))
    assert [len(part) for part in parts] == [32, 8, 10]
    times = np.concatenate([part.times for part in parts if part.times is not None])
    assert (np.diff(times) == np.timedelta64(1, "D")).all()
