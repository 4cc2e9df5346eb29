"""What must hold on an accelerator; the same code runs on the CPU in every other test."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
import torch

import stakes
from reproduction.policy import PolicySettings, train_policy
from stakes.data.case_table import CaseTable
from stakes.errors import InterruptedTraining
from stakes.training.replicas import Replica, ReplicaStack
from stakes.training.settings import Companion, TrainingSettings
from stakes.training.steps import Stepper
from stakes.training.trainer import train

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")

COSTS = {
    "shortfall": stakes.ShortfallCost(5.0),
    "wind": stakes.WindDispatchCost(5.0),
    "protection": stakes.ProtectionCost(1.0, 0.5),
    "protection without closed form": stakes.ProtectionCost(1.0, 0.5, protection_power=1.5),
    "newsvendor": stakes.NewsvendorCost(3.0, 1.0, 0.0, 2.0),
    "imbalance": stakes.ImbalanceCost(10.0, 1.0, 0.0, 2.0),
    "function": stakes.cost_function(lambda a, y: (a - y) ** 2 + 0.1 * (a - y) ** 4, 0.0, 2.0),
}


@pytest.mark.parametrize("name", COSTS)
@pytest.mark.parametrize("members", [10, 200])
def test_action_and_gradient_equal_those_of_the_cpu(name: str, members: int) -> None:
    samples = torch.rand(300, members, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 2
    results = []
    for device in ("cpu", "cuda"):
        leaf = samples.to(device).requires_grad_()
        action = stakes.optimal_action(COSTS[name], leaf)
        (gradient,) = torch.autograd.grad(action.sum(), leaf)
        results.append((action.detach().cpu(), gradient.cpu()))
    torch.testing.assert_close(results[0], results[1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shape", [(300, 10, 1), (300, 200, 1), (50, 10, 12)])
def test_energy_score_equals_that_of_the_cpu(shape: tuple[int, int, int]) -> None:
    generator = torch.Generator().manual_seed(0)
    samples = torch.randn(shape, generator=generator, dtype=torch.float64).round(decimals=1)
    outcome = torch.randn(shape[0], shape[2], generator=generator, dtype=torch.float64)
    results = []
    for device in ("cpu", "cuda"):
        leaf = samples.to(device).requires_grad_()
        score = stakes.energy_score(leaf, outcome.to(device))
        (gradient,) = torch.autograd.grad(score.sum(), leaf)
        results.append((score.detach().cpu(), gradient.cpu()))
    torch.testing.assert_close(results[0], results[1], rtol=1e-10, atol=1e-10)


def training_step(
    name: str, model: torch.nn.Module, features: torch.Tensor, outcome: torch.Tensor
) -> Callable[[], None]:
    objective = stakes.DecisionAwareObjective(stakes.EnergyScore(), stakes.DecisionScore(COSTS[name]), 0.5)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=True)
    noise = model.draw_noise(len(features), 10)

    def step() -> None:
        optimiser.zero_grad(set_to_none=False)
        objective(model.training_draw(features, outcome, noise)).mean().total.backward()
        optimiser.step()

    return step


@pytest.mark.parametrize("model_type", [stakes.ImplicitModel, stakes.DiffusionModel])
@pytest.mark.parametrize("name", COSTS)
def test_step_is_captured_without_a_host_sync_and_replays_the_same(name: str, model_type: type) -> None:
    generator = torch.Generator().manual_seed(0)
    features, outcome = torch.randn(64, 3, generator=generator).cuda(), torch.rand(64, 1, generator=generator).cuda()
    finals = []
    for capture in (False, True):
        torch.manual_seed(0)
        model = model_type(3, 1).cuda()
        model.fit_scaling(features, outcome)
        step = training_step(name, model, features, outcome)
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(side)
        if capture:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                step()
            run = graph.replay
        else:
            torch.cuda.set_sync_debug_mode("error")
            run = step
        try:
            for _ in range(20):
                run()
        finally:
            torch.cuda.set_sync_debug_mode("default")
        finals.append(torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()]).cpu())
    torch.testing.assert_close(finals[0], finals[1], rtol=1e-3, atol=1e-4)


MODELS = {
    "implicit": stakes.ImplicitModel,
    "linear start": lambda features, outcomes: stakes.ImplicitModel(features, outcomes, linear=True, gap=2),
    "linear": stakes.LinearModel,
    "diffusion": stakes.DiffusionModel,
}


def replicas(kind: str, count: int, sites: int = 1) -> list[Replica]:
    generator = torch.Generator().manual_seed(0)
    cases = [
        CaseTable(features, features.mean(1, keepdim=True) + torch.randn(640, sites, generator=generator))
        for features in (8 + 4 * torch.randn(640, 3, generator=generator) for _ in range(2))
    ]
    made = []
    for index in range(count):
        torch.manual_seed(index % 3)
        data = cases[index % 2]
        model = MODELS[kind](3, sites)
        model.fit_scaling(data.features, data.outcome)
        cost = stakes.WindDispatchCost((3.0, 5.0, 10.0)[index % 3])
        made.append(Replica(model, data, data, cost, 0.1 * index, index % 3, f"replica {index}"))
    return made


def stepper(
    kind: str, count: int, kept: slice, capture: bool, dtype: torch.dtype = torch.float32, **settings: Any
) -> Stepper:
    chosen = [replace(each, model=each.model.to(dtype)) for each in replicas(kind, count, 5 if settings else 1)[kept]]
    stack = ReplicaStack(chosen, TrainingSettings(batch=64, **settings), torch.device("cuda"))
    scales = torch.ones(len(stack), 2, device="cuda", dtype=dtype)
    return Stepper(stack, stack.initial_parameters(), scales, capture)


def recorded_losses(
    made: Stepper, epochs: int, follow: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Losses (steps, R) and the parameters (steps, R, P) they were taken at; `follow` sets the latter."""
    losses, states, terms = [], [], made._terms

    def record(*given: object) -> object:
        if follow is not None:
            given[-1].data.copy_(follow[len(losses)])
        states.append(given[-1].detach().clone())
        losses.append(terms(*given))
        return losses[-1]

    made._terms = record
    for epoch in range(1, epochs + 1):
        made.epoch("training", epoch, 1e-3)
    return torch.stack([each.total.detach() for each in losses]), torch.stack(states)


