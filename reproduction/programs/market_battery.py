"""A battery in five electricity markets whose prices eight models forecast: a ready ensemble."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reproduction.programs.battery import LEVEL, mean_members, mean_schedules
from reproduction.programs.candidates import FineTuning, finetuned_candidates, weight_name
from reproduction.programs.problem import Candidates, CandidateSource, Forecast, Method, Plan, Problem, RunEffort
from reproduction.tables import read_reference_table
from stakes.actions.cvar import CVaRCost
from stakes.costs.cost import Cost
from stakes.data.case_table import CaseTable
from stakes.errors import TableError
from stakes.forecasting.corrections import Correction
from stakes.programs.storage import ArbitrageCost

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
    """The days of all markets, D of each."""

    prices: Floats  # hourly prices (D, markets, 24), in units of the mean price of each market in the days that teach
    forecasts: Floats  # the eight forecasts of them, (D, markets, 8, 24)
    units: Floats  # the unit of each market, in its currency per MWh, (markets,)
    days: NDArray[np.datetime64]  # the date of each day in each market, (D, markets)


def market_days(folder: str | None) -> MarketDays:
    """The days of the table."""
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


def market_cases(days: MarketDays) -> tuple[CaseTable, CaseTable, CaseTable]:
    """Training, validation and test cases."""
    networks, linear = days.forecasts[:, :, :4].mean(2), days.forecasts[:, :, 4:].mean(2)
    which = np.broadcast_to(np.eye(len(MARKETS)), (len(networks), len(MARKETS), len(MARKETS)))
    features, prices = (_flat(values) for values in (np.concatenate([networks, linear, which], -1), days.prices))
    times = days.days.reshape(-1)
    first, second, third = (CaseTable(features[rows], prices[rows], times[rows]) for rows in _rows(len(networks)))
    return first, second, third


def market_members(days: MarketDays) -> tuple[Tensor, Tensor, Tensor]:
    """The eight forecasts as members (n, 8, 24) of the training, validation and test cases."""
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


BATTERY = ArbitrageCost(power=0.5, energy=1.0, efficiency=0.9, quadratic=0.3)
"""The battery of the single market, with prices in units of a market's mean price."""

_MEMBERS = 50
_COPIES = 7  # of each of the eight, which changes no weight: a tail of fewer than 5 members is warned of
_TUNING = FineTuning(weights=(0.5,), members=50, batch=64, epochs=2)
_TEXT = (
    "A battery of 1 MWh is scheduled against the prices of the next day in five markets (Nord Pool, PJM, Belgium, "
    "France, Germany), of which eight models' forecasts are at hand. Prices and costs are in units of each market's "
    "mean price in the days to learn from, and all markets count alike. At most 0.5 MW, 90 % come back, and wear costs "
    "0.15 of that price times the square of the power of each hour. "
)
_MEAN_TEXT = "What counts is the mean cost of a day, negative where the battery earns: that of the mean price alone."
_RISK_TEXT = (
    "What counts is the mean cost of the worst tenth of what the forecast holds to be possible: the cost is the charge "
    "of `CVaRCost`, `plain cost` the cost of a day, `worst tenth` its mean over the worst tenth of the test days."
)
_ATTRIBUTION = "Prices and forecasts of five markets: Lago et al. (2021), Applied Energy 293, 116983."


@dataclass(frozen=True, eq=False)
class MarketProblem(Problem):
    """The schedules, with the forecasts that are at hand."""

    eight: tuple[Tensor, ...] = ()  # the eight forecasts (n, 8, 24) of the cases of each part; the markets take turns

    @property
    def digest(self) -> str:
        """What tells this problem from another, the forecasts at hand among it."""
        digest = hashlib.sha256(super().digest.encode())
        for part in self.eight:
            digest.update(part.numpy().tobytes())
        return digest.hexdigest()


