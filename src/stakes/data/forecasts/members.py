"""A forecast that the user already has, as members, and the outcomes that belong to its cases."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from stakes.argument_checks import require_one_of
from stakes.costs.cost import Cost, is_separable, part_names
from stakes.data.forecasts.checks import (
    case_code_notes,
    forecast_checks,
    require_one_unit,
    unit_of_outcomes_doubts,
    without_codes,
)
from stakes.data.forecasts.columns import ReadAs, site_keys, site_labels, with_ranges, without_coordinates
from stakes.data.forecasts.grids import GridPoint, array_forecast, forecast_array, require_parts, site_dimension
from stakes.data.forecasts.quantiles import Pair, TailShape, given_bounds, weighted_quantiles, within
from stakes.data.forecasts.tables import ROW, ForecastValues, case_index, of_target, one_row_each, table_forecast
from stakes.data.tables.columns import column_numbers, numeric_columns, require_columns
from stakes.data.tables.files import is_dataset, read_table
from stakes.data.tables.gridded_files import open_dataset
from stakes.errors import SettingError, TableError, did_you_mean, listed, names_text, nearest_hint
from stakes.text import label_numbers, number_text


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
            "names that differ from theirs in the same part alone; rename the columns, or give the targets an order "
            "with --sites"
        )
    pairs = listed([f"{outcome} of {target}" for target, outcome in zip(targets, outcomes, strict=True)])
    return tuple(outcomes), (f"names do not tell which outcome belongs to which forecast: taken in order, {pairs}",)


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


Floats = NDArray[np.float64]
_OR_MEMBERS = "; --read-as members takes the columns as members that count alike"
_EACH_ALONE = (
    "quantiles do not say how targets move together: what the decision costs at each depends on that one alone, so "
    "that it need not be known; scores of all targets at once take them to rise and fall together"
)
_EQUAL_MEMBERS = 100  # that stand for weighted ones where nothing else will do


@dataclass(frozen=True, eq=False)
class MembersFile:
    """A forecast as a file has it, without the cases that lack a member or a quantile."""

    members: Floats  # members (N, M, D)
    index: "pd.Index[Any]"
    targets: tuple[str, ...]  # the names of the D targets
    notes: tuple[str, ...] = ()  # sentences about what the user should know
    cases: int | None = None  # how many cases the file has, those that lack a member too; None for as many as `index`
    weights: Floats | None = None
    levels: tuple[float, ...] | None = None
    ordered: bool = False  # whether the user has named the targets one by one, and so given their order
    sites: tuple[str, ...] = ()  # the names of all sites of the file, where each is a case by itself; none otherwise
    horizon: NDArray[Any] | None = None

    def __str__(self) -> str:
        cases, members, _ = self.members.shape
        what = f"{members} members"
        if self.levels is not None:
            what = (
                f"{len(self.levels)} quantiles, levels {number_text(self.levels[0])} to {number_text(self.levels[-1])}"
            )
        return f"{cases} cases of {what}, targets {names_text(self.targets)}"

    def __repr__(self) -> str:
        return f"MembersFile({self})"

    @property
    def site_of_case(self) -> NDArray[Any] | None:
        """The site of each case, (N,), where each is a case by itself; None otherwise."""
        return self.index.get_level_values(-1).to_numpy() if self.sites else None

    @property
    def equal_members(self) -> Floats:
        """Members (N, M, D) that count alike: those of the file, or 100 equally likely ones made of weighted ones."""
        if self.weights is None:
            return self.members
        levels = (np.arange(_EQUAL_MEMBERS) + 0.5) / _EQUAL_MEMBERS
        chosen = np.searchsorted(np.cumsum(self.weights), levels)  # weighted members are ordered
        return self.members[:, chosen]


def read_members(
    path: Path,
    *,
    time: str | None = None,
    site: str | None = None,
    variable: str | None = None,
    dimension: str | None = None,
    points: Sequence[GridPoint] = (),
    unit: str | None = None,
    columns: Sequence[str] = (),
    targets: Sequence[str] = (),
    read_as: ReadAs = "auto",
    sites: str | Sequence[str] = "together",
    tails: TailShape = "exponential",
    bounds: Pair | Literal["auto"] | None = "auto",
    cost: object = None,
    separator: str | None = None,
    encoding: str | None = None,
) -> MembersFile:
    """The forecast in a CSV, parquet, NetCDF or GRIB file or a Zarr store, in the forms that the module describes.

    A case with a missing member is left out; the notes say so, and what was found.
    """
    path = Path(path)
    name = repr(str(path))
    require_one_of("read_as", read_as, ("auto", "members", "quantiles", "points"))
    if is_dataset(path):
        if columns:
            raise TableError(f"columns choose the members of a table, but {name} is a NetCDF file or like one")
        with open_dataset(str(path)) as dataset:
            array, number = forecast_array(dataset, name, variable, dimension, points, unit)
            if site_dimension(array, number, name, site) is None and sites != "each":
                require_parts(array, number, name, cost)
            forecast = array_forecast(array, number, name, site, bool(points))
    else:
        if dimension is not None or points or unit is not None:
            raise TableError(f"a dimension of members, points and a unit are of NetCDF files, but {name} is a table")
        table = read_table(path, site_keys(site), separator=separator, encoding=encoding)
        table = of_target(table, name, variable)
        forecast = table_forecast(table, name, time=time, site=site, columns=columns, targets=targets, read_as=read_as)
    chosen = _of_sites(forecast, sites, name, cost)
    kept = _complete(chosen, name)
    if chosen.targets != forecast.targets and sites == "each":
        kept = replace(kept, sites=forecast.targets)
    kept = replace(kept, notes=(*kept.notes, *forecast_checks(chosen, name, read_as == "auto")))
    if kept.levels is not None:
        return _weighted(kept, name, forecast.named, tails, bounds, cost)
    return replace(kept, members=within(kept.members, given_bounds(bounds)))


def _of_sites(forecast: ForecastValues, sites: str | Sequence[str], name: str, cost: object) -> ForecastValues:
    """The forecast for the sites that are meant, together or each by itself."""
    if sites == "each":
        return forecast.each_by_itself() if len(forecast.targets) > 1 else forecast
    if sites != "together":
        wanted = [sites] if isinstance(sites, str) else list(sites)
        for site in wanted:
            if site not in forecast.targets:
                raise TableError(f"{name} has no site {site!r}; {did_you_mean(site, forecast.targets)}")
        forecast = replace(forecast.only(wanted), ordered=True)
    else:
        forecast = forecast.by_number()
    if len(forecast.targets) == 1:
        return forecast
    if forecast.levels is not None and is_separable(cost):
        return replace(forecast, notes=(*forecast.notes, _EACH_ALONE))
    if forecast.levels is not None:
        raise TableError(
            f"{name} has quantiles of {len(forecast.targets)} sites, {listed(forecast.targets)}: they do not say how "
            "sites move together, which one decision about all of them depends on, as members that belong together do; "
            f"--sites each decides for each by itself, --sites {forecast.targets[0]} for one"
        )
    note = (
        f"{len(forecast.targets)} sites, {names_text(forecast.targets)}, are one decision about all of them, and a "
        "member of one site belongs to the same member of the others; --sites each decides for each by itself"
    )
    return replace(forecast, notes=(*forecast.notes, note)) if forecast.sited else forecast


def _complete(forecast: ForecastValues, name: str) -> MembersFile:
    """Without the cases that have missing members, and with notes about what is there."""
    what = "members" if forecast.levels is None else "quantiles"
    if 0 in forecast.values.shape:
        cases, members, _ = forecast.values.shape
        raise TableError(f"{name} has {cases} cases of {members} {what}, expected at least one each")
    complete = ~np.isnan(forecast.values.sum((1, 2)))  # the numbers are finite or missing
    if not complete.any():
        raise TableError(f"{name} has no case without missing {what}, of {len(complete)}")
    notes = list(forecast.notes)
    if missing := int((~complete).sum()):
        notes.append(f"{missing} of {len(complete)} cases have missing {what} and are left out")
    if forecast.values.shape[1] == 1:
        notes.append("there is one member a case, a point forecast: its action knows of no uncertainty")
    members = np.ascontiguousarray(forecast.values[complete])
    if forecast.levels is None:
        plain = without_codes(members)
        require_one_unit(plain[~np.isnan(plain).any((1, 2))], name)
    kept = MembersFile(members, forecast.index[complete], forecast.targets, cases=len(complete), levels=forecast.levels)
    horizon = None if forecast.horizon is None else forecast.horizon[complete]
    return replace(kept, notes=(str(kept), *notes), ordered=forecast.ordered, horizon=horizon)


def _weighted(
    kept: MembersFile,
    name: str,
    named: bool,
    tails: TailShape,
    bounds: Pair | Literal["auto"] | None,
    cost: object,
) -> MembersFile:
    """The weighted members of the quantiles of each target."""
    levels, each = kept.levels or (), zip(kept.targets, np.moveaxis(kept.members, 2, 0), strict=True)
    try:
        weighted = [
            weighted_quantiles(levels, quantiles, name, tails=tails, bounds=bounds, cost=cost, target=target)
            for target, quantiles in each
        ]
    except SettingError as error:
        raise TableError(f"{name}: {error}{_OR_MEMBERS if named else ''}") from error
    beyond = "exponential tails beyond" if tails == "exponential" else "nothing beyond"
    read = f"read as quantiles, with lines between the levels and {beyond}{_OR_MEMBERS if named else ''}"
    notes = dict.fromkeys((kept.notes[0], read, *kept.notes[1:], *(note for one in weighted for note in one.notes)))
    members = np.stack([one.members for one in weighted], -1)
    return replace(kept, members=members, weights=weighted[0].weights, notes=tuple(notes))


class SeenOutcomes(NamedTuple):
    """What happened in the cases of an ensemble."""

    table: pd.DataFrame  # the outcomes (N, D), in the order of the cases and targets; missing values are NaN
    columns: tuple[str, ...]
    notes: tuple[str, ...] = ()  # sentences about what the user should know


def read_outcomes(
    path: Path,
    members: MembersFile,
    *,
    time: str | None = None,
    site: str | None = None,
    variable: str | None = None,
    targets: Sequence[str] | None = None,
    separator: str | None = None,
    encoding: str | None = None,
) -> SeenOutcomes:
    """The outcomes of the cases of an ensemble."""
    table = read_table(Path(path), site_keys(site), separator=separator, encoding=encoding)
    name = repr(str(path))
    table = of_target(table, name, variable, required=False)
    own = members.sites or members.targets
    known = dict.fromkeys([*map(str, table.columns), *own])  # sites may stand in rows
    named = with_ranges(targets or (), list(known), name)
    return _of_cases(table, name, members, time, site, None if named in ([], list(own)) else named)


def read_actions(
    path: Path,
    members: MembersFile,
    columns: Sequence[str],
    *,
    time: str | None = None,
    site: str | None = None,
    variable: str | None = None,
    separator: str | None = None,
    encoding: str | None = None,
) -> pd.DataFrame:
    """The actions (N, A) that were taken in the cases of an ensemble, in their order; missing values stay NaN."""
    table = read_table(Path(path), site_keys(site), separator=separator, encoding=encoding)
    name = repr(str(path))
    table = of_target(table, name, variable, required=False)
    named = with_ranges(columns, [*map(str, table.columns)], name)
    taken = members if members.sites else replace(members, targets=tuple(named))
    return _of_cases(table, name, taken, time, site, named).table


def _of_cases(
    table: pd.DataFrame,
    name: str,
    members: MembersFile,
    time: str | None,
    site: str | None,
    targets: Sequence[str] | None,
) -> SeenOutcomes:
    """Columns of a table in the order of the members' cases."""
    if members.sites:
        return _outcomes_of_sites(table, name, members, time, site, targets)
    index = case_index(table, time)
    if index is None and members.index.name != ROW:
        raise TableError(f"{name} has no column of times or cases, which its {len(table)} outcomes are matched by")
    if site not in table.columns and (len(targets or ()) > 1 or set(members.targets) <= set(table.columns)):
        site = None
    if index is not None and (labels := site_labels(table, site)) is not None:
        table, targets = _one_column_a_site(table, index, labels, name, targets), None
        index = table.index
    columns, notes = _outcome_columns(table, name, members, index, targets)
    values = pd.DataFrame(column_numbers(table, columns, name), columns=pd.Index(members.targets))
    if index is None or members.index.name == ROW:
        cases = len(members.index) if members.cases is None else members.cases
        if len(table) != cases:
            raise TableError(
                f"{name} has {len(table)} rows, but the members have {cases} cases; without times or labels for both "
                "there must be as many"
            )
        seen = values.set_axis(pd.RangeIndex(len(table), name=ROW)).loc[members.index]
        return SeenOutcomes(seen, tuple(columns), notes)
    known = one_row_each(values.set_axis(index).set_axis(columns, axis=1), name)
    _require_one_kind(index, members.index, name)
    if len(absent := members.index.difference(index)):
        raise TableError(f"{name} has no outcome for {absent[0]}, a case of the members ({len(absent)} such)")
    seen = known.loc[members.index].set_axis(values.columns, axis=1)
    return SeenOutcomes(seen, tuple(columns), notes)


