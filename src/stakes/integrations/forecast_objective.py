"""The decision-aware objective of forecasts of many hours and series, and a head that emits joint members."""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from stakes.argument_checks import require_count, require_decision_weight, require_one_of, working_precision
from stakes.cost_spec.spec import CostSpec
from stakes.costs.cost import Cost
from stakes.errors import CheckpointError, NonFiniteError, SettingError, ShapeError, StakesWarning
from stakes.models.sample_model import TrainingDraw
from stakes.scores.decision_score import DecisionScore
from stakes.scores.objective import DecisionAwareObjective, loss_scales
from stakes.scores.scoring_rules import ScoreMixture, ScoringRule, named_score, score_of_draw, score_weights


class FactorForecast(NamedTuple):
    """A forecast of H hours and N series whose errors move together by K factors, all Gaussian."""

    location: Tensor  # what is expected, (B, H, N)
    scale: Tensor  # the spread of what each hour and series has of its own, (B, H, N)
    loadings: Tensor  # how far each is moved by each factor, (B, H, N, K)

    def draw(self, members: int, generator: torch.Generator | None = None) -> Tensor:
        """Members (B, M, H, N), each a joint draw of all hours and series."""
        forecasts, *_, factors = self.loadings.shape
        noise = partial(torch.randn, dtype=self.location.dtype, device=self.location.device, generator=generator)
        own = noise((forecasts, members, *self.location.shape[1:]))
        shared = noise((forecasts, members, factors))
        together = torch.einsum("bmk,bhnk->bmhn", shared, self.loadings)
        return self.location[:, None] + self.scale[:, None] * own + together

    def in_units(self, shift: Tensor | float, unit: Tensor | float) -> "FactorForecast":
        """The forecast of shift + unit y, where this one is of y."""
        each = unit[..., None] if isinstance(unit, Tensor) else unit
        return FactorForecast(shift + unit * self.location, unit * self.scale, each * self.loadings)

    def spread(self) -> Tensor:
        """The standard deviation of each hour and series, (B, H, N)."""
        return torch.sqrt(self.scale**2 + (self.loadings**2).sum(-1))

    def covariance(self) -> Tensor:
        """The covariance of all hours and series, (B, H N, H N): scale^2 on the diagonal, plus loadings loadings'."""
        loadings = self.loadings.flatten(1, 2)
        return torch.diag_embed(self.scale.flatten(1) ** 2) + loadings @ loadings.mT


@dataclass(frozen=True)
class FactorHead:
    """Numbers of a network as a `FactorForecast`."""

    factors: int = 8  # k, how many kinds of noise hours and series share; with 0 they are independent of each other

    def __post_init__(self) -> None:
        require_count("factors", self.factors, least=0)

    @property
    def outputs(self) -> int:
        """How many numbers the network must emit for each hour and series."""
        return 2 + self.factors

    @property
    def names(self) -> list[str]:
        """What the numbers of each hour and series are called once `forecast` has made a forecast of them."""
        return ["location", "scale", *(f"loading_{factor + 1}" for factor in range(self.factors))]

    def forecast(self, output: Tensor) -> FactorForecast:
        """The forecast that a network's output stands for."""
        if output.dim() != 4 or output.shape[-1] != self.outputs:
            raise ShapeError(
                f"the output must be (batch, hours, series, {self.outputs}) for a head of {self.factors} factors, "
                f"got {tuple(output.shape)}"
            )
        location, width, loadings = working_precision(output).split([1, 1, self.factors], -1)
        return FactorForecast(location.squeeze(-1), softplus(width.squeeze(-1)), loadings)


Across = Literal["hours", "series", "both", "none"]
"""What belongs to one decision: all hours of a series, all series at an hour, all of both, or each value by itself."""

SecondTerm = Literal["decision", "total"]
"""What the score is mixed with: the cost of the decision, or the CRPS of what the decision is about."""


