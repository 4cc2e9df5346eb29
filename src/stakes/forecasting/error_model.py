"""What past errors say about the forecast of one outcome: location and scale, by all that they depend on."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from stakes.data.forecasts.layout import Pair
from stakes.errors import SettingError, ShapeError

if TYPE_CHECKING:  # whoever only corrects members reads no forecasts
    from stakes.data.forecasts.forecast_set import ForecastSet

LEAST_CASES = 50
"""Fewer cases teach nothing, nor do fewer of a season, an hour or a site."""

By = Literal["forecast", "season", "hour", "lead", "site"]
"""What errors may depend on; "forecast" is what the members say, their mean and spread."""

TERM_LEVELS = (0.1, 0.5, 0.9)
"""The levels of the members' quantiles that are terms."""

_SEASON_WAVES, _MOST_HOUR_WAVES = 2, 3
_SEASONS, _MONTHS, _HOURS = 4, 12, 24
_MOST_MEMBERS = 12  # that are told apart
_OWN_TERMS = ("mean", "log spread")
_FIRST_WAVE = ("season cos 1", "season sin 1")
_LEAST_SIZE = 1e-9

Floats = NDArray[np.float64]
T = TypeVar("T")


@dataclass(frozen=True)
class ForecastTerms:
    """Which terms there are, told by what the past cases have enough of: 50 cases of each season, hour and site."""

    forecast: bool = True  # whether there are terms of the members' mean and, if there is one, their spread
    season: bool = False  # whether there are waves of the year
    hour_waves: int = 0  # how many waves of the day there are
    lead: bool = False  # whether there are terms of the lead
    sites: tuple[str, ...] = ()  # the sites with a shift and a slope of their own, where each is decided by itself
    spread: bool = True  # whether the forecast has a spread
    numbers: bool = False  # whether there are further numbers of the forecast, and the slope changes with the season
    members: int = 0  # how many members are terms, each by itself, as those of different models may be; 0 for none
    features: tuple[str, ...] = ()  # the features that are terms

    @classmethod
    def for_cases(cls, past: "ForecastSet", by: Sequence[By] = get_args(By), linear: bool = False) -> Self:
        """Those that so many cases can tell of what is asked for, and if linear of all else that is known."""
        seasons, hours = (_counts(past, moment) if moment in by else [] for moment in ("season", "hour"))
        sites = np.unique(past.sites, return_counts=True) if "site" in by and past.sites is not None else ((), ())
        enough = tuple(str(name) for name, cases in zip(*sites, strict=True) if cases >= LEAST_CASES)
        count = past.members.shape[1]
        return cls(
            forecast="forecast" in by,
            season=len(seasons) == _SEASONS and min(seasons) >= LEAST_CASES,
            hour_waves=min(_MOST_HOUR_WAVES, len(hours) // 2) if min(hours, default=0) >= LEAST_CASES else 0,
            lead="lead" in by and past.leads is not None and bool(np.ptp(past.leads) > 0),
            sites=enough if len(enough) > 1 else (),
            spread=not past.is_point,
            numbers=linear,
            members=count if linear and past.weights is None and 1 < count <= _MOST_MEMBERS else 0,
            features=tuple(past.features.columns) if linear and past.features is not None else (),
        )

    def values(self, given: "ForecastSet", mean: Floats, log_spread: Floats) -> dict[str, Floats]:
        """Each term of all cases, (N,), by its name, but for further numbers of the forecast."""
        terms = {"constant": np.ones(len(given))}
        if self.forecast:
            terms |= {"mean": mean} | ({"log spread": log_spread} if self.spread else {})
        if self.season:
            terms |= _waves(given, "season", _SEASON_WAVES)
        if self.hour_waves:
            terms |= _waves(given, "hour", self.hour_waves)
        if self.lead:
            days = _known(given.leads, "leads") / 24
            terms |= {"lead": days, "root of lead": np.sqrt(days), "lead times mean": days * mean}
        for site in self.sites:
            here = np.asarray(_known(given.sites, "sites") == site, dtype=np.float64)
            terms |= {f"site {site}": here, f"mean at site {site}": here * mean}
        return terms

    def of_features(self, given: "ForecastSet") -> dict[str, Floats]:
        """The features that are terms."""
        if not self.features:
            return {}
        table = _known(given.features, "features")
        if missing := [name for name in self.features if name not in table.columns]:
            raise SettingError(f"features must have the columns of the fit, but {missing[0]!r} is missing")
        return {f"feature {name}": table[name].to_numpy(np.float64) for name in self.features}


class StandardTerms(NamedTuple):
    """The terms of past cases with a mean of 0 and a standard deviation of 1, but for the constant."""

    names: tuple[str, ...]  # their names, P of them, the constant first
    columns: Floats  # the terms (N, P); one that never changes is 0 throughout
    middle: Floats  # what was subtracted from each, (P,)
    size: Floats  # what each was divided by, (P,); infinite for one that never changes

    @classmethod
    def of(cls, terms: Mapping[str, Floats]) -> Self:
        """The terms standardised."""
        columns = np.stack(list(terms.values()), 1)
        middle, size = columns.mean(0), columns.std(0)
        middle[0], size[0] = 0.0, 1.0
        size = np.where(size > _LEAST_SIZE * np.maximum(1, np.abs(middle)), size, np.inf)
        return cls(tuple(terms), (columns - middle) / size, middle, size)

    def pull(self, strength: float) -> Floats:
        """How strongly each coefficient is drawn to 0, (P,): that of the constant not at all."""
        return np.array([0.0] + [1.0 if name in _OWN_TERMS else strength for name in self.names[1:]])

    def coefficients(self, standard: Floats) -> dict[str, float]:
        """The coefficients of the terms as they are, by name."""
        coefficients = standard / self.size
        coefficients[0] -= (coefficients[1:] * self.middle[1:]).sum()
        return dict(zip(self.names, coefficients.tolist(), strict=True))


def _known(values: T | None, name: str) -> T:
    if values is None:
        raise SettingError(f"{name} must be given, as they were in the fit")
    return values


def _counts(past: "ForecastSet", moment: Literal["season", "hour"]) -> list[int]:
    """How many cases each season, of which one begins in December, or each hour of the day has."""
    if past.times is None:
        return []
    months, hours = (past.times.astype(f"datetime64[{unit}]").astype(np.int64) for unit in "Mh")
    groups = (months + 1) % _MONTHS // 3 if moment == "season" else hours % _HOURS
    return np.unique(groups, return_counts=True)[1].tolist()


def _waves(given: "ForecastSet", name: Literal["season", "hour"], count: int) -> dict[str, Floats]:
    """The first wave of the year or the day, and its overtones."""
    from stakes.data.tables.lags import calendar_features  # not at once: most corrections have no waves

    sine, cosine = calendar_features(_known(given.times, "times"), (name,)).T
    turned = cosine + 1j * sine
    waves: dict[str, Floats] = {}
    for wave in range(1, count + 1):
        waves |= {f"{name} cos {wave}": (turned**wave).real, f"{name} sin {wave}": (turned**wave).imag}
    return waves


# Location and scale of the least CRPS

Family = Literal["normal", "logistic"]
"""The distribution of a standardised error."""

_ITERATIONS = 200
_BLOCKS = 10  # of neighbouring cases, whose coefficients tell the standard error


class LocationScaleCases(NamedTuple):
    """Past cases of one outcome to learn from, all in one unit."""

    outcome: Floats  # what happened, (N,)
    location: Floats  # what the forecast says of it, (N,)
    log_scale: Floats  # what it says of its own error, (N,), as a logarithm
    terms: Floats  # standardised terms (N, P) that may move the location, in units of `unit`, and the log scale
    weight: Floats  # how much each case counts, (N,), with a mean of 1
    unit: float  # the size of an error, by which location terms and CRPS are measured
    lower: float = -np.inf  # what the outcome cannot fall below; minus infinity for no such bound
    upper: float = np.inf  # what it cannot exceed; infinity for no such bound
    shape: Floats | None = None  # members of location 0 and scale 1, ascending, (N, K), in place of the family

    def rows(self, chosen: Any) -> Self:
        """Some of the cases."""
        arrays = {name: values[chosen] for name, values in self._asdict().items() if isinstance(values, np.ndarray)}
        return self._replace(**arrays)


def believed_coefficients(
    cases: LocationScaleCases, family: Family, location_pull: Floats, scale_pull: Floats
) -> Floats:
    """The coefficients (2 P,) shrunk towards 0 as far as they may be due to chance.

    Those of ten blocks of neighbouring cases tell the standard error, so that errors which persist for days do not
    count as many. With z, a coefficient over that error, 1 - 1 / z^2 of it is kept, and nothing for |z| < 1: the
    estimate of least expected error for an effect as large as it looks.
    """
    pulls = location_pull, scale_pull
    found = fit_coefficients(cases, family, *pulls)
    share = (np.cumsum(cases.weight) - cases.weight / 2) / cases.weight.sum()
    edges = np.searchsorted(share, np.arange(1, _BLOCKS) / _BLOCKS)
    blocks = [rows for rows in np.split(np.arange(len(share)), edges) if len(rows)]
    of_blocks = [fit_coefficients(cases.rows(rows), family, *pulls, start=found) for rows in blocks]
    variance = np.var(of_blocks, axis=0, ddof=1) / len(blocks)
    lost = np.divide(variance, found**2, out=np.ones_like(found), where=found != 0)
    return np.asarray(found * (1 - lost).clip(0))


def fit_coefficients(
    cases: LocationScaleCases, family: Family, location_pull: Floats, scale_pull: Floats, start: Floats | None = None
) -> Floats:
    """The coefficients (2 P,), of the location first, of the least mean CRPS / unit + sum(pull * squares) / N."""
    from scipy.optimize import minimize  # not at once: deciding needs none of it

    pull = np.concatenate([location_pull, scale_pull]) / cases.weight.sum() ** 2 * np.square(cases.weight).sum()
    parts, terms = len(location_pull), cases.terms.T.copy()
    shares = cases.weight / cases.weight.sum() / cases.unit

    def objective(coefficients: Floats) -> tuple[float, Floats]:
        location = cases.location + cases.unit * (coefficients[:parts] @ terms)
        log_scale = cases.log_scale + coefficients[parts:] @ terms
        crps, by_location, by_log_scale = crps_and_slopes(
            family, cases.outcome, location, np.exp(log_scale.clip(-50, 50)), cases.lower, cases.upper, cases.shape
        )
        slopes = np.concatenate([terms @ (shares * by_location) * cases.unit, terms @ (shares * by_log_scale)])
        value = shares @ crps + pull @ np.square(coefficients)
        return float(value), slopes + 2 * pull * coefficients

    begin = np.zeros(len(pull)) if start is None else start
    minimum = minimize(objective, begin, jac=True, method="L-BFGS-B", options={"maxiter": _ITERATIONS, "ftol": 1e-9})
    return np.asarray(minimum.x, dtype=np.float64)


def crps_and_slopes(
    family: Family,
    outcome: Floats,
    location: Floats,
    scale: Floats,
    lower: float = -np.inf,
    upper: float = np.inf,
    shape: Floats | None = None,
) -> tuple[Floats, Floats, Floats]:
    """The CRPS (N,) of a distribution clipped to the bounds, and its derivatives by location and by log scale.

    The distribution is that of the family, or of members (N, K) which ascend: then it is the mean of quantile scores.
    """
    if shape is not None:
        spread, seen = scale[:, None] * shape, outcome[:, None]
        free = location[:, None] + spread
        bounded = lower > -np.inf or upper < np.inf
        members = free.clip(lower, upper) if bounded else free
        score = (seen < members) - quantile_levels(members.shape[1])
        score *= 2
        moving = score * (members == free) if bounded else score
        parts = score * (members - seen), moving, moving * spread
        crps, by_location, by_log_scale = [np.add.reduce(each, 1) / members.shape[1] for each in parts]
        return crps, by_location, by_log_scale
    below, integral = _of_family(family)
    z = (outcome - location) / scale
    chance = below(z)
    total = integral(z) + integral(-z)
    by_location, by_log_scale = 1 - 2 * chance, (1 - 2 * chance) * z
    for sign, bound in ((1.0, lower), (-1.0, upper)):
        if np.isfinite(bound):
            edge = sign * (bound - location) / scale
            beyond = below(edge) ** 2
            total -= integral(edge)
            by_location += sign * beyond
            by_log_scale += edge * beyond
    return scale * total, by_location, scale * (total + by_log_scale)


def _of_family(family: Family):  # type: ignore[no-untyped-def]
    """The distribution function, and the integral of its square from below."""
    from scipy.special import expit, ndtr

    if family == "logistic":
        return expit, lambda t: np.logaddexp(0, t) - expit(t)

    def integral(t: Floats) -> Floats:
        chance, density = ndtr(t), np.exp(-t * t / 2) / np.sqrt(2 * np.pi)
        return np.asarray(t * chance**2 + 2 * chance * density - ndtr(np.sqrt(2) * t) / np.sqrt(np.pi))

    return ndtr, integral


def family_quantiles(family: Family, levels: Floats) -> Floats:
    """The quantiles of a standardised error."""
    from scipy.special import logit, ndtri

    return np.asarray(ndtri(levels) if family == "normal" else logit(levels), dtype=np.float64)


def quantile_levels(count: int) -> Floats:
    """The levels (K,) of so many equally likely quantiles, (k - 1/2) / K."""
    return (np.arange(count) + 0.5) / count


# The correction of one outcome

_LEAST_MEMBERS = 5  # for quantiles of them


def mean_and_spread(members: Floats, weights: Floats | None) -> tuple[Floats, Floats]:
    """The mean and the standard deviation of each case, (N,) each."""
    mean = np.average(members, 1, weights)
    return mean, np.sqrt(np.average((members - mean[:, None]) ** 2, 1, weights))


@dataclass(frozen=True)
class ErrorModel:
    """The correction of one outcome, small enough to be looked at."""

    family: Family  # the distribution that location and scale were learned with, unless by the members' own shape
    power: float  # 1, or 0.5 where the roots of outcomes above the lower bound were modelled
    bounds: Pair  # what the outcome cannot cross
    centre: float  # the mean of past forecasts, in the unit that was modelled
    unit: float  # the size of past errors, in that unit
    least_spread: float  # what is added to the members' variance, as a spread
    location: dict[str, float]  # by how much each term moves the location, in units of `unit`
    log_scale: dict[str, float]  # by how much each term moves the logarithm of the scale
    log_scale_range: tuple[float, float]  # the log scales that were seen, and a little more: none lies outside
    shape: tuple[float, ...]  # quantiles of the standardised errors, (K,), as members; none for the members' own shape
    pull: float = 0.0  # how strongly further terms were drawn to 0, in cases
    by_errors: bool = False  # whether the shape is that of past errors, not of the family or the members
    chosen_from: int = 0  # from how many cases family, power, pull and shape were chosen; 0 where they were too few

    def members(self, given: "ForecastSet", outcome: int, terms: ForecastTerms) -> Floats:
        """Equally likely members (N, K): those of each case moved and spread, in their order, or quantiles."""
        location, log_scale = self.location_and_log_scale(given, outcome, terms)
        if self.shape:
            scaled = np.exp(log_scale)[:, None] * np.array(self.shape)
            return np.asarray(self.in_outcome_unit(location[:, None] + scaled))
        mean, log_spread = self.mean_and_log_spread(given, outcome)
        came = self.modelled(given.members[..., outcome])
        further = np.expm1(log_scale - log_spread)[:, None] * (came - mean[:, None])
        return np.asarray(self.in_outcome_unit(came + (location - mean)[:, None] + further))

    def location_and_log_scale(self, given: "ForecastSet", outcome: int, terms: ForecastTerms) -> tuple[Floats, Floats]:
        """Where each case lies and the logarithm of its scale, (N,) each, in the unit that was modelled."""
        mean, log_spread = self.mean_and_log_spread(given, outcome)
        values = self.term_values(given, outcome, terms)
        location, log_scale = (
            sum((each[name] * column for name, column in values.items()), np.zeros(len(given)))  # in one order
            for each in (self.location, self.log_scale)
        )
        return mean + self.unit * location, (log_spread + log_scale).clip(*self.log_scale_range)

    def standardised_errors(self, past: "ForecastSet", outcome: int, terms: ForecastTerms) -> Floats:
        """The errors (N,) of past cases in units of their scale."""
        assert past.outcomes is not None
        location, log_scale = self.location_and_log_scale(past, outcome, terms)
        return (self.modelled(past.outcomes[:, outcome]) - location) / np.exp(log_scale)

    def mean_and_log_spread(self, given: "ForecastSet", outcome: int) -> tuple[Floats, Floats]:
        """The mean of the members and the logarithm of their spread, (N,) each, in the unit that is modelled."""
        mean, spread = mean_and_spread(self.modelled(given.members[..., outcome]), given.weights)
        return mean, np.asarray(np.log(np.hypot(spread, self.least_spread)))

    def term_values(self, given: "ForecastSet", outcome: int, terms: ForecastTerms) -> dict[str, Floats]:
        """Each term of all cases, (N,), by its name."""
        mean, log_spread = self.mean_and_log_spread(given, outcome)
        centred = (mean - self.centre) / self.unit
        values = terms.values(given, centred, log_spread - np.log(self.unit))
        if not terms.numbers:
            return values | terms.of_features(given)
        values |= {f"{name} times mean": values[name] * centred for name in _FIRST_WAVE if name in values}
        if terms.spread:
            members, weights = self.modelled(given.members[..., outcome]), given.weights
            if members.shape[1] >= _LEAST_MEMBERS:
                quantiles = (_quantiles(members, weights) - mean) / self.unit
                values |= {f"quantile {level:g}": row for level, row in zip(TERM_LEVELS, quantiles, strict=True)}
            if bounds := [bound for bound in self.modelled_bounds if np.isfinite(bound)]:
                values["share at bound"] = np.average(np.isin(members, bounds), 1, weights)
            if terms.members:
                if terms.members != members.shape[1]:
                    raise ShapeError(f"members must be the {terms.members} of the fit, got {members.shape[1]}")
                apart = (members - mean[:, None]) / self.unit
                values |= {f"member {place}": column for place, column in enumerate(apart.T, start=1)}
        if given.members.shape[2] > 1:
            values["mean of all outcomes"] = given.members.mean((1, 2))
        return values | terms.of_features(given)

    @property
    def modelled_bounds(self) -> tuple[float, float]:
        """What the outcome cannot cross, in the unit that is modelled; infinite for no such bound."""
        low, high = (end if bound is None else bound for bound, end in zip(self.bounds, (-np.inf, np.inf), strict=True))
        return (low, high) if self.power == 1 else (0.0, (high - low) ** self.power)

    def modelled(self, values: Floats) -> Floats:
        """Values drawn to the bounds, or the roots of what lies above the lower one."""
        drawn = values if self.bounds == (None, None) else np.clip(values, *self.bounds)
        return drawn if self.power == 1 else np.asarray((drawn - (self.bounds[0] or 0.0)) ** self.power)

    def in_outcome_unit(self, modelled: Any) -> Any:
        """Values in the unit of the outcome, within its bounds: the way back."""
        drawn = modelled.clip(*self.modelled_bounds)
        return drawn if self.power == 1 else (self.bounds[0] or 0.0) + drawn ** (1 / self.power)


def _quantiles(members: Floats, weights: Floats | None) -> Floats:
    """Quantiles (Q, N) of members (N, M)."""
    if weights is None:
        return np.quantile(members, TERM_LEVELS, axis=1, method="hazen")
    shares = np.broadcast_to(weights, members.shape)
    return np.asarray(np.quantile(members, TERM_LEVELS, axis=1, method="inverted_cdf", weights=shares))


# How it is learned

_PULLS = (10.0, 1.0, 100.0, 1000.0)  # cases' worth, by which further terms are drawn to 0
_STEADY = 3.0  # times as strongly those of the scale are
_LEAST_SPREAD = 0.1  # of the mean one
_MOST_AT_BOUND = 0.05  # of the outcomes, or errors have no shape that could be seen
_MOST_CASES = 4000  # to learn from
_CHOOSING_QUANTILES = 50
_BEYOND = 0.5  # of the log scales seen
_MOST_LOG_SCALE = 100.0  # either way: an outcome that is all but known would have a scale of 0
_FAR_BEYOND = 50.0  # where nothing but a constant changes them
_REPRESENTED = 50  # members, by which the shape of more is learned
FitCoefficients = Callable[[LocationScaleCases, Family, Floats, Floats], Floats]


class _Choice(NamedTuple):
    """What is modelled, and how."""

    family: Family = "normal"
    power: float = 1.0
    pull: float = _PULLS[0]
    by_errors: bool = False


def fit_error_model(
    past: "ForecastSet",
    outcome: int,
    terms: ForecastTerms,
    bounds: Pair,
    count: int,
    weight: Floats,
    like: ErrorModel | None = None,
    shrunk: bool = False,
) -> ErrorModel:
    """Learn the correction of one outcome, with so many quantiles as its shape, or with none for the members' own."""
    cases = len(past)
    if len(past) > _MOST_CASES:
        kept = np.sort(np.random.default_rng(0).choice(len(past), _MOST_CASES, replace=False))
        past, weight = past.rows(kept), weight[kept]
    problem = _Problem(past, outcome, terms, bounds, weight / weight.mean())
    fit = believed_coefficients if shrunk else fit_coefficients
    if not count or cases < 2 * LEAST_CASES:
        return problem.learned(_Choice(), count, fit)
    if like is not None and cases < 2 * like.chosen_from:
        choice = _Choice(like.family, like.power, like.pull, like.by_errors)
        return replace(problem.learned(choice, count, fit), chosen_from=like.chosen_from)
    return replace(problem.learned(problem.choice(), count, fit), chosen_from=cases)


class _Problem(NamedTuple):
    """Past cases of one outcome."""

    past: "ForecastSet"
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

        best = best_of([_Choice(family, power) for power in powers for family in get_args(Family)])
        best = best_of([best._replace(pull=pull) for pull in _PULLS[1:]])
        return best if at_lower + at_upper > _MOST_AT_BOUND else best_of([best._replace(by_errors=True)])

    def _part(self, start: int, end: int) -> Self:
        rows = slice(start, end)
        return self._replace(past=self.past.rows(rows), weight=self.weight[rows])

    def learned(self, choice: _Choice, count: int, fit: FitCoefficients = fit_coefficients) -> ErrorModel:
        """The model that was chosen, with so many quantiles as its shape, or with none for the members' own."""
        model = self._start(choice)
        terms = StandardTerms.of(model.term_values(self.past, self.outcome, self.terms))
        mean, log_spread = model.mean_and_log_spread(self.past, self.outcome)
        shape = None if count else _represented(model.modelled(self.past.members[..., self.outcome]) - mean[:, None])
        log_scale = log_spread if count else np.zeros_like(mean)
        cases = LocationScaleCases(
            model.modelled(self.seen), mean, log_scale, terms.columns, self.weight, model.unit, *model.modelled_bounds,
            shape,
        )  # fmt: skip
        pulls = terms.pull(choice.pull), terms.pull(_STEADY * choice.pull)
        by_location, by_log_scale = fit(cases, choice.family, *pulls).reshape(2, -1)
        model = replace(model, location=terms.coefficients(by_location), log_scale=terms.coefficients(by_log_scale))
        logs = model.location_and_log_scale(self.past, self.outcome, self.terms)[1]
        beyond = _BEYOND if len(terms.names) > 1 else _FAR_BEYOND
        seen = np.clip([logs.min() - beyond, logs.max() + beyond], -_MOST_LOG_SCALE, _MOST_LOG_SCALE)
        model = replace(model, log_scale_range=(float(seen[0]), float(seen[1])))
        if not count:
            return model
        return replace(model, shape=tuple(self._shape(model, quantile_levels(count)).tolist()))

    def _start(self, choice: _Choice) -> ErrorModel:
        """The forecast as it came: no term moves it."""
        model = ErrorModel(choice.family, choice.power, self.bounds, 0.0, 1.0, 0.0, {}, {}, (-np.inf, np.inf), ())
        model = replace(model, pull=choice.pull, by_errors=choice.by_errors)
        mean, spread = mean_and_spread(model.modelled(self.past.members[..., self.outcome]), self.past.weights)
        errors = model.modelled(self.seen) - mean
        unit = float(np.abs(errors - np.median(errors)).mean()) or 1.0
        least = _LEAST_SPREAD * float(spread.mean()) or unit
        return replace(model, centre=float(mean.mean()), unit=unit, least_spread=least)

    def _shape(self, model: ErrorModel, levels: Floats) -> Floats:
        if not model.by_errors:
            return family_quantiles(model.family, levels)
        errors = model.standardised_errors(self.past, self.outcome, self.terms)
        order = np.argsort(errors, kind="stable")
        share = np.cumsum(self.weight[order])
        return np.interp(levels, (share - self.weight[order] / 2) / share[-1], errors[order])

    def crps(self, model: ErrorModel) -> float:
        """The mean CRPS of these cases, in the outcome's unit."""
        members = model.members(self.past, self.outcome, self.terms)
        crps, *_ = crps_and_slopes("normal", self.seen, np.zeros(len(members)), np.ones(len(members)), shape=members)
        return float(self.weight @ crps / self.weight.sum())


def _represented(members: Floats) -> Floats:
    """Members (N, M) ascending, or of many the quantiles (N, K) whose CRPS is the least."""
    if members.shape[1] <= _REPRESENTED:
        return np.sort(members, 1)
    return np.quantile(members, quantile_levels(_REPRESENTED), axis=1, method="hazen").T
