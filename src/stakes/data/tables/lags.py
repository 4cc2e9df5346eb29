"""Lagged features and lead-time targets from any regular time series, split by time."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from stakes.data.case_table import CaseTable
from stakes.data.tables.time_axis import Times, check_regular, hours_to_seconds, to_utc
from stakes.errors import SettingError, TableError, check_names, find_columns, first_repeated
from stakes.settings import shown

Floats = NDArray[np.floating[Any]]


class Series(Protocol):
    """Anything with named columns over time: a `TimeSeries`, or a `Record` of the package."""

    @property
    def times(self) -> Times:
        """The times (T,), increasing."""
        ...

    @property
    def values(self) -> Floats:
        """The values (T, C), NaN where they are missing."""
        ...

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the C columns."""
        ...


@dataclass(frozen=True, eq=False)
class TimeSeries:
    """Values with named columns at increasing times, whole multiples of one step apart; steps may be absent."""

    times: Times
    values: Floats
    columns: tuple[str, ...]  # the names of the C columns
    step_hours: float | None = None  # the step in hours; None takes the most frequent distance of neighbours
    step_seconds: int = field(init=False)  # the step in seconds, derived from the above

    def __post_init__(self) -> None:
        times, values = to_utc(self.times, "times"), _floats(self.values)
        if values.ndim == 1:
            values = values[:, None]
        check_names("columns", self.columns)
        expected = (len(times), len(self.columns))
        if values.shape != expected:
            raise TableError(f"values must have shape {expected}, times by columns, got {values.shape}")
        if len(set(self.columns)) < len(self.columns):
            raise TableError(f"columns must have different names, got {', '.join(self.columns)}")
        step = check_regular(times, self.step_hours)
        checked = {"times": times, "values": values, "columns": tuple(self.columns), "step_seconds": step}
        for name, value in checked.items():
            object.__setattr__(self, name, value)


def _floats(values: ArrayLike) -> Floats:
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(values.astype(np.result_type(values.dtype, np.float32)), np.nan)
    numbers = np.asarray(values)
    if numbers.dtype.kind not in "fiub":
        raise TableError(f"values must be real numbers, got {numbers.dtype}")
    return numbers if numbers.dtype == np.float32 else numbers.astype(np.float64, copy=False)


_WAVES = {"hour": "hour", "season": "season", "weekday_wave": "weekday"}  # and how their features begin
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_HOLIDAY = re.compile(r"holiday:(?P<country>[A-Z]{2,3})(?:-(?P<part>[A-Za-z0-9]{1,6}))?")
_EXPECTED = "hour, weekday, season or holiday:COUNTRY (such as holiday:FR or holiday:DE-BY)"


def check_calendar(calendar: Sequence[str]) -> None:
    """Raise unless each is known: "hour", "weekday", "season", "holiday:FR", or "weekday_wave"."""
    for name in calendar:
        if name not in (*_WAVES, "weekday") and not _HOLIDAY.fullmatch(name):
            raise SettingError(f"calendar must be {_EXPECTED}, got {shown(name)}")


def calendar_names(calendar: Sequence[str]) -> tuple[str, ...]:
    """The names of the features.

    >>> calendar_names(("hour", "holiday:FR"))
    ('hour_sin', 'hour_cos', 'holiday_FR')
    """
    return tuple(feature for name in calendar for feature in _names(name))


def calendar_features(times: Times, calendar: Sequence[str]) -> NDArray[np.float64]:
    """The features (N, K) of each time: sine and cosine of a wave, one 1 of seven for the weekday, 1 on a holiday."""
    return np.concatenate([np.empty((len(times), 0)), *(_values(times, name) for name in calendar)], axis=1)


def _names(name: str) -> tuple[str, ...]:
    if name in _WAVES:
        return (f"{_WAVES[name]}_sin", f"{_WAVES[name]}_cos")
    return tuple(f"weekday_{day}" for day in _WEEKDAYS) if name == "weekday" else (name.replace(":", "_"),)


def _values(times: Times, name: str) -> NDArray[np.float64]:
    days, years = times.astype("datetime64[D]"), times.astype("datetime64[Y]")
    weekday = (days.astype(int) + 3) % 7  # 1970-01-01 was a Thursday; Monday is 0
    if name == "weekday":
        return np.eye(7)[weekday]
    if name not in _WAVES:
        return _on_holidays(days, name)[:, None]
    year_start = years.astype("datetime64[s]")
    if name == "hour":
        fraction = (times - days) / np.timedelta64(1, "D")
    elif name == "season":
        fraction = (times - year_start) / ((years + np.timedelta64(1, "Y")).astype("datetime64[s]") - year_start)
    else:
        fraction = weekday / 7
    return np.stack([np.sin(2 * np.pi * fraction), np.cos(2 * np.pi * fraction)], axis=1)


