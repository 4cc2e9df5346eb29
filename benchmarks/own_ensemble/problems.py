"""Real forecasts with their outcomes and a decision: who forecasts what, when it was issued, and what an action costs.

Nothing is learned here. Cases are in the order of issue; those from `test_from` on test, and what was not known when
the first of them was issued is left out of what may be learned from.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

import stakes
from stakes.costs.cost import Cost

__all__ = ["PROBLEMS", "Problem"]

Floats = NDArray[np.float64]
Times = NDArray[np.datetime64]

_RATIOS = (0.1, 0.3, 1.0)  # of a false alarm's cost to the damage
_ENSEMBLES = "ensembles_with_observations_single_site.npz"
_PENALTIES = (5.0, 20.0)  # of missing wind power
_RISK, _IMPACT = 1.0, 2.0  # of buying ahead
_EVERY = 4  # hours, of the two records of many places: neighbouring hours err alike


@dataclass(frozen=True, eq=False)
class Problem:
    """Forecasts of N cases with M members of D outcomes, in the order of issue, and what is decided from them.

    Attributes:
        name: Its name.
        members: Members (N, M, D); M is 1 where the forecast is one number.
        outcomes: What happened, (N, D).
        times: When it happened, (N,).
        issued: When the forecast was made, (N,).
        test_from: Forecasts issued from here on test.
        costs: What a decision costs, by a name of each.
        unit: The unit of the outcomes.
        bounds: Between which all outcomes lie; None for no bound.
        features: What else was known when the forecast was made, one row a case; None for nothing.
        groups: Cases of one group are corrected together by rivals, (N,).
    """

    name: str
    members: Floats
    outcomes: Floats
    times: Times
    issued: Times
    test_from: np.datetime64
    costs: Mapping[str, Cost]
    unit: str
    bounds: tuple[float | None, float | None] = (None, None)
    features: pd.DataFrame | None = None
    groups: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        if (self.issued[1:] < self.issued[:-1]).any() or (self.issued > self.times).any():
            raise ValueError(f"{self.name}: cases must be in the order of issue, and be issued before they happen")

    @property
    def test(self) -> NDArray[np.int64]:
        """The rows that test."""
        return np.flatnonzero(self.issued >= self.test_from)

    @property
    def known(self) -> NDArray[np.int64]:
        """The rows whose outcomes were known when the first forecast that tests was issued."""
        return np.flatnonzero(self.times <= self.issued[self.test[0]])

    @property
    def leads(self) -> Floats:
        """Hours from the issue to the outcome, (N,)."""
        return (self.times - self.issued) / np.timedelta64(1, "h")

    def thinned(self, step: int) -> "Problem":
        """Every so many-th case."""
        rows = slice(None, None, step)
        return replace(
            self,
            members=self.members[rows],
            outcomes=self.outcomes[rows],
            times=self.times[rows],
            issued=self.issued[rows],
            features=None if self.features is None else self.features.iloc[rows],
            groups=None if self.groups is None else self.groups[rows],
        )


def frost(name: str, folder: Path) -> Problem:
    """The night's minimum at Innsbruck by 11 GEFS members: protect against frost, by level."""
    arrays = np.load(folder / _ENSEMBLES)
    times = arrays["innsbruck_tmin_time"].astype("datetime64[ns]")
    costs = {f"false alarm {ratio:g}": stakes.ProtectionCost(0.0, ratio, "below", sharpness=2.0) for ratio in _RATIOS}
    return Problem(
        name,
        arrays["innsbruck_tmin_members_degC"].astype(np.float64)[..., None],
        arrays["innsbruck_tmin_obs_degC"].astype(np.float64)[:, None],
        times,
        times - np.timedelta64(30, "h"),
        np.datetime64("2011-01-01"),
        costs,
        "degC",
    )


def rain(name: str, folder: Path) -> Problem:
    """A day's rain at Frankfurt by 52 ECMWF members, 1 to 5 days ahead: act against more than 5 mm, by level."""
    members, outcomes, dates = _frankfurt(folder)
    days, leads = (each.ravel() for each in np.indices(outcomes.shape))
    issued = (dates[days] - (leads + 1) * np.timedelta64(1, "D")).astype("datetime64[ns]")
    order = np.lexsort((leads, issued))
    days, leads = days[order], leads[order]
    costs = {f"false alarm {ratio:g}": stakes.ProtectionCost(5.0, ratio, "above", sharpness=2.0) for ratio in _RATIOS}
    return Problem(
        name,
        members[days, leads][..., None],
        outcomes[days, leads][:, None],
        dates[days].astype("datetime64[ns]"),
        issued[order],
        np.datetime64("2014-01-01"),
        costs,
        "mm",
        bounds=(0.0, None),
        groups=leads,
    )


def rain_of_three_days(name: str, folder: Path) -> Problem:
    """The same forecasts of the next three days: how much room to make for their total, too little 9 times as dear."""
    members, outcomes, dates = _frankfurt(folder)
    place = {day: row for row, day in enumerate(dates)}
    day = np.timedelta64(1, "D")
    rows = np.array(
        [[place[d], place[d + day], place[d + 2 * day]] for d in dates if {d + day, d + 2 * day} <= {*place}]
    )
    leads = np.arange(3)
    return Problem(
        name,
        members[rows, leads].transpose(0, 2, 1),  # member 7 of the three days is one run of the model
        outcomes[rows, leads],
        dates[rows[:, -1]].astype("datetime64[ns]"),
        (dates[rows[:, 0]] - day).astype("datetime64[ns]"),
        np.datetime64("2014-01-01"),
        {"room 9 : 1": stakes.NewsvendorCost(9.0, 1.0, 0.0, 200.0)},
        "mm",
        bounds=(0.0, None),
    )


