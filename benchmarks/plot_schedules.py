"""Draw how the time of a schedule grows from `benchmarks/results/schedules_cpu.json`.

pip install --constraint constraints.txt -e ".[benchmarks]"
python -m benchmarks.plot_schedules        writes docs/figures/schedules.svg
"""

import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

ROOT = Path(__file__).parent.parent
COLOURS = {"exact ms": "#0072B2", "interior point ms": "#D55E00"}  # told apart by the colour-blind too
MARKERS = {"exact ms": "o", "interior point ms": "s"}


def draw(growth: dict[str, list[dict[str, Any]]], path: Path) -> None:
    figure, panels = plt.subplots(1, 2, figsize=(7.2, 3.0), sharey=True, layout="constrained")
    for axes, by in zip(panels, ("members", "hours"), strict=True):
        rows = growth[f"by {by}"]
        for name, colour in COLOURS.items():
            style = {"color": colour, "marker": MARKERS[name], "markersize": 4}
            axes.plot([row[by] for row in rows], [row[name] for row in rows], label=name.removesuffix(" ms"), **style)
        axes.set(xscale="log", yscale="log")
        axes.grid(alpha=0.3)
    panels[0].set(xlabel="members M (24 hours)", ylabel="ms a schedule, with gradient")
    panels[1].set(xlabel="hours A (50 members)")
    panels[1].legend(fontsize=7)
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path)


if __name__ == "__main__":
    measured = json.loads((ROOT / "benchmarks" / "results" / "schedules_cpu.json").read_text())
    draw(measured["growth"], ROOT / "docs" / "figures" / "schedules.svg")
