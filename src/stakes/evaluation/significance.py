"""How sure one can be of a difference between two forecasts on the same cases."""

from typing import NamedTuple

import torch
from torch import Tensor

from stakes.errors import SettingError, ShapeError

__all__ = ["Difference", "paired_difference"]


class Difference(NamedTuple):
    """A mean difference and its 95 % interval."""

    mean: float
    low: float
    high: float

    @property
    def significant(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low > 0 or self.high < 0


def paired_difference(
    values: Tensor, baseline: Tensor, block: int = 1, resamples: int = 2000, seed: int = 0
) -> Difference:
    """Mean of values - baseline, both (S, N) of S seeds and N cases in time order, with its bootstrap interval.

    Each resample draws seeds with replacement, and cases in moving blocks of `block` neighbours (wrapped around), so
    that the dependence between neighbouring times is kept; both forecasts are drawn together.
    """
    if values.shape != baseline.shape or values.dim() != 2 or values.numel() == 0:
        raise ShapeError(
            f"values and baseline must have one shape (S, N), got {tuple(values.shape)} and {tuple(baseline.shape)}"
        )
    seeds, cases = values.shape
    if not 1 <= block <= cases or resamples < 1:
        raise SettingError(f"block must lie between 1 and {cases} and resamples be positive, got {block}, {resamples}")
    difference = (values - baseline).double()
    generator = torch.Generator().manual_seed(seed)
    wrapped = torch.cat([difference, difference[:, : block - 1]], 1)
    sums = torch.cat([torch.zeros(seeds, 1, dtype=torch.float64), wrapped.cumsum(1)], 1)
    block_means = (sums[:, block:] - sums[:, :-block]) / block  # (S, N), of the block that starts at each case
    starts = torch.randint(cases, (resamples, -(-cases // block)), generator=generator)
    chosen = torch.randint(seeds, (resamples, seeds), generator=generator)
    by_seed = torch.stack([means[starts].mean(1) for means in block_means], 1)  # (resamples, S)
    low, high = by_seed.gather(1, chosen).mean(1).quantile(torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
    return Difference(difference.mean().item(), low, high)
