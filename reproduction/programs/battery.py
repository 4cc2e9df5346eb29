"""A battery against the prices of the next day, for its mean cost and for the cost of its worst days."""

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reproduction.programs.candidates import (
    RIDGE_CANDIDATES,
    FineTuning,
    finetuned_candidates,
    recent_name,
    ridge_candidates,
    weight_name,
)
from reproduction.programs.problem import (
    Actions,
    Candidates,
    CandidateSource,
    Forecast,
    Method,
    Plan,
    Problem,
    RunEffort,
    chronological_cases,
)
from reproduction.tables import read_reference_table
from stakes.actions.cvar import CVaRCost
from stakes.actions.solve import optimal_action
from stakes.costs.cost import Cost
from stakes.errors import TableError
from stakes.programs.storage import ArbitrageCost

if TYPE_CHECKING:
    import pandas as pd


def mean_schedules(problem: Problem, forecast: Forecast) -> Forecast | Actions:
    """The schedules for the members' mean; where risk counts, with the threshold that their members give them."""
    cost = problem.cost
    if not isinstance(cost, CVaRCost):
        return mean_members(forecast)
    validation, test = (None if part is None else schedule_of_mean(cost, part) for part in forecast)
    return Actions(validation, torch.as_tensor(test))


def mean_members(forecast: Forecast) -> Forecast:
    """The mean as a single member."""
    validation, test = (None if part is None else part.mean(1, keepdim=True) for part in forecast)
    return Forecast(validation, torch.as_tensor(test))


def schedule_of_mean(cost: CVaRCost, members: Tensor) -> Tensor:
    """The schedule for the members' mean, and its threshold, the level's quantile of its costs, (n, A + 1)."""
    schedule = optimal_action(cost.cost, members.mean(1, keepdim=True))
    paid = cost.cost(schedule, members.movedim(1, 0)).sort(0).values  # (M, n)
    place = math.ceil(cost.level * len(paid) * (1 - 1e-12)) - 1
    return torch.cat([schedule, paid[place, :, None].to(schedule)], -1)


PRICE_TABLE = "donti_pjm_price_load_hourly_2008_2016.csv.gz"
"""The file of the prices, which is not shipped."""

_TIME = "time_local_eastern"
_PRICE, _LOAD, _HEAT = "pjm_da_price", "pjm_load_forecast", "temp_dca_F"
_HOURS, _WEEK, _YEAR = 24, 7, 365.25
_LOAD_UNIT = 1000.0  # MW in a GW

Floats = NDArray[np.float64]


class PriceDays(NamedTuple):
    """Days whose week before is there."""

    features: Floats  # what is known of each day, (N, 153)
    prices: Floats  # its hourly prices in USD per MWh, (N, 24)
    days: NDArray[np.datetime64]  # its date, (N,)


def price_days(folder: str | None) -> PriceDays:
    """The days of the table with their features."""
    table = read_reference_table(PRICE_TABLE, folder, _TIME)
    for column in ("time", _PRICE, _LOAD, _HEAT):
        if column not in table:
            raise TableError(f"{PRICE_TABLE} must have the column {column}, got {list(table.columns)}")
    table = table.dropna(subset=[_PRICE, _LOAD])
    days = table["time"].to_numpy("datetime64[D]")
    whole = len(days) % _HOURS == 0 and len(days) > _WEEK * _HOURS
    grid = days.reshape(-1, _HOURS) if whole else np.empty((0, 1), "datetime64[D]")
    if not len(grid) or (grid != grid[:, :1]).any() or (np.diff(grid[:, 0]) != np.timedelta64(1, "D")).any():
        raise TableError(f"{PRICE_TABLE} must have whole days of prices without a gap, more than a week of them")
    prices, load, heat = (_by_day(table, column) for column in (_PRICE, _LOAD, _HEAT))
    load = load / _LOAD_UNIT
    rows, dates = slice(_WEEK, None), grid[_WEEK:, 0]
    features = [prices[_WEEK - 1 : -1], prices[:-_WEEK], load[rows], load[rows] ** 2, heat[rows], heat[rows] ** 2]
    return PriceDays(np.concatenate([*features, _calendar(dates)], axis=1), prices[rows], dates)


