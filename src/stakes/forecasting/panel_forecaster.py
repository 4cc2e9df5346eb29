"""The estimator of many series in one long table: fit, decide for every series, and what its decisions were worth."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd
import torch

from stakes.actions.solve import solve_action
from stakes.cost_spec.spec import CostSpec
from stakes.costs.cost import user_cost_errors
from stakes.data.case_table import like_given
from stakes.data.tables.panels import (
    SERIES_COLUMNS,
    TIME_COLUMNS,
    Floats,
    Panel,
    PanelCases,
    PanelLayout,
    PanelScale,
    Places,
    column_names,
    recognised,
)
from stakes.errors import SettingError, TableError, did_you_mean
from stakes.forecasting.panels import (
    FittedPanel,
    PanelCandidate,
    PanelSettings,
    decide_cases,
    drawing,
    drawn_cases,
    judging_spec,
    realised,
    select_candidate,
    time_difference,
    train_panel,
)
from stakes.frames import Tabular
from stakes.text import amount_text, change_text, count_text, duration_hours
from stakes.training.execution import Engine

_MOST_NEWEST = 5_000_000  # rows
_AT_ONCE = 50_000  # cases, whose members are in memory
CALIBRATED = (0.85, 1.15)
"""Where the spread of members over their error may lie."""

_GROUPS = 50  # of a category, by which worth and calibration are told
_LEAST_GROUP = 30  # cases


def _hours(name: str, value: float | str) -> float:
    return duration_hours(name, value) if isinstance(value, str) else float(value)


def _every(name: str, values: float | str | Sequence[float | str]) -> tuple[float, ...]:
    several = [values] if isinstance(values, str | int | float) else values
    return tuple(_hours(name, value) for value in several)


def panel_layout(names: Sequence[str], cost: CostSpec, **given: Any) -> PanelLayout:
    """The layout of a table with these columns: series and times are recognised where they are not named."""
    alone = "series" in given and given["series"] is None
    given = {name: value for name, value in given.items() if value is not None}
    series = () if alone else given.pop("series", ()) or (recognised(names, SERIES_COLUMNS, "series"),)
    time = given.pop("time", None) or recognised(names, TIME_COLUMNS, "times")
    durations = {name: _every(name, given.pop(name, ())) for name in ("lags", "windows", "leads")}
    durations["reported_after"] = _hours("reported_after", given.pop("reported_after", 0.0))  # type: ignore[assignment]
    parameters = cost.price_columns
    layout: Any = {**given, **durations, "series": tuple(series), "time": time}
    return PanelLayout(**layout, parameters=parameters).resolved(names)


@dataclass(frozen=True, eq=False, repr=False)
class PanelEvaluation(Tabular):
    """What decisions were worth on cases whose outcomes are known."""

    cases: pd.DataFrame  # a row for each: series, time, outcome, action, cost, and what others cost
    unit: str = ""
    notes: tuple[str, ...] = ()  # sentences for the user

    @property
    def title(self) -> str:
        """What the table is of."""
        unit = f", cost in {self.unit}" if self.unit else ""
        return f"{len(self.cases):,} cases of {self.cases['series'].nunique():,} series, 95 % intervals over time{unit}"

    _headline = title

    def to_frame(self) -> pd.DataFrame:
        """The table of policies."""
        return self.table

    @property
    def sentences(self) -> tuple[str, ...]:
        """What the cases say."""
        rows: dict[str, dict[str, float]] = self.table.set_index("decided by").to_dict("index")  # type: ignore[assignment]
        own, other = rows["forecast"], TODAY if TODAY in rows else LEVEL
        beside = rows[other]
        change = (beside["forecast less this"], beside["low"], beside["high"])
        count, series = count_text(len(self.cases), "test case"), self.cases["series"].nunique()
        cost, theirs = (amount_text(float(each["mean cost"]), self.unit) for each in (own, beside))
        expected = float(self.cases["expected_cost"].mean())
        sentences = [
            f"On {count} of {series:,} series the forecast costs {cost} per case, {other} {theirs} "
            f"(change {change_text(change)}).",
            f"It expected to cost {amount_text(expected, self.unit)} per case.",
        ]
        if change[0] > 0:
            sentences.append(f"Warning: {other} was cheaper than the forecast.")
        if len(groups := self.by_group(group_columns(self))):
            calibrated = int(groups["spread/error"].between(*CALIBRATED).sum())
            low, high = CALIBRATED
            sentences.append(f"Spread/error lies in {low:g} to {high:g} for {calibrated} of {len(groups)} groups.")
        return tuple(sentences)

    @property
    def alarms(self) -> tuple[str, ...]:
        """Why not to follow the forecast: what was cheaper on these cases."""
        table = self.table
        cheaper = table[table["forecast less this"] > 0]
        return tuple(f"{name} was cheaper than the forecast" for name in cheaper["decided by"])

    def record(self) -> dict[str, Any]:
        """For machines."""
        return {"unit": self.unit, "cases": len(self.cases), "notes": self.notes, "alarms": self.alarms}

    @property
    def table(self) -> pd.DataFrame:
        """The mean cost of the decisions and of others on the same cases, with 95 % intervals over time."""
        rows, step = [], pd.factorize(self.cases["time"], sort=True)[0]
        for name, what in _POLICIES.items():
            if name not in self.cases:
                continue
            known = self.cases[name].notna().to_numpy()
            costs, own = self.cases[name].to_numpy()[known], self.cases["cost"].to_numpy()[known]
            change = time_difference(own, costs, step[known]) if name != "cost" else (math.nan,) * 3
            rows.append((what, int(known.sum()), costs.mean(), *change))
        columns = ["decided by", "cases", "mean cost", "forecast less this", "low", "high"]
        return pd.DataFrame(rows, columns=columns)

    def by_series(self) -> pd.DataFrame:
        """Each series: cases, mean cost, and what the forecast saves in all beside today's action or the level."""
        beside = "today_cost" if "today_cost" in self.cases else "level_cost"
        grouped = self.cases.assign(saved=self.cases[beside] - self.cases["cost"]).groupby("series", observed=True)
        table = grouped.agg(
            cases=("cost", "size"), cost=("cost", "mean"), expected=("expected_cost", "mean"), saved=("saved", "sum")
        )
        return table.reset_index().sort_values("saved", ascending=False, ignore_index=True)

    def by_group(self, columns: Sequence[str]) -> pd.DataFrame:
        """Cost and calibration by each word of some columns of the cases: spread/error is 1 where they agree."""
        tables = []
        for column in columns:
            for word, own in self.cases.groupby(column, observed=True):
                if len(own) >= _LEAST_GROUP:
                    off = own["outcome"] - own["mean"]
                    spread = math.sqrt(float((own["spread"] ** 2 / own["level"] ** 2).mean()))
                    error = math.sqrt(float((off**2 / own["level"] ** 2).mean()))
                    ratio = spread / error if error else math.nan
                    inside = float(((own["outcome"] >= own["low"]) & (own["outcome"] <= own["high"])).mean())
                    means = own["cost"].mean(), own["level_cost"].mean(), own["expected_cost"].mean()
                    tables.append((column, str(word), len(own), *means, ratio, inside))
        names = ["group", "value", "cases", "cost", "level_cost", "expected_cost", "spread/error", "inside 80 %"]
        return pd.DataFrame(tables, columns=names)


