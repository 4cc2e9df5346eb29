"""Structured members against independent ones: bias of the decision score, training, time of a step.

    python -m benchmarks.structured_members bias [--json FILE]
    python -m benchmarks.structured_members training [--reference FOLDER] [--seeds 10] [--processes 2] [--json FILE]
    python -m benchmarks.structured_members step [--json FILE]

`bias` is what deciding from M members costs beyond deciding from the whole distribution, for three kinds of random
generators of d noise inputs and two costs. `training` trains the estimator's implicit network, without a linear start,
on Irish wind, and on European wind where its tables are, penalty 20, and judges it with 200 independent members on the
test years, seeds paired. `step` compares a decision-aware training step, structured over independent.
"""

import argparse
import json
import math
import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

import stakes
from benchmarks.timing import interleave, processor
from reproduction.tasks.portfolio import EuropeanWind, IrishWind
from stakes.models.noise import draw_normal, draw_structured
from stakes.training.processes import called_for_each
from stakes.training.replicas import Replica
from stakes.training.settings import ImplicitSettings, automatic_settings
from stakes.training.trainer import train

Row = dict[str, object]
Generator = Callable[[Tensor], Tensor]
"""From noise (K, N, d) to outcomes (K, N, 1), for K random generators at once."""

GENERATORS, CASES, TRUTH = 24, 200, 20_000
COSTS: dict[str, stakes.Cost] = {
    "shortfall 20": stakes.ShortfallCost(20.0),
    "newsvendor 9 : 1": stakes.NewsvendorCost(9.0, 1.0, -5.0, 5.0),
}
JUDGED = 200
WEIGHTS = (0.0, 0.3, 0.6, 0.9)
MEMBERS = {"independent, 10": (False, 10), "independent, 30": (False, 30), "structured, 10": (True, 10)}


def generators(width: int) -> dict[str, Generator]:
    """Random networks, linear maps and maps with two modes, of mean 0.5 and standard deviation 0.2."""
    normal = torch.Generator().manual_seed(width)
    inner = torch.randn(GENERATORS, width, 32, generator=normal) * 1.5 / math.sqrt(width)
    offset = torch.randn(GENERATORS, 1, 32, generator=normal) / 2
    outer = torch.randn(GENERATORS, 32, 1, generator=normal)
    direction = torch.nn.functional.normalize(torch.randn(GENERATORS, width, 1, generator=normal), dim=1)
    kinds: dict[str, Generator] = {
        "network": lambda noise: torch.relu(noise @ inner + offset) @ outer,
        "linear": lambda noise: noise @ direction,
        "two modes": lambda noise: 2 * torch.sigmoid(4 * noise @ direction) + 0.3 * noise @ direction.roll(1, 0),
    }
    return {name: standardised(kind, width) for name, kind in kinds.items()}


def standardised(generator: Generator, width: int) -> Generator:
    sample = generator(
        torch.randn(1, TRUTH, width, generator=torch.Generator().manual_seed(1)).expand(GENERATORS, -1, -1)
    )
    mean, deviation = sample.mean(1, keepdim=True), sample.std(1, keepdim=True)
    return lambda noise: 0.5 + 0.2 * (generator(noise) - mean) / deviation


def excess(cost: stakes.Cost, generator: Generator, width: int, members: int, structured: bool) -> float:
    """What deciding from so many members costs more on average than the best action does."""
    draw, seeded = draw_structured if structured else draw_normal, torch.Generator().manual_seed(2)
    noise = draw(torch.zeros(1), GENERATORS * CASES, members, width, generator=seeded)
    forecast = generator(noise.reshape(GENERATORS, -1, width)).reshape(GENERATORS, CASES, members, 1)
    truth = generator(torch.randn(1, TRUTH, width, generator=seeded).expand(GENERATORS, -1, -1))
    action = stakes.optimal_action(cost, forecast)  # (K, N, 1)
    paid = torch.stack([cost(action, outcome[:, None]) for outcome in truth.unbind(1)[::20]]).mean()
    best = stakes.optimal_action(cost, truth[:, ::20])
    return float(paid - cost(best[:, None], truth[:, ::20]).mean())


def bias() -> list[Row]:
    rows: list[Row] = []
    for width, members in ((1, 10), (3, 10), (5, 10), (20, 10), (5, 20), (20, 20), (20, 50)):
        for kind, generator in generators(width).items():
            for name, cost in COSTS.items():
                independent, ours = (excess(cost, generator, width, members, each) for each in (False, True))
                about = {"noise inputs": width, "members": members, "generator": kind, "cost": name}
                numbers = {"independent": round(independent, 5), "structured": round(ours, 5)}
                rows.append({**about, **numbers, "ratio": round(ours / independent, 2)})
                print(rows[-1], flush=True)
    return rows


