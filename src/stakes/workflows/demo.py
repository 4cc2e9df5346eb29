"""Three real records from table to report: a bakery, Irish wind, and a schedule."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from stakes.artifacts.folder import read_judged
from stakes.data.records import load_record
from stakes.data.tables.files import write_table
from stakes.data.tables.layout import TableLayout
from stakes.reports.tables import Result
from stakes.training.execution import Execution
from stakes.workflows.fit import run_fit
from stakes.workflows.inputs import FitRequest

_MEMBERS = 200
_WEIGHTS = (0.0, 0.3)
_PRODUCT = 101
_WIND_DAYS = 3653  # the last ten years
_LOAD_YEARS = slice("2016", "2019")
_SHORT, _LONG, _RAMP = 10, 1, 10  # prices a GW; GW in six hours
_LAST = 4  # decisions shown


@dataclass(frozen=True)
class Example:
    """A table, what is decided on it and what that costs."""

    name: str  # of its folder
    title: str  # what it is about, for people
    table: Callable[[], pd.DataFrame]  # makes the table
    layout: Callable[[pd.DataFrame], TableLayout]  # says what the columns of the table are
    cost: str  # what a decision costs, in words
    attribution: str  # where the data comes from, and what to know about it
    epochs: int  # at most: enough for the best ones, and half of what a fit takes by default

    def request(self, folder: Path, epochs: int | None) -> FitRequest:
        """What `stakes fit` is asked, with the table written beside the fit."""
        table, file = self.table(), folder / f"{self.name}.csv"
        folder.mkdir(parents=True, exist_ok=True)
        write_table(table, file)
        return FitRequest(
            str(file), self.cost, self.layout(table), members=_MEMBERS, weights=_WEIGHTS, epochs=epochs or self.epochs
        )


def _demand() -> pd.DataFrame:
    """A product's demand in all shops, missing on days when all are closed, and what is known of a day beforehand."""
    record = load_record("demand_bakery")
    columns = pd.DataFrame(record.values, columns=list(record.columns))
    of_shops = columns.filter(regex="^demand_").T.groupby(lambda name: name.split("_")[1])
    demand = columns.filter(regex=f"^demand_.*_{_PRODUCT}$").sum(axis=1)
    return pd.DataFrame(
        {
            "time": record.times,
            "demand": demand.where(demand > 0),
            "open_shops": (of_shops.sum() > 0).sum(),
            **{each: columns[f"{each}_{_PRODUCT}"] for each in ("promotion_currentweek", "promotion_lastweek")},
            **columns.filter(regex="^is_"),
            **{each: columns.filter(regex=f"^{each}_").mean(axis=1) for each in ("rain", "temperature")},
        }
    )


def _demand_layout(table: pd.DataFrame) -> TableLayout:
    return TableLayout(
        targets=("demand",),
        features=("demand", "open_shops"),
        time="time",
        lags=(0.0, 144.0, 312.0),
        lead=24.0,
        known=tuple(table.columns[2:]),
        calendar=("weekday_wave", "season"),
    )


def _wind() -> pd.DataFrame:
    """Daily mean speeds in m/s."""
    record = load_record("wind_irish").in_metres_per_second()
    table = pd.DataFrame(record.values, columns=list(record.columns))
    table.insert(0, "time", record.times)
    return table.tail(_WIND_DAYS)


def _wind_layout(table: pd.DataFrame) -> TableLayout:
    return TableLayout(targets=tuple(table.columns[1:]), time="time", lags=(0.0, 24.0), lead=24.0, calendar=("season",))


def _days() -> pd.DataFrame:
    """Load in GW and temperature of France every six hours, a row a day, and a plan that needs no forecast."""
    record = load_record("load_france")
    columns = pd.DataFrame(record.values, pd.DatetimeIndex(record.times), list(record.columns)).loc[_LOAD_YEARS]
    load = _by_hour(columns.filter(like="load_").sum(axis=1, skipna=False) / 1000, "load")
    temperature = _by_hour(columns.filter(like="temp_").mean(axis=1), "temp")
    return pd.concat([load, temperature, _planned_today(load)], axis=1).rename_axis("time").reset_index()


