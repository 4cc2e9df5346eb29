"""How the correction of one outcome is learned: its coefficients by the least CRPS, all else by the last past cases.

What is taken of the families, of the outcomes or their roots, of shapes, and how strongly further terms are drawn to 0,
is what had the least CRPS on the last two quarters of the past cases, each learned from those before it. It is chosen
anew once there are twice as many cases.
"""

from dataclasses import replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from stakes.data.given_forecasts import GivenForecasts
from stakes.data.outcome_bounds import Pair
from stakes.evaluation.error_model import ErrorModel, mean_and_spread, quantile_levels
from stakes.evaluation.forecast_terms import ForecastTerms, StandardTerms
from stakes.evaluation.location_scale import Family, LocationScaleCases, family_quantiles, fit_coefficients
from stakes.evaluation.shift_and_factor import LEAST_CASES

__all__ = ["fit_error_model"]

Floats = NDArray[np.float64]

_FAMILIES: tuple[Family, ...] = ("normal", "logistic")
_PULLS = (10.0, 1.0, 100.0, 1000.0)  # cases' worth, by which further terms are drawn to 0
_STEADY = 3.0  # times as strongly those of the scale are
_LEAST_SPREAD = 0.1  # of the mean one
_MOST_AT_BOUND = 0.05  # of the outcomes, or errors have no shape that could be seen
_MOST_CASES = 4000  # to learn from
_CHOOSING_QUANTILES = 50
_BEYOND = 0.5  # of the log scales seen


class _Choice(NamedTuple):
    """What is modelled, and how."""

    family: Family = "normal"
    power: float = 1.0
    pull: float = _PULLS[0]
    by_errors: bool = False


def fit_error_model(
    past: GivenForecasts,
    outcome: int,
    terms: ForecastTerms,
    bounds: Pair,
    count: int,
    weight: Floats,
    like: ErrorModel | None = None,
) -> ErrorModel:
    """Learn the correction of one outcome.

    Args:
        past: At least 50 past cases, with outcomes, in order; of more than 4,000 so many are drawn, always the same.
        outcome: Which outcome it is.
        terms: What its errors may depend on.
        bounds: What it cannot cross.
        count: K, how many quantiles are wanted.
        weight: How much each case counts, (N,).
        like: What earlier cases taught, whose choices are kept if there were more than half as many; None chooses.
    """
    cases = len(past)
    if len(past) > _MOST_CASES:
        kept = np.sort(np.random.default_rng(0).choice(len(past), _MOST_CASES, replace=False))
        past, weight = past.rows(kept), weight[kept]
    problem = _Problem(past, outcome, terms, bounds, weight / weight.mean())
    if like is not None and cases < 2 * like.chosen_from:
        choice = _Choice(like.family, like.power, like.pull, like.by_errors)
        return replace(problem.learned(choice, count), chosen_from=like.chosen_from)
    if cases < 2 * LEAST_CASES:
        return problem.learned(_Choice(), count)
    return replace(problem.learned(problem.choice(), count), chosen_from=cases)


class _Problem(NamedTuple):
    """Past cases of one outcome."""

    past: GivenForecasts
    outcome: int
    terms: ForecastTerms
    bounds: Pair
    weight: Floats

    @property
    def seen(self) -> Floats:
        """The outcomes, (N,)."""
        assert self.past.outcomes is not None
        return self.past.outcomes[:, self.outcome]

    def choice(self) -> _Choice:
        """What is best on the last two quarters of the cases, each learned from those before it."""
        quarter = len(self.past) // 4
        ends = len(self.past) - quarter, len(self.past)
        folds = [(self._part(0, end - quarter), self._part(end - quarter, end)) for end in ends]
        at_lower, at_upper = (0.0 if bound is None else (self.seen == bound).mean() for bound in self.bounds)
        powers = (1.0, 0.5) if at_lower > _MOST_AT_BOUND else (1.0,)
        scores: dict[_Choice, float] = {}

        def best_of(choices: list[_Choice]) -> _Choice:
            for choice in choices:
                scores[choice] = sum(late.crps(early.learned(choice, _CHOOSING_QUANTILES)) for early, late in folds)
            return min(scores, key=scores.__getitem__)

        best = best_of([_Choice(family, power) for power in powers for family in _FAMILIES])
        best = best_of([best._replace(pull=pull) for pull in _PULLS[1:]])
        return best if at_lower + at_upper > _MOST_AT_BOUND else best_of([best._replace(by_errors=True)])

    def _part(self, start: int, end: int) -> Self:
        rows = slice(start, end)
        return self._replace(past=self.past.rows(rows), weight=self.weight[rows])

    def learned(self, choice: _Choice, count: int) -> ErrorModel:
        """The model that was chosen, with so many quantiles as its shape."""
        model = self._start(choice)
        terms = StandardTerms.of(model.term_values(self.past, self.outcome, self.terms))
        mean, log_spread = model.mean_and_log_spread(self.past, self.outcome)
        lower, upper = model.modelled_bounds
        cases = LocationScaleCases(
            model.modelled(self.seen), mean, log_spread, terms.columns, terms.columns, self.weight, model.unit,
            lower, upper,
        )  # fmt: skip
        pulls = terms.pull(choice.pull), terms.pull(_STEADY * choice.pull)
        location, log_scale = fit_coefficients(cases, choice.family, *pulls).reshape(2, -1)
        model = replace(model, location=terms.coefficients(location), log_scale=terms.coefficients(log_scale))
        logs = model.location_and_log_scale(self.past, self.outcome, self.terms)[1]
        model = replace(model, log_scale_range=(float(logs.min()) - _BEYOND, float(logs.max()) + _BEYOND))
        return replace(model, shape=tuple(self._shape(model, choice, quantile_levels(count)).tolist()))

    def _start(self, choice: _Choice) -> ErrorModel:
        """The forecast as it came: no term moves it."""
        model = ErrorModel(choice.family, choice.power, self.bounds, 0.0, 1.0, 0.0, {}, {}, (-np.inf, np.inf), ())
        model = replace(model, pull=choice.pull, by_errors=choice.by_errors)
        mean, spread = mean_and_spread(model.modelled(self.past.members[..., self.outcome]), self.past.weights)
        errors = model.modelled(self.seen) - mean
        unit = float(np.abs(errors - np.median(errors)).mean()) or 1.0
        least = _LEAST_SPREAD * float(spread.mean()) or unit
        return replace(model, centre=float(mean.mean()), unit=unit, least_spread=least)

    def _shape(self, model: ErrorModel, choice: _Choice, levels: Floats) -> Floats:
        if not choice.by_errors:
            return family_quantiles(choice.family, levels)
        errors = model.standardised_errors(self.past, self.outcome, self.terms)
        order = np.argsort(errors, kind="stable")
        share = np.cumsum(self.weight[order])
        return np.interp(levels, (share - self.weight[order] / 2) / share[-1], errors[order])

    def crps(self, model: ErrorModel) -> float:
        """The mean CRPS of these cases, in the outcome's unit."""
        members, seen = model.quantiles(self.past, self.outcome, self.terms), self.seen[:, None]
        pinball = ((seen < members) - quantile_levels(members.shape[1])) * (members - seen)
        return float(2 * self.weight @ pinball.mean(1) / self.weight.sum())
