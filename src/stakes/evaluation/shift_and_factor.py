"""The shift and the factor that mend an ensemble: those of the least CRPS, as far as they can be told from chance.

With centred members e (K of them), r the outcome less the members' mean, a shift b and a factor s, the CRPS is

    mean_k |b + s e_k - r| - s mean_kl |e_k - e_l| / 2,

convex in b and s. For a given factor it is least at the median of all r - s e_k; for a given shift at a quantile of all
(r - b) / e_k, weighted by |e_k|. This is the plain CRPS, of the very members that decisions are made from: of an
ensemble whose outcomes are as one member more it is least at factor 1, which the fair one is not, since the members'
own mean is not moved by the factor.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["LEAST_CASES", "Mended", "believed_shift_and_factor", "least_crps"]

LEAST_CASES = 50
"""With fewer cases nothing is corrected: blocks of fewer than five would have to tell how sure one can be."""

Floats = NDArray[np.float64]

_MEMBERS = 50  # by which an ensemble is represented
_ROUNDS = 8  # of shift and factor in turn
_BLOCKS = 10  # of neighbouring cases, whose estimates tell the standard error


class Mended(NamedTuple):
    """How far the members of each outcome are shifted, and by which factor they are spread about their mean.

    Attributes:
        shift: In the unit of the outcome, (D,).
        factor: Without unit, at least 0, (D,).
    """

    shift: Floats
    factor: Floats


def believed_shift_and_factor(members: Floats, outcomes: Floats, prior: Mended | None = None) -> Mended:
    """Shift and factor of the least CRPS, shrunk towards those that are expected without any case.

    The estimates of ten blocks of neighbouring cases tell the standard error, so that errors which persist for days do
    not count as many. With z, the distance from the prior over that error, 1 - 1 / z^2 of the distance is kept, and
    nothing for |z| < 1: the estimate of least expected error for an effect as large as it looks.

    Args:
        members: Members (N, M, D), in the order of time, at least `LEAST_CASES` cases.
        outcomes: What happened, (N, D).
        prior: What to shrink towards; None is shift 0 and factor 1.
    """
    centred, errors = _represented(members), outcomes - members.mean(1)
    overall = _of_all_outcomes(centred, errors)
    parts = [
        _of_all_outcomes(centred[rows], errors[rows]) for rows in np.array_split(np.arange(len(outcomes)), _BLOCKS)
    ]
    expected = prior or Mended(np.zeros_like(overall.shift), np.ones_like(overall.factor))
    return Mended(
        *(
            _shrunk(estimate, np.stack(of_parts), towards)
            for estimate, of_parts, towards in zip(overall, zip(*parts, strict=True), expected, strict=True)
        )
    )


def least_crps(centred: Floats, errors: Floats) -> tuple[float, float]:
    """Shift and factor of the least mean CRPS of one outcome.

    Args:
        centred: Members less their mean, (N, K).
        errors: Outcomes less the members' mean, (N,).
    """
    shift, factor = 0.0, 1.0
    spread = np.abs(centred)
    total, half_distance = spread.sum(), _half_distances(centred)
    varied = spread > 0
    for _ in range(_ROUNDS):
        before = shift, factor
        shift = float(np.median(errors[:, None] - factor * centred))
        if not total > 0:
            break
        places = np.broadcast_to((errors - shift)[:, None], centred.shape)[varied] / centred[varied]
        factor = max(0.0, _weighted_quantile(places, spread[varied], (total + half_distance) / 2))
        if (shift, factor) == before:
            break
    return shift, factor


def _of_all_outcomes(centred: Floats, errors: Floats) -> Mended:
    pairs = [least_crps(centred[..., place], errors[:, place]) for place in range(errors.shape[1])]
    return Mended(*np.array(pairs).T)


def _represented(members: Floats) -> Floats:
    """Members less their mean, (N, K, D); of many, the K quantiles whose CRPS is the least, at (k - 1/2) / K."""
    centred = members - members.mean(1, keepdims=True)
    if members.shape[1] <= _MEMBERS:
        return centred
    levels = (np.arange(_MEMBERS) + 0.5) / _MEMBERS
    return np.moveaxis(np.quantile(centred, levels, axis=1, method="hazen"), 0, 1)


def _half_distances(centred: Floats) -> float:
    """The sum over all cases of sum_kl |e_k - e_l| / (2 K), by the sorted members."""
    count = centred.shape[1]
    ranks = 2 * np.arange(count) - (count - 1)
    return float((np.sort(centred, 1) * ranks).sum() / count)


def _weighted_quantile(values: Floats, weights: Floats, target: float) -> float:
    """The least value at which the weights of all values up to it sum to the target."""
    order = np.argsort(values)
    place = int(np.searchsorted(np.cumsum(weights[order]), target))
    return float(values[order[min(place, len(order) - 1)]])


def _shrunk(estimate: Floats, of_blocks: Floats, towards: Floats) -> Floats:
    distance = estimate - towards
    variance = of_blocks.var(0, ddof=1) / len(of_blocks)
    kept = np.zeros_like(distance)
    np.divide(variance, distance**2, out=kept, where=distance != 0)
    return towards + distance * np.maximum(0.0, 1.0 - kept)
