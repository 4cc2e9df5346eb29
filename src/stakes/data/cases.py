"""Cases for training: features and outcomes as tensors, in physical units."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stakes.data.lagged_series import Split
from stakes.errors import ShapeError
from stakes.method.argument_checks import check_finite

__all__ = ["Cases", "neighbouring_sets"]

_NEIGHBOURS = 0.2  # share of the outcomes, alike in size, that one set is drawn from


@dataclass(frozen=True, eq=False)
class Cases:
    """Cases to train or test on, in physical units.

    Attributes:
        features: Features (N, F), finite and of a floating-point type.
        outcome: Outcomes (N, D), likewise.
        times: The target times (N,); None where the cases have none.
    """

    features: Tensor
    outcome: Tensor
    times: NDArray[np.datetime64] | None = None

    def __post_init__(self) -> None:
        for name in ("features", "outcome"):
            values = getattr(self, name)
            if not isinstance(values, Tensor) or values.dim() != 2 or not values.is_floating_point():
                shape = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
                raise ShapeError(f"{name} must be a floating-point tensor of cases by columns, got {shape}")
            check_finite(values, name, True)
        if not len(self.outcome) or len(self.features) != len(self.outcome):
            raise ShapeError(
                f"features and outcome must have the same number of cases, at least one, got {len(self.features)} "
                f"and {len(self.outcome)}"
            )

    @classmethod
    def from_split(cls, split: Split) -> "Cases":
        """The rows of a split as tensors of single precision."""
        features, outcome = (torch.from_numpy(part).float() for part in (split.features, split.outcomes))
        return cls(features, outcome, split.times)

    def rows(self, chosen: NDArray[np.int64]) -> "Cases":
        """Some of the cases, by their places."""
        index = torch.from_numpy(chosen)
        return Cases(self.features[index], self.outcome[index], None if self.times is None else self.times[chosen])

    def __len__(self) -> int:
        return len(self.outcome)

    def __repr__(self) -> str:
        return f"Cases({len(self)} cases of {self.features.shape[1]} features and {self.outcome.shape[1]} outcomes)"


def neighbouring_sets(outcomes: NDArray[np.float64], sets: int, members: int) -> Tensor:
    """Sets of members (N, M, D) as a forecast better than climatology would have: outcomes of similar size.

    Args:
        outcomes: At least two outcomes (n, D), none missing.
        sets: How many sets are drawn.
        members: How many members each has at most.
    """
    ordered = outcomes[np.argsort(outcomes.mean(1), kind="stable")]
    generator = np.random.default_rng(0)
    width = max(2, round(_NEIGHBOURS * len(ordered)))
    starts = generator.integers(len(ordered) - width + 1, size=(sets, 1))
    places = generator.permuted(np.tile(np.arange(width), (sets, 1)), axis=1)[:, :members]  # each outcome once
    return torch.from_numpy(ordered[starts + places])
