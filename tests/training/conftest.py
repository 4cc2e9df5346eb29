"""Small cases, models and replicas for the tests of training, as functions that make them."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pytest
import torch
from observed_training import epochs_seen  # noqa: F401  a fixture
from small_checkpoints import folder  # noqa: F401  a fixture
from torch import Tensor, nn

from stakes import DiffusionModel, ImplicitModel, LinearModel, ParameterRange, ShortfallCost, TrainingDraw
from stakes.costs.cost import ParameterColumn
from stakes.data.case_table import CaseTable
from stakes.training.replicas import Replica

FEATURES = 2
COST = ShortfallCost(3.0)
RANGED = ShortfallCost(ParameterRange(1, 50))


class OwnModel(nn.Module):
    """A model as a user may write it: y_m = x w + shift + exp(log_spread) noise_m, without scaling or hidden layers."""

    def __init__(self, features: int, outcomes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features, outcomes) / 4)
        self.shift = nn.Parameter(torch.rand(outcomes))
        self.log_spread = nn.Parameter(torch.tensor(-1.0))

    def fit_scaling(self, features: Tensor, outcome: Tensor) -> None:
        pass

    def draw_noise(self, cases: int, members: int, generator: torch.Generator | None = None) -> Mapping[str, Tensor]:
        like = self.shift
        shape = (cases, members, len(like))
        return {"noise": torch.randn(shape, generator=generator, device=like.device, dtype=like.dtype)}

    def training_draw(self, features: Tensor, outcome: Tensor, noise: Mapping[str, Tensor]) -> TrainingDraw:
        return TrainingDraw.from_samples(self._members(features, noise["noise"]), outcome)

    @torch.no_grad()
    def sample(
        self, features: Tensor, members: int, generator: torch.Generator | None = None, *, share_noise: bool = False
    ) -> Tensor:
        cases = 1 if share_noise else len(features)
        return self._members(features, self.draw_noise(cases, members, generator)["noise"])

    def _members(self, features: Tensor, noise: Tensor) -> Tensor:
        return (features @ self.weight + self.shift)[..., None, :] + self.log_spread.exp() * noise


MODELS: dict[str, Callable[..., Any]] = {
    "implicit": lambda outcomes, **settings: ImplicitModel(FEATURES, outcomes, **{"noise": 3, "hidden": 6} | settings),
    "linear start": lambda outcomes, **settings: ImplicitModel(
        FEATURES, outcomes, **{"noise": 3, "hidden": 6, "linear": True, "gap": 1} | settings
    ),
    "linear": lambda outcomes: LinearModel(FEATURES, outcomes, residuals=40, gap=1),
    "diffusion": lambda outcomes, **settings: DiffusionModel(
        FEATURES, outcomes, **{"noise": 3, "hidden": 6, "steps": 30} | settings
    ),
    "own": lambda outcomes: OwnModel(FEATURES, outcomes),
}


@cache
def cases(count: int = 48, seed: int = 0, outcomes: int = 1, scale: float = 1.0) -> CaseTable:
    """Outcomes between 0 and `scale`; the same object for the same arguments, as replicas of one task have it."""
    generator = torch.Generator().manual_seed(seed)  # of a type of their own: a test that comes first may set another
    features = torch.rand(count, FEATURES, generator=generator, dtype=torch.float32)
    noise = torch.rand(count, outcomes, generator=generator, dtype=torch.float32)
    return CaseTable(features, scale * (0.3 * features.sum(1, keepdim=True) + 0.4 * noise))


def model(kind: str = "implicit", outcomes: int = 1, initial: int = 0, **settings: Any) -> Any:
    """A fresh model, its weights drawn from the seed `initial`."""
    if kind not in ("own", "linear"):
        settings = {"layers": 2} | settings
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(initial)  # that of other devices would note where it was called from
        return MODELS[kind](outcomes, **settings)


def replica(
    kind: str | nn.Module = "implicit",
    *,
    cost: Any = COST,
    weight: float = 0.4,
    seed: int = 0,
    train: CaseTable | None = None,
    validation: CaseTable | None = None,
    outcomes: int = 1,
    dtype: torch.dtype = torch.float32,
    name: str = "model",
    **settings: Any,
) -> Replica:
    """A replica with a model of its own, as `reproduction.runs.settings.prepare` makes it; any part may be given."""
    train = train or cases(outcomes=outcomes)
    validation = validation or cases(24, 1, outcomes)
    if isinstance(kind, str):
        kind = model(kind, train.outcome.shape[1], **{"initial": seed} | settings).to(dtype)
        kind.fit_scaling(train.features, train.outcome)
    return Replica(kind, train, validation, cost, weight, seed, name)


def ranged_replica(conditioned: bool = True, seed: int = 0, weight: float = 0.4, cost: Any = RANGED) -> Replica:
    """A replica for a range of decision makers, which its model sees or not."""

    def with_column(table: CaseTable) -> CaseTable:
        values = ParameterColumn.of(RANGED).spread(len(table)).float()
        return CaseTable(torch.cat([table.features, values], 1), table.outcome)

    train, validation = with_column(cases()), with_column(cases(24, 1))
    features = ParameterColumn.of(cost, conditioned).unmoved(train.features)
    torch.manual_seed(seed)
    model = ImplicitModel(features.shape[1], 1, noise=3, hidden=6, layers=2)
    model.fit_scaling(features, train.outcome)
    return Replica(model, train, validation, cost, weight, seed, conditioned=conditioned)


@pytest.fixture(scope="session")
def make_cases() -> Callable[..., CaseTable]:
    return cases


@pytest.fixture(scope="session")
def make_model() -> Callable[..., Any]:
    return model


@pytest.fixture(scope="session")
def make_replica() -> Callable[..., Replica]:
    return replica


@pytest.fixture(scope="session")
def make_ranged() -> Callable[..., Replica]:
    return ranged_replica
