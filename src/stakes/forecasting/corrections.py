"""A forecast corrected by its own past errors: bias and scale, recent errors, and whether that is proven."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, Self, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from stakes.argument_checks import require_count
from stakes.costs.cost import Cost
from stakes.data.case_table import checked_times
from stakes.data.tables.time_axis import Times, to_utc
from stakes.errors import NonFiniteError, SettingError, ShapeError
from stakes.evaluation.intervals import LEAST_BLOCKS, upper_bounds
from stakes.forecasting.copula import error_ranks, reordered
from stakes.scores.decision_score import realised_cost
from stakes.scores.scoring_rules import energy_score
from stakes.settings import JsonText
from stakes.text import number_text

Grouping = Literal["season", "hour", "lead"]
"""By what cases may be grouped: three months of the year, the hour of the day in UTC, or the hours ahead."""

_SEASONS = np.array(["December to February", "March to May", "June to August", "September to November"])


def group_names(
    by: Sequence[Grouping], cases: int, times: Any = None, leads: ArrayLike | None = None
) -> NDArray[np.str_]:
    """The name of the group of each case, (N,), such as "hour 06, lead 24".

    >>> group_names(("season", "lead"), 2, ["2020-02-29T06", "2020-06-01T06"], [24, 48.5]).tolist()
    ['December to February, lead 24', 'June to August, lead 48.5']
    """
    if not by:
        return np.full(cases, "", dtype=np.str_)
    columns = [_names(each, times, leads) for each in by]
    for each, column in zip(by, columns, strict=True):
        if len(column) != cases:
            raise ShapeError(
                f"{'leads' if each == 'lead' else 'times'} must be one for each of the {cases} cases, got {len(column)}"
            )
    return np.array([", ".join(parts) for parts in zip(*columns, strict=True)])


def _names(by: Grouping, times: Any, leads: ArrayLike | None) -> NDArray[np.str_]:
    given = leads if by == "lead" else times
    if given is None:
        raise SettingError(f"{'leads' if by == 'lead' else 'times'} must be given where cases are grouped by {by}")
    if by == "lead":
        return np.array([f"lead {hours:g}" for hours in np.asarray(given, dtype=np.float64)])
    moments: Times = to_utc(times, "times")
    if by == "hour":
        hours = moments.astype("datetime64[h]").astype(np.int64) % 24
        return np.array([f"hour {hour:02d}" for hour in hours])
    months = moments.astype("datetime64[M]").astype(np.int64) % 12  # 0 is January
    return _SEASONS[(months + 1) % 12 // 3]


LEAST_CASES = 50
"""With fewer cases nothing is corrected: blocks of fewer than five would have to tell how sure one can be."""

Floats = NDArray[np.float64]

_MEMBERS = 50  # by which an ensemble is represented
_ROUNDS = 8  # of shift and factor in turn
_BLOCKS = 10  # of neighbouring cases, whose estimates tell the standard error


class Mended(NamedTuple):
    """How far the members of each outcome are shifted, and by which factor they are spread about their mean."""

    shift: Floats  # in the unit of the outcome, (D,)
    factor: Floats  # without unit, at least 0, (D,)


def believed_shift_and_factor(members: Floats, outcomes: Floats, prior: Mended | None = None) -> Mended:
    """Shift and factor of the least CRPS, shrunk towards those that are expected without any case.

    The estimates of ten blocks of neighbouring cases tell the standard error, so that errors which persist for days do
    not count as many. With z, the distance from the prior over that error, 1 - 1 / z^2 of the distance is kept, and
    nothing for |z| < 1: the estimate of least expected error for an effect as large as it looks.
    """
    centred, errors = _represented(members), outcomes - members.mean(1)
    overall = _of_all_outcomes(centred, errors)
    parts = [
        _of_all_outcomes(centred[rows], errors[rows]) for rows in np.array_split(np.arange(len(outcomes)), _BLOCKS)
    ]
    expected = prior or Mended(np.zeros_like(overall.shift), np.ones_like(overall.factor))
    return Mended(
        *(
            _shrunk(estimate, np.stack(of_parts), towards)
            for estimate, of_parts, towards in zip(overall, zip(*parts, strict=True), expected, strict=True)
        )
    )


def least_crps(centred: Floats, errors: Floats) -> tuple[float, float]:
    """Shift and factor of the least mean CRPS of one outcome."""
    shift, factor = 0.0, 1.0
    spread = np.abs(centred)
    total, half_distance = spread.sum(), _half_distances(centred)
    varied = spread > 0
    for _ in range(_ROUNDS):
        before = shift, factor
        shift = float(np.median(errors[:, None] - factor * centred))
        if not total > 0:
            break
        places = np.broadcast_to((errors - shift)[:, None], centred.shape)[varied] / centred[varied]
        factor = max(0.0, _weighted_quantile(places, spread[varied], (total + half_distance) / 2))
        if (shift, factor) == before:
            break
    return shift, factor


def _of_all_outcomes(centred: Floats, errors: Floats) -> Mended:
    pairs = [least_crps(centred[..., place], errors[:, place]) for place in range(errors.shape[1])]
    return Mended(*np.array(pairs).T)


def _represented(members: Floats) -> Floats:
    """Members less their mean, (N, K, D); of many, the K quantiles whose CRPS is the least, at (k - 1/2) / K."""
    centred = members - members.mean(1, keepdims=True)
    if members.shape[1] <= _MEMBERS:
        return centred
    levels = (np.arange(_MEMBERS) + 0.5) / _MEMBERS
    return np.moveaxis(np.quantile(centred, levels, axis=1, method="hazen"), 0, 1)


def _half_distances(centred: Floats) -> float:
    """The sum over all cases of sum_kl |e_k - e_l| / (2 K), by the sorted members."""
    count = centred.shape[1]
    ranks = 2 * np.arange(count) - (count - 1)
    return float((np.sort(centred, 1) * ranks).sum() / count)


def _weighted_quantile(values: Floats, weights: Floats, target: float) -> float:
    """The least value at which the weights of all values up to it sum to the target."""
    order = np.argsort(values)
    place = int(np.searchsorted(np.cumsum(weights[order]), target))
    return float(values[order[min(place, len(order) - 1)]])


def _shrunk(estimate: Floats, of_blocks: Floats, towards: Floats) -> Floats:
    distance = estimate - towards
    variance = of_blocks.var(0, ddof=1) / len(of_blocks)
    kept = np.zeros_like(distance)
    np.divide(variance, distance**2, out=kept, where=distance != 0)
    return towards + distance * np.maximum(0.0, 1.0 - kept)


@dataclass(frozen=True)
class BiasScale:
    """How the members of some cases are corrected: x becomes mean + shift + factor (x - mean)."""

    cases: int  # from how many cases it was learned
    shift: tuple[float, ...]  # how far the members of each outcome move, in its unit, (D,)
    factor: tuple[float, ...]  # by how much they are spread about their mean, (D,)

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
    (`stakes.forecasting.corrections`): a forecast that is calibrated already is left nearly as it is. A group of
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

    overall: BiasScale
    groups: dict[str, BiasScale] = field(default_factory=dict)
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
                groups[str(name)] = BiasScale.of(len(rows), mended)
        ranks = error_ranks(forecasts, seen).tolist() if dependence == "errors" and width > 1 else None
        return cls(
            overall=BiasScale.of(count, overall),
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
    """Members (N, M, D) and outcomes (N, D) in double precision; others are refused, and so are numbers not finite."""
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


_ERROR_BLOCKS = 20  # of cases that share a correction, unless a block is given


class MemberForecaster(Protocol):
    """Whatever draws members from features, as a fitted `stakes.DecisionAwareForecaster` does."""

    def sample(self, X: Any, /) -> ArrayLike:
        """Members (n, M, D) of some rows."""
        ...


class RollingForecasts(NamedTuple):
    """Forecasts of the later cases, each by a fit on cases before it."""

    rows: slice  # which cases these are
    members: NDArray[Any]  # their members (n, M, D)


def known_cases(rows: slice, cases: int, times: Any = None, lead: ArrayLike = 0.0) -> int:
    """How many cases, the first ones, happened before any of these rows was forecast, a lead time ahead of it.

    >>> known_cases(slice(10, 15), 20, lead=3)
    7
    >>> known_cases(slice(10, 15), 20, np.datetime64("2020-01-01T00") + np.arange(20), lead=3.0)  # hourly
    7
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
    size = max(1, cases // _ERROR_BLOCKS) if block is None else block
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


ORIGINS = 4
"""Blocks of cases, the first of which has no errors before it; each other one is corrected by those before it."""


def proven_correction(
    members: Tensor, outcome: Tensor, cost: Cost, *, lead: int, block: int, bounded: Callable[[Tensor], Tensor]
) -> Correction | None:
    """The correction of all these errors, where those of earlier cases mend later ones; None where they do not.

    It must lower the energy score, 97.5 % sure, and must not raise the mean cost. The cases are cut into four blocks;
    each is corrected as it could have been at the time.
    """
    cases = len(outcome)
    if cases < max(ORIGINS * LEAST_CASES, LEAST_BLOCKS * block):
        return None
    known, seen = members.double().numpy(), outcome.double().numpy()
    mended = bounded(torch.from_numpy(corrected_in_time(known, seen, lead=lead, block=-(-cases // ORIGINS))).float())
    change = _change(members, mended, lambda forecast: energy_score(forecast, outcome))
    if not upper_bounds(change[None], block=block)[0] < 0:
        return None
    paid = _change(members, mended, lambda forecast: realised_cost(cost, forecast, outcome).cost)
    if paid.mean() > 0:
        return None
    return Correction.fit(known, seen)


def corrected(members: Tensor, correction: Correction | None) -> Tensor:
    """Members (N, M, D) corrected, or as they are where there is no correction."""
    return members if correction is None else torch.from_numpy(correction.apply(members.numpy()))


def correction_sentence(correction: Correction, names: tuple[str, ...]) -> str:
    """What a user should know of a correction."""
    shift, factor = correction.overall.shift, correction.overall.factor
    of_what = "" if len(names) == 1 else f" (largest shift: {names[int(np.argmax(np.abs(shift)))]})"
    return (
        f"Members are corrected by the errors of the newest {correction.overall.cases} cases that the models had not "
        f"seen, which made later ones better: moved by {_span(shift)}{of_what}, their spread multiplied by "
        f"{_span(factor)}."
    )


def _change(before: Tensor, after: Tensor, judged: Callable[[Tensor], Tensor]) -> NDArray[np.float64]:
    """What is judged of each case, after less before, (N,)."""
    with torch.no_grad():
        return np.asarray((judged(after) - judged(before)).double().numpy())


def _span(values: tuple[float, ...]) -> str:
    low, high = number_text(min(values)), number_text(max(values))
    return low if low == high else f"{low} to {high}"
