"""Forecasts for rows that lack some of their features: as wide as what is not known, and told.

What is missing is drawn several times from what the other features say of it, and every member of the forecast belongs
to one of these draws. A fit keeps what that needs (`stakes.data.feature_moments`): no training row, and no forecaster
of its own for every set of features that might be missing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from stakes.bundle.about_fit import AboutFit
from stakes.bundle.bundle import Bundle
from stakes.bundle.manifest import bundle_files
from stakes.data.feature_moments import FEATURE_MOMENTS, FeatureMoments, load_moments
from stakes.data.layout import MISSING_FEATURE, TableLayout
from stakes.data.quality import DataQuality
from stakes.errors import StakesError, listed
from stakes.forecaster.estimator import DecisionAwareForecaster
from stakes.settings import shown

__all__ = ["DecidableRows", "decidable_rows"]

Floats = NDArray[np.float64]
_DRAWS = 100  # fewer would know little of the tails
_NAMED = 5
_NUMBERS_AT_ONCE = 1 << 24
_TOO_MANY = 0.5  # of the rows of the fit's table: a column that is missing in more has hardly been seen


@dataclass(frozen=True, eq=False)
class DecidableRows:
    """The rows of a table for which a fit can forecast.

    Attributes:
        features: Their features (N, F), NaN where they are missing; the index is the target time or the data row.
        quality: What became of the table's rows; those that cannot be forecast are left out and counted.
        moments: How the features of the fit hang together; None where that is not known, and then nothing is missing.
        notes: Sentences for the user.
    """

    features: pd.DataFrame
    quality: DataQuality
    moments: FeatureMoments | None
    notes: tuple[str, ...] = ()

    @property
    def missing(self) -> "pd.Series[Any]":
        """The names of the features that each row lacks; empty for a row that has all."""
        names, lacks = np.array(self.features.columns, dtype=object), self.features.isna().to_numpy()
        return pd.Series([listed([str(name) for name in names[row]]) for row in lacks], dtype="str")

    def sample(
        self, forecaster: DecisionAwareForecaster, cost_parameters: Mapping[str, Floats] | None = None
    ) -> NDArray[np.float32]:
        """Members (N, M, D) of the forecast of every row.

        Args:
            forecaster: That of the fit.
            cost_parameters: The parameter of the cost that is a range, (N,), by name; None where none is.
        """
        features = self.features
        lacking = features.isna().any(axis=1).to_numpy()
        if self.moments is None or not lacking.any():
            return forecaster.sample(features, cost_parameters=cost_parameters)
        whole = _of_rows(cost_parameters, ~lacking)
        parts = [forecaster.sample(features[~lacking], cost_parameters=whole)] if not lacking.all() else []
        size = max(1, _NUMBERS_AT_ONCE // (_DRAWS * int(forecaster.members) * len(forecaster.target_names_)))
        incomplete = features[lacking]
        others = _of_rows(cost_parameters, lacking)
        for start in range(0, len(incomplete), size):
            rows = slice(start, start + size)
            parts.append(_pooled(forecaster, incomplete.iloc[rows], self.moments, _of_rows(others, rows)))
        order = np.argsort(np.concatenate([np.flatnonzero(~lacking), np.flatnonzero(lacking)]))
        return np.concatenate(parts)[order]


def decidable_rows(
    folder: Path, bundle: Bundle, layout: TableLayout, table: pd.DataFrame, last: bool = False
) -> DecidableRows:
    """The rows whose features are there, or can be drawn from those that are.

    Args:
        folder: Of the fit.
        bundle: What was loaded from it.
        layout: What the columns of the table are.
        table: What is known now.
        last: Whether only the newest of them is wanted.
    """
    cases = layout.inputs(table, incomplete=True)
    missing = cases.features.isna().to_numpy()
    moments, notes = _moments(folder, bundle) if missing.any() else (None, ())
    left_out = np.any(missing, axis=1) if moments is None else _beyond(missing, layout, bundle)
    if left_out.all():
        layout.inputs(table)  # which says what is wrong with the table
    features, quality = cases.features[~left_out], _counted(cases.quality, left_out)
    if last:
        features = features.tail(1)
        too_little = f"the newest, {cases.features.index[-1]}, lacks too many features to be decided for"
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
    forecaster: DecisionAwareForecaster,
    rows: pd.DataFrame,
    moments: FeatureMoments,
    cost_parameters: Mapping[str, Floats] | None,
) -> NDArray[np.float32]:
    """Members (n, M, D), each of the forecast for one of the draws of what is missing."""
    drawn = moments.draws(rows.to_numpy(np.float64), _DRAWS)  # (n, K, F)
    completed = pd.DataFrame(drawn.reshape(-1, drawn.shape[-1]), columns=rows.columns)
    repeated = {name: np.repeat(values, _DRAWS) for name, values in (cost_parameters or {}).items()}
    members = forecaster.sample(completed, cost_parameters=repeated or None)
    members = members.reshape(len(rows), _DRAWS, *members.shape[1:])  # (n, K, M, D)
    place = np.arange(members.shape[2])
    return members[:, place % _DRAWS, place]


def _moments(folder: Path, bundle: Bundle) -> tuple[FeatureMoments | None, tuple[str, ...]]:
    """What the manifest of the bundle vouches for, or a sentence on why it cannot be read."""
    sha256 = bundle_files(folder).get(FEATURE_MOMENTS)
    if sha256 is None:
        return None, ()
    names = tuple(map(str, getattr(bundle.forecaster, "feature_names_in_", ())))
    try:
        return load_moments(folder, names, sha256), ()
    except StakesError as error:
        return None, (
            f"rows that lack a feature are left out, since what is known of the others cannot be read: {error}",
        )


def _beyond(missing: NDArray[np.bool_], layout: TableLayout, bundle: Bundle) -> NDArray[np.bool_]:
    """Rows (N,) that lack every feature but the calendar, or one that the fit itself has hardly seen."""
    columns, quality = layout.source_columns, AboutFit.read(bundle.about).quality
    of_columns = missing[:, : len(columns)]
    facts = {} if quality is None else quality.columns
    most = np.inf if quality is None else _TOO_MANY * quality.rows
    hardly_seen = np.array([facts.get(name, {}).get("missing", 0.0) > most for name in columns], dtype=bool)
    return np.logical_or(of_columns.all(1), of_columns[:, hardly_seen].any(1))
