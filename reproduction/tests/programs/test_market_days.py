"""Days of five made-up markets, and their features by hand."""

from pathlib import Path

import numpy as np
import pytest
from made_days import made_markets

from reproduction.programs.market_battery import MARKET_TABLE, MARKETS, market_cases, market_days, market_members
from stakes.errors import TableError


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


@pytest.mark.parametrize(("lost", "told"), [("lear_84", "must have the column lear_84"), (None, "as many whole days")])
def test_tables_that_do_not_fit(tmp_path: Path, lost: str | None, told: str) -> None:
    table = made_markets(tmp_path)
    table = table[table["market"] != "DE"] if lost is None else table.drop(columns=lost)
    table.to_csv(tmp_path / MARKET_TABLE, index=False, compression="gzip")
    with pytest.raises(TableError, match=told):
        market_days(str(tmp_path))
