"""24-hour schedules with a ramp limit, forward and backward: ours against cvxpylayers, and how time grows.

    python -m benchmarks.schedules [--device cpu] [--rival-cases 4]

The ramp binds in half of the cases. cvxpylayers is called with its defaults, compiled before it is timed; it solves a
few cases in one call, and its time a case stands for the batch.
"""

import argparse
import json
import time
from collections.abc import Callable

import torch
from torch import Tensor

import stakes
from benchmarks.timing import processor

HOURS, MEMBERS, CASES = 24, 50, 256
SHORT, LONG, QUADRATIC, RAMP = 50.0, 0.5, 1.0, 0.4


def ensembles(cases: int, members: int, hours: int, device: str) -> Tensor:
    """Loads of a day; the second half of the cases has ramps that are too steep."""
    generator = torch.Generator().manual_seed(0)
    level = 3 + 0.5 * torch.sin(torch.arange(hours) / 4.0)
    steep = torch.where(torch.arange(cases) % 2 == 0, 0.02, 0.6)[:, None, None]
    noise = torch.randn(cases, members, hours, generator=generator).cumsum(-1)
    return (level + steep * noise).double().to(device)


def seconds(call: Callable[[], object], device: str, least: float = 1.0) -> float:
    """The median time of a call."""
    call()
    taken: list[float] = []
    while sum(taken) < least or len(taken) < 3:
        _wait(device)
        begin = time.perf_counter()
        call()
        _wait(device)
        taken.append(time.perf_counter() - begin)
    return sorted(taken)[len(taken) // 2]


def _wait(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()


def ours(cost: stakes.ScheduleCost, members: Tensor) -> Callable[[], object]:
    leaf = members.requires_grad_()
    return lambda: torch.autograd.grad(stakes.optimal_action(cost, leaf).sum(), leaf)


def bound_share(members: Tensor) -> float:
    """The share of cases in which the ramp binds."""
    free = stakes.optimal_action(stakes.ScheduleCost(SHORT, LONG, QUADRATIC), members)
    return float((free.diff(dim=-1).abs().amax(-1) > RAMP).double().mean())


def rival(members: Tensor) -> Callable[[], object]:
    """cvxpylayers at its defaults."""
    import cvxpy
    from cvxpylayers.torch import CvxpyLayer

    outcome, action = cvxpy.Parameter((MEMBERS, HOURS)), cvxpy.Variable(HOURS, nonneg=True)
    missing = cvxpy.Variable((MEMBERS, HOURS), nonneg=True)
    off = cvxpy.reshape(action, (1, HOURS), order="C") - outcome
    paid = cvxpy.sum((SHORT + LONG) * missing + LONG * off) / MEMBERS
    paid += QUADRATIC / 2 / MEMBERS * cvxpy.sum_squares(off)
    limits = [missing >= -off, cvxpy.abs(cvxpy.diff(action)) <= RAMP]
    layer = CvxpyLayer(cvxpy.Problem(cvxpy.Minimize(paid), limits), parameters=[outcome], variables=[action])
    leaf = members.requires_grad_()
    return lambda: torch.autograd.grad(layer(leaf)[0].sum(), leaf)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rival-cases", type=int, default=0, help="cases that cvxpylayers solves; 0 leaves it out")
    given = parser.parse_args()
    cost = stakes.ScheduleCost(SHORT, LONG, QUADRATIC, RAMP)
    members = ensembles(CASES, MEMBERS, HOURS, given.device)
    result: dict[str, object] = {
        "machine": f"{processor()}, torch {torch.__version__}",
        "device": given.device,
        "ramp binds in": bound_share(members),
    }
    result["schedules a second"] = round(CASES / seconds(ours(cost, members), given.device))
    if given.rival_cases:
        few = ensembles(CASES, MEMBERS, HOURS, "cpu")[-given.rival_cases :]
        theirs = seconds(rival(few), "cpu", least=0.0) / given.rival_cases
        result |= {
            "cvxpylayers seconds a schedule": theirs,
            "cvxpylayers / ours": theirs * int(str(result["schedules a second"])),
        }
    result["by members"] = {str(count): _rate(cost, 64, count, HOURS, given.device) for count in (10, 50, 200, 1000)}
    result["by hours"] = {str(hours): _rate(cost, 64, MEMBERS, hours, given.device) for hours in (2, 24, 96, 200)}
    if given.device != "cpu":
        result["by cases"] = {
            str(cases): _rate(cost, cases, MEMBERS, HOURS, given.device) for cases in (256, 4096, 16384)
        }
    print(json.dumps(result, indent=1))


def _rate(cost: stakes.ScheduleCost, cases: int, members: int, hours: int, device: str) -> int:
    """Schedules with gradient a second."""
    return round(cases / seconds(ours(cost, ensembles(cases, members, hours, device)), device, least=0.5))


if __name__ == "__main__":
    main()
