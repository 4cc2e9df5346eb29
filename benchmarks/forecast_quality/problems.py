"""Real problems, each with a decision: features, outcomes, times, a cost, and rows to train and to test on by time.

Those of the package's own records always run; the others need a folder of tables that cannot be shipped.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from reproduction.tasks.frost import FrostTask
from reproduction.tasks.portfolio import EuropeanWind, FrenchLoad, GefcomWind, IrishWind, NewYorkLoad
from reproduction.tasks.task import Task
from reproduction.tasks.wind import WindTask
from stakes import ImbalanceCost, NewsvendorCost, ShortfallCost
from stakes.costs.cost import Cost
from stakes.data.records import load_record
from stakes.data.tables.lags import LaggedInput, LaggedSeries, Split, TimeSeries
from stakes.data.tables.layout import TableLayout

__all__ = ["EMBEDDED", "MADE", "REFERENCE", "Problem", "problems"]

Floats = NDArray[np.float64]
_TEST_ROWS = 1500  # at most, evenly spread
_PENALTIES = (5.0, 20.0)  # of missing wind power


@dataclass(frozen=True, eq=False)
class Problem:
    """What is forecast and decided, the training rows first, all in the order of time.

    Attributes:
        name: Its name.
        features: Features (N, F).
        outcomes: Outcomes (N, D).
        times: Target times (N,).
        train: How many rows, the first ones, train; the others test.
        lead_hours: From making a forecast to its target, at most; no training row is that close to a test row.
        period_hours: How far back the value lies that stands in for the next one, at least the lead.
        costs: What a decision costs, by a name of each that follows that of the problem; one may have no name.
        unit: The unit of the outcomes.
    """

    name: str
    features: Floats
    outcomes: Floats
    times: NDArray[np.datetime64]
    train: int
    lead_hours: float
    period_hours: float
    costs: Mapping[str, Cost]
    unit: str

    def __post_init__(self) -> None:
        apart = (self.times[self.train] - self.times[self.train - 1]) / np.timedelta64(1, "h")
        if apart < self.lead_hours:
            raise ValueError(f"{self.name}: test rows must come {self.lead_hours} h after training rows, got {apart}")

    @property
    def last_values(self) -> Floats:
        """The outcomes of the latest row that is a period older, or more, (N, D); NaN where there is none."""
        period = np.timedelta64(round(self.period_hours * 3600), "s")
        place = np.searchsorted(self.times, self.times - period, side="right") - 1
        return np.where(place[:, None] >= 0, self.outcomes[place], np.nan)

    @property
    def test_rows(self) -> NDArray[np.int64]:
        """The rows that test, evenly spread where there are very many."""
        count = len(self.times) - self.train
        return self.train + np.unique(np.linspace(0, count - 1, min(count, _TEST_ROWS)).astype(np.int64))


def of_task(tasks: Mapping[str, Task], lead_hours: float, period_hours: float, name: str) -> Problem:
    """A task of the package: what it trains and validates on trains here, and its test cases test.

    Several tasks, by the names of their costs, must differ in their costs alone.
    """
    data = next(iter(tasks.values())).data()
    parts = (data.train, data.validation, data.test)
    features, outcomes = (
        torch.cat([getattr(part, side) for part in parts]).double().numpy() for side in ("features", "outcome")
    )
    times = np.concatenate([part.times for part in parts])
    train = len(data.train) + len(data.validation)
    costs = {label: task.cost for label, task in tasks.items()}
    return Problem(name, features, outcomes, times, train, lead_hours, period_hours, costs, data.unit)


def of_split(
    name: str,
    split: Split,
    test_from: str,
    lead_hours: float,
    period_hours: float,
    costs: Mapping[str, Cost],
    unit: str,
) -> Problem:
    """Rows from `test_from` on test; those whose outcome is not known when the first is forecast are left out."""
    begin = np.datetime64(test_from, "s")
    assert split.times is not None
    train = split.times <= begin - np.timedelta64(round(lead_hours * 3600), "s")
    kept = train | (split.times >= begin)
    cases = split.rows(kept)
    assert cases.times is not None
    features, outcomes = cases.features.numpy(), cases.outcome.numpy()
    return Problem(name, features, outcomes, cases.times, int(train.sum()), lead_hours, period_hours, costs, unit)


# Of the package's records


def brittany(name: str) -> Problem:
    """One French region with the features of the tutorial, in MW and EUR."""
    record = load_record("load_france").select("load_BRE", "temp_BRE")
    table = pd.DataFrame(record.values, columns=pd.Index(record.columns)).assign(time=record.times)
    table = table[(table["time"] < "2020-01-01") | (table["time"] >= "2021-01-01")]  # without the lockdowns
    layout = TableLayout(
        ("load_BRE",),
        ("load_BRE", "temp_BRE"),
        "time",
        (0, 24, 144),
        24,
        ("temp_BRE",),
        ("hour", "weekday_wave", "season"),
    )
    cases = layout.cases(table)
    assert cases.times is not None
    train = int((cases.times < np.datetime64("2021-01-01")).sum())
    cost = ImbalanceCost(short=0.1, long=0.01, lower=0.0, upper=6000.0)
    features, outcomes = cases.features.numpy(), cases.outcome.numpy()
    return Problem(name, features, outcomes, cases.times, train, 24, 168, {"": cost}, "MW")


def bakery(product: int, name: str) -> Problem:
    """The demand for a product in all shops that are open tomorrow, where too little costs three times too much.

    Known beforehand are how many shops open, promotions, holidays and, standing in for its forecast, the weather.
    """
    record = load_record("demand_bakery")
    columns = dict(zip(record.columns, record.values.T, strict=True))
    shops = np.stack([values for column, values in columns.items() if column.startswith("demand_")])
    sold = np.stack([columns[column] for column in columns if column.endswith(f"_{product}") and "demand_" in column])
    open_shops = (shops.reshape(3, -1, shops.shape[1]) > 0).any(0).sum(0)
    known = {
        "open": open_shops,
        **{column: columns[f"{column}_{product}"] for column in ("promotion_currentweek", "promotion_lastweek")},
        **{column: columns[column] for column in columns if column.startswith("is_")},
        **{
            quantity: np.mean([columns[column] for column in columns if column.startswith(quantity)], axis=0)
            for quantity in ("rain", "temperature")
        },
    }
    values = np.stack([sold.sum(0), open_shops, *known.values()], axis=1)
    series = TimeSeries(record.times, values, ("demand", "was_open", *known))
    inputs = (LaggedInput(("demand", "was_open"), (0, 144, 312)),)
    rows = LaggedSeries(inputs, ("demand",), 24, tuple(known), ("weekday_wave", "season"))
    split = rows.split(series, "2016", "2019-05-01")
    split = split.rows((split.outcome[:, 0] > 0).numpy())
    cost = NewsvendorCost(underage=3.0, overage=1.0, lower=0.0, upper=20_000.0)
    return of_split(name, split, "2018-07-01", 24, 168, {"": cost}, "pieces")


# Of tables that cannot be shipped


def european_wind(name: str, folder: Path) -> Problem:
    tasks = {f"lambda {penalty:g}": EuropeanWind(penalty, tables=str(folder)) for penalty in _PENALTIES}
    return of_task(tasks, 24, 24, name)


def gefcom(name: str, folder: Path) -> Problem:
    """The mean power of 10 wind farms from the weather forecasts for each and its power the day before."""
    task = GefcomWind(tables=str(folder))
    split = task.rows.split(task.series(), "2012-01-01", "2013-12-02")
    costs = {f"lambda {penalty:g}": ShortfallCost(penalty) for penalty in _PENALTIES}
    return of_split(name, split, "2013-07-01", 24, 24, costs, "fraction of capacity")


def new_york(name: str, folder: Path) -> Problem:
    """The load of 11 zones from the operator's forecast, issued up to 35 h before, and loads two and seven days ago."""
    task = NewYorkLoad(tables=str(folder))
    split = task.rows.split(task.series(), "2018-01-01", "2020-01-02")
    return of_split(name, split, "2019-03-01", 48, 168, {"": task.cost}, "GW")


