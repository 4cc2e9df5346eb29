"""The costs of the library by name: what each is for, how it is written, and its keys."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any

from stakes.costs.parameter_range import ParameterRange
from stakes.errors import CostError, did_you_mean, nearest_hint
from stakes.settings import shown

if TYPE_CHECKING:
    from stakes.costs.cost import Cost


UNIT_KEYS = ("unit", "action_unit")
"""The units of the cost and of what is decided."""

RISK_KEYS = {"cvar_level": "level", "cvar_mix": "mix"}
"""Aversion to risk: the keys, and the fields of `stakes.CVaRCost` that they are."""

COMMON_KEYS = (*RISK_KEYS, *UNIT_KEYS)
"""All of them."""


ParameterValue = float | str | tuple[float, ...] | ParameterRange
"""A number, a text such as "@margin" for a column, numbers one an outcome, or a range of which each case has one."""


@dataclass(frozen=True)
class _Kind:
    """A cost of the library: its class, one line about it, how it is written, and what is no single number."""

    class_name: str
    line: str
    example: str
    each: tuple[str, ...] = ()  # parameters that may have a number for each outcome
    ranges: tuple[str, ...] = ()  # those of which one may be a range
    texts: tuple[str, ...] = ()


_KINDS = {
    "shortfall": _Kind(
        "ShortfallCost",
        "commit power, pay penalty x shortfall^2; outcome: power as a fraction of capacity",
        "shortfall:penalty=5",
        ranges=("penalty",),
    ),
    "wind_dispatch": _Kind(
        "WindDispatchCost",
        "the same for wind speed in m/s, through a power curve",
        "wind_dispatch:penalty=5,cutoff_speed=25",
        ranges=("penalty",),
    ),
    "protection": _Kind(
        "ProtectionCost",
        "protect at a level between 0 and 1 against a hazard above or below a threshold",
        "protection:threshold=0,false_alarm_ratio=0.2,hazard=below",
        ranges=("threshold", "false_alarm_ratio", "sharpness"),
        texts=("hazard",),
    ),
    "cost_loss": _Kind(
        "CostLossCost",
        "protect or not against an event above or below a threshold, or bear the loss; nothing can be trained on it",
        "cost_loss:threshold=0,protection=0.2,loss=1,event=below",
        ranges=("threshold", "protection", "loss"),
        texts=("event",),
    ),
    "newsvendor": _Kind(
        "NewsvendorCost",
        "stock a quantity, linear cost of too little (underage) and too much (overage)",
        "newsvendor:underage=4,overage=1,upper=500",
        ranges=("underage", "overage"),
    ),
    "imbalance": _Kind(
        "ImbalanceCost",
        "buy a quantity, quadratic cost of being short or long",
        "imbalance:short=10,long=1,upper=150",
        ranges=("short", "long"),
    ),
    "schedule": _Kind(
        "ScheduleCost",
        "commit a quantity for each of several outcomes, such as hours, with a limit from one to the next",
        "schedule:short=50,long=0.5,quadratic=1,ramp=0.4",
        each=("short", "long", "quadratic", "lower", "upper"),
    ),
    "allocation": _Kind(
        "AllocationCost",
        "share out a budget among several outcomes, linear cost of too little and too much at each",
        "allocation:short=4,long=1,budget=500",
        each=("short", "long"),
    ),
    "storage": _Kind(
        "StorageCost",
        "sell ahead for several outcomes, which a battery helps to deliver; outcome: what is produced",
        "storage:price=30,short=60,long=5,power=10,energy=40",
        each=("price", "short", "long", "power", "energy"),
    ),
    "arbitrage": _Kind(
        "ArbitrageCost",
        "charge and discharge a battery against several prices, which are the outcomes",
        "arbitrage:power=10,energy=40,efficiency=0.9,quadratic=0.1",
        each=("power", "energy"),
    ),
}
_DEFAULTS: dict[str, dict[str, float]] = {
    "newsvendor": {"lower": 0.0, "upper": 1e9},  # no order exceeds the largest demand
    "imbalance": {"lower": 0.0},
    "schedule": {"lower": 0.0},
    "storage": {"efficiency": 0.9},
    "arbitrage": {"efficiency": 0.9},
}


def column_of(value: object) -> str | None:
    """The column that a parameter such as "@margin" stands in; None for any other value."""
    return value[1:] if isinstance(value, str) and value.startswith("@") and value != "@" else None


def cost_names() -> dict[str, str]:
    """The costs of the library and one line about each."""
    return {name: kind.line for name, kind in _KINDS.items()}


def require_library_name(name: str) -> None:
    """Raise unless the library has a cost of that name."""
    if name not in _KINDS:
        hint = did_you_mean(name, tuple(_KINDS))
        raise CostError(
            f"there is no cost {shown(name)}, and your own is written FILE.toml or FILE.py:function; {hint}"
        )


def takes_text(name: str, key: str) -> bool:
    """Whether a parameter of a cost of the library is text; all others are numbers."""
    return name in _KINDS and key in _KINDS[name].texts


def takes_a_number_each(name: str, key: str) -> bool:
    """Whether a parameter of a cost of the library may have a number for each outcome."""
    return name in _KINDS and key in _KINDS[name].each


def with_defaults(name: str, parameters: Mapping[str, ParameterValue]) -> dict[str, ParameterValue]:
    """The parameters, followed by those that need not be written."""
    defaults = {key: value for key, value in _DEFAULTS.get(name, {}).items() if key not in parameters}
    return {**parameters, **defaults}


def with_parameter_ranges(name: str, parameters: Mapping[str, ParameterValue]) -> dict[str, ParameterValue]:
    """The parameters, with a range in place of each text such as "1..50" that is one."""

    def read(key: str, value: ParameterValue) -> ParameterValue:
        is_range = isinstance(value, str) and ".." in value and name in _KINDS and not takes_text(name, key)
        return ParameterRange.parse(str(value)) if is_range and not column_of(value) else value

    return {key: read(key, value) for key, value in parameters.items()}


def library_cost(name: str, parameters: Mapping[str, ParameterValue]) -> "Cost":
    """The cost of that name, or one sentence about the name or parameter that is wrong or missing."""
    require_library_name(name)
    from stakes.costs.scalar_costs import PowerCurve

    kind = getattr(import_module("stakes"), _KINDS[name].class_name)
    of_cost = {field.name: field for field in fields(kind) if field.name != "power_curve"}
    of_curve = [field.name for field in fields(PowerCurve)] if name == "wind_dispatch" else []
    _require_known(name, parameters, (*of_cost, *of_curve))
    required = [key for key, field in of_cost.items() if field.default is field.default_factory is MISSING]
    if missing := [key for key in required if key not in parameters]:
        raise CostError(f"the cost {name} needs {' and '.join(missing)}, as in {_KINDS[name].example}")
    arguments: dict[str, Any] = {key: _argument(value) for key, value in parameters.items() if key in of_cost}
    curve: dict[str, Any] = {key: value for key, value in parameters.items() if key in of_curve}
    try:
        if of_curve:
            arguments["power_curve"] = PowerCurve(**curve)
        cost: Cost = kind(**arguments)
    except CostError as error:
        raise CostError(f"the cost {name}: {error}") from error
    return cost


def _argument(value: ParameterValue) -> Any:
    """What the class of a cost takes: numbers for each outcome as a tensor."""
    if not isinstance(value, tuple):
        return value
    import torch

    return torch.tensor(value, dtype=torch.float64)


def _require_range(name: str, key: str, what: str) -> None:
    if key not in _KINDS[name].ranges:
        known = ", ".join(f"{each}:{word}" for each, kind in _KINDS.items() for word in kind.ranges)
        raise CostError(f"the parameter {key} of the cost {name} cannot be {what}; those that can are {known}")


def _require_known(name: str, parameters: Mapping[str, ParameterValue], known: tuple[str, ...]) -> None:
    for key, value in parameters.items():
        if key not in known:
            hint = nearest_hint(key, (*known, *COMMON_KEYS)) or f"; its parameters are {', '.join(known)}"
            raise CostError(f"the cost {name} has no parameter {key!r}{hint}")
        if isinstance(value, tuple) and takes_a_number_each(name, key) and value:
            continue
        if isinstance(value, ParameterRange) or (column_of(value) and not takes_text(name, key)):
            if isinstance(value, ParameterRange) or not takes_a_number_each(name, key):
                _require_range(name, key, "a column" if isinstance(value, str) else "a range")
            continue
        expected = "text" if takes_text(name, key) else "a number"
        if not isinstance(value, str if expected == "text" else int | float) or isinstance(value, bool):
            raise CostError(f"the parameter {key} of the cost {name} must be {expected}, got {shown(value)}")
    sizes = {key: len(value) for key, value in parameters.items() if isinstance(value, tuple)}
    if len(set(sizes.values())) > 1:
        counts = ", ".join(f"{key} has {size}" for key, size in sizes.items())
        raise CostError(f"the cost {name} must have equally many numbers wherever each outcome has one, got: {counts}")


def without_risk(parameters: Mapping[str, ParameterValue]) -> dict[str, ParameterValue]:
    """The parameters of the cost itself."""
    return {key: value for key, value in parameters.items() if key not in RISK_KEYS}


def with_risk(name: str, cost: "Cost", parameters: Mapping[str, ParameterValue]) -> "Cost":
    """The cost as it is, or its conditional value at risk where that was written."""
    given: dict[str, Any] = {field: parameters[key] for key, field in RISK_KEYS.items() if key in parameters}
    if not given:
        return cost
    if "level" not in given:
        raise CostError(f"the cost {name} has cvar_mix without cvar_level, as in cvar_level=0.9")
    for field, value in given.items():
        if not isinstance(value, float | int):
            told = shown(value) if isinstance(value, str) else str(value)
            raise CostError(f"the parameter cvar_{field} of the cost {name} must be a number, got {told}")
    from stakes.actions.cvar import CVaRCost

    try:
        return CVaRCost(cost, **given)
    except CostError as error:
        own = str(error).startswith(tuple(given))
        raise CostError(f"the cost {name}: {'cvar_' if own else ''}{error}") from error