def _by_hour(series: pd.Series, name: str) -> pd.DataFrame:
    times = pd.DatetimeIndex(series.index)
    days = series.groupby([times.normalize(), times.hour]).first().unstack()
    return days.rename(columns=lambda hour: f"{name}_h{hour:02}")


def _planned_today(load: pd.DataFrame) -> pd.DataFrame:
    """Hour by hour the best plan for that weekday's loads of the last eight weeks, within the ramp."""
    level = _SHORT / (_SHORT + _LONG)
    weekday = pd.DatetimeIndex(load.index).day_of_week
    past = load.groupby(weekday).shift(1).groupby(weekday)
    wanted = past.rolling(8, min_periods=4).quantile(level).droplevel(0).sort_index()
    plan = wanted.rename(columns=lambda name: name.replace("load", "today"))
    for before, hour in pairwise(plan.columns):
        plan[hour] = np.clip(plan[hour], plan[before] - _RAMP, plan[before] + _RAMP)
    return plan


def _day_layout(table: pd.DataFrame) -> TableLayout:
    load, temperature, today = (tuple(table.filter(like=name).columns) for name in ("load_", "temp_", "today_"))
    return TableLayout(
        targets=load,
        features=(*load, *temperature),
        time="time",
        lags=(0.0, 144.0),
        lead=24.0,
        known=temperature,
        calendar=("weekday", "season"),
        baseline_action=",".join(today),
    )


EXAMPLES = (
    Example(
        name="bakery",
        title="What a bakery bakes for tomorrow in all its shops, a piece too few 3 times as expensive as one too many",
        table=_demand,
        layout=_demand_layout,
        cost="newsvendor:underage=3,overage=1,upper=20000",
        attribution="The weather of a day stands in for its forecast. " + load_record("demand_bakery").attribution,
        epochs=250,
    ),
    Example(
        name="irish_wind",
        title="How much of tomorrow's wind power to sell, of farms at 12 Irish stations",
        table=_wind,
        layout=_wind_layout,
        cost="wind_dispatch:penalty=20",
        attribution=load_record("wind_irish").attribution,
        epochs=60,
    ),
    Example(
        name="french_schedule",
        title="Tomorrow's electricity of France in four parts, each within 10 GW of the one before it",
        table=_days,
        layout=_day_layout,
        cost=f"schedule:short={_SHORT},long={_LONG},ramp={_RAMP},upper=150,action_unit=GW",
        attribution="The temperature at the target time stands in for its forecast. Today's action is hour by hour the "
        "best one for that weekday's loads of the last eight weeks, within the ramp. "
        + load_record("load_france").attribution,
        epochs=160,
    ),
)


@dataclass(frozen=True, eq=False)
class DemoResult:
    """What an example has to show."""

    example: Example  # the example
    fit: Result  # what its fit left
    decisions: pd.DataFrame  # the last decisions, what happened and what they cost

    def record(self) -> dict[str, Any]:
        """All of it for machines."""
        words = {"title": self.example.title, "attribution": self.example.attribution}
        return {**self.fit.record(), **words, "last_decisions": self.decisions}


def run_example(example: Example, out: Path, execution: Execution, epochs: int | None = None) -> DemoResult:
    """Fit one example in a folder of its own within `out`, and see what its decisions are worth."""
    fit = run_fit(example.request(out / "data", epochs), out / example.name, execution)
    return DemoResult(example, fit, _last_decisions(fit))


def _last_decisions(fit: Result) -> pd.DataFrame:
    """What was decided, what happened and what it cost, at the end of the test cases."""
    judged = read_judged(fit.folder).iloc[-_LAST:]
    columns: dict[str, Any] = {name: judged[name].to_numpy() for name in ("time", "outcome")}
    weights = {"": fit.facts["decision_weight"]} | ({"weight_0_": 0.0} if "weight_0_cost" in judged else {})
    for start, weight in sorted(weights.items(), reverse=True):
        of_weight = f", weight {weight:g}" if len(weights) > 1 else ""
        names = [name for name in judged if name == f"{start}cost" or str(name).startswith(f"{start}action")]
        for name in sorted(map(str, names), key=f"{start}cost".__eq__):
            columns[f"{name.removeprefix(start)}{of_weight}"] = judged[name].to_numpy(np.float64)
    if "today_cost" in judged:
        columns["cost today"] = judged["today_cost"].to_numpy()
    return pd.DataFrame(columns)
