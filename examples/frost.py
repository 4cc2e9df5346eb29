"""
When to protect an orchard from frost
=====================================

Protecting a night costs a fifth of what a frost destroys. Past nights and their weather are all that is known.
"""

import pandas as pd
from matplotlib import pyplot

import stakes

record = stakes.load_record("frost_era5").select("t2m", "sp", "u100", "v100")
table = pd.DataFrame(record.values, pd.DatetimeIndex(record.times), record.columns)
known = table[table.index.hour == 12]  # at noon, in February, March and April
coldest = table["t2m"].rolling(3).min().shift(-3)[known.index]  # of the 18 hours after it
season = known.index.month.isin([2, 3, 4]) & coldest.notna()
known, coldest = known[season], coldest[season]

# %%
# A forecaster learns from a table of features and outcomes, by the conventions of scikit-learn, and decides.
cost = stakes.ProtectionCost(threshold=0.0, false_alarm_ratio=0.2, hazard="below", sharpness=2.0)
past, test = known.index.year < 2016, known.index.year >= 2016
forecaster = stakes.DecisionAwareForecaster(cost, model="linear", random_state=0).fit(known[past], coldest[past])
protected = forecaster.decide(known[test])
worth = forecaster.evaluate(known[test], coldest[test])["value"]
print(f"by the forecast {worth['cost']:.3f}, the best fixed protection {worth['climatology_cost']:.3f} a night")

# %%
# Every dot is one of the last 446 nights: what was decided at noon, and how cold it then became.
with stakes.plots.style():
    _, ax = pyplot.subplots()
    ax.axvspan(coldest[test].min() - 1, 0, color="C0", alpha=0.12, linewidth=0)
    ax.scatter(coldest[test], 100 * protected, s=7, color="C1", alpha=0.6, linewidth=0)
    for place, words in {(-3.0, 50): "frost", (9.0, 50): "no frost"}.items():
        ax.text(*place, words, ha="center", fontsize="large", color="0.4")
    ax.set(xlim=(coldest[test].min() - 1, 15), title="Protect when frost is likely, not every night")
    ax.set(xlabel="coldest temperature of the night (°C)", ylabel="protection decided at noon (%)")
