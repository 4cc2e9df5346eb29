"""Networks for vector decisions: trained on a score, on the decision, and corrected by recent errors."""

import math
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reproduction.programs.problem import Candidates, Forecast, Problem, RunEffort
from stakes.data.case_table import CaseTable
from stakes.errors import StakesError
from stakes.forecasting.corrections import Correction
from stakes.models.implicit import ImplicitModel
from stakes.models.linear import LinearModel
from stakes.models.sample_model import TrainingDraw, pooled_parts
from stakes.programs.interior_point import InteriorPoint
from stakes.scores.decision_score import DecisionScore
from stakes.scores.objective import DecisionAwareObjective
from stakes.scores.scoring_rules import EnergyScore, PointwiseCRPS, ScoreMixture, ScoringRule, VariogramScore
from stakes.training.settings import ImplicitSettings, RefitSchedule, TrainingSettings
from stakes.training.weight_search import FittedWeight, TrainingPlan, train_on_all_rows, train_weights

WEIGHTS = (0.0, 0.1, 0.5, 0.9)
"""The decision weights that are tried."""

RIDGE_CANDIDATES = ("ridge", "ridge recent", "ridge refit", "ridge train")
"""The candidates of ridge regression."""

NETWORK: Mapping[str, Any] = {"noise": 16, "hidden": 64, "layers": 3}
"""The size of every network."""

LEARNING_RATE = 2e-3
"""Adam's, where a network is trained on its score."""

WEIGHT_DECAY = 0.1
"""That of a network which starts from a linear forecast, to which it decays."""


def weight_name(name: str, weight: float) -> str:
    """What the candidate of a training at a decision weight is called."""
    return f"{name} {weight:g}"


def recent_name(name: str) -> str:
    """What a candidate is called once it is corrected by recent errors."""
    return f"{name} recent"


def fitted_ridge(cases: CaseTable, gap: int) -> LinearModel:
    """Ridge regression with its errors out of fold, all of those of so many cases."""
    model = LinearModel(cases.features.shape[1], cases.outcome.shape[1], len(cases), gap)
    model.fit_scaling(cases.features, cases.outcome)
    return model


def ridge_candidates(problem: Problem, seed: int, effort: RunEffort) -> dict[str, Forecast]:
    """Ridge regression as "ridge", fitted to all cases before the test, with its error vectors out of fold.

    "ridge recent" is fitted to the training cases and has the error vectors of the validation cases; "ridge refit" has
    these errors too, around the regression on all cases. "ridge train" knows the training cases alone.
    """
    before = fitted_ridge(problem.train, problem.gap)
    whole = fitted_ridge(problem.before_test, problem.gap)
    recent = recent_vectors(
        problem, Forecast(_points(before, problem.validation), _points(before, problem.test)), effort
    )
    moved = _points(whole, problem.test) - _points(before, problem.test)
    return {
        "ridge": _with_errors(whole, problem, effort),
        "ridge recent": recent,
        "ridge refit": Forecast(None, recent.test + moved),
        "ridge train": _with_errors(before, problem, effort),
    }


def _with_errors(ridge: LinearModel, problem: Problem, effort: RunEffort) -> Forecast:
    """The regression with its error vectors, the same for all test cases."""
    generator = torch.Generator().manual_seed(0)
    return Forecast(None, ridge.sample(problem.test.features, effort.members, generator, share_noise=True))


def _points(ridge: LinearModel, cases: CaseTable) -> torch.Tensor:
    """The regression without errors, as single members (N, 1, D)."""
    standardised = ridge.feature_scaling.standardise(cases.features)
    return ridge.outcome_scaling.restore(standardised @ ridge.weight.mT + ridge.bias)[:, None]


def trained_candidates(
    problem: Problem,
    seed: int,
    effort: RunEffort,
    *,
    name: str = "energy",
    weights: Sequence[float] = WEIGHTS,
    settings: Mapping[str, Any] | None = None,
) -> Candidates:
    """A network at each decision weight, "NAME WEIGHT", and corrected by recent errors, "NAME WEIGHT fresh".

    The validation cases say when to stop, and give the recent errors. Then the network is trained again on all cases
    before the test, for as many epochs, which is what forecasts the test cases. Networks of one seed start alike.
    """
    chosen: dict[str, Any] = {
        "epochs": effort.epochs,
        "patience": effort.patience,
        "members": 20,
        "decision_member_count": effort.decision_members,
        "validation_members": 50,
        "validate_every": 2,
        "learning_rate": LEARNING_RATE,
        "weight_decay": WEIGHT_DECAY,
        **(settings or {}),
    }
    plan = TrainingPlan(
        cost=problem.cost,
        factory=ImplicitSettings(**NETWORK, linear=True, gap=problem.gap).build,
        settings=TrainingSettings(**chosen),
        weights=tuple(weights),
        seeds=(seed,),
        train=problem.train,
        stopping=problem.validation,
        members=effort.network_members,
        noise_seed=seed,
        device="cpu",
    )
    search = _without_failure(train_weights(plan))
    taken = _trained_again(plan, problem, search)
    candidates: dict[str, Forecast] = {}
    for first, last in zip(search, taken, strict=True):
        forecast = Forecast(
            _members(first, problem.validation, effort, seed),
            _members(last, problem.test, effort, seed),
        )
        label = weight_name(name, first.weight)
        candidates |= {label: forecast, recent_name(label): mended_members(problem, forecast)}
    return candidates


