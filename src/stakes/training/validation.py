"""What a stack of replicas is worth on its validation cases."""

import torch
from torch import Tensor

from stakes.method.actions import solve_action
from stakes.method.argument_checks import unwatched
from stakes.method.costs import Cost, at_bounds
from stakes.method.models.sample_model import TrainingDraw
from stakes.method.objective import DecisionAwareObjective
from stakes.method.program_actions import action_unit
from stakes.method.scores import energy_score
from stakes.training.replicas import ReplicaStack

__all__ = ["estimate_scales", "validate"]

_CASES_FOR_SCALES = 1 << 15


@torch.no_grad()
def validate(stack: ReplicaStack, parameters: Tensor, scales: Tensor | None) -> dict[str, Tensor]:
    """Means (R,) over the validation cases, with the same noise every time.

    `loss` is the objective, `score` and `decision` its two terms before scaling (`decision` is the companion, whichever
    it is). In physical units: `energy_score` of the members, realised `cost` of their best actions and the
    `expected_cost` they predict; then the shares of actions at each bound and of rows flagged because the search for
    their best action did not converge, so that they have no gradient.

    Args:
        stack: The replicas.
        parameters: Their parameters, (R, P).
        scales: What the two terms of each replica are divided by, (R, 2); None gives the score alone.
    """
    parts = [
        _validate(part, parameters[rows], None if scales is None else scales[rows]) for rows, part in stack.parts()
    ]
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def _validate(stack: ReplicaStack, parameters: Tensor, scales: Tensor | None) -> dict[str, Tensor]:
    objective, members = stack.objective(scales), stack.settings.validation_members
    sums: dict[str, Tensor] = {}
    drawn = stack.draws_with_features(parameters, stack.validation, members, "validation", deciding=scales is not None)
    for draw, features in drawn:
        with unwatched():
            values = _values(stack.charged(objective, features), stack.column.cost(stack.cost, features), draw)
        for name, value in values.items():
            sums[name] = sums.get(name, 0.0) + value.sum(-1)
    return {name: total / stack.validation.count for name, total in sums.items()}


def _values(objective: DecisionAwareObjective, cost: Cost, draw: TrainingDraw) -> dict[str, Tensor]:
    """What `validate` takes the mean of, case by case, (R, B)."""
    terms = objective(draw)
    members, outcome = draw.decision_members, draw.decision_outcome
    values = {"loss": terms.total, "score": terms.score, "energy_score": energy_score(members, outcome)}
    if terms.decision is None:
        return values
    solution = solve_action(cost, members, check=False, thorough=False)
    at_lower, at_upper = at_bounds(cost, solution.action, action_unit(cost, members))
    return values | {
        "decision": terms.decision,
        "cost": cost(solution.action, outcome),
        "expected_cost": solution.expected_cost,
        "at_lower": at_lower.to(members),
        "at_upper": at_upper.to(members),
        "flagged": (~solution.converged).to(members),
    }


@torch.no_grad()
def estimate_scales(stack: ReplicaStack, parameters: Tensor) -> Tensor:
    """Mean score and mean |companion| of each replica on its training cases, (R, 2); they may be of no use.

    The decision cost is the plain one, whatever the estimator.

    Args:
        stack: The replicas.
        parameters: Their parameters, (R, P).
    """
    return torch.cat([_estimate_scales(part, parameters[rows]) for rows, part in stack.parts()])


def _estimate_scales(stack: ReplicaStack, parameters: Tensor) -> Tensor:
    objective = stack.objective(parameters.new_ones(len(stack), 2)).plain
    sums = parameters.new_zeros(len(stack), 2)
    members = stack.settings.members
    drawn = stack.draws_with_features(parameters, stack.train, members, "scales", _CASES_FOR_SCALES, deciding=True)
    for draw, features in drawn:
        with unwatched():
            terms = stack.charged(objective, features)(draw)
        assert terms.decision is not None  # the weight is a tensor
        sums += torch.stack([terms.score.sum(-1), terms.decision.abs().sum(-1)], -1)
    return sums / min(stack.train.count, _CASES_FOR_SCALES)