LEVEL, TODAY = "the level with pooled errors", "today's action"
"""What a forecast is compared with."""

_POLICIES = {"cost": "forecast", "level_cost": LEVEL, "today_cost": TODAY}


class PanelForecaster:
    """Forecasts of many series in one long table, and the decisions of least expected cost that follow from them.

    One model of all series, each in units of its own level before the forecast. A parameter of the cost may stand in a
    column, as in "newsvendor:underage=@margin,overage=@waste": learning and selection weigh every row by its own cost.

    Args:
        cost: The cost in text.
        target: The column to forecast.
        series: The columns that tell one series from another; by default unique_id or item_id. None for a table of one.
        time: The column of the times; by default ds, timestamp or date.
        lags: Ages of the values that are features at the issue time, hours or durations such as "6d".
        leads: From the issue time to the target times, likewise.
        windows: Spans up to the issue time whose means are features.
        known: Columns known beforehand for the target time.
        static: Columns with one value for each series.
        categorical: Columns that hold categories.
        calendar: Features of the target time, of hour, weekday, season, holiday:FR.
        calendar_zone: Time zone of the calendar, such as Europe/Madrid.
        mask: The column that is 0 where there is no outcome, such as on closed days.
        reported_after: Delay until an outcome is known.
        baseline_action: The column of today's action, to compare with.
        settings: Those of `stakes.PanelSettings`, such as members or test_fraction.

    Attributes:
        layout_: Which columns are what, with a step.
        fitted_: The forecast that decides, fitted to all rows.
        newest_: The rows of every series that its next decision needs; None where these are very many.
        evaluation_: What the decisions were worth on the last part of the time, which that fit had not seen.
        learned_: The first and the last time whose outcomes the forecast has learned from.

    >>> import numpy as np, pandas as pd, stakes
    >>> days = pd.date_range("2024-01-01", periods=120)
    >>> shops = [("north", 20), ("south", 60)]
    >>> rows = [(shop, day, size + 5 * day.weekday() + i % 3) for shop, size in shops for i, day in enumerate(days)]
    >>> sales = pd.DataFrame(rows, columns=["shop", "date", "demand"]).assign(margin=3.0)
    >>> forecaster = stakes.PanelForecaster(
    ...     "newsvendor:underage=@margin,overage=1", target="demand", series=["shop"], lags=["0d", "6d"], leads=["1d"],
    ...     calendar=["weekday"], model="linear", seed=1)
    >>> orders = forecaster.fit(sales).decide(sales, last=True)
    >>> orders[["shop", "date"]].astype(str).values.tolist()
    [['north', '2024-04-30'], ['south', '2024-04-30']]
    """

    def __init__(
        self,
        cost: str | CostSpec,
        *,
        target: str,
        lags: Sequence[float | str] = (),
        leads: float | str | Sequence[float | str],
        series: Sequence[str] | None = (),
        time: str | None = None,
        windows: Sequence[float | str] = (),
        known: Sequence[str] = (),
        static: Sequence[str] = (),
        categorical: Sequence[str] = (),
        calendar: Sequence[str] = (),
        calendar_zone: str | None = None,
        mask: str | None = None,
        reported_after: float | str = 0.0,
        baseline_action: str | None = None,
        **settings: Any,
    ) -> None:
        self.cost = CostSpec.given(cost)
        self.settings = PanelSettings(**settings)
        names = ("series", "known", "static", "categorical", "calendar")
        given = {
            name: None if value is None else tuple(value)
            for name, value in zip(names, (series, known, static, categorical, calendar), strict=True)
        }
        self.layout: dict[str, Any] = {
            **given,
            "target": target,
            "lags": lags,
            "leads": leads,
            "windows": windows,
            "time": time,
            "calendar_zone": calendar_zone,
            "mask": mask,
            "reported_after": reported_after,
            "baseline_action": baseline_action,
        }
        self.layout_: PanelLayout | None = None
        self.fitted_: FittedPanel | None = None
        self.evaluation_: PanelEvaluation | None = None
        self.newest_: pd.DataFrame | None = None
        self.learned_: tuple[str, str] | None = None
        self.notes_: tuple[str, ...] = ()

    @classmethod
    def restored(
        cls, cost: CostSpec, layout: PanelLayout, fitted: FittedPanel, settings: PanelSettings | None = None
    ) -> Self:
        """The forecaster of a folder.

        Args:
            cost: The cost to decide for.
            layout: Which columns are what.
            fitted: The forecast.
            settings: Those it was fitted with.
        """
        own = cls.__new__(cls)
        own.cost, own.settings, own.layout = cost, settings or PanelSettings(members=fitted.state.members), {}
        own.layout_, own.fitted_, own.evaluation_, own.newest_, own.notes_ = layout, fitted, None, None, ()
        own.learned_ = None
        return own

    def fit(self, table: Any, *, hold_test: bool = False, say: Callable[[str], None] = lambda _: None) -> Self:
        """Select, judge and train.

        Args:
            table: A table of pandas, polars or Arrow, a file, or a folder of parquet files.
            hold_test: Keep the forecast that was judged, which has not seen the test cases.
            say: What is told of the progress.
        """
        panel = self.read_first(table)
        begin, cut, end = self.split(panel)
        candidates = self.judge(panel, cut, end, say)
        self.newest_ = panel.newest_rows(_MOST_NEWEST)
        if not hold_test:
            say("training on all times, test times included, for service")
            self.fitted_ = train_panel(panel, self.cost, self.settings, end, candidates, say)
        first, last = panel.times(np.array([begin, cut - panel.horizon if hold_test else panel.newest_outcome]))
        self.learned_ = str(first), str(last)
        return self

    def read_first(self, table: Any) -> Panel:
        """A table to learn from.

        Args:
            table: As for `fit`.
        """
        names = column_names(table)
        layout = panel_layout(names, self.cost, **self.layout)
        if layout.target not in names:
            raise TableError(f"the table has no column {layout.target!r}; {did_you_mean(layout.target, names)}")
        panel = Panel.read(table, layout)
        self._check(panel)
        if not panel.rows_known.any():
            raise TableError(f"the table has no outcome: column {layout.target!r} is empty")
        return panel

    def split(self, panel: Panel) -> tuple[int, int, int]:
        """The first step to learn from, the first to judge by, and the end of the table.

        Args:
            panel: What `read_first` made of the table.
        """
        begin, end = panel.first_with_history, panel.last + 1
        return begin, end - max(1, round(self.settings.test_fraction * (end - begin))), end

    def judge(
        self, panel: Panel, cut: int, end: int, say: Callable[[str], None] = lambda _: None
    ) -> tuple[PanelCandidate, ...]:
        """Fit to what was known when the forecast of a step was issued, and judge by the steps from there on.

        Args:
            panel: What `read_first` made of the table.
            cut: The first step to judge by.
            end: The step to judge up to.
            say: What is told of the progress.
        """
        if cut < panel.horizon:
            raise SettingError(
                f"leads must leave outcomes before the test, which begins after {cut} steps, got {panel.horizon}"
            )
        seen = panel.without_outcomes(cut - panel.horizon + 1)
        candidates = select_candidate(seen, self.cost, self.settings, cut, say)
        self.fitted_ = train_panel(seen, self.cost, self.settings, cut, candidates, say)
        self.layout_ = replace(panel.layout, step=panel.step / 3600)
        self.evaluation_ = self._evaluation(self._judged_parts(panel, cut, end))
        return candidates

    def decide(self, table: Any, *, last: bool = False, quantiles: Sequence[float] = ()) -> Any:
        """The best action of every series and target time, with what the forecast expects it to cost.

        The answer to a table of polars or Arrow is one of the same kind, and else one of pandas.

        Args:
            table: The newest rows of the series, as for `fit`; the target may be missing in those to come.
            last: Decide for the target times after the newest outcomes only.
            quantiles: Levels of quantiles of the forecast to add.
        """
        decided = pd.concat(list(self.decided(self.read(table), last, quantiles)), ignore_index=True)
        return like_given(decided, table)

    def evaluate(self, table: Any, since: str | None = None) -> PanelEvaluation:
        """What the decisions cost where outcomes are known.

        Args:
            table: Rows of the series, with their outcomes.
            since: The first time to judge by, ISO in UTC; by default the first with a history.
        """
        return self._evaluation(self.judged_since(table, since))

    def judged_since(self, table: Any, since: str | None = None) -> pd.DataFrame:
        """What `evaluate` is made of, a row for each case with an outcome; empty where there is none.

        Args:
            table: As for `evaluate`.
            since: As for `evaluate`.
        """
        panel = self._read(table)
        first = panel.history if panel.history < panel.last else panel.first_with_history
        if since is not None:
            first = max(first, panel.step_of(np.datetime64(since, "s")))
        return self._judged_parts(panel, first, panel.last + 1)

    def read(self, table: Any) -> Panel:
        """New rows, by what was learned of words.

        Args:
            table: As for `decide`.
        """
        panel, layout = self._read(table), self._fitted[1]
        if layout.known and panel.last <= panel.newest_outcome:
            names = ", ".join(layout.known)
            self.notes_ += (f"the table has no row after the newest outcome, so {names} are unknown at later times",)
        return panel

    def decided(
        self, panel: Panel, last: bool = False, quantiles: Sequence[float] = (), since: int = 0
    ) -> Iterator[pd.DataFrame]:
        """The decisions, some series after the other; those of one budget all at once.

        Args:
            panel: What `read` made of new rows.
            last: As for `decide`.
            quantiles: Likewise.
            since: The first step to decide for.
        """
        newest = panel.newest_outcome
        first = newest + 1 if last else max(since, min(panel.history, newest + 1))
        joint = judging_spec(self.cost) is not self.cost
        parts: Iterable[Panel] = [panel] if joint else panel.parts()
        where = Engine() if joint else self.settings.where
        found = False
        for table in where.map(_decide, ((part,) for part in parts), self._light(joint), first, last, tuple(quantiles)):
            if table is not None:
                found = True
                yield table
        if not found:
            raise TableError(
                f"no case can be decided: the table ends at {panel.times(np.array([panel.last]))[0]} and no series has "
                f"the {panel.history * panel.step / 3600:g} h before a target time that lags, windows and lead need"
            )

    def _light(self, joint: bool = False) -> "PanelForecaster":
        """What decides, without what was learned of the past."""
        fitted, layout = self._fitted
        light = fitted if joint else replace(fitted, ranks=fitted.ranks[:0])
        return PanelForecaster.restored(self.cost, layout, light)

    def _joint(self, panel: Panel, cases: PanelCases, members: Floats, places: Places) -> pd.DataFrame:
        """One decision for all series of a time: what each gets of the budget, from members joint across series."""
        fitted, _ = self._fitted
        action, expected, certified = np.empty(len(cases)), np.empty(len(cases)), np.empty(len(cases), bool)
        for step, lead in sorted(set(zip(cases.step.tolist(), cases.lead.tolist(), strict=True))):
            rows = np.flatnonzero((cases.step == step) & (cases.lead == lead))
            own = cases.rows(rows)
            samples = torch.from_numpy(fitted.vectors(members[rows], places[own.series]))[None]
            cost = self.cost.of_cases(
                {key: torch.from_numpy(own.parameters[name])[None] for key, name in self.cost.columns.items()}
            )
            with user_cost_errors(cost):
                solved = solve_action(cost, samples)
            action[rows] = solved.action[0, : len(rows)].numpy()
            expected[rows], certified[rows] = float(solved.expected_cost[0]), bool(solved.certified[0])
        return self._labels(panel, cases).assign(action=action, joint_expected_cost=expected, certified=certified)

    def _labels(self, panel: Panel, cases: PanelCases) -> pd.DataFrame:
        """What the cases are called."""
        _, layout = self._fitted
        table = {name: panel.keys[name].to_pandas().to_numpy()[cases.series] for name in layout.series}
        table[layout.time] = panel.times(cases.step)
        if len(layout.leads) > 1:
            table["lead_hours"] = cases.lead * panel.step / 3600
        return pd.DataFrame({**table, **cases.parameters})

    def _judged_parts(self, panel: Panel, first: int, end: int) -> pd.DataFrame:
        fitted, _ = self._fitted
        drawn, parts = drawing(panel, first, end, self.settings), enumerate(panel.parts())
        shared = self._light(), fitted.state.scale, first, end, drawn
        made = [table for table in self.settings.where.map(_judge_part, parts, *shared) if len(table)]
        return pd.concat(made, ignore_index=True) if made else pd.DataFrame()

    def _evaluation(self, cases: pd.DataFrame) -> PanelEvaluation:
        if not len(cases):
            raise TableError("no case has both an outcome and the lags before it, so none can be judged")
        sizes = pd.qcut(cases["level"].rank(method="first"), 4, labels=["smallest", "small", "large", "largest"])
        return PanelEvaluation(cases.assign(size=sizes.astype(str)), self.cost.unit)

    def judged(self, panel: Panel, cases: PanelCases) -> pd.DataFrame:
        """What the decisions of cases cost that have an outcome, a row for each.

        Args:
            panel: The rows that the cases are of.
            cases: The cases.
        """
        fitted, layout = self._fitted
        own_cost, integer, names = judging_spec(self.cost), fitted.state.integer, panel.key_texts()
        members = fitted.sample(cases, fitted.places(names)[cases.series])
        decisions = decide_cases(own_cost, members, cases.parameters, integer)
        level = decide_cases(own_cost, fitted.constant().sample(cases), cases.parameters, integer)
        low, high = np.quantile(members, [0.1, 0.9], axis=1)
        outcome = cases.outcome.astype(np.float64)
        below, upto = ((compared(members, outcome[:, None])).mean(1) for compared in (np.less, np.less_equal))
        table = {
            "series": names[cases.series],
            "time": panel.times(cases.step),
            **({"lead_hours": cases.lead * panel.step / 3600} if len(layout.leads) > 1 else {}),
            "outcome": outcome,
            "action": decisions.action,
            "expected_cost": decisions.expected_cost,
            "cost": realised(own_cost, decisions.action, cases),
            "level_cost": realised(own_cost, level.action, cases),
            "mean": members.mean(1),
            "spread": members.std(1),
            "low": low,
            "high": high,
            "pit": (below + upto) / 2,
            "level": cases.level.astype(np.float64),
        }
        if cases.today is not None and np.isfinite(cases.today).any():
            table["today_cost"] = realised(own_cost, cases.today, cases)
        for place, name in enumerate(layout.words):
            if len(panel.levels[name]) <= _GROUPS:
                words = np.array([*panel.levels[name], "unknown"], dtype=object)
                table[f"{name} "] = words[cases.words[:, place]]
        return pd.DataFrame(table)

    def decided_part(self, part: Panel, first: int, last: bool, quantiles: tuple[float, ...]) -> pd.DataFrame | None:
        """The decisions of some series; None where there are none.

        Args:
            part: The series.
            first: The first step to decide for.
            last: As for `decide`.
            quantiles: Likewise.
        """
        fitted, _ = self._fitted
        cases = part.cases(fitted.state.scale, first, part.last + 1 + part.horizon, upcoming=True)
        if last:
            cases = cases.rows(cases.step - cases.lead == part.newest_outcome + part.delay)
        if not len(cases):
            return None
        keys, tables = fitted.places(part.key_texts()), []
        if judging_spec(self.cost) is not self.cost:
            return self._joint(part, cases, fitted.sample(cases, keys[cases.series]), keys)
        for start in range(0, len(cases), _AT_ONCE):
            own = cases.rows(slice(start, start + _AT_ONCE))
            members = fitted.sample(own, keys[own.series])
            decisions = decide_cases(self.cost, members, own.parameters, fitted.state.integer, quantiles)
            made = decisions.to_frame(pd.RangeIndex(len(own))).drop(columns="index")
            tables.append(pd.concat([self._labels(part, own), made], axis=1))
        return pd.concat(tables, ignore_index=True)

    def _read(self, table: Any) -> Panel:
        fitted, layout = self._fitted
        panel = Panel.read(table, layout, fitted.state.scale.levels)
        self._check(panel)
        return panel

    def _check(self, panel: Panel) -> None:
        panel.parameter_trouble()
        self.notes_ = panel.notes()

    @property
    def _fitted(self) -> tuple[FittedPanel, PanelLayout]:
        if self.fitted_ is None or self.layout_ is None:
            raise SettingError("the forecaster must be fitted first: call fit")
        return self.fitted_, self.layout_


def _decide(
    forecaster: PanelForecaster, first: int, last: bool, quantiles: tuple[float, ...], part: Panel
) -> pd.DataFrame | None:
    return forecaster.decided_part(part, first, last, quantiles)


def _judge_part(
    forecaster: PanelForecaster,
    scale: PanelScale,
    first: int,
    end: int,
    drawn: tuple[float, int],
    place: int,
    part: Panel,
) -> pd.DataFrame:
    cases = drawn_cases(scale, first, end, drawn, place, part)
    return forecaster.judged(part, cases) if len(cases) else pd.DataFrame()


def group_columns(evaluation: PanelEvaluation) -> list[str]:
    """The columns of the cases by which worth and calibration are told."""
    return [name for name in map(str, evaluation.cases) if name == "size" or name.endswith(" ")]
