"""A program of your own: how much of three products to bake in the hours of one oven, from a record to a verdict."""

import numpy as np
import pandas as pd
import torch
from sklearn.linear_model import RidgeCV

import stakes
from stakes import load_record

# Demand of all shops in hundreds, and what is known of a day: promotions, holidays, weather, weekday, demand before.
record = load_record("demand_bakery")
table = pd.DataFrame(record.values, columns=record.columns, index=pd.DatetimeIndex(record.times))
demand = pd.DataFrame({code: table.filter(regex=f"demand_.*_{code}").sum(axis=1) / 100 for code in (101, 109, 110)})
known = table.filter(regex="promotion|is_holiday|rain_2$|temperature_2$")
known = known.join(pd.DataFrame(np.eye(7)[table.index.day_of_week], table.index).add_prefix("weekday_"))
for days in (7, 14):
    known = known.join(demand.shift(days).add_suffix(f"_{days}_days_before"))
known = known[(demand > 0).all(axis=1)].dropna()
outcome = torch.tensor(demand.loc[known.index].to_numpy())

# A hundred cost 20 to bake, and 80 where they are missing. The oven has a shift of 13 hours, and overtime at a price.
bakery = stakes.Program(
    decide={"baked": stakes.Quantity(cost=20), "overtime": stakes.Quantity(cost=150, upper=4, each=False)},
    recourse={"missing": stakes.Quantity(cost=80)},
    recourse_constraints={"demand": "baked + missing >= outcome"},
    limits={"oven": "sum(baked / rate) <= shift + overtime"},
    numbers={"rate": [12, 4, 6], "shift": 13},
)
print(bakery)

# A regression on the first years; its errors on the 240 days after them are fresh; the last 240 days are the test.
first, fresh, test = slice(None, -480), slice(-480, -240, 4), slice(-240, None)
mean = torch.tensor(RidgeCV(np.logspace(-2, 3, 11)).fit(known[first], outcome[first]).predict(known))[:, None]
errors = outcome - mean[:, 0]


def trained(decision_weight: float) -> torch.Tensor:
    """Members of the test days: the recent errors, moved and stretched by six numbers, trained through the program."""
    change = torch.zeros(2, 3, dtype=torch.float64, requires_grad=True)
    objective = stakes.DecisionAwareObjective(stakes.EnergyScore(), stakes.DecisionScore(bakery), decision_weight)
    loss, optimiser = stakes.DecisionAwareLoss(objective), torch.optim.Adam([change], lr=0.02)
    loss.estimate_scales(mean[fresh] + errors[fresh][::2], outcome[fresh])
    for _ in range(12):
        optimiser.zero_grad()
        loss(mean[fresh] * (1 + change[0]) + errors[fresh][::2] * change[1].exp(), outcome[fresh]).backward()
        optimiser.step()
    return (mean[test] * (1 + change[0]) + errors[fresh][::2] * change[1].exp()).detach()


plans = {"the mean": mean[test], "regression, its errors": mean[test] + errors[first][::20]}
plans |= {"regression, recent errors": mean[test] + errors[fresh][::2]}
plans |= {"... trained on the score": trained(0.0), "... and on the decision": trained(0.5)}
costs = {name: bakery(stakes.optimal_action(bakery, each), outcome[test]) for name, each in plans.items()}
for name, cost in costs.items():
    more = (cost - costs["... and on the decision"]).reshape(-1, 8).mean(1)  # in blocks of eight days
    error = 2 * more.std() / len(more) ** 0.5
    print(f"{name:25}{cost.mean():6.0f} a day, {more.mean():4.0f} +- {error:.0f} more than the last")
