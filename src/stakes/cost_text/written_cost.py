"""A cost as words: what the command line takes, and what a bundle and a report carry.

NAME:key=value,...                a cost of the library, such as imbalance:short=10,long=1,upper=150,unit=EUR
FILE.py:function[:key=value,...]  a user's own: f(action, outcome) with the keys lower and upper, a cost object, or
                                  a class or factory that takes the keys and returns a cost
"""

import math
import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from stakes.errors import CostError, did_you_mean
from stakes.settings import from_plain, shown

if TYPE_CHECKING:  # torch comes with the first cost, not with --help
    from numpy.typing import ArrayLike

    from stakes.method.costs import Cost

__all__ = ["CostSpec", "cost_names"]


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
_TEXTS = ("hazard",)
_UNITS = ("unit", "action_unit")
_OWN = re.compile(r"(?P<reference>.+\.py:(?P<function>[^:]*))(?::(?P<keys>.*))?", re.DOTALL)
_BARE = re.compile(r"(?P<name>[^:]*)(?::(?P<keys>.*))?", re.DOTALL)


def cost_names() -> dict[str, str]:
    """The costs of the library and one line about each."""
    return {name: kind.line for name, kind in _KINDS.items()}


@dataclass(frozen=True)
class CostSpec:
    """A cost by name, or a user's own by reference "FILE.py:function", with its parameters and units.

    >>> spec = CostSpec.parse("imbalance:short=10,long=1,upper=150,unit=EUR")
    >>> spec.build()
    ImbalanceCost(short=10.0, long=1.0, lower=0.0, upper=150.0)
    >>> str(spec)
    'imbalance:short=10,long=1,upper=150,lower=0,unit=EUR'

    `sha256` is that of a user's file; `recorded` says that the spec comes from a record, where that file is but a
    reference: it is not looked for and not executed.
    """

    name: str
    parameters: Mapping[str, float | str]
    unit: str = ""
    action_unit: str = ""
    sha256: str = ""
    recorded: bool = False

    def __post_init__(self) -> None:
        defaults = {key: value for key, value in _DEFAULTS.get(self.name, {}).items() if key not in self.parameters}
        object.__setattr__(self, "parameters", {**self.parameters, **defaults})
        if not self.is_own:
            _require_name(self.name)
            self._library_cost()
        elif not (self.sha256 or self.recorded):
            from stakes.cost_text.own_cost_file import file_hash

            object.__setattr__(self, "sha256", file_hash(self.path))

    @classmethod
    def parse(cls, text: str) -> Self:
        """The spec that the text describes; the module says how it is written."""
        text = text.strip()
        if text.lower().endswith(".py"):
            raise CostError(f"the cost {text!r} must name a function of the file too, as in {text}:my_cost")
        if own := _OWN.fullmatch(text):
            if not own["function"].strip().isidentifier():
                raise CostError(f"the cost {text!r} must name a function of the file, got {own['function']!r}")
            name, keys = own["reference"].strip(), own["keys"]
        else:
            found = _BARE.fullmatch(text)
            name, keys = (found["name"].strip(), found["keys"]) if found else (text, None)
            _require_name(name)
        texts = _key_values(name, keys or "")
        unit, action_unit = (texts.pop(key, "") for key in _UNITS)
        is_own = own is not None
        return cls(name, {key: _value(name, key, word, is_own) for key, word in texts.items()}, unit, action_unit)

    @property
    def is_own(self) -> bool:
        """Whether the cost is from a user's file."""
        return ".py:" in self.name

    @property
    def path(self) -> Path:
        """The user's file."""
        return Path(self.name.rpartition(":")[0])

    @property
    def function(self) -> str:
        """What the user's file calls the cost."""
        return self.name.rpartition(":")[2]

    def __str__(self) -> str:
        words = {**self.parameters, **{key: getattr(self, key) for key in _UNITS if getattr(self, key)}}
        keys = ",".join(f"{key}={_shortest(value)}" for key, value in words.items())
        return f"{self.name}:{keys}" if keys else self.name

    def build(self) -> "Cost":
        """The cost itself; for a user's own this executes the file that was named."""
        if not self.is_own:
            return self._library_cost()
        if self.recorded:
            raise CostError(
                f"the cost {self.name!r} is a user's own and only its name was kept; give the file again, as in "
                f"--cost PATH/{self}"
            )
        from stakes.cost_text.own_cost_file import OwnCost

        return OwnCost(self)

    def doubts(self, outcomes: "ArrayLike") -> list[str]:
        """Sentences about what looks wrong with this cost for outcomes (N, D), such as another unit."""
        from stakes.cost_text.plausibility import doubts

        return doubts(self, outcomes)

    def record(self) -> dict[str, Any]:
        """What JSON can hold; of a user's file its name and SHA-256, never where it lies."""
        name = f"{self.path.name}:{self.function}" if self.is_own else self.name
        units = {key: getattr(self, key) for key in _UNITS}
        own = {"sha256": self.sha256} if self.is_own else {}
        return {"name": name, "parameters": dict(self.parameters), **units, **own}

    def kept(self) -> "CostSpec":
        """The spec as a record has it: of a user's own cost no place of its file."""
        return CostSpec.from_record(self.record())

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "CostSpec":
        """The spec of a record; a user's own cost is known by name alone, and `build` refuses it."""
        spec = from_plain(CostSpec, {**record, "recorded": True}, "cost")
        if spec.is_own and not re.fullmatch("[0-9a-f]{64}", spec.sha256):
            raise CostError(f"cost.sha256 must be 64 hexadecimal digits, got {shown(spec.sha256)}")
        return spec

    def _library_cost(self) -> "Cost":
        costs = import_module("stakes.method.costs")
        kind = getattr(costs, _KINDS[self.name].class_name)
        of_cost = {field.name: field for field in fields(kind) if field.name != "power_curve"}
        of_curve = [field.name for field in fields(costs.PowerCurve)] if self.name == "wind_dispatch" else []
        known = (*of_cost, *of_curve)
        for key, value in self.parameters.items():
            if key not in known:
                raise CostError(f"the cost {self.name} has no parameter {key!r}; its parameters are {', '.join(known)}")
            _require_kind(self.name, key, value)
        required = [key for key, field in of_cost.items() if field.default is field.default_factory is MISSING]
        if missing := [key for key in required if key not in self.parameters]:
            example = _KINDS[self.name].example
            raise CostError(f"the cost {self.name} needs {' and '.join(missing)}, as in {example}")
        arguments = {key: value for key, value in self.parameters.items() if key in of_cost}
        curve = {key: value for key, value in self.parameters.items() if key in of_curve}
        try:
            cost: Cost = kind(**arguments, power_curve=costs.PowerCurve(**curve)) if of_curve else kind(**arguments)
        except CostError as error:
            raise CostError(f"the cost {self.name}: {error}") from error
        return cost


