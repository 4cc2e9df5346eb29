"""
How many loaves to bake
=======================

A missing loaf costs a bakery 4, one left over costs 1. The Saturdays of the last year are the forecast of the next one.
"""

import pandas as pd
import torch

import stakes

record = stakes.load_record("demand_bakery").select("demand_40_101")  # the first product of a real shop
sold = pd.Series(record.values[:, 0], pd.DatetimeIndex(record.times))
members = sold[(sold.index.day_name() == "Saturday") & (sold > 0)].tail(52).to_numpy()

# %%
# The best order lies above the mean, since a missing loaf costs more than an unsold one. A solution says whether it is
# certified: no other order is then expected to cost less.
cost = stakes.NewsvendorCost(underage=4.0, overage=1.0, lower=0.0, upper=2000.0)
solution = stakes.solve_action(cost, torch.tensor(members)[:, None])
solution

# %%
# The curve is what every order is expected to cost. Below it stands the forecast.
mean = members.mean()
with stakes.plots.style():
    ax = stakes.plots.plot_decision(cost, members, unit="EUR", action_unit="loaves")
    ax.axvline(mean, ymax=0.88, color="black", linestyle=":", linewidth=0.9)
    ax.annotate(f"mean\n{mean:.0f}", (mean, 0.7), (4, 0), ("data", "axes fraction"), "offset points")
    ax.set(title="Bake more than you expect to sell", xlabel="loaves baked", ylabel="expected cost (EUR)")