def _calendar(days: NDArray[np.datetime64]) -> Floats:
    """The day of the week, and the day of the year as a wave, (N, 9)."""
    weekday = (days.astype(np.int64) + 3) % _WEEK  # day 0, 1970-01-01, was a Thursday
    angle = 2 * np.pi * (days - days.astype("datetime64[Y]")).astype(np.float64) / _YEAR
    return np.column_stack([np.eye(_WEEK)[weekday], np.cos(angle), np.sin(angle)])


def _by_day(table: "pd.DataFrame", column: str) -> Floats:
    """Days by hours; a temperature that is missing lies on the line between its neighbours."""
    values: Floats = table[column].interpolate(limit_direction="both").to_numpy(np.float64)
    return values.reshape(-1, _HOURS)


BATTERY = ArbitrageCost(power=0.5, energy=1.0, efficiency=0.9, quadratic=10.0)
"""A battery of 1 MWh that is filled in two hours, of which 90 % come back, with wear."""

LEVEL = 0.9
"""Where risk counts, the worst tenth of the days does."""

_MEMBERS = 50
_TUNING = FineTuning(weights=(0.5,), members=50, batch=64, epochs=2)
_TEXT = (
    "A battery of 1 MWh is scheduled against the prices of the next day at PJM: at most 0.5 MW, 90 % come back, and "
    "wear costs 5 USD times the square of the power of each hour. "
)
_MEAN_TEXT = (
    "What counts is the mean cost of a day, negative where the battery earns. It depends on the mean of the prices "
    "alone, so that no scenarios can beat a good forecast of the mean."
)
_RISK_TEXT = (
    "What counts is the conditional value at risk, the mean cost of the worst tenth of what the forecast holds to be "
    "possible: the cost is the charge of `CVaRCost`, `plain cost` the cost of a day, `worst tenth` its mean over the "
    "worst tenth of the test days."
)
_ATTRIBUTION = "PJM prices: data of Donti, Amos and Kolter (2017), Apache-2.0."


def battery_problem(folder: str | None = None, *, averse: bool = False) -> Problem:
    """The schedules."""
    train, validation, test = chronological_cases(*price_days(folder))
    cost: Cost = CVaRCost(BATTERY, LEVEL) if averse else BATTERY
    return Problem(
        name="battery_risk" if averse else "battery",
        title=f"A battery against prices at PJM{', averse to risk' if averse else ''}",
        text=_TEXT + (_RISK_TEXT if averse else _MEAN_TEXT),
        unit="USD a day",
        cost=cost,
        train=train,
        validation=validation,
        test=test,
        attribution=_ATTRIBUTION,
        measures={"plain_cost": cost.plain_cost} if isinstance(cost, CVaRCost) else {},
    )


def battery_plan(averse: bool) -> Plan:
    """All that is compared."""
    tuned = tuple(weight_name("linear", weight) for weight in (0.0, *_TUNING.weights))
    recent = recent_name("ridge")
    return Plan(
        "battery_risk" if averse else "battery",
        partial(battery_problem, averse=averse),
        (
            CandidateSource("ridge", _ridge, ("mean", *RIDGE_CANDIDATES), seeded=False),
            CandidateSource(
                "linear", partial(finetuned_candidates, name="linear", members=_MEMBERS, tuning=_TUNING), tuned
            ),
        ),
        (
            Method("mean", "ridge, schedule of its mean", ("mean",)),
            Method("ridge", "ridge + error vectors", ("ridge",)),
            Method("ridge_train", "ridge of the training days alone + error vectors", ("ridge train",)),
            Method("ridge_recent", "ridge + recent error vectors", (recent,)),
            Method("linear", "linear start, energy score", tuned[:1], ours=True),
            Method("decision", "linear start, energy score + decision", tuned, ours=True),
        ),
        "ridge" if averse else "mean",
        (("decision", "linear"), ("ridge", "mean"), ("linear", "ridge_train"), ("decision", "ridge_train")),
    )


def _ridge(problem: Problem, seed: int, effort: RunEffort) -> Candidates:
    """Ridge regression with error vectors; "mean" is its mean alone."""
    candidates = ridge_candidates(problem, seed, replace(effort, members=min(_MEMBERS, effort.members)))
    return {"mean": mean_schedules(problem, candidates["ridge"]), **candidates}


BATTERY_PLANS = (battery_plan(averse=False), battery_plan(averse=True))
"""The schedules for their mean cost, and for that of the worst days."""
