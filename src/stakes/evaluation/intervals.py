"""Confidence intervals of differences between forecasts on the same cases, paired over time and seeds."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stakes.argument_checks import require_count, whole_number
from stakes.data.tables.time_axis import Times, to_utc
from stakes.errors import SettingError, ShapeError

Floats = NDArray[np.float64]

_STEP = 1e-3  # of the waves, so small that functions of means are straight lines between replicates
_BY_CHANCE = 1.28  # standard errors of an autocorrelation, which chance exceeds in one of ten
_MOST_CORRELATION = 0.98
_LEAST_SKEWED = 5  # terms, of which a skewness can be measured
_LEAST_WAVES = 4  # kept however correlated terms look: fewer tell no variance, and chance alone may ask for fewer
_FARTHEST = 2.5  # times Student's quantile
_MORE_SKEWED = 1.25  # times as skewed as measured: few terms of a skewed distribution show too little of its tail


class Difference(NamedTuple):
    """A mean difference and its 95 % interval."""

    mean: float  # the mean difference
    low: float  # the lower end of its interval; NaN where there is no interval
    high: float  # the upper end

    @property
    def significant(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, eq=False)
class Sampled:
    """A statistic with its replicates; arithmetic acts on both, so any function of means has an interval.

    Two statistics of one `Resampling` share their weights: their difference is a paired one.
    """

    estimate: float  # the statistic of the cases as they are
    replicates: tuple[Floats, Floats]
    degrees: tuple[float, float]

    @property
    def error(self) -> float:
        """The standard error, by time and by run; NaN where there are too few cases to tell."""
        return math.sqrt(sum(self._variances))

    @property
    def degrees_of_freedom(self) -> float:
        """Those of the standard error, by Welch and Satterthwaite."""
        variance = sum(self._variances)
        if not variance > 0:
            return math.inf
        by_time = self.degrees[0]
        if kept := len(self._by_time):
            by_time = max(by_time * kept / len(self.replicates[0]), 1.0)
        parts = zip(self._variances, (by_time, self.degrees[1]), strict=True)
        return 1 / sum((part / variance) ** 2 / degrees for part, degrees in parts)

    def interval(self, level: float = 0.95) -> Difference:
        """The estimate and the interval around it, Student's or, where the cases are skewed, a wider one."""
        from scipy.special import stdtrit  # not at once: deciding needs none of it

        error, quantile = self.error, float(stdtrit(self.degrees_of_freedom, (1 + level) / 2))
        below, above = (error * _unskewed(quantile, side * self._skewness) for side in (1, -1))
        return Difference(self.estimate, self.estimate - below, self.estimate + above)

    def applied(self, function: Callable[..., Floats], *others: "Sampled") -> "Sampled":
        """A function of this statistic and others."""
        every = (self, *others)
        with np.errstate(divide="ignore", invalid="ignore"):
            by_time, by_run = (function(*parts) for parts in zip(*(each.replicates for each in every), strict=True))
            estimate = float(function(*(np.float64(each.estimate) for each in every)))
        by_time_degrees, by_run_degrees = (min(parts) for parts in zip(*(each.degrees for each in every), strict=True))
        return Sampled(estimate, (by_time, by_run), (by_time_degrees, by_run_degrees))

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
        return self.applied(np.abs)

    def relative_to(self, baseline: "Sampled") -> "Sampled":
        """(self - baseline) / |baseline|, in per cent."""
        return (self - baseline) / abs(baseline) * 100.0

    def _with(self, other: "Sampled | float", operation: Callable[..., Floats]) -> "Sampled":
        if isinstance(other, Sampled):
            return self.applied(operation, other)
        return self.applied(lambda numbers: operation(numbers, other))

    @cached_property
    def _variances(self) -> tuple[float, float]:
        if not (math.isfinite(self.estimate) and self.degrees[0]):
            return math.nan, math.nan
        moved = self._by_time, (self.replicates[1] - self.estimate) / _STEP
        by_time, by_run = (float(np.square(part).mean()) if len(part) else 0.0 for part in moved)
        return by_time, by_run

    @cached_property
    def _by_time(self) -> Floats:
        """How far waves in time move the statistic: all of them, or those longer than the memory that shows."""
        moved = (self.replicates[0] - self.estimate) / _STEP
        while len(moved) > _LEAST_WAVES and np.isfinite(moved).all():
            correlation = autocorrelation(_terms(moved))
            if correlation <= _BY_CHANCE / math.sqrt(len(moved) + 1):
                break
            moved = moved[: max(int(len(moved) * (1 - correlation) / (1 + correlation)), _LEAST_WAVES)]
        return moved

    @cached_property
    def _skewness(self) -> float:
        """That of the statistic's error, as the terms by time tell it."""
        if not 0 < (error := self.error) < math.inf:
            return 0.0
        terms, count = _terms(self._by_time), len(self._by_time) + 1
        if count < _LEAST_SKEWED:
            return 0.0
        return _MORE_SKEWED * count**2 / ((count - 1) * (count - 2)) * float((terms**3).sum()) / error**3


