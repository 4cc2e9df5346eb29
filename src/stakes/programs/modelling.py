"""The modelling language: quantities with bounds and prices, constraints as text, recourse; and their matrices."""

import ast
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from numbers import Real
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from stakes.errors import CostError, ShapeError, did_you_mean
from stakes.programs.scenario_program import ProgramCost, ScenarioProgram, warn_of_parameters

_LONGEST = 1000  # characters of a text


@dataclass(frozen=True, eq=False)
class LinearSum:
    """A constant plus matrices times quantities, in n rows."""

    constant: Tensor  # what does not depend on any quantity, (n,), in double precision
    parts: Mapping[str, Tensor]  # for each quantity by name what it is multiplied with, (n, size)
    single: bool = False  # whether it is one number, for all outcomes alike: its row goes with any number of others

    @classmethod
    def number(cls, value: float | tuple[float, ...]) -> "LinearSum":
        """A constant."""
        values = value if isinstance(value, tuple) else (value,)
        return cls(torch.tensor(values, dtype=torch.float64), {}, single=not isinstance(value, tuple))

    @classmethod
    def quantity(cls, name: str, size: int, each: bool = True) -> "LinearSum":
        """A quantity itself."""
        eye = torch.eye(size, dtype=torch.float64)
        return cls(torch.zeros(size, dtype=torch.float64), {name: eye}, single=not each)

    def __len__(self) -> int:
        return len(self.constant)

    def negative(self) -> "LinearSum":
        """With the other sign."""
        return self.times(-torch.ones(1, dtype=torch.float64))

    def times(self, factors: Tensor) -> "LinearSum":
        """Each row multiplied with a number."""
        parts = {name: factors[:, None] * part for name, part in self.parts.items()}
        return replace(self, constant=factors * self.constant, parts=parts)

    def mixed(self, matrix: Tensor) -> "LinearSum":
        """Sums of the rows."""
        parts = {name: matrix @ part for name, part in self.parts.items()}
        return LinearSum(matrix @ self.constant, parts)

    def plus(self, other: "LinearSum") -> "LinearSum":
        """The sum, row by row."""
        one, two = _alike(self, other)
        names = dict.fromkeys((*one.parts, *two.parts))
        both = {name: [each.parts[name] for each in (one, two) if name in each.parts] for name in names}
        parts = {name: torch.stack(each).sum(0) for name, each in both.items()}
        return LinearSum(one.constant + two.constant, parts, single=one.single and two.single)


class LimitRow(NamedTuple):
    """Rows of a limit in words: a linear expression that must not be positive, or must be zero."""

    expression: LinearSum  # the expression
    equation: bool = False  # whether it must be zero
    way: str = ""  # of the two limits that an absolute value makes, "up" or "down"; else empty


def _change(value: LinearSum) -> LinearSum:
    eye = torch.eye(len(value), dtype=torch.float64)
    return value.mixed(eye[1:] - eye[:-1])


def _so_far(value: LinearSum) -> LinearSum:
    return value.mixed(torch.tril(torch.ones(2 * [len(value)], dtype=torch.float64)))


def _sum(value: LinearSum) -> LinearSum:
    return replace(value.mixed(torch.ones(1, len(value), dtype=torch.float64)), single=True)


FUNCTIONS: Mapping[str, Callable[[LinearSum], LinearSum]] = {
    "sum": _sum,
    "change": _change,
    "so_far": _so_far,
}
"""sum(x) adds up all parts, change(x) is each part less the one before, so_far(x) the sum up to and with each part."""


def is_name(text: str) -> bool:
    """Whether a text can be the name of a quantity or a number."""
    return bool(re.fullmatch(r"[A-Za-z]\w{0,79}", text)) and text not in (*FUNCTIONS, "abs", "none")


def read_linear(text: str, names: Mapping[str, LinearSum]) -> LinearSum:
    """The expression that a text states."""
    return _value(_tree(text), names)


