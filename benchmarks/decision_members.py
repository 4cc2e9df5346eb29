"""How many members a decision takes, and which: more of them than the score has, and chosen ones, not random ones.

    python -m benchmarks.decision_members step [--device cuda] [--json FILE]
    python -m benchmarks.decision_members rewarded [--json FILE]
    python -m benchmarks.decision_members spread [--seeds 10] [--device cuda] [--processes 2] [--json FILE]
    python -m benchmarks.decision_members chosen [--seeds 20] [--reference FOLDER] [--json FILE]

`step` times a decision-aware step of the estimator's implicit model (batch 256) whose score has 10 members, the
decision made from 10, 20 or 64. `rewarded` asks which spread the decision score of M members likes best, where outcomes
are N(0, 1) and forecasts N(0, spread^2): 1 would be honest. `spread` trains that model, with a linear start and
without, on the Irish wind record, penalty 20, at some weights, and judges each with 200 members on the test years: the
spread of the total over the error of its mean, 1 where it is right, and the realised cost. Seeds are paired: the same
batches and noise. `chosen` gives ridge regression on the problems of `benchmarks.forecast_quality` M residual vectors,
of a random half of those of the training rows for each seed: drawn at random, in the order of kernel herding (in one
dimension quantiles), which is what `stakes.LinearModel` takes, and their support points. It prints what the decisions
cost on the test rows beyond those from the whole half, the mean over the seeds and the standard deviation. Problems of
one outcome are decided with newsvendor costs too.
"""

import argparse
import itertools
import json
import statistics
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import stakes
from benchmarks.forecast_quality.problems import Problem, problems
from benchmarks.timing import interleave, processor
from reproduction.tasks.portfolio import IrishWind
from stakes.evaluation.metrics import Assessor
from stakes.models.linear import fit_linear_start
from stakes.models.sample_model import Scaling
from stakes.models.support_points import herding_order, support_points
from stakes.training.processes import called_for_each
from stakes.training.replicas import Replica
from stakes.training.settings import ImplicitSettings, automatic_settings
from stakes.training.trainer import train

BATCH, MEMBERS, JUDGED = 256, 10, 200
COUNTS = (10, 20, 64)
WEIGHTS = (0.0, 0.3, 0.6, 0.9)
Row = dict[str, object]


def training_step(count: int, outcomes: int, device: str) -> Callable[[], None]:
    """One step of Adam whose decision sees `count` members, of which the score sees the first ten."""
    torch.manual_seed(0)
    features = torch.randn(BATCH, 2 * outcomes + 4, device=device)
    outcome = 10 + 4 * torch.randn(BATCH, outcomes, device=device)
    model = stakes.ImplicitModel(features.shape[1], outcomes, noise=16, hidden=64, layers=3).to(device)
    model.fit_scaling(features, outcome)
    objective = stakes.DecisionAwareObjective(
        stakes.EnergyScore(), stakes.DecisionScore(stakes.WindDispatchCost(5.0)), 0.5
    )
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step() -> None:
        draw = model.training_draw(features, outcome, model.draw_noise(BATCH, count))
        loss = objective(draw._replace(score_members=draw.score_members[:, :MEMBERS])).mean().total
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    return step


def step_costs(device: str) -> list[Row]:
    rows: list[Row] = []
    for outcomes in (1, 12):
        few, *more = (training_step(count, outcomes, device) for count in COUNTS)
        timing = interleave(few, {str(count): step for count, step in zip(COUNTS[1:], more, strict=True)})
        ratios = {f"{count} / 10": round(ratio, 2) for count, ratio in timing.ratios.items()}
        rows.append({"outcomes": outcomes, "10 members, ms": round(timing.milliseconds["ours"], 3), **ratios})
        print(rows[-1], flush=True)
    return rows


COSTS: dict[str, stakes.Cost] = {
    "imbalance, 10 : 1": stakes.ImbalanceCost(10.0, 1.0, -99.0, 99.0),
    "newsvendor, 10 : 1": stakes.NewsvendorCost(10.0, 1.0, -99.0, 99.0),
    "newsvendor, 50 : 1": stakes.NewsvendorCost(50.0, 1.0, -99.0, 99.0),
}