# Made for trying


def trend(name: str) -> Problem:
    """A daily demand with a week's rhythm whose level rises from 100 to 220, half of it in the rows that test."""
    days = np.arange("2018", "2022", dtype="datetime64[D]")
    generator = np.random.default_rng(0)
    level = 100 + 120 * np.arange(len(days)) / len(days)
    rhythm = np.array([0.9, 0.85, 0.95, 1.0, 1.1, 1.25, 0.6])[(days.astype(int) + 3) % 7]
    noise = np.zeros(len(days))
    for day in range(1, len(days)):
        noise[day] = 0.6 * noise[day - 1] + generator.normal(scale=0.05)
    series = TimeSeries(days, level * rhythm * np.exp(noise), ("demand",))
    rows = LaggedSeries((LaggedInput(("demand",), (0, 144, 312)),), ("demand",), 24, (), ("weekday_wave", "season"))
    cost = NewsvendorCost(underage=3.0, overage=1.0, lower=0.0, upper=1000.0)
    return of_split(name, rows.split(series, "2018", "2022"), "2020-01-01", 24, 168, {"": cost}, "pieces")


EMBEDDED: Mapping[str, Callable[[str], Problem]] = {
    "Irish wind": partial(of_task, {f"lambda {penalty:g}": IrishWind(penalty) for penalty in _PENALTIES}, 24, 24),
    "French load, 12 regions": partial(of_task, {"": FrenchLoad()}, 24, 168),
    "French load, Brittany": brittany,
    "wind speed, 58 N": partial(of_task, {"": WindTask()}, 6, 6),
    "wind speed, NORA10": partial(of_task, {"": WindTask(record="wind_nora10")}, 6, 6),
    "frost, MERRA-2": partial(of_task, {"": FrostTask(0.3)}, 24, 24),
    "frost, ERA5": partial(of_task, {"": FrostTask(0.3, "frost_era5")}, 24, 24),
    **{f"bakery, product {product}": partial(bakery, product) for product in (101, 109, 110)},
}
"""By name: what makes the problem."""

REFERENCE: Mapping[str, Callable[[str, Path], Problem]] = {
    "European wind": european_wind,
    "GEFCom2014 wind": gefcom,
    "New York load, 11 zones": new_york,
}
"""Those of tables that cannot be shipped: what makes the problem from the folder that holds them."""

MADE: Mapping[str, Callable[[str], Problem]] = {"made: rising demand": trend}
"""Made for trying; left out of what is counted."""


def problems(reference: Path | None) -> dict[str, Callable[[], Problem]]:
    """All problems that can be made here, in the order of the table."""
    known = {name: partial(make, name) for name, make in EMBEDDED.items()}
    if reference is not None:
        known |= {name: partial(make, name, reference) for name, make in REFERENCE.items()}
    return known | {name: partial(make, name) for name, make in MADE.items()}
