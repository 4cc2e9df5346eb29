"""Have the errors of a forecast left what was learned? A sequential test that may be looked at after every case."""

import math
from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stakes.argument_checks import require_count
from stakes.errors import SettingError, ShapeError
from stakes.evaluation.intervals import autocorrelation

Question = Literal["bias", "spread", "cost"]
Floats = NDArray[np.float64]

ENOUGH_BLOCKS = 20  # of past cases: with fewer, even a large change takes long to be noticed
STRONG_CORRELATION = 0.5  # of neighbouring blocks
_SHIFTS = (0.5, 1.0, 2.0)  # in deviations of a block's number
_IDLE = 0.5  # of the capital, at the start and of what is spread again
_SPREAD_AGAIN = 0.01  # of the capital, after each block
_MOST = 700.0  # the logarithm of the largest capital that is counted
_MOST_CORRELATION = 0.98  # of neighbouring blocks: with more, a change would leave no trace
_EDGE = 1e-12  # of ranks, which rounding may put at 0 or 1
_OUTERMOST = 0.005  # the PIT beyond all of 100 members


class SeenErrors(NamedTuple):
    """What is known of N cases once their outcomes are there, in the order of time."""

    pit: Floats  # the share of the members below the outcome, of what the decision is about, (N,)
    excess: Floats  # realised less expected cost of the forecast's action, (N,)


@dataclass(frozen=True)
class QuestionAnswered:
    """One question, and what past and new cases say."""

    name: Question  # which question it is
    past: float
    new: float  # the same of the new cases; NaN where there are none
    evidence: float  # the largest capital so far that betting against "nothing has changed" has made of 1
    noticed: int | None  # how many new cases had been seen when the evidence sufficed; None where it does not
    correlation: float  # the autocorrelation of past blocks that was removed: 0 where none was measured


@dataclass(frozen=True)
class ErrorWatch:
    """What a look at the new cases so far says."""

    answers: tuple[QuestionAnswered, ...]  # the three questions
    alpha: float  # the most likely a false alarm is, ever, over all looks and questions
    block: int  # how many neighbouring cases are one bet, at least as many as asked for
    past_blocks: int  # how many past blocks the new ones are held against
    new_blocks: int  # how many new blocks have been bet on
    waiting: int  # how many of the newest cases wait for their block to fill

    @property
    def enough(self) -> float:
        """The evidence that answers a question by yes."""
        return len(self.answers) / self.alpha

    @property
    def left(self) -> tuple[QuestionAnswered, ...]:
        """The questions answered by yes, the first to be noticed first."""
        noticed = (each for each in self.answers if each.noticed is not None)
        return tuple(sorted(noticed, key=lambda answer: answer.noticed or 0))