def _require_name(name: str) -> None:
    if name not in _KINDS:
        hint = did_you_mean(name, tuple(_KINDS))
        raise CostError(f"there is no cost {shown(name)}, and your own is written FILE.py:function; {hint}")


def _key_values(name: str, text: str) -> dict[str, str]:
    """What "a=1,b=2" says, by key."""
    found: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, sign, value = (word.strip() for word in part.partition("="))
        if not sign or not key or not value:
            hint = "; decimals are written with a point" if re.fullmatch(r"\d+", part) else ""
            raise CostError(f"the cost {name} must be followed by key=value, separated by commas, got {part!r}{hint}")
        if key in found:
            raise CostError(f"the cost {name} has the parameter {key!r} twice")
        found[key] = value
    return found


def _value(name: str, key: str, word: str, own: bool) -> float | str:
    """A number, or text where the library expects it or a user's own cost may."""
    if key in _TEXTS:
        return word
    try:
        number = float(word)
    except ValueError:
        if own and key not in ("lower", "upper"):
            return word
        raise CostError(f"the parameter {key} of the cost {name} must be a number, got {word!r}") from None
    if not math.isfinite(number):
        raise CostError(f"the parameter {key} of the cost {name} must be finite, got {word!r}")
    return number


def _require_kind(name: str, key: str, value: float | str) -> None:
    expected = "text" if key in _TEXTS else "a number"
    if isinstance(value, bool) or isinstance(value, str) != (expected == "text"):
        raise CostError(f"the parameter {key} of the cost {name} must be {expected}, got {shown(value)}")


def _shortest(value: float | str) -> str:
    return value if isinstance(value, str) else repr(value).removesuffix(".0")
