"""Networks that start from a linear forecast, trained on a score and on the decision, by the project's own training."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from stakes.data.cases import Cases
from stakes.errors import StakesError
from stakes.method.models.linear import LinearModel
from stakes.method.models.model_ensemble import pooled_parts
from stakes.method.training_settings import ImplicitSettings, TrainingSettings
from stakes.paper.programs.fresh_errors import fresh_vectors, mended_members
from stakes.paper.programs.methods import Candidates, Forecast
from stakes.paper.programs.problem import Problem, RunEffort
from stakes.training.all_rows import FoundTraining, train_on_all_rows
from stakes.training.many_weights import FittedWeight, TrainingPlan, train_weights

__all__ = [
    "LEARNING_RATE",
    "NETWORK",
    "RIDGE_CANDIDATES",
    "WEIGHTS",
    "WEIGHT_DECAY",
    "fitted_ridge",
    "fresh_name",
    "ridge_candidates",
    "trained_candidates",
    "weight_name",
]

WEIGHTS = (0.0, 0.1, 0.5, 0.9)
"""The decision weights that are tried."""

RIDGE_CANDIDATES = ("ridge", "ridge fresh", "ridge refit", "ridge train")
"""The candidates of ridge regression."""

NETWORK = {"noise": 16, "hidden": 64, "layers": 3}
"""The size of every network."""

LEARNING_RATE = 2e-3
"""Adam's, where a network is trained on its score."""

WEIGHT_DECAY = 0.1
"""That of a network which starts from a linear forecast, to which it decays."""


def weight_name(name: str, weight: float) -> str:
    """What the candidate of a training at a decision weight is called.

    Args:
        name: The name of the training.
        weight: The decision weight.
    """
    return f"{name} {weight:g}"


def fresh_name(name: str) -> str:
    """What a candidate is called once it is corrected by fresh errors.

    Args:
        name: Its name before.
    """
    return f"{name} fresh"


def fitted_ridge(cases: Cases, gap: int) -> LinearModel:
    """Ridge regression with its errors out of fold, all of those of so many cases.

    Args:
        cases: What it is fitted to.
        gap: How many rows before a case were not known yet when it was forecast.
    """
    model = LinearModel(cases.features.shape[1], cases.outcome.shape[1], len(cases), gap)
    model.fit_scaling(cases.features, cases.outcome)
    return model


def ridge_candidates(problem: Problem, seed: int, effort: RunEffort) -> dict[str, Forecast]:
    """Ridge regression as "ridge", fitted to all cases before the test, with its error vectors out of fold.

    "ridge fresh" is fitted to the training cases and has the error vectors of the validation cases; "ridge refit" has
    these errors too, around the regression on all cases. "ridge train" knows the training cases alone.

    Args:
        problem: What is decided.
        seed: Not used, nothing here is left to chance.
        effort: How many error vectors there are.
    """
    before = fitted_ridge(problem.train, problem.gap)
    whole = fitted_ridge(problem.before_test, problem.gap)
    fresh = fresh_vectors(problem, Forecast(_points(before, problem.validation), _points(before, problem.test)), effort)
    moved = _points(whole, problem.test) - _points(before, problem.test)
    return {
        "ridge": _with_errors(whole, problem, effort),
        "ridge fresh": fresh,
        "ridge refit": Forecast(None, fresh.test + moved),
        "ridge train": _with_errors(before, problem, effort),
    }


def _with_errors(ridge: LinearModel, problem: Problem, effort: RunEffort) -> Forecast:
    """The regression with its error vectors, the same for all test cases."""
    generator = torch.Generator().manual_seed(0)
    return Forecast(None, ridge.sample(problem.test.features, effort.members, generator, share_noise=True))


def _points(ridge: LinearModel, cases: Cases) -> torch.Tensor:
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
    """A network at each decision weight, "NAME WEIGHT", and corrected by fresh errors, "NAME WEIGHT fresh".

    The validation cases say when to stop, and give the fresh errors. Then the network is trained again on all cases
    before the test, for as many epochs, which is what forecasts the test cases. Networks of one seed start alike.

    Args:
        problem: What is decided.
        seed: The seed of the first weights, the batches and the noise.
        effort: How long it trains, and how many members decide.
        name: What the training is called.
        weights: The decision weights.
        settings: Fields of `TrainingSettings` that take the place of those here, such as {"score": "pointwise"} or
            {"companion": "variogram"}.
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
        judged=None,
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
        candidates |= {label: forecast, fresh_name(label): mended_members(problem, forecast)}
    return candidates


def _trained_again(plan: TrainingPlan, problem: Problem, search: Sequence[FittedWeight]) -> list[FittedWeight]:
    records = [record for fitted in search for record in fitted.records]
    epochs = FoundTraining.of(plan.settings, records, [fitted.weight for fitted in search])
    return _without_failure(train_on_all_rows(replace(plan, train=problem.before_test), epochs))


def _without_failure(trained: list[FittedWeight]) -> list[FittedWeight]:
    for fitted in trained:
        if not fitted.models:
            raise StakesError(f"a network of weight {fitted.weight:g} failed: {fitted.records[0]['failure']}")
    return trained


def _members(fitted: FittedWeight, cases: Cases, effort: RunEffort, seed: int) -> torch.Tensor:
    parts = pooled_parts(fitted.models, cases.features, effort.network_members, seed, share_noise=False)
    return torch.cat([members for _, members in parts])
