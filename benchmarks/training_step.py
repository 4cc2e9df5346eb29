"""A decision-aware training step against the same step on the CRPS alone, and the paper-style layer beside it (O1).

    python -m benchmarks.training_step [--device cpu]

Implicit model 5 x 50, batch 256: forward, backward and Adam. The paper-style step solves by projected gradient.
"""

import argparse
from collections.abc import Callable

import torch

import stakes
from benchmarks.layers import paper_layer, shortfall
from benchmarks.timing import interleave

BATCH = 256
CURVE = stakes.PowerCurve()


def training_step(
    members: int,
    device: str,
    loss: Callable[[stakes.TrainingDraw], torch.Tensor],
    outcome: torch.Tensor | None = None,
) -> Callable[[], None]:
    """One step of Adam on a loss of the model's draw; the outcome (BATCH, D) is a wind speed by default."""
    torch.manual_seed(0)
    features = torch.randn(BATCH, 3, device=device)
    outcome = 10 + 4 * torch.randn(BATCH, 1, device=device) if outcome is None else outcome
    model = stakes.ImplicitModel(3, outcome.shape[-1]).to(device)
    model.fit_scaling(features, outcome)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step() -> None:
        value = loss(model.training_draw(features, outcome, model.draw_noise(BATCH, members)))
        optimiser.zero_grad()
        value.backward()
        optimiser.step()

    return step


def crps(draw: stakes.TrainingDraw) -> torch.Tensor:
    return stakes.energy_score(draw.score_members, draw.score_outcome).mean()


def decision_aware(cost: stakes.Cost) -> Callable[[stakes.TrainingDraw], torch.Tensor]:
    objective = stakes.DecisionAwareObjective(stakes.EnergyScore(), stakes.DecisionScore(cost), 0.5)
    return lambda draw: objective(draw).mean().total


def paper_style(iterations: int) -> Callable[[stakes.TrainingDraw], torch.Tensor]:
    layer = paper_layer(shortfall, iterations)

    def loss(draw: stakes.TrainingDraw) -> torch.Tensor:
        action = layer(CURVE(draw.decision_members))
        return 0.5 * crps(draw) + 0.5 * shortfall(action, CURVE(draw.decision_outcome)[..., 0]).mean()

    return loss


def run(device: str = "cpu") -> list[dict[str, object]]:
    rows = []
    costs = {"wind": stakes.WindDispatchCost(5.0), "protection": stakes.ProtectionCost(10.0, 0.5, sharpness=2.0)}
    for members in (10, 50, 200):
        plain = training_step(members, device, crps)
        rivals = {
            f"decision-aware, {name}": training_step(members, device, decision_aware(cost))
            for name, cost in costs.items()
        }
        rivals |= {
            f"paper-style layer, wind, {iterations} iterations": training_step(members, device, paper_style(iterations))
            for iterations in (10, 50, 200)
        }
        timing = interleave(plain, rivals, rounds=15)
        rows.append(
            {"members": members, "CRPS alone ms": round(timing.milliseconds["ours"], 3)}
            | {f"{name} / CRPS alone": round(ratio, 2) for name, ratio in timing.ratios.items()}
        )
        print(rows[-1], flush=True)
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    run(parser.parse_args().device)
