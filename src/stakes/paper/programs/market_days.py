"""Days of five electricity markets with eight forecasts of their prices (Lago et al. 2021).

A case is a day of 24 prices in one market, in units of that market's mean price in the days to learn from, so that one
battery and one forecast serve all five. What is known of it: the mean of four neural networks' forecasts and that of
four linear models' for each hour, and which market it is. Cases go by the number of the day in its market's record, the
five markets of a day beside each other: the first year teaches, its last quarter chooses, and the second year is the
test.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stakes.data.cases import Cases
from stakes.data.records.reference_tables import read_reference_table
from stakes.errors import TableError

__all__ = ["MARKETS", "MARKET_TABLE", "MarketDays", "market_cases", "market_days", "market_members"]

MARKET_TABLE = "prices_5markets_hourly_8models_2years.csv.gz"
"""The file of prices and forecasts, which is not shipped."""

MARKETS = ("NP", "PJM", "BE", "FR", "DE")
"""Nord Pool, PJM, Belgium, France, Germany."""

_NETWORKS = tuple(f"dnn_{number}" for number in range(1, 5))
_LINEAR = tuple(f"lear_{days}" for days in (56, 84, 1092, 1456))
_HOURS = 24
_LEARNED, _KNOWN = 3 / 8, 1 / 2  # of the days: those that teach, and those before the test

Floats = NDArray[np.float64]


class MarketDays(NamedTuple):
    """The days of all markets, D of each.

    Attributes:
        prices: Hourly prices (D, markets, 24), in units of the mean price of each market in the days that teach.
        forecasts: The eight forecasts of them, (D, markets, 8, 24).
        units: The unit of each market, in its currency per MWh, (markets,).
        days: The date of each day in each market, (D, markets).
    """

    prices: Floats
    forecasts: Floats
    units: Floats
    days: NDArray[np.datetime64]


def market_days(folder: str | None) -> MarketDays:
    """The days of the table.

    Args:
        folder: The folder of the table; None for the current one.
    """
    table = read_reference_table(MARKET_TABLE, folder)
    for column in ("time", "market", "price", *_NETWORKS, *_LINEAR):
        if column not in table:
            raise TableError(f"{MARKET_TABLE} must have the column {column}, got {list(table.columns)}")
    markets = [table[table["market"] == market] for market in MARKETS]
    lengths = {len(market) for market in markets}
    if len(lengths) > 1 or not (length := lengths.pop()) or length % _HOURS:
        raise TableError(f"{MARKET_TABLE} must have as many whole days of each of {', '.join(MARKETS)}")

    def by_day(*columns: str) -> Floats:
        values = [market[list(columns)].to_numpy(np.float64).reshape(-1, _HOURS, len(columns)) for market in markets]
        return np.stack(values, axis=1).swapaxes(-1, -2)  # (D, markets, columns, 24)

    prices = by_day("price")[:, :, 0]
    units = prices[: _counts(len(prices))[0]].mean((0, 2))
    dates = [market["time"].to_numpy("datetime64[D]")[::_HOURS] for market in markets]
    return MarketDays(
        prices / units[:, None],
        by_day(*_NETWORKS, *_LINEAR) / units[:, None, None],
        units,
        np.stack(dates, axis=1),
    )


def market_cases(days: MarketDays) -> tuple[Cases, Cases, Cases]:
    """Training, validation and test cases.

    Args:
        days: All days.
    """
    networks, linear = days.forecasts[:, :, :4].mean(2), days.forecasts[:, :, 4:].mean(2)
    which = np.broadcast_to(np.eye(len(MARKETS)), (len(networks), len(MARKETS), len(MARKETS)))
    features, prices = (_flat(values) for values in (np.concatenate([networks, linear, which], -1), days.prices))
    times = days.days.reshape(-1)
    first, second, third = (Cases(features[rows], prices[rows], times[rows]) for rows in _rows(len(networks)))
    return first, second, third


def market_members(days: MarketDays) -> tuple[Tensor, Tensor, Tensor]:
    """The eight forecasts as members (n, 8, 24) of the training, validation and test cases.

    Args:
        days: All days.
    """
    members = _flat(days.forecasts)
    first, second, third = (members[rows] for rows in _rows(len(days.forecasts)))
    return first, second, third


def _flat(values: Floats) -> Tensor:
    return torch.tensor(values.reshape(-1, *values.shape[2:]), dtype=torch.float32)


def _counts(days: int) -> tuple[int, int]:
    return int(_LEARNED * days), int(_KNOWN * days)


def _rows(days: int) -> tuple[slice, slice, slice]:
    """The cases of each part; every day has one of each market."""
    learned, known = (len(MARKETS) * count for count in _counts(days))
    return slice(0, learned), slice(learned, known), slice(known, len(MARKETS) * days)
