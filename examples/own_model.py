"""
Your own network, your own cost
===============================

Water costs money, a dry crop costs more. A small network of your own forecasts the rain and is trained on that cost.
"""

import torch
from matplotlib import pyplot
from torch import Tensor, nn

import stakes


def irrigation(water: Tensor, rain: Tensor) -> Tensor:
    return water + 0.2 * torch.relu(30 - rain - water) ** 2  # a deficit below 30 mm costs its square


class Forecaster(nn.Module):
    """A straight line and one spread, which is too simple. Any nn.Module that makes members will do."""

    def __init__(self) -> None:
        super().__init__()
        self.mean, self.log_spread = nn.Linear(1, 1), nn.Parameter(torch.zeros(1))

    def forward(self, humidity: Tensor, members: int = 20) -> Tensor:
        noise = torch.special.ndtri((torch.arange(members) + 0.5) / members)[:, None]  # quantiles of a normal
        return 10 * (self.mean(humidity)[:, None] + self.log_spread.exp() * noise)  # (cases, members, 1), in mm


torch.manual_seed(0)
climate = torch.distributions.Gamma
humidity, new = torch.rand(2000, 1), torch.linspace(0, 1, 300)[:, None]
rain, new_rain = (climate(1 + 25 * each**3, 0.2).sample() for each in (humidity, new))  # in mm, and no straight line

# %%
# The same network twice: trained with a proper score alone, and with the cost of the decisions beside it.
cost = stakes.cost_function(irrigation, lower=0.0, upper=30.0, convex=True)
given = {"best possible": stakes.optimal_action(cost, climate(1 + 25 * new**3, 0.2).sample((400,)).swapaxes(0, 1))}
for name, weight in {"forecast score alone": 0.0, "score and cost": 0.9}.items():
    model = Forecaster()
    objective = stakes.DecisionAwareObjective(stakes.EnergyScore(), stakes.DecisionScore(cost), decision_weight=weight)
    loss, optimiser = stakes.DecisionAwareLoss(objective), torch.optim.Adam(model.parameters(), lr=0.05)
    loss.estimate_scales(model(humidity), rain)
    for rows in torch.randint(len(rain), (200, 500)):
        optimiser.zero_grad()
        loss(model(humidity[rows]), rain[rows]).backward()
        optimiser.step()
    given[name] = stakes.optimal_action(cost, model(new, members=400)).detach()
print({name: round(cost(water, new_rain).mean().item(), 2) for name, water in given.items()})

# %%
# A straight line cannot be right everywhere. Trained with the cost it is nearly right where watering is decided.
with stakes.plots.style():
    _, ax = pyplot.subplots()
    for (name, water), look in zip(given.items(), (":k", "-C0", "-C1"), strict=True):
        ax.plot(100 * new, water, look, label=name)
    ax.legend()
    ax.set(title="A network trained with the cost waters better", xlabel="humidity (%)", ylabel="water given (mm)")
