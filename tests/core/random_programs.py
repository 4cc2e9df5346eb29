"""Random scenario programs, and what Clarabel says of them."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stakes import ScenarioProgram
from stakes.programs.interior_point import ProgramSolution, ScenarioData
from stakes.programs.recourse import Recourse, split

from .quadratic_programs import Answer, Columns, QuadraticProgram, stacked


def random_programs(generator: torch.Generator, kind: str, cases: int = 3, *, in_groups: bool = False) -> ScenarioData:
    """A batch of one shape: "solvable", "infeasible" (bounds cross), "unlimited", or "unbounded" in many cases.

    A recourse in groups has equations in some of them, each as two rows that contradict each other.
    """

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    def number(low: int, high: int) -> int:
        return int(torch.randint(low, high, (1,), generator=generator))

    parts, members, limits = number(1, 6), number(1, 8), number(0, 5)
    equations = number(0, 2) if parts > 1 else 0
    recourse = (_grouped_recourse if in_groups else _random_recourse)(normal, number, parts)
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
        h=_asked(recourse, normal(cases, members, recourse.rows)) * 10.0 ** number(-2, 5),
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


def _grouped_recourse(normal: Callable[..., Tensor], number: Callable[[int, int], int], parts: int) -> Recourse:
    """Groups of one to nine rows; whatever a row asks for, more or less of a part of its own gives it."""
    reach, moves = [], []
    for _ in range(number(2, 5)):
        rows, more = number(1, 4) if number(0, 5) else 9, number(0, 3)
        eye = torch.eye(rows, dtype=torch.float64)
        W, T = torch.cat([normal(rows, more), eye, -eye], 1), normal(rows, parts)  # noqa: N806
        equations = bool(number(0, 2)) and rows < 9
        reach.append(torch.cat([W, -W]) if equations else W)
        moves.append(torch.cat([T, -T]) if equations else T)
    whole = torch.block_diag(*reach)
    order = normal(len(whole)).argsort()
    squares = normal(whole.shape[1]).clamp(min=0.0) * number(0, 2)
    return split(Recourse(squares, whole[order], torch.cat(moves)[order]))


def _asked(recourse: Recourse, drawn: Tensor) -> Tensor:
    """What rows ask for (..., R), the opposite of it where the row is the opposite of one before."""
    full = torch.diag(recourse.W) if recourse.W.dim() == 1 else recourse.W
    opposite = (full[:, None] == -full).all(-1) & (recourse.T[:, None] == -recourse.T).all(-1)
    first = opposite.tril(-1)
    return torch.where(first.any(1), -drawn[..., first.int().argmax(1)], drawn)


def random_scenario_program(generator: torch.Generator, *, in_groups: bool = False) -> tuple[ScenarioProgram, Tensor]:
    """One program in which the outcome moves prices and rows, with its members (1, M, D)."""
    data = random_programs(generator, "solvable", 1, in_groups=in_groups)
    recourse, parts = data.recourse, data.p.shape[1]
    assert isinstance(recourse, Recourse)
    outcomes, members = (int(torch.randint(1, 5, (1,), generator=generator)) for _ in range(2))

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    program = ScenarioProgram(
        T=recourse.T,
        W=recourse.W,
        h_y=_asked(recourse, normal(outcomes, recourse.rows)).mT if in_groups else normal(recourse.rows, outcomes),
        q=data.q[0].mean(0) + 1,
        q_y=0.1 * normal(recourse.parts, outcomes),
        Q=recourse.Q,
        p=data.p[0],
        p_y=0.3 * normal(parts, outcomes),
        P=data.P[0],
        G=data.C,
        g=data.d[0],
        E=data.E if len(data.E) else None,
        e=data.e[0] if len(data.E) else None,
    )
    return program, normal(1, members, outcomes)


def whole_program(data: ScenarioData, case: int) -> QuadraticProgram:
    """One case with the recourse of every member beside the action."""
    members = data.h.shape[1]
    parts, size = data.recourse.parts, data.p.shape[1]
    columns, each = Columns(a=size, z=members * parts), np.eye(members)
    P, Q, W = (_matrix(each) for each in (data.P[case % len(data.P)], data.recourse.Q, data.recourse.W))  # noqa: N806
    q, w = data.q.expand(-1, members, -1)[case].numpy(), data.weights[case].numpy()
    bent = float(data.curvature[case]) * np.kron(np.diag(w), Q)
    known = torch.isfinite(data.d[case]).numpy()
    limits = [
        (columns.rows(a=data.C.numpy()[known]), data.d[case].numpy()[known]),
        (
            -columns.rows(a=np.tile(data.recourse.T.numpy(), (members, 1)), z=np.kron(each, W)),
            -data.h[case].numpy().ravel(),
        ),
        (-columns.rows(z=np.eye(members * parts)), np.zeros(members * parts)),
    ]
    return QuadraticProgram(
        columns.square("a", "a", P) + columns.square("z", "z", bent),
        columns.vector(a=data.p[case].numpy(), z=(w[:, None] * q).ravel()),
        columns.rows(a=data.E.numpy()),
        data.e[case].numpy(),
        *stacked(limits, columns.size),
    )


def our_answer(data: ScenarioData, solution: ProgramSolution, case: int) -> Answer:
    """What our solver says, as a point and prices of the whole program."""
    flags = {"optimal": solution.solved, "infeasible": solution.infeasible, "unbounded": solution.unbounded}
    verdict = next((name for name, flag in flags.items() if bool(flag[case])), "unknown")
    x, w, known = solution.iterate, data.weights[case][:, None], torch.isfinite(data.d[case])
    zeta = -data.recourse.priced(x.mu[case]).clamp(max=0.0) if verdict == "infeasible" else x.zeta[case]  # of the ray
    prices = (x.nu[case], x.price[case][known], w * x.mu[case], w * zeta)
    return Answer(
        verdict,
        torch.cat([x.a[case], x.z[case].flatten()]).numpy(),
        torch.cat([each.flatten() for each in prices]).numpy(),
        float(solution.objective[case]),
    )


def clarabel(data: ScenarioData, case: int) -> tuple[float, str]:
    """The least objective and the verdict of Clarabel: optimal, infeasible or unbounded."""
    answer = whole_program(data, case).clarabel()
    return answer.objective, answer.verdict


def _matrix(values: Tensor) -> NDArray[np.float64]:
    return (torch.diag(values) if values.dim() == 1 else values).numpy()
