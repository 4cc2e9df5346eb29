"""Random costs that are not convex in the action, with ensembles for them, and the best action by brute force.

As a script it solves 2,000 of them, or as many as it is told: none may be certified and wrong, and at most 1 % may be
missed.
"""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from stakes import cost_function, solve_action

__all__ = ["Audit", "audit"]

_ENSEMBLES = 10
_POINTS = 20_000
_WRONG = 1e-3  # of the range of the expected cost
Function = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Audit:
    """How many of the random problems were certified though wrong, and how many were solved.

    Attributes:
        problems: How many there were.
        certified_and_wrong: How many had a certificate, and an action that costs more than the best.
        missed: The kinds of the problems whose action costs more than the best, certified or not.
    """

    problems: int
    certified_and_wrong: int
    missed: list[str]


def audit(problems: int, seed: int) -> Audit:
    """Solve random problems, ten ensembles for each cost, in single precision and double."""
    generator = torch.Generator().manual_seed(seed)
    wrongly_certified, missed = 0, []
    for number in range(problems // _ENSEMBLES):
        kind = list(_KINDS)[number % len(_KINDS)]
        width = 10 ** _uniform(generator, -1, 3)
        lower = _uniform(generator, -1, 1) * width
        count = (1, 2, 3, 5, 20, 50, 200)[int(torch.randint(7, (), generator=generator))]
        shares = torch.stack([_members(generator, count) for _ in range(_ENSEMBLES)])
        dtype = (torch.float64, torch.float32)[number // len(_KINDS) % 2]
        members = (lower + width * shares).to(dtype)
        function = _KINDS[kind](generator, width)
        solution = solve_action(cost_function(function, lower, lower + width), members[..., None])
        wrong = _wrong(function, lower, lower + width, members.double(), solution.action.double())
        wrongly_certified += int((wrong & solution.certified).sum())
        missed += [kind] * int(wrong.sum())
    return Audit(problems, wrongly_certified, missed)


def _wrong(function: Function, lower: float, upper: float, members: Tensor, action: Tensor) -> Tensor:
    """Whether an action (N, 1) costs more under its members (N, M) than the best of many."""
    grid = torch.linspace(lower, upper, _POINTS, dtype=torch.float64)
    parts = grid.split(max(1, (1 << 20) // members.numel()))
    values = torch.cat([function(part[:, None, None], members).mean(-1) for part in parts])  # (points, N)
    least, most = values.amin(0), values.amax(0)
    return function(action, members).mean(-1) - least > _WRONG * (most - least)


def _uniform(generator: torch.Generator, low: float, high: float) -> float:
    return low + (high - low) * float(torch.rand((), generator=generator, dtype=torch.float64))


def _members(generator: torch.Generator, count: int) -> Tensor:
    """Shares of the way from bound to bound: clusters, ties, some beyond the bounds."""
    clusters = int(torch.randint(1, 5, (), generator=generator))
    centre = torch.rand(clusters, generator=generator, dtype=torch.float64) * 1.1 - 0.05
    spread = 10 ** _uniform(generator, -3, -0.7)
    chosen = torch.randint(clusters, (count,), generator=generator)
    members = centre[chosen] + spread * torch.randn(count, generator=generator, dtype=torch.float64)
    tied = torch.rand((), generator=generator) < 0.3
    return (members / spread).round() * spread if tied else members


def _saturating(generator: torch.Generator, width: float) -> Function:
    scale = width * 10 ** _uniform(generator, -2, -0.3)
    return lambda a, y: 1 - torch.exp(-((a - y) ** 2) / (2 * scale**2))


def _multi_well(generator: torch.Generator, width: float) -> Function:
    wave = 2 * math.pi * _uniform(generator, 1, 12) / width
    tilt, bend = _uniform(generator, -1, 1) / width, _uniform(generator, 0, 3) / width**2
    return lambda a, y: torch.cos(wave * (a - 0.3 * y)) + tilt * a + bend * (a - y) ** 2


def _gaussians(generator: torch.Generator, width: float) -> Function:
    offset = width * 0.5 * torch.randn(3, generator=generator, dtype=torch.float64)
    depth = torch.rand(3, generator=generator, dtype=torch.float64)
    scale = width * 10 ** (-1.7 + torch.rand(3, generator=generator, dtype=torch.float64))

    def cost(a: Tensor, y: Tensor) -> Tensor:
        wells = zip(depth.tolist(), offset.tolist(), scale.tolist(), strict=True)
        return 1 - sum((d * torch.exp(-(((a - y - o) / s) ** 2)) for d, o, s in wells), torch.zeros_like(a - y))

    return cost


def _clipped(generator: torch.Generator, width: float) -> Function:
    reach, power = width * 10 ** _uniform(generator, -2, -0.3), _uniform(generator, 0.5, 2.5)
    return lambda a, y: ((a - y).abs() / reach).clamp(max=1) ** power


def _smooth_steps(generator: torch.Generator, width: float) -> Function:
    sharpness, reach = 10 ** _uniform(generator, 1, 2.5) / width, width * _uniform(generator, 0.01, 0.3)
    price = _uniform(generator, 0, 1) / width
    steps = lambda a, y: torch.sigmoid(sharpness * (a - y - reach)) + 2 * torch.sigmoid(sharpness * (y - a - reach))
    return lambda a, y: steps(a, y) + price * a


def _w_shaped(generator: torch.Generator, width: float) -> Function:
    apart, tilt = width * _uniform(generator, 0.02, 0.4), _uniform(generator, -0.3, 0.3)
    return lambda a, y: torch.minimum((a - y - apart).abs(), (a - y + apart).abs()) / width + tilt * a / width


_KINDS: dict[str, Callable[[torch.Generator, float], Function]] = {
    "saturating": _saturating,
    "multi_well": _multi_well,
    "gaussians": _gaussians,
    "clipped": _clipped,
    "smooth_steps": _smooth_steps,
    "w_shaped": _w_shaped,
}


if __name__ == "__main__":
    result = audit(int(sys.argv[1]) if len(sys.argv) > 1 else 2000, seed=0)
    missed = len(result.missed)
    sys.stdout.write(f"{result.problems} problems: {result.certified_and_wrong} certified and wrong, {missed} missed\n")
    if result.certified_and_wrong or missed > 0.01 * result.problems:
        raise SystemExit(f"missed: {', '.join(result.missed)}")
