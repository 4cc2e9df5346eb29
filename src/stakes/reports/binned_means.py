"""Means over parts of the cases that hold equally many of them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stakes.evaluation.intervals import Resampling, Sampled

__all__ = ["binned_means"]

Floats = NDArray[np.float64]


def binned_means(resampling: Resampling, key: Floats, values: Sequence[Floats], bins: int) -> list[list[Sampled]]:
    """The means of each of some values within bins of a key, from its lowest to its highest.

    Args:
        resampling: How sure one can be of means over the cases.
        key: What the bins go by, (N,).
        values: What is averaged, (N,) each.
        bins: How many bins there are.
    """
    place = np.argsort(np.argsort(key, kind="stable")) * bins // len(key)
    parts = np.stack([np.where(place == each, value, np.nan) for value in values for each in range(bins)])
    means = resampling.means(parts[:, None, None])
    return [means[start : start + bins] for start in range(0, len(means), bins)]
