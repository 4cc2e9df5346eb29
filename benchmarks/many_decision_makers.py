"""One forecast for many decision makers: what a model of a range of penalties is worth beside models of single ones.

    python -m benchmarks.many_decision_makers train simulated --runs FOLDER [--sites 60] [--seeds 10]
    python -m benchmarks.many_decision_makers train wind --tables FOLDER --runs FOLDER [--seeds 10]
    python -m benchmarks.many_decision_makers summary --runs FOLDER [--json FILE]

Plain implicit networks (three layers of 64, 20 noise numbers) are trained with the mean CRPS of the sites, each by
itself, and with decision weight 0.1 of `shortfall` on their mean power: one model for each of five penalties, one for
all from 2 to 50 that does not see the penalty, one that does (conditioned), and one of weight 0 beside them. Every
seed trains all of them from the same batches and noise, each until its validation loss has stopped falling; all are
judged on the test cases at the five penalties, from 100 members. `train` keeps what each seed paid, one file each, and
goes on where it was interrupted; `summary` pairs them over time and seeds. Weight and network are those of an earlier
measurement, and the number of steps was set by validation losses.
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from benchmarks.timing import processor
from reproduction.tasks.portfolio import EuropeanWind, SimulatedPortfolio
from reproduction.tasks.task import TaskData
from stakes import ParameterRange, ShortfallCost, WindDispatchCost, optimal_action
from stakes.costs.cost import ParameterColumn
from stakes.data.case_table import CaseTable
from stakes.evaluation.intervals import Resampling, Sampled, block_length
from stakes.models.sample_model import pooled_parts
from stakes.scores.scoring_rules import PointwiseCRPS
from stakes.training.progress import Trained
from stakes.training.replicas import Replica
from stakes.training.settings import ImplicitSettings, TrainingSettings
from stakes.training.trainer import train

PENALTIES = (2.0, 5.0, 10.0, 20.0, 50.0)
RANGE = ParameterRange(2, 50)
WEIGHT, MEMBERS, JUDGED = 0.1, 10, 100
MODEL = ImplicitSettings(noise=20, hidden=64, layers=3)
STEPS = {"pretraining": 50, "training": 600}  # so that validation, not their number, ends the training
BATCH, VALIDATIONS = 256, 20
WAYS = ("weight 0", "own", "one for all", "conditioned")

Floats = NDArray[np.float64]
PowerCost = ShortfallCost | WindDispatchCost


def settings(cases: int) -> TrainingSettings:
    """About as many steps for every record."""
    steps = max(1, cases // BATCH)
    epochs = {phase: round(count / steps) for phase, count in STEPS.items()}
    every = max(1, epochs["training"] // VALIDATIONS)
    return TrainingSettings(
        epochs=epochs["training"],
        pretraining_epochs=epochs["pretraining"],
        batch=BATCH,
        learning_rate=2e-3,
        members=MEMBERS,
        validate_every=every,
        validation_members=MEMBERS,
        patience=max(every, epochs["training"] // 3),
        score="pointwise",
    )


def with_column(cases: CaseTable, column: ParameterColumn) -> CaseTable:
    """The cases with a penalty each, spread over the range."""
    return CaseTable(torch.cat([cases.features, column.spread(len(cases)).to(cases.features)], 1), cases.outcome)


def fresh_model(data: TaskData, column: ParameterColumn, seed: int) -> nn.Module:
    features = column.unmoved(with_column(data.train, column).features)
    torch.manual_seed(seed)
    model = MODEL.build(features.shape[1], data.train.outcome.shape[1])
    model.fit_scaling(features, data.train.outcome)
    return model


def trained_stack(
    data: TaskData, costs: Sequence[PowerCost], weights: Sequence[float], seed: int, conditioned: bool = False
) -> tuple[list[Trained], float]:
    """The models of one seed with their costs and weights, and the seconds of one core that they took."""
    column = ParameterColumn.of(costs[0], conditioned)
    cases = [with_column(each, column) for each in (data.train, data.validation)]
    model = fresh_model(data, column, seed)
    replicas = [
        Replica(model, *cases, cost, weight, seed, conditioned=conditioned)
        for cost, weight in zip(costs, weights, strict=True)
    ]
    start = time.process_time()
    trained = train(replicas, settings(len(data.train)))
    return trained, time.process_time() - start


def paid(models: Sequence[Trained], test: CaseTable, base: PowerCost, column: ParameterColumn) -> tuple[Floats, Floats]:
    """What actions cost on each test case at each penalty, and the mean CRPS of the sites, (5, N) each.

    Args:
        models: One for each penalty, or one for all.
        test: The test cases.
        base: The cost with any penalty.
        column: Whether the model sees the penalty.
    """
    costs, scores, known = [], [], (None, Tensor())
    for place, penalty in enumerate(PENALTIES):
        model = models[place % len(models)]
        if model is not known[0] or column.width:
            known = model, sampled(model, test, column, penalty)
        cost = replace(base, penalty=penalty)
        costs.append(cost(optimal_action(cost, known[1]), test.outcome).double().numpy())
        scores.append(PointwiseCRPS()(known[1], test.outcome).double().numpy())
    return np.stack(costs), np.stack(scores)


def sampled(trained: Trained, test: CaseTable, column: ParameterColumn, penalty: float) -> Tensor:
    """Members (N, M, D) of the test cases, by the same noise for every model."""
    trained.replica.model.load_state_dict(trained.weights)
    values = torch.full((len(test), column.width), penalty)
    features = column.seen(torch.cat([test.features, values.to(test.features)], 1))
    parts = pooled_parts([trained.replica.model.eval()], features, JUDGED, seed=0, share_noise=False)
    return torch.cat([members for _, members in parts])


def one_seed(data: TaskData, base: PowerCost, seed: int) -> dict[str, Any]:
    """Cost and score of every way and penalty on each test case, and how long each way took to train."""
    own_costs = [replace(base, penalty=penalty) for penalty in PENALTIES]
    (weight_0, *own), seconds_own = trained_stack(data, [own_costs[0], *own_costs], [0.0, *[WEIGHT] * 5], seed)
    shared = replace(base, penalty=RANGE)
    (one_for_all,), seconds_one = trained_stack(data, [shared], [WEIGHT], seed)
    (conditioned,), seconds_conditioned = trained_stack(data, [shared], [WEIGHT], seed, conditioned=True)
    none, seen = ParameterColumn(), ParameterColumn.of(shared, conditioned=True)
    models = {
        "weight 0": ([weight_0], none),
        "own": (own, none),
        "one for all": ([one_for_all], none),
        "conditioned": ([conditioned], seen),
    }
    came: dict[str, Any] = {}
    with torch.no_grad():
        for way, (each, column) in models.items():
            came[way], came[f"{way}, score"] = paid(each, data.test, base, column)
    steps = {
        "own": sum(model.steps for model in own),
        "one for all": one_for_all.steps,
        "conditioned": conditioned.steps,
    }
    seconds = {"own and weight 0": seconds_own, "one for all": seconds_one, "conditioned": seconds_conditioned}
    return came | {"steps": json.dumps(steps), "seconds": json.dumps(seconds)}


def problem(options: argparse.Namespace) -> tuple[TaskData, PowerCost]:
    if options.problem == "wind":
        task = EuropeanWind(tables=options.tables)
        return task.data(), task.cost
    simulated = SimulatedPortfolio(sites=options.sites)
    return simulated.data(), simulated.cost


def run(options: argparse.Namespace) -> None:
    """Train the seeds that have no file yet."""
    torch.set_num_threads(1)
    data, base = problem(options)
    folder = options.runs / options.problem
    folder.mkdir(parents=True, exist_ok=True)
    times = data.test.times
    for seed in range(options.first_seed, options.seeds):
        file = folder / f"seed{seed}.npz"
        if file.exists():
            continue
        start = time.process_time()
        came = one_seed(data, base, seed)
        block = 1 if times is None else block_length(len(times), times)
        np.savez_compressed(file, block=block, sites=data.test.outcome.shape[1], train=len(data.train), **came)
        means = {way: [round(float(value), 4) for value in came[way].mean(1)] for way in WAYS}
        print(options.problem, seed, f"{time.process_time() - start:.0f} s", means, flush=True)


def interval(value: Sampled) -> list[float]:
    return [round(number, 6) for number in value.interval()]


def summarised(folder: Path) -> dict[str, Any]:
    """Costs, gains over weight 0 and the share of the five models' gain, with paired 95 % intervals."""
    runs = [np.load(file) for file in sorted(folder.glob("seed*.npz"))]
    costs = {way: np.stack([each[way] for each in runs], 1) for way in WAYS}  # (penalties, seeds, cases)
    scores = {way: np.stack([each[f"{way}, score"] for each in runs], 1) for way in WAYS}
    resampling = Resampling(costs["own"].shape[2], len(runs), block=int(runs[0]["block"]))

    def gains(values: dict[str, Floats]) -> dict[str, Any]:
        """Of values (seeds, cases) by way."""
        change = dict(
            zip(
                WAYS[1:],
                resampling.means(np.stack([values[way] - values["weight 0"] for way in WAYS[1:]])[:, None]),
                strict=True,
            )
        )
        return {
            "cost": {way: round(float(values[way].mean()), 6) for way in WAYS},
            "less weight 0": {way: interval(each) for way, each in change.items()},
            "conditioned less own": interval(change["conditioned"] - change["own"]),
            "conditioned less one for all": interval(change["conditioned"] - change["one for all"]),
            "share of own gain": {way: interval(change[way] / change["own"]) for way in ("one for all", "conditioned")},
        }

    steps, seconds = (
        {
            name: float(np.mean([json.loads(str(each[what]))[name] for each in runs]))
            for name in json.loads(str(runs[0][what]))
        }
        for what in ("steps", "seconds")
    )
    by_penalty = {
        f"{penalty:g}": gains({way: costs[way][place] for way in WAYS}) for place, penalty in enumerate(PENALTIES)
    }
    return {
        "sites": int(runs[0]["sites"]),
        "training cases": int(runs[0]["train"]),
        "test cases": costs["own"].shape[2],
        "seeds": len(runs),
        "block": int(runs[0]["block"]),
        "penalties": by_penalty,
        "mean of the five": gains({way: costs[way].mean(0) for way in WAYS}),
        "CRPS of the sites": {way: round(float(scores[way].mean()), 6) for way in WAYS},
        "steps of a seed": {name: round(value) for name, value in steps.items()},
        "seconds of a seed": {name: round(value, 1) for name, value in seconds.items()},
    }


