"""What a model must offer to be trained with a decision: noise in, members out; its scales, and members of several."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

import torch
from torch import Tensor, nn

from stakes.argument_checks import check_finite, require_counts
from stakes.errors import ShapeError

TrainingNoise = Mapping[str, Tensor]
"""All the randomness of one training step by name; the trainer draws it, so that a step is a pure function."""


class TrainingDraw(NamedTuple):
    """What one training step shows the objective; a tuple, which passes through `torch.func.vmap` if all are given.

    The score pair lives in the space that the model predicts in (standardised; for a diffusion model epsilon, v or
    the target), the decision pair in physical units.

    Attributes:
        score_members: Members (..., M, D) that the score sees.
        score_outcome: Outcomes (..., D) that it sees.
        decision_members: Members (..., N, D) that the decision is made from: the same ones, or more.
        decision_outcome: Outcomes (..., D) that it is paid at.
        decision_term_weight: What each case's decision term is multiplied by, (...); None leaves it as it is.
        member_log_likelihood: How likely each decision member was, (..., N), up to a constant, with the gradient of the
            parameters that it was drawn by; None, or of no members, where the members themselves have the gradient.
    """

    score_members: Tensor
    score_outcome: Tensor
    decision_members: Tensor
    decision_outcome: Tensor
    decision_term_weight: Tensor | None = None
    member_log_likelihood: Tensor | None = None

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
    """A module that forecasts with members; features, members and outcomes are in physical units.

    The model owns the mean and scale of features and outcomes as buffers, set once by `fit_scaling`. It may also have
    `validation_noise`, of the signature of `draw_noise` with a number of `draws` of each case, one after the other, for
    noise that makes validations less noisy.
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


class ScaledModel(nn.Module, SampleModel):
    """A model that computes standardised members, by scales of its own."""

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
    """How many cases fit the memory if every member needs three times `width` numbers on its way; at least one."""
    if memory_budget is None:
        memory_budget = _CACHE if like.device.type == "cpu" else _BATCH
    return max(1, memory_budget // (3 * width * members * like.element_size()))


_FAR = 3e38  # where no range is known: as far as single precision goes
_SOFT = 0.25  # standard deviations: as far beyond its range as a network sees a feature


class Scaling(nn.Module):
    """Mean and scale of one kind of quantity, kept as buffers: physical units outside, standardised inside."""

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
    """That of features, which also knows where the training saw them."""

    low: Tensor
    high: Tensor

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.register_buffer("low", torch.full((width,), -_FAR))
        self.register_buffer("high", torch.full((width,), _FAR))

    @torch.no_grad()
    def fit(self, values: Tensor) -> None:
        """Take mean, standard deviation and range, of a constant column none: it may be the parameter of a cost."""
        super().fit(values)
        standardised = self.standardise(values)
        low, high = standardised.amin(0), standardised.amax(0)
        constant = low == high
        self.low.copy_(torch.where(constant, -_FAR, low))
        self.high.copy_(torch.where(constant, _FAR, high))

    def squashed(self, standardised: Tensor) -> Tensor:
        """Standardised features as they are within the range, and drawn smoothly to a little beyond its edge outside.

        A network knows nothing of what is there, and would go on in a straight line from its last bend.
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
    """Fitted models of one outcome vector, and what share of the members each gives; it draws, and does not train.

    Args:
        models: The models, each a `SampleModel`.
        shares: What share of the members each gives, (K,).
    """

    def __init__(self, models: Sequence[nn.Module], shares: Sequence[float]) -> None:
        super().__init__()
        if len(models) != len(shares) or not shares or min(shares) <= 0:
            raise ShapeError(f"shares must be {len(models)} numbers above 0, one for each model, got {list(shares)}")
        self.models = nn.ModuleList(models)
        self.shares = tuple(shares)

    def fit_scaling(self, features: Tensor, outcome: Tensor) -> None:
        """Nothing: its models are fitted by themselves."""

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
    """`pooled_members` of as many rows at a time as memory should hold, with their place; nothing without a model.

    Without shared noise a part draws from a seed of its own, `seed` plus the place of its first row.
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

    Rows are computed in parts of one size, the last one filled up: float32 sums depend on the shape of a product, and
    so a row would depend on how many neighbours it has. Its place among them may still change its last digits.
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