@dataclass(frozen=True)
class Resampling:
    """The weights with which the means of N cases of S seeds in G groups are taken once more, to see how they vary.

    The cases are weighted by slow waves in time, and the groups (data sets), or the seeds of a single group, by all
    waves, as independent cases are. What a seed does at a single time counts both by time and by run, which makes
    intervals rather too wide than too narrow.
    """

    cases: int  # how many cases N there are, in the order of time
    seeds: int = 1  # how many seeds S each group has
    groups: int = 1  # how many groups G (data sets) there are
    block: int = 1  # how many neighbouring cases depend on each other

    def __post_init__(self) -> None:
        if not 1 <= self.block <= self.cases:
            raise SettingError(f"block must lie between 1 and {self.cases}, got {self.block}")

    @property
    def stretch(self) -> int:
        """How many neighbouring cases are one stretch of time: 2 block - 1, at most half of all."""
        return min(2 * self.block - 1, (self.cases + 1) // 2)

    def mean(self, values: ArrayLike, weights: ArrayLike | None = None) -> Sampled:
        """The mean over groups, seeds and cases, with its replicates; NaN is left out."""
        return self._means([values], weights)[0]

    def pair(self, values: ArrayLike, baseline: ArrayLike, weights: ArrayLike | None = None) -> tuple[Sampled, Sampled]:
        """The means of both over what is finite in both: a forecast that failed is left out of its rival too."""
        first, second = self._means([values, baseline], weights)
        return first, second

    def means(self, values: ArrayLike) -> list[Sampled]:
        """The mean of each of several values over what is finite in it, as `mean`."""
        numbers = np.asarray(values, dtype=np.float64)
        return self._weighted(numbers, np.isfinite(numbers).astype(np.float64))

    def _means(self, rivals: Sequence[ArrayLike], weights: ArrayLike | None) -> list[Sampled]:
        """The means of some values (G, S, N) over what is finite in all of them."""
        arrays = [np.asarray(values, dtype=np.float64) for values in rivals]
        for values in arrays:
            if values.shape != (self.groups, self.seeds, self.cases):
                expected = (self.groups, self.seeds, self.cases)
                raise ShapeError(f"values must be (groups, seeds, cases) = {expected}, got {values.shape}")
        numbers = np.stack(arrays)
        given = 1.0 if weights is None else np.asarray(weights, dtype=np.float64)
        return self._weighted(numbers, np.broadcast_to(np.isfinite(numbers).all(0) * given, numbers.shape))

    def _weighted(self, values: Floats, weights: Floats) -> list[Sampled]:
        """The weighted mean of each of K values, (K, G, S, N)."""
        numbers = np.where(weights > 0, values, 0.0)
        total = weights.reshape(len(weights), -1).sum(1)
        with np.errstate(divide="ignore", invalid="ignore"):
            estimates = (weights * numbers).reshape(len(weights), -1).sum(1) / total
            apart = weights * (numbers - estimates[:, None, None, None]) / total[:, None, None, None]  # sums to zero
        of_run = (2, 3) if self.groups > 1 else (1, 3)
        by_time, time_degrees = _varied(apart.sum((1, 2)), weights.max((1, 2)) > 0, self.stretch)
        by_run, run_degrees = _varied(apart.sum(of_run), weights.max(of_run) > 0, 1)
        run_degrees = np.where(run_degrees > 0, run_degrees, np.inf)  # a single run varies by time alone
        return [
            Sampled(float(estimate), (estimate + of_time, estimate + of_runs), degrees)
            for estimate, of_time, of_runs, degrees in zip(
                estimates, by_time, by_run, zip(time_degrees.tolist(), run_degrees.tolist(), strict=True), strict=True
            )
        ]


def autocorrelation(values: Floats) -> float:
    """How far neighbours among n numbers are correlated, at most 0.98; 0 where they are all equal.

    An estimate r from n numbers is too low by (1 + 3 r) / n on average (Kendall, 1954), which is added.
    """
    apart, count = values - values.mean(), len(values)
    square = float(apart @ apart)
    if not square > 0:
        return 0.0
    measured = float(apart[1:] @ apart[:-1]) / square
    return min(measured + (1 + 3 * max(measured, 0.0)) / count, _MOST_CORRELATION)


def _terms(moved: Floats) -> Floats:
    """What each of B + 1 stretches of time adds to the error of a statistic that B waves move so far, (B + 1,)."""
    from scipy.fft import idct  # not at once: deciding needs none of it

    return np.asarray(idct(np.append(0.0, moved), norm="ortho") / math.sqrt(len(moved) + 1))


def _unskewed(quantile: float, skewness: float) -> float:
    """The quantile of a skewed statistic, in standard errors, by Hall's transformation.

    What is measured on few terms may widen an interval up to 2.5 times, but never narrow it.
    """
    if abs(skewness) < _STEP:
        return quantile
    reach = 3 / skewness * (float(np.cbrt(1 + skewness * (quantile - skewness / 6))) - 1)
    return min(max(reach, quantile), _FARTHEST * quantile)


def _varied(apart: Floats, kept: NDArray[np.bool_], stretch: int) -> tuple[Floats, Floats]:
    """How far waves move K sums of n terms that are zero, (K, B), and their degrees of freedom, (K,).

    A sum that touches few of the B + 1 stretches has as few degrees of freedom, less one, by Bessel's correction.
    """
    from scipy.fft import dct  # not at once: deciding needs none of it

    edges = np.arange(0, apart.shape[1], stretch)
    waves, touched = len(edges) - 1, np.logical_or.reduceat(kept, edges, axis=1).sum(1)
    degrees = np.maximum(touched - 1.0, 0.0)
    bessel = np.divide(touched * waves, degrees * (waves + 1), out=np.zeros(len(apart)), where=degrees > 0)
    return dct(apart, axis=1)[:, 1 : waves + 1] * (_STEP * np.sqrt(bessel / 2))[:, None], degrees


def paired_difference(values: ArrayLike, baseline: ArrayLike, block: int = 1) -> Difference:
    """The mean of values - baseline with its 95 % interval, over time and seeds.

    Args:
        values: Values (S, N) of S seeds and N cases in time order.
        baseline: Values to subtract, of the same seeds and cases.
        block: Number of consecutive cases that depend on each other.
    """
    first, second = np.asarray(values, dtype=np.float64), np.asarray(baseline, dtype=np.float64)
    if first.shape != second.shape or first.ndim != 2 or first.size == 0:
        raise ShapeError(f"values and baseline must have one shape (S, N), got {first.shape} and {second.shape}")
    seeds, cases = first.shape
    return Resampling(cases, seeds, block=block).mean((first - second)[None]).interval()


_LEAST_ERROR = 1e-6  # of the standard error; a resample with less has drawn equal blocks
_AT_ONCE = 1 << 22  # blocks that are drawn together


def upper_bounds(
    differences: ArrayLike,
    *,
    block: int = 1,
    together: ArrayLike | None = None,
    level: float = 0.975,
    resamples: int = 2000,
) -> Floats:
    """Bounds (K,) below which the means of K differences lie, all at once.

    >>> noise = np.random.default_rng(0).normal(size=(3, 200))
    >>> upper_bounds(noise - np.array([[0.0], [0.1], [0.4]])) < 0
    array([False,  True,  True])
    """
    values = np.asarray(differences, dtype=np.float64)
    if values.ndim != 2 or not np.isfinite(values).all():
        raise ShapeError(f"differences must be finite numbers (K, N), got shape {values.shape}")
    means = _block_means(values, block)
    blocks = means.shape[1]
    if blocks < 2:
        raise SettingError(f"block must leave at least two blocks of {values.shape[1]} cases, got {block}")
    centred = means - means.mean(1, keepdims=True)
    mean, square = np.split(_resampled(np.concatenate([centred, centred**2]), resamples), 2)  # (K, B)
    error = np.sqrt((centred**2).mean(1) / (blocks - 1))
    drawn_error = np.sqrt((square - mean**2).clip(0) / (blocks - 1))
    usable = drawn_error > _LEAST_ERROR * error[:, None]
    studentised = np.divide(-mean, drawn_error, out=np.zeros_like(mean), where=usable)
    held = np.ones(len(values), bool) if together is None else np.asarray(together, bool)
    quantile = max(float(np.quantile(studentised[held].max(0), level)), 0.0)
    return np.asarray(values.mean(1) + quantile * error)


def _resampled(values: Floats, resamples: int) -> Floats:
    """The means of values (C, n) over resamples of their columns, (C, B)."""
    generator, blocks = np.random.default_rng((0, 0)), values.shape[1]
    means, at_once = [], max(1, _AT_ONCE // blocks)
    for first in range(0, resamples, at_once):
        drawn = generator.integers(blocks, size=(min(at_once, resamples - first), blocks))
        places = drawn + np.arange(len(drawn))[:, None] * blocks
        counts = np.bincount(places.reshape(-1), minlength=drawn.size).reshape(drawn.shape)
        means.append(values @ counts.T / blocks)
    return np.concatenate(means, axis=1)


def _block_means(values: Floats, block: int) -> Floats:
    """The means (K, n) of n blocks of `block` or a few more neighbours."""
    cases = values.shape[1]
    blocks = max(cases // block, 1)
    edges = np.arange(blocks + 1) * cases // blocks
    return np.asarray(np.add.reduceat(values, edges[:-1], axis=1) / np.diff(edges))


class YearlyCases(NamedTuple):
    """How many cases a year has."""

    cases: float  # how many, if all of it were like the cases that are known
    whole: bool  # whether those span a year, and so all its seasons

    @classmethod
    def of(cls, times: Times) -> "YearlyCases | None":
        """By the times (N,) of some cases; None where they are all of one time."""
        if len(moments := np.unique(times.astype("datetime64[s]"))) < 2:
            return None
        span = moments[-1] - moments[0] + np.median(np.diff(moments).astype(np.int64)).astype(np.int64)
        return cls(len(times) * float(_YEAR / span), bool(span >= 0.95 * _YEAR))


LEAST_BLOCKS = 10  # fewer are all of one sign too often by chance for an interval to be believed
_DAY = 24 * 3600  # seconds
_YEAR = np.timedelta64(31_557_600, "s")
_LEAST_DAYS, _MOST_DAYS = 3, 7  # of a block; weather, and with it errors, persists for days


def block_length(cases: int, times: Any = None, asked: int | Literal["auto"] | None = "auto") -> int:
    """How many neighbouring cases depend on each other: as asked for, a week of them, or N^(1/3) of N without times.

    The step of the times is the median distance. Where they hold fewer than 20 weeks, of which every other block would
    leave too few to tell anything, a block is so many whole days that there are 20 of them, at least three days and two
    cases: a shorter block would part what belongs together, and make few cases look like many. With fewer than 60 days,
    therefore, the blocks are too few for a choice among weights.

    >>> block_length(17544, np.arange("2020", "2022-01-01", dtype="datetime64[h]"))
    168
    >>> block_length(744, np.arange("2020-01-01", "2020-02-01", dtype="datetime64[h]"))
    72
    >>> block_length(1000), block_length(1000, asked=48), block_length(40, asked=48)
    (10, 48, 40)
    """
    if asked is not None and asked != "auto":
        return min(whole_number("block", asked), cases)
    if times is None:
        require_count("cases", cases)
        return math.ceil(round(cases ** (1 / 3), 9))
    moments = to_utc(times, "times")
    different = np.unique(moments)
    if len(different) < 2:
        return max(1, len(moments))
    step = float(np.median(np.diff(different).astype(np.int64)))
    day = _DAY / step * len(moments) / len(different)  # cases of a day
    days = min(max(int(len(moments) / (2 * LEAST_BLOCKS * day)), _LEAST_DAYS), _MOST_DAYS)
    return min(max(round(days * day), 2), max(round(_MOST_DAYS * day), 1), len(moments))
