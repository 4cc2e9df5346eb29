"""Quadratic programs in one piece, as Clarabel takes them, and what a point or a ray proves about them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import clarabel
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Floats = NDArray[np.float64]
VERDICTS = {
    "Solved": "optimal",
    "AlmostSolved": "optimal",
    "PrimalInfeasible": "infeasible",
    "AlmostPrimalInfeasible": "infeasible",
    "DualInfeasible": "unbounded",
    "AlmostDualInfeasible": "unbounded",
}


@dataclass(frozen=True)
class Answer:
    """What a solver says: a verdict, a point or a ray x, and the prices y of all rows, the equations first."""

    verdict: str
    x: Floats
    y: Floats
    objective: float = np.nan


@dataclass(frozen=True)
class QuadraticProgram:
    """Minimise 1/2 x'Hx + c'x + constant subject to E x = e and G x <= g."""

    H: Floats
    c: Floats
    E: Floats
    e: Floats
    G: Floats
    g: Floats
    constant: float = 0.0

    def in_units(self) -> tuple["QuadraticProgram", float, float]:
        """The same with numbers of the order of one, and the units of x and of prices."""
        size = _size(self.e, self.g) or 1.0
        price = max(_size(self.c), size * _size(self.H)) or 1.0
        even = QuadraticProgram(
            self.H * (size / price), self.c / price, self.E, self.e / size, self.G, self.g / size, self.constant
        )
        return even, size, price

    def clarabel(self, tolerance: float = 1e-11) -> Answer:
        even, size, price = self.in_units()
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.max_iter = 200
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
        cones = [clarabel.ZeroConeT(len(self.e)), clarabel.NonnegativeConeT(len(self.g))]
        rows, right = np.concatenate([even.E, even.G]), np.concatenate([even.e, even.g])
        curved = sparse.csc_matrix(np.triu(even.H))
        found = clarabel.DefaultSolver(curved, even.c, sparse.csc_matrix(rows), right, cones, settings).solve()
        verdict = VERDICTS.get(str(found.status), "unknown")
        x, y = size * np.array(found.x), price * np.array(found.z)
        return Answer(verdict, x, y, size * price * float(found.obj_val) + self.constant)

    def interval(self, answer: Answer) -> tuple[float, float]:
        """The least objective lies between these, but for what `violation` says; in extended precision."""
        x, y = _long(answer.x), _long(answer.y)
        curved, right = x @ (_long(self.H) @ x) / 2, np.concatenate([_long(self.e), _long(self.g)])
        slope = _long(self.H) @ x + _long(self.c) + np.concatenate([_long(self.E), _long(self.G)]).T @ y
        loose = np.abs(slope) @ np.abs(x)  # what a slope that is not quite zero could be worth
        return (float(self.constant - curved - right @ y - loose), float(self.constant + curved + _long(self.c) @ x))

    def violation(self, answer: Answer) -> float:
        """How far the point lies beyond a limit, or off an equation, in units of the program."""
        off = [_long(self.E) @ _long(answer.x) - self.e, np.maximum(_long(self.G) @ _long(answer.x) - self.g, 0)]
        return _size(*off) / self.in_units()[1]

    def least_violation(self) -> float:
        """By how much some limit or equation is broken at least, in units of the program: above 0 where infeasible."""
        even = self.in_units()[0]
        rows = np.concatenate([even.G, even.E, -even.E])
        limits = np.concatenate([even.g, even.e, -even.e])
        wide = np.column_stack([rows, -np.ones(len(rows))])
        sign = np.eye(1, wide.shape[1], wide.shape[1] - 1)
        none = np.zeros((0, wide.shape[1]))
        elastic = QuadraticProgram(
            np.zeros((wide.shape[1],) * 2),
            sign[0],
            none,
            none[:, 0],
            np.concatenate([wide, -sign]),
            np.append(limits, 0),
        )
        return elastic.clarabel().objective

    def steepest_fall(self) -> float:
        """How fast the objective falls along a ray that no limit ends, in units: below 0 where unbounded."""
        even = self.in_units()[0]
        size, eye = len(even.c), np.eye(len(even.c))
        equations, limits = np.concatenate([even.E, even.H]), np.concatenate([even.G, eye, -eye])
        right = np.concatenate([np.zeros(len(even.g)), np.ones(2 * size)])
        cone = QuadraticProgram(0 * even.H, even.c, equations, np.zeros(len(equations)), limits, right)
        return cone.clarabel().objective

    def proves_infeasible(self, y: Floats, tolerance: float = 1e-6) -> bool:
        """Farkas: prices, not negative on limits, under which no x does anything and the right-hand sides sum below 0.

        A violation of 1e-6 of that sum, in units of the program, rules out all x below a million of these units.
        """
        price, unit = _long(y), self.in_units()[1]
        price[len(self.e) :] = np.maximum(price[len(self.e) :], 0)
        rows, right = np.concatenate([_long(self.E), _long(self.G)]), np.concatenate([_long(self.e), _long(self.g)])
        worth = right @ price
        return bool(worth < 0 and np.abs(rows.T @ price).max(initial=0) * unit <= tolerance * -worth)

    def proves_unbounded(self, x: Floats, tolerance: float = 1e-6) -> bool:
        """A ray without curvature that breaks no limit and along which the objective falls."""
        even = self.in_units()[0]
        ray = _long(x)
        falls = _long(even.c) @ ray
        off = _size(_long(even.H) @ ray, _long(even.E) @ ray, np.maximum(_long(even.G) @ ray, 0))
        return bool(falls < 0 and off <= tolerance * -falls)


def _size(*values: NDArray[np.floating]) -> float:
    return float(max(np.abs(each).max(initial=0.0) for each in values))


def _long(values: Floats) -> NDArray[np.longdouble]:
    return np.array(values, dtype=np.longdouble)


class Columns:
    """Variables in one long vector, and rows about some of them."""

    def __init__(self, **sizes: int) -> None:
        ends = np.cumsum([0, *sizes.values()])
        self.places = {name: slice(ends[i], ends[i + 1]) for i, name in enumerate(sizes)}
        self.size = int(ends[-1])

    def rows(self, **blocks: Floats) -> Floats:
        """Rows with these blocks, and zeros elsewhere."""
        count = len(next(iter(blocks.values())))
        found = np.zeros((count, self.size))
        for name, block in blocks.items():
            found[:, self.places[name]] = block
        return found

    def vector(self, **parts: Floats) -> Floats:
        found = np.zeros(self.size)
        for name, part in parts.items():
            found[self.places[name]] = part
        return found

    def square(self, first: str, second: str, block: Floats) -> Floats:
        found = np.zeros((self.size, self.size))
        found[self.places[first], self.places[second]] = block
        return found


def stacked(rows: Sequence[tuple[Floats, Floats]], width: int) -> tuple[Floats, Floats]:
    """Rows and their right-hand sides below each other, without those whose right-hand side is infinite."""
    matrix = reduce(lambda one, two: np.concatenate([one, two]), (each for each, _ in rows), np.zeros((0, width)))
    right = np.concatenate([np.zeros(0), *(each for _, each in rows)])
    known = np.isfinite(right)
    return matrix[known], right[known]
