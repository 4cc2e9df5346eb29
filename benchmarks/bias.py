"""Bias of the plain and the debiased decision score at M members, against the true distribution's best action.

    python -m benchmarks.bias

Both score a perfect forecast, whose M members come from the truth itself.
"""

import torch
from torch import Tensor

import stakes

DRAWS = 200_000
TRUTH = 2_000_000


def wind(count: int, generator: torch.Generator) -> Tensor:
    return (10 + 4 * torch.randn(count, generator=generator, dtype=torch.float64)).clamp(min=0)


def two_modes(count: int, generator: torch.Generator) -> Tensor:
    second = torch.rand(count, generator=generator) < 0.4
    noise = torch.randn(count, generator=generator, dtype=torch.float64)
    return torch.where(second, 2.5 + 0.4 * noise, 0.2 * noise)


CASES = {
    "wind, lambda 5": (wind, stakes.WindDispatchCost(5.0)),
    "wind, lambda 20": (wind, stakes.WindDispatchCost(20.0)),
    "protection": (two_modes, stakes.ProtectionCost(1.0, 0.5)),
}


def run() -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for name, (draw, cost) in CASES.items():
        generator = torch.Generator().manual_seed(0)
        truth = draw(TRUTH, generator)[:, None]
        best = stakes.solve_action(cost, truth)
        for members in (10, 20, 50, 100):
            samples = draw(DRAWS * members, generator).reshape(DRAWS, members, 1)
            outcome = draw(DRAWS, generator)[:, None]
            reference = cost(best.action.expand(DRAWS, 1), outcome)  # a control variate: same outcomes
            row: dict[str, object] = {"case": name, "members": members}
            for estimator in ("plain", "debiased"):
                excess = stakes.DecisionScore(cost, estimator)(samples, outcome) - reference
                row[f"{estimator} bias"] = round(excess.mean().item(), 4)
                row[f"{estimator} standard error"] = round((excess.std() / DRAWS**0.5).item(), 4)
            rows.append(row)
            print(row, flush=True)
    return rows


if __name__ == "__main__":
    run()
