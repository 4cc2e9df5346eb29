"""Costs as text, for the command line and folders: the library's costs, their keys, and plausibility checks."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from functools import lru_cache
from importlib.metadata import entry_points
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, Self, get_origin

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from stakes.actions.cvar import CVaRCost
from stakes.actions.solve import solve_action
from stakes.cost_spec.files import (
    COMMON_KEYS,
    RISK_KEYS,
    UNIT_KEYS,
    OwnCost,
    file_hash,
    program_record,
    read_program,
    recorded_program,
)
from stakes.costs.cost import (
    ActionSolution,
    Cost,
    RangedParameter,
    error_words,
    is_program,
    plain_cost_of,
    require_cost,
    vector_cost,
)
from stakes.costs.parameter_range import ParameterRange
from stakes.costs.scalar_costs import (
    CostLossCost,
    ImbalanceCost,
    NewsvendorCost,
    PowerCurve,
    PriceParameter,
    ProtectionCost,
    ShortfallCost,
    WindDispatchCost,
)
from stakes.errors import CostError, SettingError, ShapeError, StakesError, did_you_mean, nearest_hint
from stakes.programs.modelling import Program
from stakes.programs.schedules import AllocationCost, ScheduleCost
from stakes.programs.storage import ArbitrageCost, StorageCost
from stakes.settings import from_plain, shown
from stakes.text import attribute_texts, label_numbers, number_text, shortened

ParameterValue = float | str | tuple[float, ...] | ParameterRange
"""A number, text such as "@margin" for a column, one number per outcome, or a range."""


_FIRST = re.compile(r"; |\. |, (?:not negative|positive|above 0|a number or)")  # where a text turns to what is allowed


@dataclass(frozen=True)
class _Kind:
    """A cost by name: its class, one line about it, an example, and which parameters may differ between outcomes."""

    kind: type
    line: str
    example: str
    each: tuple[str, ...] = ()  # parameters that may have one number per outcome
    package: str = ""  # the other package that defines it, with its version

    @property
    def ranges(self) -> tuple[str, ...]:
        """The parameters that may be a range."""
        return tuple(field.name for field in fields(self.kind) if field.type == PriceParameter)

    @property
    def texts(self) -> tuple[str, ...]:
        """The parameters that are text."""
        said = (str, "str")
        return tuple(each.name for each in fields(self.kind) if each.type in said or get_origin(each.type) is Literal)

    @property
    def about(self) -> dict[str, str]:
        """The description of each parameter, from the docstrings of the classes."""
        known = attribute_texts(self.kind) | (attribute_texts(PowerCurve) if self.kind is WindDispatchCost else {})
        risk = attribute_texts(CVaRCost)
        known |= {key: risk[field] for key, field in RISK_KEYS.items()}
        first = {name: _FIRST.split(text)[0].removesuffix(".") for name, text in known.items()}
        return {name: f"{text[0].lower()}{text[1:]}" for name, text in first.items()}


_KINDS = {
    "shortfall": _Kind(
        ShortfallCost,
        "commit power, pay penalty x shortfall^2; outcome: power as a fraction of capacity",
        "shortfall:penalty=5",
    ),
    "wind_dispatch": _Kind(
        WindDispatchCost,
        "the same for wind speed in m/s, through a power curve",
        "wind_dispatch:penalty=5,cutoff_speed=25",
    ),
    "protection": _Kind(
        ProtectionCost,
        "protect at a level between 0 and 1 against a hazard above or below a threshold",
        "protection:threshold=0,false_alarm_ratio=0.2,hazard=below",
    ),
    "cost_loss": _Kind(
        CostLossCost,
        "protect or not against an event above or below a threshold, or bear the loss; nothing can be trained on it",
        "cost_loss:threshold=0,protection=0.2,loss=1,event=below",
    ),
    "newsvendor": _Kind(
        NewsvendorCost,
        "stock a quantity, linear cost of too little (underage) and too much (overage)",
        "newsvendor:underage=4,overage=1,upper=500",
    ),
    "imbalance": _Kind(
        ImbalanceCost,
        "buy a quantity, quadratic cost of being short or long",
        "imbalance:short=10,long=1,upper=150",
    ),
    "schedule": _Kind(
        ScheduleCost,
        "commit a quantity for each of several outcomes, such as hours, with a limit from one to the next",
        "schedule:short=50,long=0.5,quadratic=1,ramp=0.4",
        each=("short", "long", "quadratic", "lower", "upper"),
    ),
    "allocation": _Kind(
        AllocationCost,
        "share out a budget among several outcomes, linear cost of too little and too much at each",
        "allocation:short=4,long=1,budget=500",
        each=("short", "long"),
    ),
    "storage": _Kind(
        StorageCost,
        "sell ahead for several outcomes, which a battery helps to deliver; outcome: what is produced",
        "storage:price=30,short=60,long=5,power=10,energy=40",
        each=("price", "short", "long", "power", "energy"),
    ),
    "arbitrage": _Kind(
        ArbitrageCost,
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


_ENTRY_POINTS = "stakes.costs"  # of other packages: the name of a cost, and its class, a dataclass


@lru_cache(256)
def _kind(name: str) -> _Kind | None:
    """A cost of the library, or of another package that names its class in its entry points."""
    if name in _KINDS:
        return _KINDS[name]
    found = {entry.value: entry for entry in entry_points(group=_ENTRY_POINTS, name=name)}
    if not found:
        return None
    if len(found) > 1:
        raise CostError(f"the cost {name} is in several packages, {' and '.join(found)}; keep one of them")
    ((value, entry),) = found.items()
    package = "" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"
    try:
        kind = entry.load()
    except Exception as error:  # code of others may raise anything
        raise CostError(f"the cost {name} of {package} fails: {error_words(error)}") from error
    if not (isinstance(kind, type) and is_dataclass(kind)):
        raise CostError(f"the cost {name} of {package} must be a dataclass with its parameters as fields, got {value}")
    parameters = [field for field in fields(kind) if field.init]
    made = _Kind(kind, (kind.__doc__ or "").partition("\n")[0], name, package=package)
    needed = [field.name for field in parameters if field.default is field.default_factory is MISSING]
    example = ",".join(f"{key}={'word' if key in made.texts else 1}" for key in needed)
    return replace(made, example=f"{name}:{example}".rstrip(":"))


def library_name(cost: object) -> str | None:
    """What a cost of the library is called; None for any other."""
    return next((name for name, each in _KINDS.items() if each.kind is type(cost)), None)


def parameter_words(name: str) -> dict[str, str]:
    """What each parameter of a cost of that name stands for; nothing of a user's own."""
    return {} if (kind := _kind(name)) is None else kind.about


