"""Beyond the paper: commit the mean power of ten Australian wind farms from weather forecasts (GEFCom2014)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from torch import Tensor

from stakes.data.lagged_series import LaggedInput, LaggedSeries, Split
from stakes.data.records.reference_tables import GEFCOM_WIND, read_reference_table, table_series
from stakes.data.time_series import TimeSeries
from stakes.method.named_costs import ShortfallCost
from stakes.tasks.chronological import Periods, chronological_data, judged_every, require_folder
from stakes.tasks.many_sites import MANY_WIND_SITES
from stakes.tasks.regions import region_between
from stakes.tasks.task import PaperSettings, Region, TaskData

__all__ = ["GefcomWind"]

_PERIODS: Periods = {
    "train": ("2012-01-01", "2013-04-01"),
    "validation": ("2013-04-01", "2013-07-01"),
    "test": ("2013-07-01", "2013-12-02"),
}
_FARMS = tuple(f"z{farm:02d}" for farm in range(1, 11))
_POWER = tuple(f"power_{farm}" for farm in _FARMS)
_WINDS = tuple(f"{name}_{farm}" for farm in _FARMS for name in ("u10", "v10", "u100", "v100"))
_WEATHER = (*_WINDS, *(f"{speed}_{farm}" for speed in ("ws10", "ws100") for farm in _FARMS))
_ATTRIBUTION = "GEFCom2014: Hong et al. (2016), International Journal of Forecasting 32, 896-913."


@dataclass(frozen=True)
class GefcomWind:
    """Forecast the power of 10 wind farms, commit their mean a: c(a, y) = -a + penalty relu(a - y)^2, y the mean.

    Inputs are the weather forecast for the hour at each farm, all powers 24 h before, hour and season. The table is not
    shipped: the user has to put it somewhere.

    Attributes:
        penalty: What a missing fraction of capacity, squared, costs against the price of the power.
        tables: The folder of the table; None is the current one.
    """

    name: ClassVar[str] = "gefcom_wind"
    cost_parameters: ClassVar[tuple[str, ...]] = ("penalty",)
    paper: ClassVar[PaperSettings] = MANY_WIND_SITES

    penalty: float = 5.0
    tables: str | None = None

    def __post_init__(self) -> None:
        _ = self.cost  # which checks the penalty
        require_folder("tables", self.tables)

    @property
    def cost(self) -> ShortfallCost:
        return ShortfallCost(self.penalty)

    @property
    def regions(self) -> Mapping[str, Region]:
        """By the mean power, as a fraction of capacity."""
        return {"low": region_between(_mean, upper=0.25), "high": region_between(_mean, lower=0.5)}

    @property
    def rows(self) -> LaggedSeries:
        """Which features and outcomes a case has."""
        return LaggedSeries((LaggedInput(_POWER),), _POWER, 24, _WEATHER, ("hour", "season"))

    def series(self) -> TimeSeries:
        """Hourly power and weather forecasts, with wind speeds."""
        table = read_reference_table(GEFCOM_WIND, self.tables)
        speeds = {
            f"ws{height}_{farm}": np.hypot(table[f"u{height}_{farm}"], table[f"v{height}_{farm}"])
            for farm in _FARMS
            for height in (10, 100)
        }
        return table_series(table.assign(**speeds), (*_POWER, *_WEATHER))

    def splits(self) -> dict[str, Split]:
        """The rows of each split, and how many were left out."""
        return self.rows.splits(self.series(), _PERIODS)

    def data(self) -> TaskData:
        """Hourly cases train, 2012 to March 2013; every fourth hour to June validates, and from July on tests."""
        return chronological_data(judged_every(4, self.splits()), "fraction of capacity", _ATTRIBUTION)


def _mean(outcome: Tensor) -> Tensor:
    return outcome.mean(-1)
