"""The paper's synthetic task: two modes whose weight swings with x, and a hazard behind a threshold between them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from reproduction.tasks.task import (
    LITERAL_DIFFUSION,
    PaperSettings,
    TaskData,
    Truth,
    data_generator,
    draw_splits,
    only_outcome,
    region_between,
)
from stakes.argument_checks import require_count, require_positive
from stakes.costs.scalar_costs import ProtectionCost
from stakes.evaluation.metrics import Region
from stakes.training.settings import TrainingSettings

_MEANS = (0.0, 2.5)
_DEVIATIONS = (0.2, 0.4)
_WEIGHT, _SWING = 0.4, 0.38
_THRESHOLD = 1.0
_SPLITS = (1600, 200, 400)  # training, validation, test
_QUADRATURE = 4001  # equally likely points of each mode, for expectations under the truth


@dataclass(frozen=True)
class SyntheticTask:
    """x uniform on [0, 1]; y from N(0, 0.2) or, with probability w(x) = 0.4 + 0.38 sin(2 pi frequency x), N(2.5, 0.4).

    w and x are not printed in the paper; this is a reconstruction (at frequency 3 plain CRPS training fails at the
    transitions, as the paper describes). The second numbers of the modes are standard deviations.
    """

    name: ClassVar[str] = "synthetic"
    cost_parameters: ClassVar[tuple[str, ...]] = ("false_alarm_ratio",)
    paper: ClassVar[PaperSettings] = PaperSettings(
        models=(LITERAL_DIFFUSION,),
        training=TrainingSettings(batch=200),
        grid={
            "decision_weight": (*(tenth / 10 for tenth in range(10)), 0.95),
            "seed": (0, 1, 2),
            "task.data_seed": (0, 1, 2),
        },
        test_members=200,
    )

    frequency: float = 3.0  # how often w(x) swings between x = 0 and 1
    false_alarm_ratio: float = 0.5
    data_seed: int = 0  # the seed that draws the cases

    def __post_init__(self) -> None:
        require_positive("frequency", self.frequency)
        require_positive("false_alarm_ratio", self.false_alarm_ratio)
        require_count("data_seed", self.data_seed, least=0)

    @property
    def cost(self) -> ProtectionCost:
        return ProtectionCost(_THRESHOLD, self.false_alarm_ratio, sharpness=10.0)

    @property
    def regions(self) -> Mapping[str, Region]:
        """Beyond the threshold lies the second mode, before it the first."""
        return {
            "hazard": region_between(only_outcome, lower=_THRESHOLD),
            "calm": region_between(only_outcome, upper=_THRESHOLD),
        }

    @property
    def marginal_mode_mass(self) -> float:
        """The mean of w(x) over x, 0.4 + 0.38 (1 - cos(2 pi frequency)) / (2 pi frequency): 0.4 for whole numbers."""
        turn = 2 * math.pi * self.frequency
        return _WEIGHT + _SWING * (1 - math.cos(turn)) / turn

    def data(self) -> TaskData:
        """1,600, 200 and 400 cases; another `data_seed`, others."""
        splits = draw_splits(self.draw, _SPLITS, data_generator(self.name, self.data_seed))
        return TaskData(*splits, feature_names=("x",), outcome_names=("y",), unit="")

    def mode_weight(self, features: Tensor) -> Tensor:
        """w(x), the probability of the second mode: (..., 1) to (...)."""
        return _WEIGHT + _SWING * torch.sin(2 * math.pi * self.frequency * features[..., 0])

    def draw(self, cases: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Features (N, 1) and outcomes (N, 1)."""
        features = torch.rand(cases, 1, generator=generator)
        return features, self.draw_outcomes(features, 1, generator)[:, 0]

    def draw_outcomes(self, features: Tensor, members: int, generator: torch.Generator) -> Tensor:
        """Members (N, M, 1) of the true conditional distribution."""
        shape = (len(features), members)
        mode = (torch.rand(shape, generator=generator) < self.mode_weight(features)[:, None]).long()
        noise = torch.randn(shape, generator=generator)
        return (torch.tensor(_MEANS)[mode] + torch.tensor(_DEVIATIONS)[mode] * noise)[..., None]

    def log_density(self, features: Tensor, outcome: Tensor) -> Tensor:
        """The logarithm of p(y | x) for outcomes (..., 1) and features (..., 1), which broadcast: (...)."""
        weight = self.mode_weight(features)
        modes = zip((1 - weight, weight), _MEANS, _DEVIATIONS, strict=True)
        first, second = (
            share.log() - 0.5 * ((outcome[..., 0] - mean) / deviation) ** 2 - math.log(deviation * math.sqrt(math.tau))
            for share, mean, deviation in modes
        )
        return torch.logaddexp(first, second)

    def truth(self, features: Tensor) -> Truth:
        """With m the mean severity at x, E c(a, y) = m (1 - a)^2 + alpha (1 - m) a."""
        weight = self.mode_weight(features)
        severity = (1 - weight) * self._mode_severity(0) + weight * self._mode_severity(1)
        alpha = self.false_alarm_ratio

        def expected_cost(action: Tensor) -> Tensor:
            level = action.squeeze(-1)
            return severity * (1 - level) ** 2 + alpha * (1 - severity) * level

        return Truth((1 + alpha / 2 - alpha / 2 / severity).clamp(0, 1)[:, None], expected_cost)

    def true_action(self, features: Tensor) -> Tensor:
        """a*(x) under the true distribution, (N, 1)."""
        return self.truth(features).action

    def regret(self, features: Tensor, action: Tensor) -> Tensor:
        """Expected cost of actions (N, 1) above that of the best ones, (N,)."""
        return self.truth(features).regret(action)

    def _mode_severity(self, mode: int) -> Tensor:
        levels = (torch.arange(_QUADRATURE, dtype=torch.float64) + 0.5) / _QUADRATURE
        points = _MEANS[mode] + _DEVIATIONS[mode] * math.sqrt(2) * torch.erfinv(2 * levels - 1)
        return self.cost.severity(points[:, None]).mean().to(torch.get_default_dtype())
