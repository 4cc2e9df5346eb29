"""
An overconfident ensemble
==========================

A weather ensemble is often biased and too narrow. Its past errors correct it before anything is decided.
"""

import numpy as np

import stakes

random = np.random.default_rng(0)
known, unsure = random.normal(0, 5, size=(2000, 1)), random.uniform(0.5, 3, size=(2000, 1))
members = known + 1 + 0.5 * unsure * random.normal(size=(2000, 30))  # too warm, and half as wide as it should be
outcomes = (known + unsure * random.normal(size=(2000, 1)))[:, 0]

# %%
# The decision is how much to heat. A degree too cold costs 9, one too warm 1.
cost = stakes.NewsvendorCost(underage=9.0, overage=1.0, lower=-30.0, upper=30.0)
recalibrator = stakes.Recalibrator(cost, decision_weights=(), test_fraction=0.5).fit(members, outcomes)
recalibrator.selection_

# %%
# On the 1,000 test cases, decisions from the raw ensemble cost more than twice what it announced.
judged = recalibrator.judged_
sides = {
    name: (judged.values("expected_cost", version), judged.values("cost", version))
    for name, version in (("raw", "raw"), ("recalibrated", "corrected"))
}
with stakes.plots.style():
    ax = stakes.plots.plot_reliability(sides, bins=6, colours=("orange", "blue"))
    ax.set_title("Recalibrated decisions cost what was announced")
