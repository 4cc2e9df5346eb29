"""The costs of the library by name: what each is for, how it is written, and how it is made from its parameters."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any

from stakes.errors import CostError, did_you_mean
from stakes.settings import shown

if TYPE_CHECKING:  # torch comes with the first cost, not with --help
    from stakes.method.costs import Cost

__all__ = ["TEXT_PARAMETERS", "cost_names", "library_cost", "require_library_name", "with_defaults"]

TEXT_PARAMETERS = ("hazard",)
"""The parameters that are text; all others are numbers."""


@dataclass(frozen=True)
class _Kind:
    """A cost of the library: its class, one line about it, and how it is written."""

    class_name: str
    line: str
    example: str


_KINDS = {
    "shortfall": _Kind(
        "ShortfallCost",
        "commit power, pay penalty x shortfall^2; outcome: power as a fraction of capacity",
        "shortfall:penalty=5",
    ),
    "wind_dispatch": _Kind(
        "WindDispatchCost",
        "the same for wind speed in m/s, through a power curve",
        "wind_dispatch:penalty=5,cutoff_speed=25",
    ),
    "protection": _Kind(
        "ProtectionCost",
        "protect at a level between 0 and 1 against a hazard above or below a threshold",
        "protection:threshold=0,false_alarm_ratio=0.2,hazard=below",
    ),
    "newsvendor": _Kind(
        "NewsvendorCost",
        "stock a quantity, linear cost of too little (underage) and too much (overage)",
        "newsvendor:underage=4,overage=1,upper=500",
    ),
    "imbalance": _Kind(
        "ImbalanceCost",
        "buy a quantity, quadratic cost of being short or long",
        "imbalance:short=10,long=1,upper=150",
    ),
}
_DEFAULTS = {"newsvendor": {"lower": 0.0}, "imbalance": {"lower": 0.0}}


def cost_names() -> dict[str, str]:
    """The costs of the library and one line about each."""
    return {name: kind.line for name, kind in _KINDS.items()}


def require_library_name(name: str) -> None:
    """Raise unless the library has a cost of that name.

    Args:
        name: The name as it was written.
    """
    if name not in _KINDS:
        hint = did_you_mean(name, tuple(_KINDS))
        raise CostError(f"there is no cost {shown(name)}, and your own is written FILE.py:function; {hint}")


def with_defaults(name: str, parameters: Mapping[str, float | str]) -> dict[str, float | str]:
    """The parameters, followed by those that need not be written.

    Args:
        name: The cost's name; one that the library does not have has no defaults.
        parameters: The parameters that were written.
    """
    defaults = {key: value for key, value in _DEFAULTS.get(name, {}).items() if key not in parameters}
    return {**parameters, **defaults}


def library_cost(name: str, parameters: Mapping[str, float | str]) -> "Cost":
    """The cost of that name, or one sentence about the name or parameter that is wrong or missing.

    Args:
        name: The name of a cost of the library.
        parameters: The fields of the cost, and of its power curve where it has one, by name.
    """
    require_library_name(name)
    from stakes.method import named_costs
    from stakes.method.power_curve import PowerCurve

    kind = getattr(named_costs, _KINDS[name].class_name)
    of_cost = {field.name: field for field in fields(kind) if field.name != "power_curve"}
    of_curve = [field.name for field in fields(PowerCurve)] if name == "wind_dispatch" else []
    _require_known(name, parameters, (*of_cost, *of_curve))
    required = [key for key, field in of_cost.items() if field.default is field.default_factory is MISSING]
    if missing := [key for key in required if key not in parameters]:
        raise CostError(f"the cost {name} needs {' and '.join(missing)}, as in {_KINDS[name].example}")
    arguments: dict[str, Any] = {key: value for key, value in parameters.items() if key in of_cost}
    curve: dict[str, Any] = {key: value for key, value in parameters.items() if key in of_curve}
    try:
        if of_curve:
            arguments["power_curve"] = PowerCurve(**curve)
        cost: Cost = kind(**arguments)
    except CostError as error:
        raise CostError(f"the cost {name}: {error}") from error
    return cost


def _require_known(name: str, parameters: Mapping[str, float | str], known: tuple[str, ...]) -> None:
    for key, value in parameters.items():
        if key not in known:
            raise CostError(f"the cost {name} has no parameter {key!r}; its parameters are {', '.join(known)}")
        expected = "text" if key in TEXT_PARAMETERS else "a number"
        if isinstance(value, bool) or isinstance(value, str) != (expected == "text"):
            raise CostError(f"the parameter {key} of the cost {name} must be {expected}, got {shown(value)}")
