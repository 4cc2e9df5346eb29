"""What a sweep cost: runs, epochs, steps and seconds by task and model, from its table.

python -m reproduction.benchmarks.sweep_summary FOLDER/table.csv [--json FILE]
"""

import argparse
import csv
import json
import statistics
from pathlib import Path


def summarise(table: Path) -> list[dict[str, object]]:
    """One row per task and model; a stack's seconds are those of its last replica."""
    distinct = {row["run"]: row for row in csv.DictReader(table.open())}
    groups: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in distinct.values():
        groups.setdefault((row["task"], row["model"]), []).append(row)
    return [
        {
            "task": task,
            "model": model,
            "runs": len(rows),
            "stopped early": sum(row["status"] == "stopped early" for row in rows),
            "failed": sum(row["status"] == "failed" for row in rows),
            "median epochs": statistics.median_low(int(row["epoch"]) for row in rows),
            "median best epoch": statistics.median_low(int(row["best_epoch"]) for row in rows),
            "replica-steps": sum(int(row["steps"]) for row in rows),
            "seconds": round(max(float(row["seconds"]) for row in rows)),
        }
        for (task, model), rows in groups.items()
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", type=Path)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    results = summarise(arguments.table)
    for row in results:
        print(json.dumps(row))
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")
