"""What a training run is: frozen dataclasses that are its settings, its JSON record and its command-line flags."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, Protocol, cast, get_args

import torch
from torch import nn

from stakes.argument_checks import (
    require_count,
    require_decision_weight,
    require_finite,
    require_one_of,
    require_positive,
)
from stakes.errors import SettingError
from stakes.models.diffusion import DecisionWeighting, DiffusionModel, NoiseSchedule, Prediction, require_chain
from stakes.models.implicit import ImplicitModel
from stakes.models.linear import LinearModel
from stakes.models.residual_model import ResidualModel
from stakes.models.sample_model import PoolModel
from stakes.scores.scoring_rules import score_weights

Companion = Literal["decision", "crps_of_total", "variogram", "tail_crps"]
"""What the score is mixed with; see `TrainingSettings`."""


@dataclass(frozen=True)
class TrainingSettings:
    """How a model is trained; the defaults are the paper's (appendix B), where it states them.

    Attributes:
        epochs: Maximum number of epochs. An epoch has as many full batches of shuffled cases as there are; the rest
            are left out of it.
        pretraining_epochs: Epochs on the score alone that come first. They do not count in `epochs`; loss scales and
            optimiser start afresh after them.
        batch: Cases per training step.
        members: Members per case in training.
        learning_rate: Initial learning rate of Adam.
        validate_every: Number of epochs between validations, which all use the same noise.
        validation_members: Members per case in validation.
        validation_draws: Number of draws of each validation case; for a diffusion model, at as many evenly spaced noise
            levels. None is 1, or for a diffusion model enough for 4,096 draws of all cases, at most 16.
        patience: Number of epochs without a better validation after which training stops and restores the best weights.
        keep: "best" keeps the weights of the best validation, "last" those of the last epoch, without early stopping.
        gradient_clip: Largest norm of a step's gradient; None does not clip.
        weight_decay: Weight decay, decoupled from the gradient as in AdamW.
        schedule: Schedule of the learning rate: "constant", or "cosine", which falls to zero at the last epoch.
        score_estimator: "fair" or "biased", as in `energy_score`.
        decision_estimator: "plain" or "debiased", as in `DecisionScore`.
        solver: How training finds the best action: "exact", or "projected_gradient", the paper's, with `solver_steps`.
        solver_steps: Steps of projected gradient descent.
        companion: What the score is mixed with: the cost of the "decision" or, as its rivals, "crps_of_total", the CRPS
            of what the decision is about, "variogram", the variogram score of the sites, and "tail_crps", the CRPS
            weighted to where the cost is highest.
        score: "energy", "pointwise" or "total" (`EnergyScore`, `PointwiseCRPS`, `TotalCRPS` of the cost), or a mixture,
            such as "energy=1,total=0.5", whose parts are each divided by what climatology scores on the training cases.
        decision_member_count: Members per case that the decision is made from, at least `members`, of which the score
            sees the first; in validation `validation_members` at least. None is as many as the score has.
    """

    epochs: int = 2000
    pretraining_epochs: int = 0
    batch: int = 256
    members: int = 10
    learning_rate: float = 1e-3
    validate_every: int = 10
    validation_members: int = 50
    validation_draws: int | None = None
    patience: int = 600
    keep: Literal["best", "last"] = "best"
    gradient_clip: float | None = None
    weight_decay: float = 0.0
    schedule: Literal["constant", "cosine"] = "constant"
    score_estimator: Literal["fair", "biased"] = "fair"
    decision_estimator: Literal["plain", "debiased"] = "plain"
    solver: Literal["exact", "projected_gradient"] = "exact"
    solver_steps: int = 50
    companion: Companion = "decision"
    score: str = "energy"
    decision_member_count: int | None = None

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "members", "validate_every", "validation_members", "patience", "solver_steps"):
            require_count(name, getattr(self, name))
        if self.validation_draws is not None:
            require_count("validation_draws", self.validation_draws)
        require_one_of("keep", self.keep, ("best", "last"))
        require_one_of("solver", self.solver, ("exact", "projected_gradient"))
        require_count("pretraining_epochs", self.pretraining_epochs, least=0)
        require_positive("learning_rate", self.learning_rate)
        if self.gradient_clip is not None:
            require_positive("gradient_clip", self.gradient_clip)
        require_finite("weight_decay", self.weight_decay)
        if self.weight_decay < 0:
            raise SettingError(f"weight_decay must not be negative, got {self.weight_decay}")
        require_one_of("schedule", self.schedule, ("constant", "cosine"))
        require_one_of("score_estimator", self.score_estimator, ("fair", "biased"))
        require_one_of("decision_estimator", self.decision_estimator, ("plain", "debiased"))
        require_one_of("companion", self.companion, get_args(Companion))
        score_weights(self.score)  # which checks it
        if self.decision_member_count is not None:
            require_count("decision_member_count", self.decision_member_count, self.members)
        for name in ("members", "validation_members", "decision_member_count"):
            count = getattr(self, name)
            if count is None:
                continue
            if self.decision_estimator == "debiased" and (count < 4 or count % 2):
                raise SettingError(f"{name} must be even and at least 4 for the debiased estimator, got {count}")
            if self.score_estimator == "fair" and count < 2:
                raise SettingError(f"{name} must be at least 2 for the fair estimator, got {count}")


class ModelSettings(Protocol):
    """A model before it knows the number of features and outcomes."""

    name: ClassVar[str]

    def build(self, features: int, outcomes: int) -> nn.Module:
        """A fresh model, its weights drawn from torch's global generator."""


