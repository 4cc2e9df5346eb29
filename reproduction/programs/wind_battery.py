"""A day of wind power, committed hour by hour, with a battery that can move what is too much to where it is missing."""

from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reproduction.programs.battery import mean_members
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
)
from reproduction.tables import GEFCOM_WIND, read_reference_table
from stakes.costs.cost import Cost
from stakes.data.case_table import CaseTable
from stakes.errors import TableError
from stakes.forecasting.copula import error_ranks, reordered
from stakes.programs.storage import StorageCost
from stakes.scores.scoring_rules import energy_score

if TYPE_CHECKING:
    import pandas as pd


_FARMS = tuple(f"z{farm:02d}" for farm in range(1, 11))
_HOURS = 24
_CLASSES = 20
_YEAR = 365.25
_VALIDATION, _TEST = np.datetime64("2013-04-01"), np.datetime64("2013-07-01")

Floats = NDArray[np.float64]


class WindDays(NamedTuple):
    """Days whose day before is there."""

    features: Floats  # what is known of each day, (N, 27)
    power: Floats  # the mean power of the farms in each hour, a fraction of capacity, (N, 24)
    days: NDArray[np.datetime64]  # its date, (N,)


def wind_days(folder: str | None) -> WindDays:
    """The days of the table with their features."""
    table = read_reference_table(GEFCOM_WIND, folder)
    names = ("time", *(f"{name}_{farm}" for name in ("power", "u100", "v100") for farm in _FARMS))
    for name in names:
        if name not in table:
            raise TableError(f"{GEFCOM_WIND} must have the column {name}, got {list(table.columns)[:5]} and others")
    hours = table["time"].to_numpy("datetime64[h]") - np.timedelta64(1, "h")  # 24 UTC belongs to the day that it ends
    days = hours.astype("datetime64[D]")
    if len(hours) % _HOURS or (days.reshape(-1, _HOURS) != days[::_HOURS, None]).any():
        raise TableError(f"{GEFCOM_WIND} must have whole days, from 01 to 24 UTC")
    power, east, north = (_columns(table, name) for name in ("power", "u100", "v100"))
    known = hours < _VALIDATION.astype("datetime64[h]")
    meant = power_by_speed(np.hypot(east, north), power, known).mean(1).reshape(-1, _HOURS)
    made = np.nanmean(power, axis=1).reshape(-1, _HOURS)
    dates = days[::_HOURS]
    angle = 2 * np.pi * (dates - dates.astype("datetime64[Y]")).astype(np.float64) / _YEAR
    features = [meant[1:], (made - meant)[:-1, -1:], np.cos(angle)[1:, None], np.sin(angle)[1:, None]]
    return WindDays(np.concatenate(features, axis=1), made[1:], dates[1:])


def power_by_speed(speed: Floats, power: Floats, known: NDArray[np.bool_]) -> Floats:
    """The power that forecast wind speeds mean, (n, farms), by the mean power of known hours with such a forecast."""
    meant = np.empty_like(speed)
    for farm in range(speed.shape[1]):
        rows = known & np.isfinite(power[:, farm])
        order = np.argsort(speed[rows, farm], kind="stable")
        classes = np.array_split(order, min(_CLASSES, len(order)))
        speeds, powers = ([values[rows, farm][part].mean() for part in classes] for values in (speed, power))
        meant[:, farm] = np.interp(speed[:, farm], speeds, powers)
    return meant


def wind_cases(days: WindDays) -> tuple[CaseTable, CaseTable, CaseTable]:
    """Training cases to March 2013, validation cases to June, and test cases after that."""
    edges = [0, *np.searchsorted(days.days, [_VALIDATION, _TEST]).tolist(), len(days.days)]
    features, power = (torch.tensor(values, dtype=torch.float32) for values in (days.features, days.power))
    rows = [slice(first, end) for first, end in pairwise(edges)]
    first, second, third = (CaseTable(features[part], power[part], days.days[part]) for part in rows)
    return first, second, third


def _columns(table: "pd.DataFrame", name: str) -> Floats:
    return table[[f"{name}_{farm}" for farm in _FARMS]].to_numpy(np.float64)


_PRICES = torch.tensor(6 * [1.0] + 5 * [1.5] + 9 * [0.7] + 4 * [1.0], dtype=torch.float64)  # evenings: 07 to 11 UTC
_SHORT = 3.0  # times the price

COST = StorageCost(price=_PRICES, short=_SHORT * _PRICES, long=0.0, power=0.1, energy=0.3, efficiency=0.9)
"""What is sold earns 1 by day, 1.5 in the evening and 0.7 at night, what is missing costs three times that, and surplus
is lost; the battery is filled in three hours."""

_MEMBERS = 30  # of a forecast: each has a battery's day of its own to be solved
_TUNING = FineTuning(weights=(0.9,), members=10, batch=32, epochs=3, learning_rate=3e-4)
_TEXT = (
    "The power of ten wind farms, as a fraction of their capacity, is sold hour by hour for the next day, by a weather "
    "forecast for its 24 hours. A unit sold earns 1 by day, 1.5 in the evening and 0.7 at night, one that is missing "
    "costs three times that, and surplus is lost, unless a battery moves it: at most 0.1 an hour and 0.3 in all, of "
    "which 90 % come back. `causal cost` is what a battery pays that does not know the hours to come; the decision, "
    "and the cost that is compared, takes it to know the day."
)
_ATTRIBUTION = "GEFCom2014: Hong et al. (2016), International Journal of Forecasting 32, 896-913."


