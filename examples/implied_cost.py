"""
What past orders say a missing loaf costs
=========================================

Nobody wrote down what a missing loaf costs, but past orders reveal it.
"""

import numpy as np
from matplotlib import pyplot

import stakes

random = np.random.default_rng(0)
known = random.uniform(60, 120, size=1000)  # what every baker knew of the next day
sold = known + 12 * random.normal(size=1000)
orders = {"Anna": known + 14, "Ben": known + 3, "Chris": known - 8}  # who likes full shelves, and who hates waste

# %%
# The unknown price is a range. One loaf too many costs 1.
cost = stakes.NewsvendorCost(stakes.ParameterRange(0.05, 100), 1.0, lower=0.0, upper=500.0)
implied = {name: stakes.implied_cost(ordered, sold, cost) for name, ordered in orders.items()}
for name, each in implied.items():
    print(f"{name}: {each.sentence}")

# %%
# The bars are 95 % intervals from 1,000 days.
with stakes.plots.style():
    _, ax = pyplot.subplots()
    ax.axvline(1, color="black", linewidth=0.8)
    for place, each in enumerate(implied.values()):
        ax.plot([each.low, each.high], [place, place], color="C0", linewidth=6, alpha=0.4)
        ax.plot(each.value, place, "oC0", markersize=7)
        words = f"{each.value:.1f} times one left over"
        look = {"ha": "center", "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 1}}
        ax.annotate(words, (each.value, place), (0, 9), textcoords="offset points", **look)
    ax.set(xscale="log", xlim=(0.1, 30), ylim=(2.6, -0.6), title="What is a missing loaf worth to each baker?")
    ax.set_xticks([0.1, 0.3, 1, 3, 10, 30], ["0.1", "0.3", "1", "3", "10", "30"])
    ax.set_yticks([0, 1, 2], list(implied))
    ax.set_xlabel("price of a missing loaf, where one left over costs 1")
