# ruff: noqa: N803 X is the name that scikit-learn prescribes
"""What a recalibrator is given as arrays and tables, made forecasts of cases: members, quantiles or points."""

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from stakes.data.estimator_input import as_table, outcome_names
from stakes.data.forecast_columns import forecast_columns
from stakes.data.given_forecasts import GivenForecasts
from stakes.data.outcome_bounds import Pair
from stakes.data.weighted_quantiles import weighted_quantiles
from stakes.errors import SettingError, ShapeError

__all__ = ["given_of_arrays"]

Floats = NDArray[np.float64]


def given_of_arrays(
    X: Any,
    y: Any,
    *,
    weights: Any,
    times: Any,
    issued: Any,
    leads: Any,
    sites: Any,
    features: Any,
    targets: tuple[str, ...] = (),
    bounds: Pair | Literal["auto"] | None = "auto",
    cost: object = None,
) -> GivenForecasts:
    """The forecasts, and what happened, as `stakes.Recalibrator` takes them.

    Args:
        X: Members (N, M) or (N, M, D), points (N,) or (N, D), a table whose columns are members, quantiles or, with
            the names of the outcomes, points; or a `GivenForecasts`, which then holds all that it holds.
        y: Outcomes (N,) or (N, D); None where they are not known.
        weights: What each member weighs, (M,); None where all count alike.
        times: When outcomes happen, (N,); None where it is not known.
        issued: When forecasts were made, (N,); None where it is not known.
        leads: Hours between the two, one for all or (N,); None where they are not known.
        sites: Of which site each case is, (N,); None where there is but one.
        features: What else was known, (N, F); None for nothing.
        targets: The names of the outcomes of the fit; none before it.
        bounds: What outcomes cannot cross, for the tails of quantiles.
        cost: The cost whose bounds are known; None for no cost.
    """
    beside = {
        "weights": weights, "times": times, "issued": issued, "leads": leads, "sites": sites, "features": features
    }  # fmt: skip
    outcomes, names = _outcomes(y)
    if isinstance(X, GivenForecasts):
        if said := [name for name, value in beside.items() if value is not None]:
            raise SettingError(f"{said[0]} must stand within the GivenForecasts that X is, not beside it")
        return (X if outcomes is None else replace(X, outcomes=outcomes)).require_one_outcome("y")
    table = as_table(X, "X")
    width = len(targets) or (1 if outcomes is None else outcomes.shape[1])
    notes: tuple[str, ...] = ()
    if isinstance(table, pd.DataFrame):
        members, weights, notes = _of_table(table, targets or names, weights, bounds, cost)
    else:
        members = _of_array(np.asarray(table), width)
    if leads is not None and np.ndim(leads) == 0:
        leads = np.full(len(members), leads)
    return GivenForecasts(
        members,
        **(beside | {"weights": weights, "leads": leads}),
        targets=targets or names or outcome_names(None, members.shape[2]),
        index=table.index if isinstance(table, pd.DataFrame) else None,
        outcomes=outcomes,
        notes=notes,
    ).require_one_outcome("y")


def _outcomes(y: Any) -> tuple[Floats | None, tuple[str, ...]]:
    """Outcomes (N, D), and their names."""
    if y is None:
        return None, ()
    table = as_table(y, "y")
    values = np.asarray(table)
    if values.ndim not in (1, 2):
        raise ShapeError(f"y must have the shape (cases,) or (cases, outcomes), got {values.shape}")
    values = values.reshape(len(values), -1)
    return values, outcome_names(table, values.shape[1])


def _of_array(values: NDArray[Any], width: int) -> NDArray[Any]:
    """Members (N, M, D): of one outcome (N, M) are members, of several (N, D) are points."""
    if values.ndim == 3:
        return values
    if values.ndim == 1:
        return values[:, None, None]
    if values.ndim != 2:
        raise ShapeError(f"X must have the shape (cases, members) or (cases, members, outcomes), got {values.shape}")
    if width == 1:
        return values[:, :, None]
    if values.shape[1] != width:
        raise ShapeError(
            f"X of {width} outcomes must have the shape (cases, members, {width}), or (cases, {width}) for points, got "
            f"{values.shape}"
        )
    return values[:, None]


def _of_table(
    table: pd.DataFrame, targets: tuple[str, ...], weights: Any, bounds: Pair | Literal["auto"] | None, cost: object
) -> tuple[Floats, Any, tuple[str, ...]]:
    """Members (N, M, D), their weights, and what is to be said about them."""
    named = table.set_axis([str(column) for column in table.columns], axis=1)
    as_points = len(targets) > 1 and set(targets) == set(named.columns)
    columns = list(targets) if as_points else list(named.columns)
    roles = forecast_columns(columns, "X", "points" if as_points else "auto", chosen=True)
    values = np.stack([named[list(each)].to_numpy(np.float64) for each in roles.of_target.values()], axis=-1)
    if roles.levels is None:
        return values, weights, roles.notes
    weighted = [
        weighted_quantiles(roles.levels, values[..., place], "X", bounds=bounds, cost=cost)
        for place in range(values.shape[2])
    ]
    notes = roles.notes + tuple(note for each in weighted for note in each.notes)
    return np.stack([each.members for each in weighted], -1), weighted[0].weights, notes
