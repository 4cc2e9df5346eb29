"""
What a forecast is worth, for every price
=========================================

Is tomorrow's wind forecast worth more than that of three days ahead? It depends on what missing power costs.
"""

import numpy as np

import stakes

record = stakes.load_record("wind_irish").in_metres_per_second()
speed = record.values[:, record.columns.index("VAL")]  # daily wind at Valentia Island, 1961 to 1978
past, now = speed[:3650], speed[3650:]


def analogs(days_ahead: int) -> np.ndarray:
    """What followed the 50 past days most like today."""
    near = np.abs(now[:, None] - past[:-3]).argsort(axis=1)[:, :50]
    return past[near + days_ahead]


# %%
# A wind farm commits power beforehand and pays the penalty times the square of what is missing. Both forecasts are
# judged by the decisions that they lead to on the same 2,921 days, at 50 penalties.
forecasts = {"tomorrow": analogs(1)[2:-1], "in 3 days": analogs(3)[:-3]}
cost = stakes.WindDispatchCost(stakes.ParameterRange(1, 50))
curve = stakes.value_curve(forecasts, now[3:], cost)
print(curve.sentence)

# %%
# Value 1 is perfect foresight, 0 the best fixed commitment. Bands are 95 %, at all penalties at once.
with stakes.plots.style():
    ax = stakes.plots.plot_value(curve)
    ax.set(title="What a wind forecast is worth to a farm", xlabel="penalty for missing power")
    ax.set_ylabel("value (0 no forecast, 1 perfect)")