def column_of(value: object) -> str | None:
    """The column that a parameter such as "@margin" stands in; None for any other value."""
    return value[1:] if isinstance(value, str) and value.startswith("@") and value != "@" else None


def cost_names() -> dict[str, str]:
    """The costs of the library and one line about each."""
    return {name: kind.line for name, kind in _KINDS.items()}


def require_library_name(name: str) -> None:
    """Raise unless the library has a cost of that name."""
    if _kind(name) is None:
        hint = did_you_mean(name, (*_KINDS, *entry_points(group=_ENTRY_POINTS).names))
        raise CostError(f"there is no cost {shown(name)} (for your own write FILE.toml or FILE.py:function); {hint}")


def takes_text(name: str, key: str) -> bool:
    """Whether a parameter of a cost is text; all others are numbers."""
    return (kind := _kind(name)) is not None and key in kind.texts


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
        is_range = isinstance(value, str) and ".." in value and _kind(name) is not None and not takes_text(name, key)
        return ParameterRange.parse(str(value)) if is_range and not column_of(value) else value

    return {key: read(key, value) for key, value in parameters.items()}


def library_cost(name: str, parameters: Mapping[str, ParameterValue]) -> Cost:
    """The cost of that name, or one sentence about the name or parameter that is wrong or missing."""
    require_library_name(name)
    found = _kind(name)
    assert found is not None
    of_cost = {field.name: field for field in fields(found.kind) if field.init and field.name != "power_curve"}
    of_curve = [field.name for field in fields(PowerCurve)] if name == "wind_dispatch" else []
    _require_known(name, parameters, (*of_cost, *of_curve))
    required = [key for key, field in of_cost.items() if field.default is field.default_factory is MISSING]
    if missing := [key for key in required if key not in parameters]:
        raise CostError(f"the cost {name} needs {' and '.join(missing)}, as in {found.example}")
    arguments: dict[str, Any] = {key: _argument(value) for key, value in parameters.items() if key in of_cost}
    curve: dict[str, Any] = {key: value for key, value in parameters.items() if key in of_curve}
    try:
        if of_curve:
            arguments["power_curve"] = PowerCurve(**curve)
        cost: Cost = found.kind(**arguments)
        if found.package:
            require_cost(cost)
    except CostError as error:
        raise CostError(f"the cost {name}: {error}") from error
    except Exception as error:
        if not found.package:
            raise
        raise CostError(f"the cost {name} of {found.package} fails: {error_words(error)}") from error
    return cost


