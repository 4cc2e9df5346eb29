"""Training throughput: stacks of replicas against the same models one by one in eager torch.

    python -m benchmarks.replicas [--device cuda] [--quick] [--json FILE]

"one by one" is what a user would write today: one model, torch.optim.Adam, the paper's layer in plain torch (50 steps
of projected gradient, the implicit gradient by autograd) and a CRPS over all pairs of members. "with our objective" is
the same loop with this library's exact layer and score, so that the gain of the layer and the gain of the stack can be
told apart. Wind-sized data: 3 features, batch 256.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

import stakes
from benchmarks.layers import CostFunction, paper_layer, shortfall
from stakes.data.case_table import CaseTable
from stakes.training.replicas import Replica, ReplicaStack
from stakes.training.settings import TrainingSettings
from stakes.training.steps import Stepper

MODELS = {"implicit": stakes.ImplicitModel, "diffusion": stakes.DiffusionModel}
CASES, FEATURES, BATCH = 20_480, 3, 256
CURVE = stakes.PowerCurve()
COST = stakes.WindDispatchCost(5.0, CURVE)
Loss = Callable[[stakes.TrainingDraw], Tensor]


def pairwise_score(samples: Tensor, outcome: Tensor) -> Tensor:
    """The energy score of one outcome as eq. energy_score has it, over all pairs."""
    values = samples.squeeze(-1)
    members = values.shape[-1]
    spread = (values[..., :, None] - values[..., None, :]).abs().sum((-2, -1)) / (2 * members * (members - 1))
    return (values - outcome).abs().mean(-1) - spread


def cases() -> CaseTable:
    generator = torch.Generator().manual_seed(0)
    features = 8 + 4 * torch.randn(CASES, FEATURES, generator=generator)
    return CaseTable(features, features[:, :1] + 2 * torch.randn(CASES, 1, generator=generator))


def model_of(kind: str, seed: int, data: CaseTable) -> torch.nn.Module:
    torch.manual_seed(seed)
    model = MODELS[kind](FEATURES, 1)
    model.fit_scaling(data.features, data.outcome)
    return model


def paper_style(
    cost: CostFunction, weight: float, transform: Callable[[Tensor], Tensor] = lambda values: values
) -> Loss:
    """The loss as a user would write it today, in plain torch: 50 steps of projected gradient, all pairs."""
    layer = paper_layer(cost)

    def loss(draw: stakes.TrainingDraw) -> Tensor:
        score = pairwise_score(draw.score_members, draw.score_outcome).mean()
        action = layer(transform(draw.decision_members))
        return (1 - weight) * score + weight * cost(action, transform(draw.decision_outcome)[..., 0]).mean()

    return loss


def our_style(cost: stakes.Cost, weight: float) -> Loss:
    objective = stakes.DecisionAwareObjective(stakes.EnergyScore(), stakes.DecisionScore(cost), weight)
    return lambda draw: objective(draw).mean().total


def eager_step(kind: str, members: int, device: str, loss: Loss) -> Callable[[], None]:
    """One model's step."""
    data = cases()
    model = model_of(kind, 0, data).to(device)
    features, outcome = data.features.to(device), data.outcome.to(device)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    generator = torch.Generator(device).manual_seed(0)

    def step() -> None:
        rows = torch.randint(CASES, (BATCH,), generator=generator, device=device)
        value = loss(model.training_draw(features[rows], outcome[rows], model.draw_noise(BATCH, members, generator)))
        optimiser.zero_grad()
        value.backward()
        optimiser.step()

    return step


def stack_stepper(kind: str, replicas: int, members: int, device: str, steps: int) -> Stepper:
    """A stack as the trainer has it: 3 seeds x 3 penalties x 6 weights, and more of the same."""
    data = cases()
    part = CaseTable(data.features[: steps * BATCH], data.outcome[: steps * BATCH])
    penalties, weights = (3.0, 5.0, 10.0), (0.0, 0.1, 0.3, 0.5, 0.7, 0.9)
    stack = ReplicaStack(
        [
            Replica(
                model_of(kind, index % 3, data),
                part,
                part,
                stakes.WindDispatchCost(penalties[index // 3 % 3]),
                weights[index // 9 % 6],
                seed=index % 3,
            )
            for index in range(replicas)
        ],
        TrainingSettings(batch=BATCH, members=members),
        torch.device(device),
    )
    return Stepper(stack, stack.initial_parameters(), torch.ones(replicas, 2, device=device))


def seconds_a_call(call: Callable[[], None], repeats: int, device: str) -> float:
    call()
    synchronise(device)
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    synchronise(device)
    return (time.perf_counter() - start) / repeats


def synchronise(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def measure_stack(kind: str, replicas: int, members: int, device: str, steps: int) -> dict[str, object]:
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    stepper = stack_stepper(kind, replicas, members, device, steps)
    stepper.epoch("training", 1, 1e-3)  # captures
    taken = seconds_a_call(lambda: stepper.epoch("training", 2, 1e-3), 2, device) / steps
    row: dict[str, object] = {
        "model": kind,
        "R": replicas,
        "M": members,
        "ms a step": round(1e3 * taken, 3),
        "replica-steps a second": round(replicas / taken),
    }
    if device == "cuda":
        row["peak GiB"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)
    return row


def run(device: str, quick: bool) -> dict[str, list[dict[str, object]]]:
    steps = 80 if device == "cuda" else 4
    counts = (9, 54) if quick else (1, 9, 54, 162)
    eager = []
    losses = {"one by one": paper_style(shortfall, 0.5, CURVE), "with our objective": our_style(COST, 0.5)}
    for kind in MODELS:
        rates = {
            name: round(1 / seconds_a_call(eager_step(kind, 10, device, loss), 30, device))
            for name, loss in losses.items()
        }
        eager.append({"model": kind, **rates})
        print(json.dumps(eager[-1]), flush=True)
    rows = []
    for kind in MODELS:
        grid = [(count, 10) for count in counts] + ([] if quick else [(54, 50), (54, 200)])
        for replicas, members in grid:
            rows.append(measure_stack(kind, replicas, members, device, steps))
            print(json.dumps(rows[-1]), flush=True)
    return {"eager": eager, "stacks": rows}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    results = run(arguments.device, arguments.quick)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")