def rewarded_spreads(cases: int = 400_000) -> list[Row]:
    """The spread with the least mean cost; the best action of members spread * z is spread times that of z."""
    spreads = torch.arange(0.5, 2.0, 0.01)
    rows: list[Row] = []
    for name, cost in COSTS.items():
        row: Row = {"cost": name}
        for count in (10, 20, 64, 200):
            generator = torch.Generator().manual_seed(0)
            outcome = torch.randn(cases, 1, generator=generator)
            parts = [torch.randn(8000, count, 1, generator=generator) for _ in range(cases // 8000)]
            action = torch.cat([stakes.optimal_action(cost, part) for part in parts])
            means = torch.stack([cost(spread * action, outcome).mean() for spread in spreads])
            row[f"{count} members"] = round(spreads[means.argmin()].item(), 2)
        rows.append(row)
        print(row, flush=True)
    return rows


def replica(linear: bool, weight: float, seed: int) -> Replica:
    task = IrishWind(penalty=20.0)
    data = task.data()
    torch.manual_seed(seed)
    settings = ImplicitSettings(noise=16, hidden=64, layers=3, linear=linear, gap=1)
    model = settings.build(data.train.features.shape[1], data.train.outcome.shape[1])
    model.fit_scaling(data.train.features, data.train.outcome)
    return Replica(model, data.train, data.validation, task.cost, weight, seed, f"weight {weight:g}, seed {seed}")


def judged(linear: bool, count: int, seeds: tuple[int, ...], device: str) -> list[Row]:
    """Every weight and seed, trained as one stack and judged on the test years."""
    if device == "cpu":
        torch.set_num_threads(1)
    replicas = [replica(linear, weight, seed) for seed in seeds for weight in WEIGHTS]
    data, assessor = IrishWind().data(), Assessor(replicas[0].cost)
    settings = replace(automatic_settings(len(data.train), linear=linear), decision_member_count=count)
    rows: list[Row] = []
    for trained in train(replicas, settings, device=device):
        trained.replica.model.load_state_dict(trained.weights)
        generator = torch.Generator().manual_seed(0)
        metrics = assessor(trained.replica.model.cpu().sample(data.test.features, JUDGED, generator), data.test.outcome)
        ratio = (metrics["spread"] ** 2).mean() / (metrics["error"] ** 2).mean() * (1 + 1 / JUDGED)
        measured = {
            "spread": ratio.sqrt(),
            "cost": metrics["cost"].mean(),
            "energy score": metrics["energy_score"].mean(),
        }
        start = "linear" if linear else "none"
        about = {"start": start, "decision members": count, "weight": trained.replica.decision_weight}
        numbers = {name: round(value.item(), 5) for name, value in measured.items()}
        rows.append({**about, "seed": trained.replica.seed, **numbers})
        print(rows[-1], flush=True)
    return rows


def spread(seeds: int, device: str, processes: int) -> list[Row]:
    parts = [tuple(range(seeds))] if device != "cpu" else [(seed,) for seed in range(seeds)]
    calls = {each: (*each, device) for each in itertools.product((True, False), COUNTS, parts)}
    return [row for _, rows in called_for_each(judged, calls, processes) for row in rows]


def summary(rows: list[Row]) -> list[Row]:
    """Means over the seeds, and what more members change at a weight, with its standard error over paired seeds."""
    lines: list[Row] = []
    for start, weight, name in itertools.product(("linear", "none"), WEIGHTS, ("spread", "cost", "energy score")):
        few, *more = (values_by_seed(rows, name, start, weight, count) for count in COUNTS)
        line: Row = {"start": start, "weight": weight, "measured": name, str(MEMBERS): round(statistics.mean(few), 4)}
        for count, many in zip(COUNTS[1:], more, strict=True):
            change = [after - before for before, after in zip(few, many, strict=True)]
            error = statistics.stdev(change) / len(change) ** 0.5 if len(change) > 1 else float("nan")
            line[str(count)] = f"{statistics.mean(change):+.4f} ± {error:.4f}"
        lines.append(line)
        print(line, flush=True)
    return lines


def values_by_seed(rows: list[Row], name: str, start: str, weight: float, count: int) -> list[float]:
    wanted = {"start": start, "weight": weight, "decision members": count}
    own = [row for row in rows if wanted.items() <= row.items()]
    return [float(str(row[name])) for row in sorted(own, key=lambda row: int(str(row["seed"])))]


CHOSEN = (50, 200, 500)
NEWSVENDORS = {"newsvendor, 9 : 1": 9.0, "newsvendor, 49 : 1": 49.0}
CANDIDATES, JUDGED_ROWS = 2000, 250


def chosen(name: str, seeds: int, reference: Path | None) -> list[Row]:
    """For every cost of a problem and M, the cost beyond that of all residual vectors, by the way to take M of them."""
    torch.set_num_threads(1)
    problem = problems(reference)[name]()
    outcomes, location, residuals, restore = ridge(problem)
    costs = dict(problem.costs)
    if outcomes.shape[1] == 1:
        ends = float(problem.outcomes.min()), 2 * float(problem.outcomes.max())
        costs |= {label: stakes.NewsvendorCost(short, 1.0, *ends) for label, short in NEWSVENDORS.items()}
    rows: list[Row] = []
    for label, cost in costs.items():
        paid = partial(mean_cost, cost, location, outcomes, restore)
        rows += [{"problem": name, "cost": label} | row for row in beyond_all(residuals, paid, seeds)]
    return rows


def mean_cost(
    cost: stakes.Cost, location: Tensor, outcomes: Tensor, restore: Callable[[Tensor], Tensor], vectors: Tensor
) -> float:
    """What decisions from these residual vectors cost."""
    parts = [stakes.optimal_action(cost, restore(part[:, None] + vectors)) for part in location.split(100)]
    return float(cost(torch.cat(parts), outcomes).mean())


def ridge(problem: Problem) -> tuple[Tensor, Tensor, Tensor, Callable[[Tensor], Tensor]]:
    """Outcomes of some test rows and where they are expected, residual vectors, and the way back to physical units."""
    known, test = slice(problem.train), problem.test_rows
    test = test[np.linspace(0, len(test) - 1, min(len(test), JUDGED_ROWS)).astype(int)]
    features, outcomes = torch.from_numpy(problem.features), torch.from_numpy(problem.outcomes)
    of_features, of_outcomes = (Scaling(each.shape[1]).double() for each in (features, outcomes))
    of_features.fit(features[known])
    of_outcomes.fit(outcomes[known])
    gap = round(problem.lead_hours / float(np.median(np.diff(problem.times[known])) / np.timedelta64(1, "h")))
    start = fit_linear_start(of_features.standardise(features[known]), of_outcomes.standardise(outcomes[known]), gap)
    location = of_features.standardise(features[test]).double() @ start.weight.mT + start.bias
    return outcomes[test], location, start.residuals, of_outcomes.restore


def beyond_all(residuals: Tensor, paid: Callable[[Tensor], float], seeds: int) -> list[Row]:
    """For every M the mean and the standard deviation over seeds of what M residual vectors cost beyond all."""
    beyond: dict[tuple[int, str], list[float]] = {}
    every = []
    for seed in range(seeds):
        generator = torch.Generator().manual_seed(seed)
        half = residuals[torch.randperm(len(residuals), generator=generator)[: min(len(residuals) // 2, CANDIDATES)]]
        every.append(paid(half))
        order = herding_order(half, max(CHOSEN))
        for count in (count for count in CHOSEN if count < len(half)):
            taken = {
                "random": half[:count],  # they are in random order
                "chosen": half[herding_order(half, count) if half.shape[1] == 1 else order[:count]],
                "support points": support_points(half, count),
            }
            for way, vectors in taken.items():
                beyond.setdefault((count, way), []).append(paid(vectors) - every[-1])
    rows: list[Row] = []
    for count in sorted({count for count, _ in beyond}):
        row: Row = {"M": count, "all": f"{statistics.mean(every):.5g}"}
        for way in ("random", "chosen", "support points"):
            values = beyond[count, way]
            row[way] = f"{statistics.mean(values):+.2g} sd {statistics.pstdev(values):.2g}"
        worse = [ours - other for ours, other in zip(beyond[count, "chosen"], beyond[count, "random"], strict=True)]
        error = statistics.stdev(worse) / len(worse) ** 0.5
        row["chosen less random"] = f"{statistics.mean(worse):+.2g} ± {error:.2g}"
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["step", "rewarded", "spread", "chosen"])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--reference", type=Path, help="folder of the tables that cannot be shipped")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    machine = torch.cuda.get_device_name() if arguments.device == "cuda" else f"{processor()}, 1 thread"
    record: dict[str, object] = {"machine": machine, "torch": torch.__version__}
    if arguments.what == "step":
        if arguments.device == "cpu":
            torch.set_num_threads(1)
        record["steps"] = step_costs(arguments.device)
    elif arguments.what == "rewarded":
        record["spreads"] = rewarded_spreads()
    elif arguments.what == "chosen":
        calls = {name: (name, arguments.seeds, arguments.reference) for name in problems(arguments.reference)}
        record["chosen"] = rows = []
        for _, some in called_for_each(chosen, calls, arguments.processes):
            print(*some, sep="\n", flush=True)
            rows += some
    else:
        runs = spread(arguments.seeds, arguments.device, arguments.processes)
        record |= {"seeds": arguments.seeds, "runs": runs, "summary": summary(runs)}
    if arguments.json:
        arguments.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
