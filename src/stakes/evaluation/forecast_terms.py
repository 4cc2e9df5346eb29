"""What a forecast's error may depend on: its own numbers, the season, the hour, the lead, the site, and features."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from stakes.data.calendar_features import calendar_features
from stakes.data.given_forecasts import GivenForecasts
from stakes.data.time_axis import Times
from stakes.errors import SettingError
from stakes.evaluation.case_groups import Grouping, group_names
from stakes.evaluation.shift_and_factor import LEAST_CASES

__all__ = ["TERM_LEVELS", "ForecastNumbers", "ForecastTerms", "StandardTerms"]

TERM_LEVELS = (0.1, 0.5, 0.9)
"""The levels of the members' quantiles that are terms."""

_SEASON_WAVES, _MOST_HOUR_WAVES = 2, 3
_SEASONS = 4
_MOST_MEMBERS = 12  # that are told apart
_OWN_TERMS = ("mean", "log spread")
_LEAST_SIZE = 1e-9

Floats = NDArray[np.float64]
T = TypeVar("T")


class ForecastNumbers(NamedTuple):
    """What the members of one outcome say, in units of its errors.

    Attributes:
        mean: Their mean less that of past cases, (N,).
        log_spread: The logarithm of their spread, (N,).
        quantiles: Their quantiles at 10, 50 and 90 % less their mean, (N, 3); None where there are too few of them.
        at_bound: The share of members at a bound, (N,); None where there is no bound.
        members: Each member less their mean, (N, M); None where they are not told apart.
        total: The mean over all outcomes, (N,), in any unit; None where there is one outcome.
    """

    mean: Floats
    log_spread: Floats
    quantiles: Floats | None = None
    at_bound: Floats | None = None
    members: Floats | None = None
    total: Floats | None = None


