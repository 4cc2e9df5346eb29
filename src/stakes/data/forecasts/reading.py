"""From the files of a user, and what was said of them, to forecasts with what belongs to them: `ForecastSet`."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple, Unpack, cast, get_args

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from stakes.argument_checks import require_one_of
from stakes.costs.cost import Cost, is_separable, part_names
from stakes.data.forecasts.checks import (
    code_doubts,
    forecast_checks,
    in_learned_unit,
    learned_forecasts,
    missing_code_notes,
    require_one_unit,
    unit_of_outcomes_doubts,
    unlike_learned,
)
from stakes.data.forecasts.columns import (
    AHEAD_COLUMNS,
    RUN_COLUMNS,
    chosen_columns,
    site_keys,
    site_labels,
    with_ranges,
    without_coordinates,
)
from stakes.data.forecasts.forecast_set import ROW, ForecastSet
from stakes.data.forecasts.grids import array_forecast, forecast_array, require_parts, site_dimension
from stakes.data.forecasts.layout import ForecastLayout, Pair, ReadAs
from stakes.data.forecasts.quantiles import quantile_bounds, weighted_quantiles
from stakes.data.forecasts.tables import (
    CaseRows,
    case_index,
    of_target,
    table_forecast,
    time_level,
)
from stakes.data.outcome_bounds import given_bounds, outcome_bounds, within, written_pair
from stakes.data.tables.columns import column_numbers, column_times, numeric_columns, require_columns
from stakes.data.tables.files import CsvOptions, is_gridded, read_table
from stakes.data.tables.gridded_files import open_dataset
from stakes.errors import SettingError, StakesError, TableError, did_you_mean, listed, names_text, nearest_hint
from stakes.text import count_text, label_numbers, number_text

Floats = NDArray[np.float64]
_OR_MEMBERS = "; --read-as members reads the columns as members of equal weight"
_EACH_ALONE = (
    "quantiles do not say how targets vary together; decisions do not depend on that, because the cost is a sum over "
    "targets, but scores of all targets at once assume that they rise and fall together"
)


def read_members(
    layout: ForecastLayout,
    forecasts: Path,
    outcomes: Path | None = None,
    *,
    cost: Cost | None = None,
    points: bool = False,
    joint: bool = False,
    **csv: Unpack[CsvOptions],
) -> ForecastSet:
    """Forecasts to decide from, or to judge by a file of outcomes, in the order of their file.

    Where `points` says so a single member a case is judged; quantiles of several outcomes are read where they are
    `joint` later.
    """
    require_one_of("read_as", layout.read_as, get_args(ReadAs))
    source = _opened(forecasts, layout, csv)
    seen = None if outcomes is None else _opened(outcomes, layout, csv)
    forecast, rows = _forecast(layout, source, seen, cost)
    layout = _together_if_one(layout, forecast)
    forecast = forecast if joint else _of_one_decision(layout, forecast, source.name, cost)
    outcome_rows = None
    if seen is None:
        if layout.outcomes and tuple(with_ranges(layout.outcomes, forecast.targets, source.name)) != forecast.targets:
            raise SettingError(
                f"--target must name columns of values in a long table, got {', '.join(layout.outcomes)}; "
                f"{source.name} has {', '.join(forecast.targets)}"
            )
    elif forecast.members.shape[1] < 2 and not points:
        raise TableError(f"{source.name} has one member per case; scores and spread need at least two")
    else:
        outcome_rows = _outcome_rows(layout, None, seen)
        layout, notes = _named_outcomes(layout, forecast, outcome_rows)
        forecast = forecast.noting(*notes)
        if forecast.index.name == ROW:  # then outcomes belong to them by their place, whatever else is known of these
            outcome_rows = replace(outcome_rows, index=pd.RangeIndex(len(outcome_rows.table), name=ROW))
        layout = _with_todays_parts(layout, cost, forecast, outcome_rows)
    cases, complete = _cases(layout, forecast, source.name, rows, outcome_rows, every=True)
    found, how = count_text(cases.members.shape[1], "member"), []
    if (levels := cases.levels) is None:
        require_one_unit(cases.members, source.name)
    else:
        found = f"{len(levels)} quantiles, levels {number_text(levels[0])} to {number_text(levels[-1])}"
        beyond = "exponential tails beyond" if layout.tails == "exponential" else "nothing beyond"
        hint = _OR_MEMBERS if cases.naming.levels else ""
        how = [f"read as quantiles, interpolated linearly between the levels, with {beyond}{hint}"]
    told = [f"{count_text(complete, 'case')} of {found}, targets {names_text(cases.targets)}", *how, *cases.notes]
    if cases.outcomes is not None:
        told += unit_of_outcomes_doubts(cases, cases.outcomes, "the forecast")
    if forecast.members.shape[1] == 1:
        told.append("there is one member per case, a point forecast: its action ignores uncertainty")
    return _given(layout, replace(cases, notes=tuple(told)), forecast.targets, source.name, cost)


def read_past(
    layout: ForecastLayout,
    past: Path,
    forecasts: Path | None = None,
    *,
    cost: Cost | None = None,
    **csv: Unpack[CsvOptions],
) -> tuple[ForecastSet, ForecastLayout]:
    """Past forecasts with their outcomes, in the order of issue, and the layout by which new ones are read alike."""
    if not layout.outcomes:
        raise SettingError("outcomes must name at least one column, got none")
    source = _opened(past if forecasts is None else forecasts, layout, csv)
    told: tuple[str, ...] = ()
    if source.table is not None:
        layout, told = _named(layout, source.table, source.name)
    seen = source if forecasts is None else _opened(past, layout, csv)
    forecast, rows = _forecast(layout, source, seen, cost)
    layout = _together_if_one(layout, forecast)
    outcome_rows = _outcome_rows(layout, rows, seen)
    layout, matched = _named_outcomes(layout, forecast, outcome_rows)
    layout = _with_todays_parts(layout, cost, forecast, outcome_rows)
    learned = learned_forecasts(forecast)
    layout = replace(layout, learned=learned)
    cases, _ = _cases(layout, forecast.noting(*told, *matched), source.name, rows, outcome_rows)
    assert cases.outcomes is not None
    if forecast.levels is None:
        require_one_unit(cases.members, source.name)
    for doubt in unit_of_outcomes_doubts(cases, cases.outcomes, f"the forecast in {source.name}"):
        raise TableError(doubt)
    layout = replace(layout, learned=replace(learned, bounds=_learned_bounds(layout, cases, cost)))
    return _given_in_order(layout, cases, source.name).require_one_outcome(seen.name), layout


def read_new(
    layout: ForecastLayout,
    forecasts: Path,
    outcomes: Path | None = None,
    *,
    judged: bool = False,
    cost: Cost | None = None,
    **csv: Unpack[CsvOptions],
) -> ForecastSet:
    """New forecasts, as those of the past were read, in the order of issue."""
    if judged and layout.own_file and outcomes is None:
        raise SettingError("the forecasts are in a file of their own; name the file of outcomes with --outcomes")
    if outcomes is not None and not layout.own_file:
        raise SettingError(
            f"outcomes must be left out where forecasts and outcomes share a table, got {str(outcomes)!r}"
        )
    source = _opened(forecasts, layout, csv)
    if not judged:
        return _new(layout, source)
    forecast, rows = _forecast_alike(layout, source)
    seen = source if outcomes is None else _opened(outcomes, layout, csv)
    outcome_rows = _outcome_rows(layout, rows, seen)
    layout = _with_todays_parts(layout, cost, forecast, outcome_rows)
    cases, _ = _cases(layout, forecast, source.name, rows, outcome_rows)
    return _given_in_order(layout, cases, source.name).require_one_outcome(seen.name)


def forecasts_in_table(layout: ForecastLayout, table: pd.DataFrame, name: str) -> ForecastSet:
    """New forecasts in a table, as those of the past were read, in the order of issue."""
    return _new(layout, _File(Path(name), name, table))


def _new(layout: ForecastLayout, source: "_File") -> ForecastSet:
    forecast, rows = _forecast_alike(layout, source)
    cases, _ = _cases(layout, forecast, source.name, rows)
    return _given_in_order(layout, cases, source.name)


# Forecasts in a file


class _File(NamedTuple):
    """A file, and its table unless it is a gridded one."""

    path: Path
    name: str
    table: pd.DataFrame | None


def _opened(path: Path, layout: ForecastLayout, csv: CsvOptions) -> _File:
    path = Path(path)
    table = None if is_gridded(path) else read_table(path, site_keys(layout.site), **csv)
    return _File(path, repr(str(path)), table)


def _forecast(
    layout: ForecastLayout, source: _File, seen: _File | None = None, cost: object = None
) -> tuple[ForecastSet, CaseRows | None]:
    """The forecasts of the targets that are meant, in the unit of past ones, and the rows of their table, if any."""
    name, table = source.name, source.table
    if table is None:
        forecast, rows = _in_grid(layout, source, seen, cost), None
    else:
        if layout.member_dimension is not None or layout.point or layout.unit is not None:
            raise TableError(f"--member-dimension, --point and --unit are for NetCDF files, but {name} is a table")
        table = of_target(table, name, layout.variable)
        alike = 1 < len(layout.columns) == len(layout.outcomes)  # a point forecast of each outcome
        read_as = "points" if layout.read_as == "auto" and alike else layout.read_as
        rows = CaseRows.of(table, name, layout.time, layout.runs, layout.site)
        forecast = table_forecast(rows, replace(layout, read_as=read_as))
    forecast = _of_targets(layout, forecast, name)
    if layout.learned is None:
        return forecast.noting(*forecast_checks(forecast, name, layout.read_as == "auto")), rows
    if rows is None:
        forecast = in_learned_unit(layout.learned, forecast, name)
    return forecast.noting(*unlike_learned(layout.learned, forecast), *code_doubts(forecast, name)), rows


def _forecast_alike(layout: ForecastLayout, source: _File) -> tuple[ForecastSet, CaseRows | None]:
    """The same, refused where their levels are not those of the past ones."""
    assert layout.learned is not None
    forecast, rows = _forecast(layout, source)
    if (levels := forecast.levels or ()) != layout.learned.levels:
        kinds = [
            f"quantiles at {listed([*map(number_text, each)])}" if each else "members"
            for each in (layout.learned.levels, levels)
        ]
        raise TableError(f"{source.name} must have {kinds[0]}, as the past forecasts, got {kinds[1]}")
    return forecast, rows


def _in_grid(layout: ForecastLayout, source: _File, seen: _File | None, cost: object) -> ForecastSet:
    """The forecasts in a gridded file; its sites may be a column of the table of outcomes instead."""
    name, roles = (
        source.name,
        {"columns": layout.columns, "features": layout.features, "prices": [*layout.prices.values()]},
    )
    for role, given in (roles | {"issued": layout.issued, "lead": [*layout.runs]}).items():
        if given:
            raise TableError(f"{role} must be left out for a gridded file, {name}, got {given}")
    elsewhere = layout.learned is not None or (
        seen is not None and seen.table is not None and layout.site in seen.table.columns
    )
    with open_dataset(str(source.path)) as dataset:
        array, number = forecast_array(dataset, name, layout, source.path)
        site = None if elsewhere and layout.site not in array.dims else layout.site
        if site_dimension(array, number, name, site) is None and not layout.each_site:
            require_parts(array, number, name, cost)
        forecast = array_forecast(array, number, name, site, bool(layout.point))
    if seen is not None or layout.learned is not None:
        _require_one_place(forecast, name)
    return forecast


def _require_one_place(forecast: ForecastSet, name: str) -> None:
    """Raise where a grid has several forecasts of one time by one run, which are of several places."""
    if forecast.times is None or forecast.index.nlevels == 1:
        return
    runs = forecast.times if forecast.issued is None else forecast.issued
    if pd.MultiIndex.from_arrays([forecast.times, runs]).duplicated().any():
        levels = listed([str(level) for level in forecast.index.names])
        raise TableError(
            f"{name} has forecasts for every {levels}, but the place of the outcomes is unknown; give --point "
            f"LATITUDE,LONGITUDE, once for each site, or --site {forecast.index.names[-1]} if one outcome is for all "
            "of it"
        )


def _of_targets(layout: ForecastLayout, forecast: ForecastSet, name: str) -> ForecastSet:
    """The targets that are meant: all of them, or where each is decided by itself those that are there."""
    known = () if layout.learned is None else layout.learned.targets
    if layout.each_site:
        for target in forecast.targets if known else ():
            if target not in known:
                raise TableError(
                    f"{name} has the site {target!r}, which the past forecasts lack; they have {listed(known)}"
                )
        return forecast.only([target for target in known if target in forecast.targets]) if known else forecast
    wanted = known or (() if isinstance(layout.sites, str) else layout.sites)
    for target in wanted:
        if target not in forecast.targets:
            raise TableError(f"{name} has no site {target!r}; {did_you_mean(target, forecast.targets)}")
    if not wanted:
        return forecast.by_number()
    return replace(forecast.only(wanted), naming=replace(forecast.naming, order=True))


def _together_if_one(layout: ForecastLayout, forecast: ForecastSet) -> ForecastLayout:
    """The layout where one site alone is not decided by itself."""
    return replace(layout, sites="together") if layout.each_site and len(forecast.targets) == 1 else layout


def _of_one_decision(layout: ForecastLayout, forecast: ForecastSet, name: str, cost: object) -> ForecastSet:
    """The same with what to know of one decision about several sites; quantiles do not tell what it depends on."""
    if len(forecast.targets) == 1 or layout.each_site:
        return forecast
    if forecast.levels is not None and is_separable(cost):
        return forecast.noting(_EACH_ALONE)
    if forecast.levels is not None:
        raise TableError(
            f"{name} has quantiles of {len(forecast.targets)} sites, {listed(forecast.targets)}; quantiles do not say "
            "how sites vary together, on which one decision about all of them depends: --dependence PAST of `stakes "
            "decide` joins them by past errors, --sites each decides for each separately, --sites "
            f"{forecast.targets[0]} for one"
        )
    note = (
        f"{len(forecast.targets)} sites, {names_text(forecast.targets)}, share one decision, and member 1 of one site "
        "belongs to member 1 of the others; --sites each decides for each separately"
    )
    return forecast.noting(note) if forecast.naming.sites else forecast


def _named(layout: ForecastLayout, table: pd.DataFrame, name: str) -> tuple[ForecastLayout, tuple[str, ...]]:
    """The layout with the columns of a table by their names, in place of what is to be found; and notes."""
    there = [str(column) for column in table.columns]
    require_columns(table, layout.features, "features")
    require_columns(table, [*layout.prices.values()], "cost")
    if isinstance(layout.lead, str):
        column_numbers(table, [layout.lead], name)
    time = layout.time or time_level(case_index(table, None))
    labels = site_labels(table, layout.site)
    site = layout.site if labels is None else str(labels.name)
    columns = tuple(chosen_columns(layout.columns, there, name)) if layout.columns else ()
    outcomes = layout.outcomes if layout.own_file else tuple(chosen_columns(layout.outcomes, there, name))
    named = replace(layout, columns=columns, outcomes=outcomes, time=time, site=site)
    if layout.runs or layout.lead is not None:
        return named, ()
    free = [column for column in there if column not in (*columns, *named.beside, *outcomes, time, site)]
    issued = _known_as(RUN_COLUMNS, free)
    with suppress(StakesError):  # it may hold something else
        if issued is not None and not np.issubdtype(table[issued].to_numpy().dtype, np.number):
            column_times(table, issued, unique=False)
            note = f"the column {issued!r} is read as the time when each forecast was made"
            return replace(named, issued=issued), (note,)
    ahead = _known_as(AHEAD_COLUMNS, free)
    hint = f", as --lead {ahead} does if {ahead} is in hours" if ahead else ""
    return named, (
        f"the lead time is unknown, so errors are assumed to be known at once; set it with --lead HOURS{hint}",
    )


def _known_as(names: Sequence[str], columns: Sequence[str]) -> str | None:
    lower = {column.lower(): column for column in reversed(columns)}
    return next((lower[name] for name in names if name in lower), None)


# Outcomes, and what else belongs to forecasts


def _cases(
    layout: ForecastLayout,
    forecast: ForecastSet,
    name: str,
    rows: CaseRows | None,
    outcome_rows: CaseRows | None = None,
    every: bool = False,
) -> tuple[ForecastSet, int]:
    """All that is known of complete cases, and how many lack no member; where `every` one counts, it may lack today."""
    values = "members" if forecast.levels is None else "quantiles"
    if 0 in forecast.members.shape:
        cases, members, _ = forecast.members.shape
        raise TableError(f"{name} has {cases} cases of {members} {values}, expected at least one each")
    outcomes = today = sites = None
    doubts: tuple[str, ...] = ()
    if outcome_rows is not None:
        outcomes, doubts = _outcomes(layout, forecast, outcome_rows, every)
        today = _today(layout, forecast, outcome_rows)
    features = None if rows is None or not layout.features else _features(layout, forecast, rows, layout.features)
    prices = None if rows is None or not layout.prices else _prices(layout, forecast, rows)
    there = np.full(len(forecast.index), True)
    if layout.each_site:
        sites = np.tile(np.array(forecast.targets, dtype=np.str_), len(forecast.index))
        keys, forecast = forecast.index.repeat(len(forecast.targets)), forecast.each_by_itself()
        there = np.full(len(keys), True) if rows is None else rows.has(keys, sites)
        outcomes = None if outcomes is None else outcomes.reshape(-1, 1)
    lacks: dict[str, Any] = {values: np.isnan(forecast.members).any((1, 2))}
    lacks |= {} if outcomes is None else {"an outcome": np.isnan(outcomes).any(1)}
    lacks |= {} if features is None else {"a feature": features.isna().any(axis=1).to_numpy()}
    if prices is not None:
        _require_prices(layout, prices[there])
    lacks |= {} if today is None or every else {"today's action": np.isnan(today.reshape(len(today), -1)).any(1)}
    complete: NDArray[np.bool_] = there & ~np.logical_or.reduce(list(lacks.values()))
    if not complete.any():
        raise TableError(f"every case of {name} lacks {' or '.join(lacks)}")
    lacking = {what: int((lack & there).sum()) for what, lack in lacks.items()}
    told = [f"{count} of {there.sum()} cases lack {what} and are left out" for what, count in lacking.items() if count]
    cases = replace(forecast, sites=sites, features=features, prices=prices, outcomes=outcomes, today=today)
    return cases.rows(complete).noting(*told, *doubts), int(there.sum()) - lacking[values]


def _outcome_rows(layout: ForecastLayout, rows: CaseRows | None, seen: _File) -> CaseRows:
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
    layout: ForecastLayout, forecast: ForecastSet, rows: CaseRows
) -> tuple[ForecastLayout, tuple[str, ...]]:
    """The layout with the column of outcomes of each target, or the only one beside a column of sites."""
    there = [str(column) for column in rows.table.columns]
    named = with_ranges(layout.outcomes, [*dict.fromkeys((*there, *forecast.targets))], rows.name)
    if named in ([], list(forecast.targets)):
        named = _found_outcomes(forecast.targets, rows)
    require_columns(rows.table, named, rows.name)
    if 1 == len(forecast.targets) < len(named) and len(layout.columns) > 1:
        raise TableError(
            f"columns must be as many as there are outcomes, one forecast each, got {len(layout.columns)}, "
            f"{names_text(layout.columns)}, for {len(named)}, {names_text(named)}"
        )
    if rows.sites is None:
        outcomes, notes = matched_outcomes(forecast.targets, named, in_order=forecast.naming.order)
        return replace(layout, outcomes=outcomes), notes
    if len(named) != 1:
        raise TableError(
            f"{rows.name} must have one column of outcomes beside that of sites, got {listed(named) or 'none'}"
        )
    sites = list(dict.fromkeys(rows.sites))
    for target in forecast.targets:
        if target not in sites:
            raise TableError(f"{rows.name} has no outcome of site {target!r}; {did_you_mean(target, sites)}")
    return replace(layout, outcomes=tuple(named)), ()


def _found_outcomes(targets: Sequence[str], rows: CaseRows) -> list[str]:
    """The columns of outcomes that nobody has named: those of the targets, or the only ones that can be meant."""
    keys = [*([] if rows.by_place else rows.index.names), *([] if rows.sites is None else [rows.sites.name])]
    numeric, _ = without_coordinates([column for column in numeric_columns(rows.table) if column not in keys])
    there = [str(column) for column in rows.table.columns]
    if rows.sites is None and set(targets) <= set(there):
        return list(targets)
    if rows.sites is not None or len(targets) == len(numeric) == 1:
        return numeric
    lacking = next(target for target in targets if target not in there)
    free = [column for column in there if column not in (*targets, *keys)]
    near = nearest_hint(lacking, free).removeprefix("; ")
    hint = f" ({near})" if near else f", but {listed([*map(repr, free)])}" if free else ""
    raise TableError(
        f"{rows.name} has no column {lacking!r}{hint}; name the outcomes with --target, those of {names_text(targets)}"
    )


def _columns(layout: ForecastLayout, forecast: ForecastSet, rows: CaseRows) -> list[str]:
    """The column of outcomes of each target, or the only one beside a column of sites."""
    if rows.sites is not None:
        return list(layout.outcomes)
    known = forecast.targets if layout.learned is None else layout.learned.targets
    return [layout.outcomes[known.index(target)] for target in forecast.targets]


def _keys(layout: ForecastLayout, forecast: ForecastSet) -> "pd.Index[Any]":
    """By what the outcomes of cases are looked up."""
    if not layout.own_file:
        return forecast.index
    if forecast.times is not None:
        return pd.DatetimeIndex(forecast.times, name="time")
    return forecast.index.get_level_values(0)


def _outcomes(
    layout: ForecastLayout, forecast: ForecastSet, rows: CaseRows, every: bool
) -> tuple[Floats, tuple[str, ...]]:
    """What happened, (N, D), and what is doubtful about it."""
    keys, targets, columns = _keys(layout, forecast), forecast.targets, _columns(layout, forecast, rows)
    sites = None if rows.sites is None else np.tile(np.array(targets, dtype=object), len(keys))
    wanted = keys if sites is None else keys.repeat(len(targets))
    outcomes = rows.values(columns, wanted, sites).reshape(len(keys), len(targets))
    absent = keys[~(keys.isin(rows.index) | np.isnan(forecast.members).any((1, 2)))]
    if every and len(absent):
        raise TableError(f"{rows.name} has no outcome for {absent[0]}, which has a forecast ({len(absent)} in all)")
    if np.isnan(outcomes).all():
        raise TableError(_no_outcomes(keys.get_level_values(0), rows, columns))
    cells = column_numbers(rows.table, columns, rows.name)
    notes: list[str] = []
    happened = ~np.isnan(cells).all(1)
    if layout.own_file and not every and (without := happened & ~rows.among(keys, targets)).any():
        notes.append(f"{without.sum()} of {happened.sum()} outcomes in {rows.name} have no forecast and are left out")
    for place, column in enumerate(columns):
        at = slice(None) if sites is not None else slice(place, place + 1)
        notes += missing_code_notes(outcomes[:, at], forecast.members[..., at], column, cells[:, place], rows.name)
    return outcomes, tuple(notes)


def _no_outcomes(forecasts: "pd.Index[Any]", rows: CaseRows, columns: Sequence[str]) -> str:
    """Why no forecast has an outcome."""
    outcomes = rows.index.get_level_values(0)
    if forecasts.isin(outcomes).any():
        return f"{rows.name} has no outcome in {listed(columns)} for any of the forecasts"
    if isinstance(forecasts, pd.DatetimeIndex) and isinstance(outcomes, pd.DatetimeIndex):
        both = forecasts.normalize().intersection(outcomes.normalize())
        if len(both):
            first = [each[each.normalize() == both[0]][0] for each in (forecasts, outcomes)]
            return (
                f"forecasts and outcomes have days in common, but no hours: on {both[0]:%Y-%m-%d} a forecast is for "
                f"{first[0]:%H:%M:%S}, and {rows.name} has {first[1]:%H:%M:%S}; give the time of the outcome in both, "
                "in UTC or with a zone"
            )
    spans = [f"{each.min()} to {each.max()}" for each in (forecasts, outcomes)]
    return f"forecasts and outcomes never overlap: forecasts span {spans[0]}, {rows.name} {spans[1]}"


def _with_todays_parts(
    layout: ForecastLayout, cost: Cost | None, forecast: ForecastSet, rows: CaseRows
) -> ForecastLayout:
    """The layout with the columns of today's action in the order of its parts, or sites, where their names tell it."""
    today = tuple(with_ranges(layout.today, [str(column) for column in rows.table.columns], rows.name))
    if layout.each_site and rows.sites is None and 1 < len(today) == len(forecast.targets):
        today, _ = matched_outcomes(forecast.targets, today, in_order=forecast.naming.order)
    elif today and cost is not None and not layout.each_site:
        today = matched_actions(cost, forecast.targets, today)
    return replace(layout, today=today)


