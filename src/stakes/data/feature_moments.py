"""How the features of a fit hang together, by which a missing one is drawn from what the others say of it.

Given those that are known, the missing features of a row are taken as jointly normal, with the means and correlations
of the complete rows. Several draws of them, each forecast on its own, make a forecast without them that is as wide as
what is not known: p(y | known) is the mean of p(y | known, missing) over p(missing | known).
"""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from stakes.data.stored_cases import read_kept
from stakes.data.table_columns import column_numbers
from stakes.data.tables import write_table
from stakes.errors import TableError

__all__ = ["FEATURE_MOMENTS", "FeatureMoments", "load_moments", "save_moments"]

FEATURE_MOMENTS = "feature_moments.parquet"
"""The file of the moments in the folder of a fit."""

Floats = NDArray[np.float64]
_MOST_FEATURES = 1000  # the file grows with their square
_MOST_ROWS = 20_000  # more change the moments little
_LEAST_ROWS, _ROWS_PER_FEATURE = 30, 5
_SHRINKAGE = 1e-4  # features may be copies of each other
_FACTS = ("rows", "mean", "scale", "lower", "upper")


@dataclass(frozen=True, eq=False)
class FeatureMoments:
    """Means and correlations of the features of a fit.

    Attributes:
        names: The names of the F features.
        rows: How many rows they come from.
        mean: Their means (F,).
        scale: Their standard deviations (F,).
        lower: Their least values (F,).
        upper: Their largest values (F,).
        correlation: Their correlations (F, F).
    """

    names: tuple[str, ...]
    rows: int
    mean: Floats
    scale: Floats
    lower: Floats
    upper: Floats
    correlation: Floats

    @classmethod
    def of(cls, features: pd.DataFrame) -> "FeatureMoments | None":
        """The moments of complete rows; None where these are too few, or the features very many.

        Args:
            features: Features (N, F) by name, the newest rows last.
        """
        values = features.to_numpy(np.float64)[-_MOST_ROWS:]
        rows, count = values.shape
        if count > _MOST_FEATURES or rows < max(_LEAST_ROWS, _ROWS_PER_FEATURE * count):
            return None
        mean, scale = values.mean(0), values.std(0)
        standard = np.divide(values - mean, scale, out=np.zeros_like(values), where=scale > 0)
        correlation = (1 - _SHRINKAGE) * standard.T @ standard / rows
        np.fill_diagonal(correlation, 1.0)
        names = tuple(map(str, features.columns))
        return cls(names, rows, mean, scale, values.min(0), values.max(0), correlation)

    def draws(self, features: Floats, count: int) -> Floats:
        """The rows (n, K, F) with every missing feature drawn K times, the same way in every call.

        Args:
            features: Features (n, F), NaN where they are missing.
            count: How many draws K.
        """
        from scipy.stats import norm  # type: ignore[import-untyped]  # which takes long, and is needed seldom
        from scipy.stats.qmc import LatinHypercube  # type: ignore[import-untyped]

        levels = LatinHypercube(len(self.names), rng=np.random.default_rng(0)).random(count)
        noise = norm.ppf(levels)  # (K, F), evenly spread for each feature by itself
        drawn = np.repeat(features[:, None], count, axis=1)
        patterns, which = np.unique(np.isnan(features), axis=0, return_inverse=True)
        for place, missing in enumerate(patterns):
            rows = which.reshape(-1) == place
            if missing.any():
                drawn[np.ix_(rows, np.ones(count, bool), missing)] = self._drawn(features[rows], missing, noise)
        return drawn

    def _drawn(self, features: Floats, missing: NDArray[np.bool_], noise: Floats) -> Floats:
        """The missing features (n, K, m) of rows in which the same ones are missing."""
        known = ~missing
        scale = np.where(self.scale[known] > 0, self.scale[known], 1.0)
        standard = (features[:, known] - self.mean[known]) / scale  # (n, o)
        cross = self.correlation[np.ix_(known, missing)]  # (o, m)
        slopes = np.linalg.solve(self.correlation[np.ix_(known, known)], cross)
        spread = self.correlation[np.ix_(missing, missing)] - cross.T @ slopes
        slopes_fitted = int(known.sum()) + 1
        spread = spread * (self.rows + slopes_fitted) / (self.rows - slopes_fitted)  # to these very rows
        sizes, axes = np.linalg.eigh(spread)
        root = axes * np.sqrt(sizes.clip(min=0)) @ axes.T
        errors = _standardised(noise[:, missing]) @ root  # (K, m)
        values = self.mean[missing] + self.scale[missing] * ((standard @ slopes)[:, None] + errors)
        return np.clip(values, self.lower[missing], self.upper[missing])


def _standardised(noise: Floats) -> Floats:
    """Noise (K, m) with mean 0 and variance 1, uncorrelated where K allows: a few draws may be off by a tenth."""
    centred = noise - noise.mean(0)
    if len(noise) > 2 * noise.shape[1]:
        sizes, axes = np.linalg.eigh(centred.T @ centred / len(noise))
        return centred @ (axes / np.sqrt(sizes)) @ axes.T
    return centred / centred.std(0)


def save_moments(folder: Path, features: pd.DataFrame) -> None:
    """Write the moments of the features into the folder of a fit, where they can be had.

    Args:
        folder: The folder of the fit.
        features: The features (N, F) of the cases it was fitted on.
    """
    moments = FeatureMoments.of(features)
    if moments is None:
        return
    facts = {name: getattr(moments, name) for name in _FACTS}
    correlation = pd.DataFrame(moments.correlation, columns=[f"with {place}" for place in range(len(moments.names))])
    table = pd.concat([pd.DataFrame({"name": moments.names, **facts}), correlation], axis=1)
    write_table(table, folder / FEATURE_MOMENTS)


def load_moments(folder: Path, names: tuple[str, ...], sha256: str) -> FeatureMoments | None:
    """The moments that `save_moments` wrote; None where it did not.

    Args:
        folder: The folder of the fit.
        names: The names of its features.
        sha256: What the file must hash to.
    """
    path = folder / FEATURE_MOMENTS
    if not os.path.lexists(path):
        return None
    table = read_kept(path, sha256, _MOST_FEATURES)
    if "name" not in table.columns or tuple(map(str, table["name"])) != names:
        raise TableError(f"{str(path)!r} must be of the features of the fit")
    facts = column_numbers(table, _FACTS, str(path))
    correlation = column_numbers(table, [f"with {place}" for place in range(len(names))], str(path))
    if not (np.isfinite(facts).all() and np.isfinite(correlation).all() and np.abs(correlation).max() <= 1 + 1e-9):
        raise TableError(f"{str(path)!r} must hold finite moments, and correlations between -1 and 1")
    rows, mean, scale, lower, upper = facts.T
    if rows[0] < _ROWS_PER_FEATURE * len(names) or np.linalg.eigvalsh(correlation).min() <= 0:
        raise TableError(f"{str(path)!r} must hold correlations that some rows can have")
    return FeatureMoments(names, int(rows[0]), mean, scale, lower, upper, correlation)
