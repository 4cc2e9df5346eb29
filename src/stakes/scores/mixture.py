"""Scores to choose from: by name, or as a weighted mixture."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast, get_args

import torch
from torch import Tensor

from stakes.argument_checks import prepared_pair, require_positive, shown_numbers
from stakes.costs.cost import Cost, Parameter
from stakes.errors import SettingError, ShapeError
from stakes.models.sample_model import TrainingDraw
from stakes.scores.scoring_rules import EnergyScore, Estimator, PointwiseCRPS, ScoringRule, TotalCRPS

ScoreName = Literal["energy", "pointwise", "total"]
"""What a score is called in settings: `EnergyScore`, `PointwiseCRPS`, `TotalCRPS` of the cost."""

_CLIMATOLOGY_MEMBERS = 32  # outcomes of other cases that make a forecast by climatology


@dataclass(frozen=True)
class ScoreMixture:
    """S = sum_k w_k S_k / s_k / sum_k w_k: several scoring rules as one.

    It is proper where every part is, and strictly proper where one of them is besides (the Lemma). Divided by the
    scales of `standardised`, each part is 1 for a forecast by climatology, whatever its unit, so that the weights say
    how much a part counts.

    Attributes:
        parts: The rules S_k.
        weights: w_k, a positive number for each; only their ratios matter.
        scales: s_k, what each part is divided by, positive: numbers or tensors that broadcast against the cases; None
            divides by nothing.

    >>> import torch, stakes
    >>> score = stakes.ScoreMixture((stakes.EnergyScore(), stakes.TotalCRPS(stakes.ShortfallCost(5.0))), (1.0, 0.5))
    >>> outcomes = torch.rand(100, 3)
    >>> score.standardised(outcomes)(torch.rand(100, 10, 3), outcomes).shape
    torch.Size([100])
    """

    parts: tuple[ScoringRule, ...]
    weights: tuple[float, ...]
    scales: tuple[Parameter, ...] | None = None

    def __post_init__(self) -> None:
        counts = {len(each) for each in (self.parts, self.weights, self.scales) if each is not None}
        if len(counts) > 1 or not self.parts:
            raise SettingError("a mixture needs at least one part, and as many weights and scales as parts")
        for weight in self.weights:
            require_positive("weights", weight)
        for scale in self.scales or ():
            require_positive("scales", scale)

    def __call__(self, samples: Tensor, outcome: Tensor, *, weights: Tensor | None = None) -> Tensor:
        """The score of each case, (...), every part on the same members.

        Args:
            samples: Members (..., M, D) in physical units.
            outcome: Outcomes (..., D).
            weights: What each member weighs, (..., M), where every part takes weights; None where all count alike.
        """
        samples, outcome = prepared_pair(samples, outcome)
        if weights is None:
            return self.of_draw(TrainingDraw.from_samples(samples, outcome))
        parts = [cast(Callable[..., Tensor], part) for part in self.parts]
        return self._mixed([part(samples, outcome, weights=weights) for part in parts])

    def of_draw(self, draw: TrainingDraw) -> Tensor:
        """The score of each case, (...), every part on the members that it is about; see `score_of_draw`.

        Args:
            draw: What a model shows for one training step.
        """
        return self._mixed([score_of_draw(part, draw) for part in self.parts])

    def _mixed(self, scores: Sequence[Tensor]) -> Tensor:
        share = sum(self.weights)
        scales = self.scales or (1.0,) * len(self.parts)
        terms = [
            weight / share * score / scale for score, weight, scale in zip(scores, self.weights, scales, strict=True)
        ]
        return torch.stack(terms).sum(0)

    def standardised(self, outcome: Tensor) -> "ScoreMixture":
        """The same mixture, each part divided by its mean for climatology: outcomes of other cases as members.

        Args:
            outcome: Outcomes (N, D) of training cases, N >= 3, in physical units.
        """
        scales = self.climatology_scales(TrainingDraw.from_samples(outcome[..., None, :], outcome))
        return replace(self, scales=tuple(scale.item() for scale in scales.unbind(-1)))

    @torch.no_grad()
    def climatology_scales(self, draw: TrainingDraw) -> Tensor:
        """The mean of each part where the members of a case are outcomes of other cases, (..., parts).

        Args:
            draw: A draw of cases (..., N), of which the outcomes and the weight of the decision term matter only.
        """
        climatology = draw._replace(
            score_members=_other_outcomes(draw.score_outcome), decision_members=_other_outcomes(draw.decision_outcome)
        )
        scales = torch.stack([score_of_draw(part, climatology).mean(-1) for part in self.parts], -1)
        for place, part in enumerate(self.parts):
            own = scales[..., place]
            if not bool(((own > 0) & torch.isfinite(own)).all()):
                name, came = type(part).__name__, shown_numbers(own)
                raise SettingError(f"the {name} of a forecast by climatology must be positive, to scale by, got {came}")
        return scales


def score_of_draw(score: ScoringRule, draw: TrainingDraw) -> Tensor:
    """The score of each case of a training draw, (...).

    A rule sees the members in the space that the model predicts in. `TotalCRPS` looks through the cost, so it sees as
    many of the members in physical units, and its term is weighted as the decision's.
    """
    if isinstance(score, ScoreMixture):
        return score.of_draw(draw)
    if not isinstance(score, TotalCRPS):
        return score(draw.score_members, draw.score_outcome)
    members = draw.decision_members[..., : draw.score_members.shape[-2], :]
    value = score(members, draw.decision_outcome)
    return value if draw.decision_term_weight is None else value * draw.decision_term_weight


def score_weights(text: str) -> dict[ScoreName, float]:
    """The parts of a score in words, with their weights.

    >>> score_weights("energy=1,total=0.5")
    {'energy': 1.0, 'total': 0.5}
    """
    names = get_args(ScoreName)
    expected = f"score must be {', '.join(names)} or a mixture such as energy=1,total=0.5"
    weights: dict[ScoreName, float] = {}
    for part in text.split(",") if isinstance(text, str) else [""]:
        name, _, number = (each.strip() for each in part.partition("="))
        if name not in names or name in weights:
            raise SettingError(f"{expected}, got {text!r}")
        weights[cast(ScoreName, name)] = weight = _number(number) if "=" in part else 1.0
        if not 0 < weight < math.inf:
            raise SettingError(f"{expected}, with positive weights, got {text!r}")
    return weights


def named_score(weights: Mapping[ScoreName, float], cost: Cost, estimator: Estimator = "fair") -> ScoringRule:
    """The score of these names: one rule, or a mixture, not yet standardised."""
    makers = {
        "energy": lambda: EnergyScore(estimator),
        "pointwise": lambda: PointwiseCRPS(estimator),
        "total": lambda: TotalCRPS(cost, estimator),
    }
    parts = tuple(cast(ScoringRule, makers[name]()) for name in weights)
    return parts[0] if len(parts) == 1 else ScoreMixture(parts, tuple(weights.values()))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _other_outcomes(outcome: Tensor) -> Tensor:
    """Members (..., N, K, D) of each case: the outcomes of K others, evenly spread over all, of (..., N, D)."""
    cases = outcome.shape[-2]
    if cases < 3:
        raise ShapeError(f"a forecast by climatology needs the outcomes of at least three cases, got {cases}")
    count = min(_CLIMATOLOGY_MEMBERS, cases - 1)
    steps = [1 + place * (cases - 1) // count for place in range(count)]
    return torch.stack([outcome.roll(step, -2) for step in steps], -2)
