"""The textbook's corrections of a forecast, by numpy, scipy and scikit-learn alone.

Each takes a problem and gives members (N, K, D) of the cases that test; what it learns, it learns from the known cases.
Distributions of one outcome are given by their quantiles at (k - 1/2) / K.
"""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import ndtr, ndtri
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import RidgeCV
from sklearn.preprocessing import StandardScaler

from benchmarks.own_ensemble.problems import Problem

__all__ = ["RIVALS", "censored_normal_crps", "isotonic_quantiles", "nonhomogeneous_regression"]

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
Rival = Callable[[Problem], Floats]

_LEVELS = (np.arange(100) + 0.5) / 100
_VECTORS = 200  # of past errors
_YEAR = np.timedelta64(31_556_952, "s")
_PENALTIES = np.logspace(-1, 5, 13)


def raw(problem: Problem) -> Floats:
    """As it comes."""
    return problem.members[problem.test]


# Nonhomogeneous regression by the CRPS (Gneiting et al. 2005; censored at zero: Thorarinsdottir and Gneiting 2010)


def censored_normal_crps(outcome: Floats, mean: Floats, deviation: Floats, lower: float) -> Floats:
    """CRPS of a normal whose mass below a bound lies on it; -inf for no bound."""
    z, least = (outcome - mean) / deviation, (lower - mean) / deviation
    crps = z * (2 * ndtr(z) - 1) + 2 * _density(z) - 1 / np.sqrt(np.pi)
    if np.isfinite(lower):  # less the integral of Phi^2 below the bound
        below = ndtr(least)
        crps = crps - (least * below**2 + 2 * below * _density(least) - ndtr(np.sqrt(2) * least) / np.sqrt(np.pi))
    return deviation * crps


def nonhomogeneous_regression(
    mean_terms: Floats, variance_terms: Floats, outcome: Floats, lower: float
) -> tuple[Floats, Floats]:
    """Coefficients (F,) of the mean and (G,), to be squared, of the variance, which has terms that are not negative."""
    scale = outcome.std()
    start = np.linalg.lstsq(mean_terms, outcome, rcond=None)[0]
    left = (outcome - mean_terms @ start).std()
    share = np.sqrt(left**2 / variance_terms.shape[1] / variance_terms.mean(0))

    def crps(parameters: Floats) -> float:
        mean, variance = mean_terms @ parameters[: len(start)], variance_terms @ parameters[len(start) :] ** 2
        deviation = np.sqrt(variance + 1e-6 * scale**2)
        return float(censored_normal_crps(outcome, mean, deviation, lower).mean() / scale)

    parameters = minimize(crps, np.concatenate([start, share]), method="BFGS").x
    return parameters[: len(start)], parameters[len(start) :]


def regression(
    problem: Problem, season: bool = False, root: bool = False, each_member: bool = False, shown: Floats = _LEVELS
) -> Floats:
    """Quantiles of every outcome by itself: its mean linear in the ensemble's mean, its variance in the ensemble's."""
    members, outcomes, lower = problem.members, problem.outcomes, -np.inf
    if problem.bounds[0] is not None:
        lower = problem.bounds[0]
    if root:
        members, outcomes = np.sqrt(members), np.sqrt(outcomes)
    quantiles = np.empty((len(problem.test), len(shown), problem.outcomes.shape[1]))
    for known, test, places in _grouped(problem):
        for outcome in range(quantiles.shape[2]):
            terms = [_terms(problem, members[..., outcome], rows, season, each_member) for rows in (known, test)]
            coefficients = nonhomogeneous_regression(*terms[0], outcomes[known, outcome], lower)
            mean, deviation = terms[1][0] @ coefficients[0], np.sqrt(terms[1][1] @ coefficients[1] ** 2)
            quantiles[places, :, outcome] = mean[:, None] + deviation[:, None] * ndtri(shown)
    quantiles = np.maximum(quantiles, lower)
    return quantiles**2 if root else quantiles


def _terms(problem: Problem, members: Floats, rows: Rows, season: bool, each_member: bool) -> tuple[Floats, Floats]:
    """Columns of the mean and of the variance."""
    forecast = members[rows]
    one, spread = np.ones(len(rows)), forecast.var(1)
    mean = [one, *(forecast.T if each_member else [forecast.mean(1)])]
    variance = [one, spread]
    if problem.bounds[0] is not None:  # the share of dry members, and rain that varies more where there is more
        mean.append((forecast <= problem.bounds[0]).mean(1))
        variance.append(forecast.mean(1))
    if season:
        angle = 2 * np.pi * ((problem.times[rows] - np.datetime64("2000-01-01")) / _YEAR)
        mean += [np.cos(angle), np.sin(angle)]
        variance += [1 + np.cos(angle), 1 + np.sin(angle)]
    return np.stack(mean, 1), np.stack(variance, 1)


