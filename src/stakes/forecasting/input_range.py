"""Where a fit saw its features, which cells of new rows contradict that, and what the other features say of these."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stakes.settings import shown

OUTSIDE = "outside_training_range"
"""The column, and the field of an answer, that names the worst feature of a case."""

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

_MOST_FEATURES = 1000  # the correlations grow with their square
_MOST_ROWS = 20_000  # more change the moments little
_LEAST_ROWS, _ROWS_PER_FEATURE = 30, 5
_SHRINKAGE = 1e-4  # features may be copies of each other
_BEYOND = 0.1  # of its range: a column that is farther outside is flagged
_TIMES = 1.5  # as far from what the others say as any training row was: a cell contradicts them
_LEAST_RESIDUAL = 0.5  # in standard deviations of its column: less is no contradiction
_NAMED = 5
_CONSTANT = 1e-3  # of its value, at least 1: the scale of a column without any spread


@dataclass(frozen=True, eq=False)
class InputRange:
    """Ranges, means and correlations of the F features that a forecast was fitted on.

    Given the others, standardised z_j is normal with mean z_j - r_j and variance 1 / P_jj, where r_j = (P z)_j / P_jj
    and P is the inverse of the correlations. Columns that move together leave r_j small, however far they go: a trend
    goes on. One that moves alone does not, and is then treated as missing.
    """

    rows: int  # how many rows the moments come from
    mean: Floats  # (F,)
    scale: Floats  # standard deviations (F,), never 0
    lower: Floats  # least values (F,)
    upper: Floats  # largest values (F,)
    largest: Floats  # the largest |r_j| of any row, (F,)
    correlation: Floats | None  # (F, F); None where rows are too few, or features very many, to tell

    @classmethod
    def of(cls, features: NDArray[Any]) -> "InputRange":
        """The range of complete rows (n, F)."""
        recent = np.asarray(features[-_MOST_ROWS:], dtype=np.float64)
        rows, count = recent.shape
        mean, scale = recent.mean(0), recent.std(0)
        constant = scale <= 1e-6 * np.abs(mean)
        scale = np.where(constant, _CONSTANT * np.maximum(np.abs(mean), 1.0), scale)
        standard = np.where(constant, 0.0, (recent - mean) / scale)
        correlation = None
        if count <= _MOST_FEATURES and rows >= max(_LEAST_ROWS, _ROWS_PER_FEATURE * count):
            correlation = (1 - _SHRINKAGE) * standard.T @ standard / rows
            np.fill_diagonal(correlation, 1.0)
        edges = features.min(0).astype(np.float64), features.max(0).astype(np.float64)
        learned = cls(rows, mean, scale, *edges, np.zeros(count), correlation)
        for first in range(0, len(features), _MOST_ROWS):
            part = np.asarray(features[first : first + _MOST_ROWS], dtype=np.float64)
            residuals, _ = learned._residuals((part - mean) / scale, np.zeros(count, bool))
            np.maximum(learned.largest, np.abs(residuals).max(0), out=learned.largest)
        return learned

    def beyond(self, features: Floats) -> Flags:
        """Which cells (n, F) lie outside the range by more than a tenth of it; none that is missing."""
        margin = _BEYOND * (self.upper - self.lower)
        flags: Flags = (features < self.lower - margin) | (features > self.upper + margin)
        return flags

    def lacking(self, features: Floats) -> Flags:
        """Which cells (n, F) are missing, or beyond the range and contradict the others of their row.

        They are told one after the other, first the one whose absence makes the rest of the row most likely.
        """
        suspect, missing = self.beyond(features), np.isnan(features)
        standard = np.where(missing, 0.0, (features - self.mean) / self.scale)
        open_rows = np.flatnonzero(suspect.any(1))
        while len(open_rows):
            left = []
            patterns, which = np.unique(missing[open_rows], axis=0, return_inverse=True)
            for place, absent in enumerate(patterns):
                rows = open_rows[which.reshape(-1) == place]
                residuals, widths = self._residuals(standard[rows], absent)
                size = np.abs(residuals)
                most = np.maximum(_TIMES * self.largest * widths / self._widths, _LEAST_RESIDUAL)
                evidence = np.where(suspect[rows] & ~absent & (size > most), size / widths, 0.0)
                worst, hit = evidence.argmax(1), evidence.max(1) > 0
                rows, worst = rows[hit], worst[hit]
                missing[rows, worst], standard[rows, worst] = True, 0.0
                left.append(rows)
            open_rows = np.concatenate(left)
        return missing

    def outside(self, features: Floats) -> NDArray[np.int64]:
        """For each row (n,) the column to be named, -1 for none: a contradicting one, else the farthest beyond."""
        beyond = self.beyond(features)
        worse = self.lacking(features) & beyond
        distance = np.maximum(self.lower - features, features - self.upper) / self.scale
        named = np.where(worse.any(1, keepdims=True), worse, beyond)
        return np.where(beyond.any(1), np.where(named, distance, -np.inf).argmax(1), -1)

    def draws(self, features: Floats, count: int) -> Floats:
        """The rows (n, K, F) with every missing feature drawn K times, the same way in every call."""
        from scipy.stats import norm  # which takes long, and is needed seldom
        from scipy.stats.qmc import LatinHypercube

        levels = LatinHypercube(len(self.mean), rng=np.random.default_rng(0)).random(count)
        noise = norm.ppf(levels)  # (K, F), evenly spread for each feature by itself
        drawn = np.repeat(features[:, None], count, axis=1)
        patterns, which = np.unique(np.isnan(features), axis=0, return_inverse=True)
        for place, missing in enumerate(patterns):
            rows = which.reshape(-1) == place
            if missing.any():
                drawn[np.ix_(rows, np.ones(count, bool), missing)] = self._drawn(features[rows], missing, noise)
        return drawn

    def _drawn(self, features: Floats, missing: Flags, noise: Floats) -> Floats:
        """The missing features (n, K, m) of rows in which the same ones are missing."""
        known = ~missing
        correlation = np.eye(len(missing)) if self.correlation is None else self.correlation
        standard = (features[:, known] - self.mean[known]) / self.scale[known]  # (n, o)
        cross = correlation[np.ix_(known, missing)]  # (o, m)
        slopes = np.linalg.solve(correlation[np.ix_(known, known)], cross)
        spread = correlation[np.ix_(missing, missing)] - cross.T @ slopes
        if self.correlation is not None:
            slopes_fitted = int(known.sum()) + 1
            spread = spread * (self.rows + slopes_fitted) / (self.rows - slopes_fitted)  # to these very rows
        sizes, axes = np.linalg.eigh(spread)
        root = axes * np.sqrt(sizes.clip(min=0)) @ axes.T
        errors = _standardised(noise[:, missing]) @ root  # (K, m)
        values = self.mean[missing] + self.scale[missing] * ((standard @ slopes)[:, None] + errors)
        held: Floats = values.clip(self.lower[missing], self.upper[missing])
        return held

    @cached_property
    def _precision(self) -> Floats:
        if self.correlation is None:
            return np.eye(len(self.mean))
        return np.asarray(np.linalg.inv(self.correlation), dtype=np.float64)

    @cached_property
    def _widths(self) -> Floats:
        """The standard deviation of each column given all others, (F,)."""
        return 1 / np.sqrt(self._precision.diagonal())

    def _residuals(self, standard: Floats, absent: Flags) -> tuple[Floats, Floats]:
        """R (n, F) of standardised rows that lack some columns, 0 there, and its standard deviations (F,)."""
        precision = self._precision
        if absent.any():  # that of the others by themselves
            rows = precision[absent]
            precision = precision - rows.T @ np.linalg.solve(precision[np.ix_(absent, absent)], rows)
        diagonal = np.where(absent, 1.0, precision.diagonal())
        return standard @ precision / diagonal, 1 / np.sqrt(diagonal)


def outside_notes(columns: Mapping[str, NDArray[Any]]) -> tuple[str, ...]:
    """A sentence for the user where there is a column that names features outside their training range, (n,)."""
    if OUTSIDE not in columns:
        return ()
    outside = columns[OUTSIDE]
    names, counts = np.unique(outside[outside != ""], return_counts=True)
    named = [shown(str(name)) for name in names[np.argsort(-counts, kind="stable")]]
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    return (
        f"{counts.sum():,} of {len(outside):,} cases have a feature outside its training range, named in {OUTSIDE}: "
        f"{', '.join(named[:_NAMED])}{more}; check their unit: the forecast has not seen such values, and treats one "
        "that contradicts the other features as missing",
    )


def _standardised(noise: Floats) -> Floats:
    """Noise (K, m) with mean 0 and variance 1, uncorrelated where K allows: a few draws may be off by a tenth."""
    centred = noise - noise.mean(0)
    if len(noise) == 1:
        return centred  # one draw is what the other features say
    if len(noise) > 2 * noise.shape[1]:
        sizes, axes = np.linalg.eigh(centred.T @ centred / len(noise))
        return centred @ (axes / np.sqrt(sizes)) @ axes.T
    return centred / centred.std(0)
