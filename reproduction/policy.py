"""Whether a forecast's decisions leave anything to be gained, before any decision-aware training is paid for.

A policy, a network from features straight to the action, is trained on the cost alone. Where it pays less than the best
action of a forecast trained on its score alone, that forecast misses something which the features know and the cost
asks for.
"""

import copy
import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from stakes.actions.climatology import climatology_action
from stakes.argument_checks import check_finite, require_count, require_positive
from stakes.costs.cost import Cost, Parameter, ranged_parameter, require_cost, vector_cost
from stakes.data.case_table import CaseTable
from stakes.errors import CostError, NonFiniteError, SettingError, ShapeError
from stakes.evaluation.intervals import Difference, paired_difference
from stakes.models.networks import Perceptron
from stakes.models.sample_model import Scaling
from stakes.scores.decision_score import realised_costs
from stakes.text import change_text
from stakes.training.steps import Adam


@dataclass(frozen=True)
class Headroom:
    """Mean costs on the same cases, and what a policy trained on the cost alone gains over the forecast's actions."""

    forecast_cost: float  # the mean cost of the forecast's actions
    policy_cost: float  # that of the policy's actions
    climatology_cost: float  # that of the one action which was best for the training outcomes
    foresight_cost: float  # that of the best action for each outcome, known beforehand
    gain: Difference  # policy less forecast with its 95 % interval: negative where the policy pays less
    cases: int  # how many cases were judged

    @property
    def sentence(self) -> str:
        """What this says about decision-aware training, and what it does not."""
        gain = self.gain
        measured = f"{change_text(gain)}, over {self.cases} cases"
        if gain.high < 0:
            return (
                f"A policy trained on the cost alone pays less than the forecast's actions ({measured}): the features "
                "know something that the forecast misses and the cost asks for, so decision-aware training may pay."
            )
        than = "more than" if gain.low > 0 else "neither clearly less nor clearly more than"
        return (
            f"A policy trained on the cost alone pays {than} the forecast's actions ({measured}). That does not rule "
            "out a gain: a policy is no forecast, and only the decision weights themselves, compared on held-out "
            "cases, can tell."
        )


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
    """Raise unless a policy can be trained on the cost: it asks one number of one decision maker."""
    require_cost(cost)
    if vector_cost(cost) is not None:
        raise CostError(
            "a policy decides about one number: whether there is anything to gain is not known of a decision with "
            "several parts, or averse to risk"
        )
    if (ranged := ranged_parameter(cost)) is not None:
        raise SettingError(f"headroom is that of one decision maker, got a cost with {ranged}; take one of its values")


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


_STEPS = 2000  # of the policy's training, in 20 to 200 epochs


def headroom(
    cost: Cost,
    train: CaseTable,
    stopping: CaseTable,
    judged: CaseTable,
    plug_in: ArrayLike,
    *,
    block: int = 1,
    seed: int = 0,
    settings: PolicySettings | None = None,
) -> Headroom:
    """Train a policy on the cost alone, and compare it with the forecast's actions.

    >>> import stakes
    >>> features = torch.rand(300, 1, generator=torch.Generator().manual_seed(0))
    >>> train, stopping, judged = (CaseTable(part, part) for part in features.split(100))
    >>> few = PolicySettings(epochs=30)
    >>> gained = headroom(stakes.ShortfallCost(5.0), train, stopping, judged, torch.zeros(100), settings=few)
    >>> gained.gain.high < 0, gained.foresight_cost <= gained.policy_cost < gained.climatology_cost
    (True, True)

    Args:
        cost: What a decision costs.
        train: The cases on which the policy is trained.
        stopping: The cases that say when its training stops.
        judged: The N cases on which it is compared with the forecast.
        plug_in: What the actions of the forecast, trained on its score alone, cost on the judged cases, (N,).
        block: How many neighbouring cases depend on each other.
        seed: The seed of the policy's training.
        settings: How the policy is trained; None for as long as suits the number of cases.
    """
    require_count("block", block)
    paid = torch.as_tensor(np.asarray(plug_in, dtype=np.float64))
    if paid.shape != (len(judged),):
        raise ShapeError(
            f"plug_in must be one cost for each of the {len(judged)} judged cases, got {tuple(paid.shape)}"
        )
    check_finite(paid, "plug_in", True)
    settings = settings or _policy_settings(len(train))
    policy = train_policy(cost, train, stopping, settings, seed)
    outcome = judged.outcome
    climatology = climatology_action(cost, train.outcome).expand(len(judged), -1)
    by_policy = cost(policy(judged.features), outcome)
    gain = paired_difference(by_policy[None], paid[None], min(block, len(judged)))
    return Headroom(
        forecast_cost=_mean(paid),
        policy_cost=_mean(by_policy),
        climatology_cost=_mean(cost(climatology, outcome)),
        foresight_cost=_mean(realised_costs(cost, outcome[:, None], outcome).cost),
        gain=gain,
        cases=len(judged),
    )


def _policy_settings(cases: int) -> PolicySettings:
    epochs = min(max(_STEPS // max(1, cases // PolicySettings.batch), 20), 200)
    return PolicySettings(epochs=epochs, patience=epochs // 5)


def _mean(values: Tensor) -> float:
    return float(values.double().mean())
