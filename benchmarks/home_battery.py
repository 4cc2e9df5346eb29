"""A home battery planned by P10, P50 and P90 a day ahead: joint scenarios against P50, a blend, and hours apart.

    python -m benchmarks.home_battery --wind wind_gefcom2014_10zones_hourly_2012_2013.csv.gz \\
        --market donti_pjm_price_load_hourly_2008_2016.csv.gz [--json FILE]

Three real records make a home: day-ahead prices and the load of a PJM zone, scaled to 1 kW in the mean, and a wind farm
of GEFCom2014 with its weather forecasts, scaled to a turbine of 4 kW; they are of different places, and only the hours
are brought together. What is bought costs the spot price and 80 $/MWh on top, what is sold earns the spot price. The
battery (10 kWh, 3 kW, 90 %) follows a plan made the evening before, when prices are known and the net load is not; the
grid settles the rest. Quantiles of the net load are boosted trees on 2012. The first quarter of 2013 gives the errors
by which `stakes decide --dependence` puts hours together, and the weight of the blend; April to November are the test.
Since the grid settles every hour by itself, a plan that is fixed depends on each hour's own quantiles alone: that hours
together and hours apart give the same plans is a check. Minutes on one core.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor

import stakes
from stakes.data.forecasts.quantiles import weighted_vectors
from stakes.evaluation.intervals import paired_difference
from stakes.forecasting.copula import error_places, quantiles_at, reordered, vector_ranks

Floats = NDArray[np.float64]
LEVELS = [0.1, 0.5, 0.9]
ON_TOP, POWER, ENERGY, EFFICIENCY = 80.0, 3.0, 10.0, 0.9
WEIGHTS = (-1.0, -0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75, 1.0)
SCENARIOS = 50


def records(wind: Path, market: Path) -> tuple[pd.DataFrame, pd.Series, pd.Series]:
    """Features, net load in kW and spot price in $/MWh, by hour."""
    farm = pd.read_csv(wind, parse_dates=["time"], index_col="time")
    zone = pd.read_csv(market, parse_dates=["time_local_eastern"], index_col="time_local_eastern")
    zone = zone[~zone.index.duplicated()]
    hours = farm.index.intersection(zone.index[zone["pjm_da_price"].notna()])
    farm, zone = farm.loc[hours], zone.loc[hours]
    load = zone["load_GW"] / zone["load_GW"].mean()
    net = load - 4 * farm["power_z01"]
    speed = np.hypot(farm["u100_z01"], farm["v100_z01"])
    known = {
        "speed": speed,
        "before": speed.shift(1),
        "after": speed.shift(-1),
        "low": np.hypot(farm["u10_z01"], farm["v10_z01"]),
    }
    known |= {"from": np.arctan2(farm["v100_z01"], farm["u100_z01"]), "hour": pd.Series(hours.hour, hours)}
    known |= {f"load_{lag}": load.shift(lag) for lag in (48, 168)} | {"expected_load": zone["pjm_load_forecast"]}
    return pd.DataFrame(known), net, zone["pjm_da_price"]


def in_days(values: Any) -> Floats:
    """Hours 1 to 24 of a run as rows."""
    return np.asarray(values, dtype=np.float64).reshape(-1, 24)


def battery(spot: Floats) -> stakes.Program:
    """Charge and discharge on a day with these prices; what the net load costs anyway is left out."""
    return stakes.Program(
        decide={
            "charge": stakes.Quantity(cost=spot.tolist(), upper=POWER),
            "discharge": stakes.Quantity(cost=(-spot).tolist(), upper=POWER),
        },
        recourse={"bought": stakes.Quantity(cost=ON_TOP)},
        recourse_constraints={"net": "bought >= outcome + charge - discharge"},
        limits={"store": f"0 <= so_far({EFFICIENCY} * charge - discharge) <= {ENERGY}"},
    )


def plans(members: Floats, spot: Floats) -> Floats:
    """What the battery takes from the house in each hour of each day, (N, 24), by members (N, M, 24)."""
    found = []
    for each, price in zip(members, spot, strict=True):
        action = stakes.solve_action(battery(price), torch.from_numpy(each.copy())).action
        found.append((action[:24] - action[24:48]).numpy())
    return np.stack(found)


def paid(plan: Floats, net: Floats, spot: Floats) -> Floats:
    """What each day costs, in cents."""
    taken = net + plan
    return np.asarray((spot * taken + ON_TOP * np.maximum(taken, 0)).sum(1) / 10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wind", type=Path, required=True)
    parser.add_argument("--market", type=Path, required=True)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    features, net, spot = records(asked.wind, asked.market)
    whole = features.notna().all(axis=1) & net.notna()
    day = pd.Series((net.index - pd.Timedelta("1h")).floor("D"), net.index)
    good = whole.groupby(day).transform("sum") == 24
    features, net, spot, day = features[good], net[good], spot[good], day[good]
    fitted = [
        HistGradientBoostingRegressor(loss="quantile", quantile=level, max_iter=150, random_state=0).fit(
            features[day < "2013"], net[day < "2013"]
        )
        for level in LEVELS
    ]
    known, test = (day >= "2013") & (day < "2013-04"), day >= "2013-04"
    forecasts = {
        name: np.sort(np.stack([in_days(model.predict(features[rows])) for model in fitted], 1), axis=1)
        for name, rows in {"known": known, "test": test}.items()
    }
    seen = {"known": in_days(net[known]), "test": in_days(net[test])}
    price = {"known": in_days(spot[known]), "test": in_days(spot[test])}
    blends = {
        weight: paid(plans(blended(forecasts["known"], weight), price["known"]), seen["known"], price["known"]).mean()
        for weight in WEIGHTS
    }
    weight = min(blends, key=blends.__getitem__)
    vectors = {name: weighted_vectors(LEVELS, each, name, bounds=None) for name, each in forecasts.items()}
    errors = error_places(vectors["known"].members, vectors["known"].weights, seen["known"])
    equal = quantiles_at(vectors["test"].members, vectors["test"].weights, SCENARIOS)
    order = vector_ranks(errors)
    apart = np.random.default_rng(0).permuted(np.tile(np.arange(SCENARIOS)[:, None], 24), axis=0)
    members = {
        "P50": forecasts["test"][:, 1:2],
        f"blend, P50 moved by {weight:+g} of the way to {'P90' if weight > 0 else 'P10'}": blended(
            forecasts["test"], weight
        ),
        "P10, P50, P90, hours apart": reordered(equal, apart),
        "P10, P50, P90, hours together by past errors": reordered(equal, order),
        "perfect foresight": seen["test"][:, None],
    }
    costs = {"no battery": paid(np.zeros_like(seen["test"]), seen["test"], price["test"])}
    for name, each in members.items():
        costs[name] = paid(plans(each, price["test"]), seen["test"], price["test"])
    ours = costs["P10, P50, P90, hours together by past errors"]
    told = []
    print(f"{len(ours)} days; cents a day; what hours together by past errors cost more, [95 %]")
    for name, cost in costs.items():
        mean, low, high = paired_difference(ours[None], cost[None], block=7)
        print(f"{name:55} {cost.mean():7.2f}   {mean:+6.2f} [{low:+.2f}, {high:+.2f}]")
        told.append({"plan": name, "cost": float(cost.mean()), "change": mean, "low": low, "high": high})
    if asked.json is not None:
        asked.json.write_text(json.dumps({"days": len(ours), "weight": weight, "plans": told}, indent=1) + "\n")


def blended(quantiles: Floats, weight: float) -> Floats:
    """P50 moved towards P90, or towards P10 where the weight is negative, as single members (N, 1, 24)."""
    side = quantiles[:, 2] if weight > 0 else quantiles[:, 0]
    return (quantiles[:, 1] + abs(weight) * (side - quantiles[:, 1]))[:, None]


if __name__ == "__main__":
    main()
