"""Long tables of many series: what their columns are, and features of some series at a time from columnar files."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from numpy.typing import NDArray

from stakes.data.tables.columns import column_numbers, column_times
from stakes.data.tables.lags import calendar_features, calendar_names, check_calendar
from stakes.data.tables.time_axis import Times, hours_to_seconds, most_frequent_step
from stakes.errors import SettingError, TableError, check_names, did_you_mean, first_repeated, one_line
from stakes.settings import shown
from stakes.text import count_text

Floats = NDArray[np.floating[Any]]
Places = NDArray[np.integer[Any]]

SERIES_COLUMNS, TIME_COLUMNS = ("unique_id", "item_id"), ("ds", "timestamp", "date", "time", "datetime")
"""The columns of the series and of their times that are known by name."""

MOST_LEVELS = 1000  # of a category: each takes a parameter
_KEY_LEVELS = 200  # of a column of the key that becomes a category by itself
_MOST_STEPS = 2_000_000  # from the first time of a table to its last
_CELLS = 1 << 20  # of the dense values of the series that are worked on at once
_DAY, _WEEK = 24.0, 168.0
_PRIOR = 1.0  # how many values the level before them counts
_FEW = 5  # outcomes, of which a series knows little of its level
_QUIET = 7  # steps without a row, after which a series has ended


@dataclass(frozen=True)
class PanelLayout:
    """What the columns of a long table are; durations are hours.

    >>> PanelLayout(("store", "item"), "demand", "date", lags=(0, 144), leads=(24,)).leads
    (24,)
    """

    series: tuple[str, ...]  # the columns that tell one series from another; none for a table of one series
    target: str
    time: str
    lags: tuple[float, ...]  # the ages of the values of the target that are features, at the issue time
    leads: tuple[float, ...]  # from the issue time to the target times
    windows: tuple[float, ...] = ()  # spans up to the issue time whose means are features
    known: tuple[str, ...] = ()  # columns known beforehand for the target time
    static: tuple[str, ...] = ()  # columns with one value a series
    categorical: tuple[str, ...] = ()  # those of all these, and of `series`, that are no numbers
    calendar: tuple[str, ...] = ()
    calendar_zone: str | None = None  # whose clock the calendar is of; UTC by default
    mask: str | None = None  # the column that is 0 where there is no outcome, such as on days when a shop is closed
    reported_after: float = 0.0  # how long after its time a value of the target is known
    baseline_action: str | None = None
    parameters: tuple[str, ...] = ()  # columns with parameters of the cost
    step: float | None = None  # from one row of a series to the next; None takes the most frequent one

    def __post_init__(self) -> None:
        for name in ("series", "known", "static", "categorical", "calendar", "parameters"):
            check_names(name, getattr(self, name))
            if (twice := first_repeated(getattr(self, name))) is not None:
                raise SettingError(f"{name} must differ from each other, got {twice!r} twice")
        check_calendar(self.calendar)
        if not self.leads:
            raise SettingError("leads must have at least one duration, from the issue time to the target time")
        for name, least in (("lags", 0), ("windows", 1), ("leads", 1)):
            values = getattr(self, name)
            for value in values:
                hours_to_seconds(name.removesuffix("s"), value, minimum=least)
            if (again := first_repeated(values)) is not None:
                raise SettingError(f"{name} must differ from each other, got {again:g} h twice")
        hours_to_seconds("reported_after", self.reported_after, minimum=0)
        for lag in self.lags:
            if lag < self.reported_after:
                raise SettingError(
                    f"lags must reach back at least reported_after, {self.reported_after:g} h, got {lag:g}"
                )
        if self.target in (*self.series, *self.known, *self.static, *self.categorical):
            raise SettingError(f"the target {self.target!r} cannot be a feature of its own time")
        if self.calendar_zone is not None:
            _zone(self.calendar_zone)

    @property
    def numbers(self) -> tuple[str, ...]:
        """The features beside the target that are numbers."""
        return tuple(name for name in (*self.known, *self.static) if name not in self.categorical)

    @property
    def words(self) -> tuple[str, ...]:
        """The features that are categories."""
        others = [name for name in self.categorical if name not in (*self.known, *self.static, *self.series)]
        named = [name for name in (*self.known, *self.static, *self.series) if name in self.categorical]
        return (*named, *others)

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that is read, each once."""
        single = (self.mask, self.baseline_action)
        more = (*self.numbers, *self.words, *(name for name in single if name), *self.parameters)
        return tuple(dict.fromkeys((*self.series, self.time, self.target, *more)))

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the features of a case but for categories: first those on the scale of the target."""
        lagged = (f"{self.target}@{0 - lag:g}h" for lag in self.lags)
        means = (f"{self.target} mean {window:g}h" for window in self.windows)
        lead = ("lead",) if len(self.leads) > 1 else ()
        own = (*lagged, *means, f"{self.target} season")
        return (*own, "history", *lead, *self.numbers, *calendar_names(self.calendar))

    @property
    def scaled(self) -> int:
        """How many of the features, the first ones, are on the scale of the target."""
        return len(self.lags) + len(self.windows) + 1

    def resolved(self, names: Sequence[str]) -> "PanelLayout":
        """The layout itself; a column that the table lacks is refused."""
        for column in self.columns:
            if column not in names and column not in (self.target, self.baseline_action):
                raise TableError(f"the table has no column {column!r}; {did_you_mean(column, tuple(names))}")
        return self


def recognised(names: Sequence[str], known: Sequence[str], what: str) -> str:
    """The column that is known by its name."""
    if found := [name for name in known if name in names]:
        return found[0]
    raise TableError(f"no column of {what} is named: name it, or call it {' or '.join(known)}")


@dataclass(frozen=True, eq=False)
class PanelCases:
    """Cases of some series: a target time and a lead each."""

    series: Places  # the place of the series in the panel, (n,)
    step: Places  # the target time in steps from the panel's start, (n,)
    lead: Places  # steps from the issue time, (n,)
    level: Floats  # what the series is scaled by, known at the issue time and above 0, (n,)
    features: Floats  # (n, F), those on the target's scale divided by the level; NaN where missing
    words: Places  # categories (n, C), -1 for a level that was not learned
    outcome: Floats  # (n,), NaN where it is not known
    parameters: dict[str, Floats]  # of the cost, (n,), by column
    today: Floats | None = None  # today's action, (n,), NaN where it is not known
    known: NDArray[np.bool_] = field(
        default_factory=lambda: np.zeros(0, bool)
    )  # whether the series has a history, (n,)

    def __len__(self) -> int:
        return len(self.series)

    def rows(self, chosen: Any) -> "PanelCases":
        """Some of the cases."""
        values = {name: value[chosen] for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        return replace(self, **values, parameters={name: each[chosen] for name, each in self.parameters.items()})

    @classmethod
    def joined(cls, parts: Sequence["PanelCases"]) -> "PanelCases":
        """Cases of some series, then of others."""
        first = parts[0]
        names = [name for name, value in vars(first).items() if isinstance(value, np.ndarray)]
        values = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
        owns = {name: np.concatenate([part.parameters[name] for part in parts]) for name in first.parameters}
        return replace(first, **values, parameters=owns)


@dataclass(frozen=True)
class PanelScale:
    """What a level is where a series has no history: of all series, and by words and numbers that it has beforehand."""

    level: float  # the geometric mean over the series
    by_word: dict[str, tuple[float, ...]] = field(default_factory=dict)  # the factor of each level, by category
    levels: dict[str, tuple[str, ...]] = field(default_factory=dict)  # the words of each category, in order

    def __post_init__(self) -> None:
        for value in (self.level, *(factor for factors in self.by_word.values() for factor in factors)):
            if not 0 < value < math.inf:
                raise SettingError(f"level and by_word must be finite and above 0, got {value:g}")
        for name, factors in self.by_word.items():
            if len(factors) != len(self.levels.get(name, ())):
                raise SettingError(f"by_word must have a factor for each word of {shown(name)}")

    def of(self, names: Sequence[str], words: Places) -> Floats:
        """The level of series with these words (n, C)."""
        log = np.full(len(words), math.log(self.level))
        for place, name in enumerate(names):
            if factors := self.by_word.get(name):
                log += np.where(words[:, place] >= 0, np.log(np.array([*factors, 1.0]))[words[:, place]], 0.0)
        return np.exp(log)


@dataclass(frozen=True, eq=False)
class Panel:
    """The rows of a long table, in the order of series and time, and the cases that can be made of them."""

    layout: PanelLayout
    keys: pa.Table  # what each series is called, a column for each of the layout's
    start: np.datetime64  # the time of step 0
    step: int  # seconds
    bounds: Places  # where the rows of each series begin, and where the last ends (S + 1,)
    at: Places  # the step of each row, (N,)
    numbers: Mapping[str, Floats]  # columns of numbers, (N,)
    words: Mapping[str, Places]  # the places of words among the levels, -1 for none, (N,)
    levels: Mapping[str, tuple[str, ...]]  # the words of each category
    last: int  # the last step of the table
    newest_outcome: int  # the last step with an outcome
    unseen: Mapping[str, int] = field(default_factory=dict)  # how many rows have a word that was not learned

    @property
    def count(self) -> int:
        """How many series there are."""
        return len(self.bounds) - 1

    @property
    def first_with_history(self) -> int:
        """The first step whose lags and windows lie within the table."""
        return min(self.history, self.last // 4)

    @property
    def delay(self) -> int:
        """How many steps after its own an outcome is known."""
        return -(-round(self.layout.reported_after * 3600) // self.step)

    @property
    def rows_known(self) -> NDArray[np.bool_]:
        """Whether each row has an outcome, (N,)."""
        return np.isfinite(self.numbers[self.layout.target])

    def times(self, steps: Places) -> Times:
        """The times of steps."""
        times: Times = self.start + np.asarray(steps, np.int64) * np.timedelta64(self.step, "s")
        return times

    def step_of(self, time: np.datetime64) -> int:
        """The first step that is not before a time."""
        return int(-((self.start - time).astype("timedelta64[s]").astype(np.int64) // self.step))

    def key_texts(self) -> NDArray[np.str_]:
        """What each series is called, such as "12/3", (S,); the only one of a table as the target."""
        if not self.layout.series:
            return np.array([self.layout.target], dtype=np.str_)
        texts = [pc.cast(column, pa.string()) for column in self.keys.columns]
        joined = texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, "/")
        return np.asarray(joined.to_pylist(), dtype=np.str_)

    def newest_rows(self, most: int) -> pd.DataFrame | None:
        """The rows that the next target times of each series need, as a table; None of more than so many."""
        rows = np.flatnonzero(self.at > self.newest_outcome - self.reach)
        if len(rows) > most:
            return None
        code = np.searchsorted(self.bounds, rows, side="right") - 1
        columns: dict[str, Any] = {name: self.keys[name].to_pandas().to_numpy()[code] for name in self.layout.series}
        columns[self.layout.time] = self.times(self.at[rows])
        columns |= {name: values[rows] for name, values in self.numbers.items()}
        for name, codes in self.words.items():
            if name not in columns:
                columns[name] = np.array([*self.levels[name], None], dtype=object)[codes[rows]]
        return pd.DataFrame(columns)

    def without_outcomes(self, step: int) -> "Panel":
        """The panel as it was before a step: later outcomes are hidden."""
        name = self.layout.target
        seen = np.where(self.at < step, self.numbers[name], np.float32(np.nan))
        return replace(self, numbers={**self.numbers, name: seen}, newest_outcome=_newest(self.at, seen))

    def parts(self) -> Iterator["Panel"]:
        """Some of the series after the others, each part with the times of all."""
        for some in self.batches():
            bounds = self.bounds[some.start : some.stop + 1]
            rows = slice(int(bounds[0]), int(bounds[-1]))
            yield replace(
                self,
                keys=self.keys.take(pa.array(np.arange(some.start, some.stop))) if self.layout.series else self.keys,
                bounds=bounds - rows.start,
                at=self.at[rows],
                numbers={name: values[rows] for name, values in self.numbers.items()},
                words={name: codes[rows] for name, codes in self.words.items()},
            )

    @classmethod
    def read(cls, source: Any, layout: PanelLayout, levels: Mapping[str, tuple[str, ...]] | None = None) -> "Panel":
        """The panel of a file, a folder of parquet files, or a table of pandas, polars or Arrow.

        Words that are not among the `levels`, which were learned before, are counted; without, columns of the key with
        few words become categories.
        """
        table = arrow_table(source, layout)
        seconds = _seconds(table, layout)
        code, keys = _codes(table, layout)
        order = np.lexsort((seconds, code)) if np.any(_unsorted(code, seconds)) else None
        if order is not None:
            code, seconds, table = code[order], seconds[order], table.take(pa.array(order))
        if levels is None:
            few = [name for name in layout.series if len(pc.unique(keys[name])) <= _KEY_LEVELS]
            layout = replace(layout, categorical=tuple(dict.fromkeys((*layout.categorical, *few))))
        apart = np.diff(seconds)
        within = code[1:] == code[:-1]
        if len(twice := np.flatnonzero(within & (apart == 0))):
            row = int(twice[0])
            key = "/".join(str(keys[name][int(code[row])].as_py()) for name in layout.series)
            which = f"the series {key!r}" if layout.series else "the table, without --series,"
            raise TableError(
                f"{which} has two rows of {seconds[row].astype('datetime64[s]')}; keep one, or add the column that "
                "tells them apart to series"
            )
        step, start = _step(layout, code, seconds, apart[within])
        numbers = {
            name: _floats(table, name, np.float64 if name in layout.parameters else np.float32)
            for name in _number_columns(layout, table)
        }
        if layout.mask is not None and layout.target in numbers:
            closed = numbers[layout.mask] == 0
            numbers[layout.target] = np.where(closed, np.float32(np.nan), numbers[layout.target])
        numbers.setdefault(layout.target, np.full(len(code), np.nan, np.float32))
        read = {name: _words(table[name], name, None if levels is None else levels[name]) for name in layout.words}
        bounds = np.concatenate([[0], np.flatnonzero(~within) + 1, [len(code)]]).astype(np.int64)
        at = ((seconds - start.astype(np.int64)) // step).astype(np.int32)
        return cls(
            layout=layout,
            keys=keys,
            start=start.astype("datetime64[s]"),
            step=step,
            bounds=bounds,
            at=at,
            numbers=numbers,
            words={name: codes for name, (codes, _, _) in read.items()},
            levels={name: known for name, (_, known, _) in read.items()},
            last=int(at.max()),
            newest_outcome=_newest(at, numbers[layout.target]),
            unseen={name: lost for name, (_, _, lost) in read.items() if lost},
        )

    def scale(self) -> PanelScale:
        """The level of a series without history, learned from all that have one."""
        target, layout = np.abs(self.numbers[self.layout.target]), self.layout
        begins = self.bounds[:-1]
        total = np.add.reduceat(np.nan_to_num(target).astype(np.float64), begins)
        counts = np.add.reduceat(np.isfinite(target).astype(np.int64), begins)
        there = (counts > 0) & (total > 0)
        if not there.any():
            raise TableError(f"the target {layout.target!r} is 0 or missing in every row")
        logs = np.log(total[there] / counts[there])
        level, rest = float(logs.mean()), logs - logs.mean()
        factors: dict[str, tuple[float, ...]] = {}
        for _ in range(3):  # one category after the other, each shrunk to 1
            for name in self._own_words:
                codes = self.words[name][begins][there]
                known = codes >= 0
                had = np.log(np.array(factors.get(name, (1.0,) * len(self.levels[name]))))
                sums = np.bincount(codes[known], (rest + had[codes])[known], len(had))
                mean = sums / (np.bincount(codes[known], minlength=len(had)) + _PRIOR)
                rest = rest + np.where(known, (had - mean)[codes], 0.0)
                factors[name] = tuple(np.exp(mean).tolist())
        return PanelScale(math.exp(level), factors, dict(self.levels))

    @property
    def _own_words(self) -> tuple[str, ...]:
        """The categories that a series has beforehand."""
        return tuple(name for name in self.layout.words if name in (*self.layout.series, *self.layout.static))

    def batches(self, cells: int = _CELLS) -> Iterator[slice]:
        """Stretches of series whose dense values are not more than so many cells."""
        size = max(1, cells // (self.last + 1 + self.horizon))
        for first in range(0, self.count, size):
            yield slice(first, min(first + size, self.count))

    @property
    def most_lead(self) -> int:
        """The steps of the longest lead."""
        return max(self._steps(self.layout.leads, "lead"))

    @property
    def horizon(self) -> int:
        """How many steps after the newest outcome a target time may lie."""
        return self.most_lead + self.delay

    @property
    def ended(self) -> NDArray[np.bool_]:
        """Whether each series has had no row for some steps, (S,)."""
        ended: NDArray[np.bool_] = self.at[self.bounds[1:] - 1] < self.newest_outcome - _QUIET
        return ended

    @property
    def _slow(self) -> NDArray[np.bool_]:
        """Whether each series has more than one row, but none a step after another, (S,)."""
        apart, none = np.diff(self.at, prepend=0), np.iinfo(np.int32).max
        apart[self.bounds[:-1]] = none
        least = np.minimum.reduceat(apart, self.bounds[:-1])
        slow: NDArray[np.bool_] = (least > 1) & (least < none)
        return slow

    def _steps(self, hours: Sequence[float], what: str) -> list[int]:
        """Durations in steps."""
        for each in hours:
            if round(each * 3600) % self.step:
                raise SettingError(
                    f"{what} must be a multiple of the step of the table, {self.step / 3600:g} h, got {each:g} h"
                )
        return [round(each * 3600) // self.step for each in hours]

    @property
    def history(self) -> int:
        """How many steps before a target time the oldest value lies that its features may need."""
        spans = (*self._steps(self.layout.lags, "lags"), *self._steps(self.layout.windows, "windows"), 0)
        return max(spans) + self.most_lead

    def cases(
        self,
        scale: PanelScale,
        first: int,
        end: int,
        *,
        upcoming: bool = False,
        drawn: tuple[float, np.random.Generator] | None = None,
    ) -> PanelCases:
        """The cases whose target times are in steps [first, end).

        Those with an outcome; with `upcoming` every row that is not masked and issued when there were outcomes, and all
        times after the newest outcome that a lead reaches, of series that have not ended; `drawn` takes a share of the
        rows at random.
        """
        lay, count, width = self.layout, self.count, self.last + 1 + self.horizon
        series = np.repeat(np.arange(count), np.diff(self.bounds))
        at, target = self.at.astype(np.int64), self.numbers[lay.target]
        row_of = np.full((count, width), -1, np.int32)
        row_of[series, at] = np.arange(len(at), dtype=np.int32)
        dense = np.full((count, width), np.nan, np.float32)
        dense[series, at] = target
        wanted = np.isfinite(target)
        if upcoming:
            wanted = np.ones(len(at), bool) if lay.mask is None else self.numbers[lay.mask] != 0
        wanted = wanted & (at >= first) & (at < end)
        if drawn is not None and drawn[0] < 1:
            wanted &= drawn[1].random(len(wanted)) < drawn[0]
        own, steps = series[wanted], at[wanted]
        leads = self._steps(lay.leads, "lead")
        parts = [(own, steps, np.full(len(own), lead, np.int64)) for lead in leads]
        if upcoming:
            alive, newest = ~self.ended, self.newest_outcome
            for lead in leads:
                for step in range(max(first, newest + 1), min(end, newest + self.delay + lead + 1)):
                    places = np.flatnonzero(alive & (row_of[:, step] < 0))
                    parts.append((places, np.full(len(places), step), np.full(len(places), lead)))
        own, steps, ahead = (np.concatenate(each) for each in zip(*parts, strict=True))
        order = np.lexsort((ahead, steps, own))
        if upcoming:
            order = order[(steps - ahead)[order] <= self.newest_outcome + self.delay]
        return self._made(dense, row_of, own[order], steps[order], ahead[order], scale)

    def _made(
        self, dense: Floats, row_of: Places, own: Places, steps: Places, lead: Places, scale: PanelScale
    ) -> PanelCases:
        """The cases (own, steps, lead), their values taken from the dense ones (series, steps)."""
        lay, issue, reach = self.layout, steps - lead, self.reach - self.horizon
        delay = self.delay
        valid = np.isfinite(dense)
        sums = _running(np.nan_to_num(dense))
        sizes = _running(np.nan_to_num(np.abs(dense)))
        counts = _running(valid)

        def over(running: Floats, span: int) -> Floats:
            stop = np.maximum(issue - delay + 1, 0)
            summed: Floats = running[own, stop] - running[own, np.maximum(stop - span, 0)]
            return summed

        def ago(before: Places) -> Floats:
            inside = before >= 0
            return np.where(inside, dense[own, np.where(inside, before, 0)], np.float32(np.nan))

        windows = self._steps(lay.windows, "windows")
        lags = self._steps(lay.lags, "lags")
        row = row_of[own, np.minimum(steps, row_of.shape[1] - 1)]
        newest = np.maximum.accumulate(np.where(row_of >= 0, np.arange(row_of.shape[1]), 0), axis=1)
        there = np.where(row >= 0, row, row_of[own, newest[own, np.maximum(issue, 0)]])  # else the newest row
        some_row = np.where(there >= 0, there, row_of.max(1)[own])
        words = (
            np.stack([self.words[name][some_row] for name in lay.words], 1)
            if lay.words
            else np.empty((len(own), 0), np.int32)
        )
        for place, name in enumerate(lay.words):
            if name not in self._own_words:
                words[row < 0, place] = -1
        base = scale.of(lay.words, words) if self._own_words else np.full(len(own), scale.level)
        span = max(windows) if windows else max(lags) + 1 if lags else reach
        long_run = (over(sizes, reach) + _PRIOR * base) / (over(counts, reach) + _PRIOR)
        level = (over(sizes, span) + _PRIOR * long_run) / (over(counts, span) + _PRIOR)
        level = np.maximum(level, 1e-3 * base).astype(np.float32)
        columns = [ago(issue - lag) for lag in lags]
        for window in windows:
            seen = over(counts, window)
            columns.append(np.where(seen > 0, over(sums, window) / np.maximum(seen, 1), np.nan))
        columns.append(self._season_mean(ago, steps, lead + delay))
        columns = [column / level for column in columns]
        columns.append(np.log1p(over(counts, reach)))
        if len(lay.leads) > 1:
            columns.append(lead.astype(np.float32))
        for name in lay.numbers:
            values = self.numbers[name][some_row]
            columns.append(values if name in lay.static else np.where(row >= 0, values, np.float32(np.nan)))
        features = np.stack(columns, 1).astype(np.float32)
        if lay.calendar:
            moments, which = np.unique(steps, return_inverse=True)
            made = calendar_features(_local(self.times(moments), lay.calendar_zone), lay.calendar)
            features = np.concatenate([features, made[which].astype(np.float32)], 1)
        has, today = row >= 0, self.numbers.get(lay.baseline_action or "")
        outcome = np.where(has, dense[own, steps], np.float32(np.nan))
        return PanelCases(
            series=own,
            step=steps,
            lead=lead,
            level=level,
            features=features,
            words=words,
            outcome=outcome,
            parameters={name: self.numbers[name][some_row].astype(np.float64) for name in lay.parameters},
            today=None if today is None else np.where(has, today[some_row], np.nan),
            known=over(counts, reach) > 0,
        )

    @property
    def _season(self) -> tuple[int, int]:
        """A day, a week or a year in steps, and how many of them back its values lie that are features."""
        hours = self.step / 3600
        season, count = (_DAY, 4) if hours < _DAY else (_WEEK, 4) if hours < _WEEK else (364 * _DAY, 1)
        period = max(1, round(season / hours))
        return period, count + -(-self.horizon // period) - 1

    @property
    def reach(self) -> int:
        """How many steps before a target time the oldest value lies that changes a feature."""
        period, back = self._season
        return max(self.history, period * back + self.most_lead)

    def _season_mean(self, ago: Callable[[Places], Floats], steps: Places, least: Places) -> Floats:
        """The mean of the values of up to four seasons before that are known."""
        period, seasons = self._season
        total, count = np.zeros(len(steps), np.float32), np.zeros(len(steps), np.float32)
        for back in range(1, seasons + 1):
            values = ago(steps - back * period)
            used = np.isfinite(values) & (back * period >= least)
            total += np.where(used, values, 0)
            count += used
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)

    def parameter_trouble(self) -> None:
        """Raise where a column with a parameter of the cost has a value that is none."""
        for name in self.layout.parameters:
            values = self.numbers[name]
            bad = np.flatnonzero(~np.isfinite(values) | (values < 0))
            if len(bad):
                row = int(bad[0])
                place = int(np.searchsorted(self.bounds, row, side="right")) - 1
                got = "no value" if np.isnan(values[row]) else f"{values[row]:g}"
                raise TableError(
                    f"the cost column {name!r} must have a number from 0 on in every row, got {got} for the series "
                    f"{str(self.key_texts()[place])!r} at {self.times(self.at[row : row + 1])[0]}"
                )

    def notes(self) -> tuple[str, ...]:
        """Sentences about what the table is like."""
        known = np.add.reduceat(self.rows_known.astype(np.int64), self.bounds[:-1])
        new = int((known == 0).sum())
        notes = [
            f"{count_text(lost, 'row')} of {name!r} hold words that the fit has not seen"
            for name, lost in self.unseen.items()
        ]
        if ended := int(self.ended.sum()):
            notes.append(
                f"{ended:,} of {self.count:,} series have ended, more than {_QUIET} times before the newest outcome"
            )
        if few := int(((known > 0) & (known < _FEW)).sum()):
            notes.append(
                f"{few:,} of {self.count:,} series have fewer than {_FEW} outcomes: similar series say their level"
            )
        if slow := int(self._slow.sum()):
            notes.append(
                f"{slow:,} of {self.count:,} series have no two rows {self.step / 3600:g} h apart: gaps, or another "
                "frequency"
            )
        if new:
            notes.append(f"{new:,} of {self.count:,} series have no outcome yet: they take the level of similar series")
        return tuple(notes)


def _newest(at: Places, target: Floats) -> int:
    known = np.isfinite(target)
    return int(at[known].max()) if known.any() else -1


def row_keys(table: pd.DataFrame, layout: PanelLayout) -> NDArray[np.object_]:
    """What the series of each row is called, as in `Panel.key_texts`."""
    if not layout.series:
        return np.full(len(table), layout.target, dtype=object)
    return table[list(layout.series)].astype(str).agg("/".join, axis=1).to_numpy(dtype=object)


def _running(values: Any) -> Floats:
    """Sums (S, T + 1) of all values before each place."""
    sums = np.zeros((values.shape[0], values.shape[1] + 1))
    np.cumsum(values, axis=1, out=sums[:, 1:])
    return sums


def arrow_table(source: Any, layout: PanelLayout) -> pa.Table:
    """The columns of the layout that a file, a folder of parquet files or a table in memory has."""
    from stakes.data.tables.files import PARQUET, file_suffix, read_table

    try:
        if isinstance(source, str | Path) and (Path(source).is_dir() or file_suffix(Path(source)) in PARQUET):
            if not Path(source).exists():
                raise TableError(f"there is no file {str(source)!r}")
            data = ds.dataset(source, format="parquet", partitioning="hive")
            names = layout.resolved(data.schema.names).columns
            return _plain(data.to_table(columns=[name for name in names if name in data.schema.names]), layout)
        table = pa.table(read_table(Path(source)) if isinstance(source, str | Path) else source)
    except (pa.ArrowException, OSError) as error:
        raise TableError(f"{str(source)[:200]!r} cannot be read: {one_line(error)}") from error
    except TypeError as error:
        raise TableError(f"a panel is read from a file or a table, got {type(source).__name__}") from error
    names = layout.resolved(table.column_names).columns
    return _plain(table.select([name for name in names if name in table.column_names]), layout)


def _plain(table: pa.Table, layout: PanelLayout) -> pa.Table:
    """Keys and words of one type in every file: text as such, and whole numbers, also where CSV has them as 1.0."""
    for name in dict.fromkeys((*layout.series, *layout.words)):
        place, column = table.column_names.index(name), table[name]
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_string_view(column.type):
            column = column.cast(pa.string())
        elif pa.types.is_floating(column.type) and pc.all(pc.equal(column, pc.floor(column)), min_count=0).as_py():
            column = column.cast(pa.int64())
        table = table.set_column(place, name, column)
    return table


def column_names(source: Any) -> tuple[str, ...]:
    """The columns of a file, a folder of parquet files, or a table."""
    from stakes.data.tables.files import PARQUET, file_suffix, read_table

    if isinstance(source, str | Path):
        if Path(source).is_dir() or file_suffix(Path(source)) in PARQUET:
            try:
                return tuple(ds.dataset(source, format="parquet", partitioning="hive").schema.names)
            except (pa.ArrowException, OSError) as error:
                raise TableError(f"{str(source)!r} cannot be read: {one_line(error)}") from error
        return tuple(map(str, read_table(Path(source)).columns))
    return tuple(map(str, getattr(source, "column_names", getattr(source, "columns", ()))))


def _number_columns(layout: PanelLayout, table: pa.Table) -> tuple[str, ...]:
    single = (layout.target, layout.mask, layout.baseline_action)
    names = (*(name for name in single if name), *layout.numbers, *layout.parameters)
    return tuple(name for name in dict.fromkeys(names) if name in table.column_names)


def _floats(table: pa.Table, name: str, kind: type[np.floating[Any]]) -> Floats:
    column = table[name]
    values: Floats
    try:
        values = pc.cast(column, pa.from_numpy_dtype(kind), safe=False).to_numpy()
    except pa.ArrowException:  # which does not name the row
        values = column_numbers(pd.DataFrame({name: column.to_pandas()}), [name], "the table")[:, 0]
    if np.isinf(values).any():
        raise TableError(f"column {name!r} must hold finite numbers, got infinity")
    return values.astype(kind, copy=False)


def _words(column: pa.ChunkedArray, name: str, learned: tuple[str, ...] | None) -> tuple[Places, tuple[str, ...], int]:
    """The places of words among the levels, these, and how many rows have another word."""
    texts = pc.cast(column.combine_chunks() if column.num_chunks else pa.array([], column.type), pa.string())
    levels = learned
    if levels is None:
        found = sorted(word for word in pc.unique(texts).to_pylist() if word is not None)
        if len(found) > MOST_LEVELS:
            raise TableError(f"the category {name!r} has {len(found):,} levels, expected at most {MOST_LEVELS:,}")
        levels = tuple(found)
    places = pc.index_in(texts, value_set=pa.array(levels, pa.string()))
    codes = pc.fill_null(places, -1).to_numpy(zero_copy_only=False).astype(np.int32)
    return codes, levels, int(((codes < 0) & pc.is_valid(texts).to_numpy(zero_copy_only=False)).sum())


def _seconds(table: pa.Table, layout: PanelLayout) -> NDArray[np.int64]:
    """The times of the rows, seconds in UTC."""
    column = table[layout.time]
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        texts = column.to_pandas()
        try:
            moments = pd.to_datetime(texts, utc=True, format="ISO8601")
            values = moments.dt.tz_convert(None).to_numpy().astype("datetime64[s]")
        except ValueError:  # which does not name the row
            values = column_times(pd.DataFrame({layout.time: texts}), layout.time, unique=False)
    elif pa.types.is_temporal(column.type) and not pa.types.is_time(column.type):
        values = pc.cast(column, pa.timestamp("s"), safe=False).to_numpy().astype("datetime64[s]")
    else:
        raise TableError(f"column {layout.time!r} must hold times, got {column.type}")
    if np.isnat(values).any():
        row = int(np.isnat(values).argmax()) + 1
        raise TableError(f"column {layout.time!r} must have a time in every row, got none in row {row}")
    return values.astype(np.int64)


def _codes(table: pa.Table, layout: PanelLayout) -> tuple[NDArray[np.int64], pa.Table]:
    """The place of each row's series, and what the series are called, in the order of their keys."""
    code = np.zeros(len(table), np.int64)
    for name in layout.series:
        column = table[name].combine_chunks()
        if column.null_count:
            row = int(pc.is_null(column).to_numpy(zero_copy_only=False).argmax()) + 1
            raise TableError(f"column {name!r} must name the series of every row, got none in row {row}")
        encoded = column if pa.types.is_dictionary(column.type) else pc.dictionary_encode(column)
        words, places = encoded.dictionary, encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        rank = np.empty(len(words), np.int64)
        rank[pc.sort_indices(words).to_numpy()] = np.arange(len(words))
        code = code * len(words) + rank[places]
    if not layout.series:
        return code, pa.table({})
    _, first, code = np.unique(code, return_index=True, return_inverse=True)
    return code.astype(np.int64), table.select(list(layout.series)).take(pa.array(first)).combine_chunks()


