"""Errors as they were known when a forecast was made: none of an outcome that came later than that.

A case is forecast a lead time before it happens. Only what happened before that moment may correct it, and only
forecasts that were fitted on even earlier cases have errors worth learning from.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stakes.data.estimator_input import checked_times
from stakes.errors import SettingError, ShapeError
from stakes.evaluation.corrections import Correction, checked_forecasts
from stakes.evaluation.shift_and_factor import LEAST_CASES
from stakes.method.argument_checks import require_count

__all__ = ["MemberForecaster", "RollingForecasts", "corrected_in_time", "known_cases", "rolling_forecasts"]

_BLOCKS = 20  # of cases that share a correction, unless a block is given


class MemberForecaster(Protocol):
    """Whatever draws members from features, as a fitted `stakes.DecisionAwareForecaster` does."""

    def sample(self, X: Any, /) -> ArrayLike:  # noqa: N803 as scikit-learn calls it
        """Members (n, M, D) of some rows."""
        ...


class RollingForecasts(NamedTuple):
    """Forecasts of the later cases, each by a fit on cases before it.

    Attributes:
        rows: Which cases these are.
        members: Their members (n, M, D).
    """

    rows: slice
    members: NDArray[Any]


def known_cases(rows: slice, cases: int, times: Any = None, lead: ArrayLike = 0.0) -> int:
    """How many cases, the first ones, happened before any of these rows was forecast, a lead time ahead of it.

    >>> known_cases(slice(10, 15), 20, lead=3)
    7
    >>> known_cases(slice(10, 15), 20, np.datetime64("2020-01-01T00") + np.arange(20), lead=3.0)  # hourly
    7

    Args:
        rows: The rows that are forecast, in steps of 1.
        cases: N, how many cases there are, in the order of time.
        times: When they happen (N,); None where it is not known.
        lead: How long before it happens a case is forecast, one for all or one of each, (N,): in hours, or in rows
            where there are no times.
    """
    happens, issued = _moments(cases, times, lead)
    first = range(cases)[rows]
    return min(first.start, int(np.searchsorted(happens, issued[rows].min(), side="left")))


def corrected_in_time(
    members: ArrayLike,
    outcomes: ArrayLike,
    times: Any = None,
    *,
    lead: ArrayLike = 0.0,
    block: int | None = None,
    newest: int | None = None,
    fit: Callable[..., Correction] = Correction.fit,
) -> NDArray[np.floating]:
    """The members (N, M, D) corrected as they could have been at the time, block by block.

    Each block of neighbouring cases is corrected by the errors of cases that happened before its first forecast was
    made. Blocks before which fewer than 50 cases are known stay as they are.

    Args:
        members: Members (N, M, D) of forecasts that did not see the outcomes, in the order of time.
        outcomes: What happened, (N, D).
        times: When it happened (N,); None where it is not known.
        lead: How long before it happens a case is forecast, one for all or one of each, (N,): in hours, or in rows
            where there are no times.
        block: How many neighbouring cases share a correction; None for a twentieth of them.
        newest: Of the known cases only so many, the newest, are learned from; None takes all.
        fit: Makes a correction of members, outcomes, times and `leads`: `Correction.fit`, or a partial of it that says
            by what cases are grouped.
    """
    forecasts, seen = checked_forecasts(members, outcomes)
    cases = len(seen)
    size = max(1, cases // _BLOCKS) if block is None else block
    require_count("block", size)
    if newest is not None:
        require_count("newest", newest, LEAST_CASES)
    moments, leads = checked_times(times, cases), _leads(cases, lead)
    corrected = np.array(members)
    for start in range(0, cases, size):
        rows = slice(start, min(start + size, cases))
        known = known_cases(rows, cases, moments, leads)
        if known < LEAST_CASES:
            continue
        past = slice(0 if newest is None else max(0, known - newest), known)
        when = [None if moments is None else moments[each] for each in (past, rows)]
        correction = fit(forecasts[past], seen[past], when[0], leads=leads[past])
        corrected[rows] = correction.apply(forecasts[rows], when[1], leads=leads[rows])
    return corrected


def rolling_forecasts(
    fit: Callable[[slice], MemberForecaster],
    features: Any,
    times: Any = None,
    *,
    lead: ArrayLike = 0.0,
    origins: int = 4,
    first: int | None = None,
) -> RollingForecasts:
    """Forecasts of the later cases as a forecaster makes them that is fitted again and again.

    The cases from `first` on are divided into blocks, and each block is forecast by a fit on the cases that happened
    before its first forecast was made. Their errors are what a fit on all cases, which has none of its own, may be
    corrected by.

    Args:
        fit: Fits on some rows, the first ones, and returns what draws members from features.
        features: Features of all N cases, in the order of time: an array or tensor (N, F).
        times: When the cases happen (N,); None where it is not known.
        lead: How long before it happens a case is forecast, one for all or one of each, (N,): in hours, or in rows
            where there are no times.
        origins: How many blocks there are, and so how many fits.
        first: The first case that is forecast; None for the middle one.
    """
    require_count("origins", origins)
    cases = len(features)
    begin = cases // 2 if first is None else first
    require_count("first", begin)
    if cases - begin < origins:
        raise SettingError(f"first must leave a case for each of {origins} origins, got {begin} of {cases} cases")
    moments, leads = checked_times(times, cases), _leads(cases, lead)
    parts = [
        np.asarray(_fitted(fit, known_cases(rows, cases, moments, leads), rows).sample(features[rows]))
        for rows in _blocks(begin, cases, origins)
    ]
    return RollingForecasts(slice(begin, cases), np.concatenate(parts))


def _blocks(begin: int, end: int, count: int) -> Iterator[slice]:
    edges = [round(edge) for edge in np.linspace(begin, end, count + 1)]
    yield from map(slice, edges[:-1], edges[1:])


def _fitted(fit: Callable[[slice], MemberForecaster], known: int, rows: slice) -> MemberForecaster:
    if known < 1:
        raise SettingError(f"first must leave cases that are known when case {rows.start} is forecast, got none")
    return fit(slice(0, known))


def _leads(cases: int, lead: ArrayLike) -> NDArray[np.float64]:
    try:
        leads = np.broadcast_to(np.asarray(lead, dtype=np.float64), (cases,))
    except (TypeError, ValueError) as error:
        raise ShapeError(f"lead must be one number or one of each of the {cases} cases, got {lead!r}") from error
    if not (np.isfinite(leads) & (leads >= 0)).all():
        raise SettingError("lead must be finite and not negative: nothing is forecast after it happened")
    return leads


def _moments(cases: int, times: Any, lead: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """When each case happens and when it is forecast, in seconds or rows, (N,)."""
    moments, leads = checked_times(times, cases), _leads(cases, lead)
    happens = np.arange(cases, dtype=np.float64) if moments is None else moments.astype(np.int64).astype(np.float64)
    return happens, happens - leads * (1.0 if moments is None else 3600.0)
