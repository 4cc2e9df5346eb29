"""The numbers of a batch of scenario programs, and the units in which each case has numbers of the order of one."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from stakes.method.argument_checks import known_on_host
from stakes.method.charge_row import ChargedRecourse
from stakes.method.member_blocks import Recourse

__all__ = ["ScenarioData", "Units", "beside", "largest", "recourse_alone", "scaled", "tidied", "times"]

_CORRECTIONS, _RIDGE = 10, 1e-12
_ROUNDING = 16 * torch.finfo(torch.float64).eps  # of an action: by how much one of that size may miss a limit
_FARTHEST = 100.0  # tolerances that another part of the action may move


@dataclass(frozen=True, eq=False)
class ScenarioData:
    """B programs of one shape, with M members each, in double precision.

    Attributes:
        P: The curvature of the action's own cost, (B, A, A) or (1, A, A), positive semidefinite.
        p: The slope of it, (B, A).
        C: The limits of the action, (K, A).
        d: What they allow, (B, K); infinite where a case has no such limit.
        E: The equations of the action, (J, A).
        e: What they equal, (B, J).
        recourse: Q, W and T, and what a member is charged beyond a threshold where risk is averted.
        q: What the recourse costs, (B, M, Z) or (B, 1, Z).
        h: What it has to reach, (B, M, R).
        weights: What each member weighs, (B, M), adding up to 1 in every case.
        curvature: By what Q is multiplied in each case, (B, 1, 1).
    """

    P: Tensor
    p: Tensor
    C: Tensor
    d: Tensor
    E: Tensor
    e: Tensor
    recourse: Recourse | ChargedRecourse
    q: Tensor
    h: Tensor
    weights: Tensor
    curvature: Tensor

    def rows(self, places: Tensor | slice) -> "ScenarioData":
        """Some of the cases.

        Args:
            places: Which, (n,) or a slice.
        """
        names = ("p", "d", "e", "q", "h", "weights", "curvature")
        chosen = {name: getattr(self, name)[places] for name in names}
        P = self.P if len(self.P) == 1 else self.P[places]  # noqa: N806
        return replace(self, P=P, recourse=self.recourse.chosen(places), **chosen)


def tidied(data: ScenarioData, action: Tensor, tolerance: float) -> Tensor:
    """Actions (B, A) with parts put on the bounds that they are within a tolerance of; the others make up for it.

    A case that would break a limit or an equation more than before keeps its action.

    Args:
        data: The programs.
        action: Their best actions, as a solver finds them.
        tolerance: How near a bound is, in units of the case.
    """
    bounds = (data.C != 0).sum(-1) == 1
    C, d = data.C[bounds], data.d[:, bounds]  # noqa: N806
    left = d - action @ C.mT
    unit = scaled(data)[1].action[:, None]
    near = ((left.abs() <= tolerance * unit) & torch.isfinite(left)).double()
    count = near @ C.abs().sign()
    moved = (near * left.nan_to_num(0.0, 0.0, 0.0)) @ torch.where(C != 0, 1 / C, 0.0) / count.clamp(min=1.0)
    tidy, free = action + moved, (count == 0).double()
    rows, allowed = torch.cat([data.C[~bounds], data.E]), torch.cat([data.d[:, ~bounds], data.e], -1)
    equal = torch.arange(len(rows), device=rows.device) >= len(rows) - len(data.E)

    def broken(each: Tensor) -> Tensor:
        over = each @ rows.mT - allowed
        return torch.where(equal, over, over.clamp(min=0.0))

    rounding = _ROUNDING * torch.maximum(unit[:, 0], largest(action))
    for _ in range(_CORRECTIONS):
        over = broken(tidy)
        if known_on_host((largest(over) <= rounding).all()):
            break
        own = rows * free[:, None] * ((over != 0) | equal)[..., None]  # (B, rows, A)
        lower = torch.linalg.cholesky_ex(own @ own.mT + _RIDGE * torch.eye(len(rows)).to(own)).L
        tidy = tidy - (own.mT @ torch.cholesky_solve(over[..., None], lower))[..., 0]
    before, after = (
        torch.maximum(largest(broken(each)), largest((each @ C.mT - d).clamp(min=0.0))) for each in (action, tidy)
    )
    kept = (after <= torch.maximum(before, rounding)) & (largest(tidy - action) <= _FARTHEST * tolerance * unit[:, 0])
    return torch.where(kept[:, None], tidy, action)


class Units(NamedTuple):
    """The units of each case.

    Attributes:
        action: Of the action and the recourse, (B,).
        cost: Of prices, (B,).
    """

    action: Tensor
    cost: Tensor


def scaled(data: ScenarioData) -> tuple[ScenarioData, Units]:
    """The same programs with numbers of the order of one, and their units.

    Args:
        data: The programs.
    """
    allowed = torch.where(torch.isfinite(data.d), data.d, 0.0)
    reach = torch.maximum(largest(data.h), _least_action(data))
    action = _positive(torch.where(reach > 0, reach, largest(allowed)))
    curved = largest(data.P.expand(len(action), -1, -1), data.curvature * data.recourse.Q.abs().amax())
    cost = _positive(torch.maximum(largest(data.q, data.p), action * curved))
    of_action, of_cost = (lambda value: value / beside(action, value)), (lambda value: value / beside(cost, value))
    changed = {name: of_action(getattr(data, name)) for name in ("d", "e", "h")}
    changed |= {name: of_cost(getattr(data, name)) for name in ("p", "q")}
    ratio = action / cost
    changed |= {"P": beside(ratio, data.P) * data.P, "curvature": beside(ratio, data.curvature) * data.curvature}
    return replace(data, **changed), Units(action, cost)


def _least_action(data: ScenarioData) -> Tensor:
    """What the largest part of an action has at least, by each limit that forbids zero and by each equation, (B,)."""
    sides = ((data.C, torch.where(torch.isfinite(data.d), -data.d, 0.0).clamp(min=0.0)), (data.E, data.e))
    return largest(*(right / _positive(matrix.abs().sum(-1)) for matrix, right in sides))


def _positive(values: Tensor) -> Tensor:
    return torch.where(values > 0, values, 1.0)


def largest(*values: Tensor) -> Tensor:
    """The largest absolute value in each case, (B,).

    Args:
        values: Numbers (B, ...) of the cases.
    """
    sizes = [value.abs().flatten(1).amax(1) for value in values if value.shape[1:].numel()]
    return torch.stack(sizes).amax(0) if sizes else values[0].new_zeros(len(values[0]))


def beside(values: Tensor, other: Tensor) -> Tensor:
    """One number a case, to be broadcast against other numbers of the cases.

    Args:
        values: The numbers (B,).
        other: The others, (B, ...).
    """
    return values.reshape(-1, *[1] * (other.dim() - 1))


def times(matrix: Tensor, vector: Tensor) -> Tensor:
    """The product of each matrix and its vector, (..., n).

    Args:
        matrix: (..., n, m).
        vector: (..., m).
    """
    return (matrix @ vector[..., None])[..., 0]


def recourse_alone(recourse: Recourse, price: Tensor, asked: Tensor) -> ScenarioData:
    """Each case's own recourse as a program whose action, of one part, does nothing and costs what is usual there.

    Args:
        recourse: The matrices.
        price: What the recourse costs, (..., Z).
        asked: What its rows are asked for, (..., R).
    """
    q, h = price.reshape(-1, 1, recourse.parts), asked.reshape(-1, 1, recourse.rows)
    blank = h[:, 0, :1]
    nothing: dict[str, Any] = {"C": blank[:0], "d": blank[:, :0], "E": blank[:0], "e": blank[:, :0]}
    usual = largest(q) / torch.where(largest(h) > 0, largest(h), 1.0)
    return ScenarioData(
        P=torch.where(usual > 0, usual, 1.0)[:, None, None],
        p=torch.zeros_like(blank),
        recourse=recourse.idle,
        q=q,
        h=h,
        weights=torch.ones_like(blank),
        curvature=torch.ones_like(blank)[..., None],
        **nothing,
    )
