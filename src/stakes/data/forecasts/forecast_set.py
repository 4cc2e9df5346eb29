"""Forecasts that somebody else makes, as they came, and what belongs to them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, cast

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from stakes.costs.cost import Cost
from stakes.costs.scalar_costs import scalar_cost
from stakes.data.case_table import outcome_names
from stakes.data.tables.columns import case_labels
from stakes.data.tables.time_axis import Times, to_utc
from stakes.errors import CostError, NonFiniteError, SettingError, ShapeError, TableError
from stakes.text import number_order, shortened

Floats = NDArray[np.float64]
_SECONDS = 3600.0  # of an hour
_EQUAL_MEMBERS = 100  # that stand for weighted ones where nothing else will do
_OF_CASES = ("times", "issued", "leads", "horizon", "sites", "features", "prices", "outcomes", "today")


@dataclass(frozen=True)
class Naming:
    """What the names in a file tell of its forecasts."""

    levels: bool = False  # whether the columns alone name the levels, and may be members after all
    sites: bool = False  # whether targets are sites
    order: bool = False  # whether the user has named the targets one by one, and so given their order


@dataclass(frozen=True, eq=False)
class ForecastSet:
    """Forecasts of N cases, and what is known beside them.

    As a file has them they may be `incomplete`: members, or the quantiles at some `levels`, NaN where one is missing.
    """

    members: Floats  # members (N, M, D), in the outcomes' units; M = 1 is a point forecast
    weights: Floats | None = None
    targets: tuple[str, ...] = ()  # the names of the D outcomes; none for y, or y0, y1 and so on
    index: "pd.Index[Any]" = None  # type: ignore[assignment]  # what the cases are called, (N,); None counts from 0
    times: Times | None = None  # when the outcomes happen, (N,), in UTC; None where it is not known
    issued: Times | None = None
    leads: Floats | None = None  # hours from `issued` to `times`, (N,), not negative; None where they are not known
    sites: NDArray[np.str_] | None = None
    horizon: NDArray[Any] | None = None
    features: pd.DataFrame | None = None
    prices: pd.DataFrame | None = None  # parameters of the cost, (N, P), of which each case has its own
    outcomes: Floats | None = None  # what happened, (N, D), in the past; None where it is still to come
    today: Floats | None = None  # what was done, (N,) or (N, A) of several parts, NaN where it is not known
    notes: tuple[str, ...] = ()  # sentences about what the user should know
    columns: tuple[tuple[str, ...], ...] = ()  # what those of the M members of each outcome are called, if anything
    levels: tuple[float, ...] | None = None  # of the quantiles that stand in place of members
    unit: str | None = None  # the unit of the members, where a gridded file tells
    naming: Naming = Naming()
    incomplete: bool = False

    def __post_init__(self) -> None:
        if self.incomplete:
            return
        members = _finite("members", self.members)
        if members.ndim != 3 or not members.size:
            raise ShapeError(f"members must have the shape (cases, members, outcomes), got {members.shape}")
        cases, count, width = members.shape
        self._set("members", members)
        self._set("targets", tuple(map(str, self.targets)) or outcome_names(None, width))
        self._set("index", pd.RangeIndex(cases, name=ROW) if self.index is None else as_index(self.index))
        if self.weights is not None:
            self._set("weights", _checked_weights(self.weights, count))
        for name in ("outcomes", "leads"):
            if getattr(self, name) is not None:
                self._set(name, _finite(name, getattr(self, name)))
        if self.today is not None:
            self._set("today", np.asarray(self.today, dtype=np.float64))
        if self.sites is not None:
            self._set("sites", np.asarray(self.sites).astype(np.str_))
        for name in ("times", "issued"):
            if getattr(self, name) is not None:
                self._set(name, to_utc(getattr(self, name), name))
        self._set("features", _checked_table("feature", self.features))
        self._set("prices", _checked_table("price", self.prices))
        self._check_shapes(cases, width)
        self._know_moments()

    def __len__(self) -> int:
        return len(self.members)

    @property
    def is_point(self) -> bool:
        """Whether there is one member, which knows of no uncertainty."""
        return self.members.shape[1] == 1

    @property
    def labels(self) -> "pd.Index[Any]":
        """What messages and tables call the cases."""
        return case_labels(self.index)

    @property
    def outcome_table(self) -> pd.DataFrame:
        """What happened, (N, D), by case and target."""
        return pd.DataFrame(self.outcomes, self.labels, list(self.targets))

    @property
    def equal_members(self) -> Floats:
        """Members (N, M, D) that count alike: as they came, or 100 equally likely ones made of weighted ones."""
        if self.weights is None:
            return self.members
        levels = (np.arange(_EQUAL_MEMBERS) + 0.5) / _EQUAL_MEMBERS
        return self.members[:, np.searchsorted(np.cumsum(self.weights), levels)]  # weighted members are in order

    def priced(self, cost: Cost, needed: Collection[str] = ()) -> Cost:
        """The cost with the prices of each case, those that are needed among them; itself where all share one."""
        if missing := [name for name in needed if self.prices is None or name not in self.prices]:
            raise SettingError(
                f"prices must stand beside the forecasts where the cost names columns, got no {missing[0]}"
            )
        if self.prices is None:
            return cost
        if scalar_cost(cost) is None:
            raise CostError("prices of each case need a cost with one action and without risk aversion")
        own = {str(name): torch.tensor(self.prices[name].to_numpy()) for name in self.prices}
        return cast(Cost, replace(cast(Any, cost), **own))

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
        beside = {name: _taken(values, chosen) for name, values in self._beside.items()}
        return replace(self, members=self.members[chosen], index=self.index[chosen], **beside)

    def in_order(self) -> Self:
        """The same cases in the order in which they were issued, or else happen; those of one moment stay in order."""
        moments = [moment for moment in (self.times, self.issued) if moment is not None]
        return self.rows(np.lexsort(moments)) if moments else self

    @property
    def _beside(self) -> dict[str, Any]:
        """What is known of each case beside its members."""
        return {name: values for name in _OF_CASES if (values := getattr(self, name)) is not None}

    def each_by_itself(self) -> Self:
        """The same with every target of every case as a case of its own, known by its case and by its site."""
        cases, count, targets = self.members.shape
        members = self.members.transpose(0, 2, 1).reshape(cases * targets, count, 1)
        known_by = [self.index.get_level_values(level).repeat(targets) for level in range(self.index.nlevels)]
        sites = np.tile(np.array(self.targets, dtype=object), cases)
        index = pd.MultiIndex.from_arrays([*known_by, sites], names=[*self.index.names, "site"])
        beside = {name: values.repeat(targets) for name, values in self._beside.items()}
        columns = self.columns[:1] if len(set(self.columns)) == 1 else ()
        return replace(self, members=members, index=index, targets=("outcome",), columns=columns, **beside)

    def only(self, targets: Sequence[str]) -> Self:
        """The same with these targets alone."""
        places = [self.targets.index(target) for target in targets]
        columns = tuple(self.columns[place] for place in places) if self.columns else ()
        return replace(self, members=self.members[..., places], targets=tuple(targets), columns=columns)

    def by_number(self) -> Self:
        """The same with targets that differ by a number alone, and that nobody has put in an order, in that of it."""
        order = None if self.naming.order else number_order(self.targets)
        if order is None:
            return self
        targets = [self.targets[place] for place in order]
        note = f"outcomes are taken in the order of their numbers, not in that of the file: {shortened(targets)}"
        return self.only(targets).noting(note)

    def noting(self, *notes: str) -> Self:
        """The same with more to know about it."""
        return replace(self, notes=(*self.notes, *notes))

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
        for name in ("features", "prices"):
            if (table := getattr(self, name)) is not None and len(table) != cases:
                raise ShapeError(f"{name} must have a row for each of the {cases} cases, got {len(table)}")

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
        raise SettingError("weights must not be negative or all zero")
    return shares


def _checked_table(each: str, given: Any) -> pd.DataFrame | None:
    if given is None:
        return None
    table = given if isinstance(given, pd.DataFrame) else pd.DataFrame(np.asarray(given)).add_prefix("x")
    if table.ndim != 2 or not table.shape[1]:
        raise ShapeError(f"{each}s must have at least one column, got none")
    columns = {str(name): _finite(f"{each} {name!r}", column) for name, column in table.items()}
    if len(columns) < table.shape[1]:
        raise ShapeError(f"{each}s must have columns of different names")
    return pd.DataFrame(columns)


# The index that the cases are called by

ROW = "row"
"""The name of an index that counts the rows of a file, from 0."""


def as_index(labels: Any) -> "pd.Index[Any]":
    """Labels as an index; one of several levels as it is, since `pd.Index` would make tuples of them."""
    return labels if isinstance(labels, pd.Index) else pd.Index(labels)


def cases_text(index: "pd.Index[Any]", chosen: NDArray[np.bool_]) -> str:
    """The first of some cases, as a message has it, and how many more there are."""
    places = np.flatnonzero(chosen)
    label: Any = index[places[0]]
    text = ", ".join(map(str, label)) if isinstance(label, tuple) else str(label)
    more = f" and {len(places) - 1} more" if len(places) > 1 else ""
    return f"data row {label + 1}{more}" if index.name == ROW else f"case {text}{more}"


def one_row_each(numbers: pd.DataFrame, name: str) -> pd.DataFrame:
    """The numbers with one row for each case, from rows of which several of one case must agree."""
    once = numbers[~numbers.reset_index().duplicated().to_numpy()]
    if once.index.is_unique:
        return once
    case = once.index[once.index.duplicated()][0]
    several = once.loc[[case]]
    column = next(each for each in several.columns if several[each].nunique(dropna=False) > 1)
    first, second = (f"{value:.15g}" for value in several[column].drop_duplicates()[:2])
    label = ", ".join(map(str, case)) if isinstance(case, tuple) else case
    raise TableError(f"{name} must have one {column!r} a case, but {label} has both {first} and {second}")
