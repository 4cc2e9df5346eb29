"""
How much wind power to promise
==============================

Power that is promised earns 1, power that is then missing costs the penalty times its square. How much to promise?
"""

import numpy as np
import torch

import stakes

record = stakes.load_record("wind_north_sea").select("ws_hub")  # every three hours, 1980 to 2023
speed = record.values[:, 0]
power = stakes.PowerCurve(shear=0.0)(torch.tensor(speed)).numpy()  # a share of the capacity
now = len(speed) - 417  # a day in spring

# %%
# The forecast of the next 48 hours: what followed the 60 past times at which the last 9 hours were most like now.
last_hours = np.lib.stride_tricks.sliding_window_view(speed[: now - 16], 4)
alike = np.abs(last_hours - speed[now - 3 : now + 1]).max(axis=1).argsort()[:60]
members = power[alike[:, None] + 4 + np.arange(16)]

# %%
# A contract for every three hours. The more missing power costs, the more careful the promise.
promised = {}
for name, penalty in {"promise, cheap": 5.0, "promise, expensive": 20.0}.items():
    solution = stakes.solve_action(stakes.ShortfallCost(penalty), torch.tensor(members).T[..., None])
    promised[name] = 100 * solution.action[:, 0]

# %%
# Blue is the forecast, from its 5 to its 95 % quantile and its middle half. The dots are what the wind then did.
names = [f"{hour} h" for hour in range(3, 49, 3)]
with stakes.plots.style():
    ax = stakes.plots.plot_schedule(promised, 100 * members, 100 * power[now + 1 : now + 17], names=names)
    ax.set(title="Promise less wind power where a shortfall is expensive", ylabel="power (% of capacity)")
    ax.set_xlabel("hours ahead")
