"""How often a recalibration leaves a candidate that is right: members as good as can be, or with bias and spread alone.

    python -m benchmarks.false_corrections [--draws 100] [--jobs 2] [--json FILE]

A record has 600 daily cases of 20 members about a mean that is known. "raw": the outcome is one of the members, so that
nothing is to be mended. "one more": it is one more like them, so that only their number is: a smooth distribution is a
little better than 20 members, and leaving raw is no error. "bias and spread": members are 2 too low and half as wide as
they should be, and nothing else. Every candidate is tried, decision weights among them, by a newsvendor at 9 : 1. A
quarter of an hour of one core for 100 draws.
"""

import argparse
import json
from collections import Counter
from pathlib import Path

import numpy as np
import torch

import stakes
from benchmarks.timing import processor
from stakes.training.processes import called_for_each

CASES, MEMBERS = 600, 20
TRUTHS = {"raw": (0.0, 1.0), "one more": (0.0, 1.0), "bias and spread": (2.0, 2.0)}


def selected(truth: str, seed: int) -> str:
    """The candidate that is selected for one record."""
    torch.set_num_threads(1)
    shift, factor = TRUTHS[truth]
    random = np.random.default_rng(seed)
    known = random.normal(size=CASES)
    members = known[:, None] - shift + random.normal(size=(CASES, MEMBERS)) / factor
    outcomes = known + random.normal(size=CASES)
    if truth == "raw":
        outcomes = members[np.arange(CASES), random.integers(MEMBERS, size=CASES)]
    times = np.datetime64("2020-01-01", "ns") + np.arange(CASES) * np.timedelta64(1, "D")
    cost = stakes.NewsvendorCost(9.0, 1.0, lower=-10.0, upper=10.0)
    return stakes.Recalibrator(cost).fit(members, outcomes, times=times).selection_.selected.name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    cells = {(truth, seed): (truth, seed) for truth in TRUTHS for seed in range(given.draws)}
    counts: dict[str, Counter[str]] = {truth: Counter() for truth in TRUTHS}
    for (truth, _), candidate in called_for_each(selected, cells, given.jobs):
        counts[truth][candidate] += 1
    record = {
        "machine": f"{processor()}, torch {torch.__version__}",
        "draws": given.draws,
        "selected": {truth: dict(candidates) for truth, candidates in counts.items()},
    }
    text = json.dumps(record, indent=1)
    print(text)
    if given.json:
        given.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
