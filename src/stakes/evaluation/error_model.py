"""What past errors say about one outcome of a forecast: where it lies, how sure one can be, and in which shape.

The members are replaced by quantiles of location + scale * shape. Location and log scale are those of the members plus
a sum of terms, by the least CRPS (`stakes.evaluation.location_scale`). The shape is that of the normal or the logistic
distribution, or of past standardised errors. Outcomes that pile up at a lower bound, as rain does at 0, may be modelled
by their roots. What is taken of all that, and how strongly terms are drawn to 0, is told by the last cases of the past.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from stakes.data.given_forecasts import GivenForecasts
from stakes.data.outcome_bounds import Pair
from stakes.evaluation.forecast_terms import FORECAST_TERMS, TERM_LEVELS, ForecastNumbers, ForecastTerms
from stakes.evaluation.location_scale import Family, LocationScaleCases, family_quantiles, fit_coefficients
from stakes.evaluation.shift_and_factor import LEAST_CASES

__all__ = ["ErrorModel", "quantile_levels"]

Floats = NDArray[np.float64]

_PULLS = (10.0, 1.0, 100.0)  # cases' worth, by which further terms are drawn to 0
_OWN_PULL = 1.0  # by which the slopes of mean and spread are drawn to those of the forecast
_LEAST_SPREAD = 0.1  # of the mean one
_MOST_AT_BOUND = 0.05  # of the outcomes, or errors have no shape that could be seen
_MOST_CASES = 5000  # to learn from
_CHOOSING_SHARE = 4  # the last one of so many parts chooses
_LEAST_MEMBERS = 5  # for quantiles of them
_BEYOND = 0.5  # of the log scales seen


def quantile_levels(count: int) -> Floats:
    """The levels (K,) of so many quantiles that count alike as members, (k - 1/2) / K.

    Args:
        count: K.
    """
    return (np.arange(count) + 0.5) / count


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

    @classmethod
    def fit(
        cls, past: GivenForecasts, outcome: int, terms: ForecastTerms, bounds: Pair, count: int, weight: Floats
    ) -> Self:
        """Learn from past cases.

        Args:
            past: At least 50 of them, with outcomes, in order.
            outcome: Which outcome it is.
            terms: What its errors may depend on.
            bounds: What it cannot cross.
            count: K, how many quantiles are wanted.
            weight: How much each case counts, (N,).
        """
        weight = weight / weight.mean()
        if len(past) > _MOST_CASES:
            kept = np.sort(np.random.default_rng(0).choice(len(past), _MOST_CASES, replace=False))
            past, weight = past.rows(kept), weight[kept]
        problem = _Problem(past, outcome, terms, bounds, weight)
        choice = problem.choice() if len(past) >= 2 * LEAST_CASES else _Choice("normal", 1.0, _PULLS[0], False)
        model, errors = cls._learned(problem, choice)
        return model._shaped(choice, errors, weight, count)

    @classmethod
    def _learned(cls, problem: "_Problem", choice: "_Choice") -> tuple[Self, Floats]:
        """The model without its shape, and its standardised errors (N,)."""
        past, power = problem.past, choice.power
        members, seen = _modelled(past.members[..., problem.outcome], power, problem.bounds), problem.seen(power)
        mean, spread = _mean_and_spread(members, past.weights)
        errors = seen - mean
        unit = float(np.abs(errors - np.median(errors)).mean()) or 1.0
        least = _LEAST_SPREAD * float(spread.mean()) or unit
        start = cls(
            choice.family, power, problem.bounds, float(mean.mean()), unit, least, {}, {}, (-np.inf, np.inf), ()
        )
        values = problem.terms.values(past, start._numbers(members, past.weights, problem.terms))
        names, columns = list(values), np.stack(list(values.values()), 1)
        own = np.array([name in FORECAST_TERMS for name in names])
        middle = np.where(np.arange(len(names)) > 0, columns.mean(0), 0.0)
        size = np.where(np.arange(len(names)) > 0, columns.std(0), 1.0)
        columns = (columns - middle) / np.where(size > 1e-9, size, np.inf)  # what never changes tells nothing
        low, high = start._modelled_bounds
        cases = LocationScaleCases(
            seen, mean, start._log_spread(spread), columns, columns, problem.weight, unit, low, high
        )
        pull = np.where(own, _OWN_PULL, choice.pull) * (np.arange(len(names)) > 0)
        found = fit_coefficients(cases, choice.family, pull, pull).reshape(2, -1)
        found = found / np.where(size > 1e-9, size, np.inf)
        found[:, 0] -= (found * middle).sum(1)
        location, log_scale = (dict(zip(names, each.tolist(), strict=True)) for each in found)
        model = replace(start, location=location, log_scale=log_scale)
        centre, logs = model._centre_and_log_scale(past, problem.outcome, problem.terms)
        within = (float(logs.min()) - _BEYOND, float(logs.max()) + _BEYOND)
        return replace(model, log_scale_range=within), (seen - centre) / np.exp(logs)

    def _shaped(self, choice: "_Choice", errors: Floats, weight: Floats, count: int) -> Self:
        levels = quantile_levels(count)
        if choice.by_errors:
            order = np.argsort(errors, kind="stable")
            share = np.cumsum(weight[order])
            shape = np.interp(levels, (share - weight[order] / 2) / share[-1], errors[order])
        else:
            shape = family_quantiles(self.family, levels)
        return replace(self, shape=tuple(shape.tolist()))

    def quantiles(self, given: GivenForecasts, outcome: int, terms: ForecastTerms) -> Floats:
        """The quantiles (N, K) of new cases, as members that count alike.

        Args:
            given: The cases.
            outcome: Which outcome it is.
            terms: The terms of the fit.
        """
        location, log_scale = self._centre_and_log_scale(given, outcome, terms)
        return self.placed(location, log_scale)

    def placed(self, location: Floats, log_scale: Floats) -> Floats:
        """The quantiles (N, K) about a location, in the unit that was modelled.

        Args:
            location: Where they lie, (N,).
            log_scale: The logarithm of their scale, (N,).
        """
        modelled = location[:, None] + np.exp(log_scale)[:, None] * np.array(self.shape)
        modelled = modelled.clip(*self._modelled_bounds)
        if self.power == 1:
            return modelled
        return np.asarray((self.bounds[0] or 0.0) + modelled ** (1 / self.power))

    def standardised_errors(self, past: GivenForecasts, outcome: int, terms: ForecastTerms) -> Floats:
        """The errors (N,) of past cases in units of their scale.

        Args:
            past: The cases, with outcomes.
            outcome: Which outcome it is.
            terms: The terms of the fit.
        """
        assert past.outcomes is not None
        location, log_scale = self._centre_and_log_scale(past, outcome, terms)
        return (_modelled(past.outcomes[:, outcome], self.power, self.bounds) - location) / np.exp(log_scale)

    @property
    def _modelled_bounds(self) -> tuple[float, float]:
        low, high = (end if bound is None else bound for bound, end in zip(self.bounds, (-np.inf, np.inf), strict=True))
        return (low, high) if self.power == 1 else (0.0, (high - low) ** self.power)

    def _centre_and_log_scale(self, given: GivenForecasts, outcome: int, terms: ForecastTerms) -> tuple[Floats, Floats]:
        members = _modelled(given.members[..., outcome], self.power, self.bounds)
        mean, spread = _mean_and_spread(members, given.weights)
        values = terms.values(given, self._numbers(members, given.weights, terms))
        location, log_scale = (
            sum((each[name] * column for name, column in values.items()), np.zeros(len(given)))  # in one order
            for each in (self.location, self.log_scale)
        )
        return mean + self.unit * location, (self._log_spread(spread) + log_scale).clip(*self.log_scale_range)

    def _numbers(self, members: Floats, weights: Floats | None, terms: ForecastTerms) -> ForecastNumbers:
        mean, spread = _mean_and_spread(members, weights)
        numbers = ForecastNumbers((mean - self.centre) / self.unit, self._log_spread(spread) - np.log(self.unit))
        if not terms.numbers:
            return numbers
        bounds = [bound for bound in self._modelled_bounds if np.isfinite(bound)]
        at_bound = np.average(np.isin(members, bounds), 1, weights) if bounds and terms.spread else None
        return numbers._replace(at_bound=at_bound, quantiles=_quantiles(members, mean, weights, self.unit))

    def _log_spread(self, spread: Floats) -> Floats:
        return np.asarray(np.log(np.hypot(spread, self.least_spread)))


class _Choice(NamedTuple):
    """What is modelled, and how."""

    family: Family
    power: float
    pull: float
    by_errors: bool


class _Problem(NamedTuple):
    """Past cases of one outcome."""

    past: GivenForecasts
    outcome: int
    terms: ForecastTerms
    bounds: Pair
    weight: Floats

    def seen(self, power: float) -> Floats:
        """The outcomes (N,), in the unit that is modelled."""
        assert self.past.outcomes is not None
        return _modelled(self.past.outcomes[:, self.outcome], power, self.bounds)

    def choice(self) -> _Choice:
        """What is best on the last cases, learned from those before them."""
        split = len(self.past) - len(self.past) // _CHOOSING_SHARE
        early, late = (
            self._replace(past=self.past.rows(rows), weight=self.weight[rows])
            for rows in (slice(split), slice(split, None))
        )
        families: tuple[Family, ...] = ("normal", "logistic")
        powers = (1.0, 0.5) if self._piles_up else (1.0,)
        found = {}
        for choice in [_Choice(family, power, _PULLS[0], False) for power in powers for family in families]:
            found[choice] = late._crps(*ErrorModel._learned(early, choice), choice, early.weight)
        best = min(found, key=found.__getitem__)
        for choice in [best._replace(pull=pull) for pull in _PULLS[1:]]:
            found[choice] = late._crps(*ErrorModel._learned(early, choice), choice, early.weight)
        best = min(found, key=found.__getitem__)
        if not self._at_bound:
            choice = best._replace(by_errors=True)
            found[choice] = late._crps(*ErrorModel._learned(early, choice), choice, early.weight)
        return min(found, key=found.__getitem__)

    def _crps(self, model: ErrorModel, errors: Floats, choice: _Choice, weight: Floats) -> float:
        """The mean CRPS of these cases, in the outcome's unit."""
        shaped = model._shaped(choice, errors, weight, 50)
        members, seen = shaped.quantiles(self.past, self.outcome, self.terms), self.seen(1.0)[:, None]
        pinball = ((seen < members) - quantile_levels(50)) * (members - seen)
        return float(2 * self.weight @ pinball.mean(1) / self.weight.sum())

    @property
    def _share_at_bounds(self) -> tuple[float, float]:
        seen = self.seen(1.0)
        low, high = (0.0 if bound is None else float((seen == bound).mean()) for bound in self.bounds)
        return low, high

    @property
    def _piles_up(self) -> bool:
        return self._share_at_bounds[0] > _MOST_AT_BOUND

    @property
    def _at_bound(self) -> bool:
        return sum(self._share_at_bounds) > _MOST_AT_BOUND


def _modelled(values: Floats, power: float, bounds: Pair) -> Floats:
    """Values as they are, drawn to the bounds, or the roots of what lies above the lower one."""
    drawn = np.clip(values, *bounds) if bounds != (None, None) else values
    return drawn if power == 1 else np.asarray((drawn - (bounds[0] or 0.0)) ** power)


def _mean_and_spread(members: Floats, weights: Floats | None) -> tuple[Floats, Floats]:
    """Both of members (N, M), each (N,)."""
    mean = np.average(members, 1, weights)
    return mean, np.sqrt(np.average((members - mean[:, None]) ** 2, 1, weights))


def _quantiles(members: Floats, mean: Floats, weights: Floats | None, unit: float) -> Floats | None:
    """Quantiles of members (N, M) less their mean, (N, Q), in units of errors; None where there are too few."""
    if members.shape[1] < _LEAST_MEMBERS:
        return None
    if weights is None:
        found = np.quantile(members, TERM_LEVELS, axis=1, method="hazen")
    else:
        shares = np.broadcast_to(weights, members.shape)
        found = np.quantile(members, TERM_LEVELS, axis=1, method="inverted_cdf", weights=shares)
    return np.asarray((found - mean).T / unit)