def read_rows(text: str, names: Mapping[str, LinearSum]) -> list[LimitRow]:
    """The limits that a text states: expressions with <=, >= or = between them."""
    tree = _tree(re.sub(r"(?<![<>=!])=(?!=)", "==", text))
    if not isinstance(tree, ast.Compare):
        raise CostError(f"it must have <=, >= or = between two sides, got {text!r}")
    sides, rows = [tree.left, *tree.comparators], []
    for operator, left, right in zip(tree.ops, sides, sides[1:], strict=False):
        if isinstance(operator, ast.Eq):
            rows.append(LimitRow(_less(_value(left, names), _value(right, names)), equation=True))
        elif isinstance(operator, ast.LtE | ast.GtE):
            rows += _limit(*((left, right) if isinstance(operator, ast.LtE) else (right, left)), names)
        else:
            raise CostError(f"it must have <=, >= or = between two sides, got {text!r}")
    return rows


def _limit(small: ast.expr, large: ast.expr, names: Mapping[str, LinearSum]) -> Iterator[LimitRow]:
    most = _value(large, names)
    if isinstance(small, ast.Call) and isinstance(small.func, ast.Name) and small.func.id == "abs":
        inner = _argument(small, names)
        yield LimitRow(_less(inner, most), way="up")
        yield LimitRow(_less(inner.negative(), most), way="down")
    else:
        yield LimitRow(_less(_value(small, names), most))


def _tree(text: str) -> ast.expr:
    if len(text) > _LONGEST or not text.isprintable():
        raise CostError(f"it must be one line of at most {_LONGEST} characters, got {text[:40]!r}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError, Warning):
        raise CostError(f"it must be written like 2 * hours + missing >= outcome, got {text[:60]!r}") from None


def _value(node: ast.expr, names: Mapping[str, LinearSum]) -> LinearSum:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool) and _is_finite(number):
            return LinearSum.number(float(number))
        case ast.Name(id=name):
            return _named(name, names)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return _value(inner, names).negative()
        case ast.BinOp(left=left, op=operator, right=right):
            return _joined(_value(left, names), operator, _value(right, names), node)
        case ast.Call(func=ast.Name(id=name)) if name in FUNCTIONS:
            return FUNCTIONS[name](_of_each_outcome(node, names))
        case ast.Call(func=ast.Name(id="abs")):
            raise CostError("abs(...) must be the whole smaller side, as in abs(change(hours)) <= 2")
        case _:
            known = f"numbers, names, + - * / and {', '.join(FUNCTIONS)}"
            raise CostError(f"it may contain only {known}, got {ast.unparse(node)[:60]!r}")


def _is_finite(number: float) -> bool:
    """Whether it is a finite float, which a whole number may be too large for."""
    return abs(number) <= sys.float_info.max


def _named(name: str, names: Mapping[str, LinearSum]) -> LinearSum:
    if name not in names:
        raise CostError(f"there is no {name!r} here; {did_you_mean(name, tuple(names))}")
    return names[name]


def _argument(node: ast.Call, names: Mapping[str, LinearSum]) -> LinearSum:
    if len(node.args) != 1 or node.keywords:
        raise CostError(f"a function takes one expression, got {ast.unparse(node)!r}")
    return _value(node.args[0], names)


def _of_each_outcome(node: ast.Call, names: Mapping[str, LinearSum]) -> LinearSum:
    value = _argument(node, names)
    if value.single:
        raise CostError(f"a function needs one number per outcome, got a single one in {ast.unparse(node)!r}")
    return value


def _joined(left: LinearSum, operator: ast.operator, right: LinearSum, node: ast.expr) -> LinearSum:
    match operator:
        case ast.Add():
            return left.plus(right)
        case ast.Sub():
            return _less(left, right)
        case ast.Mult() if not left.parts or not right.parts:
            number, other = (left, right) if not left.parts else (right, left)
            number, other = _alike(number, other)
            return replace(other.times(number.constant), single=left.single and right.single)
        case ast.Div() if not right.parts and bool((right.constant != 0).all()):
            single, (left, right) = left.single and right.single, _alike(left, right)
            return replace(left.times(1 / right.constant), single=single)
    raise CostError(f"quantities may only be multiplied or divided by numbers, got {ast.unparse(node)!r}")