def _outcomes_of_sites(
    table: pd.DataFrame,
    name: str,
    members: MembersFile,
    time: str | None,
    site: str | None,
    targets: Sequence[str] | None,
) -> SeenOutcomes:
    """The same where each site is a case by itself: found as those of all sites together."""
    labels: pd.Index[Any] = members.index.droplevel(cast(Any, -1))
    cases = labels.unique()
    count = None if members.cases is None else members.cases // len(members.sites)
    seen = _of_cases(
        table, name, replace(members, index=cases, targets=members.sites, cases=count, sites=()), time, site, targets
    )
    places = pd.Index(members.sites).get_indexer(members.index.get_level_values(-1))
    values = seen.table.to_numpy()[cases.get_indexer(labels), places]
    return seen._replace(table=pd.DataFrame(values, members.index, members.targets))


def outcome_doubts(path: Path, members: MembersFile, seen: SeenOutcomes) -> tuple[str, ...]:
    """Sentences about outcomes that look like codes for missing ones, or are in another unit than the members."""
    outcomes, index = seen.table.to_numpy(np.float64), seen.table.index
    if (site := members.site_of_case) is None:
        where = [np.full(len(index), True)] * len(seen.columns)
    else:
        where = [site == each for each in members.sites]
    codes = (
        note
        for place, (column, rows) in enumerate(zip(seen.columns, where, strict=True))
        for target in [0 if members.sites else place]
        for note in case_code_notes(
            outcomes[rows, target], members.members[rows, :, target], column, index[rows], repr(str(path))
        )
    )
    units = unit_of_outcomes_doubts(members.equal_members, outcomes, members.targets, "the forecast")
    return (*codes, *units)


