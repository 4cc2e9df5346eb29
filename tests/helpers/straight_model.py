"""A small model of the user's own: a straight line with Gaussian noise of one width, whatever the features."""

import torch
from torch import nn

from stakes.models.sample_model import Scaling, TrainingDraw


class StraightModel(nn.Module):
    def __init__(self, features: int, outcomes: int) -> None:
        super().__init__()
        self.line = nn.Linear(features, outcomes)
        self.width = nn.Parameter(torch.zeros(outcomes))
        self.features, self.outcomes = Scaling(features), Scaling(outcomes)

    def forward(self, features, noise):
        return self.line(self.features.standardise(features))[..., None, :] + self.width.exp() * noise

    def fit_scaling(self, features, outcome):
        self.features.fit(features)
        self.outcomes.fit(outcome)

    def draw_noise(self, cases, members, generator=None):
        return {"members": torch.randn(cases, members, len(self.width), generator=generator)}

    def training_draw(self, features, outcome, noise):
        drawn = self(features, noise["members"])
        return TrainingDraw(drawn, self.outcomes.standardise(outcome), self.outcomes.restore(drawn), outcome)

    @torch.no_grad()
    def sample(self, features, members, generator=None, *, share_noise=False):
        noise = self.draw_noise(1 if share_noise else len(features), members, generator)["members"]
        return self.outcomes.restore(self(features, noise.expand(len(features), -1, -1)))
