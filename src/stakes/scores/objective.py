"""The decision-aware mixture of two scoring rules, its loss scales, and the mixture as a torch module."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch import distributed as processes

from stakes.argument_checks import (
    check_outcome,
    check_samples,
    known_false,
    known_on_host,
    require_decision_weight,
    require_positive,
    shown_numbers,
)
from stakes.costs.cost import Parameter
from stakes.errors import NonFiniteError, ShapeError, StakesWarning
from stakes.models.sample_model import TrainingDraw
from stakes.scores.decision_score import DecisionScore, member_influence
from stakes.scores.scoring_rules import ScoringRule, score_of_draw


def process_count() -> int:
    """How many processes there are: 1 without a process group."""
    return processes.get_world_size() if processes.is_available() and processes.is_initialized() else 1


def sum_over_processes(values: Tensor) -> Tensor:
    """The sum of the values of all processes, without gradients; every process must call it."""
    total = values.detach().clone()
    if process_count() > 1:
        processes.all_reduce(total)
    return total


@dataclass(frozen=True)
class ObjectiveTerms:
    """The objective of each case, (...): the total, and both terms in their own units, before scaling.

    `mean()` is the loss: unlike `total.mean()` it respects the mask and the weights of the cases.

    Attributes:
        total: The mixture of both scaled terms, (...).
        score: The score, (...), in its own unit.
        decision: The decision term, (...), in its own unit; None if its weight is the number 0, where no action is
            solved.
        case_weight: The weight of each case in the mean, (...); None for equal weights.
    """

    total: Tensor
    score: Tensor
    decision: Tensor | None
    case_weight: Tensor | None = None

    def mean(self, dim: int | None = None) -> "ObjectiveTerms":
        """The weighted mean of every term.

        Args:
            dim: The axis of the cases that the mean is taken over; None takes it over all of them.
        """
        decision = None if self.decision is None else self._mean(self.decision, dim)
        return ObjectiveTerms(self._mean(self.total, dim), self._mean(self.score, dim), decision)

    def share_of_mean(self) -> "ObjectiveTerms":
        """The share that this process has in the mean over a batch split over W processes of `torch.distributed`:

            W sum_i w_i L_i / sum_j w_j        with i over the cases of this process, and j over those of all.

        The average of the shares, which DistributedDataParallel takes of their gradients, is the mean, however many
        cases each process has. Without a process group it is `mean()`.
        """
        weight = torch.ones_like(self.total) if self.case_weight is None else self.case_weight
        factor = process_count() / sum_over_processes(weight.sum())
        decision = None if self.decision is None else (self.decision * weight).sum() * factor
        return ObjectiveTerms((self.total * weight).sum() * factor, (self.score * weight).sum() * factor, decision)

    def _mean(self, values: Tensor, dim: int | None) -> Tensor:
        if self.case_weight is None:
            return values.mean(dim)
        return (values * self.case_weight).sum(dim) / self.case_weight.sum(dim)


@torch.no_grad()
def loss_scales(
    parts: Iterable[Sequence[Tensor]],
    dim: int | None = None,
    *,
    counts: Tensor | None = None,
    across_processes: bool = False,
) -> tuple[Tensor, ...]:
    """What each term of a loss is divided by: its mean over all cases.

    Cases come in parts, of each of which all terms are given, (..., N). With `dim` -1 each of a stack of models has
    scales of its own, (..., 1). `counts` says what the cases of a single part count.
    """
    sums: list[Tensor] = []
    number: float | Tensor = 0.0
    for terms in parts:
        weighted = [term if counts is None else term * counts for term in terms]
        own = [values.sum() if dim is None else values.sum(dim, keepdim=True) for values in weighted]
        sums = [before + more for before, more in zip(sums, own, strict=True)] if sums else own
        number = number + (weighted[0].numel() / own[0].numel() if counts is None else counts.sum())
    if across_processes:
        count = torch.full_like(sums[0], float(number))
        return tuple(sum_over_processes(total) / sum_over_processes(count) for total in sums)
    return tuple(total / number for total in sums)


@dataclass(frozen=True)
class DecisionAwareObjective:
    """L = (1 - w_d) score / score_scale + w_d decision / decision_scale                        (eq. combined)

    A mixture of a strictly proper and a proper scoring rule is strictly proper for w_d < 1 (the Lemma); weight 1 raises
    a warning. Weight and scales are numbers, or tensors that broadcast against the cases (...), such as (R, 1) for a
    stack of R models.

    Attributes:
        score: The strictly proper rule, or a `ScoreMixture`, on members in the space that the model predicts in
            (`TotalCRPS`: in physical units).
        decision: The decision term, a `DecisionScore` or another rule in its place, on members in physical units.
        decision_weight: w_d, the weight of the decision, from 0 to 1.
        score_scale: The divisor of the score; positive.
        decision_scale: The divisor of the decision term; positive. See `estimate_scales`.

    >>> import torch, stakes
    >>> objective = stakes.DecisionAwareObjective(
    ...     stakes.EnergyScore(), stakes.DecisionScore(stakes.ShortfallCost(5.0)), decision_weight=0.5)
    >>> samples = torch.rand(32, 10, 1, requires_grad=True)
    >>> loss = objective.from_samples(samples, torch.rand(32, 1)).mean().total
    >>> loss.backward()
    """

    score: ScoringRule
    decision: ScoringRule
    decision_weight: Parameter
    score_scale: Parameter = 1.0
    decision_scale: Parameter = 1.0

    def __post_init__(self) -> None:
        weight = self.decision_weight
        require_decision_weight(weight, expected="lie in [0, 1)")
        if known_false(weight < 1):
            warnings.warn(
                "decision_weight 1 leaves no strictly proper score: the forecast may degenerate wherever the decision "
                "is indifferent",
                StakesWarning,
                stacklevel=3,
            )
        require_positive("score_scale", self.score_scale)
        require_positive("decision_scale", self.decision_scale)

    def __call__(self, draw: TrainingDraw) -> ObjectiveTerms:
        """Both terms and their mixture, case by case.

        Args:
            draw: The members and outcomes of one training step.
        """
        score = score_of_draw(self.score, draw)
        if self._ignores_decision:
            return ObjectiveTerms(score / self.score_scale, score, None)
        decision = self._decision_term(draw)
        if score.shape != decision.shape:
            raise ShapeError(
                f"score and decision must have a term for each case, got shapes {tuple(score.shape)} and "
                f"{tuple(decision.shape)}"
            )
        anchor = (1 - self.decision_weight) * score / self.score_scale
        total = anchor + self.decision_weight * decision / self.decision_scale
        cases = draw.decision_members.shape[:-2]
        if total.shape != cases:
            raise ShapeError(
                f"score, decision_weight, both scales and decision_term_weight must fit the cases {tuple(cases)}; "
                f"together they give shape {tuple(total.shape)}"
            )
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
        """Both terms and their mixture, case by case, for the members of any model.

        Args:
            samples: Members in physical units, (..., M, D) unless `member_dim` differs.
            outcome: Outcomes (..., D).
            member_dim: The axis of the members.
            case_weight: The weight of each case in `mean()`, (...), finite and not negative; None for equal weights.
            mask: True where the outcome is known, (...), bool; other cases are ignored, and their outcomes may be NaN.
                None for all.
        """
        if not isinstance(samples, Tensor):
            raise ShapeError(f"samples must be a torch tensor, got {type(samples).__name__}")
        if not -samples.dim() <= member_dim < samples.dim():
            raise ShapeError(f"samples of shape {tuple(samples.shape)} have no axis member_dim={member_dim}")
        samples = samples.movedim(member_dim, -2)
        check_samples(samples)
        check_outcome(outcome, samples)
        _check_cases("mask", mask, samples.shape[:-2])
        _check_cases("case_weight", case_weight, samples.shape[:-2])
        if case_weight is not None and known_false((case_weight >= 0) & (case_weight < float("inf"))):
            raise NonFiniteError("case_weight must be finite and not negative")
        if mask is None:
            return replace(self(TrainingDraw.from_samples(samples, outcome)), case_weight=case_weight)
        if mask.dtype != torch.bool:
            raise ShapeError(f"mask must hold booleans, got {mask.dtype}")
        if known_on_host(mask.any()) is False:
            raise ShapeError("mask leaves no case: it must be True where the outcome is known")
        known = torch.where(mask[..., None], outcome, samples.detach().mean(-2).to(outcome.dtype))
        terms = self(TrainingDraw.from_samples(samples, known))
        return ObjectiveTerms(
            total=torch.where(mask, terms.total, 0.0),
            score=torch.where(mask, terms.score, 0.0),
            decision=None if terms.decision is None else torch.where(mask, terms.decision, 0.0),
            case_weight=mask.to(samples.dtype) if case_weight is None else mask * case_weight,
        )

    @torch.no_grad()
    def estimate_scales(
        self, draws: TrainingDraw | Iterable[TrainingDraw], dim: int | None = None, *, across_processes: bool = False
    ) -> "DecisionAwareObjective":
        """The same objective with both terms scaled to one: by the mean score and mean |decision cost| of these draws.

        Call it once before training, on training data (appendix B). The decision cost includes its weight, and is the
        plain one for any estimator.

        Args:
            draws: One or more draws; `TrainingDraw.from_samples` makes one from the members of any model.
            dim: None for one pair of scales; -1 for one pair per model of a stack of cases (R, B), (R, 1).
            across_processes: Whether to average over all processes of `torch.distributed`, each of which must then call
                this.
        """
        draws = [draws] if isinstance(draws, TrainingDraw) else list(draws)
        if not draws:
            raise ShapeError("estimate_scales needs at least one draw, got none")
        plain = self.plain
        terms = ((score_of_draw(self.score, draw), plain._decision_term(draw).abs()) for draw in draws)
        scales = loss_scales(terms, dim, across_processes=across_processes)
        for name, scale in zip(("score", "decision"), scales, strict=True):
            if not bool(((scale > 0) & torch.isfinite(scale)).all()):
                came = shown_numbers(scale)
                raise NonFiniteError(f"the mean {name} term of these draws must be positive and finite, got {came}")
        score, decision = ((scale.item() if dim is None else scale) for scale in scales)
        return replace(self, score_scale=score, decision_scale=decision)

    @property
    def plain(self) -> "DecisionAwareObjective":
        """The same objective with the plain estimator of the decision cost."""
        if not isinstance(self.decision, DecisionScore):
            return self
        return replace(self, decision=replace(self.decision, estimator="plain"))

    @property
    def _ignores_decision(self) -> bool:
        return not isinstance(self.decision_weight, Tensor) and self.decision_weight == 0

    def _decision_term(self, draw: TrainingDraw) -> Tensor:
        decision = self.decision(draw.decision_members, draw.decision_outcome)
        likelihood = draw.member_log_likelihood
        if likelihood is not None and likelihood.shape[-1] and isinstance(self.decision, DecisionScore):
            influence = member_influence(self.decision.cost, draw.decision_members, draw.decision_outcome)
            decision = decision + (influence * (likelihood - likelihood.detach())).sum(-1)
        return decision if draw.decision_term_weight is None else decision * draw.decision_term_weight


def _check_cases(name: str, values: Tensor | None, cases: torch.Size) -> None:
    if values is not None and (not isinstance(values, Tensor) or values.shape != cases):
        shape = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
        raise ShapeError(f"{name} must be a tensor with the shape of the cases {tuple(cases)}, got {shape}")


class DecisionAwareLoss(nn.Module):
    """A `DecisionAwareObjective` as a loss module: samples and outcome in, one number out.

    Its scales are buffers, which `estimate_scales`, called once before training, sets. `terms` holds the means of the
    last call, detached, for logging.

    Args:
        objective: The mixture whose mean is the loss.
        member_dim: The axis of the members in the samples.
        across_processes: Whether each batch is split over the processes of `torch.distributed`. The scales are then
            those of the whole batch, and the loss of a process is its share of the mean over all cases, so that the
            average over processes, as DistributedDataParallel takes of gradients, is that mean.

    >>> import torch, stakes
    >>> objective = stakes.DecisionAwareObjective(
    ...     stakes.EnergyScore(), stakes.DecisionScore(stakes.ShortfallCost(5.0)), decision_weight=0.3)
    >>> loss = stakes.DecisionAwareLoss(objective)
    >>> samples, outcome = torch.rand(32, 10, 1), torch.rand(32, 1)
    >>> loss.estimate_scales(samples, outcome)
    >>> loss(samples, outcome).shape
    torch.Size([])
    """

    score_scale: Tensor
    decision_scale: Tensor

    def __init__(
        self, objective: DecisionAwareObjective, member_dim: int = -2, *, across_processes: bool = False
    ) -> None:
        super().__init__()
        self.objective = objective
        self.member_dim = member_dim
        self.across_processes = across_processes
        for name in ("score_scale", "decision_scale"):
            scale = torch.as_tensor(getattr(objective, name), dtype=torch.get_default_dtype())
            self.register_buffer(name, scale.clone())
        self.terms: ObjectiveTerms | None = None

    def estimate_scales(self, samples: Tensor, outcome: Tensor) -> None:
        """Set both scales so that each term is one on average for these samples.

        Args:
            samples: Members (..., M, D) of training cases, or with the members on `member_dim`.
            outcome: Their outcomes (..., D).
        """
        draw = TrainingDraw.from_samples(samples.detach().movedim(self.member_dim, -2), outcome)
        scaled = self.objective.estimate_scales(draw, across_processes=self.across_processes)
        self.score_scale.fill_(scaled.score_scale)
        self.decision_scale.fill_(scaled.decision_scale)

    def forward(
        self,
        samples: Tensor,
        outcome: Tensor,
        *,
        case_weight: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """The mean objective of a batch, one number.

        Args:
            samples: Members (..., M, D), or with the members on `member_dim`, in physical units.
            outcome: Outcomes (..., D).
            case_weight: The weight of each case, (...); None for equal weights.
            mask: True where the outcome is known, (...), bool; other cases are ignored. None for all.
        """
        scaled = replace(self.objective, score_scale=self.score_scale, decision_scale=self.decision_scale)
        cases = scaled.from_samples(samples, outcome, member_dim=self.member_dim, case_weight=case_weight, mask=mask)
        terms = cases.share_of_mean() if self.across_processes else cases.mean()
        decision = None if terms.decision is None else terms.decision.detach()
        self.terms = ObjectiveTerms(terms.total.detach(), terms.score.detach(), decision)
        return terms.total