def _today(layout: ForecastLayout, forecast: ForecastSet, rows: CaseRows) -> Floats | None:
    """The action that was taken, for every case, or every site of it where each is decided by itself."""
    if not layout.today:
        return None
    keys, count = _keys(layout, forecast), len(forecast.targets)
    if not layout.each_site or count == 1:
        numbers = rows.values(layout.today, keys, None)
    elif rows.sites is not None:
        numbers = rows.values(layout.today, keys.repeat(count), np.tile(np.array(forecast.targets, object), len(keys)))
    elif len(layout.today) == count:
        numbers = rows.values(layout.today, keys, None).reshape(-1, 1)
    else:
        raise TableError(f"today must hold an action of each site; {rows.name} has one row for all of them")
    return numbers if numbers.shape[1] > 1 else numbers[:, 0]


def _prices(layout: ForecastLayout, forecast: ForecastSet, rows: CaseRows) -> pd.DataFrame:
    """The parameters of the cost of every case, (N, P); NaN where a case has none."""
    table = _features(layout, forecast, rows, [*dict.fromkeys(layout.prices.values())])
    for name in layout.prices.values():
        if name not in table:
            raise TableError(f"the cost column {name!r} must have one number for all sites of a case")
    return pd.DataFrame({key: table[name] for key, name in layout.prices.items()})