def watch_errors(past: SeenErrors, new: SeenErrors, *, block: int = 1, alpha: float = 0.05) -> ErrorWatch:
    """Test whether the errors of new cases have drifted from those of past cases.

    You may repeat the test as cases arrive: an alarm stays one as long as `new` begins with the same case.

    >>> generator = np.random.default_rng(0)
    >>> past, as_before, too_high = (SeenErrors(generator.uniform(low, 1, 200), np.zeros(200)) for low in (0, 0, 0.4))
    >>> watch_errors(past, as_before).left
    ()
    >>> [(answer.name, answer.noticed) for answer in watch_errors(past, too_high).left]
    [('bias', 53)]

    Args:
        past: Test cases that the forecast has not learned from.
        new: All cases since then, from the first on.
        block: How many neighbouring cases depend on each other, and are one bet; doubled while past blocks are strongly
            correlated and 20 of them remain.
        alpha: Largest probability of a false alarm, over all looks ever, between 0 and 1.
    """
    require_count("block", block)
    if not 0 < alpha < 1:
        raise SettingError(f"alpha must lie between 0 and 1, got {alpha:g}")
    old, fresh = _checked("past", past), _checked("new", new)
    if block > len(old.pit):
        raise SettingError(f"block must be at most the {len(old.pit)} past cases, got {block}")
    while len(old.pit) // (2 * block) >= ENOUGH_BLOCKS and _strongly_correlated(old, block):
        block *= 2
    past_blocks, new_blocks = (len(each.pit) // block for each in (old, fresh))
    enough = len(get_args(Question)) / alpha
    answers = tuple(_answered(name, old, fresh, block, enough) for name in get_args(Question))
    return ErrorWatch(answers, alpha, block, past_blocks, new_blocks, len(fresh.pit) - new_blocks * block)


def _answered(name: Question, past: SeenErrors, new: SeenErrors, block: int, enough: float) -> QuestionAnswered:
    old, fresh = (_block_means(_numbers(name, each), block) for each in (past, new))
    shifts = _SHIFTS if name == "cost" else (*(-shift for shift in _SHIFTS), *_SHIFTS)
    if correlation := _correlation(old):
        every = np.concatenate([old, fresh])
        old, fresh = np.split(every[1:] - correlation * every[:-1], [len(old) - 1])
    capital = _capital(_ranks(old, fresh), shifts)
    reached = np.flatnonzero(capital >= enough)
    noticed = None if not len(reached) else int(reached[0] + 1) * block
    evidence = float(capital.max(initial=1.0))
    return QuestionAnswered(name, _shown(name, past), _shown(name, new), evidence, noticed, correlation)


def _strongly_correlated(past: SeenErrors, block: int) -> bool:
    means = (_block_means(_numbers(name, past), block) for name in get_args(Question))
    return any(_correlation(each) > STRONG_CORRELATION for each in means)


def _correlation(means: Floats) -> float:
    """The autocorrelation of block means, raised by its standard error; 0 where it is not positive."""
    measured = max(autocorrelation(means), 0.0)
    return min(measured + min(measured, math.sqrt((1 - measured**2) / len(means))), _MOST_CORRELATION)


def _ranks(past: Floats, new: Floats) -> Floats:
    """The rank (K,) of each new number among all before it and itself, between 0 and 1, ties drawn by lot."""
    seen, ranks = sorted(past.tolist()), np.random.default_rng(0).uniform(size=len(new))
    for place, number in enumerate(new.tolist()):
        insort(seen, number)
        first, behind = bisect_left(seen, number), bisect_right(seen, number)
        ranks[place] = (first + ranks[place] * (behind - first)) / len(seen)
    return ranks


def _capital(ranks: Floats, shifts: tuple[float, ...]) -> Floats:
    """What a capital of 1 has become after each of the bets, (K,)."""
    from scipy.special import ndtri  # not at once: deciding needs none of it

    bets = np.array([0.0, *shifts])
    start = np.array([_IDLE, *[(1 - _IDLE) / len(shifts)] * len(shifts)])
    gains = np.exp(np.outer(ndtri(ranks.clip(_EDGE, 1 - _EDGE)), bets) - bets**2 / 2)  # each with a mean of 1
    shares, growth = start, np.empty(len(ranks))
    for place, gain in enumerate(gains):
        growth[place] = (shares * gain).sum()
        shares = (1 - _SPREAD_AGAIN) * shares * gain / growth[place] + _SPREAD_AGAIN * start
    return np.asarray(np.exp(np.log(growth).cumsum().clip(max=_MOST)))


def _numbers(name: Question, seen: SeenErrors) -> Floats:
    """What is averaged over blocks, (N,)."""
    return seen.excess if name == "cost" else _quantiles(seen) if name == "bias" else _quantiles(seen) ** 2


def _shown(name: Question, seen: SeenErrors) -> float:
    if not len(seen.pit):
        return float("nan")
    if name == "bias":
        return float(seen.pit.mean())
    mean = float(_numbers(name, seen).mean())
    return mean**0.5 if name == "spread" else mean


def _quantiles(seen: SeenErrors) -> Floats:
    from scipy.special import ndtri

    return np.asarray(ndtri(seen.pit.clip(_OUTERMOST, 1 - _OUTERMOST)))


def _block_means(values: Floats, block: int) -> Floats:
    whole = len(values) // block
    return np.asarray(values[: whole * block].reshape(whole, block).mean(1))


def _checked(name: str, seen: SeenErrors) -> SeenErrors:
    pit, excess = (_floats(f"{field} of {name}", values) for field, values in zip(seen._fields, seen, strict=True))
    if len(pit) != len(excess):
        raise ShapeError(f"pit and excess of {name} must have a number for each case, got {len(pit)} and {len(excess)}")
    if ((pit < 0) | (pit > 1)).any():
        raise SettingError(f"pit of {name} must lie between 0 and 1, got {pit.min():g} to {pit.max():g}")
    return SeenErrors(pit, excess)


def _floats(name: str, values: ArrayLike) -> Floats:
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1 or not np.isfinite(numbers).all():
        raise ShapeError(f"{name} must be finite numbers (N,), got shape {numbers.shape}")
    return numbers
