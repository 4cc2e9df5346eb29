"""Draw the throughput of stacks from `benchmarks/results/replicas_gpu.json`.

pip install --constraint constraints.txt -e ".[benchmarks]"
python -m benchmarks.plot_replicas        writes docs/figures/replicas.svg
"""

import json
from pathlib import Path

import matplotlib.pyplot as plt

ROOT = Path(__file__).parent.parent
COLOURS = {"implicit": "#0072B2", "diffusion": "#D55E00"}  # told apart by the colour-blind too
MARKERS = {"implicit": "o", "diffusion": "s"}


def draw(results: dict[str, list[dict[str, float]]], path: Path) -> None:
    figure, (by_replicas, by_members) = plt.subplots(1, 2, figsize=(7.2, 3.0), sharey=True, layout="constrained")
    for eager in results["eager"]:
        kind = eager["model"]
        style = {"color": COLOURS[kind], "marker": MARKERS[kind]}
        stacks = [row for row in results["stacks"] if row["model"] == kind]
        for axes, fixed, moving in ((by_replicas, ("M", 10), "R"), (by_members, ("R", 54), "M")):
            rows = sorted((row for row in stacks if row[fixed[0]] == fixed[1]), key=lambda row: row[moving])
            rates = [row["replica-steps a second"] for row in rows]
            axes.plot([row[moving] for row in rows], rates, label=f"{kind}, stack", **style)
        by_replicas.axhline(eager["with our objective"], color=COLOURS[kind], linestyle="--", linewidth=1)
        by_replicas.axhline(eager["one by one"], color=COLOURS[kind], linestyle=":", linewidth=1)
    by_replicas.plot([], [], color="0.4", linestyle="--", linewidth=1, label="one by one, our objective")
    by_replicas.plot([], [], color="0.4", linestyle=":", linewidth=1, label="one by one, paper's layer")
    by_replicas.set(xscale="log", yscale="log", xlabel="replicas R in a stack (M = 10)", xticks=[1, 9, 54, 162])
    by_replicas.set_ylabel("replica-steps a second")
    by_members.set(xscale="log", xlabel="members M in training (R = 54)", xticks=[10, 50, 200])
    for axes in (by_replicas, by_members):
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_locator(plt.NullLocator())
        axes.grid(alpha=0.3)
    by_replicas.legend(fontsize=7, loc="center right")
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path)


if __name__ == "__main__":
    results = json.loads((ROOT / "benchmarks" / "results" / "replicas_gpu.json").read_text())
    draw(results, ROOT / "docs" / "figures" / "replicas.svg")
