"""Random scenario programs, and what Clarabel says of them."""

from collections.abc import Callable

import cvxpy
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stakes.method.member_blocks import Recourse
from stakes.method.scenario_data import ScenarioData


def random_programs(generator: torch.Generator, kind: str, cases: int = 3) -> ScenarioData:
    """A batch of one shape: "solvable", "infeasible" (bounds cross), "unlimited", or "unbounded" in many cases."""

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    def number(low: int, high: int) -> int:
        return int(torch.randint(low, high, (1,), generator=generator))

    parts, members, limits = number(1, 6), number(1, 8), number(0, 5)
    equations = number(0, 2) if parts > 1 else 0
    recourse = _random_recourse(normal, number, parts)
    curved = normal(cases, parts, parts)
    eye = torch.eye(parts, dtype=torch.float64)
    limit, equation, inside = normal(limits, parts), normal(equations, parts), normal(cases, parts)
    rows = torch.cat([limit, eye, -eye])
    allowed = inside @ rows.mT + normal(cases, len(rows)).abs()
    if kind == "infeasible":
        allowed[:, -1] = -(allowed[:, -parts - 1] + 1)
    if kind == "unlimited":
        allowed[:, limits:] = torch.inf
    price = normal(cases, members, recourse.parts)
    weights = torch.rand(cases, members, generator=generator, dtype=torch.float64) + 0.1
    return ScenarioData(
        P=curved @ curved.mT * number(0, 2),
        p=normal(cases, parts),
        C=rows,
        d=allowed,
        E=equation,
        e=inside @ equation.mT,
        recourse=recourse,
        q=price if kind == "unbounded" else price.abs() + 0.1,
        h=normal(cases, members, recourse.rows) * 10.0 ** number(-2, 5),
        weights=weights / weights.sum(1, keepdim=True),
        curvature=torch.ones(cases, 1, 1, dtype=torch.float64),
    )


def _random_recourse(normal: Callable[..., Tensor], number: Callable[[int, int], int], parts: int) -> Recourse:
    rows = number(1, 6)
    if number(0, 2):
        return Recourse(normal(rows).clamp(min=0.0), 1 + normal(rows).abs(), normal(rows, parts))
    more = number(1, 8)
    size = more + rows  # with a way to reach every row, so that there is always a recourse
    curved = normal(size, size)
    matrix = curved @ curved.mT / size if number(0, 2) else torch.zeros(size, dtype=torch.float64)
    reach = torch.cat([normal(rows, more), torch.eye(rows, dtype=torch.float64)], 1)
    return Recourse(matrix, reach, normal(rows, parts))


def clarabel(data: ScenarioData, case: int) -> tuple[float, str]:
    """The least objective and the verdict of Clarabel: optimal, infeasible or unbounded."""
    P, Q, W = (_matrix(each) for each in (data.P[case % len(data.P)], data.recourse.Q, data.recourse.W))  # noqa: N806
    members, rows = data.h.shape[1:]
    q, w = data.q.expand(-1, members, -1)[case].numpy(), data.weights[case].numpy()
    a, z = cvxpy.Variable(data.p.shape[1]), cvxpy.Variable((members, data.recourse.parts), nonneg=True)
    cost = (
        0.5 * cvxpy.quad_form(a, cvxpy.psd_wrap(P))
        + data.p[case].numpy() @ a
        + cvxpy.sum(cvxpy.multiply(w[:, None] * q, z))
    )
    if Q.any():
        cost += sum(0.5 * w[m] * cvxpy.quad_form(z[m], cvxpy.psd_wrap(Q)) for m in range(members))
    reached = z @ W.T + cvxpy.reshape(data.recourse.T.numpy() @ a, (1, rows), order="C")
    known = torch.isfinite(data.d[case])
    limits = [reached >= data.h[case].numpy()]
    if known.any():
        limits.append(data.C[known].numpy() @ a <= data.d[case][known].numpy())
    if len(data.E):
        limits.append(data.E.numpy() @ a == data.e[case].numpy())
    problem = cvxpy.Problem(cvxpy.Minimize(cost), limits)
    value = problem.solve(solver="CLARABEL")
    return float(value), problem.status.replace("_inaccurate", "")


def _matrix(values: Tensor) -> NDArray[np.float64]:
    return (torch.diag(values) if values.dim() == 1 else values).numpy()