@dataclass(frozen=True)
class ImplicitSettings(ModelSettings):
    """The implicit generative model (appendix B: 5 x 50).

    Attributes:
        noise: Width of the noise vector of a member.
        hidden: Width of the hidden layers.
        layers: How many hidden layers there are.
        linear: Whether training starts from a linear forecast, as in `ImplicitModel`.
        gap: How many rows the cross-validation of the linear forecast leaves out beside a block, as in `ImplicitModel`.
        structured: Whether the members of a training step are structured, as in `ImplicitModel`.
    """

    name: ClassVar[str] = "implicit"
    noise: int = 8
    hidden: int = 50
    layers: int = 5
    linear: bool = False
    gap: int = 0
    structured: bool = False

    def __post_init__(self) -> None:
        for name in ("noise", "hidden", "layers"):
            require_count(name, getattr(self, name))
        require_count("gap", self.gap, least=0)

    def build(self, features: int, outcomes: int) -> ImplicitModel:
        """A model of this kind."""
        return ImplicitModel(features, outcomes, **vars(self))


@dataclass(frozen=True)
class LinearSettings(ModelSettings):
    """Ridge regression with resampled residual vectors, which needs no training.

    Attributes:
        residuals: How many residual vectors are kept.
        gap: How many rows the cross-validation leaves out beside a block, as in `LinearModel`.
        constant: Whether the features are left aside, which makes it climatology.
    """

    name: ClassVar[str] = "linear"
    residuals: int = 2000
    gap: int = 0
    constant: bool = False

    def __post_init__(self) -> None:
        require_count("residuals", self.residuals)
        require_count("gap", self.gap, least=0)

    def build(self, features: int, outcomes: int) -> LinearModel:
        """A model of this kind."""
        return LinearModel(features, outcomes, **vars(self))


@dataclass(frozen=True)
class DiffusionSettings(ModelSettings):
    """The distributional diffusion model (appendix B: 5 x 50, 100 steps).

    Attributes:
        noise: Width of the noise vector of a member.
        hidden: Width of the hidden layers.
        layers: How many hidden layers there are.
        steps: How many noise levels the chain has.
        endpoints: "scaled" or "raw", as in `NoiseSchedule`.
        prediction: What the network emits, as in `DiffusionModel`.
        decision_weighting: How much the decision term counts at each noise level, as in `DiffusionModel`.
        structured: Whether the members of a training step are structured, as in `ImplicitModel`.
        chain_steps: How many steps of the reverse chain the decision looks through in training, as in `DiffusionModel`.
        chain_gradient: Through how many of the last of them its gradient passes, as in `DiffusionModel`.
    """

    name: ClassVar[str] = "diffusion"
    noise: int = 8
    hidden: int = 50
    layers: int = 5
    steps: int = 100
    endpoints: Literal["scaled", "raw"] = "scaled"
    prediction: Prediction = "v"
    decision_weighting: DecisionWeighting = "paper"
    structured: bool = False
    chain_steps: int = 0
    chain_gradient: int = 3

    def __post_init__(self) -> None:
        for name in ("noise", "hidden", "layers", "steps"):
            require_count(name, getattr(self, name))
        NoiseSchedule(self.steps, self.endpoints)  # which checks both
        require_chain(self.chain_steps, self.chain_gradient, self.steps)
        require_one_of("prediction", self.prediction, get_args(Prediction))
        require_one_of("decision_weighting", self.decision_weighting, get_args(DecisionWeighting))

    def build(self, features: int, outcomes: int) -> DiffusionModel:
        """A model of this kind."""
        return DiffusionModel(features, outcomes, **vars(self))


@dataclass(frozen=True)
class PoolPart:
    """Some models of one kind in a pool."""

    kind: Literal["linear", "trees", "network"]  # what the models are
    model: ImplicitSettings | DiffusionSettings | LinearSettings  # what makes each of them
    models: int  # how many there are
    share: float  # the share of the members that they give together

    def __post_init__(self) -> None:
        require_count("models", self.models)
        require_finite("share", self.share)

    def build(self, features: int, outcomes: int) -> list[nn.Module]:
        """Its models; those around trees have a location of each outcome beside the features."""
        factory = self.model.build
        if self.kind == "trees":
            return [ResidualModel(factory(features + outcomes, outcomes), outcomes) for _ in range(self.models)]
        return [factory(features, outcomes) for _ in range(self.models)]


