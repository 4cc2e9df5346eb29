"""Forecasts for rows that lack some of their features, drawn from what the others say of them."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from stakes.artifacts.fits import Bundle
from stakes.artifacts.folder import read_kept
from stakes.data.tables.columns import column_numbers
from stakes.data.tables.files import write_table
from stakes.data.tables.layout import MISSING_FEATURE, DataQuality, TableLayout
from stakes.errors import StakesError, TableError, listed
from stakes.forecasting.fitted_forecast import FittedForecast
from stakes.settings import shown

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
    """Means and correlations of the features of a fit."""

    names: tuple[str, ...]  # the names of the F features
    rows: int  # how many rows they come from
    mean: Floats  # their means (F,)
    scale: Floats  # their standard deviations (F,)
    lower: Floats  # their least values (F,)
    upper: Floats  # their largest values (F,)
    correlation: Floats  # their correlations (F, F)

    @classmethod
    def of(cls, features: pd.DataFrame) -> "FeatureMoments | None":
        """The moments of complete rows; None where these are too few, or the features very many."""
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
        """The rows (n, K, F) with every missing feature drawn K times, the same way in every call."""
        from scipy.stats import norm  # which takes long, and is needed seldom
        from scipy.stats.qmc import LatinHypercube

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
    """Write the moments of the features into the folder of a fit, where they can be had."""
    moments = FeatureMoments.of(features)
    if moments is None:
        return
    facts = {name: getattr(moments, name) for name in _FACTS}
    correlation = pd.DataFrame(moments.correlation, columns=[f"with {place}" for place in range(len(moments.names))])
    table = pd.concat([pd.DataFrame({"name": moments.names, **facts}), correlation], axis=1)
    write_table(table, folder / FEATURE_MOMENTS)


def load_moments(folder: Path, names: tuple[str, ...], sha256: str) -> FeatureMoments | None:
    """The moments that `save_moments` wrote; None where it did not."""
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


_DRAWS = 100  # fewer would know little of the tails
_NAMED = 5
_NUMBERS_AT_ONCE = 1 << 24
_TOO_MANY = 0.5  # of the rows of the fit's table: a column that is missing in more has hardly been seen


@dataclass(frozen=True, eq=False)
class DecidableRows:
    """The rows of a table for which a fit can forecast."""

    features: pd.DataFrame
    quality: DataQuality  # what became of the table's rows; those that cannot be forecast are left out and counted
    moments: FeatureMoments | None
    notes: tuple[str, ...] = ()  # sentences for the user

    @property
    def missing(self) -> "pd.Series[Any]":
        """The names of the features that each row lacks; empty for a row that has all."""
        names, lacks = np.array(self.features.columns, dtype=object), self.features.isna().to_numpy()
        return pd.Series([listed([str(name) for name in names[row]]) for row in lacks], dtype="str")

    def sample(
        self, forecast: FittedForecast, cost_parameters: Mapping[str, Floats] | None = None
    ) -> NDArray[np.float32]:
        """Members (N, M, D) of the forecast of every row."""
        features = self.features
        lacking = features.isna().any(axis=1).to_numpy()
        if self.moments is None or not lacking.any():
            return forecast.sample(features, cost_parameters=cost_parameters)
        whole = _of_rows(cost_parameters, ~lacking)
        parts = [forecast.sample(features[~lacking], cost_parameters=whole)] if not lacking.all() else []
        state = forecast.state
        size = max(1, _NUMBERS_AT_ONCE // (_DRAWS * state.members * len(state.target_names)))
        incomplete = features[lacking]
        others = _of_rows(cost_parameters, lacking)
        for start in range(0, len(incomplete), size):
            rows = slice(start, start + size)
            parts.append(_pooled(forecast, incomplete.iloc[rows], self.moments, _of_rows(others, rows)))
        order = np.argsort(np.concatenate([np.flatnonzero(~lacking), np.flatnonzero(lacking)]))
        return np.concatenate(parts)[order]


def decidable_rows(
    folder: Path, bundle: Bundle, layout: TableLayout, table: pd.DataFrame, last: bool = False
) -> DecidableRows:
    """The rows whose features are there, or can be drawn from those that are."""
    cases = layout.inputs(table, incomplete=True)
    missing = cases.features.isnan().numpy()
    moments, notes = _moments(folder, bundle) if missing.any() else (None, ())
    left_out = np.any(missing, axis=1) if moments is None else _beyond(missing, layout, bundle)
    if left_out.all():
        layout.inputs(table)  # which says what is wrong with the table
    features, quality = cases.feature_table[~left_out], _counted(cases.quality, left_out)
    if last:
        features = features.tail(1)
        too_little = f"the newest, {cases.feature_table.index[-1]}, lacks too many features to be decided for"
        notes = (*notes, too_little) if left_out[-1] else notes
    lacking = features.isna()
    if not lacking.to_numpy().any():
        return DecidableRows(features, quality, None, notes)
    return DecidableRows(features, quality, moments, (*notes, _told(lacking)))


def _counted(quality: DataQuality, left_out: NDArray[np.bool_]) -> DataQuality:
    if not left_out.any():
        return quality
    counts = {**quality.left_out, MISSING_FEATURE: int(left_out.sum())}
    return replace(quality, used=int((~left_out).sum()), left_out=counts)


def _told(lacking: pd.DataFrame) -> str:
    names = [str(name) for name in lacking.columns[lacking.any()]]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return (
        f"{int(lacking.any(axis=1).sum()):,} of {len(lacking):,} rows are decided without "
        f"{', '.join(map(shown, names[:_NAMED]))}{more}, see the column missing_features: what is missing is drawn "
        "from what the other features say of it, and these forecasts are wider for it"
    )


def _of_rows(cost_parameters: Mapping[str, Floats] | None, rows: slice | NDArray[np.bool_]) -> dict[str, Floats] | None:
    return None if cost_parameters is None else {name: values[rows] for name, values in cost_parameters.items()}


def _pooled(
    forecast: FittedForecast,
    rows: pd.DataFrame,
    moments: FeatureMoments,
    cost_parameters: Mapping[str, Floats] | None,
) -> NDArray[np.float32]:
    """Members (n, M, D), each of the forecast for one of the draws of what is missing."""
    drawn = moments.draws(rows.to_numpy(np.float64), _DRAWS)  # (n, K, F)
    completed = pd.DataFrame(drawn.reshape(-1, drawn.shape[-1]), columns=rows.columns)
    repeated = {name: np.repeat(values, _DRAWS) for name, values in (cost_parameters or {}).items()}
    members = forecast.sample(completed, cost_parameters=repeated or None)
    members = members.reshape(len(rows), _DRAWS, *members.shape[1:])  # (n, K, M, D)
    place = np.arange(members.shape[2])
    return members[:, place % _DRAWS, place]


def _moments(folder: Path, bundle: Bundle) -> tuple[FeatureMoments | None, tuple[str, ...]]:
    """What the manifest of the bundle vouches for, or a sentence on why it cannot be read."""
    sha256 = bundle.files.get(FEATURE_MOMENTS)
    if sha256 is None:
        return None, ()
    try:
        return load_moments(folder, bundle.forecast.state.feature_names or (), sha256), ()
    except StakesError as error:
        return None, (
            f"rows that lack a feature are left out, since what is known of the others cannot be read: {error}",
        )


def _beyond(missing: NDArray[np.bool_], layout: TableLayout, bundle: Bundle) -> NDArray[np.bool_]:
    """Rows (N,) that lack every feature but the calendar, or one that the fit itself has hardly seen."""
    columns, quality = layout.source_columns, bundle.known.quality
    of_columns = missing[:, : len(columns)]
    facts = {} if quality is None else quality.columns
    most = np.inf if quality is None else _TOO_MANY * quality.rows
    hardly_seen = np.array([facts.get(name, {}).get("missing", 0.0) > most for name in columns], dtype=bool)
    return np.logical_or(of_columns.all(1), of_columns[:, hardly_seen].any(1))
