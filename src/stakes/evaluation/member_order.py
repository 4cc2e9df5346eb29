"""How members of several outcomes belong together, taken from error vectors of the past: the Schaake shuffle.

The members of each outcome stay what they are; only which of them make up one possible future changes. The ranks of
past error vectors say which: where two sites erred alike, high members of one go with high members of the other.
"""

import numpy as np
from numpy.typing import NDArray

__all__ = ["error_ranks", "reordered"]

_MOST_VECTORS = 200

Floats = NDArray[np.float64]
Ranks = NDArray[np.int64]


def error_ranks(members: Floats, outcomes: Floats) -> Ranks:
    """The ranks (K, D), from 0, of up to 200 error vectors among each other, of each outcome.

    An error is the outcome less the members' mean, in units of their spread. Of more cases 200 are drawn, always the
    same: neighbours in time err alike, and every so many cases might all be of one hour.

    Args:
        members: Members (N, M, D).
        outcomes: What happened, (N, D).
    """
    spread = members.std(1)
    errors = (outcomes - members.mean(1)) / np.where(spread > 0, spread, 1.0)
    if len(errors) > _MOST_VECTORS:
        errors = errors[np.sort(np.random.default_rng(0).choice(len(errors), _MOST_VECTORS, replace=False))]
    return _ranks(errors)


def reordered(members: Floats, ranks: Ranks) -> Floats:
    """The members (N, M, D) of every case in the order of the error vectors: M of these, or each several times.

    Copies of one vector are told apart by chance, outcome by outcome, always in the same way.

    Args:
        members: Members (N, M, D).
        ranks: Ranks (K, D), as `error_ranks` gives them.
    """
    count = members.shape[1]
    vectors = ranks[np.arange(count) * len(ranks) // count]  # (M, D)
    places = _ranks(vectors + np.random.default_rng(0).uniform(size=vectors.shape))
    return np.take_along_axis(np.sort(members, 1), places[None], 1)


def _ranks(values: Floats) -> Ranks:
    return np.argsort(np.argsort(values, 0, kind="stable"), 0, kind="stable")
