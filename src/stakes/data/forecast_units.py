"""Are the numbers of a forecast in one unit, and in that of its outcomes?

Kelvin among degrees Celsius lies far from all else, and MW among GW varies a thousand times as much. A forecast may be
badly wrong without either. A bias would hide such a slip: it is refused, before anything is learned from it. Medians
and deviations are those of most cases: a code for a missing value, or another slip in a few of them, is no unit.
"""

import numpy as np
from numpy.typing import NDArray

from stakes.data.missing_codes import without_codes
from stakes.errors import TableError
from stakes.number_text import number_text

__all__ = ["require_one_unit", "require_unit_of_outcomes", "unit_of_outcomes_doubts"]

Floats = NDArray[np.float64]
_LEAST_CASES = 10  # to tell units apart
_MANY_CASES = 50  # among which a spell of other weather, or of other prices, does not look like another unit
_MAGNITUDE = 10.0  # times as large, for fewer cases
_FAR = 10.0  # standard deviations between medians: 273 K are 30 of them in most climates
_OTHER_SIZE = 0.5  # of the larger median: members around 62 and around 81 are two clusters, in one unit
_MOST = 0.75  # of the cases that differ from the median tell how far values lie from it
_STRAY, _FEW = 10.0, 0.02  # times as far, and the share of all cases that may lie there
_WIDE = 50.0  # times the other standard deviation: a hundred for percent among fractions


def require_one_unit(members: Floats, name: str) -> None:
    """Raise where a member of many cases cannot be in the unit of the others.

    Args:
        members: Members (N, M, D); fewer than three members, or ten cases, tell nothing.
        name: What messages call the file.
    """
    cases, count, _ = members.shape
    if cases < _LEAST_CASES or count < 3:
        return
    medians, deviations = np.median(members, axis=0), _deviations(members)  # (M, D)
    centre, usual = np.median(medians, axis=0), np.median(deviations, axis=0)  # (D,)
    odd = np.argwhere(_unlike(medians, deviations, centre, usual))
    if len(odd):
        member, target = odd[0]
        raise TableError(
            f"{name} has a member that cannot be in the unit of the others: member {member + 1} lies around "
            f"{_text(medians[member, target])}, the others around {_text(centre[target])}; give all in one unit"
        )


def require_unit_of_outcomes(members: Floats, outcomes: Floats, targets: tuple[str, ...], name: str) -> None:
    """Raise where the forecast cannot be in the unit of what happened.

    Args:
        members: Members (N, M, D) of past forecasts; fewer than ten cases tell nothing.
        outcomes: What happened, (N, D).
        targets: The names of the D outcomes.
        name: What messages call the forecast.
    """
    for doubt in unit_of_outcomes_doubts(members, outcomes, targets, name):
        raise TableError(doubt)


def unit_of_outcomes_doubts(members: Floats, outcomes: Floats, targets: tuple[str, ...], name: str) -> tuple[str, ...]:
    """A sentence where the forecast cannot be in the unit of what happened.

    Args:
        members: Members (N, M, D) of past forecasts; fewer than ten cases tell nothing.
        outcomes: What happened, (N, D), NaN where it is missing; codes for missing values are left out.
        targets: The names of the D outcomes.
        name: What messages call the forecast.
    """
    known = ~np.isnan(without_codes(np.concatenate([members, outcomes[:, None]], axis=1))).any((1, 2))
    members, outcomes = members[known], outcomes[known]
    if len(members) < _LEAST_CASES:
        return ()
    forecast = members.mean(axis=1)  # (N, D)
    medians, seen = np.median(forecast, axis=0), np.median(outcomes, axis=0)
    unlike = _unlike(medians, _deviations(forecast), seen, _deviations(outcomes))
    odd = np.flatnonzero(unlike & ((len(members) >= _MANY_CASES) | _of_another_size(medians, seen)))
    return tuple(
        f"{name} cannot be in the unit of its outcomes: {targets[place]} is forecast around "
        f"{_text(medians[place])} and happens around {_text(seen[place])}; give both in one unit"
        for place in odd[:1]
    )


def _deviations(values: Floats) -> Floats:
    """Standard deviations (...) of numbers (N, ...), without the few that lie far beyond most others.

    Numbers equal to the median, as most of rain are, do not tell how far the others lie from it.
    """
    away = np.abs(values - np.median(values, axis=0))
    differ = np.where(away > 0, away, np.nan)
    some = ~np.isnan(differ).all(0)
    usual = np.full(away.shape[1:], np.inf)
    usual[some] = np.nanquantile(differ[:, some], _MOST, axis=0)
    stray = (away > _STRAY * usual) & (away > np.quantile(away, 1 - _FEW, axis=0))
    deviations: Floats = values.std(axis=0, where=~stray)
    return deviations


def _unlike(medians: Floats, deviations: Floats, centre: Floats, usual: Floats) -> NDArray[np.bool_]:
    """Whether medians lie far from others, or values vary far more or less, where they vary at all."""
    smaller, larger = np.minimum(deviations, usual), np.maximum(deviations, usual)
    apart, largest = np.abs(medians - centre), np.maximum(np.abs(medians), np.abs(centre))
    far = (apart > _FAR * larger) & (apart > _OTHER_SIZE * largest)
    return np.asarray((larger > 0) & (far | ((smaller > 0) & (larger > _WIDE * smaller))))


def _of_another_size(one: Floats, two: Floats) -> NDArray[np.bool_]:
    """Whether numbers that are not 0, as in weeks without rain, have other signs, or other magnitudes."""
    smaller, larger = np.minimum(np.abs(one), np.abs(two)), np.maximum(np.abs(one), np.abs(two))
    return np.asarray((smaller > 0) & ((one * two < 0) | (larger > _MAGNITUDE * smaller)))


def _text(value: np.float64) -> str:
    return number_text(float(f"{value:.3g}"))
