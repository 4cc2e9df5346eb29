"""Few members for many: `stakes.reduce_members` against what scenario reduction uses.

    python -m benchmarks.member_reduction decisions [--members 1000] [--count 20 50] [--seeds 5] [--json FILE]
    python -m benchmarks.member_reduction speed [--json FILE]

`decisions` reduces ensembles of a day of wind power, 24 h, to a few scenarios and decides from them: a commitment of
the total with a quadratic penalty, one with linear prices, the latter averse to risk (CVaR), a generation schedule with
a ramp, and a battery. What the decision costs more than the best one, both under all members, is given in per cent of
the expected cost of the best; the mean over cases, and for what is drawn over seeds as well. Rivals: members drawn at
random; k-means and the members next to its centres (k-medoids by Lloyd's steps), weighted by their clusters; fast
forward selection (Heitsch and Roemisch 2003), on at most 2,000 candidates; and random members with the weights that
match the means and variances of all hours, and are nearest to equal ones. `speed` times 10,000 and 50,000 -> 100 in 24
dimensions, one thread. Beyond 10,000 members the battery is left out, whose best plan under all of them takes 0.3 MB a
member.
"""

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch
from scipy.optimize import minimize
from sklearn.cluster import KMeans, MiniBatchKMeans
from torch import Tensor

import stakes
from benchmarks.timing import processor
from stakes.errors import StakesWarning

T = TypeVar("T")
Row = dict[str, object]
Reduced = tuple[Tensor, Tensor]
"""Members (n, D) and their weights (n,)."""

HOURS, CASES, CANDIDATES, MANY = 24, 3, 2000, 10_000
TRADE = stakes.NewsvendorCost(4.0, 1.0, 0.0, 1.0)
OF_HOURS: dict[str, Any] = {
    "quadratic penalty of the total": stakes.ShortfallCost(20.0),
    "schedule with a ramp": stakes.ScheduleCost(4.0, 1.0, quadratic=1.0, ramp=0.1, upper=1.0),
    "battery": stakes.StorageCost(price=1.0, short=3.0, long=0.0, power=0.2, energy=0.6),
}
OF_TOTAL: dict[str, stakes.Cost] = {
    "newsvendor, 4 : 1": TRADE,
    "newsvendor, CVaR 90 %": stakes.CVaRCost(TRADE, 0.9, 0.5),
}


def ensemble(members: int, case: int) -> Tensor:
    """A day of wind power (M, 24): a common level, a ramp at an uncertain hour and autocorrelated noise."""
    generator = torch.Generator().manual_seed(case)
    hours = torch.arange(HOURS, dtype=torch.float64)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    noise = torch.zeros(members, HOURS, dtype=torch.float64)
    for hour in range(1, HOURS):
        noise[:, hour] = 0.8 * noise[:, hour - 1] + 0.4 * normal(members)
    front = 12 + 3 * normal(members, 1)
    level = -0.5 + case / 2 + 0.6 * normal(members, 1) + 1.5 * torch.tanh((hours - front) / 2)
    return torch.sigmoid(level + noise)


def drawn(members: Tensor, count: int, seed: int) -> Reduced:
    generator = torch.Generator().manual_seed(seed)
    kept = torch.randperm(len(members), generator=generator)[:count]
    return members[kept], torch.full((count,), 1 / count, dtype=torch.float64)


def clustered(members: Tensor, count: int, seed: int, medoids: bool) -> Reduced:
    kind = KMeans if len(members) <= CANDIDATES else MiniBatchKMeans
    found = kind(count, n_init=3, random_state=seed).fit(members.numpy())
    labels = torch.from_numpy(found.labels_).long()
    centres = torch.from_numpy(found.cluster_centers_).double()
    if medoids:
        apart = torch.cdist(centres, members).where(labels == torch.arange(count)[:, None], torch.inf)
        filled = labels.bincount(minlength=count) > 0
        centres = torch.where(filled[:, None], members[apart.argmin(1)], centres)
    return centres, labels.bincount(minlength=count).double() / len(members)


def forward_selection(members: Tensor, count: int, seed: int) -> Reduced:
    """Takes next the member that leaves the least mean distance to the nearest taken; each weighs those next to it."""
    some = members if len(members) <= CANDIDATES else drawn(members, CANDIDATES, seed)[0]
    apart = torch.cdist(some, some)
    nearest = torch.full((len(some),), torch.inf, dtype=torch.float64)
    taken: list[int] = []
    for _ in range(count):
        left = torch.minimum(nearest, apart).mean(1)
        left[taken] = torch.inf
        taken.append(int(left.argmin()))
        nearest = torch.minimum(nearest, apart[taken[-1]])
    kept = some[taken]
    next_to = torch.cat([torch.cdist(part, kept).argmin(1) for part in members.split(CANDIDATES)])
    return kept, next_to.bincount(minlength=count).double() / len(members)


