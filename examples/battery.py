"""
A battery against uncertain prices
==================================

A battery buys energy when it is cheap and sells it when it is expensive. Its forecast of
tomorrow's prices has 100 members.
"""

import numpy as np
import torch
from matplotlib import pyplot

import stakes

random = np.random.default_rng(0)
hours = np.arange(24)
shape = 60 + 35 * np.exp(-(((hours - 8) / 1.8) ** 2)) + 60 * np.exp(-(((hours - 19) / 2.0) ** 2))
shape -= 40 * np.exp(-(((hours - 13) / 2.5) ** 2))  # the sun at noon
members = shape * random.lognormal(0, 0.15, size=(100, 1)) + random.normal(0, 8, size=(100, 24))

# %%
# 10 MW and 40 MWh; charging loses a tenth of the energy. One plan covers all 24 hours.
battery = stakes.ArbitrageCost(power=10.0, energy=40.0, efficiency=0.9, quadratic=0.5)
solution = stakes.solve_action(battery, torch.tensor(members))
charge, discharge = solution.action.reshape(2, 24).numpy()
print(f"expected profit {-solution.expected_cost:.0f} EUR")

# %%
# The forecast prices above, the plan below.
with stakes.plots.style():
    _, (above, below) = pyplot.subplots(2, 1, sharex=True, figsize=(3.75, 3.4))
    stakes.plots.plot_schedule(None, members, ax=above)
    above.set(title="Buy when power is cheap, sell when it is expensive", ylabel="price (EUR/MWh)")
    stakes.plots.plot_schedule({"sell": discharge, "buy": -charge}, names=[f"{hour}:00" for hour in hours], ax=below)
    below.axhline(0, color="black", linewidth=0.8)
    below.set(ylabel="power (MW)", xlabel="hour of tomorrow")
    below.legend(loc="upper left")
