"""Which price past actions behave as if they had, on two records; the numbers of docs/guides/value.md.

    python -m benchmarks.implied_cost [--load load_nyiso_11zones_dayahead_hourly_2018_2019.csv.gz]

The day-ahead forecast of New York's grid operator, added up over its zones, taken as what was bought for the load; and
a bakery that would bake what it sold on the same day of the week before (shop 2, product 101). A few seconds.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from stakes import NewsvendorCost, ParameterRange, implied_cost, load_record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--load", type=Path, help="hourly load and day-ahead forecasts of 11 zones, for New York")
    path = parser.parse_args().load
    ratios = ParameterRange(0.01, 100)
    if path is not None:
        table = pd.read_csv(path, parse_dates=["time_utc"])
        bought, load = (table.filter(like=name).sum(axis=1) for name in ("dayahead_", "load_"))
        cost = NewsvendorCost(ratios, 1.0, 0.0, 1e6)
        print("New York:", implied_cost(bought, load, cost, times=table["time_utc"]).sentence)
    record = load_record("demand_bakery").select("demand_2_101")
    sold, week = record.values[:, 0], 7
    known = np.isfinite(sold[week:]) & np.isfinite(sold[:-week])
    baked, demand, days = sold[:-week][known], sold[week:][known], record.times[week:][known]
    cost = NewsvendorCost(ratios, 1.0, 0.0, 1e5)
    print("bakery:", implied_cost(baked, demand, cost, times=days).sentence)


if __name__ == "__main__":
    main()
