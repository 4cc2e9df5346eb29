"""What decisions were expected to cost and did cost, and how good and how sure the forecast was of what they look at.

The part of `stakes.evaluation.metrics.Assessor` that a validation during training needs: no scores, no gradients.
"""

from typing import NamedTuple

from torch import Tensor

from stakes.errors import ShapeError
from stakes.evaluation.metrics import Assessor
from stakes.method.actions import solve_action
from stakes.method.argument_checks import check_finite, check_outcome, check_samples, working_precision
from stakes.method.costs import Cost

__all__ = ["DecisionTerms", "decision_terms"]


class DecisionTerms(NamedTuple):
    """Numbers of each case, (...).

    Attributes:
        cost: What the best action for the members costs at the outcome.
        expected_cost: What it costs on average over the members.
        squared_error: The squared error of the members' mean, of what the cost looks at: the outcome itself, or the
            total of several.
        variance: The variance of the members around their mean, of the same.
    """

    cost: Tensor
    expected_cost: Tensor
    squared_error: Tensor
    variance: Tensor


def decision_terms(cost: Cost, members: Tensor, outcome: Tensor) -> DecisionTerms:
    """The terms of each case, without gradients.

    Args:
        cost: What a decision costs.
        members: Forecasts (..., M, D) of at least two members, in physical units.
        outcome: What happened, (..., D).
    """
    check_samples(members, "members")
    check_outcome(outcome, members)
    if members.shape[-2] < 2:
        raise ShapeError(
            f"members must be at least two, on axis -2 of (..., M, D), to have a spread, got {tuple(members.shape)}"
        )
    check_finite(members, "members", wanted=True)
    check_finite(outcome, "outcome", wanted=True)
    members = working_precision(members.detach())
    outcome = outcome.detach().to(members.dtype)
    solution = solve_action(cost, members, check=False)
    total = Assessor(cost).total
    forecast, observed = total(members), total(outcome)
    mean = forecast.mean(-1)
    return DecisionTerms(
        cost=cost(solution.action.to(outcome.dtype), outcome),
        expected_cost=solution.expected_cost,
        squared_error=(mean - observed).square(),
        variance=(forecast - mean[..., None]).square().sum(-1) / (members.shape[-2] - 1),  # of no case too
    )