def market_problem(folder: str | None = None, *, averse: bool = False) -> MarketProblem:
    """The schedules."""
    days = market_days(folder)
    train, validation, test = market_cases(days)
    cost: Cost = CVaRCost(BATTERY, LEVEL) if averse else BATTERY
    return MarketProblem(
        name="markets_risk" if averse else "markets",
        title=f"A battery in five markets with eight forecasts{', averse to risk' if averse else ''}",
        text=_TEXT + (_RISK_TEXT if averse else _MEAN_TEXT),
        unit="mean prices of a MWh, a day",
        cost=cost,
        train=train,
        validation=validation,
        test=test,
        block=7 * len(MARKETS),
        gap=len(MARKETS),
        attribution=_ATTRIBUTION,
        measures={"plain_cost": cost.plain_cost} if isinstance(cost, CVaRCost) else {},
        eight=market_members(days),
    )


def by_market(problem: MarketProblem, learn: Callable[[Tensor, Tensor], Callable[[Tensor], Tensor]]) -> Forecast:
    """Members of validation and test cases, corrected market by market by what the days before them teach."""
    seen = [part.outcome for part in problem.parts.values()]
    made = []
    for part in (1, 2):
        past, outcome, new = torch.cat(problem.eight[:part]), torch.cat(seen[:part]), problem.eight[part]
        turns = [slice(market, None, len(MARKETS)) for market in range(len(MARKETS))]
        markets = [learn(past[turn], outcome[turn])(new[turn]) for turn in turns]
        made.append(torch.stack(markets, 1).flatten(0, 1))
    return Forecast(*made)


def _with_errors(past: Tensor, outcome: Tensor) -> Callable[[Tensor], Tensor]:
    """The mean of the eight with its newest error vectors."""
    errors = (outcome - past.mean(1))[-_MEMBERS:]
    return lambda new: new.mean(1, keepdim=True) + errors


def _corrected(past: Tensor, outcome: Tensor) -> Callable[[Tensor], Tensor]:
    """The eight, their bias and spread mended, put together in the order of past errors."""
    correction = Correction.fit(past.double().numpy(), outcome.double().numpy(), dependence="errors")
    return lambda new: torch.from_numpy(np.asarray(correction.apply(new.numpy()))).repeat(1, _COPIES, 1)


def _eight(problem: Problem, seed: int, effort: RunEffort) -> Candidates:
    """The eight forecasts: their mean, as members, corrected, and their mean with its past errors."""
    assert isinstance(problem, MarketProblem)
    members = Forecast(*(part.repeat(1, _COPIES, 1) for part in problem.eight[1:]))
    errors = by_market(problem, _with_errors)
    return {
        "mean": mean_schedules(problem, errors) if isinstance(problem.cost, CVaRCost) else mean_members(members),
        "eight": members,
        "corrected": by_market(problem, _corrected),
        "errors": errors,
    }


def market_plan(averse: bool) -> Plan:
    """All that is compared."""
    tuned = tuple(weight_name("linear", weight) for weight in (0.0, *_TUNING.weights))
    return Plan(
        "markets_risk" if averse else "markets",
        partial(market_problem, averse=averse),
        (
            CandidateSource("eight", _eight, ("mean", "eight", "corrected", "errors"), seeded=False),
            CandidateSource(
                "linear", partial(finetuned_candidates, name="linear", members=_MEMBERS, tuning=_TUNING), tuned
            ),
        ),
        (
            Method("mean", "the eight, schedule of their mean", ("mean",)),
            Method("eight", "the eight as members", ("eight",)),
            Method("corrected", "the eight, corrected by past errors", ("corrected",)),
            Method("errors", "their mean + its newest error vectors", ("errors",)),
            Method("linear", "linear start, energy score", tuned[:1], ours=True),
            Method("decision", "linear start, energy score + decision", tuned, ours=True),
        ),
        "errors" if averse else "mean",
        (("decision", "linear"), ("linear", "corrected"), ("decision", "errors"), ("errors", "mean")),
    )


MARKET_PLANS = (market_plan(averse=False), market_plan(averse=True))
"""The schedules for their mean cost, and for that of the worst days."""
