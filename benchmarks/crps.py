"""The CRPS, forward and backward, against scoringrules' torch backend, and where sorting beats all pairs.

python -m benchmarks.crps
"""

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
            return stakes.energy_score(samples, outcome).mean()

        def theirs(estimator: str, samples: torch.Tensor = samples) -> torch.Tensor:
            return scoringrules.crps_ensemble(
                outcome[:, 0], samples[..., 0], estimator=estimator, backend="torch"
            ).mean()

        def both(score: object, samples: torch.Tensor = samples) -> object:
            return lambda: torch.autograd.grad(score(), samples)  # type: ignore[operator]

        estimators = ("pwm", "fair") if members <= 50 else ("pwm",)  # all pairs of 500 take gigabytes
        rivals = {f"scoringrules {name}": both(lambda name=name: theirs(name)) for name in estimators}
        timing = interleave(both(ours), rivals, rounds=15)
        difference = (ours().double() - theirs("pwm").double()).abs().item()
        gradients = (torch.autograd.grad(ours(), samples)[0] - torch.autograd.grad(theirs("pwm"), samples)[0]).abs()
        rows.append(
            {"cases": CASES, "members": members}
            | timing.row()
            | {"difference": difference, "gradient difference": CASES * gradients.max().item()}
        )
        print(rows[-1], flush=True)
    return rows


if __name__ == "__main__":
    run()
