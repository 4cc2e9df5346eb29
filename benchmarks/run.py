"""All the CPU figures of benchmarks/README.md in one run.

    python -m benchmarks.run [--json benchmarks/results/cpu.json]      (= make bench)

Prints Markdown tables and writes the same as JSON. Ratios are medians of interleaved repeats.
"""

import argparse
import json
import platform
from pathlib import Path

import torch

from benchmarks import accuracy, bias, crps, layers, training_step
from benchmarks.timing import processor


def table(title: str, rows: list[dict[str, object]]) -> str:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    lines = [f"\n## {title}\n", "| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for row in rows:
        lines.append("| " + " | ".join(text(row.get(name, "")) for name in columns) + " |")
    return "\n".join(lines)


def text(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "results" / "cpu.json")
    parser.add_argument("--sets", type=int, default=1_000_000)
    arguments = parser.parse_args()
    software = f"Python {platform.python_version()}, torch {torch.__version__}"
    machine = f"{processor()}, {torch.get_num_threads()} threads, {software}"
    results = {
        "Actions and gradients against a float64 brute force": accuracy.run(arguments.sets),
        "The decision layer, forward and backward": layers.run(),
        "CRPS, forward and backward": crps.run(),
        "A training step": training_step.run(),
        "Bias of the decision score at M members": bias.run(),
    }
    print(f"\nMachine: {machine}")
    for title, rows in results.items():
        print(table(title, rows))
    arguments.json.write_text(json.dumps({"machine": machine, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
