"""`stakes.Recalibrator` as it is by default, with all that a user could tell it about the forecasts."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import stakes
from benchmarks.own_ensemble.problems import Problem
from stakes.costs.cost import Cost

__all__ = ["Recalibrated", "recalibrated"]


@dataclass(frozen=True, eq=False)
class Recalibrated:
    """Members of the cases that test, and how they came about.

    Attributes:
        members: Members (N, K, D).
        candidate: The selected candidate, and its parameters.
        candidates: The mean cost of every candidate on the cases that chose.
        seconds: What fitting took of one core.
    """

    members: NDArray[np.float64]
    candidate: str
    candidates: dict[str, float]
    seconds: float


def recalibrated(problem: Problem, cost: Cost, features: bool = True) -> Recalibrated:
    """Learned from the known cases, applied to those that test."""

    def told(rows: NDArray[np.int64]) -> dict[str, Any]:
        table = problem.features.iloc[rows] if features and problem.features is not None else None
        return {"times": problem.times[rows], "issued": problem.issued[rows], "features": table}

    known, test = problem.known, problem.test
    recalibrator = stakes.Recalibrator(cost, outcome_bounds=problem.bounds)
    start = time.process_time()
    recalibrator.fit(problem.members[known], problem.outcomes[known], **told(known))
    seconds = time.process_time() - start
    selection = recalibrator.selection_
    candidates = {candidate.name: candidate.cost for candidate in selection.candidates}
    members = recalibrator.sample(problem.members[test], **told(test))
    return Recalibrated(np.asarray(members, np.float64), selection.selected.name, candidates, seconds)
