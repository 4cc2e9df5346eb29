# ruff: noqa: N806 the letters are those of the scenario program
"""The matrices of a scenario program from its words, once it is known how many outcomes there are."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor

from stakes.errors import CostError
from stakes.method.linear_words import LimitRow, LinearSum, read_linear, read_rows
from stakes.method.program_quantities import Amount, Quantity
from stakes.method.programs import ScenarioProgram

__all__ = ["OUTCOME", "NamedRow", "ProgramMatrices"]

OUTCOME = "outcome"
"""The word for the outcomes."""


class NamedRow(NamedTuple):
    """Rows of a limit or a cover.

    Attributes:
        name: What it is called.
        row: The rows.
    """

    name: str
    row: LimitRow

    def places(self, outcomes: Sequence[str]) -> list[str]:
        """Where each row holds.

        Args:
            outcomes: The names of the D outcomes.
        """
        count, wide = len(self.row.expression), self.row.expression.parts.values()
        known = {len(outcomes): list(outcomes)}
        if all(not matrix.sum(-1).any() for matrix in wide):  # of two outcomes a change has one row, as their sum has
            known |= {len(outcomes) - 1: [f"{first} to {second}" for first, second in pairwise(outcomes)]}
        numbered = ["all"] if count == 1 else [str(place) for place in range(1, count + 1)]  # as of changes of changes
        return [f"{place}, {self.row.way}" if self.row.way else place for place in known.get(count, numbered)]


@dataclass(frozen=True)
class ProgramMatrices:
    """The words of a program, with as many outcomes as there are.

    Attributes:
        decide: The quantities that are decided beforehand, by name.
        recourse: The quantities that are decided once the outcomes are known, by name.
        covers: What must hold then, by name.
        limits: What must hold of `decide` alone, by name.
        numbers: Numbers that have a name.
        outcomes: D.
    """

    decide: Mapping[str, Quantity]
    recourse: Mapping[str, Quantity]
    covers: Mapping[str, str]
    limits: Mapping[str, str]
    numbers: Mapping[str, float | tuple[float, ...]]
    outcomes: int

    def program(self) -> ScenarioProgram:
        """All matrices."""
        p, p_y, squares = self._prices("decide")
        q, q_y, Q = self._prices("recourse")
        lower, upper = self.bounds()
        limits, covers = self.limit_rows(), self._cover_rows()
        self._require_use(limits, covers, bool(p_y.any() or q_y.any()))
        sizes, others = self._sizes("decide"), dict[str, Tensor]()
        if allowed := [each.row.expression for each in limits if not each.row.equation]:
            others |= {"G": _matrix(allowed, sizes), "g": -_constants(allowed)}
        if equal := [each.row.expression for each in limits if each.row.equation]:
            others |= {"E": _matrix(equal, sizes), "e": -_constants(equal)}
        asked = [each.row.expression for each in (*covers, *self._upper_rows())]
        rows = {
            "T": -_matrix(asked, sizes),
            "W": -_matrix(asked, self._sizes("recourse")),
            "h_y": _matrix(asked, {OUTCOME: self.outcomes}),
            "h": _constants(asked),
        }
        own = {"p": p, "p_y": p_y, "P": 2 * torch.diag(squares), "lower": lower, "upper": upper}
        return ScenarioProgram(**_simplest(rows | {"q": q, "q_y": q_y, "Q": 2 * Q}), **own, **others)

    def bounds(self) -> tuple[Tensor, Tensor]:
        """What each part does not fall below, and not exceed, (A,) each, infinite without such a bound."""
        each = [self._bounds_of("decide", name) for name in self.decide]
        lower, upper = (torch.cat(side) for side in zip(*each, strict=True))
        return lower, upper

    def limit_rows(self) -> list[NamedRow]:
        """The limits of what is decided beforehand."""
        rows = [NamedRow(name, row) for name, text in self.limits.items() for row in self._rows("limits", name, text)]
        for name, row in rows:
            if others := [word for word in row.expression.parts if word not in self.decide]:
                raise CostError(f"limits.{name}: it must be about what is decided, got {others[0]!r}; make it a cover")
        return rows

    def _cover_rows(self) -> list[NamedRow]:
        """The covers, an equation as two limits."""
        rows = []
        for name, text in self.covers.items():
            for row in self._rows("covers", name, text):
                both = (row.expression, row.expression.negative()) if row.equation else (row.expression,)
                rows += [NamedRow(name, LimitRow(expression)) for expression in both]
        return rows

    def _upper_rows(self) -> Iterator[NamedRow]:
        """What recourse does not exceed."""
        for name, size in self._sizes("recourse").items():
            lower, upper = self._bounds_of("recourse", name)
            if bool((lower != 0).any()):
                raise CostError(f"recourse.{name}.lower must be 0: recourse is never negative")
            if self.recourse[name].upper is not None:
                yield NamedRow(name, LimitRow(LinearSum.quantity(name, size).plus(LinearSum(-upper, {}))))

    def _rows(self, where: str, name: str, text: str) -> list[LimitRow]:
        with _naming(f"{where}.{name}"):
            rows = read_rows(text, self._names)
            if any(not row.expression.parts for row in rows):
                raise CostError(f"it must be about some quantity, got {text!r}")
            return rows

    def _prices(self, where: str) -> tuple[Tensor, Tensor, Tensor]:
        """What all quantities cost, by the outcome, and their squares: (n,), (n, D), (n,)."""
        none = torch.zeros(0, dtype=torch.float64)
        prices, by_outcome, squares = [none], [none.new_zeros(0, self.outcomes)], [none]
        for name, quantity in self._quantities(where).items():
            cost = self._amount(f"{where}.{name}.cost", quantity.cost, quantity, (OUTCOME,))
            square = self._amount(f"{where}.{name}.square", quantity.square, quantity).constant
            if bool((square < 0).any()):
                raise CostError(f"{where}.{name}.square must not be negative, got {square.min():g}")
            prices.append(cost.constant)
            by_outcome.append(cost.parts.get(OUTCOME, none.new_zeros(len(cost), self.outcomes)))
            squares.append(square)
        return torch.cat(prices), torch.cat(by_outcome), torch.cat(squares)

    def _bounds_of(self, where: str, name: str) -> tuple[Tensor, Tensor]:
        quantity = self._quantities(where)[name]
        sides = (("lower", quantity.lower, -torch.inf), ("upper", quantity.upper, torch.inf))
        lower, upper = (
            self._amount(f"{where}.{name}.{side}", none if bound is None else bound, quantity).constant
            for side, bound, none in sides
        )
        if bool((lower > upper).any()):
            raise CostError(f"{where}.{name}: lower must not lie above upper")
        return lower, upper

    def _amount(self, where: str, amount: Amount, quantity: Quantity, about: tuple[str, ...] = ()) -> LinearSum:
        """An amount of a quantity, one row for each of its parts, that depends on nothing but the words in `about`."""
        with _naming(where):
            value = read_linear(amount, self._names) if isinstance(amount, str) else LinearSum.number(amount)
            if others := [word for word in value.parts if word not in about]:
                raise CostError(f"it may be about {' and '.join(('numbers', *about))}, got {others[0]!r}")
            size = self.outcomes if quantity.each else 1
            if len(value) not in (1, size):
                raise CostError(f"there are {size} of it, and {len(value)} numbers")
            return value.mixed(torch.ones(size, 1, dtype=torch.float64)) if len(value) != size else value

    def _quantities(self, where: str) -> Mapping[str, Quantity]:
        return self.decide if where == "decide" else self.recourse

    def _sizes(self, where: str) -> dict[str, int]:
        return {name: self.outcomes if of.each else 1 for name, of in self._quantities(where).items()}

    @property
    def _names(self) -> dict[str, LinearSum]:
        each = {name: of.each for name, of in (*self.decide.items(), *self.recourse.items())} | {OUTCOME: True}
        quantities = {name: LinearSum.quantity(name, self.outcomes if own else 1, own) for name, own in each.items()}
        return quantities | {name: LinearSum.number(value) for name, value in self.numbers.items()}

    def _require_use(self, limits: Sequence[NamedRow], covers: Sequence[NamedRow], priced_by_outcome: bool) -> None:
        covered = {word for each in covers for word in each.row.expression.parts}
        used = covered | {word for each in limits for word in each.row.expression.parts}
        used |= {name for name, of in self.decide.items() if of.cost or of.square}
        for name in self.decide:
            if name not in used:
                raise CostError(f"decide.{name} has neither cost, limit nor cover: nothing says what it should be")
        for name in self.recourse:
            if name not in covered:
                raise CostError(f"recourse.{name} is in no cover: it would do nothing")
        if OUTCOME not in covered and not priced_by_outcome:
            raise CostError("the outcome is in no cover and no cost: there is nothing to decide by a forecast")


@contextmanager
def _naming(where: str) -> Iterator[None]:
    """What is wrong in this block is at this place of the program."""
    try:
        yield
    except CostError as error:
        raise CostError(f"{where}: {error}") from error


def _matrix(expressions: Sequence[LinearSum], sizes: Mapping[str, int]) -> Tensor:
    """What each quantity is multiplied with, all rows of all expressions, (rows, sum of sizes)."""
    rows = [torch.zeros(0, sum(sizes.values()), dtype=torch.float64)]
    for each in expressions:
        blocks = [each.parts.get(name, each.constant.new_zeros(len(each), size)) for name, size in sizes.items()]
        rows.append(torch.cat(blocks, 1) if blocks else each.constant.new_zeros(len(each), 0))
    return torch.cat(rows)


def _constants(expressions: Sequence[LinearSum]) -> Tensor:
    return torch.cat([torch.zeros(0, dtype=torch.float64), *(each.constant for each in expressions)])


def _simplest(rows: dict[str, Tensor]) -> dict[str, Any]:
    """The recourse with a diagonal W where each row has a part of its own; without any, one that does nothing."""
    W = rows["W"]
    if not len(W):
        blank = {name: rows[name].new_zeros(1, rows[name].shape[1]) for name in ("T", "h_y")}
        return blank | {"W": W.new_ones(1), "q": W.new_ones(1)}
    if not W.shape[1]:
        return {name: rows[name] for name in ("T", "h_y", "h")} | {"W": W.new_zeros(len(W), 1), "q": W.new_ones(1)}
    own = len(W) == W.shape[1] and bool(((W != 0).sum(0) == 1).all() and ((W > 0).sum(1) == 1).all())
    if not own:
        return rows
    order = W.argmax(1).argsort()
    return rows | {name: rows[name][order] for name in ("T", "h_y", "h")} | {"W": W[order].diagonal()}
