"""Which decision maker each case of a table belongs to, as --cost-parameter tells it: one for all, or by a column."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from stakes.data.layout import TableLayout
from stakes.data.table_columns import column_numbers, column_times
from stakes.errors import SettingError, TableError, did_you_mean
from stakes.method.costs import Cost
from stakes.method.parameter_range import RangedParameter, ranged_parameter

__all__ = ["case_parameters", "spread_note"]

Floats = NDArray[np.float64]


def case_parameters(
    cost: Cost, told: str | None, table: pd.DataFrame, layout: TableLayout, index: "pd.Index[Any]", *, needed: bool
) -> dict[str, Floats] | None:
    """The parameter of each case, (N,), by its name; None where nothing is told, and need not be.

    A column holds the parameter in the row of a case, or, with lags, in that of the time when its forecast is issued.

    Args:
        cost: What is decided for.
        told: "penalty=5", or "penalty=COLUMN"; None for nothing.
        table: The table of the cases.
        layout: What its columns are.
        index: The cases, by their target time or data row.
        needed: Whether a cost with a range is refused where nothing is told.
    """
    ranged = ranged_parameter(cost)
    if ranged is None:
        if told is not None:
            raise SettingError(f"--cost-parameter is for a cost with a range, got {told!r}; --cost gives other numbers")
        return None
    if told is None:
        if needed:
            raise SettingError(
                f"the cost has {_from_to(ranged)}: say which one, as in --cost-parameter {ranged.name}="
                f"{ranged.range.middle:.3g}, or --cost-parameter {ranged.name}=COLUMN for a column of the table"
            )
        return None
    name, sign, word = (part.strip() for part in told.partition("="))
    if name != ranged.name or not sign or not word:
        raise SettingError(f"--cost-parameter must be {ranged.name}=NUMBER or {ranged.name}=COLUMN, got {told!r}")
    return {name: _values(ranged, word, table, layout, index)}


def spread_note(cost: Cost) -> tuple[str, ...]:
    """A sentence about cases of which nobody said to which decision maker they belong.

    Args:
        cost: What was decided for.
    """
    ranged = ranged_parameter(cost)
    if ranged is None:
        return ()
    return (
        f"the cost has {_from_to(ranged)}: the cases are spread evenly over that range, one decision maker each, see "
        f"the column {ranged.name} of the cases; --cost-parameter {ranged.name}=... says which one",
    )


def _values(
    ranged: RangedParameter, word: str, table: pd.DataFrame, layout: TableLayout, index: "pd.Index[Any]"
) -> Floats:
    try:
        values = np.full(len(index), float(word))
    except ValueError:
        values = _column(word, table, layout, index)
    if len(values):
        ranged.require_inside(float(values.min()), float(values.max()))
    return values


def _column(name: str, table: pd.DataFrame, layout: TableLayout, index: "pd.Index[Any]") -> Floats:
    known = [str(column) for column in table.columns]
    if name not in known:
        raise TableError(
            f"--cost-parameter names the column {name!r}, which the table lacks; {did_you_mean(name, known)}"
        )
    numbers = column_numbers(table, [name], "--cost-parameter")[:, 0]
    if layout.time is None:
        values = numbers[index.to_numpy(np.int64) - 1]  # data rows count from 1
    else:
        times = pd.DatetimeIndex(index)
        times = times - pd.Timedelta(hours=layout.lead or 0.0) if layout.lags else times
        known_at = pd.DatetimeIndex(column_times(table, layout.time))
        values = np.asarray(pd.Series(numbers, known_at).reindex(times), dtype=np.float64)
    if len(lacking := np.flatnonzero(~np.isfinite(values))):
        raise TableError(f"--cost-parameter: column {name!r} has no value for the case {index[int(lacking[0])]}")
    return values


def _from_to(ranged: RangedParameter) -> str:
    return f"{ranged.name} from {ranged.range.low:g} to {ranged.range.high:g}"
