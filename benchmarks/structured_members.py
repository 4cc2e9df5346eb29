"""Structured members against independent ones: bias of the decision score, training, time of a step.

    python -m benchmarks.structured_members bias [--json FILE]
    python -m benchmarks.structured_members sets [--json FILE]
    python -m benchmarks.structured_members limit [--json FILE]
    python -m benchmarks.structured_members training --out FOLDER [--reference FOLDER] [--seeds 5] [--jobs 2]
    python -m benchmarks.structured_members shared [--reference FOLDER] [--seeds 20] [--json FILE]
    python -m benchmarks.structured_members step [--json FILE]

`bias` is what deciding from M members costs beyond deciding from the whole distribution, for three kinds of random
generators of d noise inputs and two costs. `sets` compares the two independent sets of a case with one set of all
members: what deciding costs, and by how much the mean distance of two members is off, which the energy score takes
across the two sets, or in the one set divided by what it is for the noise itself. `limit` is how little of the variance
V of the slope of the cost, to which the excess is proportional, any set of ten vectors with stratified lengths can
leave in its mean: a lower bound by semidefinite programming (Bachoc and Vallentin 2008), beside what ours leave.
`training` trains the estimator's implicit network, from a linear start and without, on Irish wind, French load, 60
simulated sites and the paper's three tasks, and on European wind where its tables are, two of them as newsvendors too,
and judges it with 200 independent members of the test cases, seeds paired; the training score is that of 800 training
cases. What is finished lies in the folder and is not run again; without anything left to run it prints the means over
seeds. `shared` decides on wind with one such network from one set of noise for all cases, drawn with so many seeds,
independent and as `sample` does: the mean and the deviation of the cost. `step` compares a decision-aware training
step, structured over independent.
"""

import argparse
import importlib
import json
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from scipy.special import eval_gegenbauer
from torch import Tensor

import stakes
from benchmarks.timing import interleave, processor
from reproduction.tasks.frost import FrostTask
from reproduction.tasks.portfolio import EuropeanWind, FrenchLoad, IrishWind, SimulatedPortfolio
from reproduction.tasks.synthetic import SyntheticTask
from reproduction.tasks.task import KnownTruth, Task, TaskData
from reproduction.tasks.wind import WindTask
from stakes.costs.cost import outcome_total
from stakes.data.case_table import CaseTable
from stakes.files import write_atomically
from stakes.models.noise import _radii as chi_quantiles
from stakes.models.noise import draw_normal, draw_shared, draw_structured
from stakes.training.processes import called_for_each
from stakes.training.progress import Trained
from stakes.training.replicas import Replica
from stakes.training.settings import ImplicitSettings, TrainingSettings, automatic_settings
from stakes.training.trainer import train

Row = dict[str, object]
Generator = Callable[[Tensor], Tensor]
"""From noise (K, N, d) to outcomes (K, N, 1), for K random generators at once."""

Draw = Callable[..., Tensor]
DRAWS: tuple[Draw, Draw] = draw_normal, draw_structured

GENERATORS, CASES, TRUTH = 24, 200, 20_000
COSTS: dict[str, stakes.Cost] = {
    "shortfall 20": stakes.ShortfallCost(20.0),
    "newsvendor 9 : 1": stakes.NewsvendorCost(9.0, 1.0, -5.0, 5.0),
}
JUDGED, JUDGED_CASES, LEARNED_CASES = 200, 1500, 800
WEIGHTS = (0.0, 0.5, 0.9)
MEMBERS = {
    "independent, 5": (False, TrainingSettings(members=5)),
    "independent, 10": (False, TrainingSettings(members=10)),
    "independent, 30": (False, TrainingSettings(members=30)),
    "structured, 10": (True, TrainingSettings(members=10)),
    "debiased, 10": (False, TrainingSettings(members=10, decision_estimator="debiased")),
}


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


def excess(cost: stakes.Cost, generator: Generator, width: int, members: int, draw: Draw) -> float:
    """What deciding from so many members costs more on average than the best action does."""
    seeded = torch.Generator().manual_seed(2)
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
                independent, ours = (excess(cost, generator, width, members, draw) for draw in DRAWS)
                about = {"noise inputs": width, "members": members, "generator": kind, "cost": name}
                numbers = {"independent": round(independent, 5), "structured": round(ours, 5)}
                rows.append({**about, **numbers, "ratio": round(ours / independent, 2)})
                print(rows[-1], flush=True)
    return rows


