"""The expected cost of a scalar action, as a function of it, and the bounds of each case; that of many parts."""

import torch
from torch import Tensor

from stakes.errors import ShapeError
from stakes.method.argument_checks import known_on_host
from stakes.method.costs import Cost
from stakes.method.derivatives import ExpectedCost
from stakes.method.member_weights import mean_of_members
from stakes.method.program_actions import ProgramAction

__all__ = ["case_bounds", "expected_cost_of", "expected_cost_of_parts", "member_costs"]


def expected_cost_of(cost: Cost, samples: Tensor, weights: Tensor | None) -> ExpectedCost:
    """Expected costs (...) of actions (...).

    Args:
        cost: What an action costs at an outcome.
        samples: Members (..., M, D).
        weights: Multiples of an equal share, (..., M); None where all members count alike.
    """
    members = samples.movedim(-2, 0).contiguous()  # (M, ..., D); one copy, and every evaluation runs along the cases
    shares = None if weights is None else weights.movedim(-1, 0).contiguous()  # (M, ...)
    return lambda action: mean_of_members(member_costs(cost, action, members), shares, 0)


def member_costs(cost: Cost, action: Tensor, members: Tensor) -> Tensor:
    """What scalar actions cost at each member, (M, ...).

    Args:
        cost: What an action costs at an outcome.
        action: Actions (...).
        members: Members (M, ..., D).
    """
    costs, shape = cost(action[..., None], members), members.shape[:-1]
    if not isinstance(costs, Tensor) or costs.shape != shape:
        came = tuple(costs.shape) if isinstance(costs, Tensor) else type(costs).__name__
        raise ShapeError(
            f"the cost must return a tensor of shape {tuple(shape)} for action {(*action.shape, 1)} and outcome "
            f"{tuple(members.shape)}, got {came}"
        )
    return costs


def case_bounds(cost: Cost, samples: Tensor) -> tuple[Tensor, Tensor]:
    """Lower and upper bound of each case, (...).

    Args:
        cost: Whose bounds these are.
        samples: Members (..., M, D).
    """
    blank = samples[..., 0, 0]
    lower, upper = (
        bound.to(blank.dtype).expand_as(blank) if isinstance(bound, Tensor) else torch.full_like(blank, bound)
        for bound in (cost.lower, cost.upper)
    )
    return lower, upper


def expected_cost_of_parts(cost: Cost, best: ProgramAction, members: Tensor, shares: Tensor | None) -> Tensor:
    """Expected costs (...) of the best actions: as their program says it, where all are solved and it says all.

    Args:
        cost: The decision.
        best: Its best actions (..., A), in double precision: rounded ones may break limits.
        members: Members (M, ..., D), likewise.
        shares: What each of them weighs, (M, ...), as multiples of an equal share; None where all count alike.
    """
    fixed_cost = getattr(cost, "fixed_cost", None)
    if best.objective is not None and fixed_cost is not None and known_on_host(best.solved.all()):
        return best.objective + mean_of_members(fixed_cost(members), shares, 0)
    return mean_of_members(cost(best.action, members), shares, 0)
