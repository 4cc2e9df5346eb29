"""The outcomes that belong to the cases of an ensemble."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd

from stakes.data.case_index import ROW, case_index
from stakes.data.case_rows import one_row_each
from stakes.data.forecast_units import unit_of_outcomes_doubts
from stakes.data.long_tables import of_target
from stakes.data.matched_outcomes import matched_outcomes
from stakes.data.member_columns import with_ranges, without_coordinates
from stakes.data.members import MembersFile
from stakes.data.missing_codes import case_code_notes
from stakes.data.site_columns import site_keys, site_labels
from stakes.data.table_columns import column_numbers, numeric_columns, require_columns
from stakes.data.tables import read_table
from stakes.errors import TableError, listed, names_text, nearest_hint

__all__ = ["SeenOutcomes", "outcome_doubts", "read_actions", "read_outcomes"]


class SeenOutcomes(NamedTuple):
    """What happened in the cases of an ensemble.

    Attributes:
        table: The outcomes (N, D), in the order of the cases and targets; missing values are NaN.
        columns: The column of each target in the file, or its site; of each site where it is a case by itself.
        notes: Sentences about what the user should know.
    """

    table: pd.DataFrame
    columns: tuple[str, ...]
    notes: tuple[str, ...] = ()


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
    """The outcomes of the cases of an ensemble.

    Args:
        path: A CSV or parquet file; it may have more cases, unless they are known only by their place.
        members: The ensemble.
        time: The column of times; None looks for the usual names and for a column `case`.
        site: The column of sites in a table with a row for each, which need not be there where the table has a column
            for each target; None looks for the usual names.
        variable: The target of a hub's table, where outcomes have a column `target`; None for all rows.
        targets: The columns of the outcomes, also as ranges such as h00:h23, which belong to the members' targets by
            their names; None, and the names of the members' targets, take those called so, or a single column.
        separator: The character between the fields of a text file; None finds it out.
        encoding: The encoding of a text file; None finds it out.
    """
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
    """The actions (N, A) that were taken in the cases of an ensemble, in their order; missing values stay NaN.

    Args:
        path: The file of the outcomes, of which they are columns.
        members: The ensemble.
        columns: The columns of the actions, also as ranges such as did00:did23.
        time: The column of times; None looks for the usual names and for a column `case`.
        site: The column of sites in a table with a row for each; None looks for the usual names.
        variable: The target of a hub's table, where outcomes have a column `target`; None for all rows.
        separator: The character between the fields of a text file; None finds it out.
        encoding: The encoding of a text file; None finds it out.
    """
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
        return _of_sites(table, name, members, time, site, targets)
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


def _of_sites(
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
    """Sentences about outcomes that look like codes for missing ones, or are in another unit than the members.

    Args:
        path: The file of the outcomes.
        members: The ensemble.
        seen: Its outcomes.
    """
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
