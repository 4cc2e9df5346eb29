"""A step of the interior-point method, Mehrotra's, with members eliminated."""

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from stakes.method.scenario_data import ScenarioData, beside, times

__all__ = [
    "Iterate",
    "Products",
    "Residuals",
    "StepSystem",
    "either",
    "gap_of",
    "limited",
    "residuals_of",
    "stepped",
    "towards",
]

_TO_THE_LIMIT = 0.99  # of the way to the nearest limit
_TINY = 1e-300
_REFINED = 1  # how often a step is refined
_REPEATED = 1e-13  # what keeps the factorisation of equations positive, as a share of the diagonal
_RIDGE = 1e-15  # what keeps a factorisation positive, as a share of the diagonal


class Iterate(NamedTuple):
    """Where a method stands: the action, slacks and prices; all slacks and all prices but nu are positive.

    Attributes:
        a: The action, (B, A).
        s: What the limits leave, d - C a, (B, K).
        price: That of the limits, (B, K).
        nu: That of the equations, (B, J).
        z: The recourse, (B, M, Z).
        v: What the recourse reaches beyond its rows, (B, M, R).
        mu: The price of a row of a member, over its weight, (B, M, R).
        zeta: The price of z >= 0, likewise, (B, M, Z).
    """

    a: Tensor
    s: Tensor
    price: Tensor
    nu: Tensor
    z: Tensor
    v: Tensor
    mu: Tensor
    zeta: Tensor


class Residuals(NamedTuple):
    """What an iterate violates.

    Attributes:
        a: The slope of the cost by the action, (B, A).
        c: The limits, (B, K).
        e: The equations, (B, J).
        z: The slope of the cost by the recourse, (B, M, Z).
        v: The rows of the recourse, (B, M, R).
    """

    a: Tensor
    c: Tensor
    e: Tensor
    z: Tensor
    v: Tensor


def residuals_of(data: ScenarioData, x: Iterate) -> Residuals:
    """What an iterate violates.

    Args:
        data: The programs.
        x: The iterate.
    """
    recourse = data.recourse
    return Residuals(
        a=times(data.P, x.a) + data.p + x.price @ data.C + x.nu @ data.E - recourse.pull(data.weights, x.mu),
        c=limited(data, x.a @ data.C.mT + x.s - data.d),
        e=x.a @ data.E.mT - data.e,
        z=data.curvature * recourse.curved(x.z) + data.q - recourse.priced(x.mu) - x.zeta,
        v=recourse.reached(x.z) + recourse.moved(x.a) - x.v - data.h,
    )


def limited(data: ScenarioData, values: Tensor) -> Tensor:
    """The values of the limits there are, 0 elsewhere, (B, K).

    Args:
        data: The programs.
        values: One for each limit, (B, K).
    """
    return torch.where(torch.isfinite(data.d), values, 0.0)


def gap_of(data: ScenarioData, x: Iterate) -> Tensor:
    """The sum of slacks times prices, (B,): the duality gap where nothing is violated.

    Args:
        data: The programs.
        x: The iterate.
    """
    members = (x.v * x.mu).sum(-1) + (x.z * x.zeta).sum(-1)
    return (x.s * x.price).sum(-1) + (data.weights * members).sum(-1)


class Products(NamedTuple):
    """Slacks times prices, less what they are to become.

    Attributes:
        s: Of the limits, (B, K).
        v: Of the rows of the recourse, (B, M, R).
        z: Of its parts, (B, M, Z).
    """

    s: Tensor
    v: Tensor
    z: Tensor


