"""Fair timing on a noisy machine: candidates take turns, and ratios are medians over the rounds."""

import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch


@dataclass(frozen=True)
class Timing:
    milliseconds: dict[str, float]  # median of each candidate
    ratios: dict[str, float]  # median over rounds of candidate / reference

    def row(self) -> dict[str, float]:
        row = {f"{name} ms": round(value, 4) for name, value in self.milliseconds.items()}
        return row | {f"{name} / ours": round(value, 2) for name, value in self.ratios.items()}


def interleave(
    ours: Callable[[], object], rivals: dict[str, Callable[[], object]], rounds: int = 15, least_seconds: float = 0.02
) -> Timing:
    """Time `ours` and every rival in turn, each for `least_seconds` or one call a round; ratios rival / ours."""
    candidates = {"ours": ours, **rivals}
    repeats = {}
    for name, candidate in candidates.items():
        candidate()
        repeats[name] = max(1, round(least_seconds / seconds(candidate, 1)))
    taken: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, candidate in candidates.items():
            taken[name].append(seconds(candidate, repeats[name]))
    return Timing(
        {name: 1e3 * statistics.median(values) for name, values in taken.items()},
        {
            name: statistics.median(theirs / mine for theirs, mine in zip(taken[name], taken["ours"], strict=True))
            for name in rivals
        },
    )


def seconds(candidate: Callable[[], object], repeats: int) -> float:
    synchronise()
    start = time.perf_counter()
    for _ in range(repeats):
        candidate()
    synchronise()
    return (time.perf_counter() - start) / repeats


def synchronise() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def processor() -> str:
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    return next((line.split(":")[1].strip() for line in lines if "model name" in line), platform.processor())
