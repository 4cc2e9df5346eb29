"""Forecasts that a user has kept, with what happened since: read from one table or two files, case by case."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from stakes.costs.cost import Cost
from stakes.data.forecasts.checks import (
    LearnedForecasts,
    code_doubts,
    forecast_checks,
    missing_code_notes,
    require_one_unit,
    require_unit_of_outcomes,
)
from stakes.data.forecasts.columns import chosen_columns, site_keys
from stakes.data.forecasts.forecast_set import ForecastLayout, ForecastSet
from stakes.data.forecasts.grids import array_forecast, forecast_array
from stakes.data.forecasts.members import matched_actions, matched_outcomes
from stakes.data.forecasts.quantiles import OutcomeBounds, Pair, outcome_bounds, quantile_bounds, weighted_quantiles
from stakes.data.forecasts.tables import CaseRows, ForecastValues, of_target, table_forecast
from stakes.data.tables.columns import column_numbers
from stakes.data.tables.files import is_dataset, read_table
from stakes.data.tables.gridded_files import open_dataset
from stakes.errors import SettingError, TableError, did_you_mean, listed, names_text
from stakes.text import number_text

Floats = NDArray[np.float64]


class ForecastCases(NamedTuple):
    """Forecasts of N cases and what belongs to them, with nothing missing."""

    forecast: ForecastValues  # the forecasts, of D targets, or of one where each site is decided by itself
    sites: NDArray[np.str_] | None  # the site of each case, (N,), where each is decided by itself; None otherwise
    features: pd.DataFrame | None  # what else was known, (N, F); None for nothing
    outcomes: Floats | None  # what happened, (N, D); None where it is not known
    today: Floats | None  # the action that was taken, (N,), or (N, A) of several parts; None where it is not known
    notes: tuple[str, ...]  # sentences about what the user should know


def forecast_cases(
    layout: ForecastLayout,
    forecast: ForecastValues,
    rows: CaseRows | None,
    outcome_rows: CaseRows | None,
    notes: tuple[str, ...] = (),
) -> ForecastCases:
    """Forecasts, outcomes and all else, case by case, without the cases that lack something."""
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


def read_past(
    layout: ForecastLayout,
    past: Path,
    forecasts: Path | None = None,
    *,
    cost: Cost | None = None,
    bounds: Pair | Literal["auto"] | None = "auto",
    separator: str | None = None,
    encoding: str | None = None,
) -> tuple[ForecastSet, ForecastLayout]:
    """Past forecasts with their outcomes, in the order of issue, and the layout by which new ones are read alike.

    A case that lacks a member, an outcome or a feature is left out; the notes say so.
    """
    csv = {"separator": separator, "encoding": encoding}
    source = _source(past if forecasts is None else forecasts, csv, layout.site)
    told: tuple[str, ...] = ()
    if source.table is not None:
        layout, told = layout.named_in(source.table, source.name)
    seen = source
    if forecasts is not None:
        seen = _source(past, csv, layout.site)
        assert seen.table is not None
        there = [str(column) for column in seen.table.columns]
        layout = replace(layout, outcomes=tuple(chosen_columns(layout.outcomes, there, seen.name)))
    forecast, rows = _read_forecast(layout, source, seen.table is not None and layout.site not in seen.table.columns)
    outcome_rows = _outcome_rows(layout, rows, seen)
    layout, matched = _named_outcomes(layout, forecast, outcome_rows)
    layout = layout if cost is None else with_todays_parts(layout, cost, forecast.targets)
    each = layout.each_site and len(forecast.targets) > 1
    learned = LearnedForecasts.of(forecast)
    layout = replace(layout, targets=forecast.targets, levels=forecast.levels or (), each_site=each, learned=learned)
    notes = (*told, *matched)
    cases = forecast_cases(layout, forecast, rows, outcome_rows, notes)
    assert cases.outcomes is not None
    if forecast.levels is None:
        require_one_unit(cases.forecast.values, source.name)
    require_unit_of_outcomes(
        cases.forecast.values, cases.outcomes, cases.forecast.targets, f"the forecast in {source.name}"
    )
    layout = replace(layout, bounds=_bounds(cases, forecast.levels, bounds, cost))
    given = _given(layout, cases).require_one_outcome(seen.name)
    assert given.outcomes is not None
    if given.weights is None:
        require_one_unit(given.members, source.name)
    require_unit_of_outcomes(given.members, given.outcomes, given.targets, source.name)
    return given, layout


def with_todays_parts(layout: ForecastLayout, cost: Cost, targets: Sequence[str]) -> ForecastLayout:
    """The layout with the columns of today's action in the order of its parts, where their names tell it."""
    if layout.today is None or layout.each_site:
        return layout
    return replace(layout, today=",".join(matched_actions(cost, targets, layout.today_columns)))


