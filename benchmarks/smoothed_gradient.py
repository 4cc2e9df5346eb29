"""Does training with the gradient of the action between walls lower the cost, against the exact gradient?

    python -m benchmarks.smoothed_gradient [--seeds 10] [--jobs 16] [--tasks synthetic schedule arbitrage] [--json FILE]

Three decisions, each with the energy score alone, with the decision by its exact gradient, and by that of
`InteriorPoint(smoothing=...)`:

- `synthetic`, the paper's task, one number between 0 and 1: where a hazard is unlikely the best action is 0, and the
  exact gradient nothing. Judged by the expected cost under the truth, in all and in these troughs.
- `schedule`, twelve hours of simulated load with a ramp that binds around the peak, 10 short : 1 long, linear.
- `arbitrage`, a battery against twelve simulated prices, without wear: a linear program, with no exact gradient.

A small implicit network; the weights that cost least on validation cases by the exact objective are kept. A seed draws
its own cases, weights, batches and noise, the same for every gradient, so that differences are paired; intervals are
Student's over the seeds.
"""

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from copy import deepcopy
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import stakes
from benchmarks.timing import processor
from reproduction.tasks.synthetic import SyntheticTask

STUDENT = {2: 12.706, 3: 4.303, 5: 2.776, 10: 2.262, 20: 2.093}  # 97.5 % by the number of seeds
SMOOTHING = (0.001, 0.01, 0.1)
MEMBERS, JUDGED_MEMBERS, HOURS = 20, 100, 12
Row = dict[str, Any]
Draw = Callable[[int, torch.Generator], tuple[Tensor, Tensor]]
Judge = Callable[[Tensor, Tensor], Mapping[str, float]]


@dataclass(frozen=True)
class Problem:
    """Cases of a seed, what a decision costs, and how actions of test cases are judged."""

    cost: Any
    draw: Draw
    judged: Callable[[Tensor, Tensor, Tensor], Mapping[str, float]]
    cases: tuple[int, int, int]  # training, validation, test
    batch: int
    epochs: int
    hidden: int


