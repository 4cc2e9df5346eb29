"""How often the automatic weight leaves 0 in short hourly records where no weight is truly cheaper.

    python -m benchmarks.false_choices [--draws 400] [--json FILE]

The validation cases are so many days of hours. The cost of each of nine weights differs from that of weight 0 by a path
of mean zero whose correlation falls to 1/e in so many hours, an AR(1); half of its variance is common to all weights.
Skewed paths are exp(0.7 x) less its mean: rare hours cost far more. All scores are equal, so that every weight is
allowed. Alternate blocks judge, as in `DecisionAwareForecaster`, and `frontier` chooses. `blocks` are those that judge:
with fewer than 10 weight 0 is kept. Three minutes on one core.
"""

import argparse
import json
import math
import time
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.signal import lfilter

from benchmarks.timing import processor
from stakes.data.case_table import alternate_blocks
from stakes.evaluation.intervals import block_length
from stakes.evaluation.selection import frontier

DAYS, HOURS, SKEWED = (20, 40, 60, 90, 180), (24, 48), (False, True)
FIXED = (24,)  # blocks to compare the automatic ones with
WEIGHTS = tuple(tenth / 10 for tenth in range(10))

Floats = NDArray[np.float64]


def independent_paths(generator: np.random.Generator, steps: int, hours: float, count: int) -> Floats:
    """Paths (N, count) of mean zero and variance one, an AR(1) each."""
    kept = math.exp(-1 / hours)
    noise = generator.normal(size=(steps, count))
    noise[1:] *= math.sqrt(1 - kept**2)
    return np.asarray(lfilter([1.0], [1.0, -kept], noise, axis=0))


def skewed_paths(paths: Floats) -> Floats:
    """Of mean zero, where the given ones have variance one."""
    return np.exp(0.7 * paths) - math.exp(0.7**2 / 2)


def differences(generator: np.random.Generator, steps: int, hours: float, skewed: bool) -> Floats:
    """Paths (W, N) of mean zero, that of weight 0 zero throughout."""
    path = independent_paths(generator, steps, hours, len(WEIGHTS))
    shared, own = path[:, :1], path[:, 1:]
    mixed = (shared + own) / math.sqrt(2)
    if skewed:
        mixed = skewed_paths(mixed)
    return np.concatenate([np.zeros((1, steps)), mixed.T])


def claimed(cost: Floats, block: int) -> bool:
    """Whether another weight than 0 is called proven to be cheaper."""
    _, judged = alternate_blocks(cost.shape[1], block)
    change = cost[:, judged]
    judged = frontier(WEIGHTS, change, np.ones_like(change), block=block)
    return any(point.proven for point in judged.points)


def measured(days: int, hours: int, skewed: bool, draws: int) -> list[dict[str, object]]:
    """One row per length of the blocks, all of them from the same paths."""
    steps = 24 * days
    automatic = block_length(steps, np.datetime64("2020-01-01", "h") + np.arange(steps))
    blocks = {**{f"{block} hours": block for block in FIXED}, "automatic": automatic}
    generator = np.random.default_rng((days, hours, skewed))
    counts = dict.fromkeys(blocks, 0)
    for _ in range(draws):
        cost = differences(generator, steps, hours, skewed)
        for name, block in blocks.items():
            counts[name] += claimed(cost, block)
    return [
        {
            "days": days,
            "hours to 1/e": hours,
            "skewed": skewed,
            "rule": name,
            "block": block,
            "blocks": len(alternate_blocks(steps, block)[1]) // block,
            "false choices, %": round(100 * counts[name] / draws, 1),
        }
        for name, block in blocks.items()
    ]


def run(draws: int) -> dict[str, object]:
    began, rows = time.process_time(), []
    for skewed in SKEWED:
        for days in DAYS:
            for hours in HOURS:
                cells = measured(days, hours, skewed, draws)
                print(*cells, sep="\n", flush=True)
                rows += cells
    seconds = round(time.process_time() - began)
    return {"machine": processor(), "draws": draws, "CPU seconds": seconds, "rows": rows}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results = run(arguments.draws)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")