def read_new(
    layout: ForecastLayout,
    forecasts: Path,
    outcomes: Path | None = None,
    *,
    judged: bool = False,
    separator: str | None = None,
    encoding: str | None = None,
) -> ForecastSet:
    """New forecasts, as those of the past were read, in the order of issue."""
    csv = {"separator": separator, "encoding": encoding}
    if judged and layout.own_file and outcomes is None:
        raise SettingError("the forecasts have a file of their own, and their outcomes another: --outcomes names it")
    if outcomes is not None and not layout.own_file:
        raise SettingError(f"forecasts and outcomes share a table here, got {str(outcomes)!r} for the outcomes besides")
    source = _source(forecasts, csv, layout.site)
    forecast, rows = _read_forecast_alike(layout, source)
    if not judged:
        return _given(layout, forecast_cases(replace(layout, today=None), forecast, rows, None))
    seen = source if outcomes is None else _source(outcomes, csv, layout.site)
    outcome_rows = _outcome_rows(layout, rows, seen)
    return _given(layout, forecast_cases(layout, forecast, rows, outcome_rows)).require_one_outcome(seen.name)


def forecasts_in_table(layout: ForecastLayout, table: pd.DataFrame, name: str) -> ForecastSet:
    """New forecasts in a table, as those of the past were read, in the order of issue."""
    forecast, rows = _read_forecast_alike(layout, _Source(Path(name), name, table))
    return _given(layout, forecast_cases(replace(layout, today=None), forecast, rows, None))


def _read_forecast_alike(layout: ForecastLayout, source: "_Source") -> tuple[ForecastValues, CaseRows | None]:
    """The forecasts, refused where their levels are not those of the past ones."""
    forecast, rows = _read_forecast(layout, source)
    if (levels := forecast.levels or ()) != layout.levels:
        kinds = [
            f"quantiles at {listed([*map(number_text, each)])}" if each else "members"
            for each in (layout.levels, levels)
        ]
        raise TableError(f"{source.name} must have {kinds[0]}, as the past forecasts, got {kinds[1]}")
    return forecast, rows


class _Source(NamedTuple):
    """A file, and its table unless it is a gridded one."""

    path: Path
    name: str
    table: pd.DataFrame | None


def _source(path: Path, csv: dict[str, str | None], site: str | None) -> _Source:
    table = None if is_dataset(path) else read_table(Path(path), site_keys(site), **csv)
    return _Source(Path(path), repr(str(path)), table)


def _read_forecast(
    layout: ForecastLayout, source: _Source, in_grid: bool = False
) -> tuple[ForecastValues, CaseRows | None]:
    """The forecasts of the targets that are meant, in the unit of past ones, and the rows of their table, if any.

    `in_grid` says that the sites of the layout must be a dimension of a gridded file, as they are no column elsewhere.
    """
    table, name = source.table, source.name
    if table is None:
        _require_no_columns(layout, name)
        with open_dataset(str(source.path)) as dataset:
            array, number = forecast_array(dataset, name, *layout.in_grid)
            site = layout.site if in_grid or layout.site in array.dims else None
            forecast = array_forecast(array, number, name, site, bool(layout.points))
        _require_one_place(forecast, name)
        rows = None
    else:
        if layout.member_dimension is not None or layout.points or layout.unit is not None:
            raise TableError(f"a dimension of members, points and a unit are of NetCDF files, but {name} is a table")
        table = of_target(table, name, layout.variable)
        forecasts = table.drop(columns=[column for column in layout.beside if column in table.columns])
        forecast = table_forecast(
            forecasts,
            name,
            time=layout.time,
            runs=layout.runs,
            site=layout.site,
            columns=layout.columns,
            read_as=_read_as(layout),
        )
        rows = CaseRows.of(table, name, layout.time, layout.runs, layout.site)
    forecast = _of_targets(layout, forecast, name)
    if layout.learned is None:
        doubts = forecast_checks(forecast, name, layout.read_as == "auto")
        return replace(forecast, notes=(*forecast.notes, *doubts)), rows
    if rows is None:
        forecast = layout.learned.in_its_unit(forecast, name)
    doubts = (*layout.learned.doubts(forecast), *code_doubts(forecast, name))
    return replace(forecast, notes=(*forecast.notes, *doubts)), rows


