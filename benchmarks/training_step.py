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


def training_step(members: int, device: str, decision: Callable[..., torch.Tensor] | None) -> Callable[[], None]:
    """One step of Adam on the CRPS, mixed half and half with a decision loss of members and outcome if one is given."""
    torch.manual_seed(0)
    features = torch.randn(BATCH, 3, device=device)
    outcome = 10 + 4 * torch.randn(BATCH, 1, device=device)
    model = stakes.ImplicitModel(3, 1).to(device)
    model.fit_scaling(features, outcome)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step() -> None:
        draw = model.training_draw(features, outcome, model.draw_noise(BATCH, members))
        loss = stakes.energy_score(draw.score_members, draw.score_outcome).mean()
        if decision is not None:
            loss = 0.5 * loss + 0.5 * decision(draw.decision_members, draw.decision_outcome).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    return step


def paper_decision(iterations: int) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    layer = paper_layer(shortfall, iterations)
    return lambda samples, outcome: shortfall(layer(CURVE(samples)), CURVE(outcome)[..., 0])


def run(device: str = "cpu") -> list[dict[str, object]]:
    rows = []
    costs = {"wind": stakes.WindDispatchCost(5.0), "protection": stakes.ProtectionCost(10.0, 0.5, sharpness=2.0)}
    for members in (10, 50, 200):
        plain = training_step(members, device, None)
        rivals = {
            f"decision-aware, {name}": training_step(members, device, stakes.DecisionScore(cost))
            for name, cost in costs.items()
        }
        rivals |= {
            f"paper-style layer, wind, {iterations} iterations": training_step(
                members, device, paper_decision(iterations)
            )
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
