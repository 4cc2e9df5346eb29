"""How often a 95 % interval of a mean of hourly cases misses the truth, by how long their errors last.

    python -m benchmarks.coverage [--draws 4000] [--json FILE]

The cases are paths of mean zero whose correlation falls to 1/e in so many hours, an AR(1); blocks are automatic. Three
minutes on one core.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch

from benchmarks.false_choices import independent_paths
from stakes.evaluation.headroom import automatic_block
from stakes.evaluation.intervals import Resampling

DAYS, HOURS = (60, 180, 365), (3, 12, 24, 48)
RESULTS = Path(__file__).parent / "results" / "coverage.json"
AT_ONCE = 50  # paths


def missed(days: int, hours: int, draws: int) -> dict[str, float]:
    """The share of intervals that leave out the true mean, zero."""
    steps = 24 * days
    block = automatic_block(np.datetime64("2020-01-01", "h") + np.arange(steps))
    generator = np.random.default_rng((days, hours))
    found = 0
    for _ in range(0, draws, AT_ONCE):
        paths = independent_paths(generator, steps, hours, AT_ONCE)
        means = Resampling(steps, block=block, resamples=1000).means(paths.T[:, None, None])
        found += sum(mean.interval().significant for mean in means)
    return {"days": days, "hours": hours, "block": block, "missed, %": round(100 * found / draws, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=4000)
    parser.add_argument("--json", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for days in DAYS:
        for hours in HOURS:
            rows.append(missed(days, hours, arguments.draws))
            print(rows[-1], flush=True)
    arguments.json.write_text(json.dumps({"draws": arguments.draws, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
