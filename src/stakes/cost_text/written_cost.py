"""A cost as words: what the command line takes, and what a bundle and a report carry.

NAME:key=value,...                a cost of the library, such as imbalance:short=10,long=1,upper=150,unit=EUR; a value
                                  for each outcome, where that may be, is price=30/35/50; cvar_level=0.9 is averse
                                  to risk; penalty=1..50 is for all decision makers in that range
FILE.py:function[:key=value,...]  a user's own: f(action, outcome) with the keys lower and upper, and parts for an
                                  action with many, a cost object, or a class or factory that takes the keys and
                                  returns a cost
FILE.toml[:key=value,...]         a program of one's own (`stakes.Program`), with other values for its numbers
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from stakes.cost_text.common_keys import COMMON_KEYS, UNIT_KEYS
from stakes.cost_text.library_costs import (
    ParameterValue,
    library_cost,
    require_library_name,
    takes_a_number_each,
    takes_text,
    with_defaults,
    with_parameter_ranges,
)
from stakes.cost_text.risk_words import with_risk, without_risk
from stakes.errors import CostError, did_you_mean, nearest_hint
from stakes.method.parameter_range import ParameterRange, RangedParameter
from stakes.settings import from_plain, shown

if TYPE_CHECKING:  # torch comes with the first cost, not with --help
    from numpy.typing import ArrayLike

    from stakes.method.costs import Cost

__all__ = ["CostSpec"]

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

    Attributes:
        name: The name of a cost of the library, "FILE.py:function", or "FILE.toml".
        parameters: Its parameters by name, numbers, texts, a number for each outcome, or a range; those that need not
            be written are added.
        unit: The unit of the cost, such as "EUR", for texts and figures.
        action_unit: The unit of the action, such as "GW", likewise.
        sha256: The SHA-256 of a user's file, by default computed; empty for a cost of the library.
        recorded: Whether the spec comes from a record, which has only the name of a user's file: the file is not looked
            for and not executed.
        program: The `stakes.Program` of a FILE.toml, by default read from it; None for any other cost. Its numbers are
            the parameters.
    """

    name: str
    parameters: Mapping[str, ParameterValue]
    unit: str = ""
    action_unit: str = ""
    sha256: str = ""
    recorded: bool = False
    program: Any = None  # whose class comes with torch

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "parameters", with_parameter_ranges(self.name, with_defaults(self.name, self.parameters))
        )
        if self.is_program:
            if self.program is not None or not self.recorded:  # else `from_record` adds it
                self._complete_program()
        elif not self.is_own:
            self.build()  # which refuses what makes no cost
        elif not (self.sha256 or self.recorded):
            from stakes.cost_text.own_cost_file import file_hash

            object.__setattr__(self, "sha256", file_hash(self.path))

    @classmethod
    def parse(cls, text: str) -> Self:
        """The spec that a text describes.

        Args:
            text: NAME:key=value,..., FILE.py:function[:key=value,...] or FILE.toml[:key=value,...]; the keys unit and
                action_unit are its units.
        """
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
        """The spec that is given, in words or as it is.

        Args:
            cost: What `parse` takes, or a spec.
        """
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

    def build(self) -> "Cost":
        """The cost itself; for a user's own this executes the file that was named."""
        if not self.is_own:
            return with_risk(self.name, self._plain_cost(), self.parameters)
        if self.recorded:
            raise CostError(
                f"the cost {self.name!r} is a user's own and only its name was kept; give the file again, as in "
                f"--cost PATH/{self}"
            )
        from stakes.cost_text.own_cost_file import OwnCost

        return OwnCost(self)

    def _plain_cost(self) -> "Cost":
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

    def at(self, value: float | None = None) -> "CostSpec":
        """The cost of one of the decision makers in its range; itself where there is none.

        Args:
            value: The value of the parameter; None for the middle of the range.
        """
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

        one = self.at()
        cost = one.build()
        notes = plausibility_notes(self.name, one.parameters, cost, outcomes, columns)
        return [*self.assumptions, *notes, *self.outcome_notes(cost, columns)]

    def outcome_notes(self, cost: "Cost", columns: Sequence[str]) -> list[str]:
        """Which number goes to which outcome, and sentences about the order of outcomes where the cost depends on it.

        Args:
            cost: What the spec builds.
            columns: The names of the outcomes, in their order; none where they are not known.
        """
        from stakes.cost_text.outcome_numbers import outcome_number_notes
        from stakes.cost_text.outcome_order import order_notes

        return [*outcome_number_notes(self.parameters, self.program, columns), *order_notes(cost, columns)]

    def _complete_program(self) -> None:
        """The program itself, its units where no others are given, and all its numbers, of which some are given."""
        from stakes.cost_text.program_file import read_program

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
        if self.is_program:
            from stakes.cost_text.program_file import program_record

            own["program"] = program_record(replace(self.program, numbers=without_risk(self.parameters)))
        plain = {key: _plain(value) for key, value in self.parameters.items()}
        return {"name": name, "parameters": plain, **units, **own}

    def kept(self) -> "CostSpec":
        """The spec as a record has it: of a user's own cost no place of its file."""
        return CostSpec.from_record(self.record())

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "CostSpec":
        """The spec of a record; a user's own code is known by name alone, and `build` refuses it.

        Args:
            record: What `record` gave.
        """
        words = {**record, "recorded": True}
        program = words.pop("program", None)
        spec = from_plain(CostSpec, words, "cost")
        if spec.is_program:
            from stakes.cost_text.program_file import recorded_program

            return replace(spec, program=recorded_program(program, "cost.program"))
        if program is not None:
            raise CostError(f"cost.program belongs to a program, got the cost {shown(spec.name)} with it")
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


def _value(name: str, key: str, word: str, own: bool) -> ParameterValue:
    """A number, or several where each outcome may have one; or text, where it is expected and in a user's own cost."""
    if takes_text(name, key) or (own and key not in ("lower", "upper") and not _is_number(word)):
        return word
    if ".." in word and not own and not name.endswith(".toml"):
        return word  # a range, which the spec reads
    words = word.split("/") if _may_be_each(name, key) else [word]
    numbers = tuple(_number(name, key, each.strip(), word) for each in words)
    return numbers if len(numbers) > 1 else numbers[0]


def _number(name: str, key: str, text: str, word: str) -> float:
    if not _is_number(text):
        each = ", or numbers for each outcome as in 1/2/3" if _may_be_each(name, key) else ""
        raise CostError(f"the parameter {key} of the cost {name} must be a number{each}, got {word!r}")
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
