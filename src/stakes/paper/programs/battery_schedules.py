"""What a battery's schedule against prices is made from: the mean of a forecast, or all of its members."""

import math

import torch
from torch import Tensor

from stakes.method.actions import optimal_action
from stakes.method.risk import CVaRCost
from stakes.paper.programs.methods import Actions, Forecast
from stakes.paper.programs.problem import Problem

__all__ = ["mean_members", "mean_schedules", "schedule_of_mean"]


def mean_schedules(problem: Problem, forecast: Forecast) -> Forecast | Actions:
    """The schedules for the members' mean; where risk counts, with the threshold that their members give them.

    Args:
        problem: What is decided, a `CVaRCost` where risk counts.
        forecast: The members.
    """
    cost = problem.cost
    if not isinstance(cost, CVaRCost):
        return mean_members(forecast)
    validation, test = (None if part is None else schedule_of_mean(cost, part) for part in forecast)
    return Actions(validation, torch.as_tensor(test))


def mean_members(forecast: Forecast) -> Forecast:
    """The mean as a single member.

    Args:
        forecast: The members.
    """
    validation, test = (None if part is None else part.mean(1, keepdim=True) for part in forecast)
    return Forecast(validation, torch.as_tensor(test))


def schedule_of_mean(cost: CVaRCost, members: Tensor) -> Tensor:
    """The schedule for the members' mean, and its threshold, the level's quantile of its costs, (n, A + 1).

    Args:
        cost: The risk.
        members: Members (n, M, D).
    """
    schedule = optimal_action(cost.cost, members.mean(1, keepdim=True))
    paid = cost.cost(schedule, members.movedim(1, 0)).sort(0).values  # (M, n)
    place = math.ceil(cost.level * len(paid) * (1 - 1e-12)) - 1
    return torch.cat([schedule, paid[place, :, None].to(schedule)], -1)
