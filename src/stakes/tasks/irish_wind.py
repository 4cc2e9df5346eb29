"""Beyond the paper: commit the mean power of wind farms at 12 Irish weather stations one day ahead."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from stakes.data.lagged_series import LaggedInput, LaggedSeries, Split
from stakes.data.records import load_record
from stakes.method.named_costs import WindDispatchCost
from stakes.tasks.chronological import chronological_data, consecutive_years
from stakes.tasks.many_sites import MANY_WIND_SITES
from stakes.tasks.regions import region_between
from stakes.tasks.task import PaperSettings, Region, TaskData

__all__ = ["IrishWind"]

_PERIODS = consecutive_years(train=1961, validation=1973, test=1975, end=1979)


@dataclass(frozen=True)
class IrishWind:
    """Forecast tomorrow's daily mean speeds from the last two days at all stations and the season.

    c(a, y) = -a + penalty relu(a - P(y))^2, with P(y) the mean over the stations of the default `PowerCurve` of the
    observed speed, which it takes from 10 to 100 m.

    Attributes:
        penalty: What a missing fraction of capacity, squared, costs against the price of the power.
    """

    name: ClassVar[str] = "irish_wind"
    cost_parameters: ClassVar[tuple[str, ...]] = ("penalty",)
    paper: ClassVar[PaperSettings] = MANY_WIND_SITES

    penalty: float = 5.0

    def __post_init__(self) -> None:
        _ = self.cost  # which checks it

    @property
    def cost(self) -> WindDispatchCost:
        return WindDispatchCost(self.penalty)

    @property
    def regions(self) -> Mapping[str, Region]:
        """By the mean power, as a fraction of capacity."""
        return {"low": region_between(self.mean_power, upper=0.25), "high": region_between(self.mean_power, lower=0.5)}

    def mean_power(self, speeds: Tensor) -> Tensor:
        """The power that the decision is about, as a fraction of capacity: speeds (..., D) to (...)."""
        return self.cost.power_curve(speeds).mean(-1)

    def splits(self) -> dict[str, Split]:
        """The rows of each split, and how many were left out."""
        record = load_record("wind_irish").in_metres_per_second()
        inputs = (LaggedInput(record.columns, (0, 24)),)
        return LaggedSeries(inputs, record.columns, lead_hours=24, calendar=("season",)).splits(record, _PERIODS)

    def data(self) -> TaskData:
        """Daily cases: train 1961-1972, validate 1973-1974, test 1975-1978."""
        return chronological_data(self.splits(), "m/s", load_record("wind_irish").attribution)
