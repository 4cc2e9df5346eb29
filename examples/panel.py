"""
Orders for many products at once
================================

A bakery has 99 products in 33 shops, each with a margin of its own. One forecast of all of them orders for each.
"""

import numpy as np
import pandas as pd
from matplotlib import pyplot

import stakes

record = stakes.load_record("demand_bakery")
names = [name for name in record.columns if name.startswith("demand_")]
table = pd.DataFrame(record.select(*names).values, pd.DatetimeIndex(record.times, name="time"), names)[-500:]
margins = np.random.default_rng(0).uniform(0.5, 9.0, size=len(names))
sales = table.melt(ignore_index=False, var_name="product", value_name="demand").reset_index()
sales["margin"] = sales["product"].map(dict(zip(names, margins, strict=True)))
sales["open"] = sales["demand"] > 0

# %%
# The cost of a missing piece stands in a column; one left over costs 1.
forecaster = stakes.PanelForecaster(
    "newsvendor:underage=@margin,overage=1",
    series=["product"],
    target="demand",
    leads=["1d"],
    lags=["0d", "6d", "13d"],
    windows=["28d"],
    calendar=["weekday"],
    mask="open",
    model="linear",
)
forecaster.fit(sales)
forecaster.evaluation_

# %%
# The dearer a missing piece, the further above its median forecast a product is ordered for the next day.
orders = forecaster.decide(sales, last=True, quantiles=(0.5,))
with stakes.plots.style():
    _, ax = pyplot.subplots()
    margin = orders["product"].map(dict(zip(names, margins, strict=True)))
    size = orders["quantile_0.5"]
    ax.axhline(100, color="black", linewidth=0.8)
    ax.scatter(margin, 100 * orders["action"] / size, s=3 + 40 * size / size.max(), color="C0", alpha=0.6, linewidth=0)
    ax.set(title="The more a missing piece costs, the larger the order")
    ax.set(xlabel="cost of a missing piece (one left over: 1)", ylabel="order (% of the median forecast)")