def _argument(value: ParameterValue) -> Any:
    """What the class of a cost takes: numbers for each outcome as a tensor."""
    if not isinstance(value, tuple):
        return value
    return torch.tensor(value, dtype=torch.float64)


def _require_range(name: str, key: str, what: str) -> None:
    if name not in _KINDS or key not in _KINDS[name].ranges:
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
        raise CostError(f"the cost {name} must have one number per outcome in every list, got: {counts}")


def without_risk(parameters: Mapping[str, ParameterValue]) -> dict[str, ParameterValue]:
    """The parameters of the cost itself."""
    return {key: value for key, value in parameters.items() if key not in RISK_KEYS}


def with_risk(name: str, cost: Cost, parameters: Mapping[str, ParameterValue]) -> Cost:
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
    try:
        return CVaRCost(cost, **given)
    except CostError as error:
        own = str(error).startswith(tuple(given))
        raise CostError(f"the cost {name}: {'cvar_' if own else ''}{error}") from error


def outcome_number_notes(
    parameters: Mapping[str, ParameterValue], program: Program | None, outcomes: Sequence[str]
) -> list[str]:
    """A line for each number that outcomes have different ones of, such as "price: h0 30, h1 35".

    >>> outcome_number_notes({"short": (50.0, 60.0), "long": 1.0}, None, ["h0", "h1"])
    ['short: h0 50, h1 60']
    """
    amounts = [*parameters.items(), *([] if program is None else _of_quantities(program))]
    return [
        f"{name}: {shortened([f'{each} {number_text(value)}' for each, value in zip(outcomes, values, strict=True)])}"
        for name, values in amounts
        if isinstance(values, tuple) and len(values) == len(outcomes) and len(set(values)) > 1
    ]


def _of_quantities(program: Program) -> Iterator[tuple[str, object]]:
    """The amounts of its quantities by name, such as "cost of plan"."""
    for quantity, what in {**program.decide, **program.recourse}.items():
        for amount, value in what.amounts.items():
            yield f"{amount} of {quantity}", value


def order_notes(cost: Cost, outcomes: Sequence[str]) -> list[str]:
    """A sentence about the order of outcomes where the cost may depend on it, and their numbers do not tell it."""
    if len(outcomes) < 2 or not depends_on_order(cost):
        return []
    numbers = label_numbers(outcomes)
    if numbers is None:
        return [f"the cost may depend on the order of outcomes, which is taken as given: {shortened(outcomes)}"]
    if all(before < after for before, after in pairwise(numbers)):
        return []
    return [
        "the cost may depend on the order of outcomes, which is taken as given, and is not that of their numbers: "
        + shortened(outcomes)
    ]


def depends_on_order(cost: Cost) -> bool:
    """Whether the action may be another one where outcomes come in another order; of a user's own code, that it may."""
    vector = vector_cost(cost)
    return vector is not None and vector.depends_on_order


Parameters = Mapping[str, ParameterValue]

_MOST_CASES, _MOST_PROGRAMS = 1000, 100  # enough to see where actions land
_ABOVE_CAPACITY = 1.5  # beyond any fraction of capacity that is measured
_STORM = 75.0  # m/s, beyond any mean wind
_COLDEST, _WARMEST, _KELVIN = -100.0, 70.0, 180.0  # degC, degC, K
_LITTLE = 0.01  # share of the range between the bounds
_LIMITS = {"schedule": ("ramp", "upper"), "allocation": ("budget",), "storage": ("power", "energy")}
_TINY = 1 / 300  # of the largest outcome: a limit in another unit, rather than a tight one
_METRES = re.compile(r"(?<![\d.])(\d{1,3})[ _]?m(?![a-z\d/])", re.IGNORECASE)  # wind_speed_100m, "speed, 80 m"
_WIND_AT = re.compile(
    r"(?:^|[\W_])(?:ws|wspd|ff|fg|si|[uv]|wind|(?:wind[_ ]?)?speed)[_ ]?(\d{2,3})(?!\w)", re.IGNORECASE
)


