"""The implicit generative model: noise in, a member out; optionally from a linear start."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from stakes.argument_checks import require_count, require_counts
from stakes.models.linear import factor_count, fit_linear_start, residual_factors
from stakes.models.networks import Perceptron, linear_in_parts
from stakes.models.noise import draw_normal, draw_shared, draw_structured
from stakes.models.sample_model import FeatureScaling, ScaledModel, Scaling, cases_at_once

_RATE = 0.1  # of the network's


class LinearPart(nn.Module):
    """W x + b + z L of standardised features and outcomes, fitted to data before training begins.

    Each coefficient is its fitted start, a buffer, plus a tenth of a trained change that begins at 0. As Adam's steps
    do not depend on the scale of the gradient, the linear part learns at a tenth of the learning rate, and weight decay
    pulls it back to its start. Before it is fitted it is the standard normal distribution.
    """

    weight: Tensor
    bias: Tensor
    factors: Tensor
    diagonal: Tensor

    def __init__(self, features: int, outcomes: int, gap: int = 0) -> None:
        super().__init__()
        require_counts(features=features, outcomes=outcomes)
        require_count("gap", gap, least=0)
        self.gap = gap
        self.seen = factor_count(outcomes)
        has_diagonal = self.seen < outcomes
        self.noise = self.seen + outcomes * has_diagonal
        starts = {"weight": torch.zeros(outcomes, features), "bias": torch.zeros(outcomes)}
        starts["factors"] = torch.zeros(self.seen, outcomes)
        if has_diagonal:
            starts["diagonal"] = torch.ones(outcomes)
        else:
            starts["factors"].fill_diagonal_(1.0)
        # Neither `torch.eye` nor `torch.zeros_like`: on the device meta they would import sympy, for seconds.
        for name, start in starts.items():
            self.register_buffer(name, start)
            self.register_parameter(f"{name}_change", nn.Parameter(torch.zeros(start.shape)))

    def fit(self, features: Tensor, outcome: Tensor) -> None:
        """Start from ridge regression and the covariance of its out-of-fold residuals."""
        start = fit_linear_start(features, outcome, self.gap)
        factors, diagonal = residual_factors(start.residuals)
        learned = {"weight": start.weight, "bias": start.bias, "factors": factors, "diagonal": diagonal}
        for name, value in learned.items():
            if value is not None:
                self.get_buffer(name).copy_(value)

    def forward(self, features: Tensor, noise: Tensor) -> Tensor:
        """Standardised members (..., M, D)."""
        location = linear(features, self._now("weight"), self._now("bias"))[..., None, :]
        members = location + linear_in_parts(noise[..., : self.seen], self._now("factors").mT)
        if self.noise == self.seen:
            return members
        return members + noise[..., self.seen :] * self._now("diagonal")

    def _now(self, name: str) -> Tensor:
        start: Tensor = getattr(self, name)  # `functional_call` puts plain tensors in place of parameters
        change: Tensor = getattr(self, f"{name}_change")
        return start + _RATE * change


class ImplicitModel(ScaledModel):
    """y_m = f(x, z_m): one network maps features and a noise vector to a member (appendix B: 5 x 50, ReLU).

    With a linear part, y_m = W x + b + z_m L + f(x, z_m) in standardised units: `fit_scaling` fits it by ridge
    regression, and the network's last layer starts at 0, so that training starts from the linear forecast.

    Args:
        features: F, the number of features.
        outcomes: D, the number of outcomes.
        noise: K, the width of the noise vector of each member.
        hidden: The width of the hidden layers.
        layers: The number of hidden layers.
        linear: Whether there is a linear part. It has noise of its own, which the network sees too: D numbers, or
            beyond 64 outcomes 32 numbers and D more that the network does not see.
        gap: How many rows on either side of a held-out block the cross-validation of the linear part leaves out too,
            such as the lead time.
        structured: Whether members are structured in training rather than independent: two independent, well-spread
            sets that alternate. The energy score must then use the estimator "across", as training with `stakes` does.
            `sample` draws independent members, or one shared set.

    >>> import torch, stakes
    >>> model = stakes.ImplicitModel(features=3, outcomes=2)
    >>> model.sample(torch.randn(4, 3), members=7).shape
    torch.Size([4, 7, 2])
    """

    linear: LinearPart | None
    feature_scaling: FeatureScaling

    def __init__(
        self,
        features: int,
        outcomes: int,
        noise: int = 8,
        hidden: int = 50,
        layers: int = 5,
        linear: bool = False,
        gap: int = 0,
        structured: bool = False,
    ) -> None:
        super().__init__()
        require_counts(features=features, outcomes=outcomes, noise=noise)
        self.structured = structured
        self.register_module("linear", LinearPart(features, outcomes, gap) if linear else None)
        seen = noise if self.linear is None else noise + self.linear.seen
        self.noise = noise if self.linear is None else noise + self.linear.noise
        self.network = Perceptron(features + seen, outcomes, hidden, layers)
        if self.linear is not None:
            self.network.start_at_zero()
        self.feature_scaling = FeatureScaling(features)
        self.outcome_scaling = Scaling(outcomes)

    def forward(self, features: Tensor, noise: Tensor) -> Tensor:
        """Standardised members (..., M, D).

        Args:
            features: Features (..., F) in physical units.
            noise: Noise vectors (..., M, K), one per member.
        """
        standardised = self.feature_scaling.standardise(features)
        inputs = self.feature_scaling.squashed(standardised)[..., None, :]
        inputs = inputs.expand(*noise.shape[:-1], inputs.shape[-1])
        if self.linear is None:
            return self.network(torch.cat([inputs, noise], -1))
        own = self.noise - self.linear.noise
        seen = noise[..., : own + self.linear.seen]
        return self.linear(standardised, noise[..., own:]) + self.network(torch.cat([inputs, seen], -1))

    def fit_scaling(self, features: Tensor, outcome: Tensor) -> None:
        """Fit means, scales and the linear part, if there is one, to rows in time order."""
        super().fit_scaling(features, outcome)
        if self.linear is not None:
            self.linear.fit(self.feature_scaling.standardise(features), self.outcome_scaling.standardise(outcome))

    def draw_noise(self, cases: int, members: int, generator: torch.Generator | None = None) -> Mapping[str, Tensor]:
        """The noise of one training step: "members" (cases, M, K)."""
        draw = draw_structured if self.structured else draw_normal
        return {"members": draw(self.outcome_scaling.mean, cases, members, self.noise, generator=generator)}

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
        """Members (N, M, D) in physical units, computed in chunks of cases.

        The result is deterministic given the generator and the memory budget.

        Args:
            features: Features (N, F).
            members: M, the number of members of each case.
            generator: The source of the noise; None for torch's global one.
            share_noise: Whether all cases share their noise, so that the members of a case do not depend on the others.
            memory_budget: The memory of a chunk in bytes; None for 8 MiB on a CPU, the size of its caches, and 1 GiB
                elsewhere.
        """
        require_counts(members=members)
        shared = draw_shared(self.outcome_scaling.mean, members, self.noise, generator) if share_noise else None
        parts = []
        for part in features.split(
            cases_at_once(self.network.widest, members, self.outcome_scaling.mean, memory_budget)
        ):
            shape = len(part), members, self.noise
            noise = draw_normal(self.outcome_scaling.mean, *shape, generator=generator) if shared is None else shared
            parts.append(self.outcome_scaling.restore(self(part, noise.expand(shape))))
        return torch.cat(parts)
