"""Networks trained on their score first, and from there for a few epochs on the decision.

Programs that an interior-point method solves take a tenth of a second for a batch of days, and more. So the decision
comes last: a training on the score alone, which costs next to nothing, is where every training with the decision
starts. The weights of the least validation objective are kept, those of the start among them.
"""

import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from stakes.data.cases import Cases
from stakes.method.decision_score import DecisionScore
from stakes.method.interior_point import InteriorPoint
from stakes.method.models.implicit import ImplicitModel
from stakes.method.models.sample_model import TrainingDraw
from stakes.method.objective import DecisionAwareObjective
from stakes.method.score_mixture import ScoreMixture
from stakes.method.scores import EnergyScore, PointwiseCRPS, ScoringRule, VariogramScore
from stakes.paper.programs.methods import Candidates, Forecast
from stakes.paper.programs.networks import LEARNING_RATE, NETWORK, WEIGHT_DECAY, weight_name
from stakes.paper.programs.problem import Problem, RunEffort

__all__ = ["SCORES", "FineTuning", "drawn_members", "finetuned_candidates", "trained_model"]

SCORES: dict[str, ScoringRule] = {
    "energy": EnergyScore(),
    "pointwise": PointwiseCRPS(),
    "variogram": ScoreMixture((EnergyScore(), VariogramScore()), (1.0, 1.0)),
}
"""What networks are trained on, by name."""

_SCORE_MEMBERS, _VALIDATION_MEMBERS = 20, 50
_SCORE_BATCH = 64
_EVERY = 2  # epochs from one validation of the score to the next
_TOLERANCE = 1e-7  # of a program in training, in units of a case


@dataclass(frozen=True)
class FineTuning:
    """How the decision is trained on.

    Attributes:
        weights: The decision weights beside 0.
        members: How many members decide.
        batch: Cases of a step.
        epochs: How many epochs there are at most.
        learning_rate: Adam's.
    """

    weights: tuple[float, ...] = (0.5,)
    members: int = 20
    batch: int = 64
    epochs: int = 4
    learning_rate: float = 1e-3


def finetuned_candidates(
    problem: Problem,
    seed: int,
    effort: RunEffort,
    *,
    name: str = "energy",
    score: str = "energy",
    linear: bool = True,
    members: int = 50,
    tuning: FineTuning | None = None,
) -> Candidates:
    """A network trained on a score, "NAME 0", and from there at each decision weight, "NAME WEIGHT".

    Args:
        problem: What is decided.
        seed: The seed of the first weights, the batches and the noise.
        effort: How long it trains, and how many members decide at most.
        name: What the training is called.
        score: One of `SCORES`.
        linear: Whether training starts from a linear forecast.
        members: How many members the forecasts have.
        tuning: How the decision is trained on; None trains on the score alone.
    """
    count = min(members, effort.members)
    model = trained_model(problem, seed, effort, score=score, linear=linear)
    candidates = {weight_name(name, 0.0): _forecast(problem, model, count, seed)}
    if tuning is None:
        return candidates
    tuning = replace(
        tuning, epochs=min(tuning.epochs, effort.epochs), members=min(tuning.members, effort.decision_members)
    )
    for weight in tuning.weights:
        tuned = _tuned(problem, model, score, weight, seed, tuning)
        candidates[weight_name(name, weight)] = _forecast(problem, tuned, count, seed)
    return candidates


def trained_model(problem: Problem, seed: int, effort: RunEffort, *, score: str, linear: bool) -> ImplicitModel:
    """A network trained on a score alone.

    Args:
        problem: What is decided.
        seed: The seed of the first weights, the batches and the noise.
        effort: How long it trains.
        score: One of `SCORES`.
        linear: Whether training starts from a linear forecast.
    """
    train = problem.train
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = ImplicitModel(
            train.features.shape[1], train.outcome.shape[1], **NETWORK, linear=linear, gap=problem.gap if linear else 0
        )
    model.fit_scaling(train.features, train.outcome)
    objective = DecisionAwareObjective(_standardised(score, model, train), DecisionScore(problem.cost), 0.0)
    training = _Training(_SCORE_BATCH, _SCORE_MEMBERS, _VALIDATION_MEMBERS, effort.epochs, effort.patience, _EVERY)
    return training.best(model, objective, problem, seed, LEARNING_RATE)


