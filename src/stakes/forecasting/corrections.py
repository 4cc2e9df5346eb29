"""A forecast corrected by its own past errors, and what past errors there are as time goes on."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, Self, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from stakes.argument_checks import require_count, require_one_of
from stakes.data.case_table import checked_times
from stakes.data.forecasts.layout import Pair
from stakes.errors import NonFiniteError, SettingError, ShapeError
from stakes.forecasting.copula import reordered, reordered_as_members, vector_ranks
from stakes.forecasting.error_model import LEAST_CASES, By, ErrorModel, ForecastTerms, fit_error_model, quantile_levels
from stakes.settings import JsonText
from stakes.text import number_text

if TYPE_CHECKING:  # whoever only corrects members reads no forecasts
    from stakes.data.forecasts.forecast_set import ForecastSet

ForecastForm = Literal["members", "quantiles", "points"]
"""In which form a forecast came: equally likely members, weighted ones made of quantiles, or single numbers."""

Floats = NDArray[np.float64]

_EQUAL_MEMBERS = 100  # that stand for weighted ones where nothing else will do
_MEMBERS = 100  # of one outcome, or more where the forecast has more
_VECTORS = 200  # of several outcomes by error vectors


class CorrectedMembers(NamedTuple):
    """Members that decisions are made from."""

    members: Floats  # members (N, K, D)
    weights: Floats | None  # what each of them weighs, (K,); None for equal weights

    @property
    def equal_members(self) -> Floats:
        """Equally likely members (N, K, D): 100 of them in place of weighted ones."""
        if self.weights is None:
            return self.members
        share = np.cumsum(self.weights) / self.weights.sum()
        chosen = np.searchsorted(share, quantile_levels(_EQUAL_MEMBERS))
        return np.sort(self.members, 1)[:, chosen]


Margins = Literal["raw", "distances", "own_shape", "bias_and_spread", "linear"]
"""What is made of the members of an outcome: nothing, the same as far from their mean as errors were, the same moved
and spread, or quantiles of their errors by bias and spread or by all that is known.
"""


@dataclass(frozen=True)
class Distances:
    """How far members lie from their mean, in spreads of their case, and how far such members are to lie.

    A factor alone cannot be right for many small errors and for the few large ones that most of the cost comes from.
    Means stay where they are: what moved them in the past is not what moves those of models that are fitted again.
    """

    came: tuple[float, ...]  # quantiles of the distances of past members, (K,)
    meant: tuple[float, ...]  # those of the distances of past outcomes, as far as they are believed, (K,)
    least_spread: tuple[float, ...]  # what is added to the variance of each outcome's members, as a spread, (D,)

    def __post_init__(self) -> None:
        if not self.came or len(self.came) != len(self.meant) or min(*self.came, *self.meant) < 0 or not self.came[-1]:
            raise SettingError("distances must be pairs of given and corrected ones, none below 0 and the last above 0")

    @classmethod
    def learned(cls, members: Floats, outcomes: Floats) -> Self | None:
        """From past members (N, M, D) and outcomes (N, D); None where the spread may be right but for chance.

        With z, the logarithm of error over spread over its standard error by a jackknife over ten blocks of
        neighbouring cases, 1 - 1 / z^2 of the way to the distances of the outcomes is gone, and nothing for |z| < 2.
        """
        least = _LEAST_SPREAD * members.std(1).mean(0)
        mean, spread = members.mean(1, keepdims=True), np.hypot(members.std(1, keepdims=True), least)
        spread = np.where(spread > 0, spread, np.inf)
        apart, errors = np.abs(members - mean) / spread, np.abs(outcomes[:, None] - mean) / spread
        squares = np.stack([(errors**2).mean((1, 2)), (apart**2).mean((1, 2))])
        if not (squares.mean(1) > 0).all():
            return None

        def log_ratio(cases: NDArray[np.int64]) -> float:
            error, own = squares[:, cases].mean(1)
            return float(np.log(error / own) / 2) if error > 0 and own > 0 else 0.0

        everything = np.arange(len(members))
        ratio = log_ratio(everything)
        without = [log_ratio(np.delete(everything, block)) for block in np.array_split(everything, _JACKKNIFE)]
        variance = (_JACKKNIFE - 1) * float(np.var(without))
        if _SURE**2 * variance >= ratio**2:
            return None
        levels = quantile_levels(_DISTANCES)
        came, seen = (np.quantile(each, levels, method="hazen") for each in (apart, errors))
        meant = came + (1 - variance / ratio**2) * (seen - came)
        return cls(*(tuple(each.tolist()) for each in (came, meant, least)))

    @property
    def factor(self) -> float:
        """By how much members are spread, by the mean square."""
        return float(np.sqrt(np.square(self.meant).sum() / np.square(self.came).sum()))

    def applied(self, members: Floats) -> Floats:
        """Members (N, M, D), each at its distance on its side of the mean."""
        mean, spread = members.mean(1, keepdims=True), np.hypot(members.std(1, keepdims=True), self.least_spread)
        apart = (members - mean) / np.where(spread > 0, spread, np.inf)
        far = np.abs(apart)
        meant = np.interp(far, [0.0, *self.came], [0.0, *self.meant])
        meant = np.where(far > self.came[-1], far * (self.meant[-1] / self.came[-1]), meant)
        return np.where(spread > 0, mean + spread * np.sign(apart) * meant, members)


_LEAST_SPREAD = 0.1  # of the mean one
_DISTANCES, _JACKKNIFE = 100, 10
_SURE = 2.0  # standard errors


@dataclass(frozen=True)
class CorrectionPlan:
    """What is learned."""

    candidate: str = "raw"  # its name, one of `stakes.evaluation.selection.CORRECTION_CANDIDATES`
    margins: Margins = "raw"
    dependence: Literal["members", "errors"] = "members"
    half_life: float | None = None  # after how many days a case counts half; None for equal weights
    decision_weight: float = 0.0  # how much the decision counts in the fit
    by: tuple[By, ...] = get_args(By)  # what errors may depend on
    shrunk: bool = False  # whether coefficients are shrunk by their standard errors, as where nothing else judges them


def form_of(given: "ForecastSet") -> ForecastForm:
    """In which form forecasts came."""
    if given.weights is not None:
        return "quantiles"
    return "points" if given.is_point else "members"


@dataclass(frozen=True)
class Correction(JsonText):
    """What past errors say about a forecast: location and scale of each outcome, and their dependence.

    Members are moved, and spread about their mean, as gives the least CRPS. What may be due to chance is left out, so
    that a forecast which is calibrated already stays nearly as it is. By how much may depend on the forecast itself, on
    season, hour and lead, and on the site (`by`).

    Attributes:
        form: In which form the forecasts came: "members", "quantiles" (weighted members) or "points" (single numbers).
        targets: The names of the outcomes.
        bounds: What each outcome cannot cross, (lower, upper), with None for no such bound; members are clipped to it.
        cases: From how many past cases it was learned.
        terms: What the errors depend on.
        models: The correction of each outcome; none where members are not moved and spread by a model.
        order: The ranks of past error vectors (K, D), by which members of several outcomes are joined; None
            leaves them joined as they come.
        half_life: After how many days a case counted half; None for equal weights.
        decision_weight: How much the decision counted in the fit.
        distances: How far from their mean members then lie; None where they stay.

    >>> import numpy as np, stakes
    >>> random = np.random.default_rng(0)
    >>> known = random.normal(size=(1000, 1, 1))
    >>> members = known + 0.5 * random.normal(size=(1000, 20, 1))  # too narrow, and 1 too low
    >>> outcomes = known[:, 0] + 1 + random.normal(size=(1000, 1))
    >>> correction = stakes.Correction.fit(members[:800], outcomes[:800])
    >>> round(correction.shift[0], 1), round(correction.factor[0], 1)
    (1.0, 2.0)
    >>> correction.apply(members[800:]).shape
    (200, 20, 1)
    """

    form: ForecastForm
    targets: tuple[str, ...]
    bounds: tuple[Pair, ...]
    cases: int
    terms: ForecastTerms
    models: tuple[ErrorModel, ...] = ()
    order: tuple[tuple[int, ...], ...] | None = None
    half_life: float | None = None
    decision_weight: float = 0.0
    distances: Distances | None = None

    def __post_init__(self) -> None:
        if self.distances is not None and len(self.distances.least_spread) != self.outcomes:
            raise ShapeError(f"distances must be of the {self.outcomes} outcomes")
        widths = [("bounds", len(self.bounds)), *(("order", len(row)) for row in self.order or ())]
        for name, width in [*widths, ("models", len(self.models))] if self.models else widths:
            if width != self.outcomes:
                raise ShapeError(f"{name} must be of the {self.outcomes} outcomes, got {width}")
        if self.order is not None and not self.order:
            raise ShapeError("order must have at least one error vector, got none")
        for low, high in self.bounds:
            if low is not None and high is not None and not low < high:
                raise SettingError(f"lower must lie below upper, got {low} and {high}")

    @property
    def outcomes(self) -> int:
        """D, how many outcomes a case has."""
        return len(self.targets)

    @property
    def shift(self) -> tuple[float, ...]:
        """How far the members of each outcome move, in its unit, (D,), before anything that this depends on."""
        if not self.models:
            return (0.0,) * self.outcomes
        return tuple(model.unit * model.location["constant"] for model in self.models)

    @property
    def factor(self) -> tuple[float, ...]:
        """By how much they are spread about their mean, (D,), before anything that this depends on."""
        further = 1.0 if self.distances is None else self.distances.factor
        if not self.models:
            return (further,) * self.outcomes
        return tuple(further * float(np.exp(model.log_scale["constant"])) for model in self.models)

    @classmethod
    def fit(
        cls,
        members: ArrayLike,
        outcomes: ArrayLike,
        times: Any = None,
        *,
        weights: Any = None,
        leads: Any = None,
        sites: Any = None,
        by: Sequence[By] = (),
        shape: Literal["members", "distances", "errors"] = "members",
        dependence: Literal["members", "errors"] = "members",
        lower: ArrayLike | None = None,
        upper: ArrayLike | None = None,
    ) -> Self:
        """Learn from past forecasts and what happened then.

        Args:
            members: Members (N, M, D) of at least 50 past forecasts, in the order of time. The forecasts must not have
                seen the outcomes.
            outcomes: What happened, (N, D).
            times: When it happened, (N,), for errors that depend on season or hour; None otherwise.
            weights: The weight of each member, (M,), such as those of `stakes.quantile_members`; None for equal
                weights.
            leads: Lead time in hours, (N,), for errors that depend on it; None otherwise.
            sites: Site of each case, (N,), for errors that depend on it; None for one site.
            by: What errors depend on: on the "forecast" itself, its mean and spread, on "season", "hour", "lead" or
                "site". Seasons, hours and sites need at least 50 cases of each; nothing corrects all cases alike.
            shape: How the members of a case lie about their mean: as the "members" do, of which there are then at least
                two without weights; the same at the "distances" of past errors, with the mean where it is; or as past
                "errors" did, which makes at least 100 members.
            dependence: How members of several outcomes depend on each other: as the "members" do already, or as
                past "errors" did, by up to 200 error vectors.
            lower: Lower bound of the outcomes, one number or one for each, (D,); None for none.
            upper: Upper bound, likewise.
        """
        from stakes.data.forecasts.forecast_set import ForecastSet

        past = ForecastSet(
            np.asarray(members), weights, times=times, leads=leads, sites=sites, outcomes=np.asarray(outcomes)
        )
        if len(past) < LEAST_CASES:
            raise ShapeError(f"members must have at least {LEAST_CASES} past cases to learn from, got {len(past)}")
        require_one_of("shape", shape, ("members", "distances", "errors"))
        require_one_of("dependence", dependence, ("members", "errors"))
        if shape != "errors" and form_of(past) != "members":
            raise ShapeError(
                "members must be at least two in each case and without weights to have a shape of their own; "
                "shape='errors' takes that of past errors"
            )
        if isinstance(by, str) or not set(by) <= set(get_args(By)):
            raise SettingError(f"by must be a tuple of {', '.join(get_args(By))}, got {by!r}")
        for name, depend in {"times": {"season", "hour"}, "leads": {"lead"}, "sites": {"site"}}.items():
            if getattr(past, name) is None and (needing := sorted(depend & set(by))):
                raise SettingError(f"{name} must be given where errors depend on the {needing[0]}")
        lows, highs = (_bound(name, bound, past.outcomes) for name, bound in {"lower": lower, "upper": upper}.items())
        if shape == "distances" and (by or dependence == "errors"):
            raise SettingError("shape 'distances' cannot be combined with `by` or dependence 'errors'")
        margins: Margins = _MARGINS[shape]
        plan = CorrectionPlan(margins=margins, by=tuple(by), dependence=dependence, shrunk=True)
        return cls.learned(past, plan, tuple(zip(lows, highs, strict=True)))

    @classmethod
    def learned(
        cls, past: "ForecastSet", plan: CorrectionPlan, bounds: tuple[Pair, ...], like: Self | None = None
    ) -> Self:
        """What past cases teach by the score; what was chosen before by half as many cases or more is kept.

        Args:
            past: Past forecasts with their outcomes, in the order of time.
            plan: What is learned of them.
            bounds: What each outcome cannot cross.
            like: What was learned of fewer of these cases; None for nothing.
        """
        terms = ForecastTerms.for_cases(past, plan.by, linear=plan.margins == "linear")
        correction = cls(form_of(past), past.targets, bounds, len(past), terms, half_life=plan.half_life)
        if plan.margins == "raw":
            return correction
        if plan.margins == "distances":
            return correction.at_distances(past.members, past.outcomes)
        weight, count = case_weights(past, plan.half_life), _member_count(past, plan)
        before = like.models if like is not None and like.models else (None,) * len(bounds)
        models = tuple(
            fit_error_model(past, place, terms, pair, count, weight, before[place], plan.shrunk)
            for place, pair in enumerate(bounds)
        )
        order = None
        if plan.dependence == "errors" and len(bounds) > 1:
            errors = [model.standardised_errors(past, place, terms) for place, model in enumerate(models)]
            order = tuple(map(tuple, vector_ranks(np.stack(errors, 1), weight).tolist()))
        return replace(correction, models=models, order=order)

    def apply(
        self,
        members: ArrayLike,
        times: Any = None,
        *,
        weights: Any = None,
        leads: Any = None,
        sites: Any = None,
    ) -> NDArray[np.floating]:
        """The corrected, equally likely members (N, K, D), of the type they came in.

        Args:
            members: Members (N, M, D) of new forecasts.
            times: Times they are for, (N,), where errors depend on season or hour; None otherwise.
            weights: The weight of each member, (M,), where those of the fit had weights; None otherwise.
            leads: Lead times in hours, (N,), where errors depend on them; None otherwise.
            sites: Site of each, (N,), where errors depend on it; None otherwise.
        """
        from stakes.data.forecasts.forecast_set import ForecastSet

        came = np.asarray(members)
        found = self.corrected(ForecastSet(came, weights, times=times, leads=leads, sites=sites)).equal_members
        return found.astype(came.dtype) if came.dtype.kind == "f" else found

    def corrected(self, given: "ForecastSet") -> CorrectedMembers:
        """The corrected members of new forecasts.

        Args:
            given: Forecasts in the form of the past ones.
        """
        self._check(given)
        members, weights = given.members, given.weights
        if self.models:
            moved = [model.members(given, place, self.terms) for place, model in enumerate(self.models)]
            members, weights = self.together(np.stack(moved, axis=-1), given), None
        if self.distances is not None:
            members = self.distances.applied(members)
        return CorrectedMembers(_within(members, self.bounds), weights)

    def at_distances(self, members: Floats, outcomes: Floats | None) -> Self:
        """The same, with members then as far from their mean as past errors were.

        Args:
            members: Corrected members (N, M, D) of past forecasts.
            outcomes: What happened, (N, D).
        """
        assert outcomes is not None
        return replace(self, distances=Distances.learned(members, outcomes))

    def together(self, members: Floats, given: "ForecastSet") -> Floats:
        """Members of each outcome put together as members of all of them.

        Args:
            members: Members (N, K, D), corrected outcome by outcome.
            given: The forecasts that they correct.
        """
        if len(self.targets) == 1:
            return members
        if self.order is not None:
            return reordered(members, np.array(self.order))
        return members if self._own_shape else reordered_as_members(members, given.members)

    @property
    def _own_shape(self) -> bool:
        """Whether members keep their shape; otherwise quantiles take their place."""
        return bool(self.models) and not self.models[0].shape

    def _check(self, given: "ForecastSet") -> None:
        if given.members.shape[2] != self.outcomes:
            raise ShapeError(f"members must be of {self.outcomes} outcomes, got {given.members.shape[2]}")
        if self._own_shape and given.weights is None:
            return
        if form_of(given) != self.form:
            raise SettingError(f"the forecasts must be {self.form}, as in the fit, got {form_of(given)}")
        if self.models and self.order is None and self.outcomes > 1:
            count, members = len(self.models[0].shape), given.members.shape[1]
            if count % members:
                raise ShapeError(
                    f"members must be as many as in the fit, or divide {count}, because they say how outcomes vary "
                    f"together, got {members}"
                )


_MARGINS: Mapping[str, Margins] = {
    "members": "own_shape",
    "distances": "distances",
    "errors": "bias_and_spread",
}
"""By what `shape` says."""


def case_weights(past: "ForecastSet", half_life: float | None) -> Floats:
    """How much each case counts, (N,): the newest 1, one that is a half-life older half of it."""
    if half_life is None or past.times is None:
        return np.ones(len(past))
    age = (past.times.max() - past.times).astype(np.float64) / 86400
    return np.asarray(0.5 ** (age / half_life))


def _member_count(past: "ForecastSet", plan: CorrectionPlan) -> int:
    """How many quantiles are made: for several outcomes as many of each member that came, or of each error vector."""
    members = past.members.shape[1]
    if plan.margins == "own_shape":
        return 0
    if past.members.shape[2] == 1:
        return max(_MEMBERS, members)
    return _VECTORS if plan.dependence == "errors" else members * -(-_MEMBERS // members)


def _within(members: Floats, bounds: tuple[Pair, ...]) -> Floats:
    ends = ((low if low is not None else -np.inf, high if high is not None else np.inf) for low, high in bounds)
    lower, upper = zip(*ends, strict=True)
    return np.clip(members, lower, upper)


def _bound(name: str, bound: ArrayLike | None, outcomes: Floats | None) -> tuple[float | None, ...]:
    assert outcomes is not None
    width = outcomes.shape[1]
    if bound is None:
        return (None,) * width
    try:
        numbers = np.broadcast_to(np.asarray(bound, dtype=np.float64), (width,))
    except (TypeError, ValueError) as error:
        raise ShapeError(f"{name} must be one number or one of each of the {width} outcomes, got {bound!r}") from error
    if not np.isfinite(numbers).all():
        raise NonFiniteError(f"{name} must be finite, got {bound!r}")
    return tuple(numbers.tolist())


def corrected(members: Tensor, correction: Correction | None) -> Tensor:
    """Members (N, M, D) corrected, or as they are where there is no correction."""
    return members if correction is None else torch.from_numpy(correction.apply(members.numpy()))


def correction_sentence(correction: Correction, names: tuple[str, ...]) -> str:
    """What a user should know of a correction."""
    shift, factor = correction.shift, correction.factor
    if not correction.models:
        return (
            f"The spread of the members is multiplied by {_span(factor)}, by the errors of the newest "
            f"{correction.cases} cases that the models had not seen."
        )
    of_what = "" if len(names) == 1 else f" (largest shift: {names[int(np.argmax(np.abs(shift)))]})"
    return (
        f"Members are corrected by the errors of the newest {correction.cases} cases that the models had not seen: "
        f"shifted by {_span(shift)}{of_what}, with the spread multiplied by {_span(factor)}. On later cases this "
        "improved the forecast."
    )


def _span(values: tuple[float, ...]) -> str:
    low, high = number_text(min(values)), number_text(max(values))
    return low if low == high else f"{low} to {high}"


ORIGINS = 4
"""Blocks of cases, the first of which has no errors before it; each other one is corrected by those before it."""

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
    """Members (N, M, D) corrected as would have been possible at the time, block by block.

    Each block of neighbouring cases is corrected by the errors of cases that happened before its first forecast was
    made. Blocks before which fewer than 50 cases are known stay as they are.

    Args:
        members: Members (N, M, D) of forecasts that did not see the outcomes, in the order of time.
        outcomes: What happened, (N, D).
        times: When it happened (N,); None if unknown.
        lead: Lead time, one for all cases or one for each, (N,): in hours, or in rows if there are no times.
        block: Number of consecutive cases that share a correction; None for a twentieth of them.
        newest: Learn from this many of the newest known cases; None uses all.
        fit: Makes a correction of members, outcomes, times and `leads`: `Correction.fit`, or a partial of it that says
            what errors depend on.
    """
    from stakes.data.forecasts.forecast_set import ForecastSet

    past = ForecastSet(np.asarray(members), outcomes=np.asarray(outcomes))
    forecasts, seen, cases = past.members, past.outcomes, len(past)
    assert seen is not None
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
        taught = slice(0 if newest is None else max(0, known - newest), known)
        when = [None if moments is None else moments[each] for each in (taught, rows)]
        correction = fit(forecasts[taught], seen[taught], when[0], leads=leads[taught])
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
    """Forecasts of later cases by a forecaster that is fitted repeatedly, each time on earlier cases.

    The cases from `first` on are divided into blocks, and each block is forecast by a fit on the cases that happened
    before its first forecast was made. Their errors are what a fit on all cases, which has none of its own, may be
    corrected by.

    Args:
        fit: Fits on some rows, the first ones, and returns what draws members from features.
        features: Features of all N cases, in the order of time: an array or tensor (N, F).
        times: When the cases happen (N,); None if unknown.
        lead: Lead time, one for all cases or one for each, (N,): in hours, or in rows if there are no times.
        origins: Number of blocks, and so of fits.
        first: The first case that is forecast; None for the middle one.
    """
    require_count("origins", origins)
    cases = len(features)
    begin = cases // 2 if first is None else first
    require_count("first", begin)
    if cases - begin < origins:
        raise SettingError(f"first must leave a case for each of {origins} origins, got {begin} of {cases} cases")
    moments, leads, parts = checked_times(times, cases), _leads(cases, lead), []
    edges = np.linspace(begin, cases, origins + 1).round().astype(int).tolist()
    for rows in map(slice, edges[:-1], edges[1:]):
        known = known_cases(rows, cases, moments, leads)
        if known < 1:
            raise SettingError(f"first must leave cases that are known when case {rows.start} is forecast, got none")
        parts.append(np.asarray(fit(slice(0, known)).sample(features[rows])))
    return RollingForecasts(slice(begin, cases), np.concatenate(parts))


def _leads(cases: int, lead: ArrayLike) -> NDArray[np.float64]:
    try:
        leads = np.broadcast_to(np.asarray(lead, dtype=np.float64), (cases,))
    except (TypeError, ValueError) as error:
        raise ShapeError(f"lead must be one number or one of each of the {cases} cases, got {lead!r}") from error
    if not (np.isfinite(leads) & (leads >= 0)).all():
        raise SettingError("lead must be finite and not negative: a forecast is made before its outcome")
    return leads


def _moments(cases: int, times: Any, lead: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """When each case happens and when it is forecast, in seconds or rows, (N,)."""
    moments, leads = checked_times(times, cases), _leads(cases, lead)
    happens = np.arange(cases, dtype=np.float64) if moments is None else moments.astype(np.int64).astype(np.float64)
    return happens, happens - leads * (1.0 if moments is None else 3600.0)
