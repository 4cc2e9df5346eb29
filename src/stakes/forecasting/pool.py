"""The pool: what share of its members each forecast should give, by the score of what the pool would have been."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stakes.evaluation.selection import JudgedCases
from stakes.models.sample_model import member_shares

Floats = NDArray[np.float64]

_MEMBERS = 50  # of each forecast, whose distances are taken
_CASES = 2000  # at most, evenly spread
_FOLDS = 5  # blocks of neighbouring cases
_LEAST = 0.02  # of the members: who gives less gives none


class PoolTerms(NamedTuple):
    """All that the energy score of any pool depends on, case by case.

    With shares w, the score is w . error - w . apart w / 2, a quadratic form: its least value over the shares that are
    not negative and sum to one is found exactly, without drawing a member.
    """

    error: Floats  # the mean distance of each forecast's members from the outcome, (N, K)
    apart: Floats  # the mean distance of members of two forecasts, (N, K, K)

    @classmethod
    def of(cls, forecasts: Sequence[Tensor], outcome: Tensor, unit: Tensor) -> Self:
        """From members (N, M, D) of each forecast, with outcomes (N, D) measured in a unit (D,)."""
        drawn = [_thinned(members, _MEMBERS).double() / unit for members in forecasts]
        seen = outcome[:, None].double() / unit
        error = torch.stack([torch.cdist(each, seen).mean((1, 2)) for each in drawn], 1)
        apart = torch.stack([torch.stack([torch.cdist(a, b).mean((1, 2)) for b in drawn], 1) for a in drawn], 1)
        return cls(error.numpy(), apart.numpy())

    def rows(self, chosen: NDArray[Any]) -> Self:
        """Some of the cases."""
        return self._replace(error=self.error[chosen], apart=self.apart[chosen])

    def score(self, shares: Floats) -> Floats:
        """The energy score of each case, (N,)."""
        return np.asarray(self.error @ shares - np.einsum("nij,i,j->n", self.apart, shares, shares) / 2)

    def best_shares(self) -> Floats:
        """Those of the least mean score."""
        from scipy.optimize import minimize  # not at once: deciding needs none of it

        error, apart = self.error.mean(0), self.apart.mean(0)
        count = len(error)
        unit = float(error.min()) or 1.0
        found = minimize(
            lambda w: (error @ w - w @ apart @ w / 2) / unit,
            np.full(count, 1 / count),
            jac=lambda w: (error - apart @ w) / unit,
            bounds=[(0.0, 1.0)] * count,
            constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": np.ones_like},
            method="SLSQP",
        )
        return _shares(np.asarray(found.x))

    def believed_shares(self) -> Floats:
        """Those of the least score, drawn to the best single forecast as far as the gain may be due to chance.

        The gain is that on blocks of neighbouring cases by shares of the others. With z, the gain over its standard
        error, 1 - 1 / z^2 of the way is gone, and none for z < 1.
        """
        every = np.eye(self.error.shape[1])
        single = min(every, key=lambda each: float(self.score(each).mean()))
        gain = np.empty(len(self.error))
        for block, others in folds_of(len(gain)):
            held = self.rows(block)
            gain[block] = held.score(single) - held.score(self.rows(others).best_shares())
        of_blocks = [float(gain[block].mean()) for block, _ in folds_of(len(gain), 2 * _FOLDS)]
        mean, variance = float(np.mean(of_blocks)), float(np.var(of_blocks, ddof=1)) / len(of_blocks)
        if mean <= 0 or variance >= mean**2:
            return single
        belief = 1 - variance / mean**2
        return _shares(belief * self.best_shares() + (1 - belief) * single)


@dataclass(frozen=True)
class FoundPool:
    """The shares of all cases, and those of each block, which are of the other blocks."""

    shares: Floats  # (K,)
    judged: JudgedCases  # what the pool is worth, each block with the shares of the others


def found_pool(
    forecasts: Sequence[Tensor],
    outcome: Tensor,
    unit: Tensor,
    worth: Callable[[NDArray[np.int64], Tensor], JudgedCases],
) -> FoundPool:
    """Shares by members (N, M, D) of forecasts that have not seen these outcomes; `worth` judges members of some cases.

    The pool is never judged on cases that set its shares.
    """
    kept = np.unique(np.linspace(0, len(outcome) - 1, min(len(outcome), _CASES)).astype(np.int64))
    terms = PoolTerms.of([members[kept] for members in forecasts], outcome[kept], unit)
    parts = []
    for block, _ in folds_of(len(outcome)):
        shares = terms.rows(~np.isin(kept, block)).believed_shares()
        parts.append(worth(block, pooled(forecasts, shares, block)))
    return FoundPool(terms.believed_shares(), JudgedCases(*map(np.concatenate, zip(*parts, strict=True))))


def pooled(forecasts: Sequence[Tensor], shares: Floats, rows: NDArray[np.int64]) -> Tensor:
    """As many members of these cases as each forecast has, of each its share."""
    counts = member_shares(forecasts[0].shape[1], shares.tolist())
    pairs = zip(forecasts, counts, strict=True)
    return torch.cat([_thinned(members[rows], count) for members, count in pairs if count], 1)


def folds_of(cases: int, folds: int = _FOLDS) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Blocks of neighbouring cases, each with all others."""
    everything = np.arange(cases)
    return [(block, np.delete(everything, block)) for block in np.array_split(everything, folds) if len(block)]


def _thinned(members: Tensor, count: int) -> Tensor:
    """Some of the members, evenly from all models that drew them."""
    kept = np.linspace(0, members.shape[1] - 1, min(count, members.shape[1])).round().astype(np.int64)
    return members[:, kept]


def _shares(found: Floats) -> Floats:
    some = np.where(found < _LEAST, 0.0, found)
    return np.asarray(some / some.sum())
