"""Beyond the paper: buy tomorrow's electricity for mainland France, where too little costs far more than too much."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from torch import Tensor

from stakes.data.lagged_series import LaggedInput, LaggedSeries, Split
from stakes.data.records import Record, load_record
from stakes.method.named_costs import ImbalanceCost
from stakes.tasks.chronological import Periods, chronological_data
from stakes.tasks.many_sites import MANY_LOADS
from stakes.tasks.regions import region_between
from stakes.tasks.task import PaperSettings, Region, TaskData

__all__ = ["FrenchLoad"]

# 2020 was the year of the lockdowns.
_PERIODS: Periods = {"train": ("2014", "2019"), "validation": ("2019", "2020"), "test": ("2021", "2022")}
_REGIONS = 12
_HIGHEST = 150.0  # GW; the record's own highest is 96
_LOW, _HIGH = 45.0, 65.0  # GW


@dataclass(frozen=True)
class FrenchLoad:
    """Forecast the load of 12 regions 24 h ahead, buy their sum a, settle the rest at `short` and `long`.

    c(a, y) = short relu(y - a)^2 + long relu(a - y)^2. Inputs: loads now, one and six days ago, temperature now and at
    the target time (a stand-in for its forecast), weekday, hour. All loads are in GW.

    Attributes:
        short: The cost per GW^2 of having bought too little.
        long: The cost per GW^2 of having bought too much.
    """

    name: ClassVar[str] = "french_load"
    cost_parameters: ClassVar[tuple[str, ...]] = ("short", "long")
    paper: ClassVar[PaperSettings] = MANY_LOADS

    short: float = 10.0
    long: float = 1.0

    def __post_init__(self) -> None:
        _ = self.cost  # which checks them

    @property
    def cost(self) -> ImbalanceCost:
        return ImbalanceCost(self.short, self.long, lower=0.0, upper=_HIGHEST)

    @property
    def regions(self) -> Mapping[str, Region]:
        """By the load of the whole country."""
        return {"low": region_between(_total, upper=_LOW), "high": region_between(_total, lower=_HIGH)}

    def splits(self) -> dict[str, Split]:
        """The rows of each split, and how many were left out."""
        record = _in_gigawatts(load_record("load_france"))
        loads, temperatures = record.columns[:_REGIONS], record.columns[_REGIONS:]
        series = LaggedSeries(
            inputs=(LaggedInput(loads, (0, 24, 144)), LaggedInput(temperatures)),
            targets=loads,
            lead_hours=24,
            at_target_time=temperatures,
            calendar=("weekday_wave", "hour"),
        )
        return series.splits(record, _PERIODS)

    def data(self) -> TaskData:
        """6-hourly cases: train 2014-2018, validate 2019, test 2021."""
        return chronological_data(self.splits(), "GW", load_record("load_france").attribution)


def _total(outcome: Tensor) -> Tensor:
    return outcome.sum(-1)


def _in_gigawatts(record: Record) -> Record:
    divisors = np.array([1000.0 if unit == "MW" else 1.0 for unit in record.units])
    units = tuple("GW" if unit == "MW" else unit for unit in record.units)
    return replace(record, values=record.values / divisors, units=units)
