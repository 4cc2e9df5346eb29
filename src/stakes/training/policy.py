"""The direct policy: a network from features to an action, trained on the realised cost without any forecast."""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from stakes.argument_checks import require_count, require_positive
from stakes.costs.cost import Cost, Parameter, require_cost, vector_cost
from stakes.data.case_table import CaseTable
from stakes.errors import CostError, NonFiniteError, ShapeError
from stakes.models.networks import Perceptron
from stakes.models.sample_model import Scaling
from stakes.training.steps import Adam


@dataclass(frozen=True)
class PolicySettings:
    """How a policy is trained; the defaults are those of the models that forecast."""

    hidden: int = 50  # the width of each hidden layer
    layers: int = 5  # the number of hidden layers
    epochs: int = 2000  # how many at most; an epoch is the full batches of a fresh shuffle, followed by a validation
    batch: int = 256  # cases in a batch
    learning_rate: float = 1e-3  # the step size of Adam
    patience: int = 600  # the epochs without a lower validation cost after which training stops

    def __post_init__(self) -> None:
        for name in ("hidden", "layers", "epochs", "batch", "patience"):
            require_count(name, getattr(self, name))
        require_positive("learning_rate", self.learning_rate)


class Policy(nn.Module):
    """a(x) = lower + (upper - lower) sigmoid(f(x)), features (N, F) to actions (N, 1)."""

    def __init__(self, features: int, lower: float, upper: float, hidden: int, layers: int) -> None:
        super().__init__()
        self.lower, self.upper = lower, upper
        self.feature_scaling = Scaling(features)
        self.network = Perceptron(features, 1, hidden, layers)

    def forward(self, features: Tensor) -> Tensor:
        share = torch.sigmoid(self.network(self.feature_scaling.standardise(features)))
        return self.lower + (self.upper - self.lower) * share


def train_policy(
    cost: Cost,
    train: CaseTable,
    validation: CaseTable,
    settings: PolicySettings,
    seed: int = 0,
    device: str | torch.device = "cpu",
    progressed: Callable[[int, int], None] | None = None,
) -> Policy:
    """Minimise the mean cost of the training cases with Adam; the policy of the lowest validation cost, on the CPU.

    >>> import torch, stakes
    >>> cases = CaseTable(torch.rand(64, 2), torch.rand(64, 3))
    >>> policy = train_policy(stakes.ShortfallCost(5.0), cases, cases, PolicySettings(epochs=2))
    >>> policy(cases.features).shape
    torch.Size([64, 1])
    """
    require_one_action(cost)
    require_count("seed", seed, least=0)
    if train.features.shape[1] != validation.features.shape[1]:
        widths = f"{train.features.shape[1]} and {validation.features.shape[1]}"
        raise ShapeError(f"training and validation cases must have the same features, got {widths} of them")
    train, validation = (_moved(cases, device, train.features.dtype) for cases in (train, validation))
    policy = _fresh_policy(cost, train.features, settings, seed)
    parameters = list(policy.parameters())
    optimiser = Adam(parameters, settings.learning_rate)
    shuffles = torch.Generator().manual_seed(seed)
    best, best_cost, best_epoch = policy, math.inf, 0
    for epoch in range(settings.epochs + 1):  # what it starts from may be the best
        if progressed is not None:
            progressed(epoch, settings.epochs)
        with torch.no_grad():
            paid = _mean_cost(cost, policy, validation).item()
        if paid < best_cost:
            best, best_cost, best_epoch = copy.deepcopy(policy), paid, epoch
        if epoch == settings.epochs or epoch - best_epoch >= settings.patience:
            break
        for rows in _batches(len(train), settings.batch, shuffles, device):
            optimiser.step(torch.autograd.grad(_mean_cost(cost, policy, train, rows), parameters))
    if best_cost == math.inf:
        raise NonFiniteError("the validation cost of the policy was never finite")
    return best.cpu().requires_grad_(False)


def require_one_action(cost: Cost) -> None:
    """Raise unless a policy can be trained on the cost, whose action must be one number between bounds."""
    require_cost(cost)
    if vector_cost(cost) is not None:
        raise CostError(
            "a policy decides about one number: whether there is anything to gain is not known of a decision with "
            "several parts, or averse to risk"
        )


def _fresh_policy(cost: Cost, features: Tensor, settings: PolicySettings, seed: int) -> Policy:
    lower, upper = _number("lower", cost.lower), _number("upper", cost.upper)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        policy = Policy(features.shape[1], lower, upper, settings.hidden, settings.layers).to(features)
    policy.feature_scaling.fit(features)
    return policy


def _number(name: str, bound: Parameter) -> float:
    if isinstance(bound, Tensor) and bound.numel() != 1:
        raise CostError(f"{name} of a policy's cost must be one number, got shape {tuple(bound.shape)}")
    return float(bound)


def _moved(cases: CaseTable, device: str | torch.device, dtype: torch.dtype) -> CaseTable:
    return CaseTable(cases.features.to(device, dtype), cases.outcome.to(device, dtype))


def _batches(cases: int, size: int, generator: torch.Generator, device: str | torch.device) -> tuple[Tensor, ...]:
    """The rows of each full batch of a fresh shuffle."""
    size = min(size, cases)
    order = torch.randperm(cases, generator=generator).to(device)
    return order[: cases // size * size].split(size)


def _mean_cost(cost: Cost, policy: Policy, cases: CaseTable, rows: Tensor | slice = slice(None)) -> Tensor:
    outcome = cases.outcome[rows]
    paid = cost(policy(cases.features[rows]), outcome)
    if paid.shape != outcome.shape[:1]:
        raise ShapeError(f"the cost must return one number a case, shape {(len(outcome),)}, got {tuple(paid.shape)}")
    return paid.mean()
