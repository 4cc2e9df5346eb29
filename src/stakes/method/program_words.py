"""A decision with many parts in the words of the problem: quantities with bounds and prices, limits, and recourse."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from stakes.errors import CostError, ShapeError
from stakes.method.linear_words import is_name
from stakes.method.program_matrices import OUTCOME, ProgramMatrices
from stakes.method.program_quantities import Quantity, amount_words, plain_amount
from stakes.method.programs import ScenarioProgram

__all__ = ["Program"]

_TRIED = 3  # outcomes with which words are tried where nothing says how many there are


@dataclass(frozen=True, repr=False)
class Program:
    """A decision with many parts, stated in words; it is a cost like any other.

    `decide` is decided before the outcomes are known and `recourse`, never negative, once they are, as cheaply as
    `covers` allow. Limits and covers are linear: numbers, names, + - * /, sum(x), change(x), the step from one part to
    the next, and so_far(x), the sum up to each part; between them <=, >= or =, and abs(x) may be the smaller side. The
    word `outcome` stands for the outcomes. What there is for each outcome goes part by part.

    Attributes:
        decide: The quantities that are decided beforehand, by name.
        recourse: The quantities that are decided once the outcomes are known, by name.
        covers: What must hold then, by a name of its own.
        limits: What must hold of `decide` alone, by a name of its own.
        numbers: Numbers that have a name, each one number or one for each outcome.

    >>> import torch, stakes
    >>> bakery = stakes.Program(
    ...     decide={"hours": stakes.Quantity(cost=12, upper=8)},
    ...     recourse={"missing": stakes.Quantity(cost=[3, 2])},
    ...     covers={"demand": "rate * hours + missing >= outcome"},
    ...     limits={"staff": "sum(hours) <= staff"},
    ...     numbers={"staff": 9, "rate": [10, 20]},
    ... )
    >>> bakery
    Program
      decide hours: one for each outcome, 0 to 8, at 12
      recourse missing: one for each outcome, at least 0, at 3/2
      limit staff: sum(hours) <= staff
      cover demand: rate * hours + missing >= outcome
      where staff = 9, rate = 10/20
    >>> demand = torch.tensor([[[50.0, 90.0], [70.0, 60.0]]])  # one case, two members, two products
    >>> stakes.optimal_action(bakery, demand).round(decimals=3)
    tensor([[5., 4.]])
    """

    decide: Mapping[str, Quantity]
    recourse: Mapping[str, Quantity] = field(default_factory=dict)
    covers: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[str, float | tuple[float, ...]] = field(default_factory=dict)
    _built: dict[Any, ScenarioProgram] = field(default_factory=dict, init=False, compare=False)

    def __post_init__(self) -> None:
        self._require_words()
        numbers = {name: plain_amount(f"numbers.{name}", value) for name, value in self.numbers.items()}
        if texts := [name for name, value in numbers.items() if isinstance(value, str)]:
            raise CostError(f"numbers.{texts[0]} must be a number, or one for each outcome, got {numbers[texts[0]]!r}")
        object.__setattr__(self, "numbers", numbers)
        self._matrices(self._known_outcomes() or _TRIED).program()  # which refuses what makes no program

    def __repr__(self) -> str:
        lines = ["Program"]
        lines += [f"decide {name}: {quantity}" for name, quantity in self.decide.items()]
        lines += [f"recourse {name}: {quantity}" for name, quantity in self.recourse.items()]
        lines += [f"limit {name}: {text}" for name, text in self.limits.items()]
        lines += [f"cover {name}: {text}" for name, text in self.covers.items()]
        numbers = ", ".join(f"{name} = {amount_words(value)}" for name, value in self.numbers.items())
        return "\n  ".join([*lines, f"where {numbers}"] if numbers else lines)

    def __hash__(self) -> int:
        return hash((tuple(sorted(self.decide)), tuple(sorted(self.covers.items()))))

    @property
    def lower(self) -> float:
        """The least that any part may be, minus infinity where one has no such bound."""
        return float(self._matrices(self._known_outcomes() or 1).bounds()[0].min())

    @property
    def upper(self) -> float | None:
        """The most that any part may be; None where one has no such bound."""
        most = float(self._matrices(self._known_outcomes() or 1).bounds()[1].max())
        return None if most == torch.inf else most

    def part_bounds(self, parts: int) -> tuple[Tensor, Tensor]:
        """What each part of an action does not fall below, and not exceed, (A,) each, infinite without such a bound.

        Args:
            parts: A.
        """
        each = sum(quantity.each for quantity in self.decide.values())
        return self._matrices((parts - len(self.decide) + each) // max(each, 1)).bounds()

    def __call__(self, action: Tensor, outcome: Tensor) -> Tensor:
        """The cost of each action, (...), with the best recourse; infinite where there is none.

        Args:
            action: What was decided, (..., A), the quantities in their order.
            outcome: Outcomes (..., D) that broadcast against it.
        """
        program = self.program(outcome.shape[-1], outcome.device)
        cost = program.own_cost(action, outcome) + program.recourse_cost(action, outcome)
        return cost.to(torch.promote_types(action.dtype, outcome.dtype))

    def fixed_cost(self, outcome: Tensor) -> Tensor:
        """Nothing: all of the cost is that of the program, (...).

        Args:
            outcome: Outcomes (..., D).
        """
        return torch.zeros_like(outcome[..., 0])

    def program(self, outcomes: int, device: torch.device | None = None) -> ScenarioProgram:
        """The matrices of the program.

        Args:
            outcomes: D.
            device: Where its numbers are; None for the CPU.
        """
        for where, size in self._sizes().items():
            if size != outcomes:
                raise ShapeError(f"{where} must be one number, or one for each of {outcomes} outcomes, got {size}")
        key = outcomes, torch.device(device or "cpu")
        if key not in self._built:
            with torch.inference_mode(False), torch.no_grad():  # it is kept, for training too
                self._built[key] = self._matrices(outcomes).program().to(device)
        return self._built[key]

    def part_names(self, outcomes: Sequence[str]) -> tuple[str, ...]:
        """What the parts are called: the quantity and the outcome, or the outcome where there is one quantity.

        Args:
            outcomes: The names of the D outcomes.
        """
        if len(self.decide) == 1 and next(iter(self.decide.values())).each:
            return tuple(outcomes)
        names = ([f"{name}_{each}" for each in outcomes] if of.each else [name] for name, of in self.decide.items())
        return tuple(name for several in names for name in several)

    def limit_names(self, outcomes: Sequence[str]) -> tuple[tuple[str, str], ...]:
        """For each limit its name, and where it holds.

        Args:
            outcomes: The names of the D outcomes.
        """
        rows = [each for each in self._matrices(len(outcomes)).limit_rows() if not each.row.equation]
        return tuple((each.name, place) for each in rows for place in each.places(outcomes))

    def _matrices(self, outcomes: int) -> ProgramMatrices:
        return ProgramMatrices(self.decide, self.recourse, self.covers, self.limits, self.numbers, outcomes)

    def _known_outcomes(self) -> int | None:
        """How many outcomes there must be, by the numbers for each of them; None where there are none."""
        sizes = self._sizes()
        if len(set(sizes.values())) > 1:
            counts = ", ".join(f"{where} has {size}" for where, size in sizes.items())
            raise CostError(f"numbers for each outcome must be equally many, got: {counts}")
        return next(iter(sizes.values()), None)

    def _sizes(self) -> dict[str, int]:
        """How many numbers there are for each outcome, by where they stand."""
        given: dict[str, Any] = {f"numbers.{name}": value for name, value in self.numbers.items()}
        for where, quantities in (("decide", self.decide), ("recourse", self.recourse)):
            for name, quantity in quantities.items():
                given |= {f"{where}.{name}.{key}": amount for key, amount in quantity.amounts.items()}
        return {where: len(value) for where, value in given.items() if isinstance(value, tuple)}

    def _require_words(self) -> None:
        for where in ("decide", "recourse", "covers", "limits", "numbers"):
            words = getattr(self, where)
            if not isinstance(words, Mapping) or not all(isinstance(name, str) for name in words):
                raise CostError(f"{where} must be a mapping from names to what they stand for, got {words!r}")
        if not self.decide:
            raise CostError("decide must name at least one quantity")
        seen = {OUTCOME}
        for where in ("decide", "recourse", "numbers"):
            for name in getattr(self, where):
                if not is_name(name):
                    raise CostError(
                        f"{where}.{name}: a name must be one word of letters, digits and _, and no function"
                    )
                if name in seen:
                    raise CostError(f"{where}.{name}: the name {name!r} stands for something else already")
                seen.add(name)
        for where, kind in (("decide", Quantity), ("recourse", Quantity), ("covers", str), ("limits", str)):
            for name, value in getattr(self, where).items():
                if not name.strip() or not name.isprintable():
                    raise CostError(f"{where}: a name must be printable text, got {name[:40]!r}")
                if not isinstance(value, kind):
                    raise CostError(f"{where}.{name} must be a {kind.__name__}, got {type(value).__name__}")