def load(cases: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """A peak whose hour and height depend on the features, and errors that last."""
    x = torch.randn(cases, 4, generator=generator)
    hour = torch.arange(HOURS)
    place, height = 6 + 2 * torch.tanh(x[:, 1:2]), 1.5 + torch.sigmoid(2 * x[:, 2:3])
    level = 3 + 0.3 * x[:, :1] + height * torch.exp(-((hour - place) ** 2) / 4)
    return x, level + 0.15 * (1 + 2 * torch.sigmoid(x[:, 3:])) * lasting(cases, generator)


def prices(cases: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Two swings a day that the features shift, evenings with spikes, and errors that last."""
    x = torch.randn(cases, 4, generator=generator)
    hour = torch.arange(HOURS)
    swing = 12 * torch.sin(2 * math.pi * (hour - 2 * torch.tanh(x[:, 1:2])) / 6)
    spike = 20 * torch.relu(x[:, :1]) * torch.exp(-((hour - 8 - torch.tanh(x[:, 2:3])) ** 2))
    return x, 40 + swing + spike + 4 * (1 + torch.sigmoid(2 * x[:, 3:])) * lasting(cases, generator)


def lasting(cases: int, generator: torch.Generator) -> Tensor:
    """Paths (N, T) of variance one, half of which is that of the hour before."""
    path = torch.randn(cases, HOURS, generator=generator)
    for hour in range(1, HOURS):
        path[:, hour] = 0.7 * path[:, hour - 1] + math.sqrt(1 - 0.7**2) * path[:, hour]
    return path


def realised(cost: Any) -> Callable[[Tensor, Tensor, Tensor], Mapping[str, float]]:
    return lambda features, outcome, action: {"cost": cost(action, outcome).mean().item()}


def under_the_truth(features: Tensor, outcome: Tensor, action: Tensor) -> Mapping[str, float]:
    """Expected costs above those of the best actions; a trough is where the best action is 0."""
    task = SyntheticTask()
    regret, trough = task.regret(features, action), task.true_action(features)[:, 0] == 0
    parts = {"cost": regret, "trough": regret[trough], "elsewhere": regret[~trough]}
    return {name: part.mean().item() for name, part in parts.items()}


def problem(name: str) -> Problem:
    if name == "synthetic":
        task = SyntheticTask()
        return Problem(task.cost, task.draw, under_the_truth, (1600, 400, 4000), 200, 200, 64)
    if name == "schedule":
        cost = stakes.ScheduleCost(10.0, 1.0, ramp=0.25)
        return Problem(cost, load, realised(cost), (600, 200, 1000), 100, 100, 32)
    battery = stakes.ArbitrageCost(power=1.0, energy=2.0, efficiency=0.9)
    return Problem(battery, prices, realised(battery), (600, 200, 1000), 100, 100, 32)


def trained(name: str, seed: int, weight: float, smoothing: float | None) -> Row:
    """One network, judged on the test cases."""
    torch.set_num_threads(1)
    began, about = time.perf_counter(), problem(name)
    generator = torch.Generator().manual_seed(1000 + seed)
    train, validation, test = (about.draw(count, generator) for count in about.cases)
    torch.manual_seed(seed)
    model = stakes.ImplicitModel(train[0].shape[1], train[1].shape[1], noise=8, hidden=about.hidden, layers=2)
    model.fit_scaling(*train)
    solver = None if smoothing is None else stakes.InteriorPoint(smoothing=smoothing)
    climate = train[1][torch.randint(len(train[1]), (len(train[1]), MEMBERS), generator=generator)]
    objective, exact = (
        stakes.DecisionAwareObjective(stakes.EnergyScore(), stakes.DecisionScore(about.cost, solver=each), weight)
        for each in (solver, None)
    )
    scales = exact.estimate_scales([stakes.TrainingDraw.from_samples(climate, train[1])]) if weight else exact
    fit(model, objective, exact, scales, (train, validation), about, generator)
    noise = torch.Generator().manual_seed(seed)
    members = model.sample(test[0], JUDGED_MEMBERS, noise)
    action = torch.cat([stakes.optimal_action(about.cost, part) for part in members.split(250)])
    score = stakes.EnergyScore()(members, test[1]).mean().item()
    row = {"task": name, "seed": seed, "weight": weight, "smoothing": smoothing, "score": score}
    return row | about.judged(*test, action) | {"seconds": round(time.perf_counter() - began, 1)}


def fit(
    model: Any,
    objective: Any,
    exact: Any,
    scales: Any,
    splits: Sequence[tuple[Tensor, Tensor]],
    about: Problem,
    generator: torch.Generator,
) -> None:
    """Adam, and the weights of the least exact objective on the validation cases."""
    sizes = {"score_scale": scales.score_scale, "decision_scale": scales.decision_scale}
    objective, exact = replace(objective, **sizes), replace(exact, **sizes)
    (features, outcome), held = splits
    still = model.draw_noise(len(held[0]), MEMBERS, torch.Generator().manual_seed(7))
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)
    least, best = math.inf, deepcopy(model.state_dict())
    for epoch in range(about.epochs):
        for places in torch.randperm(len(features), generator=generator).split(about.batch):
            noise = model.draw_noise(len(places), MEMBERS, generator)
            loss = objective(model.training_draw(features[places], outcome[places], noise)).mean().total
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        if epoch % 5 == 4:
            with torch.no_grad():
                value = exact(model.training_draw(*held, still)).mean().total.item()
            if value < least:
                least, best = value, deepcopy(model.state_dict())
    model.load_state_dict(best)


def settings(task: str) -> list[tuple[float, float | None]]:
    """Weights and smoothings, the score alone first."""
    weights = (0.5, 0.9) if task == "synthetic" else (0.5,)
    return [(0.0, None), *((weight, each) for weight in weights for each in (None, *SMOOTHING))]


def summary(rows: Sequence[Row]) -> list[Row]:
    """The mean of every setting, and its difference to the exact gradient and to the score alone, paired by seed."""
    means = []
    for task in dict.fromkeys(row["task"] for row in rows):
        by = {(row["weight"], row["smoothing"], row["seed"]): row for row in rows if row["task"] == task}
        seeds = sorted({seed for _, _, seed in by})
        for weight, smoothing in settings(task):
            for metric in ("cost", "trough", "elsewhere", "score"):
                if metric not in by[weight, smoothing, seeds[0]]:
                    continue
                own = [by[weight, smoothing, seed][metric] for seed in seeds]
                row = {"task": task, "weight": weight, "smoothing": smoothing, "metric": metric}
                row["mean"] = statistics.mean(own)
                for name, rival in (("less exact", (weight, None)), ("less score alone", (0.0, None))):
                    row[name] = interval([one - by[*rival, seed][metric] for one, seed in zip(own, seeds, strict=True)])
                means.append(row)
    return means


def interval(differences: Sequence[float]) -> list[float]:
    """Mean, lower and upper end of the 95 % interval."""
    mean = statistics.mean(differences)
    reach = STUDENT[len(differences)] * statistics.stdev(differences) / math.sqrt(len(differences))
    return [mean, mean - reach, mean + reach]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10, choices=list(STUDENT))
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--tasks", nargs="+", default=["arbitrage", "schedule", "synthetic"])
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    began, rows = time.perf_counter(), []
    calls = [(task, seed, *each) for task in given.tasks for seed in range(given.seeds) for each in settings(task)]
    with ProcessPoolExecutor(given.jobs, get_context("spawn")) as pool:
        for number, call in enumerate(as_completed([pool.submit(trained, *each) for each in calls]), 1):
            rows.append(call.result())
            print(f"{number} of {len(calls)}", rows[-1], flush=True)
    results = {
        "machine": f"{processor()}, torch {torch.__version__}",
        "seconds": round(time.perf_counter() - began),
        "summary": summary(rows),
        "rows": sorted(rows, key=lambda row: (row["task"], row["weight"], row["smoothing"] or 0.0, row["seed"])),
    }
    for row in results["summary"]:
        print(row)
    if given.json:
        given.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