def plausibility_notes(
    name: str, parameters: Parameters, cost: Cost, outcomes: ArrayLike, columns: Sequence[str] = ()
) -> list[str]:
    """Sentences about what looks wrong with a cost for some outcomes; none where nothing does."""
    values = np.asarray(outcomes, dtype=np.float64)
    if values.ndim != 2:
        raise ShapeError(f"outcomes must be cases by columns, got shape {values.shape}")
    values = values[np.isfinite(values).all(1)]
    if not len(values):
        return []
    unsaid = _DEFAULTS.get(name, {}).get("upper")
    bounds_are_given = parameters.get("upper", unsaid) != unsaid or ".py:" in name
    cost = plain_cost_of(cost)
    notes = (
        [_limit_note(name, parameters, values), _program_note(name, cost, values)]
        if is_program(cost)
        else [
            _unit_note(name, parameters, values),
            _height_note(name, cost, columns),
            _bounds_note(name, cost, bounds_are_given, values),
        ]
    )
    return [note for note in notes if note]


def _unit_note(name: str, parameters: Parameters, values: NDArray[np.float64]) -> str:
    low, high = float(values.min()), float(values.max())
    seen = f"the outcomes run from {_text(low)} to {_text(high)}"
    if name == "shortfall" and not (low >= 0 and high <= _ABOVE_CAPACITY):
        return f"{seen}, which does not look like a fraction of capacity (0 to 1), as the cost shortfall expects"
    if name == "wind_dispatch" and not (low >= 0 and 1 < high <= _STORM):
        hint = "; for a fraction of capacity there is the cost shortfall" if low >= 0 and high <= 1 else ""
        return f"{seen}, which does not look like a wind speed in m/s, as the cost wind_dispatch expects{hint}"
    if name in ("protection", "cost_loss"):
        threshold = _number(parameters["threshold"])
        if low > _KELVIN and _COLDEST <= threshold <= _WARMEST:
            return f"{seen}, which looks like kelvin, while the threshold {_text(threshold)} looks like degC"
        if not low <= threshold <= high:
            return f"{seen} and never cross the threshold {_text(threshold)}: is it in the unit of the outcomes?"
    return ""


def _height_note(name: str, cost: Any, columns: Sequence[str]) -> str:
    """Where the name of a column tells another height than that at which the cost takes the wind."""
    if name != "wind_dispatch" or not cost.power_curve.shear:
        return ""
    curve = cost.power_curve
    for column in columns:
        match = _METRES.search(column) or _WIND_AT.search(column)
        if match and float(match[1]) != curve.reference_height:
            return (
                f"the name of {shown(column)} says {match[1]} m, while the cost takes the wind at "
                f"{_text(curve.reference_height)} m and raises it to the hub at {_text(curve.hub_height)} m: write "
                f"reference_height={match[1]}, or shear=0 for wind at the hub"
            )
    return ""