def sets() -> list[Row]:
    """One set of ten members against two of five: the excess of decisions, and the error of the mean distance."""
    rows: list[Row] = []
    cost, members = COSTS["shortfall 20"], 10
    for width in (5, 20):
        for kind, generator in generators(width).items():
            row: Row = {"noise inputs": width, "generator": kind}
            row["excess, independent"] = round(excess(cost, generator, width, members, draw_normal), 5)
            for name, draw in (("one set", one_set), ("two sets", draw_structured)):
                row[f"excess, {name}"] = round(excess(cost, generator, width, members, draw), 5)
                row[f"distance off, {name}"] = f"{distance_error(generator, width, members, draw):+.1%}"
            rows.append(row)
            print(row, flush=True)
    return rows


LIMITED, PAIRS, AT_ONCE, DEGREES = 10, 8000, 1000, 7
COSINES = torch.linspace(-1, 1, 31)


def limit() -> list[Row]:
    """From linear generators to networks, and two modes: V over that of independent members, and its lower bound."""
    rows: list[Row] = []
    for width in (5, 20):
        kinds = generators(width)
        linear, network = kinds.pop("linear"), kinds.pop("network")
        half = standardised(sum_of(linear, network), width)
        for kind, generator in {"linear": linear, "half of both": half, "network": network, **kinds}.items():
            for name, cost in COSTS.items():
                row: Row = {"noise inputs": width, "generator": kind, "cost": name}
                slope = scaled_slope(cost, generator, width)
                variance = {draw: mean_variance(slope, width, draw) for draw in (*DRAWS, one_set)}
                row["two sets"] = round(variance[draw_structured] / variance[draw_normal], 2)
                row["one set"] = round(variance[one_set] / variance[draw_normal], 2)
                row["least of any set"] = round(least_variance(slope, width), 2)
                rows.append(row)
                print(row, flush=True)
    return rows


def sum_of(one: Generator, other: Generator) -> Generator:
    return lambda noise: one(noise) + other(noise)


def scaled_slope(cost: stakes.Cost, generator: Generator, width: int) -> Generator:
    """The slope of the cost at the best action by noise (K, N, d), (K, N), less its mean.

    The variance of the mean of M of them is, over curvature, twice the excess to leading order; the sum over the K
    generators is scaled to 1 for M = 1.
    """
    seeded = torch.Generator().manual_seed(7)
    truth = generator(torch.randn(1, TRUTH, width, generator=seeded).expand(GENERATORS, -1, -1))
    best = stakes.optimal_action(cost, truth)[:, None]  # (K, 1, 1)

    def slope(outcome: Tensor, beside: float = 0.0) -> Tensor:
        action = (best + beside).expand_as(outcome).clone().requires_grad_()
        return torch.autograd.grad(cost(action, outcome).sum(), action)[0][..., 0]

    step = 0.02
    curvature = (slope(truth, step) - slope(truth, -step)).mean(1, keepdim=True) / (2 * step)
    known = slope(truth)
    scale = (1 / curvature / (known.var(1, keepdim=True) / curvature).sum()).sqrt()
    return lambda noise: (slope(generator(noise)) - known.mean(1, keepdim=True)) * scale


def mean_variance(slope: Generator, width: int, draw: Draw) -> float:
    cases = 10 * CASES
    seeded = torch.Generator().manual_seed(2)
    noise = draw(torch.zeros(1), GENERATORS * cases, LIMITED, width, generator=seeded)
    values = slope(noise.reshape(GENERATORS, -1, width)).reshape(GENERATORS, cases, LIMITED)
    return float(values.mean(2).square().mean(1).sum())


