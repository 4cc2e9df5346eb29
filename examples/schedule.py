"""
A power plant's day, hour by hour
=================================

Tomorrow's demand is uncertain, a missing MWh is expensive, and the plant ramps by at most 25 MW an hour.
"""

import numpy as np
import torch

import stakes

random = np.random.default_rng(0)
hours = np.arange(24)
shape = 260 + 90 * np.exp(-(((hours - 8) / 2.2) ** 2)) + 130 * np.exp(-(((hours - 19) / 2.5) ** 2))
late = random.normal(0, 0.8, size=(100, 1))  # how late the peaks are, which all hours of a member share
drift = random.normal(0, 4, size=(100, 24)).cumsum(axis=1)
members = np.stack([np.interp(hours - shift[0], hours, shape) for shift in late]) + drift

# %%
# Without a ramp limit the best plan is a quantile of each hour's demand. The limit couples the hours: the plan
# rises early.
cost = stakes.ScheduleCost(short=50.0, long=20.0, ramp=25.0)
solution = stakes.solve_action(cost, torch.tensor(members))
prices = stakes.limit_prices(cost, torch.tensor(members))
binding = [parts for parts, binds in zip(prices.parts, prices.binds, strict=True) if binds]
print(f"expected cost {solution.expected_cost:.0f} EUR, certified: {bool(solution.certified)}")
print(f"one MW more of ramp would save up to {prices.price.max():.0f} EUR")

# %%
# Violet bars mark the hours in which the ramp binds: power rises before the peak, and falls after it.
names = [f"{hour}:00" for hour in hours]
with stakes.plots.style():
    ax = stakes.plots.plot_schedule({"plan": solution.action}, members, names=names, limits=binding, unit="MW")
    ax.set(title="A slow plant must climb before the peak", ylabel="demand and plan (MW)")
