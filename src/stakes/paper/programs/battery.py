"""A battery against the prices of the next day, for its mean cost and for the cost of its worst days.

The mean cost of a schedule depends on the mean of the prices alone, so that no scenarios can beat a good forecast of
it. The conditional value at risk depends on all of their distribution.
"""

from dataclasses import replace
from functools import partial

from stakes.method.costs import Cost
from stakes.method.risk import CVaRCost
from stakes.method.storage import ArbitrageCost
from stakes.paper.programs.battery_schedules import mean_schedules
from stakes.paper.programs.finetuned import FineTuning, finetuned_candidates
from stakes.paper.programs.methods import Candidates, CandidateSource, Method, Plan
from stakes.paper.programs.networks import RIDGE_CANDIDATES, fresh_name, ridge_candidates, weight_name
from stakes.paper.programs.price_days import price_days
from stakes.paper.programs.problem import Problem, RunEffort, chronological_cases

__all__ = ["BATTERY", "BATTERY_PLANS", "LEVEL", "battery_plan", "battery_problem"]

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
    """The schedules.

    Args:
        folder: The folder of the table; None for the current one.
        averse: Whether risk counts.
    """
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
    """All that is compared.

    Args:
        averse: Whether risk counts.
    """
    tuned = tuple(weight_name("linear", weight) for weight in (0.0, *_TUNING.weights))
    fresh = fresh_name("ridge")
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
            Method("ridge_fresh", "ridge + fresh error vectors", (fresh,)),
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
