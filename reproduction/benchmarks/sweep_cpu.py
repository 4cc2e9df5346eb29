"""A sweep of nine replicas on this machine's cores against the same runs one by one in eager torch.

    python -m reproduction.benchmarks.sweep_cpu [--epochs 60] [--json FILE]

Synthetic task, both models, batch 200, M = 10, weights 0.1 to 0.9. "one by one" is what a user would write today, with
all threads torch takes by default: torch.optim.Adam, 50 steps of projected gradient, a CRPS over all pairs of members.
The sweep runs through `run_sweep`, worker processes, validations, metrics and checkpoints included; its time is that of
the slowest worker from its first step on. "On the score alone" leaves out the decision altogether: no decision layer
can make the sweep faster than that. Rounds take turns, ratios are medians.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import torch

import stakes
from benchmarks.layers import protection
from benchmarks.replicas import paper_style
from reproduction.runs.folder import RunFolder
from reproduction.runs.jobs import Execution
from reproduction.runs.sweep import read_sweep, run_sweep
from reproduction.tasks.synthetic import SyntheticTask

BATCH, MEMBERS, WEIGHTS = 200, 10, [round(0.1 * tenth, 1) for tenth in range(1, 10)]


def one_by_one(kind: str, seconds: float) -> float:
    """Replica-steps per second of the paper's loop, one model after the other."""
    task = SyntheticTask()
    data = task.data().train
    done, start = 0, time.perf_counter()
    for weight in WEIGHTS:
        torch.manual_seed(0)
        model = (stakes.ImplicitModel if kind == "implicit" else stakes.DiffusionModel)(1, 1)
        model.fit_scaling(data.features, data.outcome)
        loss = paper_style(protection, weight)
        optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
        until = time.perf_counter() + seconds / len(WEIGHTS)
        while time.perf_counter() < until:
            for rows in torch.randperm(len(data)).split(BATCH):
                noise = model.draw_noise(BATCH, MEMBERS)
                value = loss(model.training_draw(data.features[rows], data.outcome[rows], noise))
                optimiser.zero_grad()
                value.backward()
                optimiser.step()
                done += 1
    return done / (time.perf_counter() - start)


def sweep(kind: str, epochs: int, score_only: bool = False) -> float:
    """Replica-steps per second of the sweep, or of nine seeds in pre-training, where no action is solved at all."""
    training = {"epochs": 1, "pretraining_epochs": epochs} if score_only else {"epochs": epochs}
    grid = {"seed": list(range(len(WEIGHTS)))} if score_only else {"decision_weight": WEIGHTS}
    settings = {"task": "synthetic", "model": kind, "training": training, "grid": grid}
    with tempfile.TemporaryDirectory() as folder:
        planned = read_sweep(settings)
        run_sweep(planned, Path(folder), Execution("cpu", quiet=True))
        states = [RunFolder(Path(folder) / "runs" / name).state() for name in planned.runs]
        return sum(state.steps for state in states) / max(state.seconds for state in states)


def run(epochs: int, rounds: int = 3) -> list[dict[str, object]]:
    rows = []
    for kind in ("implicit", "diffusion"):
        rates = [(one_by_one(kind, 9.0), sweep(kind, epochs), sweep(kind, epochs, True)) for _ in range(rounds)]
        before, after, limit = (statistics.median(each) for each in zip(*rates, strict=True))
        row: dict[str, object] = {
            "model": kind,
            "one by one, replica-steps a second": round(before, 1),
            "sweep, replica-steps a second": round(after, 1),
            "sweep on the score alone": round(limit, 1),
            "ratio": round(statistics.median(mine / theirs for theirs, mine, _ in rates), 2),
            "ratio on the score alone": round(statistics.median(mine / theirs for theirs, _, mine in rates), 2),
        }
        rows.append(row)
        print(json.dumps(row), flush=True)
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    results = run(arguments.epochs)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")