@pytest.mark.parametrize("kind", ["implicit", "diffusion"])
def test_losses_of_a_replica_do_not_depend_on_its_companions(kind: str) -> None:
    """To rounding. Which kernel sums in which order depends on the size of the stack, and the gradient of |y - y'|
    jumps, so float32 runs part after some dozen steps; float64 runs stay together."""
    whole, _ = recorded_losses(stepper(kind, 9, slice(None), False, torch.float64), 10)
    assert len(whole) == 100
    for kept in (slice(2, 5), slice(4, 5)):
        part, _ = recorded_losses(stepper(kind, 9, kept, False, torch.float64), 10)
        torch.testing.assert_close(part, whole[:, kept], rtol=1e-4, atol=0)


@pytest.mark.parametrize("kind", ["implicit", "diffusion"])
def test_each_step_of_a_replica_is_the_same_beside_any_companions(kind: str) -> None:
    whole, states = recorded_losses(stepper(kind, 9, slice(None), False), 10)
    for kept in (slice(2, 5), slice(4, 5)):
        part, _ = recorded_losses(stepper(kind, 9, kept, False), 10, follow=states[:, kept])
        torch.testing.assert_close(part, whole[:, kept], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        *({"companion": companion} for companion in get_args(Companion)[1:]),
        {"score": "pointwise"},
        {"score": "energy=1,total=0.5"},
        {"decision_member_count": 64},
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["implicit", "linear start", "diffusion"])
def test_captured_stack_equals_the_eager_one_and_no_epoch_waits_for_the_host(
    kind: str, settings: dict[str, Any]
) -> None:
    finals = []
    for capture in (False, True):
        made = stepper(kind, 9, slice(None), capture, **settings)
        made.epoch("training", 1, 1e-3)
        torch.cuda.set_sync_debug_mode("error")
        try:
            for epoch in range(2, 6):
                made.epoch("training", epoch, 1e-3)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        assert (made._run == made._step) is not capture
        finals.append(made.parameters.detach().clone())
    torch.testing.assert_close(finals[0], finals[1], rtol=1e-4, atol=1e-5)


def test_step_that_cannot_be_captured_runs_eagerly() -> None:
    class Waiting(stakes.ImplicitModel):
        def training_draw(self, features, outcome, noise):
            torch.cuda.synchronize()
            return super().training_draw(features, outcome, noise)

    (replica,) = replicas("implicit", 1)
    model = Waiting(3, 1)
    model.load_state_dict(replica.model.state_dict())
    stack = ReplicaStack([replace(replica, model=model)], TrainingSettings(batch=64), torch.device("cuda"))
    made = Stepper(stack, stack.initial_parameters(), torch.ones(1, 2, device="cuda"))
    with pytest.warns(UserWarning, match="could not be captured"):
        made.epoch("training", 1, 1e-3)
    plain = stepper("implicit", 1, slice(None), capture=False)
    plain.epoch("training", 1, 1e-3)
    torch.testing.assert_close(made.parameters, plain.parameters)


def test_the_linear_model_is_validated_as_on_the_cpu() -> None:
    found = train(replicas("linear", 3), TrainingSettings(), device="cuda")
    expected = train(replicas("linear", 3), TrainingSettings())
    for mine, theirs in zip(found, expected, strict=True):
        assert (mine.status, mine.epoch) == ("finished", 0)
        assert mine.best_loss == pytest.approx(theirs.best_loss, rel=0.05)  # of other noise


@pytest.mark.parametrize("kind", ["implicit", "linear start"])
def test_interrupted_stack_resumes_where_it_was(kind: str, tmp_path: Path) -> None:
    settings = TrainingSettings(epochs=12, pretraining_epochs=4, validate_every=2, patience=6, batch=64)
    whole = train(replicas(kind, 5), settings, device="cuda")
    for stopped_at in (3, 9):
        calls = iter(range(1, 100))
        stop = lambda calls=calls, at=stopped_at: next(calls) == at
        with pytest.raises(InterruptedTraining):
            train(replicas(kind, 5), settings, device="cuda", checkpoints=tmp_path, stop=stop)
    resumed = train(replicas(kind, 5), settings, device="cuda", checkpoints=tmp_path)
    for mine, theirs in zip(whole, resumed, strict=True):
        assert (mine.status, mine.best_epoch, mine.best_loss) == (theirs.status, theirs.best_epoch, theirs.best_loss)
        assert all(torch.equal(mine.weights[name], theirs.weights[name]) for name in mine.weights)


def test_policy_equals_that_of_the_cpu() -> None:
    """To rounding, over a few steps; the policy comes back to the CPU."""
    (replica,) = replicas("implicit", 1)
    cost, settings = stakes.WindDispatchCost(5.0), PolicySettings(epochs=2, batch=128)
    actions = [
        train_policy(cost, replica.train, replica.validation, settings, device=device)(replica.train.features)
        for device in ("cpu", "cuda")
    ]
    torch.testing.assert_close(actions[0], actions[1], rtol=1e-4, atol=1e-5)