def _on_holidays(days: NDArray[np.datetime64], name: str) -> NDArray[np.float64]:
    """1 on every public holiday (N,), by the package `holidays`."""
    match = _HOLIDAY.fullmatch(name)
    assert match is not None  # `check_calendar` has seen it
    years = sorted({day.year for day in np.unique(days.astype("datetime64[Y]")).astype(object)})
    try:
        from holidays import country_holidays

        known = country_holidays(match["country"], subdiv=match["part"], years=years)
    except ImportError as error:
        raise SettingError(f'calendar {name} needs the package holidays: pip install "stakes[holidays]"') from error
    except NotImplementedError as error:
        raise SettingError(
            f"calendar {name} is of a country or part that the package holidays lacks: {error}"
        ) from error
    return np.isin(days, np.array(sorted(known), "datetime64[D]")).astype(np.float64)


@dataclass(frozen=True)
class LaggedInput:
    """Columns that enter the features at the issue time and so many hours before it."""

    columns: tuple[str, ...]  # the names of the columns
    lag_hours: tuple[float, ...] = (0,)  # the hours before the issue time; 0 is that time itself

    def __post_init__(self) -> None:
        check_names("columns", self.columns)
        if not self.columns or not self.lag_hours:
            raise SettingError("columns and lag_hours of an input must hold at least one each")
        for lag in self.lag_hours:
            hours_to_seconds("lag_hours", lag, minimum=0)


@dataclass(frozen=True)
class LeftOut:
    """How many target times in range make no row; each counts under the first reason that holds."""

    outside_range: int  # an input would lie before the range
    absent_time: int  # a time that is needed is not in the series
    missing_value: int  # a value that is needed is missing


@dataclass(frozen=True, eq=False)
class Split(CaseTable):
    """Cases in the order of target time, and what became of the target times that make none."""

    left_out: LeftOut = LeftOut(0, 0, 0)  # how many target times make no case, by reason
    lacking: "Split | None" = None  # the target times that lack nothing but features

    def with_lacking(self) -> "Split":
        """With the target times that lack features among the others, for a split without outcomes."""
        if self.lacking is None:
            return self
        every = replace(self, left_out=replace(self.left_out, missing_value=0), lacking=None, incomplete=True)
        every = every.followed_by(self.lacking)
        assert every.times is not None
        return every.rows(np.argsort(every.times, kind="stable"))


