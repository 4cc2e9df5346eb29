"""The members, or quantiles, in a table: one column for each, or one row."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from stakes.data.case_index import ROW, as_index, case_index, require_once, time_level
from stakes.data.forecast_columns import ForecastColumns, ReadAs, forecast_columns
from stakes.data.forecast_values import ForecastValues
from stakes.data.long_tables import long_forecast
from stakes.data.member_columns import chosen_columns, without_coordinates
from stakes.data.site_columns import site_labels
from stakes.data.table_columns import column_numbers, is_text, numeric_columns, zone_notes
from stakes.errors import TableError, listed

__all__ = ["table_forecast"]


def table_forecast(
    table: pd.DataFrame,
    name: str,
    *,
    time: str | None = None,
    runs: Sequence[str] = (),
    site: str | None = None,
    columns: Sequence[str] = (),
    targets: Sequence[str] = (),
    read_as: ReadAs = "auto",
) -> ForecastValues:
    """The members or quantiles in a table, wide or long.

    Args:
        table: The table.
        name: What messages call the file.
        time: The column of times; None looks for the usual names and for a column `case`.
        runs: Columns that tell the forecasts of one time apart, such as when they were made.
        site: The column of sites; None looks for the usual names.
        columns: The members of a wide table, also as ranges such as m1:m50; none for all that look like members.
        targets: The columns of values of a long table; none for the only one.
        read_as: What the columns of a wide table hold, or which rows of a hub's table are meant.
    """
    long = None if columns else long_forecast(table, name, time, runs, site, targets, read_as)
    return _wide(table, name, time, runs, site, columns, read_as) if long is None else long


def _wide(
    table: pd.DataFrame,
    name: str,
    time: str | None,
    runs: Sequence[str],
    site: str | None,
    wanted: Sequence[str],
    read_as: ReadAs,
) -> ForecastValues:
    index, sites = case_index(table, time, runs), site_labels(table, site)
    known = {*([] if index is None else index.names), *([] if sites is None else [sites.name])}
    others = [str(column) for column in table.columns if column not in known]
    if not others:
        raise TableError(f"{name} has no column of members")
    columns, notes = (chosen_columns(wanted, others, name), ()) if wanted else without_coordinates(others)
    _require_numbers(table, columns, name)
    roles = forecast_columns(columns, name, read_as, bool(wanted))
    values = np.stack([column_numbers(table, of_target, name) for of_target in roles.of_target.values()], -1)
    notes += roles.notes + zone_notes(table, time_level(index))
    if sites is not None:
        return replace(_by_site(values, index, sites, roles, name), named=read_as == "auto", notes=notes)
    index = pd.RangeIndex(len(table), name=ROW) if index is None else index
    require_once(index, name)
    targets = tuple(roles.of_target)
    points, named = read_as == "points", read_as == "auto"
    return ForecastValues(values, index, targets, roles.levels, named, not points, points and bool(wanted), notes)


def _by_site(
    values: Any,
    index: "pd.Index[Any] | None",
    labels: "pd.Series[Any]",
    roles: ForecastColumns,
    name: str,
) -> ForecastValues:
    """The values of each case and site, of a table that has a row for each: (rows, M, 1) to (N, M, sites)."""
    if len(roles.of_target) > 1:
        raise TableError(
            f"{name} has sites in the column {labels.name!r} and in the names of others, {listed([*roles.of_target])}"
        )
    if index is None:
        if labels.duplicated().any():
            raise TableError(
                f"{name} has the column {labels.name!r} but none of the case; it is called time or case, or --time "
                "says which"
            )
        index = pd.Index(np.zeros(len(labels), np.int64), name=ROW)
    levels: list[Any] = [*(index.get_level_values(level) for level in range(index.nlevels)), labels]
    require_once(pd.MultiIndex.from_arrays(levels, names=[*index.names, labels.name]), name)
    case_codes, cases = pd.factorize(index)
    site_codes, sites = pd.factorize(labels)
    placed = np.full((len(cases), values.shape[1], len(sites)), np.nan)
    placed[case_codes, :, site_codes] = values[..., 0]
    cases = as_index(cases).set_names(index.names)
    return ForecastValues(placed, cases, tuple(map(str, sites)), roles.levels, sited=True)


def _require_numbers(table: pd.DataFrame, columns: Sequence[str], name: str) -> None:
    numeric = set(numeric_columns(table))
    text = next((column for column in columns if column not in numeric and is_text(table[column])), None)
    if text is not None:
        raise TableError(
            f"{name} has text in the column {text!r}; columns of members hold numbers, and the column of the case "
            "is called time or case, or --time says which it is; --site says which is of sites"
        )