@dataclass(frozen=True)
class ForecastTerms:
    """Which terms there are, told by what the past cases have enough of: 50 cases of each season, hour and site.

    Attributes:
        season: Whether there are waves of the year.
        hour_waves: How many waves of the day there are.
        lead: Whether there are terms of the lead.
        sites: The sites with a shift and a slope of their own, where each is decided by itself.
        spread: Whether the forecast has a spread.
        numbers: Whether there are further numbers of the forecast, and the slope changes with the season.
        members: How many members are terms, each by itself, as those of different models may be; 0 for none.
        features: The features that are terms.
    """

    season: bool = False
    hour_waves: int = 0
    lead: bool = False
    sites: tuple[str, ...] = ()
    spread: bool = True
    numbers: bool = False
    members: int = 0
    features: tuple[str, ...] = ()

    @classmethod
    def for_cases(cls, past: GivenForecasts, linear: bool) -> Self:
        """The terms that so many cases can tell.

        Args:
            past: The past cases.
            linear: Whether there are further numbers of the forecast and features among them.
        """
        seasons, hours, count = _counts(past, "season"), _counts(past, "hour"), past.members.shape[1]
        sites = np.unique(past.sites, return_counts=True) if past.sites is not None else ((), ())
        enough = tuple(str(name) for name, count in zip(*sites, strict=True) if count >= LEAST_CASES)
        return cls(
            season=len(seasons) == _SEASONS and min(seasons) >= LEAST_CASES,
            hour_waves=min(_MOST_HOUR_WAVES, len(hours) // 2) if min(hours, default=0) >= LEAST_CASES else 0,
            lead=past.leads is not None and bool(np.ptp(past.leads) > 0),
            sites=enough if len(enough) > 1 else (),
            spread=not past.is_point,
            numbers=linear,
            members=count if linear and past.weights is None and 1 < count <= _MOST_MEMBERS else 0,
            features=tuple(past.features.columns) if linear and past.features is not None else (),
        )

    def values(self, given: GivenForecasts, numbers: ForecastNumbers) -> dict[str, Floats]:
        """Each term of all cases, (N,), by its name.

        Args:
            given: The cases.
            numbers: What their members say.
        """
        terms = {"constant": np.ones(len(given)), "mean": numbers.mean}
        if self.spread:
            terms["log spread"] = numbers.log_spread
        if self.season:
            terms |= _waves(_moments(given, "season"), "season", _SEASON_WAVES)
        if self.hour_waves:
            terms |= _waves(_moments(given, "hour"), "hour", self.hour_waves)
        if self.lead:
            terms |= _of_lead(given.leads, numbers.mean)
        for site in self.sites:
            here = np.asarray(_known(given.sites, "sites") == site, dtype=np.float64)
            terms |= {f"site {site}": here, f"mean at site {site}": here * numbers.mean}
        return (terms | self._further(numbers, terms) if self.numbers else terms) | self._of_features(given)

    def _further(self, numbers: ForecastNumbers, terms: dict[str, Floats]) -> dict[str, Floats]:
        further = {f"{name} times mean": terms[name] * numbers.mean for name in _FIRST_WAVE if name in terms}
        if numbers.quantiles is not None:
            further |= {
                f"quantile {level:g}": column for level, column in zip(TERM_LEVELS, numbers.quantiles.T, strict=True)
            }
        if numbers.at_bound is not None:
            further["share at bound"] = numbers.at_bound
        if numbers.members is not None:
            further |= {f"member {place}": column for place, column in enumerate(numbers.members.T, start=1)}
        if numbers.total is not None:
            further["mean of all outcomes"] = numbers.total
        return further

    def _of_features(self, given: GivenForecasts) -> dict[str, Floats]:
        if not self.features:
            return {}
        table = _known(given.features, "features")
        if missing := [name for name in self.features if name not in table.columns]:
            raise SettingError(f"features must have the columns of the fit, but {missing[0]!r} is missing")
        return {f"feature {name}": table[name].to_numpy(np.float64) for name in self.features}


class StandardTerms(NamedTuple):
    """The terms of past cases with a mean of 0 and a standard deviation of 1, but for the constant.

    Attributes:
        names: Their names, P of them, the constant first.
        columns: The terms (N, P); one that never changes is 0 throughout.
        middle: What was subtracted from each, (P,).
        size: What each was divided by, (P,); infinite for one that never changes.
    """

    names: tuple[str, ...]
    columns: Floats
    middle: Floats
    size: Floats

    @classmethod
    def of(cls, terms: Mapping[str, Floats]) -> Self:
        """The terms standardised.

        Args:
            terms: Each term (N,) by its name, the constant first.
        """
        columns = np.stack(list(terms.values()), 1)
        middle, size = columns.mean(0), columns.std(0)
        middle[0], size[0] = 0.0, 1.0
        size = np.where(size > _LEAST_SIZE * np.maximum(1, np.abs(middle)), size, np.inf)
        return cls(tuple(terms), (columns - middle) / size, middle, size)

    def pull(self, strength: float) -> Floats:
        """How strongly each coefficient is drawn to 0, (P,): that of the constant not at all.

        Args:
            strength: How strongly those of further terms are, in cases; those that every correction has count as one.
        """
        return np.array([0.0] + [1.0 if name in _OWN_TERMS else strength for name in self.names[1:]])

    def coefficients(self, standard: Floats) -> dict[str, float]:
        """The coefficients of the terms as they are, by name.

        Args:
            standard: Those of the standardised terms, (P,).
        """
        coefficients = standard / self.size
        coefficients[0] -= (coefficients[1:] * self.middle[1:]).sum()
        return dict(zip(self.names, coefficients.tolist(), strict=True))


_FIRST_WAVE = ("season cos 1", "season sin 1")


def _known(values: T | None, name: str) -> T:
    if values is None:
        raise SettingError(f"{name} must be given, as they were in the fit")
    return values


def _counts(past: GivenForecasts, by: Grouping) -> list[int]:
    """How many cases each season or hour has."""
    if past.times is None:
        return []
    return np.unique(group_names((by,), len(past), past.times), return_counts=True)[1].tolist()


def _moments(given: GivenForecasts, wave: str) -> Floats:
    times: Times = _known(given.times, "times")
    return calendar_features(times, (wave,))  # sine and cosine


def _waves(first: Floats, name: str, count: int) -> dict[str, Floats]:
    """The first wave and its overtones."""
    turned = first[:, 1] + 1j * first[:, 0]
    waves: dict[str, Floats] = {}
    for wave in range(1, count + 1):
        waves |= {f"{name} cos {wave}": (turned**wave).real, f"{name} sin {wave}": (turned**wave).imag}
    return waves


def _of_lead(leads: Floats | None, mean: Floats) -> dict[str, Floats]:
    days = _known(leads, "leads") / 24
    return {"lead": days, "root of lead": np.sqrt(days), "lead times mean": days * mean}
