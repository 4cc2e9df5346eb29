"""A forecast mended by its own past errors: small, to be looked at, and saved as JSON."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stakes.errors import NonFiniteError, SettingError, ShapeError
from stakes.evaluation.case_groups import Grouping, group_names
from stakes.evaluation.member_order import error_ranks, reordered
from stakes.evaluation.shift_and_factor import LEAST_CASES, Mended, believed_shift_and_factor
from stakes.settings import JsonText

__all__ = ["Correction", "ShiftAndFactor", "checked_forecasts"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ShiftAndFactor:
    """How the members of some cases are corrected: x becomes mean + shift + factor (x - mean).

    Attributes:
        cases: From how many cases it was learned.
        shift: How far the members of each outcome move, in its unit, (D,).
        factor: By how much they are spread about their mean, (D,).
    """

    cases: int
    shift: tuple[float, ...]
    factor: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.shift or len(self.shift) != len(self.factor):
            raise ShapeError(
                f"shift and factor must have one number for each outcome, got {len(self.shift)} and {len(self.factor)}"
            )
        if min(self.factor) < 0:
            raise SettingError(f"factor must not be negative, got {min(self.factor)}")

    @classmethod
    def of(cls, cases: int, mended: Mended) -> Self:
        """From numbers of numpy."""
        return cls(cases, tuple(mended.shift.tolist()), tuple(mended.factor.tolist()))

    @property
    def mended(self) -> Mended:
        """As numbers of numpy."""
        return Mended(np.array(self.shift), np.array(self.factor))


@dataclass(frozen=True)
class Correction(JsonText):
    """What past errors say about a forecast: a shift and a factor of each outcome, and how outcomes go together.

    Shift and factor are those of the least CRPS, shrunk towards 0 and 1 as far as they may be due to chance
    (`stakes.evaluation.shift_and_factor`): a forecast that is calibrated already is left nearly as it is. A group of
    cases, such as an hour of the day, has its own where there are at least 50 cases of it, shrunk towards those of all.

    Attributes:
        overall: Shift and factor of cases without a group of their own.
        groups: Those of a group by its name, such as "hour 06".
        by: What cases are grouped by.
        order: The ranks of past error vectors (K, D), by which members of several outcomes are put together; None
            leaves them together as they come.
        lower: What no member of each outcome falls below, (D,); None for no such bound.
        upper: What no member of each outcome exceeds, (D,); None for no such bound.

    >>> import numpy as np, stakes
    >>> random = np.random.default_rng(0)
    >>> known = random.normal(size=(1000, 1, 1))
    >>> members = known + 0.5 * random.normal(size=(1000, 20, 1))  # too narrow, and 1 too low
    >>> outcomes = known[:, 0] + 1 + random.normal(size=(1000, 1))
    >>> correction = stakes.Correction.fit(members[:800], outcomes[:800])
    >>> round(correction.overall.shift[0], 1), round(correction.overall.factor[0], 1)
    (1.0, 2.0)
    >>> correction.apply(members[800:]).shape
    (200, 20, 1)
    """

    overall: ShiftAndFactor
    groups: dict[str, ShiftAndFactor] = field(default_factory=dict)
    by: tuple[Grouping, ...] = ()
    order: tuple[tuple[int, ...], ...] | None = None
    lower: tuple[float, ...] | None = None
    upper: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        widths = {f"groups.{name}": len(group.shift) for name, group in self.groups.items()}
        for name in ("lower", "upper"):
            if (bounds := getattr(self, name)) is not None:
                widths[name] = len(bounds)
        for row in self.order or ():
            widths["order"] = len(row)
            if len(row) != self.outcomes:
                break
        for name, width in widths.items():
            if width != self.outcomes:
                raise ShapeError(f"{name} must be of the {self.outcomes} outcomes, got {width}")
        if self.order is not None and not self.order:
            raise ShapeError("order must have at least one error vector, got none")
        if self.lower is not None and self.upper is not None:
            for low, high in zip(self.lower, self.upper, strict=True):
                if not low < high:
                    raise SettingError(f"lower must lie below upper, got {low} and {high}")

    @property
    def outcomes(self) -> int:
        """D, how many outcomes a case has."""
        return len(self.overall.shift)

    @classmethod
    def fit(
        cls,
        members: ArrayLike,
        outcomes: ArrayLike,
        times: Any = None,
        *,
        leads: ArrayLike | None = None,
        by: Sequence[Grouping] = (),
        dependence: Literal["members", "errors"] = "members",
        lower: ArrayLike | None = None,
        upper: ArrayLike | None = None,
    ) -> Self:
        """Learn from past forecasts and what happened then.

        Args:
            members: Members (N, M, D) of at least 50 past forecasts, in the order of time; at least two members. The
                forecasts must not have seen the outcomes.
            outcomes: What happened, (N, D).
            times: When it happened (N,), for groups by season or hour; None where there are none.
            leads: How many hours ahead it was forecast (N,), for groups by lead; None where there are none.
            by: What cases are grouped by: "season", "hour", "lead" or several of them; nothing makes one group of all.
            dependence: How members of several outcomes go together: as the "members" do already, or as past "errors"
                did, by up to 200 error vectors.
            lower: What no outcome falls below, one number or one of each, (D,); None for no such bound.
            upper: What no outcome exceeds, likewise.
        """
        forecasts, seen = checked_forecasts(members, outcomes)
        count, width = seen.shape
        if count < LEAST_CASES:
            raise ShapeError(f"members must be of at least {LEAST_CASES} past cases to learn from, got {count}")
        if forecasts.shape[1] < 2:
            raise ShapeError("members must be at least two of each case, or they have no spread, got 1")
        if dependence not in ("members", "errors"):
            raise SettingError(f"dependence must be members or errors, got {dependence!r}")
        groupings = _groupings(by)
        overall = believed_shift_and_factor(forecasts, seen)
        names = group_names(groupings, count, times, leads)
        groups = {}
        for name in np.unique(names) if groupings else ():
            rows = np.flatnonzero(names == name)
            if len(rows) >= LEAST_CASES:
                mended = believed_shift_and_factor(forecasts[rows], seen[rows], overall)
                groups[str(name)] = ShiftAndFactor.of(len(rows), mended)
        ranks = error_ranks(forecasts, seen).tolist() if dependence == "errors" and width > 1 else None
        return cls(
            overall=ShiftAndFactor.of(count, overall),
            groups=groups,
            by=groupings,
            order=None if ranks is None else tuple(map(tuple, ranks)),
            lower=_bound("lower", lower, width),
            upper=_bound("upper", upper, width),
        )

    def apply(self, members: ArrayLike, times: Any = None, *, leads: ArrayLike | None = None) -> NDArray[np.floating]:
        """The corrected members (N, M, D), of the type they came in.

        Args:
            members: Members (N, M, D) of new forecasts.
            times: For when they are (N,), where cases are grouped by season or hour; None otherwise.
            leads: How many hours ahead they are (N,), where cases are grouped by lead; None otherwise.
        """
        forecasts = _floats("members", members, 3)
        if forecasts.shape[2] != self.outcomes:
            raise ShapeError(f"members must be of {self.outcomes} outcomes, got {forecasts.shape[2]}")
        shift, factor = self._of_cases(group_names(self.by, len(forecasts), times, leads))
        corrected = forecasts + shift + (factor - 1) * (forecasts - forecasts.mean(1, keepdims=True))
        if self.lower is not None or self.upper is not None:
            corrected = np.clip(corrected, self.lower, self.upper)
        if self.order is not None:
            corrected = reordered(corrected, np.array(self.order))
        given = np.asarray(members).dtype
        return corrected.astype(given) if given.kind == "f" else corrected

    def _of_cases(self, names: NDArray[np.str_]) -> tuple[Floats, Floats]:
        """Shift and factor of each case, (N, 1, D)."""
        kinds = [self.overall, *self.groups.values()]
        places = {name: place for place, name in enumerate(self.groups, start=1)}
        chosen = [places.get(str(name), 0) for name in names]
        shift, factor = (np.array([getattr(kind, name) for kind in kinds]) for name in ("shift", "factor"))
        return shift[chosen, None], factor[chosen, None]


def checked_forecasts(members: ArrayLike, outcomes: ArrayLike) -> tuple[Floats, Floats]:
    """Members (N, M, D) and outcomes (N, D) in double precision; others are refused, and so are numbers not finite.

    Args:
        members: What came as members.
        outcomes: What came as outcomes.
    """
    forecasts, seen = _floats("members", members, 3), _floats("outcomes", outcomes, 2)
    expected = (forecasts.shape[0], forecasts.shape[2])
    if seen.shape != expected:
        raise ShapeError(
            f"outcomes must have the shape {expected} of the members' cases and outcomes, got {seen.shape}"
        )
    return forecasts, seen


def _floats(name: str, values: ArrayLike, axes: int) -> Floats:
    shape = {2: "(cases, outcomes)", 3: "(cases, members, outcomes)"}[axes]
    given = np.asarray(values)
    if given.dtype.kind not in "fiu":
        raise ShapeError(f"{name} must hold numbers, got {given.dtype}")
    if given.ndim != axes or not given.size:
        raise ShapeError(f"{name} must have the shape {shape}, at least one of each, got {given.shape}")
    numbers = given.astype(np.float64)
    if count := int((~np.isfinite(numbers)).sum()):
        raise NonFiniteError(f"{name} must be finite, got {count} of {numbers.size} that are not")
    return numbers


def _groupings(by: Sequence[Grouping]) -> tuple[Grouping, ...]:
    if isinstance(by, str) or len(set(by)) < len(by) or not set(by) <= set(get_args(Grouping)):
        raise SettingError(f"by must be a tuple of {', '.join(get_args(Grouping))}, each at most once, got {by!r}")
    return tuple(by)


def _bound(name: str, bound: ArrayLike | None, width: int) -> tuple[float, ...] | None:
    if bound is None:
        return None
    try:
        numbers = np.broadcast_to(np.asarray(bound, dtype=np.float64), (width,))
    except (TypeError, ValueError) as error:
        raise ShapeError(f"{name} must be one number or one of each of the {width} outcomes, got {bound!r}") from error
    if not np.isfinite(numbers).all():
        raise NonFiniteError(f"{name} must be finite, got {bound!r}")
    return tuple(numbers.tolist())
