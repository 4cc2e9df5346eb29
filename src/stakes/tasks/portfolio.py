"""Many sites, one decision on their sum: the simulated portfolio of wind sites, where the truth is known."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from stakes.errors import SettingError
from stakes.method.actions import optimal_action
from stakes.method.argument_checks import require_count, require_finite, require_positive
from stakes.method.named_costs import ShortfallCost, WindDispatchCost
from stakes.method.power_curve import PowerCurve
from stakes.tasks.many_sites import MANY_WIND_SITES
from stakes.tasks.regions import region_between
from stakes.tasks.simulation import Truth, data_generator, draw_splits
from stakes.tasks.task import PaperSettings, Region, TaskData

__all__ = ["SimulatedPortfolio"]

_FEATURES = 5
_SPLITS = (1500, 1000, 6000)  # training, validation, test
_CASES_AT_ONCE = 100  # members of all sites are many numbers


@dataclass(frozen=True)
class SimulatedPortfolio:
    """Commit the mean power of D wind sites whose hub-height speeds share a common factor.

    y_d = o_d + x W_d + 2 tanh(x_2 x_3) + 1.6 (1.2 + 0.8 sigmoid(2 x_1)) z_d,  x in R^5 standard normal,
    z_d = sqrt(rho) common + sqrt(1 - rho) own, o_d = 9 + N(0, 1), W_d = 0.6 N(0, 1) own + 1.2 N(0, 1) shared.

    Attributes:
        sites: How many sites there are, D.
        correlation: The correlation rho of the sites' errors, 0 to 1.
        penalty: What a missing fraction of capacity, squared, costs against the price of the power.
        sites_seed: The seed that draws the sites themselves, o and W.
        data_seed: The seed that draws the cases.
    """

    name: ClassVar[str] = "simulated_portfolio"
    cost_parameters: ClassVar[tuple[str, ...]] = ("penalty",)
    paper: ClassVar[PaperSettings] = MANY_WIND_SITES

    sites: int = 60
    correlation: float = 0.3
    penalty: float = 20.0
    sites_seed: int = 0
    data_seed: int = 0

    def __post_init__(self) -> None:
        require_count("sites", self.sites)
        require_positive("penalty", self.penalty)
        require_finite("correlation", self.correlation)
        if not 0 <= self.correlation <= 1:
            raise SettingError(f"correlation must lie in [0, 1], got {self.correlation}")
        for name in ("sites_seed", "data_seed"):
            require_count(name, getattr(self, name), least=0)

    @property
    def cost(self) -> WindDispatchCost:
        return WindDispatchCost(self.penalty, PowerCurve(shear=0.0))

    @property
    def regions(self) -> Mapping[str, Region]:
        """By the mean power, as a fraction of capacity."""
        return {"low": region_between(self.mean_power, upper=0.25), "high": region_between(self.mean_power, lower=0.75)}

    def data(self) -> TaskData:
        """1,500, 1,000 and 6,000 cases of the same sites."""
        splits = draw_splits(self.draw, _SPLITS, data_generator(self.name, self.data_seed))
        features = tuple(f"x{place}" for place in range(1, _FEATURES + 1))
        sites = tuple(f"site{place}" for place in range(1, self.sites + 1))
        return TaskData(*splits, feature_names=features, outcome_names=sites, unit="m/s")

    def draw(self, cases: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Features (N, 5) and hub-height wind speeds (N, D)."""
        features = torch.randn(cases, _FEATURES, generator=generator)
        return features, self.draw_outcomes(features, 1, generator)[:, 0]

    def draw_outcomes(self, features: Tensor, members: int, generator: torch.Generator) -> Tensor:
        """Members (N, M, D) of the true conditional distribution."""
        common = torch.randn(len(features), members, 1, generator=generator)
        own = torch.randn(len(features), members, self.sites, generator=generator)
        return self._outcomes(features, common, own)

    def mean_power(self, speeds: Tensor) -> Tensor:
        """The power that the decision is about, as a fraction of capacity: speeds (..., D) to (...)."""
        return self.cost.power_curve(speeds).mean(-1)

    def true_power(self, features: Tensor, members: int = 500) -> Tensor:
        """Members (N, M) of the true mean power, from the same noise for every case and every call.

        The common factor, which makes nearly all of the spread, takes M equally likely values.
        """
        levels = (torch.arange(members) + 0.5) / members
        common = math.sqrt(2) * torch.erfinv(2 * levels - 1)[:, None]
        own = torch.randn(members, self.sites, generator=data_generator(f"truth of {self.name}", 0))
        parts = features.split(_CASES_AT_ONCE)
        return torch.cat([self.mean_power(self._outcomes(part, common, own)) for part in parts])

    def truth(self, features: Tensor, members: int = 500) -> Truth:
        """The best actions and the expected cost of others, by `members` of the true mean power."""
        cost, power = ShortfallCost(self.penalty), self.true_power(features, members)
        in_front = power.T[..., None]  # (M, N, 1)
        return Truth(optimal_action(cost, power[..., None]), lambda action: cost(action, in_front).mean(0))

    def true_action(self, features: Tensor, members: int = 500) -> Tensor:
        """The best actions under the true distribution, (N, 1)."""
        return self.truth(features, members).action

    def regret(self, features: Tensor, action: Tensor, members: int = 500) -> Tensor:
        """Expected cost of actions (N, 1) above that of the best ones, (N,); for several actions keep one `truth`."""
        return self.truth(features, members).regret(action)

    def _outcomes(self, features: Tensor, common: Tensor, own: Tensor) -> Tensor:
        """Speeds (N, M, D) for noise (..., M, 1) and (..., M, D)."""
        parameters = torch.Generator().manual_seed(self.sites_seed)
        offset = 9 + torch.randn(self.sites, generator=parameters)
        slopes = 0.6 * torch.randn(_FEATURES, self.sites, generator=parameters)
        slopes = slopes + 1.2 * torch.randn(_FEATURES, 1, generator=parameters)
        mean = offset + features @ slopes + 2 * torch.tanh(features[:, 1:2] * features[:, 2:3])  # (N, D)
        scale = 1.6 * (1.2 + 0.8 * torch.sigmoid(2 * features[:, :1]))  # (N, 1)
        noise = self.correlation**0.5 * common + (1 - self.correlation) ** 0.5 * own
        return mean[:, None, :] + scale[:, None, :] * noise
