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
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from stakes.actions import optimal_action
from stakes.evaluation.significance import paired_difference
from stakes.models.sample_model import SampleModel
from stakes.scores import energy_score
from stakes.tasks.portfolio import SimulatedPortfolio
from stakes.tasks.simulation import KnownTruth, Truth
from stakes.tasks.task import Cases, Task
from stakes.training.execution import Execution
from stakes.training.run_folder import RunFolder
from stakes.training.runs import RunSettings, task_data
from stakes.training.sweep import Point, Sweep, read_sweep, run_sweep

__all__ = ["EXAMPLES", "Assessment", "Example", "assess", "compare", "main"]

SEEDS = 3
TEST_MEMBERS = 200
TRUE_MEMBERS = 500


@dataclass(frozen=True)
class Example:
    """A decision problem as the demo shows it."""

    title: str
    note: str
    settings: Mapping[str, Any]
    decision_weight: float
    total: Callable[[Tensor], Tensor]  # what the decision is about: outcomes (..., D) to (...)
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
        total=lambda outcome: outcome.sum(-1),
        block=28,  # a week
    ),
    Example(
        title="The mean power of 60 simulated wind sites, lambda = 20",
        note="The truth is known: regret is the expected cost above that of the true distribution's best action.",
        settings={"task": "simulated_portfolio"},
        decision_weight=0.3,
        total=SimulatedPortfolio().mean_power,
        block=1,
    ),
)


class Assessment(NamedTuple):
    """A model on the test cases, each (N,) and in the order of the table."""

    energy_score: Tensor
    cost: Tensor
    regret: Tensor  # cost above the truth's, or over climatology's where the truth is not known
    gap: Tensor  # predicted less realised cost
    spread: Tensor  # of the total, over what it should be


def assess(model: SampleModel, run: RunSettings, example: Example) -> Assessment:
    """Forecast, decide and settle every test case."""
    data, cost = task_data(run.task), run.task.cost
    members = model.sample(data.test.features, TEST_MEMBERS, torch.Generator().manual_seed(run.seed))
    action = optimal_action(cost, members)
    realised = cost(action, data.test.outcome)
    predicted = cost(action, members.movedim(-2, 0)).mean(0)
    totals = example.total(members)
    if isinstance(run.task, SimulatedPortfolio):
        truth, right_spread = _truth(run.task)
        regret = truth.regret(action)
    else:
        regret = realised / climatological_cost(run.task, data.train, data.test)
        right_spread = (totals.mean(-1) - example.total(data.test.outcome)).square().mean().sqrt()
    score = energy_score(members, data.test.outcome)
    return Assessment(score, realised, regret, predicted - realised, totals.std(-1) / right_spread)


@lru_cache
def _truth(task: SimulatedPortfolio) -> tuple[Truth, Tensor]:
    """What the true distribution says of the test cases, and its mean spread."""
    features = task_data(task).test.features
    return task.truth(features, TRUE_MEMBERS), task.true_power(features, TRUE_MEMBERS).std(-1).mean()


def climatological_cost(task: Task, train: Cases, test: Cases) -> Tensor:
    """Mean test cost of the one action that is best for the training outcomes."""
    action = optimal_action(task.cost, train.outcome)
    return task.cost(action.expand(len(test), 1), test.outcome).mean()


def compare(example: Example, plain: Sequence[Assessment], aware: Sequence[Assessment]) -> Table:
    """One row a figure: both models, and their paired difference with its 95 % interval."""
    known = isinstance(example.points()[0].run.task, KnownTruth)
    labels = {
        "energy_score": "energy score",
        "cost": "realised cost",
        "regret": "regret" if known else "cost / climatology's",
        "gap": "signed calibration gap",
        "spread": "spread of sum / " + ("true one" if known else "error"),
    }
    table = Table(title=example.title, caption=example.note, title_justify="left", caption_justify="left")
    table.add_column("", no_wrap=True)
    for heading in ("plain", f"weight {example.decision_weight}", "difference [95 % interval]"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, label in labels.items():
        before, after = (torch.stack([getattr(result, name) for result in results]) for results in (plain, aware))
        difference = paired_difference(after, before, example.block)
        table.add_row(
            label,
            f"{before.mean().item():.4f}",
            f"{after.mean().item():.4f}",
            f"{difference.mean:+.4f} \\[{difference.low:+.4f} {difference.high:+.4f}]",
            style="bold" if difference.significant else None,
        )
    return table


def _results(example: Example, points: Sequence[Point], folder: Path) -> Table:
    found: dict[float, list[Assessment]] = {}
    for point in points:
        model = cast(SampleModel, RunFolder(folder / "runs" / point.run.name).model())
        found.setdefault(point.run.decision_weight, []).append(assess(model, point.run, example))
    return compare(example, found[0.0], found[example.decision_weight])


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
            console.print(_results(example, points, folder))
            console.print(task_data(points[0].run.task).attribution, "")
    console.print(
        f"{SEEDS} seeds, {TEST_MEMBERS} members a forecast. Gap: predicted less realised cost. "
        "Bold: the paired interval (time in blocks and seeds resampled) leaves out zero."
    )


if __name__ == "__main__":
    main()