def moments_matched(members: Tensor, count: int, seed: int) -> Reduced:
    """Random members; the weights that match mean and variance of every hour as well as can be, near to equal ones."""
    kept, equal = drawn(members, count, seed)
    values = torch.cat([kept, kept.square()], 1).mT
    wanted = torch.cat([members, members.square()], 1).mean(0)
    scale = torch.cat([members, members.square()], 1).std(0)
    system, right = values / scale[:, None], wanted / scale

    def missed(weights: object) -> tuple[float, object]:
        own = torch.as_tensor(weights, dtype=torch.float64)
        off, apart = system @ own / own.sum() - right, own / own.sum() - equal
        slope = 2 * system.mT @ off + 2e-3 * count * apart
        return float(off @ off + 1e-3 * count * apart @ apart), ((slope - slope @ own / own.sum()) / own.sum()).numpy()

    best = minimize(missed, equal.numpy(), jac=True, bounds=[(1e-9, None)] * count, method="L-BFGS-B")
    weights = torch.from_numpy(best.x)
    return kept, weights / weights.sum()


def chosen(members: Tensor, count: int, seed: int) -> Reduced:
    reduced = stakes.reduce_members(members[None], count)
    return reduced.members[0], reduced.weights[0]


WAYS: dict[str, Callable[[Tensor, int, int], Reduced]] = {
    "random": drawn,
    "k-means": lambda members, count, seed: clustered(members, count, seed, medoids=False),
    "k-medoids": lambda members, count, seed: clustered(members, count, seed, medoids=True),
    "forward selection": forward_selection,
    "moment matching": moments_matched,
    "stakes, no cost": chosen,
}


def decisions(count_of_members: int, counts: list[int], seeds: int) -> list[Row]:
    rows: list[Row] = []
    for count in counts:
        lost: dict[tuple[str, str], list[float]] = {}
        seconds: dict[str, list[float]] = {}

        def timed(way: str, reduce: Callable[[], T], seconds: dict[str, list[float]] = seconds) -> T:
            began = time.perf_counter()
            found = reduce()
            seconds.setdefault(way, []).append(time.perf_counter() - began)
            return found

        for case in range(CASES if count_of_members <= CANDIDATES else 1):
            hours = ensemble(count_of_members, case)
            of_hours = {name: cost for name, cost in OF_HOURS.items() if count_of_members <= MANY or name != "battery"}
            for members, costs in ((hours, of_hours), (hours.mean(1, keepdim=True), OF_TOTAL)):
                few = {
                    (way, seed): timed(way, partial(reduce, members, count, seed))
                    for way, reduce in WAYS.items()
                    for seed in range(1 if way.startswith(("stakes", "forward")) else seeds)
                }
                for name, cost in costs.items():
                    full = stakes.solve_action(cost, members[None])
                    best = expected(cost, full.action, members)
                    for (way, _), (kept, weights) in few.items():
                        action = stakes.solve_action(cost, kept[None], weights=weights[None]).action
                        worse = expected(cost, action, members) - best
                        lost.setdefault((name, way), []).append(100 * worse / abs(best))
                    ours = timed("stakes", partial(stakes.reduce_members, members[None], count, cost=cost))
                    assert ours.gap is not None
                    lost.setdefault((name, "stakes"), []).append(100 * float(ours.gap[0]) / abs(best))
        for name in (name for name in (*OF_HOURS, *OF_TOTAL) if (name, "stakes") in lost):
            means = {way: float(f"{statistics.mean(lost[name, way]):.2g}") for way in (*WAYS, "stakes")}
            rows.append({"members": count_of_members, "count": count, "cost": name} | means)
            print(rows[-1], flush=True)
        rows.append({"members": count_of_members, "count": count, "cost": "seconds"})
        rows[-1] |= {way: float(f"{statistics.mean(each):.2g}") for way, each in seconds.items()}
        print(rows[-1], flush=True)
    return rows


def expected(cost: stakes.Cost, action: Tensor, members: Tensor) -> float:
    """The expected cost of an action under all members."""
    return float(cost(action, members[:, None]).mean())


def speed() -> list[Row]:
    rows: list[Row] = []
    for many, costs in ((MANY, {"no cost": None, **OF_HOURS}), (5 * MANY, {"no cost": None})):
        members = ensemble(many, 0)[None]
        for name, cost in costs.items():
            began = time.process_time()
            stakes.reduce_members(members, 100, cost=cost)
            seconds = round(time.process_time() - began, 2)
            rows.append({"members": many, "to": 100, "cost": name, "seconds of the processor": seconds})
            print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("what", choices=["decisions", "speed"])
    parser.add_argument("--members", type=int, default=1000)
    parser.add_argument("--count", type=int, nargs="+", default=[20, 50])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", "the tail beyond level", StakesWarning)
    rows = speed() if options.what == "speed" else decisions(options.members, options.count, options.seeds)
    if options.json:
        options.json.write_text(json.dumps({"machine": processor(), options.what: rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
