"""Forecasts that somebody else makes, as they came, and what belongs to them."""

from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from typing import Any, Self, cast

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from stakes.costs.cost import Cost
from stakes.costs.scalar_costs import scalar_cost
from stakes.data.case_table import outcome_names
from stakes.data.forecasts.tables import as_index, one_row_each
from stakes.data.tables.columns import case_labels
from stakes.data.tables.time_axis import Times, to_utc
from stakes.errors import CostError, NonFiniteError, SettingError, ShapeError

Floats = NDArray[np.float64]
_SECONDS = 3600.0  # of an hour
_EQUAL_MEMBERS = 100  # that stand for weighted ones where nothing else will do


@dataclass(frozen=True, eq=False)
class ForecastSet:
    """Forecasts of N cases, and what is known beside them."""

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
            raise CostError("prices of each case are for a cost of one number without an aversion to risk")
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


def _of_cases(forecasts: ForecastSet) -> list[str]:
    """The fields that have an entry for each case."""
    shared = ("weights", "targets", "notes", "columns")
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