def wind_problem(folder: str | None = None) -> Problem:
    """The commitments."""
    train, validation, test = wind_cases(wind_days(folder))
    return Problem(
        name="wind_battery",
        title="A day of wind power with a battery",
        text=_TEXT,
        unit="full-load hours at the price by day",
        cost=cast(Cost, COST),
        train=train,
        validation=validation,
        test=test,
        attribution=_ATTRIBUTION,
        measures={"causal_cost": COST.causal_cost},
    )


def decided(cost: StorageCost, forecast: Forecast, outcome: Tensor) -> Actions:
    """The commitments for a forecast, with what its program expects them to cost.

    `stakes.solve_action` evaluates the battery's day of every member once more, which takes as long again.
    """
    program = cost.program(outcome.shape[-1])
    validation = None if forecast.validation is None else program.solve(forecast.validation).action
    action, solution = program.solve(forecast.test)
    fixed = cost.fixed_cost(forecast.test.double()).mean(-1)
    known = {"expected_cost": solution.objective + fixed, "certified": solution.solved}
    if forecast.test.shape[1] > 1:
        known["energy_score"] = energy_score(forecast.test, outcome)
    return Actions(validation, action, known)


def shuffled(problem: Problem, forecast: Forecast) -> Forecast:
    """Members of each hour put together in the order of past errors (Schaake shuffle); those of
    validation cases stay."""
    assert forecast.validation is not None
    members, test = (each.double().numpy() for each in (forecast.validation, forecast.test))
    ranks = error_ranks(members, problem.validation.outcome.double().numpy())
    return Forecast(None, torch.from_numpy(reordered(test, ranks)))


def _all_decided(problem: Problem, candidates: Candidates) -> Candidates:
    forecasts = {name: each for name, each in candidates.items() if isinstance(each, Forecast)}
    return {name: decided(COST, each, problem.test.outcome) for name, each in forecasts.items()}


def _ridge(problem: Problem, seed: int, effort: RunEffort) -> Candidates:
    """Ridge regression with error vectors; "mean" is its mean alone."""
    candidates = ridge_candidates(problem, seed, replace(effort, members=min(_MEMBERS, effort.members)))
    return _all_decided(problem, {"mean": mean_members(candidates["ridge"]), **candidates})


def _network(
    problem: Problem, seed: int, effort: RunEffort, *, name: str, score: str, linear: bool, tuning: FineTuning | None
) -> Candidates:
    """A network by a score, and tuned; where it scores each hour by itself, shuffled, too."""
    candidates = dict(
        finetuned_candidates(
            problem, seed, effort, name=name, score=score, linear=linear, members=_MEMBERS, tuning=tuning
        )
    )
    plain = candidates[weight_name(name, 0.0)]
    if score == "pointwise":
        assert isinstance(plain, Forecast)
        candidates[f"{name} shuffled"] = shuffled(problem, plain)
    return _all_decided(problem, candidates)


def _named(name: str) -> tuple[str, ...]:
    return tuple(weight_name(name, weight) for weight in (0.0, *_TUNING.weights))


def _source(name: str, score: str, linear: bool, tuning: FineTuning | None) -> CandidateSource:
    names = _named(name) if tuning is not None else _named(name)[:1]
    more = (f"{name} shuffled",) if score == "pointwise" else ()
    make = partial(_network, name=name, score=score, linear=linear, tuning=tuning)
    return CandidateSource(name, make, (*names, *more))


WIND_PLANS = (
    Plan(
        "wind_battery",
        wind_problem,
        (
            CandidateSource("ridge", _ridge, ("mean", *RIDGE_CANDIDATES), seeded=False),
            _source("pointwise", "pointwise", linear=False, tuning=_TUNING),
            _source("energy", "energy", linear=False, tuning=_TUNING),
            _source("linear", "energy", linear=True, tuning=_TUNING),
            _source("variogram", "variogram", linear=False, tuning=None),
        ),
        (
            Method("mean", "ridge, its mean alone", ("mean",)),
            Method("ridge", "ridge + error vectors", ("ridge",)),
            Method("ridge_train", "ridge of the training days alone + error vectors", ("ridge train",)),
            Method("ridge_recent", "ridge + recent error vectors", (recent_name("ridge"),)),
            Method("pointwise", "network, CRPS of each hour", _named("pointwise")[:1], ours=True),
            Method("shuffled", "network, CRPS of each hour, shuffled (Schaake)", ("pointwise shuffled",)),
            Method("pointwise_decision", "network, CRPS of each hour + decision", _named("pointwise"), ours=True),
            Method("variogram", "network, energy and variogram score", _named("variogram")[:1]),
            Method("energy", "network, energy score", _named("energy")[:1], ours=True),
            Method("energy_decision", "network, energy score + decision", _named("energy"), ours=True),
            Method("linear", "linear start, energy score", _named("linear")[:1], ours=True),
            Method("linear_decision", "linear start, energy score + decision", _named("linear"), ours=True),
        ),
        "ridge",
        (
            ("shuffled", "pointwise"),
            ("pointwise_decision", "pointwise"),
            ("pointwise_decision", "shuffled"),
            ("energy", "pointwise"),
            ("variogram", "energy"),
            ("energy_decision", "energy"),
            ("linear_decision", "linear"),
        ),
    ),
)
"""The commitments."""
