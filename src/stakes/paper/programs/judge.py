"""What a candidate is worth case by case: the cost of its best actions, what was expected, and its score."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stakes.data.cases import Cases
from stakes.method.actions import solve_action
from stakes.method.scores import energy_score
from stakes.paper.programs.methods import Actions, Forecast
from stakes.paper.programs.problem import Measure, Problem

__all__ = ["JUDGED_METRICS", "Judged", "judge"]

Floats = NDArray[np.float64]
Judged = dict[str, Floats]
"""Numbers of each case, (n,), by name: `JUDGED_METRICS` and the measures of the problem; NaN for what is not there."""

JUDGED_METRICS = ("cost", "expected_cost", "energy_score", "certified")
_NUMBERS_AT_ONCE = 1 << 22  # of members
_SCORED = 100  # members of a test case whose energy score is taken: it goes with their square


def judge(problem: Problem, candidate: Forecast | Actions, part: str) -> Judged:
    """The numbers of each case of a part; nothing where the candidate has none of it.

    Args:
        problem: What is decided.
        candidate: Its forecasts or actions.
        part: "validation" or "test".
    """
    cases: Cases = problem.parts[part]
    values: Tensor | None = getattr(candidate, part)
    if values is None:
        return {}
    if isinstance(candidate, Actions):
        known = {name: _floats(each) for name, each in candidate.known.items()} if part == "test" else {}
        return _paid(problem, values, cases.outcome) | _without_forecast(len(cases)) | known
    size = max(1, _NUMBERS_AT_ONCE // values[0].numel())
    pieces = [
        _decided(problem, members, outcome, scored=part == "test" and values.shape[1] > 1)
        for members, outcome in zip(values.split(size), cases.outcome.split(size), strict=True)
    ]
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}


def _decided(problem: Problem, members: Tensor, outcome: Tensor, scored: bool) -> Judged:
    solution = solve_action(problem.cost, members)
    beside = {
        "expected_cost": _floats(solution.expected_cost),
        "energy_score": _scores(members, outcome) if scored else np.full(len(outcome), np.nan),
        "certified": _floats(solution.certified),
    }
    return _paid(problem, solution.action, outcome) | beside


def _scores(members: Tensor, outcome: Tensor) -> Floats:
    every = max(1, members.shape[1] // _SCORED)
    return _floats(energy_score(members[:, ::every], outcome))


def _paid(problem: Problem, action: Tensor, outcome: Tensor) -> Judged:
    seen = outcome.to(action.dtype)
    measures: dict[str, Measure] = {"cost": problem.cost, **problem.measures}
    with torch.no_grad():
        return {name: _floats(measure(action, seen)) for name, measure in measures.items()}


def _without_forecast(count: int) -> Judged:
    return {name: np.full(count, np.nan) for name in ("expected_cost", "energy_score", "certified")}


def _floats(values: Tensor) -> Floats:
    return values.detach().double().numpy()
