"""The costs of many replicas as one, whose parameters are tensors with a row for each."""

from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, cast, get_type_hints

import torch
from torch import Tensor

from stakes.errors import SettingError
from stakes.method.costs import Cost, Parameter
from stakes.method.named_costs import PriceParameter
from stakes.method.parameter_range import ParameterRange
from stakes.method.program_actions import PartsCost, ProgramCost

__all__ = ["cost_structure", "stacked_cost"]


def cost_structure(cost: Cost) -> tuple[object, ...]:
    """What costs must have in common to train in one stack: all but their parameters, ranges among what is common.

    Args:
        cost: One of them; one that is no dataclass has no parameters.
    """
    if not is_dataclass(cost):
        return (cost,)
    names = _parameter_names(cost)
    return type(cost), *(getattr(cost, each.name) for each in fields(cost) if each.name not in names)


def stacked_cost(costs: Sequence[Cost], device: torch.device, dtype: torch.dtype) -> Cost:
    """One cost whose parameters are tensors (R, 1), or (R, 1, A or 1) of a program, a row for each of the costs.

    A parameter that is a range stays one.

    Args:
        costs: R costs of one kind.
        device: Where the parameters are to be.
        dtype: The type they are to have.
    """
    first = costs[0]
    if any(cost_structure(cost) != cost_structure(first) for cost in costs):
        raise SettingError("the costs of a stack must be of one kind and differ in their parameters only")
    if not is_dataclass(first):
        return first
    many_parts = isinstance(first, PartsCost | ProgramCost)
    columns: dict[str, Tensor] = {}
    for name in _parameter_names(first):
        values = [torch.as_tensor(getattr(cost, name), dtype=dtype, device=device) for cost in costs]
        for value in values:
            if value.numel() != 1 and not (many_parts and value.dim() == 1):
                raise SettingError(f"{name} of a replica's cost must be one number, got shape {tuple(value.shape)}")
        width = max(value.numel() for value in values)
        column = torch.stack([value.reshape(-1).expand(width) for value in values])
        columns[name] = column[:, None] if many_parts else column
    return cast(Cost, replace(cast(Any, first), **columns))


def _parameter_names(cost: object) -> tuple[str, ...]:
    hints = get_type_hints(type(cost))
    names = (each.name for each in fields(cast(Any, cost)) if hints[each.name] in (Parameter, PriceParameter))
    return tuple(name for name in names if not isinstance(getattr(cost, name), ParameterRange))
