"""What a model must offer to be trained with a decision: noise in, members out."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

__all__ = ["SampleModel", "TrainingDraw", "TrainingNoise"]

TrainingNoise = Mapping[str, Tensor]
"""All the randomness of one training step by name; the trainer draws it, so that a step is a pure function."""


class TrainingDraw(NamedTuple):
    """What one training step shows the objective; a tuple, so that it passes through `torch.func.vmap`.

    The score pair lives in the space that the model predicts in (standardised; for a diffusion model epsilon, v or
    the target), the decision pair in physical units. `decision_term_weight` (...) weighs each case's decision term.
    """

    score_members: Tensor  # (..., M, D)
    score_outcome: Tensor  # (..., D)
    decision_members: Tensor  # (..., M, D)
    decision_outcome: Tensor  # (..., D)
    decision_term_weight: Tensor | None = None  # (...), ones by default

    @classmethod
    def from_samples(cls, samples: Tensor, outcome: Tensor) -> "TrainingDraw":
        """The draw of a model whose members (..., M, D) serve both terms as they are."""
        return cls(samples, outcome, samples, outcome)


@runtime_checkable
class SampleModel(Protocol):
    """A module that forecasts by members; features, members and outcomes are in physical units.

    The model owns the mean and scale of features and outcomes as buffers, set once by `fit_scaling`. It may also have
    `validation_noise`, of the signature of `draw_noise`, for noise that makes validations less noisy.
    """

    def fit_scaling(self, features: Tensor, outcome: Tensor) -> None:
        """Take means and scales from the training split: features (N, F), outcome (N, D)."""
        ...

    def draw_noise(self, cases: int, members: int, generator: torch.Generator | None = None) -> TrainingNoise:
        """The noise of one training step, cases on the first axis, from a generator on the model's device."""
        ...

    def training_draw(self, features: Tensor, outcome: Tensor, noise: TrainingNoise) -> TrainingDraw:
        """Features (..., F) and outcome (..., D) with the noise of `draw_noise` to what the objective takes."""
        ...

    def sample(
        self,
        features: Tensor,
        members: int,
        generator: torch.Generator | None = None,
        *,
        share_noise: bool = False,
    ) -> Tensor:
        """Members (N, M, D) for features (N, F); `share_noise` gives every case the same noise."""
        ...
