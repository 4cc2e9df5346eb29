"""What a recalibrator has learned: all of it as one frozen dataclass, which corrects forecasts and is saved as JSON."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stakes.data.given_forecasts import GivenForecasts
from stakes.data.outcome_bounds import Pair
from stakes.errors import SettingError, ShapeError
from stakes.evaluation.error_model import ErrorModel, quantile_levels
from stakes.evaluation.forecast_terms import ForecastTerms
from stakes.evaluation.ladder import GIVEN_RUNGS
from stakes.evaluation.member_order import reordered, reordered_as_members
from stakes.method.argument_checks import require_one_of
from stakes.settings import JsonText

__all__ = ["CorrectedMembers", "ForecastForm", "RecalibratorState", "form_of"]

ForecastForm = Literal["members", "quantiles", "points"]
"""In which form a forecast came: members that count alike, weighted ones made of quantiles, or single numbers."""

Floats = NDArray[np.float64]

_EQUAL_MEMBERS = 100  # that stand for weighted ones where nothing else will do


class CorrectedMembers(NamedTuple):
    """Members that decisions are made from.

    Attributes:
        members: Members (N, K, D).
        weights: What each of them weighs, (K,); None where all count alike.
    """

    members: Floats
    weights: Floats | None

    @property
    def equal_members(self) -> Floats:
        """Members (N, K, D) that count alike: 100 equally likely ones where they are weighted."""
        if self.weights is None:
            return self.members
        share = np.cumsum(self.weights) / self.weights.sum()
        chosen = np.searchsorted(share, quantile_levels(_EQUAL_MEMBERS))
        return np.sort(self.members, 1)[:, chosen]


@dataclass(frozen=True)
class RecalibratorState(JsonText):
    """A correction by past errors, ready for new forecasts.

    Attributes:
        rung: The rung of the ladder it is, one of `stakes.evaluation.ladder.GIVEN_RUNGS`.
        form: In which form the forecasts come.
        targets: The names of the D outcomes.
        bounds: What each outcome cannot cross; members beyond are drawn to it.
        cases: From how many past cases it was learned.
        terms: What errors may depend on.
        models: The correction of each outcome; none where members stay as they came.
        order: The ranks (K, D) of past error vectors, by which members of several outcomes are put together; None
            leaves them together as they came.
        half_life: After how many days a case counts half; None where all count alike.
        decision_weight: How much the decision counted in the fit.
    """

    rung: str
    form: ForecastForm
    targets: tuple[str, ...]
    bounds: tuple[Pair, ...]
    cases: int
    terms: ForecastTerms
    models: tuple[ErrorModel, ...] = ()
    order: tuple[tuple[int, ...], ...] | None = None
    half_life: float | None = None
    decision_weight: float = 0.0

    def __post_init__(self) -> None:
        require_one_of("rung", self.rung, GIVEN_RUNGS)
        widths = {"bounds": len(self.bounds), "order": len(self.order[0]) if self.order else len(self.targets)}
        if self.models:
            widths["models"] = len(self.models)
        for name, width in widths.items():
            if width != len(self.targets):
                raise ShapeError(f"{name} must be of the {len(self.targets)} outcomes, got {width}")

    def apply(self, given: GivenForecasts) -> CorrectedMembers:
        """The corrected members of new forecasts.

        Args:
            given: The forecasts, in the form of the fit; their outcomes, if any, are not looked at.
        """
        self._check(given)
        if not self.models:
            return CorrectedMembers(_within(given.members, self.bounds), given.weights)
        quantiles = np.stack(
            [model.quantiles(given, place, self.terms) for place, model in enumerate(self.models)], axis=-1
        )
        return CorrectedMembers(self.together(quantiles, given), None)

    def together(self, quantiles: Floats, given: GivenForecasts) -> Floats:
        """Quantiles (N, K, D) of each outcome put together as members of all of them.

        Args:
            quantiles: The quantiles, ascending along K.
            given: The forecasts they are of.
        """
        if len(self.targets) == 1:
            return quantiles
        if self.order is not None:
            return reordered(quantiles, np.array(self.order))
        return reordered_as_members(quantiles, given.members)

    def _check(self, given: GivenForecasts) -> None:
        if given.members.shape[2] != len(self.targets):
            raise ShapeError(f"members must be of {len(self.targets)} outcomes, got {given.members.shape[2]}")
        if form_of(given) != self.form:
            raise SettingError(f"the forecasts must come as {self.form}, as in the fit, got {form_of(given)}")
        if self.models and self.order is None and len(self.targets) > 1:
            count, members = len(self.models[0].shape), given.members.shape[1]
            if count % members:
                raise ShapeError(
                    f"members must be as many as in the fit, or divide {count}, since they say how outcomes go "
                    f"together, got {members}"
                )


def form_of(given: GivenForecasts) -> ForecastForm:
    """In which form forecasts came.

    Args:
        given: The forecasts.
    """
    if given.weights is not None:
        return "quantiles"
    return "points" if given.is_point else "members"


def _within(members: Floats, bounds: tuple[Pair, ...]) -> Floats:
    ends = ((low if low is not None else -np.inf, high if high is not None else np.inf) for low, high in bounds)
    lower, upper = zip(*ends, strict=True)
    return np.clip(members, lower, upper)
