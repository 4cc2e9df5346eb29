"""The implicit generative model: noise in, a member out."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from stakes.method.models.networks import Perceptron, Scaling, cases_at_once, draw_normal, draw_shared, require_counts
from stakes.method.models.sample_model import TrainingDraw, TrainingNoise

__all__ = ["ImplicitModel"]


class ImplicitModel(nn.Module):
    """y_m = f(x, noise_m): one network maps features and a noise vector to a member (appendix B: 5 x 50, ReLU).

    >>> import torch, stakes
    >>> model = stakes.ImplicitModel(features=3, outcomes=2)
    >>> model.sample(torch.randn(4, 3), members=7).shape
    torch.Size([4, 7, 2])
    """

    def __init__(self, features: int, outcomes: int, noise: int = 8, hidden: int = 50, layers: int = 5) -> None:
        super().__init__()
        require_counts(features=features, outcomes=outcomes, noise=noise)
        self.noise = noise
        self.network = Perceptron(features + noise, outcomes, hidden, layers)
        self.feature_scaling = Scaling(features)
        self.outcome_scaling = Scaling(outcomes)

    def forward(self, features: Tensor, noise: Tensor) -> Tensor:
        """Standardised members (..., M, D) of features (..., F) for noise vectors (..., M, K)."""
        inputs = self.feature_scaling.standardise(features)[..., None, :]
        inputs = inputs.expand(*noise.shape[:-1], inputs.shape[-1])
        return self.network(torch.cat([inputs, noise], -1))

    def fit_scaling(self, features: Tensor, outcome: Tensor) -> None:
        self.feature_scaling.fit(features)
        self.outcome_scaling.fit(outcome)

    def draw_noise(self, cases: int, members: int, generator: torch.Generator | None = None) -> Mapping[str, Tensor]:
        return {"members": self._draw(cases, members, generator)}

    def training_draw(self, features: Tensor, outcome: Tensor, noise: TrainingNoise) -> TrainingDraw:
        standardised = self(features, noise["members"])
        return TrainingDraw(
            score_members=standardised,
            score_outcome=self.outcome_scaling.standardise(outcome),
            decision_members=self.outcome_scaling.restore(standardised),
            decision_outcome=outcome,
            decision_term_weight=torch.ones_like(outcome[..., 0]),
        )

    @torch.no_grad()
    def sample(
        self,
        features: Tensor,
        members: int,
        generator: torch.Generator | None = None,
        *,
        share_noise: bool = False,
        memory_budget: int | None = None,
    ) -> Tensor:
        """Members (N, M, D), in chunks of cases that keep within `memory_budget` bytes.

        By default 8 MiB on a CPU, what its caches hold, and 1 GiB elsewhere.
        """
        require_counts(members=members)
        shared = draw_shared(self.outcome_scaling.mean, members, self.noise, generator) if share_noise else None
        parts = []
        for part in features.split(
            cases_at_once(self.network.widest, members, self.outcome_scaling.mean, memory_budget)
        ):
            noise = self._draw(len(part), members, generator) if shared is None else shared
            standardised = self(part, noise.expand(len(part), members, self.noise))
            parts.append(self.outcome_scaling.restore(standardised))
        return torch.cat(parts)

    def _draw(self, cases: int, members: int, generator: torch.Generator | None) -> Tensor:
        return draw_normal(self.outcome_scaling.mean, cases, members, self.noise, generator=generator)
