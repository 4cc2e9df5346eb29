"""Aversion to risk in words: the keys cvar_level and cvar_mix, which any cost of the library and any program takes."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stakes.cost_text.common_keys import RISK_KEYS
from stakes.cost_text.library_costs import ParameterValue
from stakes.errors import CostError
from stakes.settings import shown

if TYPE_CHECKING:  # torch comes with the first cost, not with --help
    from stakes.method.costs import Cost

__all__ = ["with_risk", "without_risk"]


def without_risk(parameters: Mapping[str, ParameterValue]) -> dict[str, ParameterValue]:
    """The parameters of the cost itself.

    Args:
        parameters: All that were written.
    """
    return {key: value for key, value in parameters.items() if key not in RISK_KEYS}


def with_risk(name: str, cost: "Cost", parameters: Mapping[str, ParameterValue]) -> "Cost":
    """The cost as it is, or its conditional value at risk where that was written.

    Args:
        name: What a message calls the cost.
        cost: The cost.
        parameters: All that were written, cvar_level and cvar_mix perhaps among them.
    """
    given: dict[str, Any] = {field: parameters[key] for key, field in RISK_KEYS.items() if key in parameters}
    if not given:
        return cost
    if "level" not in given:
        raise CostError(f"the cost {name} has cvar_mix without cvar_level, as in cvar_level=0.9")
    for field, value in given.items():
        if not isinstance(value, float | int):
            told = shown(value) if isinstance(value, str) else str(value)
            raise CostError(f"the parameter cvar_{field} of the cost {name} must be a number, got {told}")
    from stakes.method.risk import CVaRCost

    try:
        return CVaRCost(cost, **given)
    except CostError as error:
        own = str(error).startswith(tuple(given))
        raise CostError(f"the cost {name}: {'cvar_' if own else ''}{error}") from error
