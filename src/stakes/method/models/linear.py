"""The linear model: ridge regression whose noise is what it got wrong before."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from stakes.method.argument_checks import require_count, require_counts
from stakes.method.models.linear_start import climatology_start, fit_linear_start
from stakes.method.models.sample_model import TrainingDraw, TrainingNoise
from stakes.method.models.scaling import Scaling

__all__ = ["LinearModel"]


class LinearModel(nn.Module):
    """y_m = W x + b + e_m: ridge regression and whole residual vectors e_m, drawn from those of rows it did not see.

    `fit_scaling` fits all of it, in closed form; nothing is trained. Whole vectors keep what the outcomes have to do
    with each other.

    Args:
        features: F, how many features a case has.
        outcomes: D, how many outcomes a case has.
        residuals: How many residual vectors are kept, a random choice; of fewer rows some are kept more than once.
        gap: How many rows on both sides of a held-out block the cross-validation leaves out as well: the lead time.
        constant: Whether the features are left aside: members are drawn from all outcomes alike, which is climatology.

    >>> import torch, stakes
    >>> features = torch.rand(50, 3)
    >>> model = stakes.LinearModel(features=3, outcomes=1)
    >>> model.fit_scaling(features, features.sum(1, keepdim=True))
    >>> model.sample(features[:4], members=7).shape
    torch.Size([4, 7, 1])
    """

    weight: Tensor
    bias: Tensor
    residuals: Tensor

    def __init__(
        self, features: int, outcomes: int, residuals: int = 2000, gap: int = 0, constant: bool = False
    ) -> None:
        super().__init__()
        require_counts(features=features, outcomes=outcomes, residuals=residuals)
        require_count("gap", gap, least=0)
        self.gap, self.constant = gap, constant
        self.feature_scaling = Scaling(features)
        self.outcome_scaling = Scaling(outcomes)
        self.register_buffer("weight", torch.zeros(outcomes, features))
        self.register_buffer("bias", torch.zeros(outcomes))
        self.register_buffer("residuals", torch.zeros(residuals, outcomes))

    def forward(self, features: Tensor, chosen: Tensor) -> Tensor:
        """Standardised members (..., M, D).

        Args:
            features: Features (..., F) in physical units.
            chosen: Which residual vector each member has, (..., M).
        """
        location = linear(self.feature_scaling.standardise(features), self.weight, self.bias)
        return location[..., None, :] + self.residuals[chosen]

    def fit_scaling(self, features: Tensor, outcome: Tensor) -> None:
        """Fit means, scales, coefficients and residuals to the training split, rows in the order of time.

        Args:
            features: Features (N, F).
            outcome: Outcomes (N, D).
        """
        self.feature_scaling.fit(features)
        self.outcome_scaling.fit(outcome)
        inputs, target = self.feature_scaling.standardise(features), self.outcome_scaling.standardise(outcome)
        start = climatology_start(inputs, target) if self.constant else fit_linear_start(inputs, target, self.gap)
        self.weight.copy_(start.weight)
        self.bias.copy_(start.bias)
        kept = _each_in_turn(len(target), len(self.residuals), torch.Generator().manual_seed(0))
        self.residuals.copy_(start.residuals[kept.to(target.device)])

    def draw_noise(self, cases: int, members: int, generator: torch.Generator | None = None) -> Mapping[str, Tensor]:
        """The noise of one training step: "members" (cases, M), which residual vector each member has.

        Args:
            cases: How many cases the step has.
            members: M, how many members each case gets.
            generator: What the noise is drawn from, on the model's device; None takes torch's global one.
        """
        count, device = len(self.residuals), self.residuals.device
        return {"members": torch.randint(count, (cases, members), generator=generator, device=device)}

    def training_draw(self, features: Tensor, outcome: Tensor, noise: TrainingNoise) -> TrainingDraw:
        """The members of one step: standardised for the score, in physical units for the decision.

        Args:
            features: Features (..., F).
            outcome: Outcomes (..., D).
            noise: What `draw_noise` drew.
        """
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
    ) -> Tensor:
        """Members (N, M, D) in physical units.

        Args:
            features: Features (N, F).
            members: M, how many members each case gets.
            generator: What the noise is drawn from; None takes torch's global one.
            share_noise: Whether every case gets the same residual vectors, so that its members do not depend on its
                neighbours; none comes a second time before all have come.
        """
        require_counts(members=members)
        if share_noise:
            chosen = _each_in_turn(len(self.residuals), members, generator, self.residuals.device)
            chosen = chosen.expand(len(features), -1)
        else:
            chosen = self.draw_noise(len(features), members, generator)["members"]
        return self.outcome_scaling.restore(self(features, chosen))


def _each_in_turn(
    count: int, wanted: int, generator: torch.Generator | None, device: torch.device | None = None
) -> Tensor:
    """So many of the numbers below `count`, in random order, none a second time before all have come."""
    rounds = -(-wanted // count)
    return torch.cat([torch.randperm(count, generator=generator, device=device) for _ in range(rounds)])[:wanted]