def coupled_regression(problem: Problem, kept: bool, root: bool) -> Floats:
    """Several outcomes: as many quantiles as members, in the members' order (ensemble copula coupling), or in any."""
    count = problem.members.shape[1]
    quantiles = regression(problem, root=root, shown=(np.arange(count) + 0.5) / count)
    test = problem.members[problem.test]
    generator = np.random.default_rng(0)
    noise = generator.uniform(size=test.shape)
    ranks = np.argsort(np.lexsort((noise, test), axis=1) if kept else np.argsort(noise, 1), 1)
    return np.take_along_axis(quantiles, ranks, 1)


# Isotonic distributional regression (Henzi, Ziegel and Gneiting 2021)


def isotonic_quantiles(forecast: Floats, outcome: Floats, new: Floats, shown: Floats = _LEVELS) -> Floats:
    """Quantiles (N, K) of the outcome given one number, which it rises with: an isotonic fit at every threshold."""
    thresholds = np.unique(outcome)
    below = np.empty((len(new), len(thresholds)))
    for place, threshold in enumerate(thresholds):
        fit = IsotonicRegression(increasing=False, out_of_bounds="clip").fit(forecast, outcome <= threshold)
        below[:, place] = fit.predict(new)
    return thresholds[(below[:, :, None] < shown - 1e-12).sum(1).clip(max=len(thresholds) - 1)]


def isotonic(problem: Problem) -> Floats:
    """Of one outcome, by the members' mean."""
    mean, outcome = problem.members.mean((1, 2)), problem.outcomes[:, 0]
    members = np.empty((len(problem.test), len(_LEVELS), 1))
    for known, test, places in _grouped(problem):
        members[places, :, 0] = isotonic_quantiles(mean[known], outcome[known], mean[test])
    return members


def isotonic_total(problem: Problem) -> Floats:
    """Of the total of several outcomes, by the mean of the members' total; it knows nothing of its parts."""
    total, outcome = problem.members.sum(2).mean(1), problem.outcomes.sum(1)
    return isotonic_quantiles(total[problem.known], outcome[problem.known], total[problem.test])[..., None]


# A location and past errors


def error_vectors(problem: Problem, kept: bool = True, hourly: bool = False) -> Floats:
    """The members' mean and past errors of all outcomes together, or of each outcome by itself."""
    location = problem.members.mean(1)
    errors = (problem.outcomes - location)[problem.known]
    return _clipped(problem, location[problem.test], errors, kept, hourly)


def normal_errors(problem: Problem) -> Floats:
    """Outcomes that are normal and independent of each other, with the mean and spread of past errors."""
    location = problem.members.mean(1)
    errors = (problem.outcomes - location)[problem.known]
    drawn = np.random.default_rng(0).normal(size=(_VECTORS, errors.shape[1]))
    members = location[problem.test][:, None] + errors.mean(0) + errors.std(0) * drawn
    return np.clip(members, *problem.bounds)


def ridge_with_errors(problem: Problem, features: bool = True) -> Floats:
    """Every outcome by ridge regression on the whole forecast, the hour, the season and the features; past errors."""
    columns = [problem.members.reshape(len(problem.times), -1), _calendar(problem)]
    if features and problem.features is not None:
        columns.append(problem.features.to_numpy())
    known, test = problem.known, problem.test
    design = np.concatenate(columns, 1)
    design = StandardScaler().fit(design[known]).transform(design)
    # Errors of cases that the location has not seen, in five stretches of time.
    location = RidgeCV(_PENALTIES).fit(design[known], problem.outcomes[known])
    errors = []
    for held in np.array_split(known, 5):
        others = known[~np.isin(known, held)]
        fit = RidgeCV([location.alpha_]).fit(design[others], problem.outcomes[others])
        errors.append(problem.outcomes[held] - fit.predict(design[held]).reshape(len(held), -1))
    predicted = location.predict(design[test]).reshape(len(test), -1)
    return _clipped(problem, predicted, np.concatenate(errors), True, False)


