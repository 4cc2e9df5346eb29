"""The decision-aware mixture of two scoring rules, and its loss scales."""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from stakes.checks import known_on_host
from stakes.costs import Parameter
from stakes.errors import NonFiniteError, SettingError, ShapeError
from stakes.models.sample_model import TrainingDraw
from stakes.scores import DecisionScore, ScoringRule

__all__ = ["DecisionAwareObjective", "ObjectiveTerms"]


@dataclass(frozen=True)
class ObjectiveTerms:
    """The objective case by case, (...): the total, and both terms in their own units before scaling.

    `decision` is None at weight 0, where no action is solved. `mean()` is the loss.
    """

    total: Tensor
    score: Tensor
    decision: Tensor | None
    case_weight: Tensor | None = None  # (...)

    def mean(self, dim: int | None = None) -> "ObjectiveTerms":
        """The (weighted) mean over all cases, or over one axis of them."""
        decision = None if self.decision is None else self._mean(self.decision, dim)
        return ObjectiveTerms(self._mean(self.total, dim), self._mean(self.score, dim), decision)

    def _mean(self, values: Tensor, dim: int | None) -> Tensor:
        if self.case_weight is None:
            return values.mean(dim)
        return (values * self.case_weight).sum(dim) / self.case_weight.sum(dim)


@dataclass(frozen=True)
class DecisionAwareObjective:
    """L = (1 - w_d) score / score_scale + w_d decision / decision_scale                        (eq. combined)

    A mixture of a strictly proper and a proper scoring rule is strictly proper for w_d < 1 (the Lemma), which is why
    `decision_weight` 1 only comes with a warning. Weight and scales are numbers or tensors that broadcast against
    the cases (...), (R, 1) for a stack of R models.

    >>> import torch, stakes
    >>> objective = stakes.DecisionAwareObjective(
    ...     stakes.EnergyScore(), stakes.DecisionScore(stakes.ShortfallCost(5.0)), decision_weight=0.5)
    >>> samples = torch.rand(32, 10, 1, requires_grad=True)
    >>> loss = objective.from_samples(samples, torch.rand(32, 1)).mean().total
    >>> loss.backward()
    """

    score: ScoringRule
    decision: DecisionScore
    decision_weight: Parameter
    score_scale: Parameter = 1.0
    decision_scale: Parameter = 1.0

    def __post_init__(self) -> None:
        weight = torch.as_tensor(self.decision_weight)
        if not bool(((weight >= 0) & (weight <= 1)).all()):
            raise SettingError(f"decision_weight must lie in [0, 1), got {self.decision_weight}")
        if bool((weight == 1).any()):
            warnings.warn(
                "decision_weight 1 leaves the forecast without a strictly proper score: it may degenerate wherever "
                "the decision does not look",
                stacklevel=3,
            )
        for name in ("score_scale", "decision_scale"):
            scale = torch.as_tensor(getattr(self, name))
            if not bool(((scale > 0) & torch.isfinite(scale)).all()):
                raise SettingError(f"{name} must be positive and finite, got {getattr(self, name)}")

    def __call__(self, draw: TrainingDraw) -> ObjectiveTerms:
        """Both terms and their mixture for one draw of a model, case by case."""
        score = self.score(draw.score_members, draw.score_outcome)
        if self._ignores_decision:
            return ObjectiveTerms(score / self.score_scale, score, None)
        decision = self._decision_term(draw)
        anchor = (1 - self.decision_weight) * score / self.score_scale
        total = anchor + self.decision_weight * decision / self.decision_scale
        return ObjectiveTerms(total, score, decision)

    def from_samples(
        self,
        samples: Tensor,
        outcome: Tensor,
        *,
        member_dim: int = -2,
        case_weight: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> ObjectiveTerms:
        """The same for anybody's own model: samples with members on axis `member_dim`, outcome (..., D).

        `mask` (...) is True where the outcome is known; the other cases count nothing, and their outcome may be NaN.
        `case_weight` (...) weighs the cases in `mean()`.
        """
        samples = samples.movedim(member_dim, -2)
        for name, each in (("mask", mask), ("case_weight", case_weight)):
            if each is not None and each.shape != samples.shape[:-2]:
                raise ShapeError(
                    f"{name} must have the shape of the cases {tuple(samples.shape[:-2])}, got {tuple(each.shape)}"
                )
        if mask is not None:
            if known_on_host(mask.any()) is False:
                raise ShapeError("mask leaves no case: it must be True where the outcome is known")
            outcome = torch.where(mask[..., None], outcome, samples.detach().mean(-2).to(outcome.dtype))
            weight = mask.to(samples.dtype)
            case_weight = weight if case_weight is None else weight * case_weight
        terms = self(TrainingDraw(samples, outcome, samples, outcome))
        return replace(terms, case_weight=case_weight)

    @torch.no_grad()
    def estimate_scales(
        self, draws: TrainingDraw | Iterable[TrainingDraw], dim: int | None = None
    ) -> "DecisionAwareObjective":
        """The same objective with both terms scaled to one: the mean score and mean |decision cost| of these draws.

        Done once before training, on training data (appendix B), after the weighting of the decision term. `dim` -1
        keeps a pair of scales a model for a stack of cases (R, B), (R, 1).
        """
        draws = [draws] if isinstance(draws, TrainingDraw) else list(draws)
        if not draws:
            raise ShapeError("estimate_scales needs at least one draw, got none")
        terms = [
            (self.score(draw.score_members, draw.score_outcome), self._decision_term(draw).abs()) for draw in draws
        ]
        scales = []
        for name, values in zip(("score", "decision"), zip(*terms, strict=True), strict=True):
            cases = torch.cat([torch.atleast_1d(value) for value in values], -1)
            scale = cases.mean() if dim is None else cases.mean(dim, keepdim=True)
            if not bool(((scale > 0) & torch.isfinite(scale)).all()):
                raise NonFiniteError(f"the mean {name} term of these draws must be positive and finite, got {scale}")
            scales.append(scale.item() if dim is None else scale)
        return replace(self, score_scale=scales[0], decision_scale=scales[1])

    @property
    def _ignores_decision(self) -> bool:
        return not isinstance(self.decision_weight, Tensor) and self.decision_weight == 0

    def _decision_term(self, draw: TrainingDraw) -> Tensor:
        decision = self.decision(draw.decision_members, draw.decision_outcome)
        return decision if draw.decision_term_weight is None else decision * draw.decision_term_weight