def _require_prices(layout: ForecastLayout, prices: pd.DataFrame) -> None:
    """Raise unless every case has a price that is not negative."""
    for key, name in layout.prices.items():
        if len(odd := prices[key][~(np.isfinite(prices[key]) & (prices[key] >= 0))]):
            raise TableError(f"the cost column {name!r} must have a number from 0 on in every row, got {odd.iloc[0]:g}")


def _features(layout: ForecastLayout, forecast: ForecastSet, rows: CaseRows, columns: Sequence[str]) -> pd.DataFrame:
    """Features (N, F), of every site of a case where each is decided by itself, or where they differ."""
    names, keys, targets = list(columns), forecast.index, forecast.targets
    if rows.sites is None:
        values = rows.values(names, keys)
        return pd.DataFrame(values.repeat(len(targets) if layout.each_site else 1, axis=0), columns=names)
    sites = np.tile(np.array(targets, dtype=object), len(keys))
    values = rows.values(names, keys.repeat(len(targets)), sites)
    if layout.each_site:
        return pd.DataFrame(values, columns=names)
    by_site = values.reshape(len(keys), len(targets), len(names))
    shared = (by_site == by_site[:, :1]).all((0, 1))
    found = {name: by_site[:, 0, place] for place, name in enumerate(names) if shared[place]}
    found |= {
        f"{name} {target}": by_site[:, at, place]
        for place, name in enumerate(names)
        for at, target in enumerate(targets)
        if not shared[place]
    }
    return pd.DataFrame(found)


