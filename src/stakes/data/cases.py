"""Cases: features and outcomes as tensors in physical units, their labels, and those kept beside a fit."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stakes.argument_checks import check_finite
from stakes.data.tables.lags import Split
from stakes.errors import ShapeError, TableError
from stakes.text import number_text

_NEIGHBOURS = 0.2  # share of the outcomes, alike in size, that one set is drawn from


@dataclass(frozen=True, eq=False)
class Cases:
    """Cases to train or test on, in physical units."""

    features: Tensor  # features (N, F), finite and of a floating-point type
    outcome: Tensor  # outcomes (N, D), likewise
    times: NDArray[np.datetime64] | None = None  # the target times (N,); None where the cases have none

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
    """Sets of members (N, M, D) as a forecast better than climatology would have: outcomes of similar size."""
    ordered = outcomes[np.argsort(outcomes.mean(1), kind="stable")]
    generator = np.random.default_rng(0)
    width = max(2, round(_NEIGHBOURS * len(ordered)))
    starts = generator.integers(len(ordered) - width + 1, size=(sets, 1))
    places = generator.permuted(np.tile(np.arange(width), (sets, 1)), axis=1)[:, :members]  # each outcome once
    return torch.from_numpy(ordered[starts + places])


_COARSE = 1e-3  # of what varies: the step from one number of single precision to the next
_ROUNDING = 1e-12  # of the numbers: what varies less does so by the rounding of double precision


def require_single_precision(values: NDArray[np.floating[Any]], names: Sequence[str], what: str) -> None:
    """Raise where single precision would lose what varies in a column; a constant column has nothing to lose.

    The step of single precision is taken at the column's median size, and what varies is its interquartile range, so
    that a few numbers of another size, such as zeros for what is missing, hide nothing; where half of the column is one
    number, it is the standard deviation.
    """
    if values.dtype == np.float32 or not len(values):
        return
    with np.errstate(over="ignore", invalid="ignore"):  # what exceeds single precision is for others to refuse
        size = np.median(np.abs(values), axis=0)
        low, middle, high = np.quantile(values, [0.25, 0.5, 0.75], axis=0)
        varies = np.where(high > low, high - low, values.std(axis=0))
        step = np.spacing(size.astype(np.float32)).astype(np.float64)
        lost = (step > _COARSE * varies) & (varies > _ROUNDING * size)
    for place in np.flatnonzero(lost)[:1]:
        around, apart, coarse = middle[place], number_text(varies[place], 2), number_text(step[place], 2)
        raise TableError(
            f"{what} {names[place]!r} varies by about {apart} around {around:.15g}, where single precision, in which "
            f"models compute, has steps of {coarse}: too coarse; subtract an offset such as "
            f"{float(f'{around:.1e}'):.15g} from it"
        )


_LABEL, _FEATURE, _OUTCOME = "label", "feature ", "outcome "  # the column of labels, how those of the others begin
