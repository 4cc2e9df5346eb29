"""Bounds that outcomes cannot cross, such as 0 or a capacity: given, known of the cost, or found in the data."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stakes.argument_checks import require_finite
from stakes.costs.cost import plain_cost_of, stated
from stakes.data.forecasts.layout import Pair
from stakes.errors import SettingError
from stakes.text import number_text

Floats = NDArray[np.float64]

_LEAST_TIES, _LEAST_SHARE = 10, 0.01  # of the rows, at an atom
_NAMED = 3  # outcomes, in a sentence
_NEIGHBOURS, _TIMES = 3, 3  # an atom has so many times the rows of each of the next values


@dataclass(frozen=True)
class OutcomeBounds:
    """What each outcome lies between."""

    pairs: tuple[Pair, ...]  # the bounds of each outcome
    source: Literal["given", "cost", "found"]

    def __post_init__(self) -> None:
        for pair in self.pairs:
            _require_pair(pair)

    def clip(self, members: Tensor) -> Tensor:
        """Members (..., D) with those beyond a bound drawn to it."""
        lower, upper = (
            members.new_tensor([end if bound is None else bound for bound in bounds])
            for bounds, end in zip(zip(*self.pairs, strict=True), (-torch.inf, torch.inf), strict=True)
        )
        return torch.minimum(torch.maximum(members, lower), upper)

    def sentences(self, names: Sequence[str]) -> tuple[str, ...]:
        """What a user should know of bounds that nobody gave."""
        if self.source == "given":
            return ()
        alike: dict[tuple[str, float], list[str]] = {}
        for name, pair in zip(names, self.pairs, strict=True):
            for words, bound in zip(("below", "above"), pair, strict=True):
                if bound is not None:
                    alike.setdefault((words, bound), []).append(name)
        why = "a bound of the cost" if self.source == "cost" else "which many outcomes equal exactly"
        return tuple(
            f"Members of {_first_names(of)} are clipped {words} {number_text(bound)}, {why} (outcome_bounds)."
            for (words, bound), of in alike.items()
        )


def _first_names(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def outcome_bounds(given: Pair | Literal["auto"] | None, cost: object, outcome: Tensor) -> OutcomeBounds | None:
    """The bounds of outcomes, or None where there are none."""
    if given is None:
        return None
    width = outcome.shape[1]
    values = outcome.double().cpu().numpy()
    if given != "auto":
        bounds = OutcomeBounds((_checked_pair(given),) * width, "given")
        if outside := _rows_outside(bounds, values):
            low, high = ("none" if bound is None else f"{bound:g}" for bound in bounds.pairs[0])
            beyond = f"{outside} of {len(values)} rows lie outside {low} to {high}"
            raise SettingError(f"outcome_bounds must hold all outcomes, but {beyond}")
        return bounds
    known = stated(plain_cost_of(cost), "outcome_bounds")
    if known is not None:
        bounds = OutcomeBounds((_checked_pair(known),) * width, "cost")
        if not _rows_outside(bounds, values):
            return bounds
    atoms = OutcomeBounds(tuple(_atoms(column) for column in values.T), "found")
    return atoms if any(bound is not None for pair in atoms.pairs for bound in pair) else None


def within_bounds(members: Tensor, bounds: OutcomeBounds | None) -> Tensor:
    """Members (..., D) drawn to the bounds of their outcomes."""
    return members if bounds is None else bounds.clip(members)


def written_pair(text: str) -> Pair | Literal["auto"] | None:
    """The bounds that a user writes: "auto", "none", or two numbers such as "0,1", either of which may be left out.

    >>> written_pair("0,")
    (0.0, None)
    """
    if text in ("auto", "none"):
        return "auto" if text == "auto" else None
    parts = [part.strip() for part in text.split(",")]
    try:
        lower, upper = (float(part) if part else None for part in parts)
    except ValueError:
        raise SettingError(f'outcome_bounds must be auto, none or two numbers such as "0,1", got {text!r}') from None
    return _checked_pair((lower, upper))


def _checked_pair(pair: Any) -> Pair:
    if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
        raise SettingError(f'outcome_bounds must be "auto", None or a lower and an upper bound, got {pair!r}')
    lower, upper = (None if bound is None else float(bound) for bound in pair)
    _require_pair((lower, upper))
    return lower, upper


def _require_pair(pair: Pair) -> None:
    for bound in pair:
        if bound is not None:
            require_finite("outcome_bounds", bound)
    lower, upper = pair
    if lower is not None and upper is not None and lower >= upper:
        raise SettingError(f"outcome_bounds must have a lower bound below the upper one, got {lower:g} and {upper:g}")


def _rows_outside(bounds: OutcomeBounds, values: NDArray[np.float64]) -> int:
    return int((bounds.clip(torch.from_numpy(values)).numpy() != values).any(1).sum())


def _atoms(column: NDArray[np.float64]) -> Pair:
    """0 where many values lie at this minimum, and the maximum where many lie there: many more than beside it."""
    values, counts = np.unique(column, return_counts=True)
    return (
        0.0 if values[0] == 0 and _is_atom(counts) else None,
        float(values[-1]) if _is_atom(counts[::-1]) else None,
    )


def _is_atom(counts: NDArray[np.int64]) -> bool:
    """Whether the first value has so many more rows than the next ones that it must be a bound."""
    if len(counts) <= _NEIGHBOURS or counts[0] < max(_LEAST_TIES, _LEAST_SHARE * counts.sum()):
        return False
    return bool(counts[0] >= _TIMES * counts[1 : 1 + _NEIGHBOURS].max())


def given_bounds(bounds: Pair | Literal["auto"] | None) -> OutcomeBounds | None:
    """The bounds that a user has given; None where there are none, or they are to be found."""
    return OutcomeBounds((bounds,), "given") if isinstance(bounds, tuple) else None


def within(members: Floats, bounds: OutcomeBounds | None) -> Floats:
    """Members of any shape between the bounds, which all targets share."""
    if bounds is None:
        return members
    lower, upper = bounds.pairs[0]
    return np.clip(members, -np.inf if lower is None else lower, np.inf if upper is None else upper)
