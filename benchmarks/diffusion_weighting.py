"""What the weighting of the decision term by noise level does to the diffusion model, on the synthetic task.

    python -m benchmarks.diffusion_weighting [--epochs 2000] [--device cuda] [--json FILE]

For each prediction and weighting, a stack of models (decision weights x seeds) is trained at once with `torch.func`:
1,600 training cases, batch 200, M = 10, Adam 1e-3, no early stopping, a data set of its own for each seed. Tested on
400 cases with 200 members from the full reverse chain. The true mass of mode 2 is 0.4.
"""

import argparse
import itertools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state

import stakes
from reproduction.tasks.synthetic import SyntheticTask
from stakes.models.diffusion import DecisionWeighting, Prediction

WEIGHTS = (0.0, 0.5, 0.9, 0.95)
SEEDS = 3
VARIANTS = tuple(itertools.product(get_args(Prediction), get_args(DecisionWeighting)))
TRAINING, TEST, BATCH, MEMBERS, TEST_MEMBERS = 1600, 400, 200, 10, 200
TASK = SyntheticTask()


class Draw(nn.Module):
    """A model whose forward pass is its training draw, as `functional_call` needs it."""

    def __init__(self, model: stakes.DiffusionModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, features: Tensor, outcome: Tensor, noise: dict[str, Tensor]) -> stakes.TrainingDraw:
        return self.model.training_draw(features, outcome, noise)


def train(variant: tuple[str, str], epochs: int, device: str) -> tuple[list[stakes.DiffusionModel], float]:
    """Models in the order weights x seeds, and the seconds it took."""
    models, data = [], []
    for _ in WEIGHTS:
        for seed in range(SEEDS):
            torch.manual_seed(seed)
            features, outcome = TASK.draw(TRAINING, torch.Generator().manual_seed(1000 + seed))
            model = stakes.DiffusionModel(1, 1, prediction=variant[0], decision_weighting=variant[1])
            model.fit_scaling(features, outcome)
            models.append(Draw(model).to(device))
            data.append((features, outcome))
    features, outcome = (torch.stack(part).to(device) for part in zip(*data, strict=True))
    parameters, buffers = stack_module_state(models)
    template = models[0]
    draw = torch.func.vmap(lambda p, b, x, y, n: functional_call(template, (p, b), (x, y, n)))
    weight = torch.tensor(WEIGHTS, device=device).repeat_interleave(SEEDS)[:, None]
    objective = stakes.DecisionAwareObjective(stakes.EnergyScore(), stakes.DecisionScore(TASK.cost), weight)
    optimiser = torch.optim.Adam(parameters.values(), lr=1e-3, capturable=device == "cuda")
    generator = torch.Generator(device).manual_seed(0)
    cases = fresh_cases(len(models), device)

    def refresh(rows: Tensor) -> None:
        cases["rows"].copy_(rows)
        for name in ("members", "target"):
            cases[name].normal_(generator=generator)
        cases["time"].uniform_(generator=generator)

    def step() -> None:
        rows = cases["rows"][..., None]
        noise = {name: cases[name] for name in ("members", "target", "time")}
        shown = draw(parameters, buffers, features.gather(1, rows), outcome.gather(1, rows), noise)
        optimiser.zero_grad(set_to_none=False)
        objective(shown).total.mean(-1).sum().backward()
        optimiser.step()

    with torch.no_grad():
        refresh(shuffled(len(models), device, generator)[:, :BATCH])
        rows = cases["rows"][..., None]
        noise = {name: cases[name] for name in ("members", "target", "time")}
        shown = draw(parameters, buffers, features.gather(1, rows), outcome.gather(1, rows), noise)
    objective = objective.estimate_scales(shown, dim=-1)
    for parameter in parameters.values():
        parameter.grad = torch.zeros_like(parameter)
    run = captured(step) if device == "cuda" else step
    start = time.perf_counter()
    for _ in range(epochs):
        order = shuffled(len(models), device, generator)
        for batch in order.split(BATCH, 1):
            refresh(batch)
            run()
    if device == "cuda":
        torch.cuda.synchronize()
    taken = time.perf_counter() - start
    for index, model in enumerate(models):
        model.load_state_dict({name: values[index].detach() for name, values in (parameters | buffers).items()})
    return [model.model for model in models], taken


def fresh_cases(replicas: int, device: str) -> dict[str, Tensor]:
    """Room for the rows and the noise of one step."""
    shapes = {"members": (BATCH, MEMBERS, 8), "target": (BATCH, 1), "time": (BATCH,)}
    noise = {name: torch.zeros(replicas, *shape, device=device) for name, shape in shapes.items()}
    return noise | {"rows": torch.zeros(replicas, BATCH, dtype=torch.long, device=device)}


def shuffled(replicas: int, device: str, generator: torch.Generator) -> Tensor:
    return torch.rand(replicas, TRAINING, device=device, generator=generator).argsort(1)


def captured(step: Callable[[], None]) -> Callable[[], None]:
    """The step as a CUDA graph."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def evaluate(model: stakes.DiffusionModel, seed: int, device: str) -> dict[str, float]:
    features, outcome = (part.to(device) for part in TASK.draw(TEST, torch.Generator().manual_seed(5000 + seed)))
    members = model.sample(features, TEST_MEMBERS, torch.Generator(device).manual_seed(seed))
    if not bool(torch.isfinite(members).all()):
        return {name: float("nan") for name in ("CRPS", "cost", "mode mass", "action error")}
    action = stakes.optimal_action(TASK.cost, members)
    truth = TASK.true_action(features.cpu()).to(device)
    return {
        "CRPS": stakes.energy_score(members, outcome).mean().item(),
        "cost": TASK.cost(action, outcome).mean().item(),
        "mode mass": (members > 1.0).float().mean().item(),
        "action error": (action - truth).square().mean().sqrt().item(),
    }


def run(epochs: int, device: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for variant in VARIANTS:
        models, taken = train(variant, epochs, device)
        results = [evaluate(model, index % SEEDS, device) for index, model in enumerate(models)]
        for position, weight in enumerate(WEIGHTS):
            seeds = results[position * SEEDS : (position + 1) * SEEDS]
            row: dict[str, object] = {"prediction": variant[0], "weighting": variant[1], "decision weight": weight}
            for name in seeds[0]:
                row[name] = [round(result[name], 4) for result in seeds]
            worst = max(mine["CRPS"] / plain["CRPS"] for mine, plain in zip(seeds, results[:SEEDS], strict=True))
            row["worst CRPS / weight 0"] = round(worst, 3)
            rows.append(row | {"training seconds of the stack": round(taken, 1)})
            print(json.dumps(rows[-1]), flush=True)
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=2000)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    results = run(arguments.epochs, arguments.device)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1))
