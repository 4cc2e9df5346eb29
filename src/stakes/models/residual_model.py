"""A model of residuals around a location forecast, which comes as the last columns of its features."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from stakes.models.sample_model import SampleModel, TrainingDraw, TrainingNoise

Location = Callable[[Tensor], Tensor]
"""From features (N, F) to the expected outcomes (N, D)."""


class ResidualModel(nn.Module, SampleModel):
    """Members of a residual model, added to a location forecast.

    In training the features have D more columns with the location of each case, which must be out of fold. Once
    trained, the model may hold the `location` forecast itself and takes features without these columns.
    """

    def __init__(self, model: nn.Module, outcomes: int) -> None:
        super().__init__()
        self.model = model
        self.outcomes = outcomes
        self.location: Location | None = None

    @property
    def structured(self) -> bool:
        """Whether the members of a training step are structured, as the model says."""
        return bool(getattr(self.model, "structured", False))

    def fit_scaling(self, features: Tensor, outcome: Tensor) -> None:
        """Fit means and scales to the residuals."""
        self._inner.fit_scaling(features, outcome - self._located(features))

    def draw_noise(self, cases: int, members: int, generator: torch.Generator | None = None) -> TrainingNoise:
        return self._inner.draw_noise(cases, members, generator)

    def validation_noise(
        self, cases: int, members: int, generator: torch.Generator | None = None, draws: int = 1
    ) -> TrainingNoise:
        """The noise of a validation, that of the model."""
        if not hasattr(self.model, "validation_noise"):
            return self.draw_noise(cases * draws, members, generator)
        return cast(TrainingNoise, cast(Any, self.model).validation_noise(cases, members, generator, draws))

    def training_draw(self, features: Tensor, outcome: Tensor, noise: TrainingNoise) -> TrainingDraw:
        """The residuals for the score; members and outcomes with their location for the decision."""
        location = self._located(features)
        draw = self._inner.training_draw(features, outcome - location, noise)
        members = draw.decision_members + location[..., None, :]
        return draw._replace(decision_members=members, decision_outcome=outcome)

    @torch.no_grad()
    def sample(
        self,
        features: Tensor,
        members: int,
        generator: torch.Generator | None = None,
        *,
        share_noise: bool = False,
    ) -> Tensor:
        if self.location is not None:
            features = torch.cat([features, self.location(features).to(features)], 1)
        drawn = self._inner.sample(features, members, generator, share_noise=share_noise)
        return drawn + self._located(features)[:, None]

    @property
    def _inner(self) -> SampleModel:
        return cast(Any, self.model)

    def _located(self, features: Tensor) -> Tensor:
        return features[..., -self.outcomes :]


@dataclass(frozen=True)
class LocatedFactory:
    """Makes models around a location; unlike a lambda it can be sent to other processes."""

    factory: Callable[[int, int], nn.Module]

    def __call__(self, features: int, outcomes: int) -> ResidualModel:
        """An untrained model of so many features, the location's columns among them, and outcomes."""
        return ResidualModel(self.factory(features, outcomes), outcomes)


def place_models(models: Iterable[nn.Module], location: Location | None) -> None:
    """Give residual models the forecast of their location."""
    for model in (part for whole in models for part in whole.modules()):
        if isinstance(model, ResidualModel):
            model.location = location
