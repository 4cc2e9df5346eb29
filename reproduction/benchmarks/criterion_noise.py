"""How noisy the validation of a diffusion model is by its noise levels, against the differences that it decides.

    python -m reproduction.benchmarks.criterion_noise [--epochs 400] [--json FILE]

Trains one model of the synthetic task (the paper's settings, weight 0.95) and takes its validation loss at two epochs
with many draws of the noise, at one noise level a case and at sixteen.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import torch

from reproduction.runs.settings import prepare, run_from_plain
from stakes.training.replicas import ReplicaStack
from stakes.training.trainer import estimate_scales, train, validate

_LEVELS, _DRAWS = (1, 16), 40


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=400)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    training = {"epochs": chosen.epochs, "validation_members": 10, "keep": "last"}
    run = run_from_plain({"task": "synthetic", "decision_weight": 0.95, "training": training})
    replica = prepare(run)
    stack = ReplicaStack([replica], run.training, torch.device("cpu"))
    scales = estimate_scales(stack, stack.initial_parameters())
    found: dict[str, float] = {}
    losses = {}
    for epochs in (chosen.epochs // 2, chosen.epochs):
        settings = replace(run.training, epochs=epochs)
        (trained,) = train([prepare(run)], settings)
        trained.replica.model.load_state_dict(trained.weights)
        for levels in _LEVELS:
            losses[epochs, levels] = torch.tensor(
                [_loss(trained.replica, replace(settings, validation_draws=levels), scales, s) for s in range(_DRAWS)]
            )
    for levels in _LEVELS:
        before, after = (losses[epochs, levels] for epochs in (chosen.epochs // 2, chosen.epochs))
        found |= {
            f"loss at epoch {chosen.epochs}, {levels} levels": float(after.mean()),
            f"standard deviation over draws, {levels} levels": float(after.std()),
            f"gain since epoch {chosen.epochs // 2}, {levels} levels": float((before - after).mean()),
            f"standard deviation of that gain over draws, {levels} levels": float((before - after).std()),
        }
    for name, value in found.items():
        print(f"{name}: {value:.4f}")
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(found, indent=1) + "\n")


def _loss(replica: object, settings: object, scales: torch.Tensor, seed: int) -> float:
    """The validation loss with the noise of a seed."""
    stack = ReplicaStack([replace(replica, seed=seed)], settings, torch.device("cpu"))  # type: ignore[type-var, arg-type]
    return float(validate(stack, stack.initial_parameters(), scales)["loss"])


if __name__ == "__main__":
    main()