# Members, their weights and their moments


def _learned_bounds(layout: ForecastLayout, cases: ForecastSet, cost: object) -> tuple[Pair, ...]:
    """What members are clipped to, for each target: what is given, and for the tails of quantiles what is known."""
    given, values = written_pair(layout.outcome_bounds), cases.members
    if given is None or (given == "auto" and cases.levels is None):
        return ()
    known = outcome_bounds(given, cost, torch.from_numpy(cases.outcomes))
    if known is not None:
        return known.pairs
    each = [quantile_bounds(cost, values[..., place]) for place in range(values.shape[2])]
    return tuple((None, None) if one is None else one.pairs[0] for one in each) if any(each) else ()


def with_members(
    layout: ForecastLayout, forecast: ForecastSet, name: str = "the forecast", cost: object = None
) -> ForecastSet:
    """The same with members in place of quantiles, between the bounds of their outcomes, and what to know of these."""
    width, bounds = forecast.members.shape[2], [written_pair(layout.outcome_bounds)] * forecast.members.shape[2]
    if layout.learned is not None:
        pairs = layout.learned.bounds
        bounds = list(pairs if len(pairs) == width else (pairs or [None])[:1] * width)
    each = list(zip(forecast.targets, bounds, np.moveaxis(forecast.members, 2, 0), strict=True))
    if forecast.levels is None:
        return replace(forecast, members=np.stack([within(own, given_bounds(bound)) for _, bound, own in each], -1))
    try:
        weighted = [
            weighted_quantiles(forecast.levels, own, name, tails=layout.tails, bounds=bound, cost=cost, target=target)
            for target, bound, own in each
        ]
    except SettingError as error:
        raise TableError(f"{name}: {error}{_OR_MEMBERS if forecast.naming.levels else ''}") from error
    members = np.stack([own.members for own in weighted], -1)
    made = replace(forecast, members=members, weights=weighted[0].weights, levels=None, columns=())
    return made.noting(*(note for own in weighted for note in own.notes))