@dataclass(frozen=True)
class LaggedSeries:
    """Which features and outcomes a row has.

    Features are, in this order: each input's columns at each of its lags ("ws10@-6h"), the columns at the target time
    ("temp@+24h", a stand-in for their forecast), and the calendar at the target time.

    >>> series = TimeSeries(np.arange("2020-01-01", "2020-01-11", dtype="datetime64[D]"), np.arange(10.0), ("wind",))
    >>> settings = LaggedSeries((LaggedInput(("wind",), (0, 48)),), targets=("wind",), lead_hours=24)
    >>> split = settings.split(series, "2020-01-02", "2020-01-07")
    >>> split.feature_names, split.features.tolist(), split.outcome.tolist()
    (('wind@0h', 'wind@-48h'), [[3.0, 1.0], [4.0, 2.0]], [[4.0], [5.0]])
    >>> split.left_out
    LeftOut(outside_range=3, absent_time=0, missing_value=0)
    """

    inputs: tuple[LaggedInput, ...]  # the columns that are seen at the issue time and before it
    targets: tuple[str, ...]  # the columns that are to be forecast
    lead_hours: float  # the hours from the issue time to the target time
    at_target_time: tuple[str, ...] = ()  # columns that are seen at the target time itself
    calendar: tuple[str, ...] = ()
    months: tuple[int, ...] = ()  # the months, 1 to 12, whose target times make rows; none for all

    def __post_init__(self) -> None:
        hours_to_seconds("lead_hours", self.lead_hours)
        for label in ("targets", "at_target_time", "calendar"):
            check_names(label, getattr(self, label))
        check_calendar(self.calendar)
        for month in self.months:
            if month not in range(1, 13):
                raise SettingError(f"months must be 1 to 12, got {month!r}")
        if not self.targets or not self.feature_names:
            raise SettingError("targets and features must name at least one column each")
        for label, names in (("features", self.feature_names), ("targets", self.targets)):
            if (twice := first_repeated(names)) is not None:
                raise SettingError(f"{label} must differ from each other, got {twice} twice")
        if shared := set(self.targets) & set(self.at_target_time):
            raise SettingError(f"at_target_time would show the model its own target {sorted(shared)[0]}")

    @property
    def feature_names(self) -> tuple[str, ...]:
        return (
            *(f"{name}@{0 - lag:g}h" for part in self.inputs for lag in part.lag_hours for name in part.columns),
            *(f"{name}@+{self.lead_hours:g}h" for name in self.at_target_time),
            *calendar_names(self.calendar),
        )

    def split(self, series: Series, start: Any, end: Any) -> Split:
        """The rows whose every input and target lies in [start, end)."""
        series = _time_series(series)
        first, last = _range(start, end)
        blocks = self._blocks(series)
        targets = self._target_times(series, first, last)
        inside = targets - np.timedelta64(max(shift for shift, _ in blocks), "s") >= first
        rows = self._rows(series, blocks, targets[inside], self.targets)
        left_out = replace(rows.left_out, outside_range=int((~inside).sum()))
        if not len(rows):
            raise TableError(
                f"no row of the series ({series.times[0]} to {series.times[-1]}) is complete in [{first}, {last}): of "
                f"{len(targets)} target times, {left_out.outside_range} need inputs from outside the range, "
                f"{left_out.absent_time} need absent times and {left_out.missing_value} missing values"
            )
        return replace(rows, left_out=left_out)

    def upcoming(self, series: Series) -> Split:
        """The rows of every time of the series plus the lead; their outcomes, not known yet, are (N, 0)."""
        series = _time_series(series)
        targets: Times = series.times + np.timedelta64(round(self.lead_hours * 3600), "s")
        return self._rows(series, self._blocks(series), targets, ())

    def splits(self, series: Series, ranges: Mapping[str, tuple[Any, Any]]) -> dict[str, Split]:
        """A split for each of several ranges."""
        ordered = sorted((*_range(*bounds), name) for name, bounds in ranges.items())
        for (_, end, earlier), (start, _, later) in pairwise(ordered):
            if start < end:
                raise SettingError(f"splits must not overlap, but {later!r} starts {start} and {earlier!r} ends {end}")
        return {name: self.split(series, *bounds) for name, bounds in ranges.items()}

    def _rows(
        self, series: TimeSeries, blocks: list[tuple[int, list[int]]], targets: Times, outcomes: tuple[str, ...]
    ) -> Split:
        """The complete rows of these target times."""
        wanted = [*blocks, (0, find_columns(outcomes, series.columns))]
        shifts = {shift for shift, places in wanted if places}
        rows = {shift: _rows_at(series.times, targets - np.timedelta64(shift, "s")) for shift in shifts}
        present = np.all([places >= 0 for places in rows.values()], axis=0)
        kept = {shift: places[present] for shift, places in rows.items()}
        nowhere = np.zeros(int(present.sum()), np.intp)  # of a block without columns
        *pieces, seen = (series.values[kept.get(shift, nowhere)[:, None], places] for shift, places in wanted)
        pieces.append(calendar_features(targets[present], self.calendar).astype(series.values.dtype))
        features = np.concatenate(pieces, axis=1)  # (N, F)
        known, judged, times = np.isfinite(features).all(1), np.isfinite(seen).all(1), targets[present]
        finite, lacking = known & judged, ~known & judged
        left_out = LeftOut(0, int((~present).sum()), int((~finite).sum()))

        def cases(chosen: NDArray[np.bool_], incomplete: bool) -> Split:
            return Split(
                torch.from_numpy(features[chosen]),
                torch.from_numpy(seen[chosen]),
                times[chosen],
                self.feature_names,
                outcomes,
                incomplete=incomplete,
            )

        return replace(cases(finite, False), left_out=left_out, lacking=cases(lacking, True))

    def _blocks(self, series: TimeSeries) -> list[tuple[int, list[int]]]:
        """Seconds before the target time, and columns, of each piece of the features; the last is the target time."""
        step, lead = series.step_seconds, round(self.lead_hours * 3600)
        lags = [(part, lag) for part in self.inputs for lag in part.lag_hours]
        for label, hours in (("lead_hours", self.lead_hours), *(("lag_hours", lag) for _, lag in lags)):
            if round(hours * 3600) % step:
                raise SettingError(f"{label} must be a multiple of the series' step, {step / 3600:g} h, got {hours:g}")
        blocks = [(lead + round(lag * 3600), find_columns(part.columns, series.columns)) for part, lag in lags]
        return [*blocks, (0, find_columns(self.at_target_time, series.columns))]

    def _target_times(self, series: TimeSeries, first: np.datetime64, last: np.datetime64) -> Times:
        """Every step of the series in [first, last), there or absent, in the chosen months."""
        origin, step = series.times[0], np.timedelta64(series.step_seconds, "s")
        begin = max(0, -((origin - first) // step))
        stop = min((series.times[-1] - origin) // step + 1, -((origin - last) // step))
        targets: Times = origin + step * np.arange(begin, max(begin, stop))
        if not self.months:
            return targets
        return targets[np.isin(targets.astype("datetime64[M]").astype(int) % 12 + 1, self.months)]


def _time_series(series: Series) -> TimeSeries:
    return series if isinstance(series, TimeSeries) else TimeSeries(series.times, series.values, series.columns)


def _rows_at(times: Times, wanted: Times) -> NDArray[np.intp]:
    """The row of each wanted time, -1 where it is absent."""
    places = np.searchsorted(times, wanted).clip(max=len(times) - 1)
    return np.where(times[places] == wanted, places, -1)


def _range(start: Any, end: Any) -> tuple[np.datetime64, np.datetime64]:
    first, last = to_utc([start], "start")[0], to_utc([end], "end")[0]
    if not first < last:
        raise SettingError(f"start must come before end, got {first} and {last}")
    return first, last
