"""Which columns of a table are what, the cases that it has, and what became of its other rows."""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from stakes.data.case_table import CaseTable
from stakes.data.forecasts.columns import with_ranges
from stakes.data.tables.columns import (
    column_numbers,
    column_times,
    direction_features,
    encode_angles,
    is_text,
    numeric_columns,
    require_columns,
)
from stakes.data.tables.lags import (
    LaggedInput,
    LaggedSeries,
    Split,
    TimeSeries,
    calendar_features,
    calendar_names,
    check_calendar,
)
from stakes.data.tables.roles import ColumnRoles
from stakes.data.tables.time_axis import Times, hours_to_seconds, most_frequent_step
from stakes.errors import SettingError, TableError, check_names, first_repeated
from stakes.settings import shown

_MOSTLY = 0.95  # of the missing values lie before the first known one, or after the last
_NAMED = 3


@dataclass(frozen=True)
class MissingColumns:
    """The columns that are missing together in most of the rows that are left out."""

    columns: tuple[str, ...]  # their names
    given_back: int  # how many more rows could be used without them as features
    when: str  # where they are missing: "before 1988-01-02", "after 2003-05-06" or "in 12 rows"

    @property
    def sentence(self) -> str:
        """The same in words."""
        names, more = ", ".join(map(shown, self.columns[:_NAMED])), len(self.columns) - _NAMED
        names += f" and {more} more" if more > 0 else ""
        verb, them = ("is", "it") if len(self.columns) == 1 else ("are", "them")
        return f"{names} {verb} missing {self.when}: without {them} {self.given_back:,} more rows could be used"


def missing_columns(
    missing: NDArray[np.bool_],
    column_of: Sequence[str],
    columns: Mapping[str, NDArray[np.float64]],
    times: Times | None,
) -> MissingColumns | None:
    """Look at the rows that are left out; None where nothing is missing in any of them."""
    places = np.flatnonzero(missing.any(0)).tolist()
    position = {name: index for index, name in enumerate(dict.fromkeys(column_of[place] for place in places))}
    names = tuple(position)
    if not names:
        return None
    by_column = np.zeros((len(missing), len(names)), bool)
    for place in places:
        by_column[:, position[column_of[place]]] |= missing[:, place]
    kinds, counts = np.unique(np.packbits(by_column, axis=1), axis=0, return_counts=True)
    together = np.unpackbits(kinds[counts.argmax()], count=len(names)).astype(bool)
    given_back = int((~by_column[:, ~together].any(1)).sum())
    blamed = tuple(name for name, is_blamed in zip(names, together, strict=True) if is_blamed)
    known = np.all([~np.isnan(columns[name]) for name in blamed], axis=0)
    return MissingColumns(blamed, given_back, _when(known, times))


def _when(known: NDArray[np.bool_], times: Times | None) -> str:
    if times is not None and known.any():
        first, last, lacking = times[known].min(), times[known].max(), times[~known]
        if (lacking < first).mean() >= _MOSTLY:
            return f"before {np.datetime_as_string(first, 'D')}"
        if (lacking > last).mean() >= _MOSTLY:
            return f"after {np.datetime_as_string(last, 'D')}"
    count = int((~known).sum())
    return f"in {count:,} row{'' if count == 1 else 's'}"


Floats = NDArray[np.float64]


@dataclass(frozen=True)
class DataQuality:
    """What became of a table's rows."""

    rows: int  # rows of the table
    used: int  # cases that were made of them
    left_out: dict[str, int]  # how many rows or target times gave no case, by reason
    first: str | None  # the earliest time, ISO in UTC; None without a column of times
    last: str | None  # the latest time, likewise
    step_hours: float | None
    gaps: int  # places where more than that step lies between neighbours in time
    constant: tuple[str, ...]  # the columns that hold one value only
    columns: dict[str, dict[str, float]]
    unsorted: int = 0  # rows that came after a later one and were put in order
    blamed: MissingColumns | None = None


def left_out_notes(quality: DataQuality) -> tuple[str, ...]:
    """Sentences about rows that gave no case, and about the columns to blame."""
    counted = (f"{count:,} of {quality.rows:,} rows left out: {reason}" for reason, count in quality.left_out.items())
    return (*counted, *(() if quality.blamed is None else (quality.blamed.sentence,)))