def _given(
    layout: ForecastLayout, cases: ForecastSet, targets: Sequence[str], name: str, cost: object = None
) -> ForecastSet:
    """The forecasts of complete cases, called by these targets, with their moments."""
    made, index = with_members(layout, cases, name, cost), cases.index
    levels = {level: index.get_level_values(place) for place, level in enumerate(index.names)}
    first = index.get_level_values(0)
    is_time = isinstance(first, pd.DatetimeIndex) and first.name not in layout.runs
    short: pd.Index[Any] = index.droplevel(cast(Any, list(layout.runs))) if is_time and layout.runs else index
    leads = None if layout.lead is None else levels[layout.lead] if isinstance(layout.lead, str) else layout.lead
    return replace(
        made,
        incomplete=False,
        targets=tuple(targets) if len(targets) == made.members.shape[2] else ("outcome",),
        index=short if short.is_unique else index,
        times=cases.times if cases.times is not None else first.to_numpy() if is_time else None,
        issued=cases.issued if layout.issued is None else levels[layout.issued].to_numpy(),
        leads=leads if leads is None else np.full(len(index), leads),
        notes=tuple(dict.fromkeys(made.notes)),
    )


def _given_in_order(layout: ForecastLayout, cases: ForecastSet, name: str) -> ForecastSet:
    """Forecasts that are corrected, called by their outcomes, in the order of issue."""
    assert layout.learned is not None
    together = len(layout.outcomes) < len(layout.learned.targets) and cases.members.shape[2] > 1
    targets = layout.learned.targets if together else layout.outcomes
    return _given(layout, cases, targets, name).in_order()