def power_curves_with_errors(problem: Problem) -> Floats:
    """The power of every farm by an isotonic fit on the forecast wind speed; past errors."""
    assert problem.features is not None
    speeds = problem.features[[column for column in problem.features if column.startswith("ws100")]].to_numpy()
    location = np.empty_like(problem.outcomes)
    for farm, speed in enumerate(speeds.T):
        fit = IsotonicRegression(out_of_bounds="clip").fit(speed[problem.known], problem.outcomes[problem.known, farm])
        location[:, farm] = fit.predict(speed)
    errors = (problem.outcomes - location)[problem.known]
    return _clipped(problem, location[problem.test], errors, True, False)


def _clipped(problem: Problem, location: Floats, errors: Floats, kept: bool, hourly: bool) -> Floats:
    """Location and 200 error vectors of the known cases, of the same hour if asked for, within the bounds."""
    generator = np.random.default_rng(0)
    hours = problem.times.astype("datetime64[h]").astype(np.int64) % 24 if hourly else np.zeros(len(problem.times), int)
    members = np.empty((len(location), _VECTORS, errors.shape[1]))
    for hour in np.unique(hours):
        of_hour = errors[hours[problem.known] == hour]
        taken = of_hour[generator.choice(len(of_hour), _VECTORS, replace=len(of_hour) < _VECTORS)]
        if not kept:
            taken = generator.permuted(taken, axis=0)
        alike = hours[problem.test] == hour
        members[alike] = location[alike][:, None] + taken
    return np.clip(members, *problem.bounds) if any(bound is not None for bound in problem.bounds) else members


def _calendar(problem: Problem) -> Floats:
    hour = problem.times.astype("datetime64[h]").astype(np.int64) % 24
    angle = 2 * np.pi * ((problem.times - np.datetime64("2000-01-01")) / _YEAR)
    weekday = (problem.times.astype("datetime64[D]").astype(np.int64) + 3) % 7
    waves = [np.cos(angle), np.sin(angle)]
    return np.concatenate([np.eye(24)[hour], np.eye(7)[weekday], np.stack(waves, 1)], 1)


def _grouped(problem: Problem) -> list[tuple[Rows, Rows, NDArray[np.bool_]]]:
    """The known and the test rows of each group, and the places of the latter among all that test."""
    groups = np.zeros(len(problem.times), np.int64) if problem.groups is None else problem.groups
    known, test = problem.known, problem.test
    return [
        (known[groups[known] == group], test[groups[test] == group], groups[test] == group)
        for group in np.unique(groups[test])
    ]


def _density(z: Floats) -> Floats:
    return np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)


_TEMPERATURE: Mapping[str, Rival] = {
    "regression by CRPS": regression,
    "regression by CRPS, with season": lambda problem: regression(problem, season=True),
}
_RAIN: Mapping[str, Rival] = {
    "censored regression by CRPS": regression,
    "the same on roots": lambda problem: regression(problem, root=True),
    "isotonic distributional regression": isotonic,
}
_TOTAL: Mapping[str, Rival] = {
    "censored regression, members' order": lambda problem: coupled_regression(problem, True, True),
    "censored regression, order lost": lambda problem: coupled_regression(problem, False, True),
    "isotonic regression of the total": isotonic_total,
}
_LOAD: Mapping[str, Rival] = {
    "past error vectors": error_vectors,
    "past errors, dependence lost": lambda problem: error_vectors(problem, kept=False),
    "normal, independent zones": normal_errors,
    "past error vectors of the hour": lambda problem: error_vectors(problem, hourly=True),
    "ridge and error vectors": ridge_with_errors,
}
_PRICES: Mapping[str, Rival] = {
    "regression by CRPS": regression,
    "regression by CRPS on each model": lambda problem: regression(problem, each_member=True),
    "mean and past errors": error_vectors,
    "ridge and past errors": ridge_with_errors,
}
_WIND: Mapping[str, Rival] = {
    "past error vectors": error_vectors,
    "ridge without weather, error vectors": lambda problem: ridge_with_errors(problem, features=False),
    "ridge with weather, error vectors": ridge_with_errors,
    "power curves, error vectors": power_curves_with_errors,
}
RIVALS: Mapping[str, Mapping[str, Rival]] = {
    start: {"raw": raw, **rivals}
    for start, rivals in {
        "Innsbruck": _TEMPERATURE,
        "Frankfurt rain, leads": _RAIN,
        "Frankfurt rain of": _TOTAL,
        "New York": _LOAD,
        "prices": _PRICES,
        "GEFCom2014": _WIND,
    }.items()
}
"""By the beginning of a problem's name: its rivals."""
