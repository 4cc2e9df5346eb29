"""Whether the gains on portfolios outlast more training seeds than the reproduction's three.

    python -m reproduction.benchmarks.more_seeds TASK [--seeds 10] [--choice main] [--pretraining EPOCHS]
        [--quick] [--json FILE]

TASK is simulated_portfolio (60 sites), french_load, irish_wind or european_wind, with the implicit model and all else
as `python -m reproduction portfolio` has it, at the weights 0, 0.1, 0.3, 0.5, 0.7 and 0.9. The weight is chosen on
validation data as there, over all seeds. `--pretraining` takes the place of the epochs on the score alone. The folder
(`--out`) keeps what is done; `--quick` trains two seeds for two epochs.
"""

import argparse
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from reproduction.plan import CHOICES, PlannedStudy, planned_studies
from reproduction.publishing import portfolios_markdown
from reproduction.run_studies import run_studies
from reproduction.runs.jobs import Execution
from reproduction.tables_of_results import portfolio_rows

WEIGHTS = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9)
QUICK: Mapping[str, Any] = {"training.epochs": 2, "training.pretraining_epochs": 1, "training.validate_every": 1}


def planned_study(task: str, choice: str, seeds: int, settings: Mapping[str, Any]) -> PlannedStudy:
    """The reproduction's study of a task, with more seeds and these settings on top of its own."""
    planned = next(
        study
        for study in planned_studies(("portfolio",), model="implicit")
        if (study.task, study.choice) == (task, "main") and study.key.sites in (None, 60)
    )
    grid = {**planned.grid, "decision_weight": WEIGHTS, "seed": tuple(range(seeds))}
    return replace(planned, choice=choice, grid=grid, settings={**planned.settings, **settings})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--choice", default="main", choices=list(CHOICES))
    parser.add_argument("--pretraining", type=int, help="epochs")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    seeds = 2 if chosen.quick else chosen.seeds
    settings = dict(QUICK if chosen.quick else {})
    if chosen.pretraining is not None:
        settings["training.pretraining_epochs"] = chosen.pretraining
    planned = planned_study(chosen.task, chosen.choice, seeds, settings)
    name = "-".join([str(planned.key), f"{seeds}-seeds", *map(str, settings.values())])
    out = chosen.out or Path("reproduction", name)
    rows = portfolio_rows(run_studies([planned], out, Execution(chosen.device)))
    record = json.loads(rows.to_json(orient="records"))
    print(portfolios_markdown(record))
    if chosen.json:
        chosen.json.write_text(
            json.dumps({"seeds": seeds, "settings": settings, "portfolios": record}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
