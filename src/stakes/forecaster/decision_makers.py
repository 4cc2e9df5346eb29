"""Which decision maker each row belongs to, where the cost of a forecaster has a range; and what climatology does."""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from stakes.errors import SettingError, ShapeError
from stakes.method.actions import optimal_action
from stakes.method.costs import Cost
from stakes.method.parameter_column import ParameterColumn
from stakes.method.parameter_range import RangedParameter, parameter_value, ranged_parameter, with_parameter

__all__ = ["CostParameters", "climatology_action", "climatology_actions", "parameter_values"]
__all__ += ["require_one_decision_maker"]

CostParameters = Mapping[str, ArrayLike]
"""The value of the parameter that is a range, by its name: one for all rows, or one for each, (n,)."""

_POINTS = 33  # of a range, at which climatology is known


def parameter_values(
    column: ParameterColumn, cost: Cost, given: CostParameters | None, rows: int, *, spread: bool = False
) -> Tensor:
    """The parameter of each row, (n, width): as given, or as the cost has it where a number is in place of the range.

    Args:
        column: What the forecaster was fitted with.
        cost: What it decides for.
        given: What the caller says; None for nothing.
        rows: How many rows there are, n.
        spread: Whether rows of which nothing is said are spread over the range; otherwise they are refused.
    """
    if given is not None and not isinstance(given, Mapping):
        raise SettingError(f"cost_parameters must name the parameter, as in {{'penalty': 5}}, got {given!r}")
    parameter, own = column.parameter, ranged_parameter(cost)
    if parameter is None or own is None:
        if given:
            raise SettingError(f"cost_parameters are for a cost with a range, got {', '.join(given)}; change the cost")
        return torch.empty(rows, 0) if parameter is None else _of_cost(parameter, cost, column.conditioned, rows)
    if own != parameter:
        raise SettingError(f"the range must be that of the fit, {parameter}, got {own}")
    if given:
        return _given(parameter, given, rows)
    if spread:
        return column.spread(rows)
    raise SettingError(
        f"the cost has {parameter.name} from {parameter.range.low:g} to {parameter.range.high:g}: say which one, or "
        f"one for each row, as in cost_parameters={{'{parameter.name}': {parameter.range.middle:.3g}}}"
    )


def require_one_decision_maker(cost: Cost) -> None:
    """Raise where a parameter of the cost is a range, since headroom is that of one decision maker.

    Args:
        cost: Any cost.
    """
    if (ranged := ranged_parameter(cost)) is not None:
        raise SettingError(f"headroom is that of one decision maker, got a cost with {ranged}; take one of its values")


def climatology_action(cost: Cost, outcome: Tensor) -> float | tuple[float, ...]:
    """The constant action that is best for these outcomes.

    A number for each part of an action with several; of a cost with a range these for each of some values, evenly
    spread, one value after the other.

    Args:
        cost: What a decision costs.
        outcome: Outcomes (N, D).
    """
    ranged = ranged_parameter(cost)
    if ranged is not None:
        costs = [with_parameter(cost, ranged.name, value) for value in ranged.range.points(_POINTS)]
        return tuple(number for each in costs for number in optimal_action(each, outcome, thorough=True).tolist())
    constant = optimal_action(cost, outcome, thorough=True).tolist()
    return constant[0] if len(constant) == 1 else tuple(constant)


def climatology_actions(action: float | tuple[float, ...], column: ParameterColumn, features: Tensor) -> Tensor:
    """The constant action for each row, (n, A), in double precision: of a cost with a range that of its own parameter.

    Args:
        action: What `climatology_action` found.
        column: Where the rows have their parameter.
        features: Features (n, F + width).
    """
    numbers = np.atleast_1d(np.array(action, dtype=np.float64))
    if column.parameter is None:
        return torch.from_numpy(numbers).expand(len(features), -1)
    shared, by_value = column.parameter.range, numbers.reshape(_POINTS, -1)
    places, known = (
        shared.standardised(values.double()).numpy()
        for values in (column.values(features), torch.tensor(shared.points(_POINTS), dtype=torch.float64))
    )
    return torch.from_numpy(np.stack([np.interp(places, known, part) for part in by_value.T], -1))


def _given(parameter: RangedParameter, given: CostParameters, rows: int) -> Tensor:
    if others := [name for name in given if name != parameter.name]:
        raise SettingError(f"cost_parameters must name {parameter.name}, which has the range, got {others[0]}")
    try:
        values = np.asarray(given[parameter.name], dtype=np.float64)
    except (TypeError, ValueError):
        raise SettingError(
            f"cost_parameters[{parameter.name!r}] must be numbers, got {given[parameter.name]!r}"
        ) from None
    if values.shape not in ((), (rows,)):
        raise ShapeError(
            f"cost_parameters[{parameter.name!r}] must be one number, or one for each of the {rows} rows, got shape "
            f"{values.shape}"
        )
    if not np.isfinite(values).all():
        raise SettingError(f"cost_parameters[{parameter.name!r}] must be finite numbers")
    if values.size:
        parameter.require_inside(float(values.min()), float(values.max()))
    return torch.from_numpy(np.broadcast_to(values, rows).copy())[:, None]


def _of_cost(parameter: RangedParameter, cost: Cost, conditioned: bool, rows: int) -> Tensor:
    """The number that a cost without a range has; any where models do not see it, as nothing depends on it then."""
    number = parameter_value(cost, parameter.name)
    if conditioned:
        if number is None:
            raise SettingError(f"the forecast depends on {parameter}, of which the cost {cost} has none")
        parameter.require_inside(number, number)
    return torch.full((rows, 1), parameter.range.middle if number is None else number, dtype=torch.float64)