def _unsorted(code: NDArray[np.int64], seconds: NDArray[np.int64]) -> NDArray[np.bool_]:
    return (code[1:] < code[:-1]) | ((code[1:] == code[:-1]) & (seconds[1:] < seconds[:-1]))


def _step(
    layout: PanelLayout, code: NDArray[np.int64], seconds: NDArray[np.int64], apart: NDArray[np.int64]
) -> tuple[int, np.datetime64]:
    """The step in seconds, and the first time; all times must be whole steps from it."""
    start = seconds.min()
    if layout.step is None and not len(apart):
        raise TableError("every series has one row only: nothing to learn from")
    step = most_frequent_step(apart) if layout.step is None else hours_to_seconds("step", layout.step)
    odd = np.flatnonzero((seconds - start) % step)
    if len(odd):
        row = int(odd[0])
        raise TableError(
            f"all series must have times whole steps of {step / 3600:g} h apart, but the series in row {row + 1} has "
            f"{seconds[row].astype('datetime64[s]')}, counted from {start.astype('datetime64[s]')}: mixed frequencies?"
        )
    if (steps := int(seconds.max() - start) // step) > _MOST_STEPS:
        raise TableError(f"the table spans {steps:,} steps of {step / 3600:g} h, expected at most {_MOST_STEPS:,}")
    return step, start.astype("datetime64[s]")


def _zone(name: str) -> Any:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise SettingError(f"calendar_zone must be a zone such as Europe/Madrid, got {shown(name)}") from error


def _local(times: Times, zone: str | None) -> Times:
    """Times on the clock of a zone."""
    if zone is None:
        return times
    local = pc.local_timestamp(
        pa.array(times.astype("datetime64[s]"), pa.timestamp("s", "UTC")).cast(pa.timestamp("s", zone))
    )
    moments: Times = local.to_numpy(zero_copy_only=False).astype("datetime64[s]")
    return moments
