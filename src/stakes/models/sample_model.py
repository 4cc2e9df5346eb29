"""The protocol of models trained with a decision: noise in, members out; their scaling, and ensembles of them."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

import torch
from torch import Tensor, nn

from stakes.argument_checks import check_finite, require_counts
from stakes.errors import ShapeError

TrainingNoise = Mapping[str, Tensor]
"""All randomness of one training step, by name; the trainer draws it, so that a step is a pure function."""


class TrainingDraw(NamedTuple):
    """The input of the objective in one training step; a tuple, so that it passes through `torch.func.vmap`.

    The score pair is in the space that the model predicts in (standardised; for a diffusion model epsilon, v or the
    target), the decision pair in physical units.

    Attributes:
        score_members: Members (..., M, D) for the score.
        score_outcome: Outcomes (..., D) for the score.
        decision_members: Members (..., N, D) for the decision: the same ones, or more.
        decision_outcome: Outcomes (..., D) that the decision is paid at.
        decision_term_weight: The weight of each case's decision term, (...); None for 1.
        member_log_likelihood: The log-likelihood of each decision member, (..., N), up to a constant, with the gradient
            of the parameters that drew it; None, or empty, if the members themselves carry the gradient.
    """

    score_members: Tensor
    score_outcome: Tensor
    decision_members: Tensor
    decision_outcome: Tensor
    decision_term_weight: Tensor | None = None
    member_log_likelihood: Tensor | None = None

    @classmethod
    def from_samples(cls, samples: Tensor, outcome: Tensor) -> "TrainingDraw":
        """The draw of a model that uses the same members for both terms.

        Args:
            samples: Members (..., M, D) in physical units.
            outcome: Outcomes (..., D).
        """
        return cls(samples, outcome, samples, outcome)


@runtime_checkable
class SampleModel(Protocol):
    """A module that forecasts members; features, members and outcomes are in physical units.

    The model owns the mean and scale of features and outcomes as buffers, set once by `fit_scaling`. It may also have
    `validation_noise`, with the signature of `draw_noise` and a number of consecutive `draws` of each case, to make
    validation less noisy.
    """

    def fit_scaling(self, features: Tensor, outcome: Tensor) -> None:
        """Fit means and scales to the training split.

        Args:
            features: Features (N, F).
            outcome: Outcomes (N, D).
        """
        ...

    def draw_noise(self, cases: int, members: int, generator: torch.Generator | None = None) -> TrainingNoise:
        """The noise of one training step by name, cases on the first axis of each.

        Args:
            cases: The number of cases in the step.
            members: M, the number of members of each case.
            generator: The source of the noise, on the model's device; None for torch's global one.
        """
        ...

    def training_draw(self, features: Tensor, outcome: Tensor, noise: TrainingNoise) -> TrainingDraw:
        """The input of the objective, as a pure function of its arguments.

        Args:
            features: Features (..., F).
            outcome: Outcomes (..., D).
            noise: The noise from `draw_noise`.
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
            members: M, the number of members of each case.
            generator: The source of the noise; None for torch's global one.
            share_noise: Whether all cases share their noise, so that the members of a case do not depend on the others.
        """
        ...


class ScaledModel(nn.Module, SampleModel):
    """A model that computes standardised members and owns the scales."""

    feature_scaling: "Scaling"
    outcome_scaling: "Scaling"

    def fit_scaling(self, features: Tensor, outcome: Tensor) -> None:
        self.feature_scaling.fit(features)
        self.outcome_scaling.fit(outcome)

    def training_draw(self, features: Tensor, outcome: Tensor, noise: TrainingNoise) -> TrainingDraw:
        """Standardised members for the score, the same in physical units for the decision."""
        standardised = self(features, noise["members"])
        return TrainingDraw(
            score_members=standardised,
            score_outcome=self.outcome_scaling.standardise(outcome),
            decision_members=self.outcome_scaling.restore(standardised),
            decision_outcome=outcome,
            decision_term_weight=torch.ones_like(outcome[..., 0]),
            member_log_likelihood=outcome[..., :0],
        )


_CACHE = 1 << 23  # bytes that the caches of a CPU hold
_BATCH = 1 << 30  # bytes that fill an accelerator


def cases_at_once(width: int, members: int, like: Tensor, memory_budget: int | None) -> int:
    """How many cases fit into memory if every member needs three times `width` numbers; at least one."""
    if memory_budget is None:
        memory_budget = _CACHE if like.device.type == "cpu" else _BATCH
    return max(1, memory_budget // (3 * width * members * like.element_size()))


_FAR = 3e38  # where no range is known: as far as single precision goes
_SOFT = 0.25  # standard deviations: as far beyond its range as a network sees a feature


class Scaling(nn.Module):
    """Mean and scale as buffers: physical units outside, standardised inside."""

    mean: Tensor
    scale: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        require_counts(width=width)
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("scale", torch.ones(width))

    @torch.no_grad()
    def fit(self, values: Tensor) -> None:
        """Take mean and standard deviation over the rows of values (N, width); a constant column keeps scale 1."""
        if values.dim() != 2 or values.shape[1] != len(self.mean) or not len(values):
            raise ShapeError(f"scaling needs values of shape (N, {len(self.mean)}), got {tuple(values.shape)}")
        check_finite(values, "values for scaling", True)
        mean, deviation = values.double().mean(0), values.double().std(0, correction=0)
        constant = deviation <= 8 * torch.finfo(values.dtype).eps * mean.abs()
        self.mean.copy_(mean)
        self.scale.copy_(torch.where(constant, 1.0, deviation))

    def standardise(self, values: Tensor) -> Tensor:
        """Physical values (..., width) less the mean, over the scale."""
        if values.shape[-1:] != self.mean.shape[-1:]:
            raise ShapeError(f"expected {self.mean.shape[-1]} columns, (..., columns), got shape {tuple(values.shape)}")
        return (values - self.mean) / self.scale

    def restore(self, values: Tensor) -> Tensor:
        """Standardised values (..., width) in physical units."""
        return values * self.scale + self.mean


class FeatureScaling(Scaling):
    """The scaling of features, which also knows their range in training."""

    low: Tensor
    high: Tensor

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.register_buffer("low", torch.full((width,), -_FAR))
        self.register_buffer("high", torch.full((width,), _FAR))

    @torch.no_grad()
    def fit(self, values: Tensor) -> None:
        """Fit mean, standard deviation and range; a constant column gets no range, as it may be a cost parameter."""
        super().fit(values)
        standardised = self.standardise(values)
        low, high = standardised.amin(0), standardised.amax(0)
        constant = low == high
        self.low.copy_(torch.where(constant, -_FAR, low))
        self.high.copy_(torch.where(constant, _FAR, high))

    def squashed(self, standardised: Tensor) -> Tensor:
        """Standardised features, smoothly clipped a little beyond the range seen in training.

        A network knows nothing of what lies beyond, and would extrapolate linearly.
        """
        within = torch.maximum(torch.minimum(standardised, self.high), self.low)
        return within + _SOFT * torch.tanh((standardised - within) / _SOFT)


_MEMBERS_AT_ONCE = {"cpu": 1 << 14}
_MEMBERS_ELSEWHERE = 1 << 19
_MEMBERS_HELD = 1 << 21


def member_shares(members: int, models: int | Sequence[float]) -> list[int]:
    """How many members each of so many models gives, or each by its share; the largest remainders are rounded up.

    >>> member_shares(10, 4), member_shares(10, [0.25, 0.25, 0.5])
    ([3, 3, 2, 2], [3, 2, 5])
    """
    shares = [1.0] * models if isinstance(models, int) else models
    due = [members * share / sum(shares) for share in shares]
    counts = [int(each) for each in due]
    for place in sorted(range(len(due)), key=lambda place: counts[place] - due[place])[: members - sum(counts)]:
        counts[place] += 1
    return counts


class PoolModel(nn.Module):
    """Several fitted models, each of which gives its share (K,) of the members; it is not trained itself."""

    def __init__(self, models: Sequence[nn.Module], shares: Sequence[float]) -> None:
        super().__init__()
        if len(models) != len(shares) or not shares or min(shares) <= 0:
            raise ShapeError(f"shares must be {len(models)} numbers above 0, one for each model, got {list(shares)}")
        self.models = nn.ModuleList(models)
        self.shares = tuple(shares)

    def fit_scaling(self, features: Tensor, outcome: Tensor) -> None:
        """Nothing: the models are already fitted."""

    @torch.no_grad()
    def sample(
        self,
        features: Tensor,
        members: int,
        generator: torch.Generator | None = None,
        *,
        share_noise: bool = False,
    ) -> Tensor:
        """Members (N, M, D) in physical units."""
        counts = member_shares(members, self.shares)
        parts = [
            cast(Any, model).sample(features, count, generator, share_noise=share_noise)
            for model, count in zip(self.models, counts, strict=True)
            if count
        ]
        return torch.cat(parts, 1)


def pooled_parts(
    models: Sequence[nn.Module],
    features: Tensor,
    members: int,
    seed: int,
    device: str = "cpu",
    *,
    share_noise: bool = True,
) -> Iterator[tuple[slice, Tensor]]:
    """`pooled_members` in chunks of rows, with their place; nothing without a model.

    Without shared noise a chunk has its own seed, `seed` plus the place of its first row.
    """
    size = max(1, _MEMBERS_HELD // members)
    for start in range(0, len(features) if models else 0, size):
        rows = slice(start, start + size)
        own_seed = seed if share_noise else seed + start
        yield rows, pooled_members(models, features[rows], members, own_seed, device, share_noise=share_noise)


@torch.no_grad()
def pooled_members(
    models: Sequence[nn.Module],
    features: Tensor,
    members: int,
    seed: int,
    device: str = "cpu",
    *,
    share_noise: bool = True,
) -> Tensor:
    """Members (N, M, D) of all models together, in physical units, on the CPU.

    Rows are computed in chunks of one size, the last one padded: float32 sums depend on the shape of a product, so that
    a row would depend on how many others there are. Its place among them may still change its last digits.
    """
    shares = member_shares(members, len(models))
    parts = [
        _members(model, features, share, seed + place, device, share_noise)
        for place, (model, share) in enumerate(zip(models, shares, strict=True))
        if share
    ]
    return torch.cat(parts, 1)


def _members(model: nn.Module, features: Tensor, members: int, seed: int, device: str, share_noise: bool) -> Tensor:
    moved = model if device == "cpu" else copy.deepcopy(model).to(device)
    generator = torch.Generator(device).manual_seed(seed)
    if getattr(model, "at_once", False):
        drawn = cast(SampleModel, moved).sample(features.to(device), members, generator, share_noise=share_noise)
        return drawn.cpu()
    at_once = _MEMBERS_AT_ONCE.get(torch.device(device).type, _MEMBERS_ELSEWHERE)
    size = max(1, at_once // members)
    parts = []
    for part in features.split(size):
        filled = torch.cat([part, part[-1:].expand(size - len(part), -1)]).to(device)
        if share_noise:
            generator.manual_seed(seed)
        drawn = cast(SampleModel, moved).sample(filled, members, generator, share_noise=share_noise)
        parts.append(drawn[: len(part)].cpu())
    return torch.cat(parts)
