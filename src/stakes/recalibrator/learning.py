"""Learning one rung of a recalibrator's ladder from past cases."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from stakes.data.given_forecasts import GivenForecasts
from stakes.data.outcome_bounds import Pair
from stakes.evaluation.error_model_fit import fit_error_model
from stakes.evaluation.forecast_terms import ForecastTerms
from stakes.evaluation.member_order import vector_ranks
from stakes.method.costs import Cost
from stakes.recalibrator.decision import trained_on_decision
from stakes.recalibrator.state import RecalibratorState, form_of

__all__ = ["RungPlan", "case_weights", "learned"]

Floats = NDArray[np.float64]

_MEMBERS = 100  # of one outcome, or more where the forecast has more
_VECTORS = 200  # of several outcomes by error vectors


@dataclass(frozen=True)
class RungPlan:
    """What a rung learns.

    Attributes:
        rung: Its name, one of `stakes.evaluation.ladder.GIVEN_RUNGS`.
        margins: How each outcome is corrected: not at all, by bias and spread, or by all terms there are.
        dependence: How members of several outcomes go together: as the members that came, or as past errors.
        half_life: After how many days a case counts half; None where all count alike.
        decision_weight: How much the decision counts in the fit.
    """

    rung: str = "raw"
    margins: Literal["raw", "bias_and_spread", "linear"] = "raw"
    dependence: Literal["members", "errors"] = "members"
    half_life: float | None = None
    decision_weight: float = 0.0


def learned(
    past: GivenForecasts,
    plan: RungPlan,
    bounds: tuple[Pair, ...],
    cost: Cost,
    like: RecalibratorState | None = None,
) -> RecalibratorState:
    """What past cases teach.

    Args:
        past: The cases, with outcomes, in order.
        plan: What is learned.
        bounds: What each outcome cannot cross.
        cost: What an action costs at an outcome, where the decision counts.
        like: What the same plan taught from fewer cases, whose choices are kept if it had more than half as many; None
            chooses anew.
    """
    terms = ForecastTerms.for_cases(past, linear=plan.margins == "linear")
    state = RecalibratorState(
        plan.rung, form_of(past), past.targets, bounds, len(past), terms, half_life=plan.half_life
    )
    weight = case_weights(past, plan.half_life)
    if plan.margins != "raw":
        count = _member_count(past, plan)
        before = like.models if like is not None else (None,) * len(bounds)
        models = [
            fit_error_model(past, place, terms, pair, count, weight, before[place]) for place, pair in enumerate(bounds)
        ]
        state = replace(state, models=tuple(models))
    if state.models and plan.dependence == "errors" and len(bounds) > 1:
        state = replace(state, order=tuple(map(tuple, _ranks(past, state, weight).tolist())))
    return trained_on_decision(state, past, cost, plan.decision_weight, weight) if plan.decision_weight else state


def case_weights(past: GivenForecasts, half_life: float | None) -> Floats:
    """How much each case counts, (N,): the newest 1, one that is a half-life older half of it.

    Args:
        past: The cases.
        half_life: In days; None where all count alike.
    """
    if half_life is None or past.times is None:
        return np.ones(len(past))
    age = (past.times.max() - past.times).astype(np.float64) / 86400
    return np.asarray(0.5 ** (age / half_life))


def _member_count(past: GivenForecasts, plan: RungPlan) -> int:
    """How many members are made: for several outcomes as many of each member that came, or of each error vector."""
    members = past.members.shape[1]
    if past.members.shape[2] == 1:
        return max(_MEMBERS, members)
    return _VECTORS if plan.dependence == "errors" else members * -(-_MEMBERS // members)


def _ranks(past: GivenForecasts, state: RecalibratorState, weight: Floats) -> NDArray[np.int64]:
    errors = [model.standardised_errors(past, place, state.terms) for place, model in enumerate(state.models)]
    return vector_ranks(np.stack(errors, 1), weight)