def _require_one_place(forecast: ForecastValues, name: str) -> None:
    """Raise where a grid has several forecasts of one time by one run, which are of several places."""
    if forecast.times is None or forecast.index.nlevels == 1:
        return
    runs = forecast.times if forecast.issued is None else forecast.issued
    if pd.MultiIndex.from_arrays([forecast.times, runs]).duplicated().any():
        levels = listed([str(level) for level in forecast.index.names])
        raise TableError(
            f"{name} has forecasts for every {levels}, and nothing says which place outcomes are of; --point "
            f"LATITUDE,LONGITUDE takes the nearest, several are sites; --site {forecast.index.names[-1]} takes all "
            "along it as sites, or hours"
        )


def _of_targets(layout: ForecastLayout, forecast: ForecastValues, name: str) -> ForecastValues:
    """The targets that are meant: all of them, or where each is decided by itself those that are there."""
    if not layout.targets:
        return forecast if layout.each_site else forecast.by_number()
    if layout.each_site:
        for target in forecast.targets:
            if target not in layout.targets:
                raise TableError(
                    f"{name} has the site {target!r}, which is unknown; there are {listed(layout.targets)}"
                )
        return forecast.only([target for target in layout.targets if target in forecast.targets])
    for target in layout.targets:
        if target not in forecast.targets:
            raise TableError(f"{name} has no site {target!r}; {did_you_mean(target, forecast.targets)}")
    return forecast.only(layout.targets)


def _require_no_columns(layout: ForecastLayout, name: str) -> None:
    columns = {"columns": layout.columns, "features": layout.features, "issued": layout.issued, "lead": layout.lead}
    for role, given in columns.items():
        if given:
            raise TableError(f"{role} are columns of a table, but {name} is a NetCDF file or like one, got {given}")


def _read_as(layout: ForecastLayout) -> Any:
    """As many columns as outcomes, where there are several, are a point forecast of each."""
    alike = 1 < len(layout.columns) == len(layout.outcomes)
    return "points" if layout.read_as == "auto" and alike else layout.read_as


def _outcome_rows(layout: ForecastLayout, rows: CaseRows | None, seen: _Source) -> CaseRows:
    """The rows that hold outcomes; in a file of their own they are known by their time or label alone."""
    if not layout.own_file:
        assert rows is not None
        return rows
    if seen.table is None:
        raise TableError(f"the outcomes must be a table, got {seen.name}")
    table = of_target(seen.table, seen.name, layout.variable, required=False)
    time = layout.time if layout.time in table.columns else None
    site = layout.site if layout.site in table.columns else None
    return CaseRows.of(table, seen.name, time, (), site)