def _time_facts(times: Times | None) -> dict[str, Any]:
    if times is None:
        return {"first": None, "last": None, "step_hours": None, "gaps": 0}
    ordered = np.sort(times)
    apart = np.diff(ordered).astype(np.int64)
    step = most_frequent_step(apart) if len(apart) else None
    return {
        "first": str(ordered[0]),
        "last": str(ordered[-1]),
        "step_hours": None if step is None else float(step / 3600),
        "gaps": 0 if step is None else int((apart > step).sum()),
        "unsorted": int((np.diff(times).astype(np.int64) < 0).sum()),
    }


def _column_facts(values: Floats) -> dict[str, float]:
    present = values[~np.isnan(values)]
    missing = {"missing": float(len(values) - len(present))}
    if not len(present):
        return missing
    return {"min": float(present.min()), "mean": float(present.mean()), "max": float(present.max())} | missing


MISSING_FEATURE = "a feature is missing"
"""Why a row is left out that lacks nothing else."""

_MISSING_OUTCOME = "the outcome is missing"
_BEFORE_START, _ABSENT_TIME = "the lags reach before the first row", "a time it needs is absent"
_MISSING_VALUE = "a value it needs is missing"
_LARGEST = float(np.finfo(np.float32).max)  # models compute in single precision


@dataclass(frozen=True, eq=False)
class TableCases(CaseTable):
    """The cases of a table, in the order of time, and what became of its rows."""

    quality: DataQuality = field(kw_only=True)


