"""What must hold on an accelerator; the same code runs on the CPU in every other test."""

from collections.abc import Callable

import pytest
import torch

import stakes

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
