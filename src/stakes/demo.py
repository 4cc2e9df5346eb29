"""Two decisions on the sum of many sites, made from a plain and from a decision-aware forecast.

    python -m stakes.demo

Both models of a pair start from one pre-training on the energy score and then train on with the same batches and the
same noise, one on the score alone, one on the mixture with the cost of the decision.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from torch import Tensor

from stakes.actions import optimal_action
from stakes.costs import Cost, ImbalanceCost, ShortfallCost
from stakes.data.records import load_record
from stakes.data.series import LaggedInput, LaggedSeries, Split
from stakes.evaluation.significance import paired_difference
from stakes.models.implicit import ImplicitModel
from stakes.objective import DecisionAwareObjective
from stakes.scores import DecisionScore, EnergyScore, energy_score
from stakes.tasks.portfolio import SimulatedPortfolio

SEEDS = 3
BATCH = 256
VALIDATION_MEMBERS = 20
TEST_MEMBERS = 200


@dataclass(frozen=True)
class Problem:
    """A decision with its data."""

    title: str
    note: str
    decision: DecisionScore
    decision_weight: float
    members: int  # in training
    epochs: int  # of pre-training, and again of each branch
    total: Callable[[Tensor], Tensor]  # what the decision is about: outcomes (..., D) to (...)
    train: tuple[Tensor, Tensor]  # features (N, F), outcomes (N, D)
    validation: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]
    block: int  # neighbouring cases that belong together in the bootstrap
    truth: "Truth | None" = None

    @property
    def cost(self) -> Cost:
        return self.decision.cost


@dataclass(frozen=True)
class Truth:
    """What the true conditional distribution knows of each test case."""

    power: Tensor  # (N, K) members of the mean power
    cost: ShortfallCost

    def regret(self, action: Tensor) -> Tensor:
        """Expected cost of actions (N, 1) above that of the best ones, (N,)."""
        members = self.power.T[..., None]
        best = optimal_action(self.cost, self.power[..., None])
        return (self.cost(action, members) - self.cost(best, members)).mean(0)


class Assessment(NamedTuple):
    """A model on the test cases, each (N,) and in the order of the table."""

    energy_score: Tensor
    cost: Tensor
    regret: Tensor  # cost above the truth's, or over climatology's where the truth is not known
    gap: Tensor  # predicted less realised cost
    spread: Tensor  # of the total, over what it should be


def french_load() -> Problem:
    """Buy tomorrow's electricity for the 12 regions of mainland France, in GW."""
    record = load_record("load_france")
    loads, temperatures = record.columns[:12], record.columns[12:]
    series = LaggedSeries(
        inputs=(LaggedInput(loads, (0, 24, 144)), LaggedInput(temperatures)),
        targets=loads,
        lead_hours=24,
        at_target_time=temperatures,
        calendar=("weekday", "hour"),
    )
    years = {"train": ("2014", "2019"), "validation": ("2019", "2020"), "test": ("2021", "2022")}
    splits = series.splits(record, years)

    def tensors(split: Split) -> tuple[Tensor, Tensor]:
        return torch.from_numpy(split.features).float(), torch.from_numpy(split.outcomes).float() / 1000

    return Problem(
        title="Tomorrow's electricity for 12 regions of France, short 10 times dearer than long",
        note="Debiased decision score. Train 2014-2018, validate 2019, test 2021 (2020 was the lockdown year), 24 h "
        f"ahead; the temperature at the target time stands in for its forecast.\n{record.attribution}",
        decision=DecisionScore(ImbalanceCost(short=10.0, long=1.0, lower=0.0, upper=150.0), "debiased"),
        decision_weight=0.6,
        members=20,
        epochs=30,
        total=lambda outcome: outcome.sum(-1),
        train=tensors(splits["train"]),
        validation=tensors(splits["validation"]),
        test=tensors(splits["test"]),
        block=28,  # a week
    )


def simulated_wind() -> Problem:
    """Commit the mean power of 60 simulated wind sites, where the truth is known."""
    task = SimulatedPortfolio()
    generator = torch.Generator().manual_seed(1)
    train, validation, test = (task.draw(cases, generator) for cases in (1500, 1000, 2000))
    truth = [task.mean_power(task.draw_outcomes(part, 500, generator)) for part in test[0].split(100)]
    return Problem(
        title=f"The mean power of {task.sites} simulated wind sites, lambda = {task.penalty:g}",
        note="The truth is known: regret is the expected cost above that of the true distribution's best action.",
        decision=DecisionScore(task.cost),
        decision_weight=0.3,
        members=10,
        epochs=40,
        total=task.mean_power,
        train=train,
        validation=validation,
        test=test,
        block=1,
        truth=Truth(torch.cat(truth), ShortfallCost(task.penalty)),
    )