def _frankfurt(folder: Path) -> tuple[Floats, Floats, Times]:
    """Members (days, leads, M), outcomes (days, leads) and the days on which it rained."""
    arrays = np.load(folder / _ENSEMBLES)
    members, outcomes = (arrays[f"frankfurt_rain_{part}_mm"].astype(np.float64) for part in ("members", "obs"))
    return members, outcomes, arrays["frankfurt_rain_date"]


def new_york(name: str, folder: Path) -> Problem:
    """The load of 11 zones by the operator's forecasts, one number a zone: provide for their sum."""
    table = pd.read_csv(
        folder / "load_nyiso_11zones_dayahead_hourly_2018_2019.csv.gz", parse_dates=["time_utc", "issue_time_utc"]
    )
    table = table[table["time_utc"].dt.hour % _EVERY == 0]
    zones = [column.removeprefix("load_") for column in table.columns if column.startswith("load_")]
    load, forecast = (table[[f"{kind}_{zone}" for zone in zones]].to_numpy() / 1000 for kind in ("load", "dayahead"))
    return Problem(
        name,
        forecast[:, None],
        load,
        table["time_utc"].to_numpy("datetime64[ns]"),
        table["issue_time_utc"].to_numpy("datetime64[ns]"),
        np.datetime64("2019-03-01"),
        {"short 10 : long 1": stakes.ImbalanceCost(10.0, 1.0, 0.0, 60.0)},
        "GW",
    )


def buy_ahead(action: Tensor, dearer: Tensor) -> Tensor:
    """Buy a share ahead at an offered price and the rest at the price of the hour, in EUR/MWh less the offer.

    What the rest costs above the offer is charged once more, since a budget was made of the offer, and a large share
    bought ahead moves the price against the buyer.
    """
    return (1 - action) * (dearer + _RISK * torch.relu(dearer)) + _IMPACT * action**2


def prices(market: str, name: str, folder: Path) -> Problem:
    """Day-ahead prices by eight models, less the price at which the hour is offered before: its mean of seven days."""
    table = pd.read_csv(folder / "prices_5markets_hourly_8models_2years.csv.gz", parse_dates=["time"])
    table = table[table["market"] == market].sort_values("time").reset_index(drop=True)
    models = [column for column in table.columns if column.startswith(("dnn_", "lear_"))]
    offered = sum(table["price"].shift(24 * days) for days in range(1, 8)) / 7
    table = table.assign(offered=offered).iloc[7 * 24 :]
    times = table["time"].to_numpy("datetime64[ns]")
    return Problem(
        name,
        table[models].sub(table["offered"], axis=0).to_numpy()[..., None],
        table[["price"]].sub(table["offered"], axis=0).to_numpy(),
        times,
        times.astype("datetime64[D]").astype("datetime64[ns]") - np.timedelta64(12, "h"),
        times[0] + np.timedelta64(364, "D"),
        {"buy ahead or by the hour": stakes.cost_function(buy_ahead, 0.0, 1.0, convex=True)},
        "EUR/MWh",
        features=table[["exog1", "exog2", "offered"]],
    )


def wind(name: str, folder: Path) -> Problem:
    """The power of 10 wind farms by that of the day before, with the weather forecast for each beside it."""
    table = pd.read_csv(folder / "wind_gefcom2014_10zones_hourly_2012_2013.csv.gz", parse_dates=["time"])
    farms = [column.removeprefix("power_") for column in table.columns if column.startswith("power_")]
    speeds = {
        f"ws{height}_{farm}": np.hypot(table[f"u{height}_{farm}"], table[f"v{height}_{farm}"])
        for height in (10, 100)
        for farm in farms
    }
    table = table.assign(**speeds)
    power = table[[f"power_{farm}" for farm in farms]]
    before = power.shift(24)
    whole = power.notna().all(axis=1) & before.notna().all(axis=1) & (table["time"].dt.hour % _EVERY == 0)
    times = table["time"].to_numpy("datetime64[ns]")[whole]
    hour = np.timedelta64(1, "h")
    return Problem(
        name,
        before[whole].to_numpy()[:, None],
        power[whole].to_numpy(),
        times,
        (times - hour).astype("datetime64[D]").astype("datetime64[ns]"),
        np.datetime64("2013-07-01"),
        {f"lambda {penalty:g}": stakes.ShortfallCost(penalty) for penalty in _PENALTIES},
        "fraction of capacity",
        bounds=(0.0, 1.0),
        features=table.loc[whole, [column for column in table.columns if column.startswith(("u", "v", "ws"))]],
    )


PROBLEMS: Mapping[str, Callable[[Path], Problem]] = {
    name: partial(make, name)
    for name, make in {
        "Innsbruck frost": frost,
        "Frankfurt rain, leads 1-5": rain,
        "Frankfurt rain of three days": rain_of_three_days,
        "New York load, 11 zones": new_york,
        **{f"prices, {market}": partial(prices, market) for market in ("NP", "PJM", "BE", "FR", "DE")},
        "GEFCom2014 wind, 10 farms": wind,
    }.items()
}
"""What makes each problem, from the folder of its tables."""
