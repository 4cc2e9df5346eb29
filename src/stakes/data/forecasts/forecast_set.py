"""Forecasts that somebody else makes, as they came, and where a user keeps them."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from stakes.argument_checks import require_finite
from stakes.data.case_table import outcome_names
from stakes.data.forecasts.checks import LearnedForecasts
from stakes.data.forecasts.columns import AHEAD_COLUMNS, RUN_COLUMNS, ReadAs, chosen_columns, site_labels
from stakes.data.forecasts.grids import GridPoint
from stakes.data.forecasts.quantiles import Pair, TailShape
from stakes.data.forecasts.tables import as_index, case_index, one_row_each, time_level
from stakes.data.tables.columns import column_numbers, column_times, require_columns
from stakes.data.tables.time_axis import Times, to_utc
from stakes.errors import NonFiniteError, SettingError, ShapeError, StakesError, check_names, first_repeated

Floats = NDArray[np.float64]
_SECONDS = 3600.0  # of an hour


@dataclass(frozen=True, eq=False)
class ForecastSet:
    """Forecasts of N cases, and what is known beside them."""

    members: Floats  # members (N, M, D), in the outcomes' units; M = 1 is a point forecast
    weights: Floats | None = None
    targets: tuple[str, ...] = ()  # the names of the D outcomes; none for y, or y0, y1 and so on
    index: "pd.Index[Any] | None" = None  # what the cases are called, (N,); None counts them from 0
    times: Times | None = None  # when the outcomes happen, (N,), in UTC; None where it is not known
    issued: Times | None = None
    leads: Floats | None = None  # hours from `issued` to `times`, (N,), not negative; None where they are not known
    sites: NDArray[np.str_] | None = None
    horizon: NDArray[Any] | None = None
    features: pd.DataFrame | None = None
    outcomes: Floats | None = None  # what happened, (N, D), in the past; None where it is still to come
    today: Floats | None = None
    notes: tuple[str, ...] = ()  # sentences about what the user should know

    def __post_init__(self) -> None:
        members = _finite("members", self.members)
        if members.ndim != 3 or not members.size:
            raise ShapeError(f"members must have the shape (cases, members, outcomes), got {members.shape}")
        cases, count, width = members.shape
        self._set("members", members)
        self._set("targets", tuple(map(str, self.targets)) or outcome_names(None, width))
        self._set("index", pd.RangeIndex(cases, name="row") if self.index is None else as_index(self.index))
        if self.weights is not None:
            self._set("weights", _checked_weights(self.weights, count))
        for name in ("outcomes", "today", "leads"):
            if getattr(self, name) is not None:
                self._set(name, _finite(name, getattr(self, name)))
        if self.sites is not None:
            self._set("sites", np.asarray(self.sites).astype(np.str_))
        for name in ("times", "issued"):
            if getattr(self, name) is not None:
                self._set(name, to_utc(getattr(self, name), name))
        self._set("features", _checked_features(self.features))
        self._check_shapes(cases, width)
        self._know_moments()

    def __len__(self) -> int:
        return len(self.members)

    @property
    def is_point(self) -> bool:
        """Whether there is one member, which knows of no uncertainty."""
        return self.members.shape[1] == 1

    def require_one_outcome(self, name: str) -> Self:
        """The same, refused where several forecasts of one moment, and of one site, have outcomes that differ."""
        if self.outcomes is not None and self.times is not None:
            index: pd.Index[Any] = pd.DatetimeIndex(self.times)
            index = index if self.sites is None else pd.MultiIndex.from_arrays([index, self.sites])
            one_row_each(pd.DataFrame(self.outcomes, index, list(self.targets)), name)
        return self

    def rows(self, selection: Any) -> Self:
        """Some of the cases."""
        chosen = np.arange(len(self))[selection]
        return replace(self, **{name: _taken(getattr(self, name), chosen) for name in _of_cases(self)})

    def in_order(self) -> Self:
        """The same cases in the order in which they were issued, or else happen; those of one moment stay in order."""
        moments = [moment for moment in (self.times, self.issued) if moment is not None]
        return self.rows(np.lexsort(moments)) if moments else self

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _check_shapes(self, cases: int, width: int) -> None:
        if len(self.targets) != width:
            raise ShapeError(f"targets must name the {width} outcomes of the members, got {len(self.targets)}")
        shapes: dict[str, tuple[int, ...]] = {"outcomes": (cases, width)}
        shapes |= dict.fromkeys(("times", "issued", "leads", "sites", "horizon", "index"), (cases,))
        if self.today is not None:
            shapes["today"] = (cases, *self.today.shape[1:2])
        for name, shape in shapes.items():
            if (values := getattr(self, name)) is not None and values.shape != shape:
                raise ShapeError(f"{name} must have the shape {shape} of the members, got {values.shape}")
        if self.features is not None and len(self.features) != cases:
            raise ShapeError(f"features must have a row for each of the {cases} cases, got {len(self.features)}")

    def _know_moments(self) -> None:
        """Fill in whichever of times, issued and leads follows from the other two, and refuse look-ahead."""
        if self.leads is not None and self.leads.min() < 0:
            raise SettingError(
                f"leads must not be negative, or a forecast was made after its outcome, got {self.leads.min():g} hours"
            )
        hours = None if self.leads is None else np.round(self.leads * _SECONDS).astype("timedelta64[s]")
        if self.times is not None and self.issued is not None:
            apart = self.times - self.issued
            if (late := np.flatnonzero(apart < np.timedelta64(0, "s"))).size:
                row = late[0]
                others = f", the first of {late.size} such cases" if late.size > 1 else ""
                raise SettingError(
                    f"issued must not lie after times, or a forecast may have seen its outcome, got {self.issued[row]} "
                    f"for {self.times[row]} in case {row}{others}"
                )
            if hours is not None and (odd := np.flatnonzero(hours != apart)).size:
                row = odd[0]
                raise SettingError(f"leads must be times less issued, got {hours[row]} for {apart[row]} in case {row}")
            self._set("leads", apart.astype(np.float64) / _SECONDS)
        elif hours is not None and self.times is not None:
            self._set("issued", self.times - hours)
        elif hours is not None and self.issued is not None:
            self._set("times", self.issued + hours)


def _of_cases(forecasts: ForecastSet) -> list[str]:
    """The fields that have an entry for each case."""
    shared = ("weights", "targets", "notes")
    names = [field.name for field in fields(forecasts) if field.name not in shared]
    return [name for name in names if getattr(forecasts, name) is not None]


def _taken(values: Any, chosen: NDArray[np.int64]) -> Any:
    return values.iloc[chosen] if isinstance(values, pd.DataFrame) else values[chosen]


def _finite(name: str, values: Any) -> Floats:
    given = np.asarray(values)
    if given.dtype.kind not in "fiu":
        raise ShapeError(f"{name} must hold numbers, got {given.dtype}")
    if count := int((~np.isfinite(given)).sum()):
        raise NonFiniteError(f"{name} must be finite, got {count} of {given.size} that are not")
    return given.astype(np.float64)


def _checked_weights(weights: Any, count: int) -> Floats:
    shares = _finite("weights", weights)
    if shares.shape != (count,):
        raise ShapeError(f"weights must be one for each of the {count} members, got the shape {shares.shape}")
    if shares.min() < 0 or not shares.sum() > 0:
        raise SettingError("weights must not be negative, and not all zero")
    return shares


def _checked_features(features: Any) -> pd.DataFrame | None:
    if features is None:
        return None
    table = features if isinstance(features, pd.DataFrame) else pd.DataFrame(np.asarray(features)).add_prefix("x")
    if table.ndim != 2 or not table.shape[1]:
        raise ShapeError("features must have at least one column, got none")
    columns = {str(name): _finite(f"feature {name!r}", column) for name, column in table.items()}
    if len(columns) < table.shape[1]:
        raise ShapeError("features must have columns of different names")
    return pd.DataFrame(columns)


@dataclass(frozen=True)
class ForecastLayout:
    """Which columns are what: forecasts and their outcomes share a table, unless forecasts have a file of their own.

    Features, and when a forecast was issued, stand beside the forecasts; the action of today beside the outcomes.
    """

    outcomes: tuple[str, ...]
    columns: tuple[str, ...] = ()
    own_file: bool = False  # whether the forecasts have a file of their own
    time: str | None = None  # the column of the times at which outcomes happen; None looks for the usual names
    issued: str | None = None  # the column of the times at which forecasts were made; None where there is none
    lead: str | None = None  # the column of the hours from then to the outcome; None where there is none
    lead_hours: float | None = None  # the same number of hours for all forecasts; None where it is not known
    site: str | None = None  # the column of sites in a table with a row for each; None looks for the usual names
    features: tuple[str, ...] = ()  # columns of whatever else was known when a forecast was made
    today: str | None = None
    read_as: ReadAs = "auto"  # what the columns of the forecasts hold
    each_site: bool = False  # whether each of several sites is decided by itself, not all together
    targets: tuple[str, ...] = ()
    tails: TailShape = "exponential"  # what lies beyond the outermost quantiles
    levels: tuple[float, ...] = ()
    bounds: tuple[Pair, ...] = ()
    variable: str | None = None
    member_dimension: str | None = None
    points: tuple[GridPoint, ...] = ()  # latitudes and longitudes of the points of a grid that are wanted
    unit: str | None = None  # the unit that is wanted of a NetCDF file that says its own; None takes it as it is
    learned: LearnedForecasts | None = None

    def __post_init__(self) -> None:
        for name in ("outcomes", "columns", "features", "targets"):
            check_names(name, getattr(self, name))
        if not self.outcomes:
            raise SettingError("outcomes must name at least one column, got none")
        if not self.columns and not self.own_file:
            raise SettingError("columns must name the forecasts in the table of the outcomes, got none")
        if self.lead is not None and self.lead_hours is not None:
            raise SettingError(f"lead is a column or a number of hours, got {self.lead!r} and {self.lead_hours:g}")
        if self.lead_hours is not None:
            require_finite("lead", self.lead_hours)
        if (twice := first_repeated(self._roles)) is not None:
            raise SettingError(f"a column has one role, but {twice!r} was given two")

    @property
    def _roles(self) -> list[str]:
        single = (self.time, self.issued, self.lead, self.site)
        named = [name for name in single if name is not None]
        return [*self.outcomes, *self.columns, *self.features, *named, *self.today_columns]

    @property
    def today_columns(self) -> tuple[str, ...]:
        """The column of the action that was taken, or those of its parts; none where it is not known."""
        return () if self.today is None else tuple(name.strip() for name in self.today.split(","))

    @property
    def runs(self) -> tuple[str, ...]:
        """The column that tells the forecasts of one time apart, if any."""
        return tuple(name for name in (self.issued, self.lead) if name is not None)

    @property
    def in_grid(self) -> tuple[str | None, str | None, tuple[GridPoint, ...], str | None]:
        """What is wanted of a gridded file, as `stakes.data.forecasts.grids.forecast_array` takes it."""
        return self.variable, self.member_dimension, self.points, self.unit

    @property
    def beside(self) -> tuple[str, ...]:
        """The columns beside the forecasts that are none of them, and by which no case is known."""
        shared = () if self.own_file else (*self.outcomes, *self.today_columns)
        return (*self.features, *shared)

    def named_in(self, table: pd.DataFrame, name: str) -> tuple[Self, tuple[str, ...]]:
        """With the columns of a table of forecasts by their names, in place of ranges and of what is to be found.

        The second is what the user should know about it.
        """
        there = [str(column) for column in table.columns]
        require_columns(table, self.features, "features")
        if self.lead is not None:
            column_numbers(table, [self.lead], name)
        columns = tuple(chosen_columns(self.columns, there, name)) if self.columns else ()
        outcomes = self.outcomes if self.own_file else tuple(chosen_columns(self.outcomes, there, name))
        time = self.time or time_level(case_index(table, None))
        labels = site_labels(table, self.site)
        site = self.site if labels is None else str(labels.name)
        named = replace(self, columns=columns, outcomes=outcomes, time=time, site=site)
        if self.runs or self.lead_hours is not None:
            return named, ()
        used = set(named._roles)
        issued = _named_like(RUN_COLUMNS, table, used)
        if issued is not None and _holds_times(table, issued):
            return replace(named, issued=issued), (
                f"the column {issued!r} is taken to say when each forecast was made",
            )
        ahead = _named_like(AHEAD_COLUMNS, table, used)
        hint = f", as --lead {ahead} does if {ahead} is in hours" if ahead else ""
        return named, (
            "nothing says how long before its outcome a forecast was made, so that errors are taken to be known at "
            f"once; --lead HOURS says so{hint}",
        )


def _named_like(known: Sequence[str], table: pd.DataFrame, used: set[str]) -> str | None:
    lower = {str(column).lower(): str(column) for column in reversed(table.columns) if column not in used}
    return next((lower[name] for name in known if name in lower), None)


def _holds_times(table: pd.DataFrame, column: str) -> bool:
    if np.issubdtype(table[column].to_numpy().dtype, np.number):
        return False
    try:
        column_times(table, column, unique=False)
    except StakesError:
        return False
    return True
