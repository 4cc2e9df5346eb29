"""What decisions cost at each value of a range, so that each decision maker counts alike in training.

Both terms of the objective are scaled to one. With a range the scale of the decision term would be that of those who
pay most, and the others would hardly be heard; so the term of each case is divided by what climatology pays for the
same parameter.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from stakes.method.actions import optimal_action
from stakes.method.costs import Cost
from stakes.method.parameter_column import ParameterColumn
from stakes.method.parameter_range import with_parameter
from stakes.training.stacked_cases import StackedCases

__all__ = ["ParameterScales"]

_POINTS = 17  # of the range, between which weights are straight lines
_OUTCOMES = 1 << 12  # at most twice as many, evenly spread over the training cases


@dataclass(frozen=True, eq=False)
class ParameterScales:
    """The weight of a case's decision term by its parameter.

    Attributes:
        column: Where each case has its parameter.
        weights: One over what climatology pays at points of the range, of each replica, (R, points).
    """

    column: ParameterColumn
    weights: Tensor

    @classmethod
    def of(cls, column: ParameterColumn, costs: Sequence[Cost], train: StackedCases) -> "ParameterScales":
        """The weights of R replicas.

        Args:
            column: Where each case has its parameter, which is a range.
            costs: What decisions cost, of each replica.
            train: The training cases of the replicas.
        """
        pairs = list(zip(costs, train.index.tolist(), strict=True))
        known = {(id(cost), place): (cost, place) for cost, place in pairs}  # most replicas have the same
        weights = {key: _weights(column, cost, train.outcome[place]) for key, (cost, place) in known.items()}
        return cls(column, torch.stack([weights[id(cost), place] for cost, place in pairs]))

    def __call__(self, features: Tensor) -> Tensor:
        """What the decision term of each case is multiplied by, (R, B).

        Args:
            features: Features (R, B, F + 1).
        """
        assert self.column.parameter is not None
        share = self.column.parameter.range.share(self.column.values(features)).clamp(0, 1)
        place = share * (self.weights.shape[1] - 1)
        below = place.floor().clamp(max=self.weights.shape[1] - 2)
        index = below.long()
        return torch.lerp(self.weights.gather(1, index), self.weights.gather(1, index + 1), place - below)


@torch.no_grad()
def _weights(column: ParameterColumn, cost: Cost, outcome: Tensor) -> Tensor:
    """One over the mean absolute cost of the best constant action at each point, (points,); about 1 in the middle."""
    assert column.parameter is not None
    seen, name = outcome[:: max(1, len(outcome) // _OUTCOMES)], column.parameter.name
    paid = []
    for value in column.parameter.range.points(_POINTS):
        own = with_parameter(cost, name, value)
        paid.append(own(optimal_action(own, seen).expand(len(seen), -1), seen).abs().mean())
    scale = torch.stack(paid).to(outcome.dtype)
    scale = scale.clamp(min=1e-6 * scale.max())
    return scale[_POINTS // 2] / scale
