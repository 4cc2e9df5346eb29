"""A day of wind power, committed hour by hour, with a battery that can move what is too much to where it is missing.

An hour that falls short may be filled by the surplus of another, if there is one within reach: whether errors last for
a day or cancel within it decides what may be promised. Scores that look at each hour by itself do not see that, and
there is no single total whose score could stand for it.
"""

from dataclasses import replace
from functools import partial
from typing import cast

import torch
from torch import Tensor

from stakes.evaluation.member_order import error_ranks, reordered
from stakes.method.costs import Cost
from stakes.method.scores import energy_score
from stakes.method.storage import StorageCost
from stakes.paper.programs.battery_schedules import mean_members
from stakes.paper.programs.finetuned import FineTuning, finetuned_candidates
from stakes.paper.programs.methods import Actions, Candidates, CandidateSource, Forecast, Method, Plan
from stakes.paper.programs.networks import RIDGE_CANDIDATES, fresh_name, ridge_candidates, weight_name
from stakes.paper.programs.problem import Problem, RunEffort
from stakes.paper.programs.wind_days import wind_cases, wind_days

__all__ = ["COST", "WIND_PLANS", "decided", "shuffled", "wind_problem"]

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
    """The commitments.

    Args:
        folder: The folder of the table; None for the current one.
    """
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

    Args:
        cost: What a commitment costs.
        forecast: The members.
        outcome: What happened in the test cases, (n, 24).
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
    """Members of each hour put together in the order of past errors (Schaake shuffle); those of validation cases stay.

    Args:
        problem: What is decided.
        forecast: The members as they come; those of the validation cases tell the errors.
    """
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
            Method("ridge_fresh", "ridge + fresh error vectors", (fresh_name("ridge"),)),
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
