"""Sampling of the diffusion model: all cases and members in one call against one chain of all cases at a time.

    python -m benchmarks.sampling [--device cuda] [--json FILE]

500 members of 1,460 cases (a year of six-hourly forecasts) by 100 steps, the paper's size: 3 features, 1 outcome, FiLM
5 x 50, 8 noise. The loop calls the same model's `sample(features, 1)`, so that it has the library's network and chain.
Both take turns and ratios are medians over the turns. A turn on a CPU is a tenth of the cases, some dozen chunks, and
2 of the loop's 500 calls; on a GPU all cases and 20 calls; both scaled. Peak memory is what one call for all cases adds
to the process, or to the device, by a chain of 2 steps, which holds as much as one of 100.
"""

import argparse
import json
import resource
import statistics
from pathlib import Path

import torch

import stakes
from benchmarks.timing import seconds

CASES, FEATURES, MEMBERS = 1460, 3, 500


def peak_bytes(device: str) -> int:
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def run(device: str = "cpu") -> dict[str, object]:
    pieces, chains, turns = (1, 20, 5) if device == "cuda" else (10, 2, 10)
    torch.manual_seed(0)
    model = stakes.DiffusionModel(FEATURES, 1).to(device)
    features = torch.randn(CASES, FEATURES, device=device)
    generator = torch.Generator(device).manual_seed(0)

    def ours() -> object:
        return model.sample(features[: CASES // pieces], MEMBERS, generator)

    def loop() -> object:
        return torch.cat([model.sample(features, 1, generator) for _ in range(chains)], 1)

    loop()  # loads what a first call loads
    before = peak_bytes(device)
    model.sample(features, MEMBERS, generator, steps=2)
    peak = peak_bytes(device) - before
    ours()
    taken = [(pieces * seconds(ours, 1), MEMBERS / chains * seconds(loop, 1)) for _ in range(turns)]
    mine, theirs = (statistics.median(each) for each in zip(*taken, strict=True))
    row: dict[str, object] = {
        "device": torch.cuda.get_device_name() if device == "cuda" else f"{torch.get_num_threads()} CPU threads",
        "cases": CASES,
        "members": MEMBERS,
        "steps": model.schedule.steps,
        "sample, s": round(mine, 3),
        f"loop, s, scaled from {chains} chains": round(theirs, 2),
        "turns": turns,
        "loop / sample": round(statistics.median(each / own for own, each in taken), 2),
        "peak MiB of sample": round(peak / 2**20, 1),
    }
    print(json.dumps(row), flush=True)
    return row


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    results = run(arguments.device)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")
