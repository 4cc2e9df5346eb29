"""Allocations under one budget, solved exactly: it is spent where the next unit saves most.

    minimise over a   sum_d f_d(a_d)   subject to   sum_d a_d <= budget,   a_d >= 0

with the f_d of `stakes.method.part_costs`, without squares. From one member to the next a unit saves the same, and less
with every member, so that the budget is spent on such stretches in the order of what they save. Where several save the
same and not all can be had, each gets the same share of its length.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from stakes.method.part_costs import ROUNDING, PartCosts

__all__ = ["BudgetedAction", "budgeted_action"]


class BudgetedAction(NamedTuple):
    """The best actions of B cases, and the proof of it.

    Attributes:
        action: (B, A), differentiable in the members.
        gap: By how much another action could cost less at most, (B,).
        residual: By how much the budget, or the condition of a minimum, is violated, in units of the case, (B,).
    """

    action: Tensor
    gap: Tensor
    residual: Tensor


def budgeted_action(costs: PartCosts, samples: Tensor, budget: Tensor) -> BudgetedAction:
    """The best action of each case whose budget is less than the parts alone would take; others have none.

    Args:
        costs: The costs of the parts, (B, A).
        samples: The members (B, M, A) that they were made from.
        budget: What there is to spend, (B, 1).
    """
    saved = costs.prices[..., None] * (1 - costs.below[..., :-1]) - costs.long[..., None]  # (B, A, M), falling
    ends = pad(costs.members.clamp(min=0.0), (1, 0))  # of the stretches, (B, A, M + 1)
    worth = _worth(saved.flatten(1), ends.diff(dim=-1).flatten(1), budget)  # of the last unit, (B, 1)
    tolerance = ROUNDING * costs.prices.sum(-1, keepdim=True)
    least, most = (
        _reached(costs, samples, (saved > level[..., None]).sum(-1)) for level in (worth + tolerance, worth - tolerance)
    )
    left, room = budget - least.sum(-1, keepdim=True), (most - least).sum(-1, keepdim=True)
    action = least + left / torch.where(room > 0, room, 1.0) * (most - least)
    return BudgetedAction(action, *_proof(costs, action.detach(), budget, worth))


def _worth(saved: Tensor, length: Tensor, budget: Tensor) -> Tensor:
    """What a unit saves on the stretch on which the budget ends, (B, 1)."""
    ordered, order = torch.sort(saved, -1, descending=True)
    spent = length.gather(-1, order).cumsum(-1)
    return ordered.gather(-1, (spent < budget).sum(-1, keepdim=True).clamp(max=spent.shape[-1] - 1))


def _reached(costs: PartCosts, samples: Tensor, stretches: Tensor) -> Tensor:
    """Where each part ends after so many stretches, (B, A), differentiable in the members."""
    part = torch.arange(stretches.shape[-1], device=stretches.device)
    member = costs.members_at(part * samples.shape[1] + (stretches - 1).clamp(min=0), samples)
    return torch.where(stretches > 0, member, 0.0).clamp(min=0.0)


def _proof(costs: PartCosts, action: Tensor, budget: Tensor, worth: Tensor) -> tuple[Tensor, Tensor]:
    """The gap and the residual of actions, with the worth of the last unit as the price of the budget."""
    reach = ROUNDING * budget
    slopes = costs.slopes(action, reach)
    wrong = torch.maximum(torch.where(action <= reach, 0.0, slopes.least + worth), -worth - slopes.most)
    wrong = torch.maximum(wrong.amax(-1), -worth[:, 0]).clamp(min=0.0)
    off = (action.sum(-1) - budget[:, 0]).abs()
    gap = reach[:, 0] * (slopes.most - slopes.least).sum(-1) + worth[:, 0].abs() * off
    return gap, torch.maximum(wrong / costs.prices.amax(-1), off / budget[:, 0])