# Which column belongs to which target


def matched_outcomes(
    targets: Sequence[str], outcomes: Sequence[str], in_order: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The column of outcomes of each target, and what the user should know about it.

    Names match where what they do not share with all others of their kind is the same.

    >>> matched_outcomes(["ahead_west", "ahead_north"], ["load_north", "load_west"], in_order=False)
    (('load_west', 'load_north'), ())
    """
    if len(targets) != len(outcomes):
        raise TableError(
            f"there must be an outcome for each target of the forecasts, {names_text(targets)}, got {len(outcomes)}: "
            f"{names_text(outcomes)}"
        )
    if len(targets) == 1:
        return tuple(outcomes), ()
    if set(targets) == set(outcomes):
        return tuple(targets), ()
    if (by_name := _by_name(targets, outcomes)) is not None:
        return by_name, ()
    own, wanted = _own_parts(outcomes), _own_parts(targets)
    if set(own) & set(wanted) or not in_order:
        raise TableError(
            f"the outcomes {listed(outcomes)} must have the names of the forecasts' targets, {listed(targets)}, or "
            "differ from them in the same part of each name; rename the columns, or order the targets with --sites"
        )
    pairs = listed([f"{outcome} of {target}" for target, outcome in zip(targets, outcomes, strict=True)])
    return tuple(outcomes), (f"outcomes do not have the names of forecasts and are matched in order: {pairs}",)


def matched_actions(cost: Cost, targets: Sequence[str], columns: Sequence[str]) -> tuple[str, ...]:
    """The columns of an action in the order of its parts, where their names tell it, or as they are."""
    names = part_names(cost, targets)
    parts = names if len(names) > 1 else tuple(targets)  # of one number, a decision for each target
    by_name = _by_name(parts, columns) if len(parts) == len(columns) > 1 else None
    return tuple(columns) if by_name is None else by_name


def _by_name(targets: Sequence[str], columns: Sequence[str]) -> tuple[str, ...] | None:
    """The column of each target, by what they do not share with all others of their kind; None where that differs."""
    own_parts, wanted = _own_parts(columns), _own_parts(targets)
    numbers, wanted_numbers = label_numbers(columns), label_numbers(targets)
    if numbers is not None and wanted_numbers is not None:  # as of obs_00 and h0
        own_parts, wanted = ([str(number) for number in each] for each in (numbers, wanted_numbers))
    own = dict(zip(own_parts, columns, strict=True))
    if set(own) != set(wanted) or len(own) < len(columns):
        return None
    return tuple(own[part] for part in wanted)


def _own_parts(names: Sequence[str]) -> list[str]:
    """What is left of each name without the beginning and the end that all share, in small letters."""
    small = [name.casefold() for name in names]
    rest = [name[_shared(small) :] for name in small]
    end = _shared([name[::-1] for name in rest])
    return [name[: len(name) - end] for name in rest]


def _shared(names: Sequence[str]) -> int:
    """With how many letters all names begin alike."""
    alike = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    return sum(1 for _ in alike)
