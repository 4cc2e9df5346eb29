"""The CRPS, forward and backward, against scoringrules' torch backend.

python -m benchmarks.crps
"""

from collections.abc import Callable

import scoringrules
import torch

import stakes
from benchmarks.timing import interleave

CASES = 4096


def run() -> list[dict[str, object]]:
    torch.manual_seed(0)
    rows: list[dict[str, object]] = []
    outcome = torch.randn(CASES, 1)
    for members in (10, 16, 50, 500):
        samples = torch.randn(CASES, members, 1, requires_grad=True)

        def ours(samples: torch.Tensor = samples) -> torch.Tensor:
            return stakes.energy_score(samples, outcome)

        def theirs(estimator: str, samples: torch.Tensor = samples) -> torch.Tensor:
            return scoringrules.crps_ensemble(outcome[:, 0], samples[..., 0], estimator=estimator, backend="torch")

        def both(score: Callable[[], torch.Tensor], samples: torch.Tensor = samples) -> Callable[[], torch.Tensor]:
            return lambda: torch.autograd.grad(score().mean(), samples)[0]

        estimators = ("pwm", "fair") if members <= 50 else ("pwm",)  # all pairs of 500 would take 16 GB
        rivals = {f"scoringrules {name}": both(lambda name=name: theirs(name)) for name in estimators}
        timing = interleave(both(ours), rivals, rounds=15)
        differences = {
            "largest difference": (ours() - theirs("pwm")).abs().max().item(),
            "of gradients": CASES * (both(ours)() - both(lambda: theirs("pwm"))()).abs().max().item(),
        }
        rows.append({"cases": CASES, "members": members} | timing.row() | differences)
        print(rows[-1], flush=True)
    return rows


if __name__ == "__main__":
    run()