def drawn_members(model: ImplicitModel, cases: Cases, members: int, seed: int) -> Tensor:
    """Members (n, M, D) of some cases, each with noise of its own.

    Args:
        model: The network.
        cases: The cases.
        members: M.
        seed: What the noise depends on.
    """
    return model.sample(cases.features, members, torch.Generator().manual_seed(seed))


def _forecast(problem: Problem, model: ImplicitModel, members: int, seed: int) -> Forecast:
    validation, test = (drawn_members(model, cases, members, seed) for cases in (problem.validation, problem.test))
    return Forecast(validation, test)


def _standardised(score: str, model: ImplicitModel, train: Cases) -> ScoringRule:
    """The score, its parts divided by what climatology scores where there are several."""
    rule = SCORES[score]
    if not isinstance(rule, ScoreMixture):
        return rule
    return rule.standardised(model.outcome_scaling.standardise(train.outcome))


def _tuned(
    problem: Problem, model: ImplicitModel, score: str, weight: float, seed: int, tuning: FineTuning
) -> ImplicitModel:
    rule = _standardised(score, model, problem.train)
    objective = DecisionAwareObjective(
        rule, DecisionScore(problem.cost, solver=InteriorPoint(tolerance=_TOLERANCE)), weight
    )
    objective = objective.estimate_scales(_draws(model, problem.validation, tuning.members, seed, tuning.batch))
    training = _Training(tuning.batch, tuning.members, tuning.members, tuning.epochs, tuning.epochs, 1)
    return training.best(deepcopy(model), objective, problem, seed + 1, tuning.learning_rate)


@dataclass(frozen=True)
class _Training:
    """Steps of Adam, and the weights of the least validation objective."""

    batch: int
    members: int
    validation_members: int
    epochs: int
    patience: int
    every: int

    def best(
        self,
        model: ImplicitModel,
        objective: DecisionAwareObjective,
        problem: Problem,
        seed: int,
        learning_rate: float,
    ) -> ImplicitModel:
        generator, train = torch.Generator().manual_seed(seed), problem.train
        decay = WEIGHT_DECAY if model.linear is not None else 0.0
        optimiser = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=decay)
        least, best, waited = self._validated(model, objective, problem), deepcopy(model.state_dict()), 0
        for epoch in range(1, self.epochs + 1):
            for places in torch.randperm(len(train), generator=generator).split(self.batch):
                noise = model.draw_noise(len(places), self.members, generator)
                draw = model.training_draw(train.features[places], train.outcome[places], noise)
                loss = objective(draw).mean().total
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
            if epoch % self.every:
                continue
            value = self._validated(model, objective, problem)
            waited += self.every
            if value < least:
                least, best, waited = value, deepcopy(model.state_dict()), 0
            if waited >= self.patience:
                break
        model.load_state_dict(best)
        return model.requires_grad_(True)

    @torch.no_grad()
    def _validated(self, model: ImplicitModel, objective: DecisionAwareObjective, problem: Problem) -> float:
        draws = _draws(model, problem.validation, self.validation_members, 0, _SCORE_BATCH)
        losses = [objective(draw).total for draw in draws]
        value = float(torch.cat(losses).mean())
        return value if math.isfinite(value) else math.inf


@torch.no_grad()
def _draws(model: ImplicitModel, cases: Cases, members: int, seed: int, batch: int) -> Sequence[TrainingDraw]:
    """The cases batch by batch, with the same noise every time."""
    generator = torch.Generator().manual_seed(seed)
    return [
        model.training_draw(features, outcome, model.draw_noise(len(features), members, generator))
        for features, outcome in zip(cases.features.split(batch), cases.outcome.split(batch), strict=True)
    ]
