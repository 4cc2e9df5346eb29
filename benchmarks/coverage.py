"""How often a 95 % interval of a mean of hourly cases misses the truth, by how long their errors last.

    python -m benchmarks.coverage [--draws 4000] [--json FILE]

The cases are paths of mean zero whose correlation falls to 1/e in so many hours, an AR(1); blocks are automatic. Skewed
paths are exp(0.7 x) less its mean: rare hours cost far more. Then the same of several seeds, each with an error of its
own, ten times, as large as and a tenth of the one by time. Last, few cases: normal, exponential and lognormal costs,
independent, and AR(1) errors whose memory is longer than the block. Two minutes on one core.
"""

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.false_choices import independent_paths, skewed_paths
from stakes.evaluation.intervals import Resampling, block_length

DAYS, HOURS, SEEDS = (60, 180, 365), (3, 12, 24, 48), (2, 3, 5)
RESULTS = Path(__file__).parent / "results" / "coverage.json"
AT_ONCE = 200  # paths

Draw = Callable[[np.random.Generator, int], NDArray[np.float64]]


def missed(days: int, hours: int, draws: int) -> dict[str, Any]:
    """The share of intervals that leave out the true mean, zero, of symmetric and of skewed paths."""
    steps = 24 * days
    resampling = hourly(steps)
    generator = np.random.default_rng((days, hours))
    counts = {"missed, %": 0, "missed if skewed, %": 0}
    for _ in range(0, draws, AT_ONCE):
        paths = independent_paths(generator, steps, hours, AT_ONCE).T[:, None, None]
        for name, values in zip(counts, (paths, skewed_paths(paths)), strict=True):
            counts[name] += sum(mean.interval().significant for mean in resampling.means(values))
    shares = {name: round(100 * count / draws, 1) for name, count in counts.items()}
    return {"days": days, "hours": hours, "block": resampling.block, **shares}


def missed_by_seed(seeds: int, share: float, draws: int, days: int = 60, hours: int = 12) -> dict[str, Any]:
    """As `missed`, where every seed has an error of its own, whose deviation is a share of that of the mean by time."""
    steps = 24 * days
    resampling = hourly(steps, seeds)
    generator = np.random.default_rng((seeds, days))
    count, deviation = 0, share * math.sqrt(2 * hours / steps)
    for _ in range(0, draws, AT_ONCE):
        paths = independent_paths(generator, steps, hours, AT_ONCE).T[:, None, None]
        values = paths + deviation * math.sqrt(seeds) * generator.normal(size=(AT_ONCE, 1, seeds, 1))
        count += sum(mean.interval().significant for mean in resampling.means(values))
    return {"seeds": seeds, "error by seed over that by time": share, "missed, %": round(100 * count / draws, 1)}


def missed_of_few(cost: str, cases: int, block: int, draws: int) -> dict[str, Any]:
    """As `missed`, of few cases of a cost."""
    resampling = Resampling(cases, block=block)
    generator = np.random.default_rng((cases, block))
    count = 0
    for _ in range(0, draws, AT_ONCE):
        values = COSTS[cost](generator, cases)[:, None, None]
        count += sum(mean.interval().significant for mean in resampling.means(values))
    return {"cost": cost, "cases": cases, "block": block, "missed, %": round(100 * count / draws, 1)}


def lognormal(deviation: float) -> Draw:
    return lambda generator, cases: (
        np.exp(deviation * generator.normal(size=(AT_ONCE, cases))) - math.exp(deviation**2 / 2)
    )


def lasting(kept: float) -> Draw:
    return lambda generator, cases: independent_paths(generator, cases, -1 / math.log(kept), AT_ONCE).T


COSTS: dict[str, Draw] = {
    "normal": lambda generator, cases: generator.normal(size=(AT_ONCE, cases)),
    "exponential": lambda generator, cases: generator.exponential(size=(AT_ONCE, cases)) - 1,
    "lognormal, sigma 0.7": lognormal(0.7),
    "lognormal, sigma 1.5": lognormal(1.5),
    **{f"AR(1), {kept}": lasting(kept) for kept in (0.5, 0.8, 0.9, 0.95)},
}
FEW = [(cost, cases, 1) for cost in list(COSTS)[:4] for cases in (5, 10, 20, 50, 100)]
FEW += [(cost, cases, 7) for cost in COSTS for cases in (100, 200, 1000)]


def hourly(steps: int, seeds: int = 1) -> Resampling:
    block = block_length(steps, np.datetime64("2020-01-01", "h") + np.arange(steps))
    return Resampling(steps, seeds, block=block)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=4000)
    parser.add_argument("--json", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    began = time.process_time()
    rows = []
    for days in DAYS:
        for hours in HOURS:
            rows.append(missed(days, hours, arguments.draws))
            print(rows[-1], flush=True)
    by_seed = []
    for seeds in SEEDS:
        for share in (0.1, 1.0, 10.0):
            by_seed.append(missed_by_seed(seeds, share, arguments.draws))
            print(by_seed[-1], flush=True)
    few = []
    for cost, cases, block in FEW:
        few.append(missed_of_few(cost, cases, block, arguments.draws))
        print(few[-1], flush=True)
    seconds = round(time.process_time() - began)
    results = {"draws": arguments.draws, "CPU seconds": seconds, "rows": rows, "seeds": by_seed, "few": few}
    arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