class ForecastObjective(nn.Module):
    """Forecasts and outcomes of a batch in, one number out.

    Each part of the mixture is divided by its own mean for the first batch that is trained on, where a network still
    forecasts next to nothing; the scales are a buffer and are saved with the module.
    """

    scales: Tensor
    steps: Tensor

    def __init__(
        self,
        cost: Cost | str,
        across: Across,
        score: str,
        second_term: SecondTerm,
        decision_weight: float,
        members: int,
        pretraining_steps: int,
    ) -> None:
        super().__init__()
        require_one_of("across", across, get_args(Across))
        require_one_of("second_term", second_term, get_args(SecondTerm))
        require_decision_weight(decision_weight)
        require_count("members", members, least=2)
        require_count("pretraining_steps", pretraining_steps, least=0)
        self.spec: CostSpec | None = None
        if isinstance(cost, str):
            self.spec = CostSpec.parse(cost)
            cost = self.spec.build()
        weights = score_weights(score)
        total = second_term == "total"
        self.second: ScoringRule = named_score({"total": 1.0}, cost) if total else DecisionScore(cost)
        self.parts = tuple(named_score({name: 1.0}, cost) for name in weights)
        self.part_weights = tuple(weights.values())
        self.across, self.decision_weight, self.members = across, decision_weight, members
        self.pretraining_steps = pretraining_steps
        self.register_buffer("scales", torch.full((1 + len(self.parts),), math.nan))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(
        self, forecast: FactorForecast, outcome: Tensor, unit: Tensor | float = 1.0, weight: Tensor | None = None
    ) -> Tensor:
        """The mean objective of a batch, one number."""
        if outcome.shape != forecast.location.shape:
            raise ShapeError(
                f"outcome must be (batch, hours, series) {tuple(forecast.location.shape)} as the forecast, "
                f"got {tuple(outcome.shape)}"
            )
        self._require_series(outcome.shape[-1])
        if not bool(torch.isfinite(forecast.location).all()):
            raise NonFiniteError(
                "the output of the model is not finite: a series has missing values, which must be filled, or training "
                "has diverged"
            )
        outcome = outcome.to(forecast.location.dtype)
        if weight is not None:
            outcome = torch.where(weight > 0, outcome, forecast.location.detach())
        members = forecast.draw(self.members)
        each = unit[:, None] if isinstance(unit, Tensor) else unit
        draw = TrainingDraw(
            score_members=self._cases(members / each),
            score_outcome=self._cases((outcome / unit)[:, None]).squeeze(-2),
            decision_members=self._cases(members),
            decision_outcome=self._cases(outcome[:, None]).squeeze(-2),
        )
        counts = torch.ones_like(draw.decision_outcome) if weight is None else self._cases(weight[:, None]).squeeze(-2)
        counts = counts.amin(-1)
        return _mean(self._objective(draw, counts)(draw).total, counts)

    def _objective(self, draw: TrainingDraw, counts: Tensor) -> DecisionAwareObjective:
        """The objective of this step; a step with a gradient counts, and the first with an outcome sets the scales."""
        training, scales, weight = draw.score_members.requires_grad, self.scales, self.decision_weight
        if training:
            weight = 0.0 if self.steps < self.pretraining_steps else weight
            self.steps += 1
        if bool(scales.isnan().any()):
            known = bool((counts > 0).any())
            scales = self._scales_of(draw, counts) if known else torch.ones_like(scales)
            if training and known:
                self._tell_doubts(draw.decision_outcome[counts > 0])
                self.scales.copy_(scales)
        second, *parts = scales.to(draw.score_members).unbind()
        score = ScoreMixture(self.parts, self.part_weights, tuple(parts))
        return DecisionAwareObjective(score, self.second, weight, decision_scale=second)

    @torch.no_grad()
    def _scales_of(self, draw: TrainingDraw, counts: Tensor) -> Tensor:
        terms = [self.second(draw.decision_members, draw.decision_outcome).abs()]
        terms += [score_of_draw(part, draw) for part in self.parts]
        scales = torch.stack(loss_scales([terms], counts=counts))
        if not bool(((scales > 0) & torch.isfinite(scales)).all()):
            raise NonFiniteError(
                "the mean cost and score of the first batch scale the loss and must be positive and finite, got "
                f"{', '.join(f'{scale:g}' for scale in scales.tolist())}"
            )
        return scales

    def _tell_doubts(self, outcome: Tensor) -> None:
        """Normalised values that are taken for physical ones, or another unit, would train for another decision."""
        if self.spec is None or not self.decision_weight:
            return
        for doubt in self.spec.doubts(outcome.detach().double().cpu().numpy()):
            warnings.warn(f"the cost {self.spec}: {doubt}", StakesWarning, stacklevel=2)

    def _cases(self, members: Tensor) -> Tensor:
        """Members (B, M, H, N) as cases (..., M, D), where D is what one decision is about."""
        if self.across == "hours":
            return members.permute(0, 3, 1, 2)
        if self.across == "series":
            return members.transpose(1, 2)
        return members.flatten(2) if self.across == "both" else members.permute(0, 2, 3, 1)[..., None]

    def _require_series(self, series: int) -> None:
        if self.across == "series" and series == 1:
            raise SettingError(
                'across="series" needs a model that forecasts several series at once, and this one forecasts one; '
                'across="hours" decides on all hours of a series, across="none" on each hour'
            )


def _mean(values: Tensor, counts: Tensor) -> Tensor:
    """The mean of values by what each counts; zero where none does."""
    return (values * counts).sum() / counts.sum().clamp(min=torch.finfo(counts.dtype).tiny)


def refuse_unknown(what: str, layout: int, known: int, others: Mapping[str, object]) -> None:
    """Raise where settings, which may come from a saved model, are not those of this version."""
    if layout != known:
        raise CheckpointError(f"this {what} was saved by another version of stakes: layout {layout}, expected {known}")
    if others:
        raise SettingError(
            f"{what} has no argument {', '.join(others)}; a saved model with it comes from another version of stakes"
        )
