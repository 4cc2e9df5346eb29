"""Whether a decision that looks through the reverse chain mends what training noise level by noise level cannot.

    python -m reproduction.benchmarks.chain [--epochs 300] [--seeds 3] [--device cuda] [--json FILE]

Trains the diffusion model of the synthetic task, with the paper's settings and one data set, at one decision weight:
with the decision at each noise level (the paper), through the last 3 of 10 steps of the chain, by the chain's score
function, and through all 10 steps on the cost alone (as Diffusion-DFL); beside weight 0. Judged against the truth.
"""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from reproduction.runs.evaluations import sampled_members, task_metrics
from reproduction.runs.settings import prepare, run_from_plain, task_data
from stakes.evaluation.intervals import Resampling
from stakes.training.trainer import train

_METHODS: Mapping[str, tuple[float, Mapping[str, Any]]] = {  # the decision weight, None for that which is asked for
    "score alone": (0.0, {}),
    "decision at each noise level": (-1.0, {}),
    "through the last 3 of 10 steps": (-1.0, {"chain_steps": 10, "chain_gradient": 3}),
    "by the chain's score function": (-1.0, {"chain_steps": 10, "chain_gradient": 0}),
    "cost alone through all 10 steps": (1.0, {"chain_steps": 10, "chain_gradient": 10}),
}
_MEASURES = ("energy_score", "cost", "regret", "tracking", "mass_hazard", "gap")
_MEMBERS = 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--weight", type=float, default=0.9)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    values: dict[str, dict[str, np.ndarray]] = {}
    record: dict[str, Any] = {"epochs": chosen.epochs, "seeds": chosen.seeds, "weight": chosen.weight, "methods": {}}
    for name, (weight, model) in _METHODS.items():
        used = chosen.weight if weight < 0 else weight
        values[name] = _judged(used, model, chosen.epochs, chosen.seeds, chosen.device)
        record["methods"][name] = {"weight": used} | _compared(values[name], values["score alone"])
        shown = ", ".join(f"{key} {value[0]:.4f}" for key, value in record["methods"][name].items() if key != "weight")
        print(f"{name} (weight {used:g}): {shown}", flush=True)
        if chosen.json is not None:
            chosen.json.write_text(json.dumps(record, indent=1) + "\n")


def _judged(weight: float, model: Mapping[str, Any], epochs: int, seeds: int, device: str) -> dict[str, np.ndarray]:
    """The measures of every test case, (seeds, cases) each."""
    training = {"epochs": epochs, "validate_every": epochs, "validation_members": 10, "keep": "last"}
    settings = {"task": "synthetic", "model": {"name": "diffusion", **model}, "training": training}
    runs = [run_from_plain({**settings, "decision_weight": weight, "seed": seed}) for seed in range(seeds)]
    trained = train([prepare(run) for run in runs], runs[0].training, device=device)
    data = task_data(runs[0].task)
    rows = []
    for run, result in zip(runs, trained, strict=True):
        result.replica.model.load_state_dict(result.weights)
        members = sampled_members(result.replica.model, data.test, _MEMBERS, run.seed)  # type: ignore[arg-type]
        rows.append(task_metrics(run.task, data.test, members))
    return {name: np.stack([row[name].double().numpy() for row in rows]) for name in _MEASURES}


def _compared(values: Mapping[str, np.ndarray], base: Mapping[str, np.ndarray]) -> dict[str, list[float]]:
    """The mean of each measure, and its paired difference from the score alone with a 95 % interval."""
    found = {}
    for name, array in values.items():
        resampling = Resampling(array.shape[1], array.shape[0])
        mean, before = resampling.pair(array[None], base[name][None])
        found[name] = [mean.estimate, *map(float, (mean - before).interval())]
    return found


if __name__ == "__main__":
    main()
