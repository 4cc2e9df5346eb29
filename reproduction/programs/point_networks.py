"""The three networks of Donti, Amos and Kolter (2017), rebuilt: a mean for each hour and constant Gaussian errors."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from reproduction.programs.problem import Candidates, Forecast, Problem, RunEffort
from stakes.actions.solve import optimal_action

POINT_NETWORKS = ("squared error", "weighted squared error", "task")
"""The names of the three candidates."""

_HIDDEN = (200, 200)
_DROPOUT = 0.2
_BATCH = 256
_RATE, _TASK_RATE = 1e-3, 1e-4
_ROUNDS = 10  # of weights
_HELD_OUT = 0.2  # of the days of the task network
_LOOK_EVERY, _LOOKS = 20, 5  # steps between looks at the days held out, and looks without a better one
_TRAINED_MEMBERS = 100  # of a schedule in training

Loss = Callable[[Tensor], Tensor]


class PointNetwork(nn.Module):
    """Means (N, D) and a standard deviation (D,) of outcomes, in their units."""

    centre: Tensor
    scale: Tensor

    def __init__(self, features: Tensor, outcome: Tensor) -> None:
        super().__init__()
        scale = features.std(0)
        self.register_buffer("centre", features.mean(0))
        self.register_buffer("scale", torch.where(scale > 0, scale, torch.ones_like(scale)))
        known = torch.cat([self._scaled(features), torch.ones_like(features[:, :1])], 1).double()
        solution = torch.linalg.lstsq(known, outcome.double(), driver="gelsd").solution.float()
        self.linear = nn.Linear(features.shape[1], outcome.shape[1])
        with torch.no_grad():
            self.linear.weight.copy_(solution[:-1].mT)
            self.linear.bias.copy_(solution[-1])
        layers: list[nn.Module] = []
        for before, after in zip((features.shape[1], *_HIDDEN), _HIDDEN, strict=False):
            layers += [nn.Linear(before, after), nn.BatchNorm1d(after), nn.ReLU(), nn.Dropout(_DROPOUT)]
        self.network = nn.Sequential(*layers, nn.Linear(_HIDDEN[-1], outcome.shape[1]))
        self.deviation = nn.Parameter(torch.ones(outcome.shape[1]))

    def forward(self, features: Tensor) -> Tensor:
        """The means (N, D)."""
        scaled = self._scaled(features)
        return self.linear(scaled) + self.network(scaled)

    def members(self, features: Tensor, count: int) -> Tensor:
        """Members (N, M, D) at the middles of equally likely parts, in the same order for every outcome."""
        places = (torch.arange(count, dtype=features.dtype) + 0.5) / count
        spread = torch.special.ndtri(places)[:, None] * self.deviation.abs()
        return self(features)[:, None] + spread

    def independent_members(self, features: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """The same members (N, M, D) with those of each outcome in an order of its own, as independent errors have."""
        members = self.members(features, count)
        orders = [torch.randperm(count, generator=generator) for _ in range(members.shape[-1])]
        return torch.stack([members[:, order, place] for place, order in enumerate(orders)], -1)

    @torch.no_grad()
    def take_deviation(self, features: Tensor, outcome: Tensor) -> None:
        """Take the standard deviation of the errors."""
        self.deviation.copy_((self.eval()(features) - outcome).square().mean(0).sqrt())

    def _scaled(self, features: Tensor) -> Tensor:
        return (features - self.centre) / self.scale


def point_network_candidates(problem: Problem, seed: int, effort: RunEffort) -> Candidates:
    """The three networks of one seed."""
    features, outcome = problem.before_test.features, problem.before_test.outcome
    candidates = {}
    for place, (name, train) in enumerate(zip(POINT_NETWORKS, (_plain, _weighted, _task), strict=True)):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1000 * seed + place)
            network = train(problem, features, outcome, effort).eval()
            generator = torch.Generator().manual_seed(seed)
            with torch.no_grad():
                test = network.independent_members(problem.test.features, effort.members, generator)
        candidates[name] = Forecast(None, test)
    return candidates


def _plain(problem: Problem, features: Tensor, outcome: Tensor, effort: RunEffort) -> PointNetwork:
    network = PointNetwork(features, outcome)
    _descend(network, len(outcome), effort.steps, _RATE, lambda rows: _error(network, features, outcome, rows).mean())
    network.take_deviation(features, outcome)
    return network


def _weighted(problem: Problem, features: Tensor, outcome: Tensor, effort: RunEffort) -> PointNetwork:
    network, weights = PointNetwork(features, outcome), torch.ones_like(outcome)

    def loss(rows: Tensor) -> Tensor:
        return (weights[rows] * _error(network, features, outcome, rows)).mean(0).sqrt().sum()

    for _ in range(_ROUNDS):
        _descend(network, len(outcome), max(1, effort.steps // _ROUNDS), _RATE, loss)
        network.take_deviation(features, outcome)
        weights = _hourly_costs(problem, network, features, outcome)
    return network


def _task(problem: Problem, features: Tensor, outcome: Tensor, effort: RunEffort) -> PointNetwork:
    order = torch.randperm(len(outcome))
    held_out, kept = order.split([round(_HELD_OUT * len(outcome)), len(outcome) - round(_HELD_OUT * len(outcome))])
    network = _plain(problem, features[kept], outcome[kept], effort)

    def cost(rows: Tensor) -> Tensor:
        action = optimal_action(problem.cost, network.members(features[rows], _TRAINED_MEMBERS))
        return problem.cost(action, outcome[rows]).mean()

    best, state, since = float("inf"), network.state_dict(), 0
    optimiser = torch.optim.Adam(network.parameters(), lr=_TASK_RATE)
    for step in range(effort.steps + 1):
        if step % _LOOK_EVERY == 0:
            network.eval()
            with torch.no_grad():
                now = float(cost(held_out))
            since = 0 if now < best else since + 1
            if now < best:
                best, state = now, {name: value.clone() for name, value in network.state_dict().items()}
            if since == _LOOKS:
                break
        _step(network, optimiser, kept[_batch(len(kept))], cost)
    network.load_state_dict(state)
    return network


def _descend(network: PointNetwork, count: int, steps: int, rate: float, loss: Loss) -> None:
    optimiser = torch.optim.Adam(network.parameters(), lr=rate)
    for _ in range(steps):
        _step(network, optimiser, _batch(count), loss)


def _step(network: PointNetwork, optimiser: torch.optim.Optimizer, rows: Tensor, loss: Loss) -> None:
    network.train()
    optimiser.zero_grad()
    loss(rows).backward()
    optimiser.step()


def _batch(count: int) -> Tensor:
    return torch.randperm(count)[:_BATCH]


def _error(network: PointNetwork, features: Tensor, outcome: Tensor, rows: Tensor) -> Tensor:
    return (network(features[rows]) - outcome[rows]).square()


@torch.no_grad()
def _hourly_costs(problem: Problem, network: PointNetwork, features: Tensor, outcome: Tensor) -> Tensor:
    """What each day and hour cost, (N, D): the cost of a schedule is a sum over hours."""
    members = network.eval().members(features, _TRAINED_MEMBERS)
    action = optimal_action(problem.cost, members)
    return problem.cost(action[..., None], outcome[..., None])