def page_table(told: dict[str, Any]) -> list[str]:
    """The rows of one problem for benchmarks/pages/many_decision_makers.md: bold where the interval leaves out zero."""

    def cell(ends: Sequence[float]) -> str:
        text = f"{ends[0]:+.4f} [{ends[1]:+.4f}, {ends[2]:+.4f}]"
        return f"**{text}**" if ends[1] > 0 or ends[2] < 0 else text

    columns = ("penalty", "weight 0", "own model", "one for all", "conditioned", "conditioned less own")
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for name, row in {**told["penalties"], "mean": told["mean of the five"]}.items():
        changes = [cell(row["less weight 0"][way]) for way in WAYS[1:]]
        cells = (name, f"{row['cost']['weight 0']:.4f}", *changes, cell(row["conditioned less own"]))
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def summary(options: argparse.Namespace) -> None:
    problems = {path.name: summarised(path) for path in sorted(options.runs.iterdir()) if any(path.glob("seed*.npz"))}
    about = {"weight": WEIGHT, "range": str(RANGE), "members": MEMBERS, "steps": STEPS}
    record = {"machine": f"{processor()}, torch {torch.__version__}, 1 thread", "settings": about, "problems": problems}
    text = json.dumps(record, indent=1)
    for name, told in problems.items():
        print(name, *page_table(told), "", sep="\n")
    print(text)
    if options.json is not None:
        options.json.write_text(text + "\n")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["train", "summary"])
    parser.add_argument("problem", choices=["simulated", "wind"], nargs="?", default="simulated")
    parser.add_argument("--runs", type=Path, required=True, help="folder with a file for every seed")
    parser.add_argument("--tables", help="folder of the European wind tables, which cannot be shipped")
    parser.add_argument("--sites", type=int, default=60, help="of the simulated portfolio")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="file to write")
    options = parser.parse_args(arguments)
    run(options) if options.what == "train" else summary(options)


if __name__ == "__main__":
    main()
