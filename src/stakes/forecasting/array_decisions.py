"""Decisions from labelled arrays: a forecast as xarray has it in, the action of every case out."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
import xarray as xr
from numpy.typing import NDArray

from stakes.costs.cost import Cost, has_part_of_each, is_separable, require_finite_costs
from stakes.data.case_table import as_table, like_given
from stakes.data.forecasts.columns import LEVEL_DIMENSIONS, MEMBER_DIMENSIONS, may_be_members, named_quantiles
from stakes.data.forecasts.grids import forecast_array
from stakes.data.forecasts.layout import ForecastFormat, Pair, TailShape
from stakes.data.forecasts.quantiles import weighted_vectors
from stakes.errors import NonFiniteError, ShapeError, listed
from stakes.evaluation.ensembles import by_part, column_values, on_all_cases
from stakes.forecasting.decisions import member_parts, solve_decisions

_Floats = NDArray[np.float64]
_RESULTS = ("expected_cost", "at_lower_bound", "at_upper_bound", "certified")
_OF_PARTS = ("gap", "infeasible", "unbounded")


def decide_array(
    forecast: Any,
    cost: Cost,
    levels: Sequence[float] = (0.1, 0.5, 0.9),
    *,
    member: str | None = None,
    site: str | None = None,
    tails: TailShape = "exponential",
    bounds: Pair | Literal["auto"] | None = "auto",
) -> xr.Dataset:
    """The action of least expected cost for every case: every time, lead time and place of a grid.

    The result has `action`, `expected_cost`, `at_lower_bound`, `at_upper_bound`, `certified` and `quantile`, as
    `Decisions` explains them. A case with a missing value has none of them: NaN and False. Where an
    action has several parts there are `gap`, `infeasible` and `unbounded` too, and `action` and `quantile` have the
    dimension of the sites; an action with other parts than one for each site has the dimension `part`. For a
    risk-averse cost there is `plain_expected_cost` too.

    >>> import numpy as np, stakes, xarray as xr
    >>> power = xr.DataArray(np.array([[0.2, 0.4, 0.9], [0.5, 0.6, 0.7]]), dims=("time", "number"))
    >>> decide_array(power, stakes.ShortfallCost(penalty=5.0))["action"].values.round(2)
    array([0.45, 0.7 ])

    Args:
        forecast: Members along the dimension `number`, `member`, `realization`, `ensemble` or `sample`, or quantiles
            along `quantile`, whose coordinate holds the levels; all other dimensions but that of sites are of cases. A
            DataArray, a Dataset with one such variable, or what `to_xarray()` makes one, as fields of earthkit-data.
        cost: What a decision costs.
        levels: Levels of the quantiles in the result, between 0 and 1.
        member: The dimension of the members where it has another name; None looks for the usual ones.
        site: Dimension of the sites, or hours, of one decision; None for one decision in each place.
        tails: What lies beyond the outermost quantiles: "exponential" tails, or nothing, "flat".
        bounds: What outcomes cannot cross, for the tails of quantiles; "auto" takes what the cost knows, or quantiles
            show, None none.
    """
    forecast = _as_array(forecast, member)
    number = member or _known_dimension(forecast)
    sites = [] if site is None else [site]
    for dim in (number, *sites):
        if dim not in forecast.dims:
            raise ShapeError(f"forecast must have the dimension {dim!r}, got {list(forecast.dims)}")
    if number in LEVEL_DIMENSIONS and number in forecast.coords:
        forecast = forecast.sortby(number)
    cases = [dim for dim in forecast.dims if dim not in (number, *sites)]
    members, complete = _complete_cases(forecast.transpose(*cases, number, *sites), len(cases))
    weights = None
    if number in LEVEL_DIMENSIONS:
        members, weights = _of_quantiles(forecast, number, members, cost, tails, bounds)
    samples = torch.from_numpy(members)
    decided = solve_decisions(cost, member_parts(samples), levels, double=True, weights=weights)
    require_finite_costs(decided.expected_cost[~decided.unanswered])
    blank = forecast.isel(dict.fromkeys((number, *sites), 0), drop=True).transpose(*cases).drop_attrs()
    of_sites = decided.action.ndim > 1 and has_part_of_each(cost, samples.shape[-1])
    results = {"action": by_part(decided.action, complete, blank, forecast, site if of_sites else None)}
    results |= {name: on_all_cases(getattr(decided, name), complete, blank) for name in _RESULTS}
    if decided.gap is not None:
        results |= {name: on_all_cases(getattr(decided, name), complete, blank) for name in _OF_PARTS}
    if decided.plain_expected_cost is not None:
        results["plain_expected_cost"] = on_all_cases(decided.plain_expected_cost, complete, blank)
    each = [by_part(decided.quantiles[:, place], complete, blank, forecast, site) for place in range(len(levels))]
    if each:
        results["quantile"] = xr.concat(each, xr.IndexVariable("level", list(levels))).transpose(..., "level")
    return xr.Dataset(results, attrs={"cost": repr(cost), "missing_cases": int((~complete).sum())})


def decide_table(
    members: Any,
    cost: Cost,
    levels: Sequence[float] = (0.1, 0.5, 0.9),
    *,
    tails: TailShape = "exponential",
    bounds: Pair | Literal["auto"] | None = "auto",
) -> Any:
    """`decide_array` for tables: one row for each case, and a column for each member, or for each quantile by its name.

    Tables of pandas, polars and others go in, and one of the same kind comes out, with `quantile_0.1` and so on.

    >>> import pandas as pd, stakes
    >>> power = pd.DataFrame([[0.2, 0.4, 0.9], [0.5, 0.6, 0.7]], index=["north", "south"], columns=["m1", "m2", "m3"])
    >>> stakes.decide_table(power, stakes.ShortfallCost(penalty=5.0))["action"].round(2).to_dict()
    {'north': 0.45, 'south': 0.7}

    Args:
        members: The forecast, of one outcome.
        cost: What a decision costs.
        levels: Levels of the quantiles in the result, between 0 and 1.
        tails: What lies beyond the outermost quantiles: "exponential" tails, or nothing, "flat".
        bounds: What outcomes cannot cross, as for `decide_array`.
    """
    table = as_table(members, "members")
    named = named_quantiles([str(column) for column in table.columns])
    values, index = column_values(table, "members"), table.index
    if named and not may_be_members(named):
        if len(named) != len(table.columns) or len({each.prefix for each in named}) > 1:
            raise ShapeError(
                "members must be members or quantiles of a single outcome, got the columns "
                f"{listed(list(map(str, table.columns)))}"
            )
        forecast = xr.DataArray(values, {"quantile": [each.level for each in named]}, ("case", "quantile"))
    else:
        forecast = xr.DataArray(values, dims=("case", "number"))
    decided = decide_array(forecast, cost, levels, tails=tails, bounds=bounds)
    columns = {str(name): decided[name].values for name in decided.data_vars if name != "quantile"}
    columns |= {f"quantile_{level:g}": decided["quantile"].values[:, place] for place, level in enumerate(levels)}
    return like_given(pd.DataFrame(columns, index), members)


def _as_array(forecast: Any, member: str | None) -> xr.DataArray:
    given = forecast.to_xarray() if hasattr(forecast, "to_xarray") else forecast
    layout = ForecastFormat(member_dimension=member)
    return forecast_array(given, "forecast", layout)[0] if isinstance(given, xr.Dataset) else given


def _complete_cases(forecast: xr.DataArray, cases: int) -> tuple[_Floats, NDArray[np.bool_]]:
    """The values (n, M, D) of the cases without a missing one, and which of all cases those are."""
    sizes = (*forecast.shape[cases:], 1)[:2]  # members, and sites or one
    values = forecast.values.astype(np.float64).reshape(-1, *sizes)
    if np.isinf(values).any():
        raise NonFiniteError("forecast must be finite or missing, got infinite values")
    complete: NDArray[np.bool_] = ~np.isnan(values.sum((1, 2)))
    if not complete.any():
        raise ShapeError(f"forecast must have a case without missing values, got {len(complete)} cases")
    return values[complete], complete


def _known_dimension(forecast: xr.DataArray) -> str:
    known = [str(dim) for dim in forecast.dims if dim in (*MEMBER_DIMENSIONS, *LEVEL_DIMENSIONS)]
    if len(known) != 1:
        came = listed(known) or listed([*map(str, forecast.dims)])
        raise ShapeError(
            f"forecast must have one dimension of members, such as 'number', or name it with `dim`, got {came}"
        )
    return known[0]


def _of_quantiles(
    forecast: xr.DataArray,
    number: str,
    quantiles: _Floats,
    cost: Cost,
    tails: TailShape,
    bounds: Pair | Literal["auto"] | None,
) -> tuple[_Floats, torch.Tensor]:
    """Members (n, M, D) and their weights (M,)."""
    if quantiles.shape[2] > 1 and not is_separable(cost):
        raise ShapeError(
            "quantiles do not say how sites vary together; one decision for several sites needs members, or `stakes "
            "decide --dependence PAST`, which joins quantiles by past errors"
        )
    if number not in forecast.coords:
        raise ShapeError(f"forecast must have the levels of its quantiles as the coordinate {number!r}")
    given = forecast[number].values.astype(np.float64).tolist()
    weighted = weighted_vectors(given, quantiles, "forecast", tails=tails, bounds=bounds, cost=cost)
    return weighted.members, torch.from_numpy(weighted.weights)