def _named_outcomes(
    layout: ForecastLayout, forecast: ForecastValues, rows: CaseRows
) -> tuple[ForecastLayout, tuple[str, ...]]:
    """The layout with the column of outcomes of each target, or the only one beside a column of sites."""
    if 1 == len(forecast.targets) < len(layout.outcomes) and len(layout.columns) > 1:
        raise TableError(
            f"a forecast of each outcome is as many columns as there are outcomes, got {len(layout.columns)}, "
            f"{names_text(layout.columns)}, for {len(layout.outcomes)}, {names_text(layout.outcomes)}"
        )
    if rows.sites is None:
        outcomes, notes = matched_outcomes(forecast.targets, layout.outcomes, in_order=not forecast.sited)
        return replace(layout, outcomes=outcomes), notes
    if len(layout.outcomes) > 1:
        raise TableError(
            f"{rows.name} must have one column of outcomes beside that of sites, got {listed(layout.outcomes)}"
        )
    there = list(dict.fromkeys(rows.sites))
    for target in forecast.targets:
        if target not in there:
            raise TableError(f"{rows.name} has no outcome of site {target!r}; {did_you_mean(target, there)}")
    return layout, ()


def _bounds(
    cases: ForecastCases, levels: Sequence[float] | None, given: Pair | Literal["auto"] | None, cost: object
) -> tuple[Pair, ...]:
    """What members are drawn to, for each target: what is given, and for the tails of quantiles what is known."""
    if given is None or (given == "auto" and levels is None):
        return ()
    known = outcome_bounds(given, cost, torch.from_numpy(cases.outcomes))
    if known is None:
        values = cases.forecast.values
        each = [quantile_bounds(cost, values[..., place]) for place in range(values.shape[2])]
        return tuple((None, None) if one is None else one.pairs[0] for one in each) if any(each) else ()
    return known.pairs


def _given(layout: ForecastLayout, cases: ForecastCases) -> ForecastSet:
    forecast = cases.forecast
    members, weights, notes = members_of(layout, forecast)
    index, times, issued, leads = _moments(layout, forecast)
    one_of_sites = len(layout.outcomes) < len(layout.targets)
    together = layout.targets if one_of_sites else layout.outcomes
    return ForecastSet(
        members=members,
        weights=weights,
        targets=together if members.shape[2] > 1 else layout.outcomes if len(layout.outcomes) == 1 else ("outcome",),
        index=index,
        times=times,
        issued=issued,
        leads=leads,
        sites=cases.sites,
        horizon=forecast.horizon,
        features=cases.features,
        outcomes=cases.outcomes,
        today=cases.today,
        notes=(*cases.notes, *notes),
    ).in_order()


def members_of(layout: ForecastLayout, forecast: ForecastValues) -> tuple[Floats, Floats | None, tuple[str, ...]]:
    """Members (N, M, D), their weights where they were made of quantiles, and what to know about these."""
    width = forecast.values.shape[2]
    pairs = layout.bounds if len(layout.bounds) == width else layout.bounds[:1] * width
    if forecast.levels is None:
        bounds = OutcomeBounds(pairs, "given") if pairs else None
        values = torch.from_numpy(forecast.values)
        return (forecast.values if bounds is None else bounds.clip(values).numpy()), None, ()
    weighted = [
        weighted_quantiles(
            forecast.levels,
            forecast.values[..., place],
            f"the forecast of {layout.targets[place]}" if width > 1 else "the forecast",
            tails=layout.tails,
            bounds=pairs[place] if pairs else None,
        )
        for place in range(width)
    ]
    notes = tuple(dict.fromkeys(note for each in weighted for note in each.notes))
    return np.stack([each.members for each in weighted], -1), weighted[0].weights, notes


def _moments(layout: ForecastLayout, forecast: ForecastValues) -> tuple[Any, Any, Any, Any]:
    """What cases are called, when they happen, when they were issued, and the lead between both in hours."""
    index = forecast.index
    levels = {name: index.get_level_values(place) for place, name in enumerate(index.names)}
    first = index.get_level_values(0)
    is_time = isinstance(first, pd.DatetimeIndex) and first.name not in layout.runs
    times = forecast.times if forecast.times is not None else first.to_numpy() if is_time else None
    issued = levels[layout.issued].to_numpy() if layout.issued is not None else forecast.issued
    leads = levels[layout.lead].to_numpy() if layout.lead is not None else None
    if layout.lead_hours is not None:
        leads = np.full(len(index), layout.lead_hours)
    short: pd.Index[Any] = index.droplevel(cast(Any, list(layout.runs))) if is_time and layout.runs else index
    return short if short.is_unique else index, times, issued, leads
