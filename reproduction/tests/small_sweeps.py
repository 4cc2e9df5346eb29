"""Settings of sweeps that train in a moment, and what their folders hold."""

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reproduction.runs import sweep
from reproduction.runs.folder import RunFolder
from reproduction.runs.jobs import Execution
from reproduction.runs.stacks import Stack, train_folders
from reproduction.runs.sweep import Sweep, read_sweep, run_sweep
from stakes.files import read_json

TRAINING = {"epochs": 3, "validate_every": 1, "members": 2, "validation_members": 4, "batch": 400}
TINY = {"task": "synthetic", "model": {"hidden": 4, "layers": 1, "noise": 2}, "training": TRAINING}
LONG: dict[str, Any] = {**TINY, "training": {**TRAINING, "epochs": 12, "batch": 1600}}  # an eighth of a second
GRID = {"decision_weight": [0, 0.3], "task.false_alarm_ratio": [0.5, 0.2], "model.hidden": [4, 5]}
ONE = Execution("cpu", workers=1, quiet=True)
OF_COST = ("decision", "cost", "expected_cost", "at_lower", "at_upper", "flagged")
TWO_STACKS = read_sweep({**LONG, "decision_weight": 0.5, "grid": {"model.hidden": [4, 5], "seed": [0, 1]}})


def toml(values: Mapping[str, Any], prefix: str = "") -> str:
    """Plain values as dotted keys of a TOML file."""
    lines = []
    for name, value in values.items():
        key = f"{prefix}{json.dumps(name)}"
        lines.append(toml(value, f"{key}.") if isinstance(value, Mapping) else f"{key} = {json.dumps(value)}")
    return "\n".join(lines)


def written(folder: Path, values: Mapping[str, Any]) -> Path:
    file = folder / "settings.toml"
    file.write_text(toml(values))
    return file


def planned(folder: Path, points: Sweep, processes: int = 1) -> list[tuple[str, ...]]:
    stacks = sweep._planned(folder, points.runs, Execution("cpu", workers=processes))
    assert [list(stack.runs) for stack in stacks if set(stack.runs) & points.runs.keys()] == [
        names for names in read_json(folder / "plan.json") if set(names) & points.runs.keys()
    ]
    return [stack.runs for stack in stacks]


def train_here(points: Sweep, folder: Path) -> None:
    for name, run in points.runs.items():
        RunFolder(folder / "runs" / name).create(run)
    for names in planned(folder, points):
        stack = Stack(folder, names)
        train_folders(stack.folders(), stack.checkpoints, "cpu", 30.0, lambda: False)
    run_sweep(points, folder, ONE)


# Results


def table(folder: Path) -> list[dict[str, str]]:
    with (folder / "table.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def without_seconds(folder: Path) -> list[dict[str, str]]:
    return [{name: value for name, value in row.items() if name != "seconds"} for row in table(folder)]


def results(folder: Path) -> dict[str, tuple[bytes, bytes]]:
    """Weights and metrics of the runs under a folder, by their names."""
    found = {file.parent: file.read_bytes() for file in folder.rglob("weights.safetensors")}
    return {run.name: (weights, (run / "metrics.jsonl").read_bytes()) for run, weights in found.items()}


def stamps(folder: Path) -> dict[str, tuple[int, int]]:
    files = (file for name in ("weights.safetensors", "state.json", "metrics.jsonl") for file in folder.rglob(name))
    return {str(file.relative_to(folder)): (file.stat().st_ino, file.stat().st_mtime_ns) for file in files}
