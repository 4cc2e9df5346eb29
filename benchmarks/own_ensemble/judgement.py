"""What forecasts cost on the cases that test, how good they are, and who is better than ours, by how much."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import stakes
from benchmarks.forecast_quality.comparison import LEVEL, holm, p_value
from benchmarks.own_ensemble.problems import Problem
from stakes.costs.cost import Cost
from stakes.evaluation.intervals import Resampling, block_length

__all__ = ["compared", "crps", "dependence_lost", "judged", "summary"]

Floats = NDArray[np.float64]
_PART = 2000  # cases at once
_METRICS = ("cost", "crps", "total_crps")
_LOST = {
    "past errors, dependence lost": "past error vectors",
    "censored regression, order lost": "censored regression, members' order",
}


def crps(members: Floats, outcome: Floats) -> Floats:
    """Of the distribution that is these members, (N, K) against (N,): mean |x - y| less half the mean |x - x'|."""
    count = members.shape[1]
    ordered = np.sort(members, 1)
    apart = ordered @ (2 * np.arange(count) - count + 1) / count**2
    return np.abs(members - outcome[:, None]).mean(1) - apart


def judged(problem: Problem, members: Floats, cost: Cost) -> dict[str, Floats]:
    """What the best actions cost in each case that tests, the CRPS an outcome and that of the total, (N,).

    Members of the total alone have no CRPS of the outcomes, which is then NaN.
    """
    outcomes = problem.outcomes[problem.test]
    count = outcomes.shape[1]
    scores = np.full(len(outcomes), np.nan)
    if members.shape[2] == count:
        scores = np.mean([crps(members[..., place], outcomes[:, place]) for place in range(count)], axis=0)
    return {
        "cost": _costs(cost, members, outcomes),
        "crps": scores,
        "total_crps": crps(members.sum(2), outcomes.sum(1)),
    }


def _costs(cost: Cost, members: Floats, outcomes: Floats) -> Floats:
    paid = []
    for start in range(0, len(members), _PART):
        part, seen = (torch.from_numpy(each[start : start + _PART]) for each in (members, outcomes))
        total = seen if part.shape[-1] == seen.shape[-1] else seen.sum(-1, keepdim=True)
        paid.append(cost(stakes.optimal_action(cost, part.contiguous(), thorough=True), total).numpy())
    return np.concatenate(paid)


def compared(problem: Problem, forecasts: Mapping[str, Mapping[str, Floats]], ours: str) -> dict[str, dict[str, Any]]:
    """Every forecast's means, and how each differs from ours, paired by case, with blocks of neighbouring cases."""
    resampling = _resampling(problem)
    table: dict[str, dict[str, Any]] = {}
    for name, values in forecasts.items():
        row: dict[str, Any] = {}
        for metric in _METRICS:
            if np.isnan(values[metric]).any():
                continue
            first, second = resampling.pair(values[metric][None, None], forecasts[ours][metric][None, None])
            row[metric] = first.estimate
            if name != ours:
                row[f"{metric} less ours"] = list((first - second).interval())
                row[f"{metric} p"] = p_value(first - second)
        table[name] = row
    return table


def dependence_lost(problem: Problem, forecasts: Mapping[str, Mapping[str, Floats]]) -> dict[str, dict[str, Any]]:
    """What losing the dependence of several outcomes changes: of each that lost it, less the one that kept it."""
    resampling = _resampling(problem)
    changes: dict[str, dict[str, Any]] = {}
    for lost, kept in _LOST.items():
        if lost in forecasts:
            pairs = {each: (forecasts[lost][each][None, None], forecasts[kept][each][None, None]) for each in _METRICS}
            means = {metric: resampling.pair(*pair) for metric, pair in pairs.items()}
            changes[lost] = {f"{metric} less kept": list((a - b).interval()) for metric, (a, b) in means.items()}
    return changes


def _resampling(problem: Problem) -> Resampling:
    times = problem.times[problem.test]
    return Resampling(len(times), block=block_length(len(times), times))


def summary(problems: Mapping[str, Mapping[str, dict[str, Any]]], ours: str) -> dict[str, Any]:
    """Who is cheapest and best of each problem, and who is significantly better than ours; adds p-values by Holm.

    All comparisons of cost and of CRPS with all rivals on all problems are one family.
    """
    cells = [
        (problem, name, metric)
        for problem, rows in problems.items()
        for name, row in rows.items()
        for metric in ("cost", "crps")
        if f"{metric} p" in row
    ]
    for (problem, name, metric), p in zip(cells, holm([problems[a][b][f"{c} p"] for a, b, c in cells]), strict=True):
        problems[problem][name][f"{metric} p adjusted"] = p

    def than_ours(better: bool, adjusted: str) -> list[dict[str, Any]]:
        return [
            {"problem": problem, "forecast": name, "metric": metric, "less ours": row[f"{metric} less ours"]}
            for problem, name, metric in cells
            if (row := problems[problem][name])[f"{metric} p{adjusted}"] < LEVEL
            and (row[f"{metric} less ours"][0] < 0) == better
        ]

    return {
        "cheapest": {name: min(rows, key=lambda each: rows[each]["cost"]) for name, rows in problems.items()},
        "significantly better than ours": than_ours(True, " adjusted"),
        "better than ours at 5 %, taken alone": than_ours(True, ""),
        "significantly worse than ours": than_ours(False, " adjusted"),
        "comparisons": len(cells),
    }