def _one_column_a_site(
    table: pd.DataFrame,
    index: "pd.Index[Any]",
    labels: "pd.Series[Any]",
    name: str,
    targets: Sequence[str] | None,
) -> pd.DataFrame:
    """The outcomes of a table with a row for each case and site, as a table with a column for each site."""
    numeric = [column for column in numeric_columns(table) if column not in (index.name, labels.name)]
    values = list(targets) if targets is not None else without_coordinates(numeric)[0]
    if len(values) != 1:
        raise TableError(
            f"{name} must have one column of outcomes beside that of sites, got {listed(values) or 'none'}"
        )
    keys = pd.MultiIndex.from_arrays([index, labels], names=[index.name, labels.name])
    numbers = pd.DataFrame(column_numbers(table, values, name), keys, values)
    return one_row_each(numbers, name)[values[0]].unstack()


def _outcome_columns(
    table: pd.DataFrame, name: str, members: MembersFile, index: "pd.Index[Any] | None", targets: Sequence[str] | None
) -> tuple[list[str], tuple[str, ...]]:
    """The column of outcomes of each target, and what the user should know about it."""
    if targets is not None:
        require_columns(table, targets, name)
        if len(targets) != len(members.targets):
            raise TableError(
                f"--target must name {len(members.targets)} columns of outcomes, as many as the members have, got "
                f"{names_text(targets)}"
            )
        matched, notes = matched_outcomes(members.targets, targets, in_order=members.ordered)
        return list(matched), notes
    if set(members.targets) <= set(table.columns):
        return list(members.targets), ()
    others = [str(column) for column in table.columns if index is None or column != index.name]
    numeric, _ = without_coordinates(
        [column for column in numeric_columns(table) if index is None or column != index.name]
    )
    if len(members.targets) == 1 and len(numeric) == 1:
        return numeric, ()
    lacking = next(target for target in members.targets if target not in table.columns)
    free = [column for column in others if column not in members.targets]
    near = nearest_hint(lacking, free).removeprefix("; ")
    hint = f" ({near})" if near else f", but {listed([*map(repr, free)])}" if free else ""
    raise TableError(
        f"{name} has no column {lacking!r}{hint}; --target says which columns are the outcomes of "
        f"{names_text(members.targets)}"
    )


def _require_one_kind(index: "pd.Index[Any]", wanted: "pd.Index[Any]", name: str) -> None:
    if isinstance(index, pd.DatetimeIndex) != isinstance(wanted, pd.DatetimeIndex):
        words = ["times" if isinstance(each, pd.DatetimeIndex) else "labels" for each in (index, wanted)]
        raise TableError(f"{name} has {words[0]} in the column {index.name!r}, but the members have {words[1]}")
