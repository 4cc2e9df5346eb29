"""Cases of forecasts with all that is known of them: outcomes, features, and the action that was taken."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from stakes.data.case_rows import CaseRows
from stakes.data.forecast_layout import ForecastLayout
from stakes.data.forecast_values import ForecastValues
from stakes.data.missing_codes import missing_code_notes
from stakes.data.table_columns import column_numbers
from stakes.errors import TableError, listed

__all__ = ["ForecastCases", "forecast_cases"]

Floats = NDArray[np.float64]


class ForecastCases(NamedTuple):
    """Forecasts of N cases and what belongs to them, with nothing missing.

    Attributes:
        forecast: The forecasts, of D targets, or of one where each site is decided by itself.
        sites: The site of each case, (N,), where each is decided by itself; None otherwise.
        features: What else was known, (N, F); None for nothing.
        outcomes: What happened, (N, D); None where it is not known.
        today: The action that was taken, (N,), or (N, A) of several parts; None where it is not known.
        notes: Sentences about what the user should know.
    """

    forecast: ForecastValues
    sites: NDArray[np.str_] | None
    features: pd.DataFrame | None
    outcomes: Floats | None
    today: Floats | None
    notes: tuple[str, ...]


def forecast_cases(
    layout: ForecastLayout,
    forecast: ForecastValues,
    rows: CaseRows | None,
    outcome_rows: CaseRows | None,
    notes: tuple[str, ...] = (),
) -> ForecastCases:
    """Forecasts, outcomes and all else, case by case, without the cases that lack something.

    Args:
        layout: Which columns are what, outcomes in the order of the targets.
        forecast: The forecasts of all cases.
        rows: The rows of their table; None for a gridded file.
        outcome_rows: The rows that hold outcomes; None where these are not wanted.
        notes: What is known already that the user should know.
    """
    outcomes: Floats | None = None
    doubts: tuple[str, ...] = ()
    if outcome_rows is not None:
        outcomes = _outcomes(layout, forecast, outcome_rows)
        doubts = (*_unforecast(layout, forecast, outcome_rows), *_doubted(layout, forecast, outcomes, outcome_rows))
    features = None if rows is None or not layout.features else _features(layout, forecast, rows)
    today = None if outcome_rows is None or layout.today is None else _today(layout, forecast, outcome_rows)
    sites, there = None, np.full(len(forecast.index), True)
    if layout.each_site:
        sites = np.tile(np.array(forecast.targets, dtype=np.str_), len(forecast.index))
        keys, forecast = forecast.index.repeat(len(forecast.targets)), forecast.each_by_itself()
        there = np.full(len(keys), True) if rows is None else rows.has(keys, sites)
        outcomes = None if outcomes is None else outcomes.reshape(-1, 1)
    values = "members" if forecast.levels is None else "quantiles"
    lacks: dict[str, Any] = {values: np.isnan(forecast.values).any((1, 2))}
    lacks |= {} if outcomes is None else {"an outcome": np.isnan(outcomes).any(1)}
    lacks |= {} if features is None else {"a feature": features.isna().any(axis=1).to_numpy()}
    lacks |= {} if today is None else {"today's action": np.isnan(today.reshape(len(today), -1)).any(1)}
    lacks = {what: lack & there for what, lack in lacks.items()}
    complete: NDArray[np.bool_] = there & ~np.logical_or.reduce(list(lacks.values()))
    if not complete.any():
        what = " and ".join(lacks)
        raise TableError(f"no case has all of {what}, of {there.sum()} in the file of forecasts")
    told = [
        f"{lack.sum()} of {there.sum()} cases lack {what} and are left out"
        for what, lack in lacks.items()
        if lack.any()
    ]
    return ForecastCases(
        forecast.cases(complete),
        None if sites is None else sites[complete],
        None if features is None else features[complete],
        None if outcomes is None else outcomes[complete],
        None if today is None else today[complete],
        (*forecast.notes, *notes, *told, *doubts),
    )


def _keys(layout: ForecastLayout, forecast: ForecastValues) -> "pd.Index[Any]":
    """By what the outcomes of cases are looked up."""
    if not layout.own_file:
        return forecast.index
    if forecast.times is not None:
        return pd.DatetimeIndex(forecast.times, name="time")
    return forecast.index.get_level_values(0)


def _columns(layout: ForecastLayout, forecast: ForecastValues, rows: CaseRows) -> list[str]:
    """The column of outcomes of each target, or the only one beside a column of sites."""
    if rows.sites is not None:
        return list(layout.outcomes)
    return [layout.outcomes[layout.targets.index(target)] for target in forecast.targets]


def _outcomes(layout: ForecastLayout, forecast: ForecastValues, rows: CaseRows) -> Floats:
    """What happened, (N, D)."""
    keys, targets = _keys(layout, forecast), forecast.targets
    if rows.sites is None:
        outcomes = rows.values(_columns(layout, forecast, rows), keys)
    else:
        sites = np.tile(np.array(targets, dtype=object), len(keys))
        outcomes = rows.values(layout.outcomes, keys.repeat(len(targets)), sites).reshape(len(keys), len(targets))
    if np.isnan(outcomes).all():
        firsts = [each.get_level_values(0) for each in (keys, rows.index)]
        if firsts[0].isin(firsts[1]).any():
            raise TableError(f"{rows.name} has no outcome in {listed(layout.outcomes)} for any of the forecasts")
        _refuse_other_hours(firsts[0], firsts[1], rows.name)
        spans = [f"{each.min()} to {each.max()}" for each in firsts]
        raise TableError(
            f"forecasts and outcomes never overlap: forecasts are of {spans[0]}, {rows.name} of {spans[1]}"
        )
    return outcomes


def _refuse_other_hours(forecasts: "pd.Index[Any]", outcomes: "pd.Index[Any]", name: str) -> None:
    """Raise where times agree in their days, but never in their hours."""
    if not (isinstance(forecasts, pd.DatetimeIndex) and isinstance(outcomes, pd.DatetimeIndex)):
        return
    both = forecasts.normalize().intersection(outcomes.normalize())
    if len(both):
        first = [each[each.normalize() == both[0]][0] for each in (forecasts, outcomes)]
        raise TableError(
            f"forecasts and outcomes agree in their days, but never in their hours: on {both[0]:%Y-%m-%d} a forecast "
            f"is of {first[0]:%H:%M:%S} and {name} of {first[1]:%H:%M:%S}; both must say when the outcome happens, "
            "in UTC unless a zone is written"
        )


def _unforecast(layout: ForecastLayout, forecast: ForecastValues, rows: CaseRows) -> tuple[str, ...]:
    """How many outcomes in a file of their own have no forecast."""
    if not layout.own_file:
        return ()
    happened = ~np.isnan(column_numbers(rows.table, _columns(layout, forecast, rows), rows.name)).all(1)
    without = happened & ~rows.among(_keys(layout, forecast), forecast.targets)
    if not without.any():
        return ()
    return (f"{without.sum()} of {happened.sum()} outcomes in {rows.name} have no forecast and are left out",)


def _doubted(layout: ForecastLayout, forecast: ForecastValues, outcomes: Floats, rows: CaseRows) -> tuple[str, ...]:
    """Outcomes that look like codes for missing ones, in each column."""
    columns = _columns(layout, forecast, rows)
    places = [slice(None)] if rows.sites is not None else [slice(at, at + 1) for at in range(len(columns))]
    cells = column_numbers(rows.table, columns, rows.name).T
    return tuple(
        note
        for column, at, each in zip(columns, places, cells, strict=True)
        for note in missing_code_notes(outcomes[:, at], forecast.values[..., at], column, each, rows.name)
    )


def _today(layout: ForecastLayout, forecast: ForecastValues, rows: CaseRows) -> Floats:
    """The action that was taken, for every case, or every site of it where each is decided by itself."""
    keys, count = _keys(layout, forecast), len(forecast.targets)
    each = layout.each_site
    if each and rows.sites is None:
        raise TableError(f"today must hold an action of each site; {rows.name} has one row for all of them")
    sites = np.tile(np.array(forecast.targets, dtype=object), len(keys)) if each else None
    numbers = rows.values(layout.today_columns, keys.repeat(count) if each else keys, sites)
    return numbers if numbers.shape[1] > 1 else numbers[:, 0]


def _features(layout: ForecastLayout, forecast: ForecastValues, rows: CaseRows) -> pd.DataFrame:
    """Features (N, F), of every site of a case where each is decided by itself, or where they differ."""
    names, keys, targets = list(layout.features), forecast.index, forecast.targets
    each = layout.each_site
    if rows.sites is None:
        values = rows.values(names, keys)
        return pd.DataFrame(values.repeat(len(targets) if each else 1, axis=0), columns=names)
    sites = np.tile(np.array(targets, dtype=object), len(keys))
    values = rows.values(names, keys.repeat(len(targets)), sites)
    if each:
        return pd.DataFrame(values, columns=names)
    by_site = values.reshape(len(keys), len(targets), len(names))
    shared = (by_site == by_site[:, :1]).all((0, 1))
    columns = {name: by_site[:, 0, place] for place, name in enumerate(names) if shared[place]}
    columns |= {
        f"{name} {target}": by_site[:, at, place]
        for place, name in enumerate(names)
        for at, target in enumerate(targets)
        if not shared[place]
    }
    return pd.DataFrame(columns)
