"""Linear expressions and limits in words, such as "rate * hours + missing >= outcome", as matrices.

A text is made of numbers, names, + - * / and a few functions. It is read, never executed.
"""

import ast
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from stakes.errors import CostError, did_you_mean

__all__ = ["FUNCTIONS", "LimitRow", "LinearSum", "is_name", "read_linear", "read_rows"]

_LONGEST = 1000  # characters of a text


@dataclass(frozen=True, eq=False)
class LinearSum:
    """A constant plus matrices times quantities, in n rows.

    Attributes:
        constant: What does not depend on any quantity, (n,), in double precision.
        parts: For each quantity by name what it is multiplied with, (n, size).
        single: Whether it is one number, for all outcomes alike: its row goes with any number of others.
    """

    constant: Tensor
    parts: Mapping[str, Tensor]
    single: bool = False

    @classmethod
    def number(cls, value: float | tuple[float, ...]) -> "LinearSum":
        """A constant.

        Args:
            value: One number, or one a row.
        """
        values = value if isinstance(value, tuple) else (value,)
        return cls(torch.tensor(values, dtype=torch.float64), {}, single=not isinstance(value, tuple))

    @classmethod
    def quantity(cls, name: str, size: int, each: bool = True) -> "LinearSum":
        """A quantity itself.

        Args:
            name: What it is called.
            size: How many parts it has.
            each: Whether it has one for each outcome.
        """
        eye = torch.eye(size, dtype=torch.float64)
        return cls(torch.zeros(size, dtype=torch.float64), {name: eye}, single=not each)

    def __len__(self) -> int:
        return len(self.constant)

    def negative(self) -> "LinearSum":
        """With the other sign."""
        return self.times(-torch.ones(1, dtype=torch.float64))

    def times(self, factors: Tensor) -> "LinearSum":
        """Each row multiplied with a number.

        Args:
            factors: The numbers, (n,) or (1,).
        """
        parts = {name: factors[:, None] * part for name, part in self.parts.items()}
        return replace(self, constant=factors * self.constant, parts=parts)

    def mixed(self, matrix: Tensor) -> "LinearSum":
        """Sums of the rows.

        Args:
            matrix: How often each row counts in each sum, (sums, n).
        """
        parts = {name: matrix @ part for name, part in self.parts.items()}
        return LinearSum(matrix @ self.constant, parts)

    def plus(self, other: "LinearSum") -> "LinearSum":
        """The sum, row by row.

        Args:
            other: What is added, in as many rows or in one.
        """
        one, two = _alike(self, other)
        names = dict.fromkeys((*one.parts, *two.parts))
        both = {name: [each.parts[name] for each in (one, two) if name in each.parts] for name in names}
        parts = {name: torch.stack(each).sum(0) for name, each in both.items()}
        return LinearSum(one.constant + two.constant, parts, single=one.single and two.single)


class LimitRow(NamedTuple):
    """Rows of a limit in words: a linear expression that must not be positive, or must be zero.

    Attributes:
        expression: The expression.
        equation: Whether it must be zero.
        way: Of the two limits that an absolute value makes, "up" or "down"; else empty.
    """

    expression: LinearSum
    equation: bool = False
    way: str = ""


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
    """Whether a text can be the name of a quantity or a number.

    Args:
        text: What came.
    """
    return bool(re.fullmatch(r"[A-Za-z]\w{0,79}", text)) and text not in (*FUNCTIONS, "abs", "none")


def read_linear(text: str, names: Mapping[str, LinearSum]) -> LinearSum:
    """The expression that a text states.

    Args:
        text: Such as "rate * hours + missing".
        names: What each name in it stands for.
    """
    return _value(_tree(text), names)


def read_rows(text: str, names: Mapping[str, LinearSum]) -> list[LimitRow]:
    """The limits that a text states: expressions with <=, >= or = between them.

    Args:
        text: Such as "0 <= rate * hours <= 40", "sum(hours) = 8" or "abs(change(hours)) <= 2".
        names: What each name in it stands for.
    """
    tree = _tree(re.sub(r"(?<![<>=!])=(?!=)", "==", text))
    if not isinstance(tree, ast.Compare):
        raise CostError(f"it must say <=, >= or = between two sides, got {text!r}")
    sides, rows = [tree.left, *tree.comparators], []
    for operator, left, right in zip(tree.ops, sides, sides[1:], strict=False):
        if isinstance(operator, ast.Eq):
            rows.append(LimitRow(_less(_value(left, names), _value(right, names)), equation=True))
        elif isinstance(operator, ast.LtE | ast.GtE):
            rows += _limit(*((left, right) if isinstance(operator, ast.LtE) else (right, left)), names)
        else:
            raise CostError(f"it must say <=, >= or = between two sides, got {text!r}")
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
        raise CostError(f"it must be written like 2 * hours + missing >= outcome, got {text!r}") from None


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
            raise CostError("abs(...) may only be the whole smaller side, as in abs(change(hours)) <= 2")
        case _:
            known = f"numbers, names, + - * / and {', '.join(FUNCTIONS)}"
            raise CostError(f"it may have {known} only, got {ast.unparse(node)!r}")


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
        raise CostError(
            f"a function needs one number for each outcome, got one for all of them in {ast.unparse(node)!r}"
        )
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
    raise CostError(f"quantities may be multiplied with numbers and divided by them only, got {ast.unparse(node)!r}")


def _less(one: LinearSum, two: LinearSum) -> LinearSum:
    return one.plus(two.negative())


def _alike(one: LinearSum, two: LinearSum) -> tuple[LinearSum, LinearSum]:
    """Both in equally many rows: what is one for all outcomes goes with any number of them."""
    if len(one) != len(two) and not (one.single or two.single):
        raise CostError(f"{len(one)} numbers and {len(two)} do not go together")
    rows = len(two) if one.single else len(one)
    repeated = torch.ones(rows, 1, dtype=torch.float64)
    first, second = (each if len(each) == rows else each.mixed(repeated) for each in (one, two))
    return first, second
