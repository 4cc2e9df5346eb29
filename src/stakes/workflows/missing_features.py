"""Forecasts for rows that lack some of their features, drawn from what the others say of them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from stakes.artifacts.fits import AboutFit
from stakes.data.tables.layout import MISSING_FEATURE, DataQuality, TableLayout
from stakes.errors import listed
from stakes.forecasting.fitted_forecast import FittedForecast
from stakes.forecasting.input_range import InputRange
from stakes.settings import shown

Floats = NDArray[np.float64]
_NAMED = 5
_TOO_MANY = 0.5  # of the rows of the fit's table: a column that is missing in more has hardly been seen


@dataclass(frozen=True, eq=False)
class DecidableRows:
    """The rows of a table for which a fit can forecast."""

    features: pd.DataFrame
    quality: DataQuality  # what became of the table's rows; those that cannot be forecast are left out and counted
    notes: tuple[str, ...] = ()  # sentences for the user

    @property
    def missing(self) -> "pd.Series[Any]":
        """The names of the features that each row lacks; empty for a row that has all."""
        names, lacks = np.array(self.features.columns, dtype=object), self.features.isna().to_numpy()
        return pd.Series([listed([str(name) for name in names[row]]) for row in lacks], dtype="str")

    def beside(self, forecast: FittedForecast) -> dict[str, NDArray[Any]]:
        """Columns beside the decisions: the feature outside its training range, and those missing, where any is."""
        missing = self.missing.to_numpy()
        return forecast.outside(self.features) | ({"missing_features": missing} if (missing != "").any() else {})

    def sample(
        self, forecast: FittedForecast, cost_parameters: Mapping[str, Floats] | None = None
    ) -> NDArray[np.float32]:
        """Members (N, M, D) of the forecast of every row."""
        rows = forecast.features(self.features, cost_parameters, incomplete=True)
        return np.concatenate([part.numpy() for _, part in forecast.drawn(rows)])


def decidable_rows(
    inputs: InputRange, known: AboutFit, layout: TableLayout, table: pd.DataFrame, last: bool = False
) -> DecidableRows:
    """The rows whose features are there, or can be drawn from those that are."""
    cases = layout.inputs(table, incomplete=True)
    missing = cases.features.isnan().numpy()
    notes: tuple[str, ...] = ()
    left_out = np.any(missing, axis=1) if inputs.correlation is None else _beyond(missing, layout, known.quality)
    if left_out.all():
        layout.inputs(table)  # which says what is wrong with the table
    features, quality = cases.feature_table[~left_out], _counted(cases.quality, left_out)
    if last:
        features = features.tail(1)
        too_little = f"the newest, {cases.feature_table.index[-1]}, lacks too many features to be decided for"
        notes = (*notes, too_little) if left_out[-1] else notes
    lacking = features.isna()
    if not lacking.to_numpy().any():
        return DecidableRows(features, quality, notes)
    return DecidableRows(features, quality, (*notes, _told(lacking)))


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


def _beyond(missing: NDArray[np.bool_], layout: TableLayout, quality: DataQuality | None) -> NDArray[np.bool_]:
    """Rows (N,) that lack every feature but the calendar, or one that the fit itself has hardly seen."""
    columns = layout.source_columns
    of_columns = missing[:, : len(columns)]
    facts = {} if quality is None else quality.columns
    most = np.inf if quality is None else _TOO_MANY * quality.rows
    hardly_seen = np.array([facts.get(name, {}).get("missing", 0.0) > most for name in columns], dtype=bool)
    return np.logical_or(of_columns.all(1), of_columns[:, hardly_seen].any(1))
