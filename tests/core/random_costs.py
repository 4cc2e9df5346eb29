"""Random decisions with many parts, degenerate ones among them, and each as a quadratic program of its own words.

The programs are written from the formulas in the documentation, not from `cost.program`, so that they judge it, too.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stakes import AllocationCost, ArbitrageCost, ScheduleCost, StorageCost

from .quadratic_programs import Columns, QuadraticProgram, stacked

Floats = NDArray[np.float64]
KINDS = ("linear schedule", "quadratic schedule", "allocation", "storage", "arbitrage")


@dataclass(frozen=True)
class Decision:
    """A cost, members (B, M, D) with their weights, and the quadratic program of each case."""

    cost: Any
    samples: Tensor
    weights: Tensor | None
    program: Callable[[int], QuadraticProgram]

    def at(self, samples: Tensor) -> "Decision":
        """The same with other members."""
        return _decision(self.cost, samples, self.weights)


class Draw:
    """Random numbers of one generator."""

    def __init__(self, generator: torch.Generator, cases: int) -> None:
        self.generator, self.cases = generator, cases

    def uniform(self, *shape: int) -> Tensor:
        return torch.rand(*shape, generator=self.generator, dtype=torch.float64)

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self.generator, dtype=torch.float64)

    def number(self, low: int, high: int) -> int:
        return int(torch.randint(low, high, (1,), generator=self.generator))

    def sometimes(self, share: float) -> bool:
        return bool(self.uniform(1) < share)

    def between(self, low: float, high: float) -> float:
        return low * (high / low) ** float(self.uniform(1))

    def parameter(self, low: float, high: float, parts: int) -> float | Tensor:
        """A number, or one a case, or one a case and part, evenly on a logarithmic axis."""
        shape = ((), (self.cases, 1), (parts,), (self.cases, parts))[self.number(0, 4)]
        values = low * (high / low) ** self.uniform(*(shape or (1,)))
        return values if shape else float(values)

    def members(self, count: int, parts: int, degenerate: bool) -> Tensor:
        """Around a path, sometimes tied, equal, or far apart in size."""
        path = self.normal(self.cases, 1, parts).cumsum(-1) + 3
        values = path + self.normal(self.cases, count, parts) * self.between(0.05, 3.0)
        if degenerate and self.sometimes(0.3):
            values = values.round(decimals=0)
        if degenerate and self.sometimes(0.15):
            values = values[:, :1].expand_as(values).contiguous()
        return values * 10.0 ** (self.number(-3, 5) if degenerate else 0)

    def weights(self, count: int, degenerate: bool) -> Tensor | None:
        if self.sometimes(0.5):
            return None
        values = self.uniform(self.cases, count) + (0.0 if degenerate else 0.1)
        if degenerate and count > 1:
            values[:, 0] = 0.0
        return values


def random_decision(generator: torch.Generator, kind: str, cases: int = 4, *, degenerate: bool = True) -> Decision:
    """Cases of one shape; where `degenerate`, with ties, bounds that meet, flat costs and limits that contradict."""
    draw = Draw(generator, cases)
    parts = draw.number(1, 9) if kind == "storage" else draw.number(1, 25)
    count = draw.number(1, 9) if kind == "storage" else draw.number(1, 31)
    samples = draw.members(count, parts, degenerate)
    scale = float(samples.abs().mean()) + 1e-6
    cost = _COSTS[kind](draw, parts, scale, degenerate)
    return _decision(cost, samples, draw.weights(count, degenerate))


def _schedule(draw: Draw, parts: int, scale: float, degenerate: bool, curved: bool) -> ScheduleCost:
    price = 10.0 ** (draw.number(-3, 4) if degenerate else 0)
    lower: float | Tensor = 0.0
    upper: float | Tensor | None = None
    ramp = scale * draw.between(0.01, 2.0)
    if draw.sometimes(0.5):
        lower, upper = -scale, 1.5 * scale
    if degenerate and draw.sometimes(0.2):  # bounds that move faster than the ramp allows, or meet
        lower = scale * draw.normal(parts)
        upper = lower + scale * draw.uniform(parts).round() * draw.between(0.1, 3.0)
    sides = [price * each for each in _sides(draw, parts, degenerate)]
    quadratic = draw.parameter(0.01, 3.0, parts) if curved else 0.0
    return ScheduleCost(*sides, quadratic * (price / scale), None if draw.sometimes(0.1) else ramp, lower, upper)


def _sides(draw: Draw, parts: int, degenerate: bool) -> list[float | Tensor]:
    if degenerate and draw.sometimes(0.2):
        return [[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]][draw.number(0, 3)]  # type: ignore[return-value]
    return [draw.parameter(1.0, 50.0, parts), draw.parameter(0.1, 3.0, parts)]


def _allocation(draw: Draw, parts: int, scale: float, degenerate: bool) -> AllocationCost:
    budget = scale * parts * draw.between(0.001 if degenerate else 0.1, 2.0)
    return AllocationCost(*_sides(draw, parts, degenerate), budget)


def _storage(draw: Draw, parts: int, scale: float, degenerate: bool) -> StorageCost:
    price = draw.parameter(0.5, 2.0, parts)
    size = scale * draw.between(0.1, 3.0)
    return StorageCost(
        price,
        price * draw.between(1.05, 5.0),
        0.0 if degenerate and draw.sometimes(0.3) else draw.between(0.01, 1.0),
        power=draw.parameter(0.2 * scale, 2 * scale, parts),
        energy=size,
        efficiency=1.0 if degenerate and draw.sometimes(0.3) else draw.between(0.5, 0.99),
        start=0.0 if draw.sometimes(0.3) else size * float(draw.uniform(1).round(decimals=1)),
    )


def _arbitrage(draw: Draw, parts: int, scale: float, degenerate: bool) -> ArbitrageCost:
    power = draw.between(0.01 if degenerate else 0.5, 2.0)
    return ArbitrageCost(
        power,
        power * draw.between(0.3, 5.0),
        1.0 if degenerate and draw.sometimes(0.3) else draw.between(0.5, 0.99),
        quadratic=0.0 if draw.sometimes(0.5) else scale * draw.between(0.01, 1.0),
    )


_COSTS: dict[str, Callable[[Draw, int, float, bool], Any]] = {
    "linear schedule": lambda *given: _schedule(*given, curved=False),
    "quadratic schedule": lambda *given: _schedule(*given, curved=True),
    "allocation": _allocation,
    "storage": _storage,
    "arbitrage": _arbitrage,
}


def _decision(cost: Any, samples: Tensor, weights: Tensor | None) -> Decision:
    build = {
        ScheduleCost: _schedule_program,
        AllocationCost: _allocation_program,
        StorageCost: _storage_program,
        ArbitrageCost: _arbitrage_program,
    }[type(cost)]
    shares = torch.ones_like(samples[..., 0]) if weights is None else weights
    shares = shares / shares.sum(-1, keepdim=True)

    def program(case: int) -> QuadraticProgram:
        def parts(name: str) -> Floats:
            value = torch.as_tensor(getattr(cost, name), dtype=torch.float64)
            shape = (len(samples), samples.shape[-1])
            return np.broadcast_to((value if value.dim() else value[None]).expand(*shape)[case].numpy(), shape[1:])

        return build(cost, parts, samples[case].detach().numpy(), shares[case].numpy())

    return Decision(cost, samples, weights, program)


Parts = Callable[[str], Floats]


def _imbalance(parts: Parts, y: Floats, w: Floats, curved: Floats) -> tuple[Columns, Floats, Floats, Floats, Floats]:
    """a - y_m = over_m - under_m, each of them at a price: the columns, H, c, E, e."""
    members, size = y.shape
    columns, eye = Columns(a=size, under=y.size, over=y.size), np.eye(y.size)
    prices = columns.vector(under=np.kron(w, parts("short")), over=np.kron(w, parts("long")))
    block = np.diag(np.kron(w, curved))
    bent = columns.square("under", "under", block) + columns.square("over", "over", block)
    bent -= columns.square("under", "over", block) + columns.square("over", "under", block)
    rows = columns.rows(a=np.tile(np.eye(size), (members, 1)), under=eye, over=-eye)
    return columns, bent, prices, rows, y.ravel()


def _schedule_program(cost: ScheduleCost, parts: Parts, y: Floats, w: Floats) -> QuadraticProgram:
    columns, bent, prices, rows, right = _imbalance(parts, y, w, parts("quadratic"))
    size, eye = y.shape[1], np.eye(y.shape[1])
    limits = [_not_negative(columns, "under"), _not_negative(columns, "over")]
    limits.append((columns.rows(a=-eye), -parts("lower")))
    if cost.upper is not None:
        limits.append((columns.rows(a=eye), parts("upper")))
    if cost.ramp is not None and size > 1:
        steps = np.diff(eye, axis=0)
        limits += [(columns.rows(a=sign * steps), parts("ramp")[1:]) for sign in (1, -1)]
    return QuadraticProgram(bent, prices, rows, right, *stacked(limits, columns.size))


def _allocation_program(cost: AllocationCost, parts: Parts, y: Floats, w: Floats) -> QuadraticProgram:
    columns, bent, prices, rows, right = _imbalance(parts, y, w, np.zeros(y.shape[1]))
    limits = [_not_negative(columns, name) for name in ("a", "under", "over")]
    limits.append((columns.rows(a=np.ones((1, y.shape[1]))), parts("budget")[:1]))
    return QuadraticProgram(bent, prices, rows, right, *stacked(limits, columns.size))


def _not_negative(columns: Columns, name: str) -> tuple[Floats, Floats]:
    place = columns.places[name]
    size = place.stop - place.start
    return columns.rows(**{name: -np.eye(size)}), np.zeros(size)


def _storage_program(cost: StorageCost, parts: Parts, y: Floats, w: Floats) -> QuadraticProgram:
    """y + discharged - charged + bought - spilled = a, and what is held stays between 0 and the energy."""
    members, size = y.shape
    columns = Columns(a=size, charged=y.size, discharged=y.size, bought=y.size, spilled=y.size)
    eye, so_far = np.eye(y.size), np.kron(np.eye(members), np.tril(np.ones((size, size))))
    prices = columns.vector(a=-parts("price"), bought=np.kron(w, parts("short")), spilled=np.kron(w, parts("long")))
    rows = columns.rows(a=-np.tile(np.eye(size), (members, 1)), charged=-eye, discharged=eye, bought=eye, spilled=-eye)
    held = columns.rows(charged=cost.efficiency * so_far, discharged=-so_far)
    start, power, energy = (np.tile(parts(name), members) for name in ("start", "power", "energy"))
    limits = [_not_negative(columns, name) for name in columns.places]
    limits += [(held, energy - start), (-held, start)]
    limits += [(columns.rows(charged=eye), power), (columns.rows(discharged=eye), power)]
    bent = np.zeros((columns.size, columns.size))
    return QuadraticProgram(bent, prices, rows, -y.ravel(), *stacked(limits, columns.size))


def _arbitrage_program(cost: ArbitrageCost, parts: Parts, y: Floats, w: Floats) -> QuadraticProgram:
    size, mean = y.shape[1], w @ y
    columns, eye, so_far = Columns(charged=size, discharged=size), np.eye(size), np.tril(np.ones((size, size)))
    held = columns.rows(charged=cost.efficiency * so_far, discharged=-so_far)
    limits = [_not_negative(columns, name) for name in columns.places]
    limits += [(held, parts("energy")), (-held, np.zeros(size))]
    limits += [(columns.rows(charged=eye), parts("power")), (columns.rows(discharged=eye), parts("power"))]
    return QuadraticProgram(
        cost.quadratic * np.eye(2 * size),
        columns.vector(charged=mean, discharged=-mean),
        columns.rows(charged=eye[:0]),
        np.zeros(0),
        *stacked(limits, columns.size),
    )