@dataclass(frozen=True)
class PoolSettings(ModelSettings):
    """Models of several kinds in one, which are fitted by themselves: what a pool that was selected is made of."""

    name: ClassVar[str] = "pool"
    parts: tuple[PoolPart, ...]  # the kinds, in the order of their members

    def build(self, features: int, outcomes: int) -> PoolModel:
        """A model of this kind."""
        models = [model for part in self.parts for model in part.build(features, outcomes)]
        return self.around(models)

    def around(self, models: Sequence[nn.Module]) -> PoolModel:
        """The pool of the models of all parts, in order, with the shares of these."""
        return PoolModel(models, [part.share / part.models for part in self.parts for _ in range(part.models)])


ModelFactory = Callable[[int, int], nn.Module]

_WIDER: dict[str, Any] = {"noise": 16, "hidden": 64, "layers": 3}

ESTIMATOR_MODELS: Mapping[str, Callable[[], ModelSettings]] = {
    "implicit": partial(ImplicitSettings, **_WIDER),
    "diffusion": partial(DiffusionSettings, **_WIDER),
    "linear": LinearSettings,
}
"""What the estimator takes by name: wider than the paper's models, with fewer layers."""

_STEPS = 1000  # of the optimiser, at least
_LEARNING_RATE = 2e-3
_WEIGHT_DECAY = 0.1  # where there is a linear forecast to decay to
_EPOCHS = 15  # at least
_PRETRAINING = 0.3  # of the epochs, before them
_PATIENCE = 0.3  # of the epochs
_VALIDATIONS = 40  # at most


def automatic_settings(cases: int, epochs: int | None = None, linear: bool = False) -> TrainingSettings:
    """How long to train on so many cases, in batches of 256, unless the number of epochs is given.

    Trained on its score alone, a model of two features was at its best after 300 to 650 steps, one of the French load's
    88 features not before 1,000. Pre-training, which cannot be taken back, ends before that; many cases get more steps.

    >>> automatic_settings(3750).epochs, automatic_settings(40000).epochs
    (72, 15)
    """
    if epochs is None:
        epochs = max(_EPOCHS, math.ceil(_STEPS / max(1, cases // TrainingSettings.batch)))
    every = math.ceil(epochs / _VALIDATIONS)
    return TrainingSettings(
        epochs=epochs,
        pretraining_epochs=0 if linear else math.ceil(_PRETRAINING * epochs),
        learning_rate=_LEARNING_RATE,
        weight_decay=_WEIGHT_DECAY if linear else 0.0,
        validate_every=every,
        validation_members=20,
        patience=max(every, round(_PATIENCE * epochs)),
    )


def model_factory(model: str | ModelSettings | ModelFactory) -> ModelFactory:
    """What makes a model from the numbers of features and outcomes."""
    if isinstance(model, str) and model in ESTIMATOR_MODELS:
        model = ESTIMATOR_MODELS[model]()
    if hasattr(model, "build"):
        return cast(ModelSettings, model).build
    if not callable(model):
        raise SettingError(f"model must be {' or '.join(ESTIMATOR_MODELS)}, settings or a function, got {model!r}")
    return model


def resolved_device(device: str) -> str:
    """A device as torch names it."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return str(torch.device(device))
    except (RuntimeError, TypeError) as error:
        raise SettingError(f'device must be "auto" or a device of torch, got {device!r}') from error


def present_device(device: str) -> str:
    """A device as torch names it, which must be here."""
    resolved = resolved_device(device)
    if resolved.startswith("cuda") and not torch.cuda.is_available():
        raise SettingError(f"device is {resolved}, but torch finds no CUDA device here")
    return resolved


@dataclass(frozen=True)
class RefitSchedule:
    """How long the models that a search has chosen are to be trained."""

    settings: TrainingSettings  # how the models of the search were trained
    weights: tuple[float, ...]  # the decision weights that are kept
    epochs: tuple[tuple[int | None, ...], ...]

    def __post_init__(self) -> None:
        if not self.weights or len(self.weights) != len(self.epochs):
            raise SettingError(
                f"weights and epochs must be as many, at least one, got {len(self.weights)} and {len(self.epochs)}"
            )
        for weight in self.weights:
            require_decision_weight(weight, "weights")
        for each in (epochs for row in self.epochs for epochs in row if epochs is not None):
            require_count("epochs", each, least=0)

    @classmethod
    def of(
        cls, settings: TrainingSettings, records: Sequence[Mapping[str, Any]], weights: Sequence[float]
    ) -> "RefitSchedule":
        """What the records of a search say of these weights."""
        own = [[record for record in records if record["decision_weight"] == weight] for weight in weights]
        return cls(settings, tuple(weights), tuple(tuple(map(_epochs, each)) for each in own))


def _epochs(record: Mapping[str, Any]) -> int | None:
    return None if record["status"] == "failed" else int(record["best_epoch"])
