"""The 24-hour schedule of `benchmarks.schedules` as other differentiable solvers state and solve it.

Each of them solves the same program, with one variable for what a member misses in an hour; the squares are written by
the mean of the members, which is the shorter of two ways. Whoever is not installed is left out.
"""

from collections.abc import Callable
from importlib.util import find_spec

import torch
from torch import Tensor

Layer = Callable[[Tensor], Tensor]


def rivals(prices: tuple[float, float, float], ramp: float, members: int, hours: int) -> dict[str, Layer]:
    """All that are installed, by name: from members (B, M, T) to schedules (B, T)."""
    given = (prices, ramp, members, hours)
    layers: dict[str, Layer] = {}
    if find_spec("cvxpylayers"):
        layers["cvxpylayers"] = _cvxpylayers(*given)
        layers["cvxpylayers with Clarabel"] = _cvxpylayers(*given, solve_method="Clarabel")
        if find_spec("moreau"):
            layers["cvxpylayers with moreau"] = _cvxpylayers(*given, solver="MOREAU")
    return layers


def _cvxpylayers(
    prices: tuple[float, float, float],
    ramp: float,
    members: int,
    hours: int,
    solver: str | None = None,
    **arguments: str,
) -> Layer:
    import cvxpy
    from cvxpylayers.torch import CvxpyLayer

    short, long, quadratic = prices
    outcome, mean = cvxpy.Parameter((members, hours)), cvxpy.Parameter(hours)
    action, missing = cvxpy.Variable(hours), cvxpy.Variable((members, hours))
    row = cvxpy.reshape(action, (1, hours), order="C")
    paid = (short + long) / members * cvxpy.sum(missing) + long * cvxpy.sum(action)
    paid += quadratic * (cvxpy.sum_squares(action) / 2 - mean @ action)
    limits = [missing + row >= outcome, cvxpy.abs(cvxpy.diff(action)) <= ramp]
    if solver == "MOREAU":  # its interface loses limits that bound a variable, unless they look like others
        limits += [missing + 1e-12 * row >= 0, action + 1e-12 * cvxpy.sum(action) >= 0]
    else:
        limits += [missing >= 0, action >= 0]
    problem = cvxpy.Problem(cvxpy.Minimize(paid), limits)
    layer = CvxpyLayer(problem, parameters=[outcome, mean], variables=[action], solver=solver, solver_args=arguments)
    return lambda samples: layer(samples, samples.mean(1))[0]


def _dense(
    prices: tuple[float, float, float], ramp: float, members: int, hours: int
) -> tuple[Tensor, Callable[[Tensor], Tensor], Tensor, Callable[[Tensor], Tensor]]:
    """Q, p(y), G and h(y) of min 1/2 x'Qx + p'x, G x <= h, with x the action and what each member misses."""
    short, long, quadratic = prices
    eye, missed = torch.eye(hours).double(), members * hours
    steps = eye[1:] - eye[:-1]
    G = torch.zeros(2 * len(steps) + hours + 2 * missed, hours + missed).double()  # noqa: N806
    G[: len(steps), :hours], G[len(steps) : 2 * len(steps), :hours] = steps, -steps
    G[2 * len(steps) : -missed, : hours + missed] = -torch.eye(hours + missed).double()  # nothing is negative
    G[-missed:, :hours], G[-missed:, hours:] = -eye.repeat(members, 1), -torch.eye(missed).double()
    Q = torch.diag(torch.cat([torch.full((hours,), quadratic), torch.full((missed,), 1e-7)])).double()  # noqa: N806
    price = torch.cat([torch.full((hours,), long), torch.full((missed,), (short + long) / members)]).double()
    allowed = torch.cat([torch.full((2 * len(steps),), ramp), torch.zeros(hours + missed)]).double()

    def p(samples: Tensor) -> Tensor:
        return price - torch.nn.functional.pad(quadratic * samples.mean(1), (0, missed))

    def h(samples: Tensor) -> Tensor:
        return torch.cat([allowed.expand(len(samples), -1), -samples.flatten(1)], -1)

    return Q, p, G, h


def qpth(prices: tuple[float, float, float], ramp: float, members: int, hours: int) -> Layer:
    """qpth, whose dense factors fail at 50 members of 24 hours (0.0.18 with torch 2.13)."""
    from qpth.qp import QPFunction

    Q, p, G, h = _dense(prices, ramp, members, hours)  # noqa: N806
    none = torch.empty(0, dtype=torch.float64)
    return lambda samples: QPFunction(verbose=-1)(Q, p(samples), G, h(samples), none, none)[:, :hours]