def _bounds_note(name: str, cost: Cost, bounds_are_given: bool, values: NDArray[np.float64]) -> str:
    """Where the best actions land: with every outcome known beforehand, and one for all without any forecast."""
    every = -(-len(values) // _MOST_CASES)
    cases = torch.from_numpy(values[::every].copy())  # (N, D)
    known = _actions(name, cost, cases[:, None])  # (N,)
    blind = float(_actions(name, cost, cases[None])[0])
    lower, upper = float(cost.lower), float(cost.upper)
    for side, bound in (("lower", lower), ("upper", upper)):
        share, at = float((known == bound).double().mean()), f"the {side} bound {_text(bound)}"
        if share == 1:
            return (
                f"even with the outcome known in advance, the best action is always {at}: there is nothing to decide, "
                "or cost and outcomes are in different units"
            )
        if blind == bound and bounds_are_given:
            return (
                f"the best action is {at} without a forecast, and in {share:.0%} of the cases even with the outcome "
                f"known in advance: is {side} in the unit of the outcomes?"
            )
    if bounds_are_given and float(known.max() - known.min()) < _LITTLE * (upper - lower):
        return (
            f"the best actions of all outcomes, {_text(known.min().item())} to "
            f"{_text(known.max().item())}, use less than "
            f"{_LITTLE:.0%} of the range from lower={lower:g} to upper={upper:g}: are the bounds in the unit of the "
            "outcomes?"
        )
    return ""


def _limit_note(name: str, parameters: Parameters, values: NDArray[np.float64]) -> str:
    """Where a limit in the unit of the outcomes is next to nothing beside them."""
    largest = float(np.abs(values).sum(1).max() if name == "allocation" else np.abs(values).max())
    for key in _LIMITS.get(name, ()):
        if key in parameters and _number(parameters[key]) < _TINY * largest:
            about = "add up to" if name == "allocation" else "reach"
            return (
                f"{key}={_text(_number(parameters[key]))} is tiny beside outcomes that {about} {_text(largest)}: is it "
                "in the unit of the outcomes?"
            )
    return ""


def _why_none(known: ActionSolution) -> str:
    """Why some decisions have no best action."""
    reasons = {"its limits contradict each other": known.infeasible, "the cost is unbounded below": known.unbounded}
    told = [reason for reason, cases in reasons.items() if cases is not None and bool(cases.any())]
    return ", or ".join(told) or "the solver hit its iteration limit"


def _program_note(name: str, cost: Cost, values: NDArray[np.float64]) -> str:
    """Whether the decision has many parts that move, or there is nothing to decide."""
    every = -(-len(values) // _MOST_PROGRAMS)
    cases = torch.from_numpy(values[::every].copy())
    known = _solved(name, cost, cases[:, None])  # with every outcome known beforehand
    if not known.converged.all():
        share = float((~known.converged).double().mean())
        return (
            f"in {share:.0%} of the cases there is no best action, even with the outcome known in "
            f"advance: {_why_none(known)}"
        )
    if values.shape[1] == 1 and name in _LIMITS:
        return (
            f"there is one outcome, but the cost {name} decides about several together: name one target per part of "
            "the decision, such as a column for each hour"
        )
    spread = known.action.amax(0) - known.action.amin(0)
    if len(cases) > 1 and values.std(0).any() and float(spread.max()) <= 1e-6 * float(known.action.abs().max()):
        return (
            "even with the outcome known in advance, the best action is always the same: there is nothing to decide, "
            "or cost and outcomes are in different units"
        )
    return ""


def _actions(name: str, cost: Cost, samples: torch.Tensor) -> torch.Tensor:
    return _solved(name, cost, samples).action[..., 0]


def _solved(name: str, cost: Cost, samples: torch.Tensor) -> ActionSolution:
    try:
        return solve_action(cost, samples)
    except ShapeError as error:  # of numbers for each outcome, and how many these are
        raise CostError(f"the cost {name}: {error}") from error
    except StakesError:
        raise
    except Exception as error:  # a user's own function may raise anything
        raise CostError(f"the cost {name} fails for the outcomes of the table: {error_words(error)}") from error


def _number(value: ParameterValue) -> float:
    """A parameter as one number, the largest where each outcome has its own."""
    return max(value) if isinstance(value, tuple) else float(value)


def _text(value: float) -> str:
    return number_text(value, digits=6)


_PROGRAM = re.compile(r"(?P<reference>.+\.toml)\s*(?::(?P<keys>.*))?", re.DOTALL)
_OWN = re.compile(r"(?P<reference>.+\.py:(?P<function>[^:]*))(?::(?P<keys>.*))?", re.DOTALL)


@dataclass(frozen=True)
class CostSpec:
    """A cost by name, or a user's own by reference, "FILE.py:function" or "FILE.toml", with its parameters and units.

    >>> spec = CostSpec.parse("imbalance:short=10,long=1,upper=150,unit=EUR")
    >>> spec.build()
    ImbalanceCost(short=10.0, long=1.0, lower=0.0, upper=150.0)
    >>> str(spec)
    'imbalance:short=10,long=1,upper=150,lower=0,unit=EUR'
    """

    name: str  # the name of a cost of the library, "FILE.py:function", or "FILE.toml"
    parameters: Mapping[str, ParameterValue]
    unit: str = ""  # the unit of the cost, such as "EUR", for texts and figures
    action_unit: str = ""  # the unit of the action, such as "GW", likewise
    sha256: str = ""  # the SHA-256 of a user's file, by default computed; empty for a cost of the library
    recorded: bool = False
    program: Any = None  # whose class comes with torch
    package: str = ""  # the other package that a cost by name is of, with its version

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "parameters", with_parameter_ranges(self.name, with_defaults(self.name, self.parameters))
        )
        if self.is_program:
            if self.program is not None or not self.recorded:  # else `from_record` adds it
                self._complete_program()
        elif not self.is_own:
            package = "" if (kind := _kind(self.name)) is None else kind.package
            if self.recorded and self.package and self.package != package:
                raise CostError(f"the cost {self.name} is of {self.package}, got {package or 'no such package'}")
            object.__setattr__(self, "package", package)
            self.level_prices.build()  # which refuses what makes no cost
        elif not (self.sha256 or self.recorded):
            object.__setattr__(self, "sha256", file_hash(self.path))

    @classmethod
    def parse(cls, text: str) -> Self:
        """The spec that a text describes."""
        text = text.strip()
        if text.lower().endswith(".py"):
            raise CostError(f"the cost {text!r} must name a function of the file too, as in {text}:my_cost")
        own = _OWN.fullmatch(text)
        if program := _PROGRAM.fullmatch(text):
            name, keys = program["reference"], program["keys"]
        elif own:
            if not own["function"].strip().isidentifier():
                raise CostError(f"the cost {text!r} must name a function of the file, got {own['function']!r}")
            name, keys = own["reference"].strip(), own["keys"]
        else:
            name, _, keys = (part.strip() for part in text.partition(":"))
            require_library_name(name)
        texts = _key_values(name, keys or "")
        unit, action_unit = (texts.pop(key, "") for key in UNIT_KEYS)
        is_own = own is not None
        return cls(name, {key: _value(name, key, word, is_own) for key, word in texts.items()}, unit, action_unit)

    @classmethod
    def given(cls, cost: "str | CostSpec") -> "CostSpec":
        """The spec that is given, in words or as it is."""
        return cls.parse(cost) if isinstance(cost, str) else cost

    @property
    def is_program(self) -> bool:
        """Whether the cost is a program of one's own."""
        return self.name.endswith(".toml")

    @property
    def is_own(self) -> bool:
        """Whether the cost is code from a user's file."""
        return ".py:" in self.name

    @property
    def path(self) -> Path:
        """The user's file."""
        return Path(self.name if self.is_program else self.name.rpartition(":")[0])

    @property
    def function(self) -> str:
        """What the user's file calls the cost."""
        return self.name.rpartition(":")[2]

    def __str__(self) -> str:
        words = {**self.parameters, **{key: getattr(self, key) for key in UNIT_KEYS if getattr(self, key)}}
        keys = ",".join(f"{key}={_shortest(value)}" for key, value in words.items())
        return f"{self.name}:{keys}" if keys else self.name

    def build(self) -> Cost:
        """The cost itself; for a user's own this executes the file that was named."""
        if self.columns:
            raise CostError(
                f"the parameter {next(iter(self.columns))} of the cost {self.name} is a column, which only rows of a "
                f"table have (fit with --lead, recalibrate, --members): give a number, got {self}"
            )
        if not self.is_own:
            return with_risk(self.name, self._plain_cost(), self.parameters)
        if self.recorded:
            raise CostError(
                f"the cost {self.name!r} is a user's own and only its name was kept; give the file again, as in "
                f"--cost PATH/{self}"
            )
        return OwnCost(self)

    def _plain_cost(self) -> Cost:
        """A cost of the library, or a program, without any aversion to risk."""
        parameters = without_risk(self.parameters)
        if not self.is_program:
            return library_cost(self.name, parameters)
        built: Cost = replace(self.program, numbers=parameters)
        return built

    @property
    def ranged(self) -> RangedParameter | None:
        """The parameter that is a range; None where none is."""
        ranges = {key: value for key, value in self.parameters.items() if isinstance(value, ParameterRange)}
        return next((RangedParameter(key, value) for key, value in ranges.items()), None)

    @property
    def columns(self) -> dict[str, str]:
        """The parameters that each row has in a column of its table, and these columns."""
        values = {} if self.is_own or self.is_program else self.parameters
        return {key: column for key, value in values.items() if (column := column_of(value))}

    def of_rows(self, values: Mapping[str, ParameterValue]) -> "CostSpec":
        """The cost with other values for some parameters, such as the number of one row for a column."""
        return replace(self, parameters={**self.parameters, **values}) if values else self

    @property
    def price_columns(self) -> tuple[str, ...]:
        """The columns with parameters, each once."""
        return tuple(sorted(set(self.columns.values())))

    @property
    def level_prices(self) -> "CostSpec":
        """The cost with 1 in place of every column, for all that depends on its kind alone."""
        return self.of_rows(dict.fromkeys(self.columns, 1.0))

    def of_cases(self, values: Mapping[str, torch.Tensor]) -> Cost:
        """The cost of some rows, with a value (N,) of each for every parameter that is a column."""
        cost: Any = self.level_prices.build()
        if not values:
            return cost
        if plain_cost_of(cost) is not cost:
            raise CostError(f"the cost {self.name} cannot have both columns and risk aversion (cvar_level), got {self}")
        try:
            return replace(cost, **values)
        except StakesError as error:
            columns = ", ".join(f"{key} is the column {column!r}" for key, column in self.columns.items())
            error.args = (f"{error} ({columns})",)
            raise

    def at(self, value: float | None = None) -> "CostSpec":
        """The cost of one of the decision makers in its range; itself where there is none."""
        if (ranged := self.ranged) is None:
            return self
        number = ranged.range.middle if value is None else value
        return replace(self, parameters={**self.parameters, ranged.name: number})

    @property
    def assumptions(self) -> list[str]:
        """Sentences about what was not given, and could as well be meant the other way."""
        if self.name != "protection" or "hazard" in self.parameters:
            return []
        threshold = _shortest(self.parameters["threshold"])
        return [
            f"the hazard is taken to lie above the threshold {threshold}, so that higher outcomes need more "
            "protection; write hazard=below for a hazard such as frost, or hazard=above to confirm"
        ]

    def doubts(self, outcomes: ArrayLike, columns: Sequence[str] = ()) -> list[str]:
        """The assumptions, and what looks wrong with this cost for some outcomes, such as another unit."""
        one = self.at().level_prices
        cost = one.build()
        notes = plausibility_notes(self.name, one.parameters, cost, outcomes, columns)
        return [*self.assumptions, *notes, *self.outcome_notes(cost, columns)]

    def outcome_notes(self, cost: Cost, columns: Sequence[str]) -> list[str]:
        """Which number goes to which outcome, and sentences about their order where the cost depends on it."""
        return [*outcome_number_notes(self.parameters, self.program, columns), *order_notes(cost, columns)]

    def _complete_program(self) -> None:
        """The program itself, its units where no others are given, and all its numbers, of which some are given."""
        if self.program is None:
            read = read_program(self.path)
            object.__setattr__(self, "program", read.program)
            for key in UNIT_KEYS:
                object.__setattr__(self, key, getattr(self, key) or getattr(read, key))
        numbers = self.program.numbers
        if others := [key for key in without_risk(self.parameters) if key not in numbers]:
            all_numbers = f"; {did_you_mean(others[0], tuple(numbers)) if numbers else 'it has none'}"
            hint = nearest_hint(others[0], (*numbers, *COMMON_KEYS)) or all_numbers
            raise CostError(f"the program {self.path.name!r} has no number {others[0]!r}{hint}")
        object.__setattr__(self, "parameters", {**numbers, **self.parameters})
        self.build()  # which refuses what makes no program

    def record(self) -> dict[str, Any]:
        """What JSON can hold; of a user's file its name and SHA-256, never where it lies; of a program its words."""
        name = f"{self.path.name}:{self.function}" if self.is_own else self.path.name if self.is_program else self.name
        units = {key: getattr(self, key) for key in UNIT_KEYS}
        own: dict[str, Any] = {"sha256": self.sha256} if self.is_own else {}
        if self.package:
            own["package"] = self.package
        if self.is_program:
            own["program"] = program_record(replace(self.program, numbers=without_risk(self.parameters)))
        plain = {key: _plain(value) for key, value in self.parameters.items()}
        return {"name": name, "parameters": plain, **units, **own}

    def kept(self) -> "CostSpec":
        """The spec as a record has it: of a user's own cost no place of its file."""
        return CostSpec.from_record(self.record())

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "CostSpec":
        """The spec of a record; a user's own code is known by name alone, and `build` refuses it."""
        words = {**record, "recorded": True}
        program = words.pop("program", None)
        spec = from_plain(CostSpec, words, "cost")
        if spec.is_program:
            return replace(spec, program=recorded_program(program, "cost.program"))
        if program is not None:
            raise CostError(f"cost.program is for programs only, got it with the cost {shown(spec.name)}")
        if spec.is_own and not re.fullmatch("[0-9a-f]{64}", spec.sha256):
            raise CostError(f"cost.sha256 must be 64 hexadecimal digits, got {shown(spec.sha256)}")
        return spec


def _key_values(name: str, text: str) -> dict[str, str]:
    """What "a=1,b=2" says, by key."""
    values: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, sign, value = (word.strip() for word in part.partition("="))
        if not sign or not key or not value:
            hint = "; use a decimal point" if re.fullmatch(r"\d+", part) else ""
            raise CostError(f"the cost {name} takes key=value pairs, separated by commas, got {part!r}{hint}")
        if key in values:
            raise CostError(f"the cost {name} got the parameter {key!r} twice")
        values[key] = value
    return values


def _value(name: str, key: str, word: str, own: bool) -> ParameterValue:
    """A number, or several where each outcome may have one; or text, where it is expected and in a user's own cost."""
    if takes_text(name, key) or (own and key not in ("lower", "upper") and not _is_number(word)):
        return word
    if (".." in word or word.startswith("@")) and not own and not name.endswith(".toml"):
        return word  # a range or a column, which the spec reads
    words = word.split("/") if _may_be_each(name, key) else [word]
    numbers = tuple(_key_number(name, key, each.strip(), word) for each in words)
    return numbers if len(numbers) > 1 else numbers[0]


def _key_number(name: str, key: str, text: str, word: str) -> float:
    if not _is_number(text):
        each = ", or one per outcome as in 1/2/3" if _may_be_each(name, key) else ""
        may_be_column = name in _KINDS and key in (*_KINDS[name].ranges, *_KINDS[name].each)
        hint = f"; if it is a column, write {key}=@{word}" if may_be_column and word[0].isalpha() else ""
        raise CostError(f"the parameter {key} of the cost {name} must be a number{each}, got {word!r}{hint}")
    if not math.isfinite(number := float(text)):
        raise CostError(f"the parameter {key} of the cost {name} must be finite, got {word!r}")
    return number


def _may_be_each(name: str, key: str) -> bool:
    return name.endswith(".toml") or takes_a_number_each(name, key)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _shortest(value: ParameterValue) -> str:
    if isinstance(value, tuple):
        return "/".join(map(_shortest, value))
    return str(value) if isinstance(value, str | ParameterRange) else repr(value).removesuffix(".0")


def _plain(value: ParameterValue) -> Any:
    """What JSON can hold."""
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, ParameterRange) else value


def cost_again(kept: CostSpec, given: str | None) -> CostSpec:
    """The cost on record; a user's own must be given again and be the same, and none may take its place."""
    if given is None:
        kept.level_prices.build()  # which refuses a user's own, and says how it is given
        return kept
    spec = CostSpec.parse(given)
    spec = replace(spec, unit=spec.unit or kept.unit, action_unit=spec.action_unit or kept.action_unit)
    now, before = spec.record(), kept.record()
    if now == before:
        return spec
    if now | {"sha256": ""} == before | {"sha256": ""}:
        raise SettingError(f"the file of the cost {kept.name!r} has changed since the fit: its SHA-256 is another")
    example = f"PATH/{kept}" if kept.is_own else str(kept)
    raise SettingError(f"the cost must be that of the fit, as in --cost {example}, got {given!r}")