def _trained_again(plan: TrainingPlan, problem: Problem, search: Sequence[FittedWeight]) -> list[FittedWeight]:
    records = [record for fitted in search for record in fitted.records]
    epochs = RefitSchedule.of(plan.settings, records, [fitted.weight for fitted in search])
    return _without_failure(train_on_all_rows(replace(plan, train=problem.before_test), epochs))


def _without_failure(trained: list[FittedWeight]) -> list[FittedWeight]:
    for fitted in trained:
        if not fitted.models:
            raise StakesError(f"a network of weight {fitted.weight:g} failed: {fitted.records[0]['failure']}")
    return trained


def _members(fitted: FittedWeight, cases: CaseTable, effort: RunEffort, seed: int) -> torch.Tensor:
    parts = pooled_parts(fitted.models, cases.features, effort.network_members, seed, share_noise=False)
    return torch.cat([members for _, members in parts])


_LEARNED = 100  # members of a validation case that bias and spread are learned from


def halves(count: int) -> tuple[slice, slice]:
    """The first half of so many cases and the second."""
    return slice(0, count // 2), slice(count // 2, count)


def recent_vectors(problem: Problem, location: Forecast, effort: RunEffort) -> Forecast:
    """Point forecasts with the error vectors of validation cases as members."""
    most = effort.members
    assert location.validation is not None
    errors = problem.validation.outcome - location.validation[:, 0]

    def learn(known: slice) -> Callable[[Tensor, slice], Tensor]:
        all_known = len(errors[known]) == len(errors)
        vectors = _evenly(errors[known], most if all_known else min(most, len(errors) // 2))  # halves alike
        return lambda points, rows: points[rows] + vectors

    return _crosswise(location, learn)


def mended_members(problem: Problem, forecast: Forecast) -> Forecast:
    """Members whose bias and spread are mended by their errors on validation cases (`stakes.Correction`)."""
    assert forecast.validation is not None
    every = max(1, forecast.validation.shape[1] // _LEARNED)
    members = forecast.validation[:, ::every].double().numpy()
    outcome = problem.validation.outcome.double().numpy()

    def learn(known: slice) -> Callable[[Tensor, slice], Tensor]:
        correction = Correction.fit(members[known], outcome[known], dependence="errors")
        return lambda drawn, rows: torch.from_numpy(np.asarray(correction.apply(drawn[rows].numpy())))

    return _crosswise(forecast, learn)


def _crosswise(forecast: Forecast, learn: Callable[[slice], Callable[[Tensor, slice], Tensor]]) -> Forecast:
    """The test cases by what all validation cases teach, and each half of these by what the other half does."""
    assert forecast.validation is not None
    first, second = halves(len(forecast.validation))
    validation = torch.cat([learn(second)(forecast.validation, first), learn(first)(forecast.validation, second)])
    return Forecast(validation, learn(slice(None))(forecast.test, slice(None)))


def _evenly(vectors: Tensor, most: int) -> Tensor:
    """At most so many of the vectors (N, D), evenly spread over all."""
    places = torch.linspace(0, len(vectors) - 1, min(most, len(vectors))).round().long()
    return vectors[places]


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
    """How the decision is trained on."""

    weights: tuple[float, ...] = (0.5,)  # the decision weights beside 0
    members: int = 20  # how many members decide
    batch: int = 64  # cases of a step
    epochs: int = 4  # how many epochs there are at most
    learning_rate: float = 1e-3  # adam's


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
    """A network trained on a score, "NAME 0", and from there at each decision weight, "NAME WEIGHT"."""
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
    """A network trained on a score alone."""
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


def drawn_members(model: ImplicitModel, cases: CaseTable, members: int, seed: int) -> Tensor:
    """Members (n, M, D) of some cases, each with noise of its own."""
    return model.sample(cases.features, members, torch.Generator().manual_seed(seed))


def _forecast(problem: Problem, model: ImplicitModel, members: int, seed: int) -> Forecast:
    validation, test = (drawn_members(model, cases, members, seed) for cases in (problem.validation, problem.test))
    return Forecast(validation, test)


def _standardised(score: str, model: ImplicitModel, train: CaseTable) -> ScoringRule:
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
def _draws(model: ImplicitModel, cases: CaseTable, members: int, seed: int, batch: int) -> Sequence[TrainingDraw]:
    """The cases batch by batch, with the same noise every time."""
    generator = torch.Generator().manual_seed(seed)
    return [
        model.training_draw(features, outcome, model.draw_noise(len(features), members, generator))
        for features, outcome in zip(cases.features.split(batch), cases.outcome.split(batch), strict=True)
    ]
