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
    the target), the decision pair in physical units.

    Attributes:
        score_members: Members (..., M, D) that the score sees.
        score_outcome: Outcomes (..., D) that it sees.
        decision_members: Members (..., N, D) that the decision is made from: the same ones, or more.
        decision_outcome: Outcomes (..., D) that it is paid at.
        decision_term_weight: What each case's decision term is multiplied by, (...); None leaves it as it is.
    """

    score_members: Tensor
    score_outcome: Tensor
    decision_members: Tensor
    decision_outcome: Tensor
    decision_term_weight: Tensor | None = None

    @classmethod
    def from_samples(cls, samples: Tensor, outcome: Tensor) -> "TrainingDraw":
        """The draw of a model whose members serve both terms as they are.

        Args:
            samples: Members (..., M, D) in physical units.
            outcome: Outcomes (..., D).
        """
        return cls(samples, outcome, samples, outcome)


@runtime_checkable
class SampleModel(Protocol):
    """A module that forecasts by members; features, members and outcomes are in physical units.

    The model owns the mean and scale of features and outcomes as buffers, set once by `fit_scaling`. It may also have
    `validation_noise`, of the signature of `draw_noise`, for noise that makes validations less noisy.
    """

    def fit_scaling(self, features: Tensor, outcome: Tensor) -> None:
        """Take means and scales from the training split.

        Args:
            features: Features (N, F).
            outcome: Outcomes (N, D).
        """
        ...

    def draw_noise(self, cases: int, members: int, generator: torch.Generator | None = None) -> TrainingNoise:
        """The noise of one training step by name, cases on the first axis of each.

        Args:
            cases: How many cases the step has.
            members: M, how many members each case gets.
            generator: What the noise is drawn from, on the model's device; None takes torch's global one.
        """
        ...

    def training_draw(self, features: Tensor, outcome: Tensor, noise: TrainingNoise) -> TrainingDraw:
        """What the objective takes, as a pure function of its arguments.

        Args:
            features: Features (..., F).
            outcome: Outcomes (..., D).
            noise: What `draw_noise` drew.
        """
        ...

    def sample(
        self,
        features: Tensor,
        members: int,
        generator: torch.Generator | None = None,
        *,
        share_noise: bool = False,
    ) -> Tensor:
        """Members (N, M, D) in physical units.

        Args:
            features: Features (N, F).
            members: M, how many members each case gets.
            generator: What the noise is drawn from; None takes torch's global one.
            share_noise: Whether every case gets the same noise, so that its members do not depend on its neighbours.
        """
        ...
