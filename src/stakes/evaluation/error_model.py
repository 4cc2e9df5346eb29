"""What past errors say about one outcome of a forecast: where it lies, how sure one can be, and in which shape.

The members are replaced by quantiles of location + scale * shape. Location and log scale are those of the members plus
a sum of terms (`stakes.evaluation.location_scale`). The shape is that of the normal or the logistic distribution, or of
past standardised errors. Outcomes that pile up at a lower bound, as rain does at 0, may be modelled by their roots.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stakes.data.given_forecasts import GivenForecasts
from stakes.data.outcome_bounds import Pair
from stakes.errors import ShapeError
from stakes.evaluation.forecast_terms import TERM_LEVELS, ForecastNumbers, ForecastTerms
from stakes.evaluation.location_scale import Family

__all__ = ["ErrorModel", "mean_and_spread", "quantile_levels"]

Floats = NDArray[np.float64]

_LEAST_MEMBERS = 5  # for quantiles of them


def quantile_levels(count: int) -> Floats:
    """The levels (K,) of so many quantiles that count alike as members, (k - 1/2) / K.

    Args:
        count: K.
    """
    return (np.arange(count) + 0.5) / count


def mean_and_spread(members: Floats, weights: Floats | None) -> tuple[Floats, Floats]:
    """The mean and the standard deviation of each case, (N,) each.

    Args:
        members: Members (N, M) of one outcome.
        weights: What each of them weighs, (M,); None where all count alike.
    """
    mean = np.average(members, 1, weights)
    return mean, np.sqrt(np.average((members - mean[:, None]) ** 2, 1, weights))


@dataclass(frozen=True)
class ErrorModel:
    """The correction of one outcome, small enough to be looked at.

    Attributes:
        family: The distribution that location and scale were learned with.
        power: 1, or 0.5 where the roots of outcomes above the lower bound were modelled.
        bounds: What the outcome cannot cross.
        centre: The mean of past forecasts, in the unit that was modelled.
        unit: The size of past errors, in that unit.
        least_spread: What is added to the members' variance, as a spread.
        location: By how much each term moves the location, in units of `unit`.
        log_scale: By how much each term moves the logarithm of the scale.
        log_scale_range: The log scales that were seen, and a little more: none lies outside.
        shape: Quantiles of the standardised errors, (K,), as members.
        pull: How strongly further terms were drawn to 0, in cases.
        by_errors: Whether the shape is that of past errors; otherwise it is that of the family.
        chosen_from: From how many cases family, power, pull and shape were chosen; 0 where they were too few.
    """

    family: Family
    power: float
    bounds: Pair
    centre: float
    unit: float
    least_spread: float
    location: dict[str, float]
    log_scale: dict[str, float]
    log_scale_range: tuple[float, float]
    shape: tuple[float, ...]
    pull: float = 0.0
    by_errors: bool = False
    chosen_from: int = 0

    def quantiles(self, given: GivenForecasts, outcome: int, terms: ForecastTerms) -> Floats:
        """The quantiles (N, K) of cases, as members that count alike.

        Args:
            given: The cases.
            outcome: Which outcome it is.
            terms: The terms of the fit.
        """
        location, log_scale = self.location_and_log_scale(given, outcome, terms)
        return np.asarray(self.in_outcome_unit(location[:, None] + np.exp(log_scale)[:, None] * np.array(self.shape)))

    def location_and_log_scale(
        self, given: GivenForecasts, outcome: int, terms: ForecastTerms
    ) -> tuple[Floats, Floats]:
        """Where each case lies and the logarithm of its scale, (N,) each, in the unit that was modelled.

        Args:
            given: The cases.
            outcome: Which outcome it is.
            terms: The terms of the fit.
        """
        mean, log_spread = self.mean_and_log_spread(given, outcome)
        values = self.term_values(given, outcome, terms)
        location, log_scale = (
            sum((each[name] * column for name, column in values.items()), np.zeros(len(given)))  # in one order
            for each in (self.location, self.log_scale)
        )
        return mean + self.unit * location, (log_spread + log_scale).clip(*self.log_scale_range)

    def standardised_errors(self, past: GivenForecasts, outcome: int, terms: ForecastTerms) -> Floats:
        """The errors (N,) of past cases in units of their scale.

        Args:
            past: The cases, with outcomes.
            outcome: Which outcome it is.
            terms: The terms of the fit.
        """
        assert past.outcomes is not None
        location, log_scale = self.location_and_log_scale(past, outcome, terms)
        return (self.modelled(past.outcomes[:, outcome]) - location) / np.exp(log_scale)

    def mean_and_log_spread(self, given: GivenForecasts, outcome: int) -> tuple[Floats, Floats]:
        """The mean of the members and the logarithm of their spread, (N,) each, in the unit that is modelled.

        Args:
            given: The cases.
            outcome: Which outcome it is.
        """
        mean, spread = mean_and_spread(self.modelled(given.members[..., outcome]), given.weights)
        return mean, np.asarray(np.log(np.hypot(spread, self.least_spread)))

    def term_values(self, given: GivenForecasts, outcome: int, terms: ForecastTerms) -> dict[str, Floats]:
        """Each term of all cases, (N,), by its name.

        Args:
            given: The cases.
            outcome: Which outcome it is.
            terms: The terms of the fit.
        """
        mean, log_spread = self.mean_and_log_spread(given, outcome)
        numbers = ForecastNumbers((mean - self.centre) / self.unit, log_spread - np.log(self.unit))
        if terms.numbers and given.members.shape[2] > 1:
            numbers = numbers._replace(total=given.members.mean((1, 2)))
        if terms.numbers and terms.spread:
            members = self.modelled(given.members[..., outcome])
            if terms.members not in (0, members.shape[1]):
                raise ShapeError(f"members must be the {terms.members} of the fit, got {members.shape[1]}")
            bounds = [bound for bound in self.modelled_bounds if np.isfinite(bound)]
            numbers = numbers._replace(
                quantiles=_quantiles(members, mean, given.weights, self.unit),
                at_bound=np.average(np.isin(members, bounds), 1, given.weights) if bounds else None,
                members=(members - mean[:, None]) / self.unit if terms.members else None,
            )
        return terms.values(given, numbers)

    @property
    def modelled_bounds(self) -> tuple[float, float]:
        """What the outcome cannot cross, in the unit that is modelled; infinite for no such bound."""
        low, high = (end if bound is None else bound for bound, end in zip(self.bounds, (-np.inf, np.inf), strict=True))
        return (low, high) if self.power == 1 else (0.0, (high - low) ** self.power)

    def modelled(self, values: Floats) -> Floats:
        """Values drawn to the bounds, or the roots of what lies above the lower one.

        Args:
            values: Members or outcomes.
        """
        drawn = values if self.bounds == (None, None) else np.clip(values, *self.bounds)
        return drawn if self.power == 1 else np.asarray((drawn - (self.bounds[0] or 0.0)) ** self.power)

    def in_outcome_unit(self, modelled: Any) -> Any:
        """Values in the unit of the outcome, within its bounds: the way back.

        Args:
            modelled: Values in the unit that is modelled, an array or a tensor.
        """
        drawn = modelled.clip(*self.modelled_bounds)
        return drawn if self.power == 1 else (self.bounds[0] or 0.0) + drawn ** (1 / self.power)


def _quantiles(members: Floats, mean: Floats, weights: Floats | None, unit: float) -> Floats | None:
    """Quantiles of members (N, M) less their mean, (N, Q), in units of errors; None where there are too few."""
    if members.shape[1] < _LEAST_MEMBERS:
        return None
    if weights is None:
        quantiles = np.quantile(members, TERM_LEVELS, axis=1, method="hazen")
    else:
        shares = np.broadcast_to(weights, members.shape)
        quantiles = np.quantile(members, TERM_LEVELS, axis=1, method="inverted_cdf", weights=shares)
    return np.asarray((quantiles - mean).T / unit)