def replica(task: IrishWind | EuropeanWind, width: int, structured: bool, weight: float, seed: int) -> Replica:
    data = task.data()
    torch.manual_seed(seed)
    settings = ImplicitSettings(noise=width, hidden=64, layers=3, structured=structured)
    model = settings.build(data.train.features.shape[1], data.train.outcome.shape[1])
    model.fit_scaling(data.train.features, data.train.outcome)
    return Replica(model, data.train, data.validation, task.cost, weight, seed, f"weight {weight:g}, seed {seed}")


def trained_and_judged(record: str, reference: str, width: int, kind: str, seed: int) -> list[Row]:
    """Every weight, trained as one stack and judged on the test years."""
    torch.set_num_threads(1)
    task = IrishWind(penalty=20.0) if record == "Irish wind" else EuropeanWind(penalty=20.0, tables=reference)
    structured, members = MEMBERS[kind]
    replicas = [replica(task, width, structured, weight, seed) for weight in WEIGHTS]
    test = task.data().test
    settings = replace(automatic_settings(len(replicas[0].train)), members=members)
    rows: list[Row] = []
    for trained in train(replicas, settings):
        trained.load_into_model()
        model, generator = trained.replica.model, torch.Generator().manual_seed(0)
        drawn = model.sample(test.features, JUDGED, generator)
        scale = model.outcome_scaling
        score = stakes.energy_score(scale.standardise(drawn), scale.standardise(test.outcome)).mean()
        total, outcome = (task.cost.total(each) for each in (drawn, test.outcome))
        error = (total.mean(-1) - outcome).square().mean() / (1 + 1 / JUDGED)
        solution = stakes.solve_action(task.cost, drawn)
        paid = task.cost(solution.action, test.outcome).mean()
        measured = {
            "energy score": score,
            "spread/error": (total.var(-1).mean() / error).sqrt(),
            "signed gap": paid - solution.expected_cost.mean(),
            "cost": paid,
        }
        about = {"record": record, "noise inputs": width, "members": kind, "weight": trained.replica.decision_weight}
        rows.append({**about, "seed": seed, **{name: round(float(value), 5) for name, value in measured.items()}})
    return rows


def training(reference: Path | None, seeds: int, processes: int, widths: tuple[int, ...]) -> list[Row]:
    records = ["Irish wind"] + ["European wind"] * (reference is not None)
    calls = {
        (record, width, kind, seed): (record, str(reference), width, kind, seed)
        for record in records
        for width in widths
        for kind in MEMBERS
        for seed in range(seeds)
    }
    rows = []
    for key, some in called_for_each(trained_and_judged, calls, processes):
        print(*key, flush=True)
        rows += some
    for row in summary(rows):
        print(row, flush=True)
    return rows


def summary(rows: list[Row]) -> list[Row]:
    """Means over seeds."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in ("record", "noise inputs", "weight", "members")), []).append(row)
    measured = ("energy score", "spread/error", "signed gap", "cost")
    return [
        {"record": key[0], "noise inputs": key[1], "weight": key[2], "members": key[3], "seeds": len(some)}
        | {name: round(statistics.mean(float(str(row[name])) for row in some), 4) for name in measured}
        for key, some in sorted(groups.items(), key=str)
    ]


def step() -> list[Row]:
    """A training step of 256 cases with 10 members, one site and twelve."""
    rows: list[Row] = []
    for outcomes in (1, 12):
        structured, independent = (training_step(outcomes, each) for each in (True, False))
        timing = interleave(independent, {"structured": structured})
        rows.append({"outcomes": outcomes, "structured over independent": round(timing.ratios["structured"], 3)})
        print(rows[-1], flush=True)
    return rows


def training_step(outcomes: int, structured: bool) -> Callable[[], None]:
    torch.manual_seed(0)
    features, outcome = torch.randn(256, 2 * outcomes + 4), 10 + 4 * torch.randn(256, outcomes)
    model = ImplicitSettings(16, 64, 3, structured=structured).build(features.shape[1], outcomes)
    model.fit_scaling(features, outcome)
    score = stakes.EnergyScore("across" if structured else "fair")
    objective = stakes.DecisionAwareObjective(score, stakes.DecisionScore(stakes.WindDispatchCost(5.0)), 0.5)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)

    def one() -> None:
        loss = objective(model.training_draw(features, outcome, model.draw_noise(256, 10))).mean().total
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    return one


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("what", choices=["bias", "training", "step"])
    parser.add_argument("--reference", type=Path, help="folder of the tables that cannot be shipped")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--widths", type=int, nargs="+", default=[16], help="noise inputs of the network")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.what == "training":
        rows = training(options.reference, options.seeds, options.processes, tuple(options.widths))
    else:
        rows = {"bias": bias, "step": step}[options.what]()
    if options.json:
        options.json.write_text(json.dumps({"machine": processor(), options.what: rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
