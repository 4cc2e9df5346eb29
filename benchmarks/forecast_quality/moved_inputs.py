"""What a single feature that has gone astray costs: each feature of each problem moved in all test rows, in turn.

    python -m benchmarks.forecast_quality.moved_inputs [--reference FOLDER] [--problems ...] [--by 8] [--jobs N]

The cost is put on the scale from foresight, 0, to the best constant action of the training rows, 1: at most 1.1 is
wanted of every feature, and at most half-way up from the cost of unmoved features to 1 of the median one.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.forecast_quality.__main__ import RESULTS
from benchmarks.forecast_quality.cells import MEMBERS
from benchmarks.forecast_quality.ours import forecaster_of
from benchmarks.forecast_quality.problems import Problem, problems
from stakes import optimal_action
from stakes.actions.climatology import climatology_action
from stakes.costs.cost import Cost
from stakes.forecasting.fitted_forecast import FittedForecast
from stakes.training.processes import called_for_each

_ROWS_AT_ONCE = 100
_MOST_ROWS = 300  # of the test rows, evenly spread


@dataclass(frozen=True)
class Trial:
    """A problem by its name, and by how many standard deviations each of its features is moved."""

    problem: str
    by: tuple[float, ...]
    seed: int

    def run(self, reference: Path | None) -> dict[str, Any]:
        """What the moved features cost, by the name of each cost of the problem, each with a fit of its own."""
        torch.set_num_threads(1)
        problem, start = problems(reference)[self.problem](), time.perf_counter()
        known, rows = slice(problem.train), problem.test_rows
        rows = rows[np.unique(np.linspace(0, len(rows) - 1, min(_MOST_ROWS, len(rows))).astype(np.int64))]
        told = {}
        for label in problem.costs:
            forecaster = forecaster_of({}, problem, MEMBERS, self.seed, label)
            forecaster.fit(problem.features[known], problem.outcomes[known], times=problem.times[known])
            told[label] = self._of_cost(problem, label, forecaster.forecast, rows)
        return {"costs": told, "seconds": time.perf_counter() - start}

    def _of_cost(
        self, problem: Problem, label: str, forecast: FittedForecast, rows: np.ndarray[Any, Any]
    ) -> dict[str, Any]:
        features, deviation = problem.features[rows], problem.features[: problem.train].std(0)
        outcome, cost = torch.from_numpy(problem.outcomes[rows]), problem.costs[label]

        def paid(given: Any) -> float:
            return mean_cost(cost, torch.from_numpy(forecast.sample(given).astype(np.float64)), outcome)

        foresight, climatology = ends_of(problem, label, rows)
        told: dict[str, Any] = {"foresight": foresight, "climatology": climatology, "unmoved": paid(features)}
        told |= {"moved": {f"{by:g}": [] for by in self.by}, "flagged": {f"{by:g}": [] for by in self.by}}
        for by in self.by:
            for column in range(problem.features.shape[1]):
                moved = features.copy()
                moved[:, column] += by * deviation[column]
                told["moved"][f"{by:g}"].append(paid(moved))
                told["flagged"][f"{by:g}"].append(float((forecast.outside_training_range(moved) != "").mean()))
        return told


def mean_cost(cost: Cost, members: torch.Tensor, outcome: torch.Tensor) -> float:
    """What decisions from members (N, M, D) cost on average."""
    parts = zip(members.split(_ROWS_AT_ONCE), outcome.split(_ROWS_AT_ONCE), strict=True)
    return float(torch.cat([cost(optimal_action(cost, drawn), seen) for drawn, seen in parts]).mean())


def ends_of(problem: Problem, label: str, rows: np.ndarray[Any, Any]) -> tuple[float, float]:
    """What foresight and the best constant action of the training rows cost on these rows."""
    known, outcome = torch.from_numpy(problem.outcomes[: problem.train]), torch.from_numpy(problem.outcomes[rows])
    cost = problem.costs[label]
    foresight = cost(optimal_action(cost, outcome[:, None]), outcome).mean()
    constant = climatology_action(cost, known).to(outcome)
    return float(foresight), float(cost(constant, outcome).mean())


def summary(trials: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Of every problem and distance: the share of the way from foresight to climatology, and half-way up to it."""
    rows: dict[str, Any] = {}
    for problem, trial in trials.items():
        for label, told in trial["costs"].items():
            low, width = told["foresight"], told["climatology"] - told["foresight"]
            start = (told["unmoved"] - low) / width
            name = f"{problem}, {label}" if label else problem
            rows[name] = {"unmoved": start}
            for by, costs_of in told["moved"].items():
                share = (np.array(costs_of) - low) / width
                rows[name][by] = {
                    "median": float(np.median(share)),
                    "half-way": (1 + start) / 2,
                    "worst": float(share.max()),
                    "worst feature": int(share.argmax()),
                    "features": len(share),
                    "above 1.1": int((share > 1.1).sum()),
                    "least flagged": float(min(told["flagged"][by])),
                }
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.forecast_quality.moved_inputs", description=__doc__)
    parser.add_argument("--reference", type=Path, help="folder of the tables that cannot be shipped")
    parser.add_argument("--problems", nargs="*", default=[""], help="parts of their names; all by default")
    parser.add_argument("--by", nargs="*", type=float, default=[8.0], help="standard deviations")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes at once")
    parser.add_argument("--json", type=Path, default=RESULTS.with_name("moved_inputs.json"))
    options = parser.parse_args(arguments)
    names = [name for name in problems(options.reference) if any(part in name for part in options.problems)]
    trials = {name: Trial(name, tuple(options.by), options.seed) for name in reversed(names)}
    calls = {name: (trial, options.reference) for name, trial in trials.items()}
    done: dict[str, Any] = {}
    options.json.parent.mkdir(parents=True, exist_ok=True)
    for name, came in called_for_each(Trial.run, calls, options.jobs):
        done[name] = came
        print(name, json.dumps(summary({name: came})), flush=True)
        options.json.write_text(json.dumps(summary(done), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
