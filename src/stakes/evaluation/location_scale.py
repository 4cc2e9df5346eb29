"""Regression of location and scale by the least mean CRPS, also of outcomes that cannot cross their bounds.

With F the distribution of the standardised error, z = (y - location) / scale, and l and u the bounds likewise, members
drawn to the bounds have the CRPS

    scale (A(z) - A(l) + A(-z) - A(-u)),    A(t) = integral of F^2 up to t,

for every symmetric F, and its derivatives need F alone. Location and log scale are what the forecast itself says plus a
sum of terms, each with a coefficient that is drawn towards 0: without any case the forecast stays what it is.
"""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Family", "LocationScaleCases", "crps_and_slopes", "family_quantiles", "fit_coefficients"]

Family = Literal["normal", "logistic"]
"""The distribution of a standardised error."""

Floats = NDArray[np.float64]

_ITERATIONS = 200


class LocationScaleCases(NamedTuple):
    """Past cases of one outcome to learn from, all in one unit.

    Attributes:
        outcome: What happened, (N,).
        location: What the forecast says of it, (N,).
        log_scale: What it says of its own error, (N,), as a logarithm.
        location_terms: Standardised terms (N, P) that may move the location, in units of `unit`.
        scale_terms: Standardised terms (N, Q) that may move the log scale.
        weight: How much each case counts, (N,), with a mean of 1.
        unit: The size of an error, by which location terms and CRPS are measured.
        lower: What the outcome cannot fall below; minus infinity for no such bound.
        upper: What it cannot exceed; infinity for no such bound.
    """

    outcome: Floats
    location: Floats
    log_scale: Floats
    location_terms: Floats
    scale_terms: Floats
    weight: Floats
    unit: float
    lower: float = -np.inf
    upper: float = np.inf


def fit_coefficients(cases: LocationScaleCases, family: Family, location_pull: Floats, scale_pull: Floats) -> Floats:
    """The coefficients (P + Q,), first those of the location: of the least mean CRPS and sum of squares.

    The mean CRPS over the unit, plus 1/N of the sum of pull times squared coefficient, is least.

    Args:
        cases: The past cases.
        family: The distribution of a standardised error.
        location_pull: How strongly each coefficient of the location is drawn to 0, (P,): as so many cases would.
        scale_pull: The same for the log scale, (Q,).
    """
    from scipy.optimize import minimize  # type: ignore[import-untyped]  # not at once: deciding needs none of it

    pull = np.concatenate([location_pull, scale_pull]) / cases.weight.sum() ** 2 * np.square(cases.weight).sum()
    parts, terms = len(location_pull), (cases.location_terms.T.copy(), cases.scale_terms.T.copy())
    shares = cases.weight / cases.weight.sum() / cases.unit

    def objective(coefficients: Floats) -> tuple[float, Floats]:
        location = cases.location + cases.unit * (coefficients[:parts] @ terms[0])
        log_scale = cases.log_scale + coefficients[parts:] @ terms[1]
        crps, by_location, by_log_scale = crps_and_slopes(
            family, cases.outcome, location, np.exp(log_scale.clip(-50, 50)), cases.lower, cases.upper
        )
        slopes = np.concatenate([terms[0] @ (shares * by_location) * cases.unit, terms[1] @ (shares * by_log_scale)])
        value = shares @ crps + pull @ np.square(coefficients)
        return float(value), slopes + 2 * pull * coefficients

    start = np.zeros(len(pull))
    minimum = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": _ITERATIONS, "ftol": 1e-9})
    return np.asarray(minimum.x, dtype=np.float64)


def crps_and_slopes(
    family: Family, outcome: Floats, location: Floats, scale: Floats, lower: float = -np.inf, upper: float = np.inf
) -> tuple[Floats, Floats, Floats]:
    """The CRPS (N,) of the family drawn to the bounds, and its derivatives by location and by log scale.

    Args:
        family: The distribution of a standardised error.
        outcome: What happened, (N,), within the bounds.
        location: The centre of each forecast, (N,), before it is drawn to the bounds.
        scale: Its scale, (N,), positive.
        lower: What the outcome cannot fall below; minus infinity for no such bound.
        upper: What it cannot exceed; infinity for no such bound.
    """
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


def family_quantiles(family: Family, levels: Floats) -> Floats:
    """The quantiles of a standardised error.

    Args:
        family: Its distribution.
        levels: Levels between 0 and 1.
    """
    from scipy.special import logit, ndtri  # type: ignore[import-untyped]

    return np.asarray(ndtri(levels) if family == "normal" else logit(levels), dtype=np.float64)


def _of_family(family: Family):  # type: ignore[no-untyped-def]
    """F, and A, the integral of its square from below."""
    from scipy.special import expit, ndtr

    if family == "logistic":
        return expit, lambda t: np.logaddexp(0, t) - expit(t)
    return ndtr, _normal_integral


def _normal_integral(t: Floats) -> Floats:
    from scipy.special import ndtr

    chance, density = ndtr(t), np.exp(-t * t / 2) / np.sqrt(2 * np.pi)
    return np.asarray(t * chance**2 + 2 * chance * density - ndtr(np.sqrt(2) * t) / np.sqrt(np.pi))