class StepSystem:
    """The linear system of a step at one iterate, factorised.

    Args:
        data: The programs.
        x: The iterate.
    """

    def __init__(self, data: ScenarioData, x: Iterate) -> None:
        self.data, self.x = data, x
        self.blocks = data.recourse.blocks(data.curvature, x.zeta / x.z, x.v / x.mu)
        limits = data.C.mT @ ((x.price / x.s)[..., None] * data.C)
        self.matrix = data.P + limits + self.blocks.on_actions(data.weights)  # (B, A, A)
        self.shape = self.matrix.diagonal(dim1=-2, dim2=-1).clamp(min=_TINY).rsqrt()
        even = self.shape[..., None] * self.matrix * self.shape[:, None]
        self.factor = torch.linalg.cholesky_ex(
            even + _RIDGE * torch.eye(even.shape[-1], dtype=even.dtype, device=even.device)
        ).L
        if len(data.E):
            self.across = torch.cholesky_solve(data.E.mT.expand(len(even), -1, -1) * self.shape[..., None], self.factor)
            self.across = self.shape[..., None] * self.across  # (B, A, J)
            own = data.E @ self.across  # (B, J, J); equations may repeat each other, or say nothing
            size = own.diagonal(dim1=-2, dim2=-1)
            ridge = torch.where(size > 0, _REPEATED * size, 1.0)
            self.equations = torch.linalg.cholesky_ex(own + torch.diag_embed(ridge)).L

    def flat(self, least: Tensor) -> Tensor:
        """Whether some way of the action has no curvature but that of rounding, (B,), bool; hidden parts apart.

        Args:
            least: The curvature up to which there is none, (B,).
        """
        pivots = self.factor.diagonal(dim1=-2, dim2=-1).square()  # of K with ones on its diagonal
        rounding = 4 * pivots.shape[-1] * torch.finfo(pivots.dtype).eps
        flat = (pivots < rounding) | (pivots < least[:, None] * self.shape**2)
        return flat[:, : flat.shape[-1] - self.data.recourse.hidden].any(-1)

    def step(self, residuals: Residuals, products: Products) -> Iterate:
        """The step that would remove the residuals and the products, were the problem linear.

        Args:
            residuals: What the iterate violates.
            products: Slacks times prices, less what they are to become.
        """
        step = self.unrefined_step(residuals, products)
        if not self.data.recourse.loses_digits:
            return step
        for _ in range(_REFINED):
            step = Iterate(*map(torch.add, step, self.unrefined_step(*self._left(step, residuals, products))))
        return step

    def _left(self, step: Iterate, residuals: Residuals, products: Products) -> tuple[Residuals, Products]:
        """What a step leaves of the residuals and the products."""
        x, data = self.x, self.data
        p, e, q, h = (torch.zeros_like(each) for each in (data.p, data.e, data.q, data.h))
        linear = replace(data, p=p, d=torch.where(torch.isfinite(data.d), 0.0, torch.inf), e=e, q=q, h=h)
        left = Residuals(*map(torch.add, residuals_of(linear, step), residuals))
        return left, Products(
            products.s + x.s * step.price + x.price * step.s,
            products.v + x.v * step.mu + x.mu * step.v,
            products.z + x.z * step.zeta + x.zeta * step.z,
        )

    def unrefined_step(self, residuals: Residuals, products: Products) -> Iterate:
        """The step as the factors give it, with the digits that they have.

        Args:
            residuals: What the iterate violates.
            products: Slacks times prices, less what they are to become.
        """
        x, data, blocks, recourse = self.x, self.data, self.blocks, self.data.recourse
        slope = residuals.z + products.z / x.z
        b = recourse.reached(blocks.theta(slope)) - residuals.v - products.v / x.mu
        pull = recourse.pull(data.weights, blocks.solve(b))
        pushed = (x.price * residuals.c - products.s) / x.s
        a, nu = self.actions(pull - residuals.a - pushed @ data.C, residuals.e)
        mu = blocks.solve(b - recourse.moved(a))
        z = blocks.theta(recourse.priced(mu) - slope)
        s = limited(data, -residuals.c - a @ data.C.mT)
        return Iterate(
            a,
            s,
            -(products.s + x.price * s) / x.s,
            nu,
            z,
            -(products.v + x.v * mu) / x.mu,
            mu,
            -(products.z + x.zeta * z) / x.z,
        )

    def actions(self, slope: Tensor, off: Tensor) -> tuple[Tensor, Tensor]:
        """The a and nu with K a + E'nu = slope and E a = -off, (B, A) and (B, J).

        Args:
            slope: (B, A).
            off: (B, J).
        """
        a = self._solved(slope)
        a = a + self._solved(slope - times(self.matrix, a))
        if not len(self.data.E):
            return a, off
        nu = torch.cholesky_solve((a @ self.data.E.mT + off)[..., None], self.equations)
        return a - (self.across @ nu)[..., 0], nu[..., 0]

    def _solved(self, slope: Tensor) -> Tensor:
        return self.shape * torch.cholesky_solve((self.shape * slope)[..., None], self.factor)[..., 0]


def _length(x: Iterate, step: Iterate, most: float = 1.0) -> Tensor:
    """How far all slacks and prices stay positive, at most 1 or another number, (B,)."""
    pairs = [(getattr(x, name), getattr(step, name)) for name in ("s", "z", "v", "mu", "zeta")]
    pairs.append((torch.where(x.price > 0, x.price, 1.0), step.price))  # there is none where there is no limit
    fastest = [(change / value).flatten(1).amin(1) for value, change in pairs if value.shape[1:].numel()]
    return -1 / torch.stack(fastest).amin(0).clamp(max=-1 / most)


def _moved(x: Iterate, step: Iterate, length: Tensor) -> Iterate:
    return Iterate(*(torch.addcmul(one, beside(length, one), change) for one, change in zip(x, step, strict=True)))


def either(chosen: Tensor, x: Iterate, other: Iterate) -> Iterate:
    """The one iterate where it is chosen, else the other.

    Args:
        chosen: Which cases, (B,), bool.
        x: The one.
        other: The other.
    """
    return Iterate(*(torch.where(beside(chosen, one), one, two) for one, two in zip(x, other, strict=True)))


def towards(data: ScenarioData, x: Iterate, residuals: Residuals, products: Products) -> Iterate:
    """One step of Newton's method, as far as slacks and prices stay positive.

    Args:
        data: The programs.
        x: Where it starts.
        residuals: What that violates.
        products: Slacks times prices, less what they are to become.
    """
    step = StepSystem(data, x).step(residuals, products)
    return _moved(x, step, _TO_THE_LIMIT * _length(x, step, 1 / _TO_THE_LIMIT))


def stepped(data: ScenarioData, x: Iterate, residuals: Residuals) -> Iterate:
    """One step of Mehrotra's method.

    Args:
        data: The programs.
        x: Where it starts.
        residuals: What that violates.
    """
    system, share = StepSystem(data, x), 1 / data.h.shape[1]
    count = share * torch.isfinite(data.d).sum(-1) + x.v.shape[-1] + x.z.shape[-1]
    products = Products(x.s * x.price, x.v * x.mu, x.z * x.zeta)
    straight = system.unrefined_step(residuals, products)
    gap, length = gap_of(data, x), _length(x, straight)
    # What the straight step leaves: where slack and price both go to zero their product falls more slowly than others,
    # which must not run ahead of it.
    slower = (length**2 * gap_of(data, straight) / gap.clamp(min=_TINY)).clamp(min=0.0)
    target = (1 - length + slower).clamp(max=1.0) ** 3 * gap / count  # (B,)
    bent = Products(
        limited(data, products.s + straight.s * straight.price - share * target[:, None]),
        products.v + straight.v * straight.mu - target[:, None, None],
        products.z + straight.z * straight.zeta - target[:, None, None],
    )
    step = system.step(residuals, bent)
    return _moved(x, step, _TO_THE_LIMIT * _length(x, step))
