"""Quantiles of several outcomes put together as past errors, or past outcomes, went together: `decide --dependence`."""

from dataclasses import replace
from pathlib import Path
from typing import Unpack

import numpy as np
from numpy.typing import NDArray

from stakes.data.forecasts.columns import named_quantiles, with_ranges
from stakes.data.forecasts.forecast_set import ForecastSet
from stakes.data.forecasts.layout import ForecastFormat, ForecastLayout
from stakes.data.forecasts.reading import read_past
from stakes.data.tables.columns import column_numbers
from stakes.data.tables.files import CsvOptions, read_table
from stakes.errors import SettingError, TableError, names_text
from stakes.forecasting.copula import error_places, quantiles_at, reordered, vector_ranks
from stakes.text import count_text

Floats = NDArray[np.float64]
_LEAST = 20  # past cases: of fewer, an order is mostly chance


def put_together(
    given: ForecastSet,
    past: Path,
    layout: ForecastFormat,
    outcomes: tuple[str, ...] = (),
    **csv: Unpack[CsvOptions],
) -> ForecastSet:
    """Quantiles as joint scenarios in the order of past errors, or of past outcomes where there are no errors."""
    width = len(given.targets)
    if given.weights is None or width < 2:
        raise SettingError(
            "--dependence is for quantiles of several outcomes; members and forecasts of one outcome need none"
        )
    table, name = read_table(past, **csv), repr(str(past))
    there = [str(column) for column in table.columns]
    named = tuple(with_ranges(outcomes, there, name)) or tuple(each for each in given.targets if each in there)
    long = layout.site is not None and layout.site in there
    if long and not named:
        taken = {each.column for each in named_quantiles(there)} | {layout.site, layout.time}
        named = tuple(column for column in there if column not in taken and table[column].dtype.kind in "fi")
    if len(named) != (1 if long else width):
        wanted = (
            "the one column of outcomes" if long else f"a column of outcomes for each of {names_text(given.targets)}"
        )
        raise TableError(f"{name} must have {wanted}; name them with --target, got {names_text(named) or 'none'}")
    quantiles = tuple(each.column for each in named_quantiles([column for column in there if column not in named]))
    if quantiles:
        whole = ForecastLayout(**{**vars(layout), "sites": "together", "columns": quantiles}, outcomes=named)
        known, _ = read_past(whole, past, **csv)
        if known.targets != given.targets and len(known.targets) == width and not long:
            known = replace(known, targets=given.targets)  # called by the names of their outcomes, in their order
        if known.targets != given.targets or known.weights is None:
            raise TableError(f"{name} must have quantiles of {names_text(given.targets)}, as the forecasts, got others")
        assert known.outcomes is not None
        errors, what, notes = error_places(known.members, known.weights, known.outcomes), "errors", known.notes
    else:
        if long:
            values = table.pivot_table(index=_case(there, layout, name), columns=layout.site, values=named[0])
            values.columns = [str(column) for column in values.columns]
            if lacking := [target for target in given.targets if target not in values]:
                raise TableError(f"{name} has no outcome of {lacking[0]!r}")
            errors = values[list(given.targets)].to_numpy(np.float64)
        else:
            errors = column_numbers(table, list(named), name)
        what = "outcomes"
        notes = (f"{name} has no forecasts beside its outcomes, so the order of outcomes stands for that of errors",)
    errors = errors[np.isfinite(errors).all(1)]
    if len(errors) < _LEAST:
        raise TableError(
            f"{name} must have at least {_LEAST} complete past cases to order scenarios by, got {len(errors)}"
        )
    ranks = vector_ranks(errors)
    members = reordered(quantiles_at(given.members, given.weights, len(ranks)), ranks)
    told = f"joint scenarios: {len(ranks)} a case, in the order of the {what} of {count_text(len(errors), 'past case')}"
    return replace(given, members=members, weights=None, notes=(*given.notes, *notes, told))


def _case(columns: list[str], layout: ForecastFormat, name: str) -> str:
    """The column that tells which rows of a long table are one case."""
    for column in (layout.time, "case", "time", "date", "day"):
        if column is not None and column in columns:
            return column
    raise TableError(f"{name} must have a column that names the case of each row; give it with --time")
