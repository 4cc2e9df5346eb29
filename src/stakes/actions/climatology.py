"""The constant action that is best for past outcomes: what a decision costs without a forecast."""

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from stakes.actions.solve import optimal_action
from stakes.costs.cost import Cost, ParameterColumn, ranged_parameter, with_parameter

_RANGE_POINTS = 33  # of a range, between which the constant action is interpolated


def climatology_action(cost: Cost, outcome: Tensor, points: int = _RANGE_POINTS, *, thorough: bool = True) -> Tensor:
    """The constant action that is best for outcomes (N, D): (A,), or (points, A) along the range of a parameter."""
    ranged = ranged_parameter(cost)
    if ranged is None:
        return optimal_action(cost, outcome, thorough=thorough)
    costs = [with_parameter(cost, ranged.name, value) for value in ranged.range.points(points)]
    return torch.stack([optimal_action(each, outcome, thorough=thorough) for each in costs])


def climatology_actions(action: ArrayLike, column: ParameterColumn, features: Tensor) -> Tensor:
    """The constant action for each case, (N, A), in double precision: where the cost has a range, by its parameter."""
    numbers = np.atleast_1d(np.asarray(action, dtype=np.float64))
    if column.parameter is None:
        return torch.from_numpy(numbers).expand(len(features), -1)
    shared, by_value = column.parameter.range, numbers.reshape(_RANGE_POINTS, -1)
    places, known = (
        shared.standardised(values.double()).numpy()
        for values in (column.values(features), torch.tensor(shared.points(_RANGE_POINTS), dtype=torch.float64))
    )
    return torch.from_numpy(np.stack([np.interp(places, known, part) for part in by_value.T], -1))
