"""Run the cells that are missing, and write the table of all that are there."""

import argparse
import json
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.forecast_quality.cells import FORECASTS, MEMBERS, Cell
from benchmarks.forecast_quality.comparison import compared, summary
from benchmarks.forecast_quality.page import quality_markdown
from benchmarks.forecast_quality.problems import MADE, problems
from benchmarks.forecast_quality.rivals import RIVALS
from benchmarks.timing import processor
from stakes.training.processes import called_for_each

RESULTS = Path(__file__).parents[1] / "results" / "forecast_quality.json"
TABLES = "## All results"
ALWAYS_THE_SAME = ("climatology", "last period", "ridge", "LightGBM")  # but for the draw of residuals


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.forecast_quality",
        description="The default forecast against rivals on real problems.",
    )
    parser.add_argument("--reference", type=Path, help="folder of the tables that cannot be shipped")
    parser.add_argument("--problems", nargs="*", default=[""], help="parts of their names; all by default")
    parser.add_argument("--forecasts", nargs="*", default=list(FORECASTS), choices=list(FORECASTS))
    parser.add_argument("--ours", default="stakes", choices=list(FORECASTS), help="which is compared with all others")
    parser.add_argument("--before", default=None, choices=list(FORECASTS), help="what it was before")
    parser.add_argument("--seeds", type=int, default=3, help="of forecasts that are random")
    parser.add_argument("--rival-seeds", type=int, help="of rivals that are random; as many as of ours by default")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="after which no cell is begun")
    parser.add_argument("--cells", type=Path, default=Path("build/forecast_quality"), help="folder of finished cells")
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument(
        "--page", type=Path, help="Markdown file whose text from the line '## All results' on is replaced"
    )
    options = parser.parse_args(arguments)
    known = problems(options.reference)
    names = [name for name in known if any(part in name for part in options.problems)]
    cells = list(cells_of(names, options.forecasts, options.seeds, options.rival_seeds or options.seeds))
    run_missing(cells, options)
    if table := table_of(cells, options):
        write(table, options)
    return 0


def write(table: dict[str, Any], options: argparse.Namespace) -> None:
    real = {name: rows for name, rows in table.items() if name not in MADE}
    rivals = [name for name in options.forecasts if name in RIVALS and name != options.ours]
    quality = {
        "machine": f"{processor()}, 1 thread a forecast, Python {platform.python_version()}, torch {torch.__version__}",
        "members": MEMBERS,
        "ours": options.ours,
        "problems": table,
        "summary": summary(real, options.ours, rivals, options.before),
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(quality, indent=1) + "\n")
    print(json.dumps(quality["summary"], indent=1))
    if options.page is not None:
        prose, _, _ = options.page.read_text().partition(TABLES)
        options.page.write_text(f"{prose.rstrip()}\n\n{TABLES}\n\n{quality_markdown(quality)}")


def cells_of(names: Sequence[str], forecasts: Sequence[str], seeds: int, rival_seeds: int) -> Iterator[Cell]:
    for name in names:
        for forecast in forecasts:
            tried = 1 if forecast in ALWAYS_THE_SAME else rival_seeds if forecast in RIVALS else seeds
            for seed in range(tried):
                yield Cell(name, forecast, seed)


def run_missing(cells: Sequence[Cell], options: argparse.Namespace) -> None:
    """Run what is not there yet, the largest problems, which come last, first."""
    end = time.time() + 60 * options.minutes
    missing = [cell for cell in reversed(cells) if not cell.file(options.cells).exists()]
    calls = {cell: (cell, options.cells, options.reference, end) for cell in missing}
    for cell, came in called_for_each(Cell.attempt, calls, options.jobs):
        print(f"{cell.problem}, {cell.forecast}, seed {cell.seed}: {came}", flush=True)


def table_of(cells: Sequence[Cell], options: argparse.Namespace) -> dict[str, Any]:
    """The comparison of every problem and cost for which ours is there, of the forecasts whose seeds all are."""
    seeds: dict[tuple[str, str], list[Any]] = {}
    for cell in cells:
        seeds.setdefault((cell.problem, cell.forecast), []).append(cell.kept(options.cells))
    by_problem: dict[str, dict[str, dict[str, Any]]] = {}
    for (problem, forecast), of_seeds in seeds.items():
        for label in of_seeds[0] if None not in of_seeds else ():
            name = f"{problem}, {label}" if label else problem
            by_problem.setdefault(name, {})[forecast] = joined([each[label] for each in of_seeds])
    return {
        name: compared(forecasts, options.ours) for name, forecasts in by_problem.items() if options.ours in forecasts
    }


def joined(seeds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The cells of several seeds as one: metrics (S, N), `seconds` (S,), and the `times` (N,) that they share."""
    return {**{name: np.stack([each[name] for each in seeds]) for name in seeds[0]}, "times": seeds[0]["times"]}


if __name__ == "__main__":
    sys.exit(main())