def _less(one: LinearSum, two: LinearSum) -> LinearSum:
    return one.plus(two.negative())


def _alike(one: LinearSum, two: LinearSum) -> tuple[LinearSum, LinearSum]:
    """Both in equally many rows: what is one for all outcomes goes with any number of them."""
    if len(one) != len(two) and not (one.single or two.single):
        raise CostError(f"the sides differ in length: {len(one)} and {len(two)} numbers")
    rows = len(two) if one.single else len(one)
    repeated = torch.ones(rows, 1, dtype=torch.float64)
    first, second = (each if len(each) == rows else each.mixed(repeated) for each in (one, two))
    return first, second


Amount = float | tuple[float, ...] | str
"""A number, one for each outcome, or an expression of the program's numbers."""


@dataclass(frozen=True)
class Quantity:
    """A decision variable, one per outcome or a single one.

    An amount is a number, a sequence with one per outcome, or text such as "2 * price" in the numbers of the program;
    that of `cost` may involve the outcome, too.

    Attributes:
        cost: The cost per unit; negative for revenue.
        lower: The lower bound; None, or "none" in a file, for none.
        upper: The upper bound; None for none.
        square: The cost of its square, not negative.
        each: Whether there is one per outcome; False for a single one.

    >>> print(Quantity(cost=[3, 2], upper="capacity"))
    one for each outcome, 0 to capacity, at 3/2
    """

    cost: Amount = 0.0
    lower: Amount | None = 0.0
    upper: Amount | None = None
    square: Amount = 0.0
    each: bool = True

    def __post_init__(self) -> None:
        for name in ("cost", "lower", "upper", "square"):
            value = getattr(self, name)
            unbounded = name in ("lower", "upper") and (value is None or (isinstance(value, str) and value == "none"))
            object.__setattr__(self, name, None if unbounded else plain_amount(name, value))
        if not isinstance(self.each, bool):
            raise CostError(f"each must be True or False, got {self.each!r}")

    def __str__(self) -> str:
        words = ["one for each outcome" if self.each else "a single one", _range_words(self.lower, self.upper)]
        words += [f"at {amount_words(self.cost)}"] if self.cost else []
        words += [f"its square at {amount_words(self.square)}"] if self.square else []
        return ", ".join(filter(None, words))

    @property
    def amounts(self) -> dict[str, Amount | None]:
        """Cost, bounds and square by name."""
        return {name: getattr(self, name) for name in ("cost", "lower", "upper", "square")}


def plain_amount(where: str, value: object) -> Amount:
    """An amount with plain numbers."""
    warn_of_parameters({where: value})
    listed: Any = getattr(value, "tolist", lambda: value)()  # of an array or a tensor
    if isinstance(listed, str) and listed.strip():
        return listed.strip()
    if isinstance(listed, Sequence) and not isinstance(listed, str) and listed and all(map(_is_number, listed)):
        return tuple(map(float, listed))
    if _is_number(listed):
        return float(listed)
    got = "one beyond 1e308" if type(listed) is int else repr(listed)
    raise CostError(f"{where} must be a finite number, a list with one per outcome, or text, got {got}")


def _is_number(value: object) -> bool:
    real = isinstance(value, Real) and not isinstance(value, bool)
    return real and bool(-sys.float_info.max <= cast(float, value) <= sys.float_info.max)


def amount_words(amount: Amount) -> str:
    """An amount as people read it, such as 12, 3/2 or price."""
    if isinstance(amount, tuple):
        return "/".join(map(amount_words, amount))
    return amount if isinstance(amount, str) else f"{amount:.12g}"


def _range_words(lower: Amount | None, upper: Amount | None) -> str:
    if lower is None:
        return "" if upper is None else f"at most {amount_words(upper)}"
    least = amount_words(lower)
    return f"at least {least}" if upper is None else f"{least} to {amount_words(upper)}"


OUTCOME = "outcome"
"""The word for the outcomes."""


