"""The minimum of convex functions within linear limits, many at once: a primal-dual Newton method.

    minimise over x   f(x)   subject to   C x <= d,   E x = e

from a point strictly within the limits, with slacks s = d - C x and prices that stay positive. A step solves

    (H + C' diag(price / s) C) dx + E'dnu = -(f' + E'nu + C'(target / s)),   E dx = e - E x,

the condition of a minimum with every product of slack and price at one target, which falls to zero; it is halved until
what is violated falls. Limits keep the matrix positive, so that f may be flat.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from stakes.method.argument_checks import known_on_host, require_count, require_positive
from stakes.method.derivatives import ExpectedCost, slope_and_hessian, slope_of

__all__ = ["BarrierNewton", "BarrierSolution", "BarrierSystem", "LinearLimits"]

_TO_THE_LIMIT = 0.99  # of the way to the nearest limit
_HALVINGS = 8
_LEAST_SLACK = 1e-14  # of the room that a limit leaves
_RIDGE = 1e-15  # what keeps a factorisation positive, as a share of the diagonal


class LinearLimits(NamedTuple):
    """C x <= d and E x = e.

    Attributes:
        C: The limits, (K, A), enough of them to bound every part.
        d: What they allow, (..., K).
        E: The equations, (J, A).
        e: What they equal, (..., J).
        room: How far each limit may be away, (..., K), positive.
    """

    C: Tensor
    d: Tensor
    E: Tensor
    e: Tensor
    room: Tensor

    def slack(self, x: Tensor) -> Tensor:
        """What the limits leave, (..., K), kept positive.

        Args:
            x: (..., A).
        """
        return torch.maximum(self.d - x @ self.C.mT, _LEAST_SLACK * self.room)


class BarrierSolution(NamedTuple):
    """Where the method ended, in each case (...).

    Attributes:
        x: The best x, (..., A).
        price: That of the limits, (..., K).
        nu: That of the equations, (..., J).
        error: The largest violation of the conditions of a minimum, in units of the case, (...).
        unit: How much f varies between the limits, as its derivatives at the start tell, (...), positive.
    """

    x: Tensor
    price: Tensor
    nu: Tensor
    error: Tensor
    unit: Tensor


@dataclass(frozen=True)
class BarrierNewton:
    """How convex functions are minimised.

    Attributes:
        iterations: How many steps are taken at most. On an accelerator the number is fixed; on a CPU the method ends
            when all cases are solved.
        tolerance: The largest violation of the conditions of a minimum at which a case is left alone, in units of the
            case.
    """

    iterations: int = 40
    tolerance: float = 1e-13

    def __post_init__(self) -> None:
        require_count("iterations", self.iterations, 1)
        require_positive("tolerance", self.tolerance)

    def __call__(self, f: ExpectedCost, limits: LinearLimits, start: Tensor, width: Tensor) -> BarrierSolution:
        """The minimum of each case.

        Args:
            f: Values (...) of x (..., A), each case its own function.
            limits: The limits.
            start: A point strictly within them, (..., A).
            width: How far each part may go, (..., A).
        """
        slope, hessian = slope_and_hessian(f, start)
        curved = hessian.diagonal(dim1=-2, dim2=-1)
        unit = (slope.abs() * width + curved.abs() * width**2).sum(-1)
        unit = torch.where((unit > 0) & (unit < torch.inf), unit, 1.0)
        slack = limits.slack(start)
        best = BarrierSolution(
            start, 0.1 * unit[..., None] / slack, torch.zeros_like(limits.e), torch.full_like(unit, torch.inf), unit
        )
        at = best
        for count in range(self.iterations + 1):
            at = at._replace(error=_error(at, slope, limits, width))
            best = _either(at.error < best.error, at, best)
            waiting = best.error > self.tolerance
            if count == self.iterations or known_on_host(~waiting.any()):
                break
            at = _either(waiting, _stepped(f, at, slope, hessian, limits, width), at)
            slope, hessian = slope_and_hessian(f, at.x)
        return best


class BarrierSystem:
    """The linear system of a step, factorised.

    Args:
        hessian: H, (..., A, A).
        ratio: price / s, (..., K).
        limits: The limits.
    """

    def __init__(self, hessian: Tensor, ratio: Tensor, limits: LinearLimits) -> None:
        self.E = limits.E
        self.matrix = hessian + limits.C.mT @ (ratio[..., None] * limits.C)
        self.shape = self.matrix.diagonal(dim1=-2, dim2=-1).abs().clamp(min=1e-300).rsqrt()
        even = self.shape[..., None] * self.matrix * self.shape[..., None, :]
        eye = torch.eye(even.shape[-1], dtype=even.dtype, device=even.device)
        factor, failed = torch.linalg.cholesky_ex(even + _RIDGE * eye)
        if known_on_host((failed == 0).all()) is not True:  # where f is not convex the step is that of a convex one
            size = even.abs().sum((-2, -1), keepdim=True)
            factor = torch.where((failed == 0)[..., None, None], factor, torch.linalg.cholesky_ex(even + size * eye).L)
        self.factor = factor
        if len(self.E):
            self.across = self._inverse(self.E.mT.expand(*even.shape[:-2], -1, -1))  # (..., A, J)
            self.equations = torch.linalg.cholesky_ex(self.E @ self.across).L

    def solve(self, slope: Tensor, off: Tensor) -> tuple[Tensor, Tensor]:
        """The x and nu with K x + E'nu = slope and E x = off.

        Args:
            slope: (..., A).
            off: (..., J).
        """
        x = self._inverse(slope[..., None])
        x = (x + self._inverse(slope[..., None] - self.matrix @ x))[..., 0]
        if not len(self.E):
            return x, off
        nu = torch.cholesky_solve((x @ self.E.mT - off)[..., None], self.equations)
        return x - (self.across @ nu)[..., 0], nu[..., 0]

    def _inverse(self, columns: Tensor) -> Tensor:
        return self.shape[..., None] * torch.cholesky_solve(self.shape[..., None] * columns, self.factor)


def _error(at: BarrierSolution, slope: Tensor, limits: LinearLimits, width: Tensor) -> Tensor:
    violated = (_condition(at, slope, limits) * width).abs().sum(-1)
    return (violated + (limits.slack(at.x) * at.price).sum(-1)) / at.unit


def _condition(at: BarrierSolution, slope: Tensor, limits: LinearLimits) -> Tensor:
    """What the slopes of f and of the limits leave, (..., A): zero at a minimum."""
    return slope + at.price @ limits.C + at.nu @ limits.E


def _stepped(
    f: ExpectedCost, at: BarrierSolution, slope: Tensor, hessian: Tensor, limits: LinearLimits, width: Tensor
) -> BarrierSolution:
    """One step: where it would go without a target tells the target."""
    slack = limits.slack(at.x)
    system, products = BarrierSystem(hessian, at.price / slack, limits), (slack * at.price).mean(-1)

    def towards(target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        pushed = slope + at.nu @ limits.E + (target[..., None] / slack) @ limits.C
        x, nu = system.solve(-pushed, limits.e - at.x @ limits.E.mT)
        price = (target[..., None] + at.price * (x @ limits.C.mT)) / slack - at.price
        return x, price, nu

    straight = towards(torch.zeros_like(products))
    target = ((1 - _length(at, straight, slack, limits)) ** 3).clamp(min=1e-3) * products
    step = towards(target)
    length = _TO_THE_LIMIT * _length(at, step, slack, limits)
    before = _violated(at, slope, limits, width, target)
    taken, waiting = at, length > 0
    for _ in range(_HALVINGS):
        moved = at._replace(
            **{
                name: getattr(at, name) + length[..., None] * part
                for name, part in zip(("x", "price", "nu"), step, strict=True)
            }
        )
        after = _violated(moved, slope_of(f, moved.x), limits, width, target)
        better = waiting & (after <= (1 - 0.01 * length) * before)
        taken, waiting = _either(better, moved, taken), waiting & ~better
        if known_on_host(~waiting.any()):
            break
        length = torch.where(waiting, length / 2, length)
    return _either(waiting & torch.isfinite(after), moved, taken)


def _violated(at: BarrierSolution, slope: Tensor, limits: LinearLimits, width: Tensor, target: Tensor) -> Tensor:
    """The size of all that a step is to remove, (...)."""
    condition = _condition(at, slope, limits) * width
    centred = limits.slack(at.x) * at.price - target[..., None]
    return (condition.square().sum(-1) + centred.square().sum(-1)).sqrt()


def _length(at: BarrierSolution, step: tuple[Tensor, Tensor, Tensor], slack: Tensor, limits: LinearLimits) -> Tensor:
    """How far slacks and prices stay positive, at most 1, (...)."""
    x, price, _ = step
    fastest = torch.minimum((-(x @ limits.C.mT) / slack).amin(-1), (price / at.price).amin(-1))
    return -1 / fastest.clamp(max=-1.0)


def _either(chosen: Tensor, one: BarrierSolution, other: BarrierSolution) -> BarrierSolution:
    wide = chosen[..., None]
    return BarrierSolution(
        *(torch.where(wide if a.dim() > chosen.dim() else chosen, a, b) for a, b in zip(one, other, strict=True))
    )