def least_variance(slope: Generator, width: int) -> float:
    """A lower bound of M times the variance of the mean of M slopes, over any set turned at random.

    Vector i has a length from the i-th of M equally likely parts. K_ij(c) is the mean product of the slopes at vectors
    i and j whose directions have the cosine c, and P_k the Gegenbauer polynomials, P_k(1) = 1. For F_k positive
    semidefinite, k >= 1, and any symmetric F_0 with sum_k F_k,ij P_k(c) <= K_ij(c) for i != j and all c, the sum of
    K_ij over i != j is at least sum_{i != j} F_0,ij - sum_{k >= 1} trace F_k.
    """
    cvxpy: Any = importlib.import_module("cvxpy")  # whose names a type checker does not find
    products = torch.stack([mean_products(slope, width, seed) for seed in range(PAIRS // AT_ONCE)]).mean(0)
    own, across = products[-1], (products[:-1] + products[:-1].mT) / 2
    of_degree = [eval_gegenbauer(degree, width / 2 - 1, COSINES.numpy()) for degree in range(DEGREES)]
    forms = [cvxpy.Variable((LIMITED, LIMITED), symmetric=True)]
    forms += [cvxpy.Variable((LIMITED, LIMITED), PSD=True) for _ in range(1, DEGREES)]
    others = 1 - np.eye(LIMITED)
    below = [
        cvxpy.multiply(others, sum(each[place] / each[-1] * form for each, form in zip(of_degree, forms, strict=True)))
        <= others * across[place].numpy()
        for place in range(len(COSINES))
    ]
    least = cvxpy.sum(cvxpy.multiply(others, forms[0])) - sum(cvxpy.trace(form) for form in forms[1:])
    found = cvxpy.Problem(cvxpy.Maximize(least), below).solve(solver=cvxpy.CLARABEL)
    return float(1 + found / own.trace())


def mean_products(slope: Generator, width: int, seed: int) -> Tensor:
    """K_ij(c) for every cosine, and at the end that of each vector with itself, (cosines + 1, M, M)."""
    seeded = torch.Generator().manual_seed(seed)
    both = torch.linalg.qr(torch.randn(AT_ONCE, width, 2, generator=seeded))[0]
    first, beside = both.unbind(-1)

    def values(directions: Tensor, levels: Tensor) -> Tensor:
        noise = chi_quantiles(levels.double(), width).float()[..., None] * directions  # (M, N, d)
        return slope(noise.reshape(1, -1, width).expand(GENERATORS, -1, -1)).reshape(GENERATORS, LIMITED, AT_ONCE)

    parts = torch.arange(LIMITED)[:, None]
    levels, others = ((parts + torch.rand(LIMITED, AT_ONCE, generator=seeded)) / LIMITED for _ in range(2))
    ours = values(first, levels)
    pairs = [values(cosine * first + (1 - cosine**2).sqrt() * beside, others) for cosine in COSINES]
    return torch.stack([torch.einsum("kin,kjn->ij", ours, each) / AT_ONCE for each in (*pairs, ours)])


def one_set(like: Tensor, cases: int, members: int, width: int, generator: torch.Generator | None) -> Tensor:
    return draw_structured(like, cases, 2 * members, width, generator)[:, ::2]


def distance_error(generator: Generator, width: int, members: int, draw: Draw) -> float:
    """The mean distance of two members, as the score takes it, over that of independent ones, less 1."""
    seeded = torch.Generator().manual_seed(3)
    noise = draw(torch.zeros(1), GENERATORS * CASES, members, width, generator=seeded)
    forecast = generator(noise.reshape(GENERATORS, -1, width)).reshape(GENERATORS * CASES, members, 1)
    truth = generator(torch.randn(1, 2 * TRUTH, width, generator=seeded).expand(GENERATORS, -1, -1))
    independent = (truth[:, ::2] - truth[:, 1::2]).abs().mean()
    if draw is draw_structured:
        return float(mean_distance(forecast[:, ::2], forecast[:, 1::2]) / independent - 1)
    kappa = mean_distance(noise, noise) / mean_distance(torch.randn(2000, 100, width, generator=seeded))
    return float(mean_distance(forecast, forecast) / kappa / independent - 1)


def mean_distance(members: Tensor, others: Tensor | None = None) -> Tensor:
    """Between the members (N, M, D) of each case, or between them and those of another set."""
    if others is None or others is members:
        return torch.cdist(members, members).sum() / (len(members) * members.shape[1] * (members.shape[1] - 1))
    return torch.cdist(members, others).mean()


@dataclass(frozen=True)
class OtherCost:
    """A task with another cost."""

    task: Task
    cost: stakes.Cost

    def data(self) -> TaskData:
        return self.task.data()


def tasks(reference: Path | None) -> dict[str, Task]:
    known: dict[str, object] = {
        "Irish wind": IrishWind(penalty=20.0),
        "French load": FrenchLoad(),
        "60 simulated sites": SimulatedPortfolio(),
        "synthetic": SyntheticTask(),
        "North Sea wind": WindTask(10.0),
        "frost": FrostTask(0.3),
        "French load, newsvendor": OtherCost(FrenchLoad(), stakes.NewsvendorCost(9.0, 1.0, 0.0, 150.0)),
    }
    if reference is not None:
        wind = EuropeanWind(20.0, tables=str(reference))
        newsvendor = stakes.NewsvendorCost(1.0, 4.0, 0.0, 21.0)  # of the sum of the series
        known |= {"European wind": wind, "European wind, newsvendor": OtherCost(wind, newsvendor)}
    return cast(dict[str, Task], known)


def trained(task: Task, start: str, width: int, kind: str, seed: int, weights: Sequence[float]) -> list[Trained]:
    """A network for every weight, as one stack."""
    torch.set_num_threads(1)
    structured, of_kind = MEMBERS[kind]
    data, linear = task.data(), start == "linear"
    settings = ImplicitSettings(noise=width, hidden=64, layers=3, linear=linear, structured=structured)
    replicas = []
    for weight in weights:
        torch.manual_seed(seed)
        model = settings.build(data.train.features.shape[1], data.train.outcome.shape[1])
        model.fit_scaling(data.train.features, data.train.outcome)
        replicas.append(Replica(model, data.train, data.validation, task.cost, weight, seed, f"weight {weight:g}"))
    training = automatic_settings(len(data.train), linear=linear)
    return train(replicas, replace(training, members=of_kind.members, decision_estimator=of_kind.decision_estimator))


def judged_cases(task: Task) -> CaseTable:
    return spread_rows(task.data().test, JUDGED_CASES)


def spread_rows(cases: CaseTable, most: int) -> CaseTable:
    return cases.rows(torch.linspace(0, len(cases) - 1, min(len(cases), most)).long().numpy())


def trained_and_judged(
    task: Task, start: str, width: int, kind: str, seed: int, weights: tuple[float, ...] = WEIGHTS
) -> list[Row]:
    """Every weight, trained as one stack and judged on test cases."""
    began = time.perf_counter()
    stack = trained(task, start, width, kind, seed, weights)
    seconds = (time.perf_counter() - began) / len(weights)
    cases = judged_cases(task)
    rows: list[Row] = []
    for result in stack:
        result.replica.model.load_state_dict(result.weights)
        about = {"noise inputs": width, "members": kind, "weight": result.replica.decision_weight, "seed": seed}
        measured = judged(task, result.replica.model, cases.features, cases.outcome) | {"seconds": seconds}
        known = spread_rows(task.data().train, LEARNED_CASES)
        measured["training score"] = drawn_and_scored(result.replica.model, known.features, known.outcome)[1]
        rows.append(about | {name: float(f"{value:.5g}") for name, value in measured.items()})
    return rows


def judged(task: Task, model: torch.nn.Module, features: Tensor, outcome: Tensor) -> dict[str, float]:
    """A forecast by independent members, so that none of the ways to train is flattered."""
    drawn, score = drawn_and_scored(model, features, outcome)
    total, happened = (outcome_total(task.cost, each) for each in (drawn, outcome))
    error = (total.mean(-1) - happened).square().mean() / (1 + 1 / JUDGED)
    solution = stakes.solve_action(task.cost, drawn)
    paid = task.cost(solution.action, outcome).mean()
    measured = {
        "energy score": score,
        "spread/error": float((total.var(-1).mean() / error).sqrt()),
        "signed gap": float(solution.expected_cost.mean() - paid),  # below 0: it costs more than the forecast says
        "cost": float(paid),
    }
    if isinstance(task, KnownTruth):
        measured["regret"] = float(task.truth(features).regret(solution.action).mean())
    return measured


def drawn_and_scored(model: torch.nn.Module, features: Tensor, outcome: Tensor) -> tuple[Tensor, float]:
    """Independent members and their energy score, in standard units."""
    assert isinstance(model, stakes.ImplicitModel)
    drawn, scale = model.sample(features, JUDGED, torch.Generator().manual_seed(0)), model.outcome_scaling
    parts = zip(scale.standardise(drawn).split(100), scale.standardise(outcome).split(100), strict=True)
    return drawn, float(torch.cat([stakes.energy_score(*part) for part in parts]).mean())


def training(options: argparse.Namespace) -> list[Row]:
    """What the folder holds once every cell has run that is asked for."""
    known = tasks(options.reference)
    cells = {
        options.out / f"{record}; {start}; {width}; {kind}; {seed}.json": (
            known[record],
            start,
            width,
            kind,
            seed,
            tuple(options.weights),
        )
        for seed in range(options.seeds)
        for width in options.widths
        for start in options.starts
        for record in (options.records or known)
        for kind in options.kinds
    }
    options.out.mkdir(parents=True, exist_ok=True)
    left = {file: cell for file, cell in cells.items() if not file.exists()}
    for file, some in called_for_each(trained_and_judged, left, options.jobs):
        record, start = file.name.split("; ")[:2]
        rows = [{"record": record, "start": start} | row for row in some]
        write_atomically(file, (json.dumps(rows, indent=1) + "\n").encode())
        print(file.stem, flush=True)
    kept: list[Row] = [row for file in sorted(options.out.glob("*; *.json")) for row in json.loads(file.read_text())]
    for row in summary(kept):
        print(row, flush=True)
    return kept


def summary(rows: Sequence[Row]) -> list[Row]:
    """Means over seeds, and the score over that of weight 0 with independent members."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    keys = ("record", "start", "noise inputs", "weight", "members")
    for row in rows:
        groups.setdefault(tuple(row[name] for name in keys), []).append(row)
    lines: list[Row] = []
    for key, some in sorted(groups.items(), key=str):
        measured = [name for name in some[0] if name not in (*keys, "seed") and all(name in row for row in some)]
        means = {name: statistics.mean(float(str(row[name])) for row in some) for name in measured}
        plain = groups.get((*key[:3], 0.0, "independent, 10"), [])
        line: Row = dict(zip(keys, key, strict=True)) | {"seeds": len(some)}
        line |= {name: float(f"{value:.4g}") for name, value in means.items()}
        if {row["seed"] for row in plain} == {row["seed"] for row in some}:
            before = statistics.mean(float(str(row["energy score"])) for row in plain)
            line["price"] = f"{means['energy score'] / before - 1:+.2%}"
        lines.append(line)
    return lines


def shared(options: argparse.Namespace) -> list[Row]:
    """How much the cost depends on the seed of the noise that all cases share."""
    known, rows = tasks(options.reference), []
    for record in (name for name in options.records or known if name.endswith("wind")):
        task = known[record]
        (result,) = trained(task, "linear", 16, "independent, 10", 0, (0.0,))
        result.replica.model.load_state_dict(result.weights)
        model, cases = result.replica.model, judged_cases(task)
        assert isinstance(model, stakes.ImplicitModel)
        for members in (50, 200, 500):
            row: Row = {"record": record, "members": members}
            for name in ("independent", "shared"):
                costs = []
                for seed in range(options.seeds):
                    like, generator = model.outcome_scaling.mean, torch.Generator().manual_seed(seed)
                    if name == "shared":
                        vectors = draw_shared(like, members, model.noise, generator)
                    else:
                        vectors = draw_normal(like, 1, members, model.noise, generator=generator)
                    action = stakes.optimal_action(task.cost, forecast_from(model, cases.features, vectors))
                    costs.append(float(task.cost(action, cases.outcome).mean()))
                row[name] = f"{statistics.mean(costs):.4f}, sd {statistics.stdev(costs):.5f}"
            rows.append(row)
            print(row, flush=True)
    return rows


@torch.no_grad()
def forecast_from(model: stakes.ImplicitModel, features: Tensor, noise: Tensor) -> Tensor:
    parts = [model(part, noise.expand(len(part), -1, -1)) for part in features.split(100)]
    return model.outcome_scaling.restore(torch.cat(parts))


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
    parser.add_argument("what", choices=["bias", "sets", "limit", "training", "shared", "step"])
    parser.add_argument("--out", type=Path, default=Path("build/structured_members"), help="what training keeps")
    parser.add_argument("--reference", type=Path, help="folder of the tables that cannot be shipped")
    parser.add_argument("--records", nargs="+", help="some of the records; all by default")
    parser.add_argument("--starts", nargs="+", default=["none", "linear"], choices=["none", "linear"])
    parser.add_argument("--widths", type=int, nargs="+", default=[16], help="noise inputs of the network")
    parser.add_argument("--kinds", nargs="+", default=[*MEMBERS], choices=MEMBERS)
    parser.add_argument("--weights", type=float, nargs="+", default=WEIGHTS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    measured = {
        "bias": lambda _: bias(),
        "sets": lambda _: sets(),
        "limit": lambda _: limit(),
        "training": training,
        "shared": shared,
        "step": lambda _: step(),
    }
    rows = measured[options.what](options)
    if options.json:
        options.json.write_text(json.dumps({"machine": processor(), options.what: rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
