"""The cases of many replicas as one, each distinct data set once."""

from collections.abc import Sequence

import torch
from torch import Tensor

from stakes.data.cases import Cases
from stakes.errors import ShapeError

__all__ = ["StackedCases"]


class StackedCases:
    """The distinct data sets of a stack, (sets, N, F) and (sets, N, D), and which one each replica has, (R,).

    Args:
        cases: The cases of each replica, of one shape.
        dtype: The type that they are to have.
        device: Where they are to be.
    """

    def __init__(self, cases: Sequence[Cases], dtype: torch.dtype, device: torch.device) -> None:
        distinct = list({id(each): each for each in cases}.values())
        shapes = {(tuple(each.features.shape), tuple(each.outcome.shape)) for each in distinct}
        if len(shapes) > 1:
            raise ShapeError(f"the data sets of a stack must have one shape, got {sorted(shapes)}")
        self.count = len(distinct[0])
        self.features = _stacked([each.features for each in distinct]).to(device, dtype)
        self.outcome = _stacked([each.outcome for each in distinct]).to(device, dtype)
        places = {id(each): place for place, each in enumerate(distinct)}
        self.index = torch.tensor([places[id(each)] for each in cases], device=device)

    def batch(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Features (R, B, F) and outcome (R, B, D) of rows (R, B).

        Args:
            rows: Which cases each replica sees, (R, B).
        """
        return self.features[self.index[:, None], rows], self.outcome[self.index[:, None], rows]


def _stacked(values: Sequence[Tensor]) -> Tensor:
    """A new first axis; a single data set is not copied."""
    return values[0][None] if len(values) == 1 else torch.stack(list(values))
