"""Columns that reproduce the outcome of the target time, as no forecast can: the outcome itself, or a copy in a unit.

What is known in time may be as near to the outcome as persistence of a smooth series is. So a column is measured by how
far outcomes move from one case to the next, in those cases in which they move: a lag errs there by a whole step, and a
column of zeros says nothing of rare demand.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stakes.data.forecasts.forecast_set import ForecastSet
from stakes.errors import StakesWarning, listed

Floats = NDArray[np.float64]
_NEARLY = 0.05  # of the usual step from one case to the next
_MOST = 0.98  # of the cases: a few may be missing or misread
_LEAST_CASES, _CASES = 30, 2000  # in which outcomes move: to say anything, and that are looked at
_COLUMNS = 500  # at once


def leaks(features: Floats, names: Sequence[str], outcomes: Floats, targets: Sequence[str]) -> tuple[str, ...]:
    """A sentence for each outcome that columns reproduce."""
    found = ((target, reproduced(features, values)) for target, values in zip(targets, outcomes.T, strict=True))
    return tuple(
        _sentence([repr(name) for name, is_leak in zip(names, each, strict=True) if is_leak], target)
        for target, each in found
        if each.any()
    )


def forecast_leaks(given: ForecastSet) -> tuple[str, ...]:
    """The same of past forecasts, their mean, their members, and the features beside them."""
    assert given.outcomes is not None
    told = [key for key in (given.times, given.leads, given.sites) if key is not None]
    order = np.lexsort(told) if told else np.arange(len(given))
    groups = [key[order] for key in (given.leads, given.sites) if key is not None]
    starts = np.logical_or.reduce([key[1:] != key[:-1] for key in groups]) if groups else None
    beside = np.zeros((len(given), 0)) if given.features is None else given.features.to_numpy(np.float64)
    numbered = tuple(f"member {place + 1}" for place in range(given.members.shape[1]))
    features = [] if given.features is None else [repr(str(column)) for column in given.features.columns]
    notes = []
    for place, target in enumerate(given.targets):
        members = given.members[:, :, place]
        columns = np.concatenate([members.mean(1, keepdims=True), members, beside], axis=1)
        found = reproduced(columns[order], given.outcomes[order, place], starts)
        if found[0]:
            found[1 : 1 + members.shape[1]] = False  # which their mean stands for
        own = tuple(map(repr, given.columns[place])) if given.columns else ()
        names = [f"the forecast {own[0]}" if len(own) == 1 else "the forecast", *(own or numbered), *features]
        which = [name for name, is_leak in zip(names, found, strict=True) if is_leak]
        notes += (
            [_sentence(which, target, _OF_FEATURES if set(which) & set(features) else _OF_FORECAST)] if which else []
        )
    return tuple(notes)


def reproduced(columns: Floats, outcome: Floats, starts: NDArray[Any] | None = None) -> NDArray[np.bool_]:
    """Whether each of F columns (N, F) is the outcome (N,), in its unit or in another."""
    steps = np.diff(outcome)
    within = np.full(len(steps), True) if starts is None else ~starts
    moved = np.flatnonzero((steps != 0) & within) + 1
    if len(moved) < _LEAST_CASES:
        return np.full(columns.shape[1], False)
    chosen, every = moved[:: -(-len(moved) // _CASES)], slice(None, None, -(-len(outcome) // _CASES))
    seen = outcome[chosen, None]
    errors = [
        np.minimum(_error(part[chosen], seen), _error(_on_line(part[chosen], part[every], outcome[every, None]), seen))
        for first in range(0, columns.shape[1], _COLUMNS)
        for part in [columns[:, first : first + _COLUMNS]]
    ]
    allowed = _NEARLY * float(np.median(np.abs(steps[moved - 1] - steps[within].mean())))  # a drift is foreseen
    return np.concatenate(errors) <= allowed if errors else np.zeros(0, bool)


def warn_of_leaks(notes: Sequence[str]) -> None:
    """Warn of each in Python; commands tell warnings on standard error."""
    for note in notes:
        warnings.warn(note, StakesWarning, stacklevel=3)


def _error(columns: Floats, seen: Floats) -> Floats:
    errors: Floats = np.quantile(np.abs(columns - seen), _MOST, axis=0)
    return errors


def _on_line(columns: Floats, all_columns: Floats, all_seen: Floats) -> Floats:
    """Columns (n, F) in the unit of the outcome, by the line through all cases (N, F) and outcomes (N, 1)."""
    means, mean = all_columns.mean(0), all_seen.mean()
    centred = all_columns - means
    squares = (centred**2).sum(0)
    slopes = np.divide((centred * (all_seen - mean)).sum(0), squares, out=np.zeros_like(squares), where=squares > 0)
    on_line: Floats = mean + slopes * (columns - means)
    return on_line


_OF_FEATURES = (
    "Leave out every feature that is not known when the forecast is made; if all are known by then, the forecast is as "
    "good as it looks."
)
_OF_FORECAST = "Make sure that it was made before the outcome was known; if it was, it is as good as it looks."


def _sentence(names: Sequence[str], target: str, advice: str = _OF_FEATURES) -> str:
    who = listed(names)
    verb = "reproduces" if len(names) == 1 else "reproduce"
    return (
        f"Warning: {who} {verb} the outcome {target!r} of the target time almost exactly, so the forecast may have "
        f"seen what it is judged by. {advice}"
    )
