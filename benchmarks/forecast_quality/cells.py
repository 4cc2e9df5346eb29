"""One forecast on one problem with one seed, judged row by row, and kept in a folder so that a run can be continued."""

import io
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.forecast_quality.ours import OURS
from benchmarks.forecast_quality.problems import Problem, problems
from benchmarks.forecast_quality.rivals import RIVALS
from stakes import energy_score, optimal_action
from stakes.costs.cost import Cost, outcome_total
from stakes.files import write_atomically

__all__ = ["FORECASTS", "MEMBERS", "Cell", "judged"]

FORECASTS: Mapping[str, Callable[[Problem, int, int], Any]] = {**RIVALS, **OURS}
"""All forecasts by name."""

MEMBERS = 200
"""Of every forecast."""

_ROWS_AT_ONCE = 100


@dataclass(frozen=True)
class Cell:
    """A forecast of a problem, by their names, and what all that is random depends on."""

    problem: str
    forecast: str
    seed: int

    def file(self, folder: Path) -> Path:
        words = f"{self.problem} {self.forecast} {self.seed}".lower()
        return folder / ("".join(letter if letter.isalnum() else "_" for letter in words) + ".npz")

    def run(self, folder: Path, reference: Path | None) -> float:
        """Make the forecast, judge it and keep what came of it; the seconds of one core that a fit took."""
        torch.set_num_threads(1)
        problem = problems(reference)[self.problem]()
        start = time.process_time()
        members = FORECASTS[self.forecast](problem, MEMBERS, self.seed)
        fits = 1 if isinstance(members, np.ndarray) else len(members)
        seconds = (time.process_time() - start) / fits
        content = io.BytesIO()
        arrays = {
            f"{label}:{metric}": values
            for label, of in judged(problem, members).items()
            for metric, values in of.items()
        }
        np.savez(content, seconds=seconds, times=problem.times[problem.test_rows], **arrays)
        write_atomically(self.file(folder), content.getvalue())
        return seconds

    def attempt(self, folder: Path, reference: Path | None, end: float = math.inf) -> str:
        """Run unless it is later than `end`; what came of it, in words: a forecast that fails ends no others."""
        if time.time() > end:
            return "left for another time"
        try:
            return f"{self.run(folder, reference):.1f} s"
        except Exception as error:
            return f"FAILED: {error!r}"

    def kept(self, folder: Path) -> dict[str, dict[str, NDArray[Any]]] | None:
        """What `run` kept, `judged` with `times` (N,) and `seconds` beside; None where it has not run."""
        if not self.file(folder).exists():
            return None
        with np.load(self.file(folder)) as file:
            arrays = dict(file)
        beside = {name: arrays.pop(name) for name in ("times", "seconds")}
        by_label: dict[str, dict[str, NDArray[Any]]] = {}
        for name, values in arrays.items():
            label, _, metric = name.rpartition(":")
            by_label.setdefault(label, dict(beside))[metric] = values
        return by_label


def judged(
    problem: Problem, members: NDArray[np.float64] | Mapping[str, NDArray[np.float64]]
) -> dict[str, dict[str, NDArray[np.float64]]]:
    """What members (N, M, D), the same for all costs or those of each, are worth, row by row, by the name of each cost.

    `score` is the energy score in standard deviations of the training outcomes, that of the very members, since a fair
    one would flatter those that are chosen and not drawn; `gap` the predicted less the realised
    `cost`; of the total there are the `variance` and the squared `error`.
    """
    scale = torch.from_numpy(problem.outcomes[: problem.train].std(0))
    outcomes = torch.from_numpy(problem.outcomes[problem.test_rows]).split(_ROWS_AT_ONCE)
    by_label: dict[str, dict[str, NDArray[np.float64]]] = {}
    for label, cost in problem.costs.items():
        of_cost = members if isinstance(members, np.ndarray) else members[label]
        rows = list(zip(torch.from_numpy(of_cost).split(_ROWS_AT_ONCE), outcomes, strict=True))
        parts = [_decided(cost, drawn, outcome) for drawn, outcome in rows]
        by_label[label] = {name: torch.cat([part[name] for part in parts]).numpy() for name in parts[0]}
        score = [energy_score(drawn / scale, outcome / scale, "biased") for drawn, outcome in rows]
        by_label[label]["score"] = torch.cat(score).numpy()
    return by_label


def _decided(cost: Cost, drawn: Tensor, outcome: Tensor) -> dict[str, Tensor]:
    action = optimal_action(cost, drawn)
    paid, of_total = cost(action, outcome), outcome_total(cost, drawn)
    return {
        "cost": paid,
        "gap": cost(action, drawn.movedim(-2, 0)).mean(0) - paid,
        "variance": of_total.var(-1),
        "error": (of_total.mean(-1) - outcome_total(cost, outcome)) ** 2,
    }