class NamedRow(NamedTuple):
    """Rows of a limit or a recourse constraint."""

    name: str  # what it is called
    row: LimitRow  # the rows

    def places(self, outcomes: Sequence[str]) -> list[str]:
        """Where each row holds."""
        count, wide = len(self.row.expression), self.row.expression.parts.values()
        known = {len(outcomes): list(outcomes)}
        if all(not matrix.sum(-1).any() for matrix in wide):  # of two outcomes a change has one row, as their sum has
            known |= {len(outcomes) - 1: [f"{first} to {second}" for first, second in pairwise(outcomes)]}
        numbered = ["all"] if count == 1 else [str(place) for place in range(1, count + 1)]  # as of changes of changes
        return [f"{place}, {self.row.way}" if self.row.way else place for place in known.get(count, numbered)]


@dataclass(frozen=True)
class ProgramMatrices:
    """The words of a program, with as many outcomes as there are."""

    decide: Mapping[str, Quantity]  # the quantities that are decided beforehand, by name
    recourse: Mapping[str, Quantity]  # the quantities that are decided once the outcomes are known, by name
    recourse_constraints: Mapping[str, str]  # what must hold then, by name
    limits: Mapping[str, str]  # what must hold of `decide` alone, by name
    numbers: Mapping[str, float | tuple[float, ...]]  # numbers that have a name
    outcomes: int  # d

    def program(self) -> ScenarioProgram:
        """All matrices."""
        p, p_y, squares = self._prices("decide")
        q, q_y, Q = self._prices("recourse")
        lower, upper = self.bounds()
        limits, constraints = self.limit_rows(), self._recourse_rows()
        self._require_use(limits, constraints, bool(p_y.any() or q_y.any()))
        sizes, others = self._sizes("decide"), dict[str, Tensor]()
        if allowed := [each.row.expression for each in limits if not each.row.equation]:
            others |= {"G": _matrix(allowed, sizes), "g": -_constants(allowed)}
        if equal := [each.row.expression for each in limits if each.row.equation]:
            others |= {"E": _matrix(equal, sizes), "e": -_constants(equal)}
        asked = [each.row.expression for each in (*constraints, *self._upper_rows())]
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
                raise CostError(
                    f"limits.{name}: it may only use decided quantities, got {others[0]!r}; make it a recourse "
                    "constraint"
                )
        return rows

    def _recourse_rows(self) -> list[NamedRow]:
        """The recourse constraints, an equation as two limits."""
        rows = []
        for name, text in self.recourse_constraints.items():
            for row in self._rows("recourse_constraints", name, text):
                both = (row.expression, row.expression.negative()) if row.equation else (row.expression,)
                rows += [NamedRow(name, LimitRow(expression)) for expression in both]
        return rows

    def _upper_rows(self) -> Iterator[NamedRow]:
        """What recourse does not exceed."""
        for name, size in self._sizes("recourse").items():
            lower, upper = self._bounds_of("recourse", name)
            if bool((lower != 0).any()):
                raise CostError(f"recourse.{name}.lower must be 0, as recourse is never negative")
            if self.recourse[name].upper is not None:
                yield NamedRow(name, LimitRow(LinearSum.quantity(name, size).plus(LinearSum(-upper, {}))))

    def _rows(self, where: str, name: str, text: str) -> list[LimitRow]:
        with _naming(f"{where}.{name}"):
            rows = read_rows(text, self._names)
            if any(not row.expression.parts for row in rows):
                raise CostError(f"it must involve a quantity, got {text!r}")
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
            raise CostError(f"{where}.{name}: lower must not exceed upper")
        return lower, upper

    def _amount(self, where: str, amount: Amount, quantity: Quantity, about: tuple[str, ...] = ()) -> LinearSum:
        """An amount of a quantity, one row for each of its parts, that depends on nothing but the words in `about`."""
        with _naming(where):
            value = read_linear(amount, self._names) if isinstance(amount, str) else LinearSum.number(amount)
            if others := [word for word in value.parts if word not in about]:
                raise CostError(f"it may only use {' and '.join(('numbers', *about))}, got {others[0]!r}")
            size = self.outcomes if quantity.each else 1
            if len(value) not in (1, size):
                several = f", or one per outcome ({size})" if size > 1 else ""
                raise CostError(f"it must be one number{several}, got {len(value)}")
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

    def _require_use(
        self, limits: Sequence[NamedRow], constraints: Sequence[NamedRow], priced_by_outcome: bool
    ) -> None:
        constrained = {word for each in constraints for word in each.row.expression.parts}
        used = constrained | {word for each in limits for word in each.row.expression.parts}
        used |= {name for name, of in self.decide.items() if of.cost or of.square}
        for name in self.decide:
            if name not in used:
                raise CostError(
                    f"decide.{name} has no cost, limit or recourse constraint, so that nothing determines it"
                )
        for name in self.recourse:
            if name not in constrained:
                raise CostError(f"recourse.{name} is in no recourse constraint, so that it does nothing")
        if OUTCOME not in constrained and not priced_by_outcome:
            raise CostError("outcome is in no recourse constraint and no cost, so that a forecast does not matter")


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


