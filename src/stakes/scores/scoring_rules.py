"""Scoring rules for ensembles; lower is better."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol, cast, get_args, runtime_checkable

import torch
from torch import Tensor

from stakes.argument_checks import prepared_pair, require_finite, require_one_of, require_positive, shown_numbers
from stakes.costs.cost import Cost, Parameter, total_of
from stakes.costs.member_weights import (
    mean_of_members,
    rank_balance,
    refuse_weights,
    register_operator,
    relative_weights,
    weight_balance,
    with_gradient,
)
from stakes.errors import SettingError, ShapeError
from stakes.models.sample_model import TrainingDraw

_FEW_PAIRS = 1 << 17  # on a CPU all pairs at once beat sorting up to about this many
_FEW_MEMBERS = 16  # the same on an accelerator, where a kernel's launch counts for more than its work
_PAIRS_AT_ONCE = 1 << 24  # distances held at one time for D > 1: 64 MiB in float32


def pair_distance_sum(samples: Tensor, weights: Tensor | None = None) -> Tensor:
    """The sum of all distances between two members, sum_{m<j} |y_m - y_j|, (...), differentiable once.

    The sum is homogeneous of degree one, so with g_m = sum_j (y_m - y_j) / |y_m - y_j| it equals sum_m <g_m, y_m>,
    and g is its gradient; tied members push each other nowhere. For D = 1, g_m is a matter of ranks: O(M log M).
    """
    if weights is not None:
        return _weighted_sum(samples, weights)
    if samples.shape[-1] > 1 and samples.dtype == torch.float32 and not torch.is_grad_enabled():
        return _distance_sum(samples)
    if samples.shape[-1] > 1:
        distance_sum, gradient = _pair_distances(samples.detach())
        return with_gradient(distance_sum, samples, gradient)
    values = samples.squeeze(-1)
    if _few(values):
        fixed = values.detach()
        balance = torch.sign(fixed[..., :, None] - fixed[..., None, :]).sum(-1)
    else:
        balance = rank_balance(values)
    return (balance * values).sum(-1)


def _weighted_sum(samples: Tensor, weights: Tensor) -> Tensor:
    if samples.shape[-1] > 1:
        distance_sum, gradient = _weighted_pair_distances(torch.cat([samples.detach(), weights[..., None]], -1))
        return with_gradient(distance_sum, samples, gradient)
    values = samples.squeeze(-1)
    return (weight_balance(values, weights) * values).sum(-1)


def _few(values: Tensor) -> bool:
    members = values.shape[-1]
    return values.numel() * members <= _FEW_PAIRS if values.device.type == "cpu" else members <= _FEW_MEMBERS


def _distance_sum(samples: Tensor) -> Tensor:
    """The sum (...) alone, by |a - b|^2 = |a|^2 + |b|^2 - 2 ab; twice the digits make up for the cancellation."""
    members, dimensions = samples.shape[-2:]
    cases = max(1, _PAIRS_AT_ONCE // members**2)
    sums = []
    for part in samples.reshape(-1, members, dimensions).split(cases):
        centred = (part - part.mean(-2, keepdim=True)).double()
        sums.append(torch.cdist(centred, centred, compute_mode="use_mm_for_euclid_dist").sum((-2, -1)) / 2)
    return torch.cat(sums).to(samples.dtype).reshape(samples.shape[:-2])


def _sum_and_gradient(samples: Tensor, weights: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The sum (...) and its gradient (..., M, D), a few cases, or a few members of one case, at a time."""
    members, dimensions = samples.shape[-2:]
    flat = samples.reshape(-1, members, dimensions).contiguous()
    count = None if weights is None else weights.reshape(-1, members)
    sums = flat.new_zeros(flat.shape[0])
    gradient = torch.empty_like(flat)
    cases = max(1, _PAIRS_AT_ONCE // members**2)
    rows = max(1, _PAIRS_AT_ONCE // (cases * members))
    for case in range(0, flat.shape[0], cases):
        some = flat[case : case + cases]
        for row in range(0, members, rows):
            part = some[:, row : row + rows].contiguous()
            distances = torch.cdist(part, some, compute_mode="donot_use_mm_for_euclid_dist")  # exact for near ties
            pairs = torch.ones_like(distances)
            if count is not None:
                of_case = count[case : case + cases]
                pairs = of_case[:, row : row + rows, None] * of_case[:, None, :]
            sums[case : case + cases] += (distances if count is None else distances * pairs).sum((-2, -1)) / 2
            gradient[case : case + cases, row : row + rows] = torch.ops.aten._cdist_backward(
                pairs, part, some, 2.0, distances
            )
    return sums.reshape(samples.shape[:-2]), gradient.reshape(samples.shape)


def _empty(samples: Tensor) -> tuple[Tensor, Tensor]:
    return samples.new_empty(samples.shape[:-2]), torch.empty_like(samples, memory_format=torch.contiguous_format)


_pair_distances = register_operator("pair_distances", "(Tensor samples) -> (Tensor, Tensor)", _sum_and_gradient, _empty)


def _split_sum_and_gradient(samples_and_weights: Tensor) -> tuple[Tensor, Tensor]:
    """The same of weighted members, whose weight stands behind their D values: (..., M, D + 1)."""
    return _sum_and_gradient(samples_and_weights[..., :-1], samples_and_weights[..., -1])


def _empty_of_split(samples_and_weights: Tensor) -> tuple[Tensor, Tensor]:
    return _empty(samples_and_weights[..., :-1])


_weighted_pair_distances = register_operator(
    "weighted_pair_distances",
    "(Tensor samples_and_weights) -> (Tensor, Tensor)",
    _split_sum_and_gradient,
    _empty_of_split,
)


Estimator = Literal["fair", "biased", "almost_fair", "across"]
"""How the distances between members are weighted; see `energy_score`."""


@runtime_checkable
class ScoringRule(Protocol):
    """A score of ensemble members once the outcome is known; lower is better."""

    def __call__(self, samples: Tensor, outcome: Tensor) -> Tensor:
        """The score of each case, (...).

        Args:
            samples: Members (..., M, D).
            outcome: Outcomes (..., D).
        """
        ...


def energy_score(
    samples: Tensor,
    outcome: Tensor,
    estimator: Estimator = "fair",
    alpha: float = 0.95,
    *,
    weights: Tensor | None = None,
) -> Tensor:
    """Energy score of each case, (...); for D = 1 the CRPS. Differentiable once in the members.

    ES = 1/M sum_m |y_m - y| - k sum_{m<j} |y_m - y_j|                                    (eq. energy_score)

    k = 1/(M (M - 1)) is the fair estimator, whose mean does not depend on M; k = 1/M^2 the biased one, the score of
    the empirical distribution; "almost_fair" mixes them, alpha fair + (1 - alpha) biased (Lang et al. 2024), so that no
    single member can diverge unpunished. They assume independent members. "across" is for structured members, two
    independent sets that alternate: its last term is half the mean distance between members of different sets. Its mean
    is that of "fair", however the members within a set depend on each other.

    Args:
        samples: Members (..., M, D).
        outcome: Outcomes (..., D).
        estimator: "fair", "biased", "almost_fair" or "across"; only "biased" takes a single member.
        alpha: Share of the fair estimator in "almost_fair", from 0 to 1; the others ignore it.
        weights: w_m, the weight of each member, (..., M), not negative; only ratios matter. The score is then that of
            the weighted distribution, sum_m w_m |y_m - y| - sum_{m<j} w_m w_j |y_m - y_j|, and the estimator must be
            "biased". None for equal weights.

    >>> import torch, stakes
    >>> members = torch.tensor([[0.0], [1.0], [2.0]])  # (M, D)
    >>> stakes.energy_score(members, torch.tensor([1.0]))
    tensor(0.)
    """
    return _energy_score(*prepared_pair(samples, outcome), estimator, alpha, weights)


def _energy_score(
    samples: Tensor, outcome: Tensor, estimator: Estimator, alpha: float, weights: Tensor | None
) -> Tensor:
    if estimator != "biased":
        refuse_weights(weights, estimator, "biased")
    weights = relative_weights(weights, samples)
    deviations = samples - outcome[..., None, :]
    accuracy = mean_of_members(_norm(deviations), weights, -1)
    if estimator == "across":
        return accuracy - _mean_distance_across(deviations) / 2
    return accuracy - _distance_weight(samples.shape[-2], estimator, alpha) * pair_distance_sum(deviations, weights)


class _MemberScore:
    """A scoring rule of members that may have weights."""

    def __call__(self, samples: Tensor, outcome: Tensor, *, weights: Tensor | None = None) -> Tensor:
        """The score of each case, (...).

        Args:
            samples: Members (..., M, D).
            outcome: Outcomes (..., D).
            weights: Weight of each member, (..., M), for the estimator "biased" only; None for equal weights.
        """
        return self._score(*prepared_pair(samples, outcome), weights)

    def _score(self, samples: Tensor, outcome: Tensor, weights: Tensor | None) -> Tensor:
        raise NotImplementedError


class _EstimatedScore(_MemberScore):
    """A scoring rule with the estimator of `energy_score`."""

    estimator: Estimator
    alpha: float

    def __post_init__(self) -> None:
        _require_estimator(self.estimator, self.alpha)


@dataclass(frozen=True)
class EnergyScore(_EstimatedScore):
    """`energy_score` with its settings, as a scoring rule.

    Attributes:
        estimator: "fair", "biased", "almost_fair" or "across", as in `energy_score`.
        alpha: Share of the fair estimator in "almost_fair", from 0 to 1.
    """

    estimator: Estimator = "fair"
    alpha: float = 0.95

    def _score(self, samples: Tensor, outcome: Tensor, weights: Tensor | None) -> Tensor:
        return _energy_score(samples, outcome, self.estimator, self.alpha, weights)


@dataclass(frozen=True)
class PointwiseCRPS(_EstimatedScore):
    """The mean of the CRPS of each outcome on its own, for models that draw point by point.

    S(F, y) = 1/D sum_d CRPS(F_d, y_d), with F_d the members' values at outcome d. It is proper, and strictly so for the
    marginal distributions, but blind to the dependence between outcomes. For D = 1 it is the energy score. The outcomes
    should have one scale, as standardised outcomes do.

    Attributes:
        estimator: "fair", "biased", "almost_fair" or "across", as in `energy_score`.
        alpha: Share of the fair estimator in "almost_fair", from 0 to 1.
    """

    estimator: Estimator = "fair"
    alpha: float = 0.95

    def _score(self, samples: Tensor, outcome: Tensor, weights: Tensor | None) -> Tensor:
        alone = samples.transpose(-1, -2)[..., None]  # (..., D, M, 1)
        each = None if weights is None else weights[..., None, :]  # (..., 1, M)
        return _energy_score(alone, outcome[..., None], self.estimator, self.alpha, each).mean(-1)


@dataclass(frozen=True)
class ThresholdWeightedCRPS(_EstimatedScore):
    """The CRPS beyond a threshold: members and outcome are first clipped to it.

    twCRPS(F, y) = CRPS(v(F), v(y)), v(z) = max(z, threshold) for side "above", min for "below". It is proper, so that
    it rewards skill in extremes without rewarding exaggeration. For D > 1 it is the energy score after clipping.

    Attributes:
        threshold: Where the extremes begin, in the outcome's unit.
        side: Whether they lie "above" the threshold or "below" it.
        estimator: "fair", "biased", "almost_fair" or "across", as in `energy_score`.
        alpha: Share of the fair estimator in "almost_fair", from 0 to 1.
    """

    threshold: float
    side: Literal["above", "below"] = "above"
    estimator: Estimator = "fair"
    alpha: float = 0.95

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of("side", self.side, ("above", "below"))
        require_finite("threshold", self.threshold)

    def _score(self, samples: Tensor, outcome: Tensor, weights: Tensor | None) -> Tensor:
        return _energy_score(self._beyond(samples), self._beyond(outcome), self.estimator, self.alpha, weights)

    def _beyond(self, values: Tensor) -> Tensor:
        return values.clamp(min=self.threshold) if self.side == "above" else values.clamp(max=self.threshold)


@dataclass(frozen=True)
class VariogramScore(_MemberScore):
    """VS = sum_{i,j} (|y_i - y_j|^p - 1/M sum_m |y_mi - y_mj|^p)^2 over pairs of sites (Scheuerer and Hamill 2015).

    It measures the dependence between sites, which the energy score hardly does, and nothing else. D >= 2.

    Attributes:
        power: p, the power of the differences between sites; positive.
    """

    power: float = 0.5

    def __post_init__(self) -> None:
        require_positive("power", self.power)

    def _score(self, samples: Tensor, outcome: Tensor, weights: Tensor | None) -> Tensor:
        if samples.shape[-1] < 2:
            raise ShapeError(f"the variogram score needs at least two sites, got samples {tuple(samples.shape)}")
        weights = relative_weights(weights, samples)
        forecast = self._mean_variogram(samples, None if weights is None else weights[..., None])  # (..., pairs)
        observed = self._mean_variogram(outcome[..., None, :], None)
        return 2 * ((observed - forecast) ** 2).sum(-1)

    def _mean_variogram(self, samples: Tensor, weights: Tensor | None) -> Tensor:
        """1/M sum_m |y_mi - y_mj|^p of every pair of sites, (..., M, D) to (..., D (D - 1) / 2)."""
        steps = range(1, samples.shape[-1])
        # Slices rather than indices: their gradient is as cheap, and sums in one order on every device.
        apart_by = (samples[..., step:] - samples[..., :-step] for step in steps)
        if not torch.is_grad_enabled():  # a few pairs at a time, in place
            return torch.cat([mean_of_members(each.abs_().pow_(self.power), weights, -2) for each in apart_by], -1)
        distance = torch.cat(list(apart_by), -1).abs()  # (..., M, pairs)
        apart = distance > 0  # the power's derivative at zero is infinite; tied sites get none
        powers = torch.where(apart, torch.where(apart, distance, 1.0) ** self.power, 0.0)
        return mean_of_members(powers, weights, -2)


@dataclass(frozen=True)
class TotalCRPS(_EstimatedScore):
    """The CRPS of the total that a decision depends on, `cost.total`, such as the power of all sites.

    It is proper and scores the whole distribution of the total, where the decision score only sees its best action. It
    ignores how the total is divided among the sites. Members and outcomes are in physical units.

    Attributes:
        cost: The cost whose `total(outcome)` is scored; it must have one.
        estimator: "fair", "biased", "almost_fair" or "across", as in `energy_score`.
        alpha: Share of the fair estimator in "almost_fair", from 0 to 1.
    """

    cost: Cost
    estimator: Estimator = "fair"
    alpha: float = 0.95

    def __post_init__(self) -> None:
        super().__post_init__()
        if total_of(self.cost) is None:
            name = type(self.cost).__name__
            raise SettingError(f"cost must have a total(outcome) for its CRPS, but {name} has none")

    def _score(self, samples: Tensor, outcome: Tensor, weights: Tensor | None) -> Tensor:
        total_of_cost = cast(Callable[[Tensor], Tensor], total_of(self.cost))
        totals, total = (total_of_cost(values)[..., None] for values in (samples, outcome))
        return energy_score(totals, total, self.estimator, self.alpha, weights=weights)


def _norm(deviations: Tensor) -> Tensor:
    """Euclidean norm over D with derivative zero at zero, (..., M, D) to (..., M)."""
    if deviations.shape[-1] == 1:
        return deviations.squeeze(-1).abs()
    return torch.linalg.vector_norm(deviations, dim=-1)


def _mean_distance_across(samples: Tensor) -> Tensor:
    """The mean distance between members at even and at odd places, (...)."""
    members = samples.shape[-2]
    if members == 1:
        raise ShapeError('the "across" energy score needs at least two members, got M = 1; "biased" takes one')
    even, odd = samples[..., 0::2, :], samples[..., 1::2, :]
    if samples.shape[-1] == 1:
        return (even - odd.mT).abs().mean((-2, -1))
    return torch.cdist(even, odd, compute_mode="donot_use_mm_for_euclid_dist").mean((-2, -1))


def _distance_weight(members: int, estimator: Estimator, alpha: float) -> float:
    """k, what the sum of the distances between members is multiplied by."""
    _require_estimator(estimator, alpha)
    biased = 1 / members**2
    if estimator == "biased":
        return biased
    if members == 1:
        raise ShapeError(f'the "{estimator}" energy score needs at least two members, got M = 1; "biased" takes one')
    fair = 1 / (members * (members - 1))
    return fair if estimator == "fair" else alpha * fair + (1 - alpha) * biased


def _require_estimator(estimator: str, alpha: float) -> None:
    require_one_of("estimator", estimator, get_args(Estimator))
    if not 0 <= alpha <= 1:
        raise SettingError(f"alpha must lie between 0 and 1, got {alpha}")


ScoreName = Literal["energy", "pointwise", "total"]
"""What a score is called in settings: `EnergyScore`, `PointwiseCRPS`, `TotalCRPS` of the cost."""

_CLIMATOLOGY_MEMBERS = 32  # outcomes of other cases that make a forecast by climatology


@dataclass(frozen=True)
class ScoreMixture:
    """S = sum_k w_k S_k / s_k / sum_k w_k: several scoring rules as one.

    It is proper if every part is, and strictly proper if one of them is (the Lemma). With the scales of `standardised`
    each part is 1 for a climatological forecast, whatever its unit, so that the weights are comparable.

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
            raise SettingError("parts must not be empty, with as many weights and scales as parts")
        for weight in self.weights:
            require_positive("weights", weight)
        for scale in self.scales or ():
            require_positive("scales", scale)

    def __call__(self, samples: Tensor, outcome: Tensor, *, weights: Tensor | None = None) -> Tensor:
        """The score of each case, (...), every part on the same members.

        Args:
            samples: Members (..., M, D) in physical units.
            outcome: Outcomes (..., D).
            weights: Weight of each member, (..., M), if every part takes weights; None for equal weights.
        """
        samples, outcome = prepared_pair(samples, outcome)
        if weights is None:
            return self.of_draw(TrainingDraw.from_samples(samples, outcome))
        parts = [cast(Callable[..., Tensor], part) for part in self.parts]
        return self._mixed([part(samples, outcome, weights=weights) for part in parts])

    def of_draw(self, draw: TrainingDraw) -> Tensor:
        """The score of each case, (...), every part on its own members; see `score_of_draw`.

        Args:
            draw: The draw of a model in one training step.
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
        """The mean of each part for a climatological forecast, outcomes of other cases as members, (..., parts).

        Args:
            draw: A draw of cases (..., N); only its outcomes and the weight of the decision term are used.
        """
        climatology = draw._replace(
            score_members=_other_outcomes(draw.score_outcome), decision_members=_other_outcomes(draw.decision_outcome)
        )
        scales = torch.stack([score_of_draw(part, climatology).mean(-1) for part in self.parts], -1)
        for place, part in enumerate(self.parts):
            own = scales[..., place]
            if not bool(((own > 0) & torch.isfinite(own)).all()):
                name, came = type(part).__name__, shown_numbers(own)
                raise SettingError(f"the {name} of climatology must be positive, as it is the scale, got {came}")
        return scales


def score_of_draw(score: ScoringRule, draw: TrainingDraw) -> Tensor:
    """The score of each case of a training draw, (...).

    A rule gets the members in the space that the model predicts in, but `TotalCRPS` as many of those in physical units,
    and its term is weighted like the decision's.
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
        raise ShapeError(f"climatology needs the outcomes of at least three cases, got {cases}")
    count = min(_CLIMATOLOGY_MEMBERS, cases - 1)
    steps = [1 + place * (cases - 1) // count for place in range(count)]
    return torch.stack([outcome.roll(step, -2) for step in steps], -2)
