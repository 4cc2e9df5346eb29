"""A cost as words: what the command line takes, and what a bundle and a report carry.

NAME:key=value,...                a cost of the library, such as imbalance:short=10,long=1,upper=150,unit=EUR
FILE.py:function[:key=value,...]  a user's own: f(action, outcome) with the keys lower and upper, a cost object, or
                                  a class or factory that takes the keys and returns a cost
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from stakes.cost_text.library_costs import TEXT_PARAMETERS, library_cost, require_library_name, with_defaults
from stakes.errors import CostError
from stakes.settings import from_plain, shown

if TYPE_CHECKING:  # torch comes with the first cost, not with --help
    from numpy.typing import ArrayLike

    from stakes.method.costs import Cost

__all__ = ["CostSpec"]

_UNITS = ("unit", "action_unit")
_OWN = re.compile(r"(?P<reference>.+\.py:(?P<function>[^:]*))(?::(?P<keys>.*))?", re.DOTALL)


@dataclass(frozen=True)
class CostSpec:
    """A cost by name, or a user's own by reference "FILE.py:function", with its parameters and units.

    >>> spec = CostSpec.parse("imbalance:short=10,long=1,upper=150,unit=EUR")
    >>> spec.build()
    ImbalanceCost(short=10.0, long=1.0, lower=0.0, upper=150.0)
    >>> str(spec)
    'imbalance:short=10,long=1,upper=150,lower=0,unit=EUR'

    Attributes:
        name: The name of a cost of the library, or "FILE.py:function".
        parameters: Its parameters by name, numbers or texts; those that need not be written are added.
        unit: The unit of the cost, such as "EUR", for texts and figures.
        action_unit: The unit of the action, such as "GW", likewise.
        sha256: The SHA-256 of a user's file, by default computed; empty for a cost of the library.
        recorded: Whether the spec comes from a record, which has only the name of a user's file: the file is not looked
            for and not executed.
    """

    name: str
    parameters: Mapping[str, float | str]
    unit: str = ""
    action_unit: str = ""
    sha256: str = ""
    recorded: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", with_defaults(self.name, self.parameters))
        if not self.is_own:
            library_cost(self.name, self.parameters)  # which refuses what makes no cost
        elif not (self.sha256 or self.recorded):
            from stakes.cost_text.own_cost_file import file_hash

            object.__setattr__(self, "sha256", file_hash(self.path))

    @classmethod
    def parse(cls, text: str) -> Self:
        """The spec that a text describes.

        Args:
            text: NAME:key=value,... or FILE.py:function[:key=value,...]; the keys unit and action_unit are its units.
        """
        text = text.strip()
        if text.lower().endswith(".py"):
            raise CostError(f"the cost {text!r} must name a function of the file too, as in {text}:my_cost")
        if own := _OWN.fullmatch(text):
            if not own["function"].strip().isidentifier():
                raise CostError(f"the cost {text!r} must name a function of the file, got {own['function']!r}")
            name, keys = own["reference"].strip(), own["keys"]
        else:
            name, _, keys = (part.strip() for part in text.partition(":"))
            require_library_name(name)
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
            return library_cost(self.name, self.parameters)
        if self.recorded:
            raise CostError(
                f"the cost {self.name!r} is a user's own and only its name was kept; give the file again, as in "
                f"--cost PATH/{self}"
            )
        from stakes.cost_text.own_cost_file import OwnCost

        return OwnCost(self)

    @property
    def assumptions(self) -> list[str]:
        """Sentences about what was not given, and could as well be meant the other way."""
        if self.name != "protection" or "hazard" in self.parameters:
            return []
        threshold = _shortest(self.parameters["threshold"])
        return [
            f"the hazard is taken to lie above the threshold {threshold}: the higher the outcome, the more protection; "
            "write hazard=below if it lies below, as frost does, and hazard=above to say that this is meant"
        ]

    def doubts(self, outcomes: "ArrayLike", columns: Sequence[str] = ()) -> list[str]:
        """The assumptions, and sentences about what looks wrong with this cost for some outcomes, such as another unit.

        Args:
            outcomes: Outcomes (N, D); rows with a missing value are passed over.
            columns: The names of the D outcomes; none where they are not known.
        """
        from stakes.cost_text.plausibility import plausibility_notes

        return [*self.assumptions, *plausibility_notes(self.name, self.parameters, self.build(), outcomes, columns)]

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
        """The spec of a record; a user's own cost is known by name alone, and `build` refuses it.

        Args:
            record: What `record` gave.
        """
        spec = from_plain(CostSpec, {**record, "recorded": True}, "cost")
        if spec.is_own and not re.fullmatch("[0-9a-f]{64}", spec.sha256):
            raise CostError(f"cost.sha256 must be 64 hexadecimal digits, got {shown(spec.sha256)}")
        return spec


def _key_values(name: str, text: str) -> dict[str, str]:
    """What "a=1,b=2" says, by key."""
    values: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, sign, value = (word.strip() for word in part.partition("="))
        if not sign or not key or not value:
            hint = "; decimals are written with a point" if re.fullmatch(r"\d+", part) else ""
            raise CostError(f"the cost {name} must be followed by key=value, separated by commas, got {part!r}{hint}")
        if key in values:
            raise CostError(f"the cost {name} has the parameter {key!r} twice")
        values[key] = value
    return values


def _value(name: str, key: str, word: str, own: bool) -> float | str:
    """A number, or text where the library expects it or a user's own cost may."""
    if key in TEXT_PARAMETERS:
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


def _shortest(value: float | str) -> str:
    return value if isinstance(value, str) else repr(value).removesuffix(".0")
