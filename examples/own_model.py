"""Your own model: any nn.Module that emits members, trained with one more loss; a loss module for any framework."""

import torch
from torch import Tensor, nn

import stakes


class Forecaster(nn.Module):
    """Ten members of tomorrow's temperature from today's, as a mean and a spread."""

    def __init__(self, members: int = 10) -> None:
        super().__init__()
        self.members = members
        self.network = nn.Sequential(nn.Linear(1, 32), nn.ReLU(), nn.Linear(32, 2))

    def forward(self, today: Tensor) -> Tensor:
        mean, log_spread = self.network(today)[:, None].split(1, -1)
        noise = torch.randn(len(today), self.members, 1)
        return mean + log_spread.exp() * noise  # (cases, members, 1)


class DecisionAwareLoss(nn.Module):
    """The objective as a plain loss module, e.g. for a LightningModule's training_step."""

    def __init__(self, objective: stakes.DecisionAwareObjective) -> None:
        super().__init__()
        self.objective = objective

    def forward(self, samples: Tensor, outcome: Tensor) -> Tensor:
        return self.objective.from_samples(samples, outcome).mean().total


torch.manual_seed(0)
today = 4 * torch.randn(2000, 1)
tomorrow = 0.8 * today + 2 * torch.randn(2000, 1)
frost = stakes.ProtectionCost(threshold=0.0, false_alarm_ratio=0.3, hazard="below", sharpness=2.0)
model = Forecaster()
objective = stakes.DecisionAwareObjective(stakes.EnergyScore(), stakes.DecisionScore(frost), decision_weight=0.3)
loss = DecisionAwareLoss(objective.estimate_scales(stakes.TrainingDraw.from_samples(model(today), tomorrow)))
optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(10):
    for rows in torch.randperm(len(today)).split(200):
        value = loss(model(today[rows]), tomorrow[rows])
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
    print(f"epoch {epoch}: loss {value.item():.3f}")

model.members = 500
with torch.no_grad():
    action = stakes.optimal_action(frost, model(torch.tensor([[-3.0], [0.0], [3.0], [8.0]])))
print("protection at -3, 0, 3 and 8 degC today:", [round(level, 2) for level in action[:, 0].tolist()])