@dataclass(frozen=True)
class TableLayout(ColumnRoles):
    """What the columns of a table are.

    Attributes:
        targets: What is to be forecast.
        features: What it is forecast from; none for all columns of numbers that are nothing else.
        time: The column of times; None where the rows have none.
        lags: The ages of the features, in hours before the issue time; none for features of the same row.
        lead: The hours from the issue time to the target; None without lags.
        known: Columns whose values at the target time are known beforehand, such as weather forecasts.
        calendar: Features of the target time: "hour", "weekday", "season", "holiday:FR".
        baseline_action: The column of today's action, or several with commas between them; None where it is not known.
        directions: Features in degrees, which become sine and cosine.

    >>> table = pd.DataFrame({"time": pd.date_range("2020-01-01", periods=5, freq="6h"), "load": [5.0, 6, 9, 7, 4]})
    >>> layout = TableLayout(("load",), time="time", lags=(0, 6), lead=6).resolved(table)
    >>> layout.feature_names
    ('load@0h', 'load@-6h')
    >>> layout.cases(table).outcome.tolist(), layout.inputs(table).times[-1]
    ([[9.0], [7.0], [4.0]], np.datetime64('2020-01-02T06:00:00'))
    """

    def __post_init__(self) -> None:
        for name in ("targets", "features", "known", "calendar", "directions"):
            check_names(name, getattr(self, name))
            _require_different(name, getattr(self, name))
        if not self.targets:
            raise SettingError("targets must name at least one column")
        check_calendar(self.calendar)
        self._require_times()
        for name in ("time", "baseline_action"):
            taken = {*self.targets, *self.features, *self.known}
            columns = [] if getattr(self, name) is None else [getattr(self, name), *getattr(self, name).split(",")]
            if column := next((column for column in columns if column.strip() in taken), None):
                raise SettingError(f"the column {column!r} is {name}, so it cannot be a target or a feature too")
        if shared := {*self.targets} & {*self.known, *(() if self.lags else self.features)}:
            raise SettingError(f"the target {min(shared)!r} cannot be a feature of its own time; give lags and lead")
        if self.features and (stray := {*self.directions} - {*self.features, *self.known}):
            raise SettingError(f"directions must be features or columns known in advance, got {min(stray)!r}")
        if taken := {*self._made_of(self.directions)} & {*self.targets, *self.features, *self.known}:
            raise SettingError(f"directions become sine and cosine, but the column {min(taken)!r} exists already")

    def resolved(self, table: pd.DataFrame) -> "TableLayout":
        """The layout with all columns named.

        Args:
            table: The table.
        """
        there, several = [str(column) for column in table.columns], ("targets", "features", "known")
        named: dict[str, Any] = {name: tuple(with_ranges(getattr(self, name), there, "the table")) for name in several}
        today = with_ranges(self._todays_columns(table), there, "the table")
        named["baseline_action"] = ",".join(today) or None
        if any(value != getattr(self, name) for name, value in named.items()):
            return replace(self, **named).resolved(table)
        if self.features:
            return self
        require_columns(table, self.targets, "targets")
        others = {self.time, *self._todays_columns(table), *(() if self.lags else self.targets)}
        candidates = [str(column) for column in table.columns if str(column) not in others]
        numeric, filled = set(numeric_columns(table)), set(table.columns[table.notna().any()])
        for column in candidates:
            is_time = pd.api.types.is_datetime64_any_dtype(table[column].dtype)
            if column in filled and column not in numeric and not is_time and not is_text(table[column]):
                column_numbers(table, [column], "features")  # a few bad cells among numbers are not passed over
        features = tuple(sorted(column for column in candidates if column in numeric and column in filled))
        if not (features or self.calendar):
            raise TableError(f"the table has no column of numbers for the features besides {', '.join(self.targets)}")
        return replace(self, features=features)

    def unused(self, table: pd.DataFrame) -> tuple[str, ...]:
        """The columns that the layout does not use.

        Args:
            table: The table.
        """
        used = {self.time, *self._todays_columns(table), *self.targets, *self.features, *self.known}
        return tuple(str(column) for column in table.columns if str(column) not in used)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the features of a case, such as "load@-6h"."""
        if self.lags:
            return self._lagged().feature_names
        return (*self._made_of(self.features), *calendar_names(self.calendar))

    def cases(self, table: pd.DataFrame) -> TableCases:
        """Every case whose features and outcomes are there.

        Args:
            table: The table.
        """
        if len(table) < 2:
            raise TableError(f"the table has {len(table)} row, expected many to learn from")
        layout = self.resolved(table)
        cases = layout._lagged_cases(table, True) if self.lags else layout._row_cases(table, True)
        if len(cases) < 2:
            left_out = _counted(cases.quality.left_out)
            raise TableError(f"only one case of the table is complete, expected many to learn from: {left_out}")
        for target, values in zip(cases.outcome_names, cases.outcome.T, strict=True):
            if (values == values[0]).all():
                raise TableError(
                    f"the target {target!r} is {values[0]:g} in all {len(cases)} cases: nothing to forecast"
                )
        return cases

    def inputs(self, table: pd.DataFrame, *, incomplete: bool = False) -> TableCases:
        """Every case whose features are there; with lags, up to `lead` after the table's last time.

        Args:
            table: The table.
            incomplete: Whether features may be missing.
        """
        if not self.features and not self.calendar:
            raise SettingError("features must be named for inputs; take the layout that `resolved` gave for the cases")
        make = self._lagged_cases if self.lags else self._row_cases
        return make(table, False, incomplete)

    @property
    def source_columns(self) -> tuple[str, ...]:
        """The column that each feature is made of, in the order of `feature_names`; the calendar, last, has none."""
        inputs = (*(self.features * max(1, len(self.lags))), *self.known)
        return tuple(name for name in inputs for _ in direction_features(name, self.directions))

    def _require_times(self) -> None:
        """Raise unless lags, lead, time and known belong together."""
        for lag in self.lags:
            hours_to_seconds("lags", lag, minimum=0)
        _require_different("lags", self.lags)
        if self.lead is not None:
            hours_to_seconds("lead", self.lead)
        if self.lags and (self.lead is None or self.time is None):
            raise SettingError("lags need lead, the hours from the issue time to the target, and the column time")
        if not self.lags and (self.lead is not None or self.known):
            given = "lead" if self.lead is not None else "known"
            raise SettingError(f"{given} needs lags; without lags each row is a case and its columns are the features")
        if self.calendar and self.time is None:
            raise SettingError("calendar needs the column time")

    def _lagged(self) -> LaggedSeries:
        inputs = (LaggedInput(self._made_of(self.features), self.lags),) if self.features else ()
        return LaggedSeries(inputs, self.targets, self.lead or 0.0, self._made_of(self.known), self.calendar)

    def _made_of(self, columns: Sequence[str]) -> tuple[str, ...]:
        """The names of the features that the columns make: their own, but of a direction sine and cosine."""
        return tuple(name for column in columns for name in direction_features(column, self.directions))

    def _row_cases(self, table: pd.DataFrame, with_outcomes: bool, incomplete: bool = False) -> TableCases:
        features = encode_angles(_usable(table, self.features, "features", incomplete), self.features, self.directions)
        at, order = self._order(table)
        if at is not None:
            features = np.concatenate([features, calendar_features(at, self.calendar)], axis=1)
        outcomes = _usable(table, self.targets, "targets") if with_outcomes else None
        today = self._todays_action(table, with_outcomes)
        lacking = np.isnan(features).any(1) & (not incomplete)
        unjudged = np.zeros(len(table), bool) if outcomes is None else np.isnan(outcomes).any(1)
        lacks = {MISSING_FEATURE: lacking, _MISSING_OUTCOME: unjudged & ~lacking}
        left_out = {reason: int(rows.sum()) for reason, rows in lacks.items() if rows.any()}
        kept = order[~np.logical_or(lacking, unjudged)[order]]
        if not len(kept):
            raise TableError(f"no row of the table is complete: {_counted(left_out)}")
        index = pd.Index(kept + 1, name="row") if at is None else pd.DatetimeIndex(at[kept], name=self.time)
        quality = self._quality(table, at, len(kept), left_out, with_outcomes, np.isnan(features[lacking & ~unjudged]))
        return TableCases(
            torch.from_numpy(features[kept]),
            torch.from_numpy(np.empty((len(kept), 0)) if outcomes is None else outcomes[kept]),
            None if at is None else at[kept],
            self.feature_names,
            () if outcomes is None else self.targets,
            index,
            today=None if today is None else torch.from_numpy(today[kept]),
            incomplete=incomplete,
            quality=quality,
        )

    def _lagged_cases(self, table: pd.DataFrame, with_outcomes: bool, incomplete: bool = False) -> TableCases:
        at, order = self._order(table)
        assert at is not None  # lags need time
        ordered = at[order]
        columns, values = self._series_columns(table, with_outcomes, incomplete)
        step_hours = self._step_hours(ordered, with_outcomes)
        split = self._split(TimeSeries(ordered, values[order], columns, step_hours), with_outcomes)
        split = split.with_lacking() if incomplete else split
        missed = split.left_out
        reasons = {_BEFORE_START: missed.outside_range, _ABSENT_TIME: missed.absent_time}
        left_out = {
            reason: count for reason, count in (reasons | {_MISSING_VALUE: missed.missing_value}).items() if count
        }
        if not len(split):
            raise TableError(f"no target time has all its features in the table: {_counted(left_out)}")
        assert split.times is not None
        today = self._todays_action(table, with_outcomes)
        if today is not None:  # at the target times, NaN where there is no such row
            place = np.searchsorted(ordered, split.times).clip(max=len(ordered) - 1)
            known = (ordered[place] == split.times).reshape(-1, *[1] * (today.ndim - 1))
            today = np.where(known, today[order][place], np.nan)
        lacking = np.zeros((0, 0), bool) if split.lacking is None else split.lacking.features.isnan().numpy()
        return TableCases(
            split.features,
            split.outcome,
            split.times,
            split.feature_names,
            split.outcome_names,
            pd.DatetimeIndex(split.times, name=self.time),
            today=None if today is None else torch.from_numpy(today),
            incomplete=incomplete,
            quality=self._quality(table, at, len(split), left_out, with_outcomes, lacking),
        )

    def _split(self, series: TimeSeries, with_outcomes: bool) -> Split:
        if not with_outcomes:
            return self._lagged().upcoming(series)
        return self._lagged().split(series, series.times[0], series.times[-1] + np.timedelta64(1, "s"))

    def _series_columns(
        self, table: pd.DataFrame, with_outcomes: bool, incomplete: bool
    ) -> tuple[tuple[str, ...], Floats]:
        """The columns that cases are made of, each once, and their numbers in the order of the rows."""
        parts = {"features": self.features, "known": self.known, "targets": self.targets if with_outcomes else ()}
        columns: dict[str, Floats] = {}
        for what, names in parts.items():
            turned = () if what == "targets" else self.directions
            values = encode_angles(_usable(table, names, what, incomplete), names, turned)
            made = names if what == "targets" else self._made_of(names)
            columns |= dict(zip(made, values.T, strict=True))
        return tuple(columns), np.stack(list(columns.values()), axis=1)

    def _step_hours(self, ordered: Times, with_outcomes: bool) -> float:
        """The most frequent step, or, for inputs, which may be few rows far apart, one that fits them all."""
        hours = {"lead": self.lead or 0.0, **{f"the lag {lag:g}": lag for lag in self.lags}}
        seconds = {name: round(value * 3600) for name, value in hours.items()}
        apart = np.diff(ordered).astype(np.int64)
        if not with_outcomes:
            return math.gcd(*seconds.values(), *apart.tolist()) / 3600
        step = most_frequent_step(apart)
        if len(odd := np.flatnonzero((ordered - ordered[0]).astype(np.int64) % step)):
            raise TableError(
                f"column {self.time!r} must have times whole steps of {step / 3600:g} h apart for lags, but "
                f"{ordered[odd[0]]} is not, counted from {ordered[0]}"
            )
        for name, value in seconds.items():
            if value % step:
                raise SettingError(
                    f"{name} must be a multiple of the table's step, {step / 3600:g} h, got {value / 3600:g} h"
                )
        return step / 3600

    def _order(self, table: pd.DataFrame) -> tuple[Times | None, NDArray[np.intp]]:
        """The times of the rows as they stand, if there are any, and the order in which they increase."""
        if self.time is None:
            return None, np.arange(len(table))
        at = column_times(table, self.time)
        return at, np.argsort(at, kind="stable")

    def _todays_action(self, table: pd.DataFrame, required: bool) -> Floats | None:
        """Today's action in each row, (N,) or (N, A); where a decision is yet to come, no column need be there."""
        columns = self._todays_columns(table)
        if not columns or not (required or all(name in table.columns for name in columns)):
            return None
        numbers = column_numbers(table, columns, "baseline_action")
        return numbers if len(columns) > 1 else numbers[:, 0]

    def _todays_columns(self, table: pd.DataFrame) -> list[str]:
        """The columns of today's action."""
        if self.baseline_action is None or self.baseline_action in table.columns:
            return [] if self.baseline_action is None else [self.baseline_action]
        return [part.strip() for part in self.baseline_action.split(",")]

    def _quality(
        self,
        table: pd.DataFrame,
        at: Times | None,
        used: int,
        left_out: dict[str, int],
        with_outcomes: bool,
        lacking: NDArray[np.bool_],
    ) -> DataQuality:
        optional = (*(self.targets if with_outcomes else ()), *self._todays_columns(table))
        columns = [name for name in dict.fromkeys((*self.features, *self.known, *optional)) if name in table.columns]
        facts = dict(zip(columns, column_numbers(table, columns, "the table").T, strict=True))
        blamed = missing_columns(lacking, self.source_columns, facts, at) if with_outcomes else None
        if blamed is not None and set(blamed.columns) & set(self.targets):  # without which there is no case either
            blamed = None
        known = {name: _column_facts(values) for name, values in facts.items()}
        return DataQuality(
            rows=len(table),
            used=used,
            left_out=left_out,
            constant=tuple(name for name, each in known.items() if "min" in each and each["min"] == each["max"]),
            columns=known,
            blamed=blamed,
            **_time_facts(at),
        )


def _usable(table: pd.DataFrame, columns: Sequence[str], what: str, may_be_empty: bool = False) -> Floats:
    """The columns as numbers, each with some value unless it may be empty, and within what models compute with."""
    numbers = column_numbers(table, columns, what)
    unusable = (np.isnan(numbers).all(0) & (not may_be_empty)) | (np.abs(numbers) > _LARGEST).any(0)
    for place in map(int, np.flatnonzero(unusable)):
        name, values = columns[place], numbers[:, place]
        if np.isnan(values).all():
            raise TableError(f"{what}: column {name!r} has no value in any row")
        row = int(np.argmax(np.abs(values) > _LARGEST))
        raise TableError(
            f"{what}: column {name!r} must hold numbers of at most {_LARGEST:.1e}, got {values[row]:g} in "
            f"data row {row + 1}"
        )
    return numbers


def _require_different(name: str, values: Sequence[Hashable]) -> None:
    if (twice := first_repeated(values)) is not None:
        raise SettingError(f"{name} must differ from each other, got {twice!r} twice")


def _counted(left_out: Mapping[str, int]) -> str:
    return ", ".join(f"in {count} {reason}" for reason, count in left_out.items())
