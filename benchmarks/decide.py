"""Decisions of a fitted forecaster against the same forward pass with 200 steps of projected gradient.

    python -m benchmarks.decide [--json FILE]

10,000 rows, 500 members, the estimator's implicit model (5 x 50), 20 features. `decide` solves part by part as the
members come; the other samples the same members and solves them in the same parts with the paper's layer at the step
1 / L that is safe for the cost. Both take turns; ratios are medians over the turns.
"""

import argparse
import json
import statistics
from pathlib import Path

import numpy as np
import torch

import stakes
from benchmarks.timing import seconds
from stakes.models.sample_model import pooled_parts
from stakes.training.settings import TrainingSettings

ROWS, FEATURES, MEMBERS, STEPS, TURNS = 10_000, 20, 500, 200, 3
COSTS = {
    "shortfall": (stakes.ShortfallCost(5.0), 1 / (2 * 5.0)),
    "imbalance": (stakes.ImbalanceCost(10.0, 1.0, lower=0.0, upper=2.0), 1 / (2 * 10.0)),
    "protection": (stakes.ProtectionCost(threshold=0.5, false_alarm_ratio=0.3), 1 / 2.0),
}


def run(name: str) -> dict[str, object]:
    cost, step = COSTS[name]
    random = np.random.default_rng(0)
    table = random.uniform(size=(ROWS, FEATURES))
    outcome = np.clip(table.mean(1) + 0.2 * random.normal(size=ROWS), 0, 1)
    few = TrainingSettings(epochs=1, pretraining_epochs=1, validate_every=1)
    forecaster = stakes.DecisionAwareForecaster(cost, decision_weight=0.3, training=few, random_state=0)
    forecaster.fit(table[:2000], outcome[:2000])
    solver = stakes.ProjectedGradient(steps=STEPS, step_size=step)
    features = torch.from_numpy(table).float()
    models, seed = forecaster.forecast_.models, forecaster.forecast_.state.noise_seed

    def ours() -> np.ndarray:
        return forecaster.decide(table)

    def theirs() -> np.ndarray:
        parts = pooled_parts(models, features, MEMBERS, seed)
        return torch.cat([stakes.solve_action(cost, members, solver).action[:, 0] for _, members in parts]).numpy()

    def members() -> object:
        return [part for _, part in pooled_parts(models, features, MEMBERS, seed)]

    apart = float(np.abs(ours() - theirs()).max())
    taken = [(seconds(ours, 1), seconds(theirs, 1), seconds(members, 1)) for _ in range(TURNS)]
    mine, other, forward = (statistics.median(each) for each in zip(*taken, strict=True))
    row: dict[str, object] = {
        "cost": name,
        "device": f"{torch.get_num_threads()} CPU threads",
        "rows": ROWS,
        "members": MEMBERS,
        "decide, s": round(mine, 2),
        "forward pass alone, s": round(forward, 2),
        f"with {STEPS} steps of projected gradient, s": round(other, 2),
        "turns": TURNS,
        "ratio": round(statistics.median(each / own for own, each, _ in taken), 1),
        "largest difference of actions": float(f"{apart:.1e}"),
    }
    print(json.dumps(row), flush=True)
    return row


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    results = [run(name) for name in COSTS]
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")
