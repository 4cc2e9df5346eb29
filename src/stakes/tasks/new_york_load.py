"""Beyond the paper: buy electricity for New York State, where too little costs far more than too much (NYISO)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from stakes.data.lagged_series import LaggedInput, LaggedSeries, Split
from stakes.data.records.reference_tables import NEW_YORK_LOAD, read_reference_table, table_series
from stakes.data.time_series import TimeSeries
from stakes.method.named_costs import ImbalanceCost
from stakes.tasks.chronological import Periods, chronological_data, judged_every, require_folder
from stakes.tasks.many_sites import MANY_LOADS
from stakes.tasks.regions import region_between
from stakes.tasks.task import PaperSettings, Region, TaskData

__all__ = ["NewYorkLoad"]

_PERIODS: Periods = {
    "train": ("2018-01-01", "2018-12-01"),
    "validation": ("2018-12-01", "2019-03-01"),
    "test": ("2019-03-01", "2020-01-02"),
}
_ZONES = ("CAPITL", "CENTRL", "DUNWOD", "GENESE", "HUD VL", "LONGIL", "MHK VL", "MILLWD", "N.Y.C.", "NORTH", "WEST")
_LOADS, _FORECASTS, _ERRORS = (tuple(f"{kind}_{zone}" for zone in _ZONES) for kind in ("load", "dayahead", "error"))
_HIGHEST = 60.0  # GW; the record's own highest is 31
_LOW, _HIGH = 16.0, 20.0  # GW
_ATTRIBUTION = "New York Independent System Operator, via PGscen."


@dataclass(frozen=True)
class NewYorkLoad:
    """Forecast the load of 11 zones, buy their sum a, settle the rest at `short` and `long`.

    c(a, y) = short relu(y - a)^2 + long relu(a - y)^2. Inputs: the operator's forecast for the hour, issued up to 35 h
    before, its errors two days ago, loads two and seven days ago, hour, weekday, season. All loads are in GW. The
    table is not shipped: the user has to put it somewhere.

    Attributes:
        short: The cost per GW^2 of having bought too little.
        long: The cost per GW^2 of having bought too much.
        tables: The folder of the table; None is the current one.
    """

    name: ClassVar[str] = "new_york_load"
    cost_parameters: ClassVar[tuple[str, ...]] = ("short", "long")
    paper: ClassVar[PaperSettings] = MANY_LOADS

    short: float = 10.0
    long: float = 1.0
    tables: str | None = None

    def __post_init__(self) -> None:
        _ = self.cost  # which checks them
        require_folder("tables", self.tables)

    @property
    def cost(self) -> ImbalanceCost:
        return ImbalanceCost(self.short, self.long, lower=0.0, upper=_HIGHEST)

    @property
    def regions(self) -> Mapping[str, Region]:
        """By the load of all zones."""
        return {"low": region_between(_total, upper=_LOW), "high": region_between(_total, lower=_HIGH)}

    @property
    def rows(self) -> LaggedSeries:
        """Which features and outcomes a case has."""
        inputs = (LaggedInput(_LOADS, (0, 120)), LaggedInput(_ERRORS))
        return LaggedSeries(inputs, _LOADS, 48, _FORECASTS, ("hour", "weekday_wave", "season"))

    def series(self) -> TimeSeries:
        """Hourly loads, the operator's forecasts of them and its errors, in GW."""
        table = read_reference_table(NEW_YORK_LOAD, self.tables, time="time_utc")
        table[[*_LOADS, *_FORECASTS]] /= 1000
        table[list(_ERRORS)] = table[list(_LOADS)].to_numpy() - table[list(_FORECASTS)].to_numpy()
        return table_series(table, (*_LOADS, *_FORECASTS, *_ERRORS))

    def splits(self) -> dict[str, Split]:
        """The rows of each split, and how many were left out."""
        return self.rows.splits(self.series(), _PERIODS)

    def data(self) -> TaskData:
        """Hourly cases train, January to November 2018; every fourth hour to February validates, later ones test."""
        return chronological_data(judged_every(4, self.splits()), "GW", _ATTRIBUTION)


def _total(outcome: Tensor) -> Tensor:
    return outcome.sum(-1)
