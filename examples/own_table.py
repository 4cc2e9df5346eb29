"""Your own table: a cost and past data to recommended actions, by scikit-learn's conventions; no PyTorch needed."""

import numpy as np
import pandas as pd

import stakes

# Past data: yesterday's sales, the temperature forecast and whether it is a weekend; the rows are in the order of time.
random = np.random.default_rng(0)
days = 600
table = pd.DataFrame(
    {
        "temperature": 15 + 8 * np.sin(np.arange(days) * 2 * np.pi / 365) + random.normal(size=days),
        "weekend": (np.arange(days) % 7 >= 5).astype(float),
    }
)
mean = 40 + 2 * table["temperature"] + 20 * table["weekend"]
sales = pd.Series(random.gamma(8.0, mean / 8.0), name="sales")  # the more is sold, the less certain it is

# The decision: how many to bake. One too few costs 4, one too many costs 1; between 0 and 400.
cost = stakes.NewsvendorCost(underage=4.0, overage=1.0, lower=0.0, upper=400.0)

past, coming = slice(None, 500), slice(500, None)
forecaster = stakes.DecisionAwareForecaster(cost, weights=(0.0, 0.3, 0.6), epochs=30, random_state=0)
forecaster.fit(table[past], sales[past])

assert forecaster.frontier_ is not None
print(forecaster.frontier_.reason)
decisions = pd.DataFrame(
    {
        "bake": forecaster.decide(table[coming]),
        "expected cost": forecaster.expected_cost(table[coming]),
        "sold": sales[coming],
    }
)
print(decisions.head().round(1))
print(forecaster.evaluate(table[coming], sales[coming])[["value", "low", "high"]].round(2))