def train_pair(problem: Problem, seed: int, tick: Callable[[], None]) -> tuple[ImplicitModel, ImplicitModel]:
    """A plain and a decision-aware model from one pre-training."""
    torch.manual_seed(seed)
    features, outcome = problem.train
    plain = ImplicitModel(features.shape[1], outcome.shape[1], noise=16, hidden=64, layers=3)
    plain.fit_scaling(features, outcome)
    score_only = DecisionAwareObjective(EnergyScore(), problem.decision, decision_weight=0.0)
    train(plain, score_only, problem, range(problem.epochs), seed, tick)
    aware = copy.deepcopy(plain)
    noise = aware.draw_noise(len(features), problem.members, torch.Generator().manual_seed(seed))
    scaled = score_only.estimate_scales(aware.training_draw(features, outcome, noise))
    second_half = range(problem.epochs, 2 * problem.epochs)
    train(plain, scaled, problem, second_half, seed, tick)
    train(aware, replace(scaled, decision_weight=problem.decision_weight), problem, second_half, seed, tick)
    return plain, aware


def train(
    model: ImplicitModel,
    objective: DecisionAwareObjective,
    problem: Problem,
    epochs: range,
    seed: int,
    tick: Callable[[], None],
) -> None:
    """Adam on shuffled batches, best weights on the validation cases restored.

    Batches and noise are a function of seed and epoch, so that pairs share them.
    """
    features, outcome = problem.train
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    best, best_weights = float("inf"), copy.deepcopy(model.state_dict())
    for epoch in epochs:
        generator = torch.Generator().manual_seed(1000 * seed + epoch)
        for rows in torch.randperm(len(features), generator=generator).split(BATCH):
            noise = model.draw_noise(len(rows), problem.members, generator)
            loss = objective(model.training_draw(features[rows], outcome[rows], noise)).mean().total
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        current = validate(model, objective, problem)
        if current < best:
            best, best_weights = current, copy.deepcopy(model.state_dict())
        tick()
    model.load_state_dict(best_weights)


@torch.no_grad()
def validate(model: ImplicitModel, objective: DecisionAwareObjective, problem: Problem) -> float:
    """The objective on the validation cases, with the same noise every time."""
    features, outcome = problem.validation
    noise = model.draw_noise(len(features), VALIDATION_MEMBERS, torch.Generator().manual_seed(0))
    return objective(model.training_draw(features, outcome, noise)).mean().total.item()


def assess(model: ImplicitModel, problem: Problem, seed: int) -> Assessment:
    """Forecast, decide and settle every test case."""
    features, outcome = problem.test
    members = model.sample(features, TEST_MEMBERS, torch.Generator().manual_seed(seed))
    action = optimal_action(problem.cost, members)
    cost = problem.cost(action, outcome)
    predicted = problem.cost(action, members.movedim(-2, 0)).mean(0)
    totals = problem.total(members)
    if problem.truth is None:
        error = (totals.mean(-1) - problem.total(outcome)).square().mean().sqrt()
        regret, right_spread = cost / climatological_cost(problem), error
    else:
        regret, right_spread = problem.truth.regret(action), problem.truth.power.std(-1).mean()
    return Assessment(energy_score(members, outcome), cost, regret, predicted - cost, totals.std(-1) / right_spread)


def climatological_cost(problem: Problem) -> Tensor:
    """Mean test cost of the one action that is best for the training outcomes."""
    action = optimal_action(problem.cost, problem.train[1])
    return problem.cost(action.expand(len(problem.test[1]), 1), problem.test[1]).mean()


def compare(problem: Problem, plain: Sequence[Assessment], aware: Sequence[Assessment]) -> Table:
    """One row a figure: both models, and their paired difference with its 95 % interval."""
    known = problem.truth is not None
    labels = {
        "energy_score": "energy score",
        "cost": "realised cost",
        "regret": "regret" if known else "cost / climatology's",
        "gap": "signed calibration gap",
        "spread": "spread of sum / " + ("true one" if known else "error"),
    }
    table = Table(title=problem.title, caption=problem.note, title_justify="left", caption_justify="left")
    table.add_column("", no_wrap=True)
    for heading in ("plain", f"weight {problem.decision_weight}", "difference [95 % interval]"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, label in labels.items():
        before, after = (torch.stack([getattr(result, name) for result in results]) for results in (plain, aware))
        difference = paired_difference(after, before, problem.block)
        table.add_row(
            label,
            f"{before.mean().item():.4f}",
            f"{after.mean().item():.4f}",
            f"{difference.mean:+.4f} \\[{difference.low:+.4f} {difference.high:+.4f}]",
            style="bold" if difference.significant else None,
        )
    return table


def main() -> None:
    """Train both pairs of models and print what they are worth."""
    console = Console()
    with Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=console
    ) as progress:
        problems = (french_load(), simulated_wind())
        bar = progress.add_task("training, in epochs", total=3 * SEEDS * sum(problem.epochs for problem in problems))
        tables = []
        for problem in problems:
            pairs = [train_pair(problem, seed, lambda: progress.advance(bar)) for seed in range(SEEDS)]
            results = [[assess(model, problem, seed) for model in pair] for seed, pair in enumerate(pairs)]
            tables.append(compare(problem, *zip(*results, strict=True)))
    for table in tables:
        console.print(table)
        console.print()
    console.print(
        f"{SEEDS} seeds, {TEST_MEMBERS} members a forecast. Gap: predicted less realised cost. "
        "Bold: the paired interval (time in blocks and seeds resampled) leaves out zero."
    )


if __name__ == "__main__":
    main()
