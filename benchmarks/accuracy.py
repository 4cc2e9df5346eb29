"""Actions and gradients of every built-in cost against a float64 brute force on the same members.

    python -m benchmarks.accuracy [--sets 1000000] [--device cpu]

The brute force knows nothing of the library's solvers: it halves an interval 60 times on a derivative written out
by hand. Sets are random, tied (members on a coarse grid) and degenerate (all equal, two-valued, at the extremes).
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

import stakes

MEMBERS = 10
CHUNK = 50_000


@dataclass(frozen=True)
class Problem:
    name: str
    cost: stakes.Cost
    draw: Callable[[Tensor], Tensor]  # uniform numbers to members
    slope: Callable[[Tensor, Tensor], Tensor] | None  # f'(a) of a (N, 1) and members (N, M), float64; None: newsvendor


def power(speed: Tensor) -> Tensor:
    hub = speed * 10**0.143
    return torch.sigmoid(0.8 * (hub - 9)) * torch.sigmoid(-2 * (hub - 22))


def shortfall_slope(action: Tensor, produced: Tensor) -> Tensor:
    return (-1 + 10 * torch.relu(action - produced)).mean(-1)


def protection_slope(action: Tensor, outcome: Tensor) -> Tensor:
    severity = torch.sigmoid(10 * (outcome - 1))
    return (-2 * severity * (1 - action) + 0.5 * (1 - severity)).mean(-1)


def imbalance_slope(action: Tensor, need: Tensor) -> Tensor:
    return (2 * torch.relu(action - need) - 20 * torch.relu(need - action)).mean(-1)


PROBLEMS = (
    Problem("shortfall", stakes.ShortfallCost(5.0), lambda u: u, shortfall_slope),
    Problem("wind dispatch", stakes.WindDispatchCost(5.0), lambda u: 30 * u, lambda a, y: shortfall_slope(a, power(y))),
    Problem("protection", stakes.ProtectionCost(1.0, 0.5), lambda u: 3 * u - 0.5, protection_slope),
    Problem("imbalance", stakes.ImbalanceCost(10.0, 1.0, 0.1, 0.9), lambda u: u, imbalance_slope),
    Problem("newsvendor", stakes.NewsvendorCost(3.0, 1.0, 0.1, 0.9), lambda u: u, None),
)


def member_sets(problem: Problem, sets: int, dtype: torch.dtype, device: str) -> Iterator[Tensor]:
    """Members (N, M) in chunks: a third of the sets random around a random centre, a third tied, a third degenerate."""
    generator = torch.Generator().manual_seed(0)
    for start in range(0, sets, CHUNK):
        count = min(CHUNK, sets - start)
        uniform = torch.rand(count, MEMBERS, generator=generator, dtype=dtype)
        centre, width = torch.rand(2, count, 1, generator=generator, dtype=dtype)
        spread = (centre + width * (uniform - 0.5)).clamp(0, 1)
        tied = (spread * 8).round() / 8
        two_valued = (uniform > centre).to(dtype)
        degenerate = torch.where(width > 0.5, two_valued, centre)
        kind = torch.arange(count)[:, None] % 3
        chosen = torch.where(kind == 0, spread, torch.where(kind == 1, tied, degenerate))
        yield problem.draw(chosen).to(device)


def brute_force(problem: Problem, members: Tensor) -> tuple[Tensor, Tensor]:
    """Action by bisection on f', and whether f' is zero inside the bounds, from its sign at both."""
    assert problem.slope is not None
    low = torch.full_like(members[:, :1], float(problem.cost.lower))
    high = torch.full_like(members[:, :1], float(problem.cost.upper))
    interior = (problem.slope(low, members) < 0) & (problem.slope(high, members) > 0)
    for _ in range(60):
        middle = (low + high) / 2
        falls = (problem.slope(middle, members) < 0)[:, None]
        low, high = torch.where(falls, middle, low), torch.where(falls, high, middle)
    return ((low + high) / 2)[:, 0], interior


def action_error(problem: Problem, members: Tensor) -> tuple[float, int | None]:
    """Largest error, and how many rows not within 1e-6 of a bound have the wrong bound status.

    For the newsvendor, whose best action need not be unique, the error of the expected cost instead.
    """
    exact = members.double()
    solution = stakes.solve_action(problem.cost, members[..., None])
    solved = solution.action[:, 0].double()
    if problem.slope is None:
        candidates = exact.clamp(problem.cost.lower, problem.cost.upper)  # a minimum lies at a member or a bound
        best = expected_cost(problem.cost, candidates.T, exact).amin(0)
        return (expected_cost(problem.cost, solved[None], exact)[0] - best).abs().max().item(), None
    action, interior = brute_force(problem, exact)
    near = torch.minimum((action - problem.cost.lower).abs(), (action - problem.cost.upper).abs()) <= 1e-6
    wrong = (solution.interior != interior) & ~(near & interior)
    if not bool(solution.converged.all()):
        raise AssertionError(f"{problem.name}: a solution without a certificate")
    return (solved - action).abs().max().item(), int(wrong.sum())


def expected_cost(cost: stakes.Cost, actions: Tensor, members: Tensor) -> Tensor:
    """Actions (K, N) and members (N, M) to (K, N)."""
    return torch.stack([cost(action[:, None], members.T[..., None]).mean(0) for action in actions])


def gradient_error(problem: Problem, members: Tensor) -> float:
    """Largest error of d a*/d y_m against central differences of the brute force, relative to the row's largest.

    Kinks, where two step sizes disagree, are left out.
    """
    assert problem.slope is not None
    exact = members.double()
    leaf = exact[..., None].clone().requires_grad_()
    (gradient,) = torch.autograd.grad(stakes.optimal_action(problem.cost, leaf).sum(), leaf)
    coarse, fine = (finite_differences(problem, exact, step) for step in (1e-5, 1e-6))
    scale = coarse.abs().amax(1, keepdim=True).clamp(min=1e-3)
    smooth = (coarse - fine).abs() <= 1e-5 * scale
    return ((gradient[..., 0] - coarse).abs() / scale)[smooth].max().item()


def finite_differences(problem: Problem, members: Tensor, step: float) -> Tensor:
    columns = []
    for shift in step * torch.eye(members.shape[1], dtype=members.dtype, device=members.device):
        ahead, behind = (brute_force(problem, members + sign * shift)[0] for sign in (1, -1))
        columns.append((ahead - behind) / (2 * step))
    return torch.stack(columns, 1)


def run(sets: int, device: str = "cpu") -> list[dict[str, object]]:
    rows = []
    for problem in PROBLEMS:
        row: dict[str, object] = {"cost": problem.name, "sets": sets}
        for dtype, name in ((torch.float32, "float32"), (torch.float64, "float64")):
            results = [action_error(problem, members) for members in member_sets(problem, sets, dtype, device)]
            row[f"error {name}"] = max(error for error, _ in results)
            if problem.slope is not None:
                row[f"wrong bound status {name}"] = sum(wrong or 0 for _, wrong in results)
        if problem.slope is not None:
            members = next(member_sets(problem, 6000, torch.float64, device))[::3]  # random sets
            row["gradient error"] = gradient_error(problem, members)
        rows.append(row)
        print(row, flush=True)
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=1_000_000)
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    run(arguments.sets, arguments.device)
