"""Scoring rules: what a forecast of members is worth once the outcome is known; lower is better.

Every rule maps samples (..., M, D) and outcome (..., D) to scores (...), each differentiable in the members.
"""

from dataclasses import dataclass
from typing import Literal, Protocol, get_args, runtime_checkable

import torch
from torch import Tensor

from stakes.errors import SettingError, ShapeError
from stakes.method.argument_checks import (
    prepared_pair,
    require_finite,
    require_one_of,
    require_positive,
)
from stakes.method.costs import TotalCost
from stakes.method.member_weights import mean_of_members, refuse_weights, relative_weights
from stakes.method.pair_distances import pair_distance_sum

__all__ = [
    "EnergyScore",
    "Estimator",
    "PointwiseCRPS",
    "ScoringRule",
    "ThresholdWeightedCRPS",
    "TotalCRPS",
    "VariogramScore",
    "energy_score",
]

Estimator = Literal["fair", "biased", "almost_fair"]
"""How the distances between members are weighted; see `energy_score`."""


@runtime_checkable
class ScoringRule(Protocol):
    """What a forecast of members is worth once the outcome is known; lower is better."""

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
    the empirical distribution; "almost_fair" mixes them, alpha fair + (1 - alpha) biased (Lang et al. 2024), so that
    no member can run away while the others hold.

    Args:
        samples: Members (..., M, D).
        outcome: Outcomes (..., D).
        estimator: "fair", "biased" or "almost_fair", which sets k; only "biased" takes a single member.
        alpha: Share of the fair estimator in "almost_fair", from 0 to 1; the others ignore it.
        weights: w_m, what each member weighs, (..., M), not negative; only ratios matter. The score is then that of
            the weighted distribution, sum_m w_m |y_m - y| - sum_{m<j} w_m w_j |y_m - y_j|, and the estimator must be
            "biased". None where all count alike.

    >>> import torch, stakes
    >>> members = torch.tensor([[0.0], [1.0], [2.0]])  # (M, D)
    >>> stakes.energy_score(members, torch.tensor([1.0]))
    tensor(0.)
    """
    samples, outcome = prepared_pair(samples, outcome)
    if estimator != "biased":
        refuse_weights(weights, estimator, "biased")
    weights = relative_weights(weights, samples)
    deviations = samples - outcome[..., None, :]
    accuracy = mean_of_members(_norm(deviations), weights, -1)
    return accuracy - _distance_weight(samples.shape[-2], estimator, alpha) * pair_distance_sum(deviations, weights)


@dataclass(frozen=True)
class EnergyScore:
    """`energy_score` with its settings, as a scoring rule.

    Attributes:
        estimator: "fair", "biased" or "almost_fair", as in `energy_score`.
        alpha: Share of the fair estimator in "almost_fair", from 0 to 1.
    """

    estimator: Estimator = "fair"
    alpha: float = 0.95

    def __post_init__(self) -> None:
        _require_estimator(self.estimator, self.alpha)

    def __call__(self, samples: Tensor, outcome: Tensor, *, weights: Tensor | None = None) -> Tensor:
        """The score of each case, (...).

        Args:
            samples: Members (..., M, D).
            outcome: Outcomes (..., D).
            weights: What each member weighs, (..., M), for the estimator "biased" only; None where all count alike.
        """
        return energy_score(samples, outcome, self.estimator, self.alpha, weights=weights)


@dataclass(frozen=True)
class PointwiseCRPS:
    """The mean of the outcomes' own CRPS, each by itself: what models are trained with that draw point by point.

    S(F, y) = 1/D sum_d CRPS(F_d, y_d), with F_d the members' values at outcome d. It is proper, and strictly so for the
    distribution of each outcome; how outcomes move together it does not see: members of an outcome may change places.
    For D = 1 it is the energy score. The outcomes should be of one scale, as those that a model standardises are.

    Attributes:
        estimator: "fair", "biased" or "almost_fair", as in `energy_score`.
        alpha: Share of the fair estimator in "almost_fair", from 0 to 1.
    """

    estimator: Estimator = "fair"
    alpha: float = 0.95

    def __post_init__(self) -> None:
        _require_estimator(self.estimator, self.alpha)

    def __call__(self, samples: Tensor, outcome: Tensor, *, weights: Tensor | None = None) -> Tensor:
        """The score of each case, (...).

        Args:
            samples: Members (..., M, D).
            outcome: Outcomes (..., D).
            weights: What each member weighs, (..., M), for the estimator "biased" only; None where all count alike.
        """
        samples, outcome = prepared_pair(samples, outcome)
        alone = samples.transpose(-1, -2)[..., None]  # (..., D, M, 1)
        each = None if weights is None else weights[..., None, :]  # (..., 1, M)
        return energy_score(alone, outcome[..., None], self.estimator, self.alpha, weights=each).mean(-1)


@dataclass(frozen=True)
class ThresholdWeightedCRPS:
    """The CRPS of what lies beyond a threshold: members and outcome are first moved up (or down) to it.

    twCRPS(F, y) = CRPS(v(F), v(y)), v(z) = max(z, threshold) for side "above", min for "below". It is proper, so it
    can reward skill in extremes without rewarding exaggeration. For D > 1 it is the energy score after v has moved
    every site.

    Attributes:
        threshold: Where the extremes begin, in the outcome's unit.
        side: Whether they lie "above" the threshold or "below" it.
        estimator: "fair", "biased" or "almost_fair", as in `energy_score`.
        alpha: Share of the fair estimator in "almost_fair", from 0 to 1.
    """

    threshold: float
    side: Literal["above", "below"] = "above"
    estimator: Estimator = "fair"
    alpha: float = 0.95

    def __post_init__(self) -> None:
        _require_estimator(self.estimator, self.alpha)
        require_one_of("side", self.side, ("above", "below"))
        require_finite("threshold", self.threshold)

    def __call__(self, samples: Tensor, outcome: Tensor, *, weights: Tensor | None = None) -> Tensor:
        """The score of each case, (...).

        Args:
            samples: Members (..., M, D).
            outcome: Outcomes (..., D).
            weights: What each member weighs, (..., M), for the estimator "biased" only; None where all count alike.
        """
        samples, outcome = prepared_pair(samples, outcome)
        beyond = self._beyond(samples), self._beyond(outcome)
        return energy_score(*beyond, self.estimator, self.alpha, weights=weights)

    def _beyond(self, values: Tensor) -> Tensor:
        return values.clamp(min=self.threshold) if self.side == "above" else values.clamp(max=self.threshold)


@dataclass(frozen=True)
class VariogramScore:
    """VS = sum_{i,j} (|y_i - y_j|^p - 1/M sum_m |y_mi - y_mj|^p)^2 over pairs of sites (Scheuerer and Hamill 2015).

    It sees the dependence between sites, which the energy score hardly does, and nothing else. D >= 2.

    Attributes:
        power: p, the power of the differences between sites; positive.
    """

    power: float = 0.5

    def __post_init__(self) -> None:
        require_positive("power", self.power)

    def __call__(self, samples: Tensor, outcome: Tensor, *, weights: Tensor | None = None) -> Tensor:
        """The score of each case, (...).

        Args:
            samples: Members (..., M, D).
            outcome: Outcomes (..., D).
            weights: What each member weighs, (..., M); None where all count alike.
        """
        samples, outcome = prepared_pair(samples, outcome)
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
class TotalCRPS:
    """The CRPS of what a decision is about, `cost.total`: the power or the need of all sites as one number.

    It is proper and asks for the whole distribution of the total, the decision score only for its best action. It says
    nothing about how the total is divided among the sites. Members and outcomes are in physical units, those of the
    cost.

    Attributes:
        cost: The cost whose `total(outcome)` is scored; one that has none is refused.
        estimator: "fair", "biased" or "almost_fair", as in `energy_score`.
        alpha: Share of the fair estimator in "almost_fair", from 0 to 1.
    """

    cost: TotalCost
    estimator: Estimator = "fair"
    alpha: float = 0.95

    def __post_init__(self) -> None:
        _require_estimator(self.estimator, self.alpha)
        if not isinstance(self.cost, TotalCost):
            name = type(self.cost).__name__
            raise SettingError(
                f"cost must decide on one number, its total(outcome), for the CRPS of it; {name} has none"
            )

    def __call__(self, samples: Tensor, outcome: Tensor, *, weights: Tensor | None = None) -> Tensor:
        """The score of each case, (...).

        Args:
            samples: Members (..., M, D) in physical units.
            outcome: Outcomes (..., D).
            weights: What each member weighs, (..., M), for the estimator "biased" only; None where all count alike.
        """
        samples, outcome = prepared_pair(samples, outcome)
        totals, total = (self.cost.total(values)[..., None] for values in (samples, outcome))
        return energy_score(totals, total, self.estimator, self.alpha, weights=weights)


def _norm(deviations: Tensor) -> Tensor:
    """Euclidean norm over D with derivative zero at zero, (..., M, D) to (..., M)."""
    if deviations.shape[-1] == 1:
        return deviations.squeeze(-1).abs()
    return torch.linalg.vector_norm(deviations, dim=-1)


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
