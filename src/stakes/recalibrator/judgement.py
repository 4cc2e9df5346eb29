"""What forecasts were worth case by case: the cost of their actions, and their score."""

import numpy as np
import torch
from numpy.typing import NDArray

from stakes.cost_text.own_cost_file import naming_own_cost
from stakes.evaluation.case_metrics import require_finite_costs
from stakes.evaluation.ladder import JudgedCases
from stakes.method.actions import optimal_action
from stakes.method.costs import Cost
from stakes.method.scores import energy_score
from stakes.recalibrator.state import CorrectedMembers

__all__ = ["forecast_worth"]

_NUMBERS_AT_ONCE = 1 << 21  # members of all outcomes
_SCORED_MEMBERS = 50  # of several outcomes, of which the energy score takes all pairs


def forecast_worth(cost: Cost, forecasts: CorrectedMembers, outcomes: NDArray[np.float64]) -> JudgedCases:
    """What the actions of N forecasts cost, and the energy scores of the very members that these were decided from.

    Args:
        cost: What an action costs at an outcome.
        forecasts: The members that the actions are decided from.
        outcomes: What happened, (N, D).
    """
    members, weights = forecasts
    shared = None if weights is None else torch.from_numpy(weights)
    size = max(1, _NUMBERS_AT_ONCE // (members.shape[1] * members.shape[2]))
    every = 1 if members.shape[2] == 1 or weights is not None else -(-members.shape[1] // _SCORED_MEMBERS)
    costs, scores = [], []
    for samples, outcome in zip(
        torch.from_numpy(members).split(size), torch.from_numpy(outcomes).split(size), strict=True
    ):
        with torch.no_grad(), naming_own_cost(cost):
            costs.append(cost(optimal_action(cost, samples, weights=shared, thorough=True), outcome))
        scores.append(energy_score(samples[:, ::every], outcome, "biased", weights=shared))
    paid, scored = (torch.cat(each).double().numpy() for each in (costs, scores))
    require_finite_costs(paid)
    return JudgedCases(paid, scored)
