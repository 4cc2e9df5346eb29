"""How members of several outcomes belong together: as error vectors of the past did, or as other members do."""

import numpy as np
import torch
from numpy.typing import NDArray

from stakes.models.support_points import herding_order

_MOST_VECTORS = 200

Floats = NDArray[np.float64]
Ranks = NDArray[np.int64]


def error_ranks(members: Floats, outcomes: Floats) -> Ranks:
    """The `vector_ranks` of errors: outcomes less the members' mean, in units of their spread."""
    spread = members.std(1)
    return vector_ranks((outcomes - members.mean(1)) / np.where(spread > 0, spread, 1.0))


def vector_ranks(errors: Floats, weight: Floats | None = None) -> Ranks:
    """The ranks (K, D), from 0, of each outcome of up to 200 error vectors, of which the first few stand for all."""
    shares = None if weight is None else torch.from_numpy(weight)
    chosen = herding_order(torch.from_numpy(errors), min(_MOST_VECTORS, len(errors)), shares)
    return _ranks(errors[chosen.numpy()])


def error_places(members: Floats, weights: Floats, outcomes: Floats) -> Floats:
    """Where outcomes (N, D) lie among weighted members (N, M, D): the share below them, those equal by half."""
    shares = (weights / weights.sum())[:, None]
    below, equal = ((compared(members, outcomes[:, None]) * shares).sum(1) for compared in (np.less, np.equal))
    return np.asarray(below + equal / 2)


def quantiles_at(members: Floats, weights: Floats, count: int) -> Floats:
    """So many equally likely members (N, K, D) of weighted ones that ascend, (N, M, D)."""
    levels = (np.arange(count) + 0.5) / count
    totals = np.cumsum(weights / weights.sum())
    return members[:, np.minimum(np.searchsorted(totals, levels), len(weights) - 1)]


def reordered(members: Floats, ranks: Ranks) -> Floats:
    """The members (N, M, D) of every case in the order of the error vectors; chance tells copies of one apart."""
    count = members.shape[1]
    vectors = ranks[np.arange(count) % len(ranks)]  # (M, D)
    places = _ranks(vectors + np.random.default_rng(0).uniform(size=vectors.shape))
    return np.take_along_axis(np.sort(members, 1), places[None], 1)


def reordered_as_members(quantiles: Floats, members: Floats) -> Floats:
    """Quantiles (N, K, D) of every case in the order of its M members; chance tells equal ones and copies apart."""
    count, width = quantiles.shape[1:]
    chance = np.random.default_rng(0).permuted(np.tile(np.arange(count)[:, None], width), axis=0)[None]  # (1, K, D)
    shuffled = np.take_along_axis(np.repeat(members, count // members.shape[1], 1), chance, 1)
    places = np.empty_like(shuffled, dtype=np.int64)
    np.put_along_axis(places, chance, _ranks(shuffled, 1), 1)
    return np.take_along_axis(quantiles, places, 1)


def _ranks(values: Floats, axis: int = 0) -> Ranks:
    return np.argsort(np.argsort(values, axis, kind="stable"), axis, kind="stable")
