"""Judge every forecast of every problem, and write the table of all."""

import argparse
import json
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.own_ensemble.judgement import compared, dependence_lost, judged, summary
from benchmarks.own_ensemble.ours import recalibrated
from benchmarks.own_ensemble.page import own_ensemble_markdown
from benchmarks.own_ensemble.problems import PROBLEMS, Problem
from benchmarks.own_ensemble.rivals import RIVALS
from benchmarks.timing import processor
from stakes.training.processes import called_for_each

RESULTS = Path(__file__).parents[1] / "results" / "own_ensemble.json"
TABLES = "## Measured on real forecasts"
OURS, WITHOUT = "stakes", "stakes, without weather"

Row = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.own_ensemble",
        description="Forecasts that somebody else makes: raw, corrected by the textbook, and by stakes.Recalibrator.",
    )
    parser.add_argument("folder", type=Path, help="folder of the tables, which cannot be shipped")
    parser.add_argument("--problems", nargs="*", default=[""], help="parts of their names; all by default")
    parser.add_argument("--thin", type=int, default=1, help="take every so many-th case, to try something")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once")
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument(
        "--page", type=Path, help=f"Markdown file whose text from the line {TABLES!r} to the next heading is replaced"
    )
    options = parser.parse_args(arguments)
    names = [name for name in PROBLEMS if any(part in name for part in options.problems)]
    cells = {
        (name, label): (name, label, options.folder, options.thin)
        for name in names
        for label in PROBLEMS[name](options.folder).costs
    }
    table: dict[str, dict[str, Row]] = {}
    for (name, label), rows in called_for_each(on_problem, cells, options.jobs):
        table[f"{name}, {label}"] = rows
        print(name, label, {forecast: round(row["cost"], 4) for forecast, row in rows.items()}, flush=True)
    ordered = {f"{name}, {label}": table[f"{name}, {label}"] for name, label in cells}
    write({"problems": ordered, "summary": summary(ordered, OURS)}, options)
    return 0


def on_problem(name: str, label: str, folder: Path, thin: int) -> dict[str, Row]:
    """All forecasts of one problem, judged by one of its costs."""
    torch.set_num_threads(1)
    problem = PROBLEMS[name](folder).thinned(thin)
    cost = problem.costs[label]
    forecasts: dict[str, Mapping[str, np.ndarray]] = {}
    facts: dict[str, Row] = {}
    for forecast, rival in rivals_of(problem).items():
        forecasts[forecast] = judged(problem, rival(problem), cost)
    variants = {WITHOUT: False, OURS: True} if "wind" in name else {OURS: True}
    for forecast, features in variants.items():
        ours = recalibrated(problem, cost, features)
        forecasts[forecast] = judged(problem, ours.members, cost)
        facts[forecast] = {"candidate": ours.candidate, "candidates": ours.candidates, "seconds": ours.seconds}
    rows = compared(problem, forecasts, OURS)
    facts |= dependence_lost(problem, forecasts)
    return {forecast: row | facts.get(forecast, {}) for forecast, row in rows.items()}


def rivals_of(problem: Problem) -> Mapping[str, Any]:
    return next(rivals for start, rivals in RIVALS.items() if problem.name.startswith(start))


def write(results: dict[str, Any], options: argparse.Namespace) -> None:
    machine = f"{processor()}, 1 thread a problem, Python {platform.python_version()}, torch {torch.__version__}"
    record = {"machine": machine, "thinned to every": options.thin, **results}
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(record, indent=1) + "\n")
    for beaten in results["summary"]["better than ours at 5 %, taken alone"]:
        print("better than ours:", json.dumps(beaten))
    if options.page is not None:
        before, _, rest = options.page.read_text().partition(f"{TABLES}\n")
        _, heading, after = rest.partition("\n## ")
        text = f"{before}{TABLES}\n\n{own_ensemble_markdown(record)}{heading}{after}"
        options.page.write_text(text)


if __name__ == "__main__":
    sys.exit(main())
