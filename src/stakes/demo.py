"""Two decisions on the sum of many sites, made from a plain and from a decision-aware forecast.

    python -m stakes.demo [--out FOLDER] [--epochs N]

A sweep of two tasks x two decision weights x three seeds, trained on all cores. The models of a seed branch off one
pre-training on the energy score and then see the same batches and the same noise, one on the score alone, one on the
mixture with the cost of the decision.
"""

import argparse
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from stakes.evaluation.assessment import Assessment, assess
from stakes.evaluation.calibration import skill, total_spread
from stakes.evaluation.significance import Sampled
from stakes.evaluation.study import Study
from stakes.training.execution import Execution
from stakes.training.runs import task_data
from stakes.training.sweep import Point, Sweep, read_sweep, run_sweep

__all__ = ["EXAMPLES", "Example", "compare", "main"]

SEEDS = 3
TEST_MEMBERS = 200


@dataclass(frozen=True)
class Example:
    """A decision problem as the demo shows it."""

    title: str
    note: str
    settings: Mapping[str, Any]
    decision_weight: float
    block: int  # neighbouring cases that belong together in the bootstrap

    def points(self, epochs: int | None = None) -> tuple[Point, ...]:
        """Weight 0 and the decision weight, for every seed."""
        shortened = {} if epochs is None else {"training": {"epochs": epochs, "pretraining_epochs": epochs}}
        grid = {"decision_weight": [0.0, self.decision_weight], "seed": list(range(SEEDS))}
        return read_sweep({**self.settings, **shortened, "grid": grid}).points


EXAMPLES = (
    Example(
        title="Tomorrow's electricity for 12 regions of France, short 10 times dearer than long",
        note="Debiased decision score; the weight with the lowest cost in the validation year. Train 2014-2018, "
        "validate 2019, test 2021 (2020 was the lockdown year), 24 h ahead; the temperature at the target time stands "
        "in for its forecast.",
        settings={"task": "french_load"},
        decision_weight=0.1,
        block=28,  # a week
    ),
    Example(
        title="The mean power of 60 simulated wind sites, lambda = 20",
        note="The truth is known: regret is the expected cost above that of the true distribution's best action.",
        settings={"task": "simulated_portfolio"},
        decision_weight=0.3,
        block=1,
    ),
)


def compare(example: Example, study: Study) -> Table:
    """One row a figure: both weights, and their paired difference with its 95 % interval."""
    known = "regret" in study.forecasts
    rows: dict[str, Callable[[float], Sampled]] = {
        "energy score": lambda weight: study.mean("energy_score", weight),
        "realised cost": lambda weight: study.mean("cost", weight),
        "saved on climatology's, %": lambda weight: skill(study, weight),
        "regret": lambda weight: study.mean("regret", weight),
        "signed calibration gap": lambda weight: study.mean("gap", weight),
        "spread of sum / " + ("true one" if known else "error"): lambda weight: total_spread(study, weight),
    }
    rows.pop("saved on climatology's, %" if known else "regret")
    table = Table(title=example.title, caption=example.note, title_justify="left", caption_justify="left")
    table.add_column("", no_wrap=True)
    for heading in ("plain", f"weight {example.decision_weight}", "difference [95 % interval]"):
        table.add_column(heading, justify="right", no_wrap=True)
    for label, statistic in rows.items():
        before, after = statistic(0.0), statistic(example.decision_weight)
        difference = (after - before).interval()
        table.add_row(
            label,
            f"{before.estimate:.4f}",
            f"{after.estimate:.4f}",
            f"{difference.mean:+.4f} \\[{difference.low:+.4f} {difference.high:+.4f}]",
            style="bold" if difference.significant else None,
        )
    return table


def main(arguments: Sequence[str] | None = None) -> None:
    """Train the sweep and print what its models are worth."""
    parser = argparse.ArgumentParser(prog="python -m stakes.demo", description=__doc__)
    parser.add_argument("--out", type=Path, help="folder that keeps the trained models; none by default")
    parser.add_argument("--epochs", type=int, help="train so many epochs only, to see that it works")
    chosen = parser.parse_args(arguments)
    console = Console()
    grids = [example.points(chosen.epochs) for example in EXAMPLES]
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.out or Path(temporary)
        console.print("Training 12 models, about two minutes on two cores.")
        run_sweep(Sweep(tuple(point for points in grids for point in points)), folder, Execution())
        for example, points in zip(EXAMPLES, grids, strict=True):
            settings = Assessment(TEST_MEMBERS, block=example.block, processes=Execution().processes)
            console.print(compare(example, assess(Sweep(points), folder, settings, {})))
            console.print(task_data(points[0].run.task).attribution, "")
    console.print(
        f"{SEEDS} seeds, {TEST_MEMBERS} members a forecast. Gap: predicted less realised cost. "
        "Bold: the paired interval (time in blocks and seeds resampled) leaves out zero."
    )


if __name__ == "__main__":
    main()