_FROM_ONE_TO_THE_NEXT = re.compile(r"\b(change|so_far)\b")
_TRIED = 3  # outcomes with which words are tried where nothing says how many there are


@dataclass(frozen=True, repr=False)
class Program(ProgramCost):
    """A vector decision written as a two-stage program; it is a cost like any other.

    The quantities in `decide` are chosen before the outcomes are known. Those in `recourse`, never negative, are chosen
    afterwards, as cheaply as `recourse_constraints` allow. Limits and recourse constraints are linear in the
    quantities: numbers, names, + - * /, sum(x), change(x), the step from each part to the next, and so_far(x), the sum
    up to each part, with <=, >= or = between two sides; abs(x) may be the smaller side. The word `outcome` stands for
    the outcomes. Expressions with one value per outcome hold part by part.

    Attributes:
        decide: The first-stage quantities, by name.
        recourse: The second-stage quantities, by name.
        recourse_constraints: The constraints of the second stage, each under a name of its own.
        limits: The constraints of `decide` alone, each under a name of its own.
        numbers: Named numbers for use in expressions, each one number or one per outcome.

    >>> import torch, stakes
    >>> bakery = stakes.Program(
    ...     decide={"hours": stakes.Quantity(cost=12, upper=8)},
    ...     recourse={"missing": stakes.Quantity(cost=[3, 2])},
    ...     recourse_constraints={"demand": "rate * hours + missing >= outcome"},
    ...     limits={"staff": "sum(hours) <= staff"},
    ...     numbers={"staff": 9, "rate": [10, 20]},
    ... )
    >>> bakery
    Program
      decide hours: one for each outcome, 0 to 8, at 12
      recourse missing: one for each outcome, at least 0, at 3/2
      limit staff: sum(hours) <= staff
      constraint demand: rate * hours + missing >= outcome
      where staff = 9, rate = 10/20
    >>> demand = torch.tensor([[[50.0, 90.0], [70.0, 60.0]]])  # one case, two members, two products
    >>> stakes.optimal_action(bakery, demand).round(decimals=3)
    tensor([[5., 4.]])
    """

    decide: Mapping[str, Quantity]
    recourse: Mapping[str, Quantity] = field(default_factory=dict)
    recourse_constraints: Mapping[str, str] = field(default_factory=dict)
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
        lines += [f"constraint {name}: {text}" for name, text in self.recourse_constraints.items()]
        numbers = ", ".join(f"{name} = {amount_words(value)}" for name, value in self.numbers.items())
        return "\n  ".join([*lines, f"where {numbers}"] if numbers else lines)

    def __hash__(self) -> int:
        return hash((tuple(sorted(self.decide)), tuple(sorted(self.recourse_constraints.items()))))

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
        each = sum(quantity.each for quantity in self.decide.values())
        return self._matrices((parts - len(self.decide) + each) // max(each, 1)).bounds()

    def fixed_cost(self, outcome: Tensor) -> Tensor:
        return torch.zeros_like(outcome[..., 0])

    def program(self, outcomes: int, device: torch.device | None = None) -> ScenarioProgram:
        for where, size in self._sizes().items():
            if size != outcomes:
                raise ShapeError(f"{where} must be one number, or one per outcome ({outcomes}), got {size}")
        key = outcomes, torch.device(device or "cpu")
        if key not in self._built:
            with torch.inference_mode(False), torch.no_grad():  # it is kept, for training too
                self._built[key] = self._matrices(outcomes).program().to(device)
        return self._built[key]

    def part_names(self, outcomes: Sequence[str]) -> tuple[str, ...]:
        """What the parts are called: the quantity and the outcome, or the outcome where there is one quantity."""
        if len(self.decide) == 1 and next(iter(self.decide.values())).each:
            return tuple(outcomes)
        names = ([f"{name}_{each}" for each in outcomes] if of.each else [name] for name, of in self.decide.items())
        return tuple(name for several in names for name in several)

    def limit_names(self, outcomes: Sequence[str]) -> tuple[tuple[str, str], ...]:
        rows = [each for each in self._matrices(len(outcomes)).limit_rows() if not each.row.equation]
        return tuple((each.name, place) for each in rows for place in each.places(outcomes))

    def require_linear_recourse(self, outcomes: int) -> None:
        Q = self.program(outcomes).Q
        if Q is not None and bool(Q.any()):
            name = next(name for name, quantity in self.recourse.items() if quantity.square)
            raise CostError(
                f"recourse.{name}.square must be 0 for an aversion to risk (cvar_level), which needs a recourse of "
                f"linear costs, got {amount_words(self.recourse[name].square)}"
            )

    @property
    def depends_on_order(self) -> bool:
        words = (*self.limits.values(), *self.recourse_constraints.values())
        return any(_FROM_ONE_TO_THE_NEXT.search(each) for each in words)

    def _matrices(self, outcomes: int) -> ProgramMatrices:
        return ProgramMatrices(
            self.decide, self.recourse, self.recourse_constraints, self.limits, self.numbers, outcomes
        )

    def _known_outcomes(self) -> int | None:
        """How many outcomes there must be, by the numbers for each of them; None where there are none."""
        sizes = self._sizes()
        if len(set(sizes.values())) > 1:
            counts = ", ".join(f"{where} has {size}" for where, size in sizes.items())
            raise CostError(f"lists of numbers must all have one per outcome, got: {counts}")
        return next(iter(sizes.values()), None)

    def _sizes(self) -> dict[str, int]:
        """How many numbers there are for each outcome, by where they stand."""
        given: dict[str, Any] = {f"numbers.{name}": value for name, value in self.numbers.items()}
        for where, quantities in (("decide", self.decide), ("recourse", self.recourse)):
            for name, quantity in quantities.items():
                given |= {f"{where}.{name}.{key}": amount for key, amount in quantity.amounts.items()}
        return {where: len(value) for where, value in given.items() if isinstance(value, tuple)}

    def _require_words(self) -> None:
        for where in ("decide", "recourse", "recourse_constraints", "limits", "numbers"):
            words = getattr(self, where)
            if not isinstance(words, Mapping) or not all(isinstance(name, str) for name in words):
                raise CostError(f"{where} must be a mapping with names as keys, got {words!r}")
        if not self.decide:
            raise CostError("decide must name at least one quantity")
        seen = {OUTCOME}
        for where in ("decide", "recourse", "numbers"):
            for name in getattr(self, where):
                if not is_name(name):
                    raise CostError(
                        f"{where}.{name}: a name must be one word of letters, digits and _, and not a function"
                    )
                if name in seen:
                    raise CostError(f"{where}.{name}: the name {name!r} is already taken")
                seen.add(name)
        for where, kind in (
            ("decide", Quantity),
            ("recourse", Quantity),
            ("recourse_constraints", str),
            ("limits", str),
        ):
            for name, value in getattr(self, where).items():
                if not name.strip() or not name.isprintable():
                    raise CostError(f"{where}: a name must be printable text, got {name[:40]!r}")
                if not isinstance(value, kind):
                    raise CostError(f"{where}.{name} must be a {kind.__name__}, got {type(value).__name__}")
