"""How sure one can be of a difference between forecasts on the same cases: a paired bootstrap over time and seeds."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stakes.errors import SettingError, ShapeError

__all__ = ["Difference", "Resampling", "Sampled", "defined_deviation", "defined_mean", "paired_difference"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

_KEPT = 20_000_000  # counts of one shape that are kept for the next product, 160 MB
_AT_ONCE = 1 << 22  # counts where there are too many to be kept


class Difference(NamedTuple):
    """A mean difference and its 95 % interval.

    Attributes:
        mean: The mean difference.
        low: The lower end of its interval; NaN where there is no interval.
        high: The upper end.
    """

    mean: float
    low: float
    high: float

    @property
    def significant(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, eq=False)
class Sampled:
    """A statistic with its bootstrap replicates; arithmetic acts on both, so any function of means has an interval.

    Two statistics of one `Resampling` share their resamples: their difference is a paired one.

    Attributes:
        estimate: The statistic of the cases as they are.
        replicates: The same of every resample of the cases, (B,).
    """

    estimate: float
    replicates: Floats

    def interval(self) -> Difference:
        """The estimate between the 2.5 and 97.5 % quantiles of the replicates, less those that are not defined."""
        defined = self.replicates[np.isfinite(self.replicates)]
        if not len(defined):
            return Difference(self.estimate, float("nan"), float("nan"))
        low, high = np.quantile(defined, [0.025, 0.975])
        return Difference(self.estimate, float(low), float(high))

    def __add__(self, other: "Sampled | float") -> "Sampled":
        return self._with(other, np.add)

    def __sub__(self, other: "Sampled | float") -> "Sampled":
        return self._with(other, np.subtract)

    def __mul__(self, other: "Sampled | float") -> "Sampled":
        return self._with(other, np.multiply)

    def __truediv__(self, other: "Sampled | float") -> "Sampled":
        return self._with(other, np.divide)

    def __neg__(self) -> "Sampled":
        return self * -1.0

    def __abs__(self) -> "Sampled":
        return Sampled(abs(self.estimate), np.abs(self.replicates))

    def relative_to(self, baseline: "Sampled") -> "Sampled":
        """(self - baseline) / |baseline|, in per cent.

        Args:
            baseline: The statistic that is compared with.
        """
        return (self - baseline) / abs(baseline) * 100.0

    def _with(self, other: "Sampled | float", operation: Callable[..., Floats]) -> "Sampled":
        estimate, replicates = (
            (other.estimate, other.replicates) if isinstance(other, Sampled) else (other, np.float64(other))
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            result = operation(np.float64(self.estimate), np.float64(estimate))
            return Sampled(float(result), operation(self.replicates, replicates))


@dataclass(frozen=True)
class Resampling:
    """B resamples of N cases and S seeds in G groups; the same object always draws the same ones.

    A resample draws groups (data sets) and then seeds of each with replacement, and cases in moving blocks of `block`
    neighbours (wrapped around), so that the dependence between neighbouring times is kept.

    Attributes:
        cases: How many cases N there are, in the order of time.
        seeds: How many seeds S each group has.
        groups: How many groups G (data sets) there are.
        block: How many neighbouring cases are drawn together.
        resamples: How many resamples B are drawn.
        seed: What the draws depend on.
    """

    cases: int
    seeds: int = 1
    groups: int = 1
    block: int = 1
    resamples: int = 2000
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.block <= self.cases or self.resamples < 1:
            raise SettingError(
                f"block must lie between 1 and {self.cases} and resamples be positive, got {self.block}, "
                f"{self.resamples}"
            )

    def mean(self, values: ArrayLike, mask: ArrayLike | None = None) -> Sampled:
        """The mean over groups, seeds and cases, with its bootstrap replicates; NaN is left out.

        Args:
            values: Values (G, S, N).
            mask: Which of them count, bool of a shape that broadcasts to them; None for all.
        """
        return self._means([values], mask)[0]

    def pair(self, values: ArrayLike, baseline: ArrayLike, mask: ArrayLike | None = None) -> tuple[Sampled, Sampled]:
        """The means of both over what is finite in both: a forecast that failed is left out of its rival too.

        Args:
            values: Values (G, S, N) of a forecast.
            baseline: Those of its rival.
            mask: Which of them count, bool of a shape that broadcasts to them; None for all.
        """
        first, second = self._means([values, baseline], mask)
        return first, second

    def means(self, values: ArrayLike) -> list[Sampled]:
        """The mean of each of several values over what is finite in it, as `mean`, all at the price of a few.

        Args:
            values: K arrays of values, (K, G, S, N).
        """
        numbers = np.asarray(values, dtype=np.float64)
        kept = np.isfinite(numbers)
        totals = np.where(kept, numbers, 0.0)
        sums, counts = np.split(self._resampled(np.concatenate([totals, kept])), 2)  # (K, B)
        with np.errstate(divide="ignore", invalid="ignore"):
            estimates = totals.sum((1, 2, 3)) / kept.sum((1, 2, 3))
            return [Sampled(float(mean), part) for mean, part in zip(estimates, sums / counts, strict=True)]

    def _means(self, rivals: Sequence[ArrayLike], mask: ArrayLike | None) -> list[Sampled]:
        """The means of some values (G, S, N) over what the mask keeps and is finite in all of them."""
        arrays = [np.asarray(values, dtype=np.float64) for values in rivals]
        for values in arrays:
            if values.shape != (self.groups, self.seeds, self.cases):
                expected = (self.groups, self.seeds, self.cases)
                raise ShapeError(f"values must be (groups, seeds, cases) = {expected}, got {values.shape}")
        kept = np.isfinite(arrays).all(0) & (True if mask is None else np.asarray(mask, bool))
        arrays = [np.where(kept, values, 0.0) for values in arrays]
        with np.errstate(divide="ignore", invalid="ignore"):
            *totals, count = self._resampled(np.stack([*arrays, kept]))
            return [
                Sampled(float(values.sum() / kept.sum()), total / count)
                for values, total in zip(arrays, totals, strict=True)
            ]

    def _resampled(self, values: Floats) -> Floats:
        """The sums of values (K, G, S, N) over each resample, (K, B); one product reads the counts only once."""
        columns = values.reshape(-1, self.cases).T
        few = self.resamples * self.cases <= _KEPT
        by_seed = self._counts @ columns if few else self._sums_of_blocks(columns)  # (B, K G S)
        return np.einsum("bks,bs->kb", by_seed.reshape(self.resamples, len(values), -1), self._seed_counts)

    def _sums_of_blocks(self, columns: Floats) -> Floats:
        """The sums of columns (N, C) over each resample, (B, C), in bounded memory.

        A block's sum is a difference of cumulative sums. Those of a resample are gathered where its blocks, with all
        columns, are fewer numbers than its N counts; otherwise a product with how often each is drawn is faster.
        """
        wrapped = np.concatenate([np.zeros_like(columns[:1]), columns, columns[: self.block - 1]]).cumsum(0)
        sums = wrapped[self.block :] - wrapped[: -self.block]  # (N, C)
        gathered = self.block > columns.shape[1]
        at_once = max(1, _AT_ONCE // self.cases)
        drawn = _block_starts(self.cases, self.block, self.resamples, self.seed, at_once)
        parts = [sums[part].sum(1) if gathered else _counted(part, self.cases) @ sums for part in drawn]
        return np.concatenate(parts)

    @property
    def _counts(self) -> Floats:
        """How often each resample draws each case, (B, N)."""
        return _case_counts(self.cases, self.block, self.resamples, self.seed)

    @cached_property
    def _seed_counts(self) -> Floats:
        """How often each resample draws each seed of each group, (B, G S)."""
        generator = np.random.default_rng((self.seed, 1))
        shape = (self.resamples, self.groups)
        group = generator.integers(self.groups, size=shape)[..., None]
        seed = generator.integers(self.seeds, size=(*shape, self.seeds))
        return _counted((group * self.seeds + seed).reshape(self.resamples, -1), self.groups * self.seeds)


@lru_cache(maxsize=4)  # large, and the same for all studies of one shape
def _case_counts(cases: int, block: int, resamples: int, seed: int) -> Floats:
    (starts,) = _block_starts(cases, block, resamples, seed, resamples)
    chosen = (starts[..., None] + np.arange(block)) % cases
    counts = _counted(chosen.reshape(resamples, -1), cases)
    counts.flags.writeable = False
    return counts


def _block_starts(cases: int, block: int, resamples: int, seed: int, at_once: int) -> Iterator[Indices]:
    """The first cases of the blocks of the resamples, (at_once, N / block); the same ones in parts of any size."""
    generator = np.random.default_rng((seed, 0))
    for first in range(0, resamples, at_once):
        yield generator.integers(cases, size=(min(at_once, resamples - first), -(-cases // block)))


def _counted(chosen: Indices, size: int) -> Floats:
    rows = np.arange(len(chosen))[:, None] * size
    counts = np.bincount((rows + chosen).reshape(-1), minlength=len(chosen) * size)
    return counts.reshape(len(chosen), size).astype(np.float64)


def defined_mean(values: ArrayLike, axis: int | None = None) -> Floats:
    """The mean along an axis, or of all, of what is finite; NaN where nothing is, as where every run failed.

    Args:
        values: The numbers.
        axis: The axis along which the mean is taken; None for the mean of all.
    """
    numbers = np.asarray(values, dtype=np.float64)
    kept = np.isfinite(numbers)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(kept, numbers, 0.0).sum(axis) / kept.sum(axis))


def defined_deviation(values: ArrayLike, axis: int) -> Floats:
    """The standard deviation along an axis of what is finite; NaN where nothing is.

    Args:
        values: The numbers.
        axis: The axis along which the deviation is taken.
    """
    numbers = np.asarray(values, dtype=np.float64)
    return np.sqrt(defined_mean((numbers - np.expand_dims(defined_mean(numbers, axis), axis)) ** 2, axis))


def paired_difference(
    values: ArrayLike, baseline: ArrayLike, block: int = 1, resamples: int = 2000, seed: int = 0
) -> Difference:
    """The mean of values - baseline with its 95 % interval, from resampled blocks of neighbouring cases and seeds.

    Args:
        values: Values (S, N) of S seeds and N cases in time order.
        baseline: What is subtracted from them: values of the same seeds and cases.
        block: How many neighbouring cases are resampled together.
        resamples: How many resamples the interval comes from.
        seed: What the resamples depend on.
    """
    first, second = np.asarray(values, dtype=np.float64), np.asarray(baseline, dtype=np.float64)
    if first.shape != second.shape or first.ndim != 2 or first.size == 0:
        raise ShapeError(f"values and baseline must have one shape (S, N), got {first.shape} and {second.shape}")
    seeds, cases = first.shape
    resampling = Resampling(cases, seeds, block=block, resamples=resamples, seed=seed)
    return resampling.mean((first - second)[None]).interval()
