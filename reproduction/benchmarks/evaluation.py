"""Evaluation of a sweep of the paper's size: 54 runs of 1,460 cases by 500 members, all metrics and intervals.

    python -m reproduction.benchmarks.evaluation [--threads 2] [--json FILE]

Members are made, not sampled (benchmarks.sampling times that): 3 penalties x 6 decision weights x 3 seeds. `assess` is
every metric of every case, `summarise` the means of 8 metrics over all cases and 3 regions, by outcome and by forecast,
with their paired differences from weight 0 and 95 % intervals in blocks of 10. The target is three
minutes on two cores. CPU seconds tell how much a machine with other work on it was waited for.
"""

import argparse
import itertools
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
import xarray as xr

from benchmarks.timing import processor
from reproduction.study import AXES, Study
from reproduction.tables_of_results import summarise
from reproduction.tasks.task import only_outcome, region_between
from stakes import WindDispatchCost
from stakes.evaluation.metrics import LEVELS, Assessor, Metrics

CASES, MEMBERS, BLOCK, TARGET = 1460, 500, 10, 180.0
PENALTIES, WEIGHTS, SEEDS = (2.0, 5.0, 10.0), (0.0, 0.1, 0.3, 0.5, 0.7, 0.9), (0, 1, 2)
METRICS = ("energy_score", "tail_crps", "cost", "expected_cost", "gap", "miscalibration", "foresight_regret", "spread")
REGIONS = {
    "calm": region_between(only_outcome, upper=5.0),
    "ramp": region_between(only_outcome, lower=5.0, upper=12.0),
    "storm": region_between(only_outcome, lower=12.0),
}


def made_members(outcome: torch.Tensor, weight: float, seed: int) -> torch.Tensor:
    """Members that scatter around the outcome, less so with the weight."""
    generator = torch.Generator().manual_seed(seed)
    scale = 3.0 - weight
    centre = outcome + scale * torch.randn(outcome.shape, generator=generator)
    return (centre[:, None] + scale * torch.randn(CASES, MEMBERS, 1, generator=generator)).abs()


def made_study(metrics: list[Metrics], outcome: torch.Tensor) -> Study:
    shape = (len(PENALTIES), 1, len(WEIGHTS), len(SEEDS), CASES)
    variables = {
        name: (
            AXES if first.dim() == 1 else (*AXES, "level"),
            torch.stack([each[name] for each in metrics]).numpy().reshape(*shape, *first.shape[1:]),
        )
        for name, first in metrics[0].items()
    }
    axes = dict(zip(AXES, (PENALTIES, (0.0,), WEIGHTS, SEEDS, range(CASES)), strict=True))
    regions = {
        f"observed_{name}": (("group", "case"), region(outcome)[None].numpy()) for name, region in REGIONS.items()
    }
    forecasts = xr.Dataset(variables, {name: list(values) for name, values in axes.items()} | {"level": list(LEVELS)})
    return Study(forecasts, xr.Dataset(regions), {"members": MEMBERS}, BLOCK)


@contextmanager
def timed(row: dict[str, object], name: str) -> Iterator[None]:
    wall, own = time.perf_counter(), time.process_time()
    yield
    row[f"{name}, s"] = round(time.perf_counter() - wall, 2)
    row[f"{name}, CPU s"] = round(time.process_time() - own, 2)


def run() -> dict[str, object]:
    generator = torch.Generator().manual_seed(0)
    outcome = 8.0 * (-torch.rand(CASES, 1, generator=generator).log()).sqrt()  # a Rayleigh climate, m/s
    points = list(itertools.product(PENALTIES, WEIGHTS, SEEDS))
    row: dict[str, object] = {"machine": processor(), "threads": torch.get_num_threads()}
    row |= {"runs": len(points), "cases": CASES, "members": MEMBERS}
    metrics, making = [], 0.0
    with timed(row, "assess"):
        for penalty, weight, seed in points:
            start = time.perf_counter()
            members = made_members(outcome, weight, seed)
            making += time.perf_counter() - start
            metrics.append(Assessor(WindDispatchCost(penalty), REGIONS)(members, outcome))
    with timed(row, "summarise"):
        table = summarise(made_study(metrics, outcome), METRICS)
    row |= {"making members, s, in assess": round(making, 2), "metrics": len(metrics[0]), "intervals": len(table)}
    assert np.isfinite(table["low"].to_numpy(dtype=float)).all()
    total = float(str(row["assess, s"])) + float(str(row["summarise, s"]))
    row |= {"total, s": round(total, 2), "target, s": TARGET, "within the target": total < TARGET}
    return row


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    results = run()
    print(json.dumps(results, indent=1))
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")
