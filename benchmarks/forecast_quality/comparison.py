"""From forecasts judged row by row to one table: who is better than ours, by how much, and how sure that is."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from stakes.evaluation.intervals import Resampling, Sampled, block_length

__all__ = ["LEVEL", "compared", "geometric_mean", "holm", "p_value", "summary"]

Floats = NDArray[np.float64]
Judged = Mapping[str, NDArray[Any]]
"""Metrics (S, N) of a forecast of one problem by name, with `times` (N,) and `seconds` (S,)."""

LEVEL = 0.05
"""Of the tests of the whole table."""

_LEAST_SEEDS = 3  # fewer tell nothing of others: their mean is compared over time alone


def compared(problem: Mapping[str, Judged], ours: str) -> dict[str, dict[str, Any]]:
    """Every forecast of a problem, and the paired difference of each from ours, over time and seeds."""
    seeds = max(len(judged["score"]) for judged in problem.values())
    seeds = seeds if seeds >= _LEAST_SEEDS else 1
    times = problem[ours]["times"]
    resampling = Resampling(len(times), seeds, block=block_length(len(times), times))
    means = {name: _means(judged, seeds, resampling) for name, judged in problem.items()}
    return {
        name: _row(of_forecast, None if name == ours else means[ours])
        | {"seconds": float(np.mean(problem[name]["seconds"])), "seeds": len(problem[name]["score"])}
        for name, of_forecast in means.items()
    }


def _means(judged: Judged, seeds: int, resampling: Resampling) -> dict[str, Sampled]:
    """Of all seeds, or of the mean over the few there are; what does not depend on a seed is the same with each."""
    names = ("score", "cost", "gap", "variance", "error")
    of_seeds = [judged[name] if seeds > 1 else judged[name].mean(0) for name in names]
    values = [np.broadcast_to(each, (seeds, resampling.cases)) for each in of_seeds]
    return dict(zip(names, resampling.means(np.stack(values)[:, None]), strict=True))


def _row(means: Mapping[str, Sampled], ours: Mapping[str, Sampled] | None) -> dict[str, Any]:
    row: dict[str, Any] = {
        "score": means["score"].estimate,
        "cost": means["cost"].estimate,
        "gap": list(means["gap"].interval()),
        "spread": math.sqrt(means["variance"].estimate / means["error"].estimate),
    }
    if ours is None:
        return row
    for metric in ("score", "cost"):
        difference = means[metric] - ours[metric]
        row[f"{metric} less ours"] = list(difference.interval())
        row[f"{metric} p"] = p_value(difference)
    return row


def p_value(difference: Sampled) -> float:
    """Two-sided, by Student's t, as the interval is."""
    if difference.error == 0.0:
        return 1.0 if difference.estimate == 0.0 else 0.0
    return float(2 * student.sf(abs(difference.estimate) / difference.error, difference.degrees_of_freedom))


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted by Holm's method: below 0.05, one is significant however many were looked at.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    factors = np.arange(len(p_values), 0, -1)
    adjusted = np.minimum(np.maximum.accumulate(np.asarray(p_values, dtype=np.float64)[order] * factors), 1.0)
    return [float(value) for value in adjusted[np.argsort(order, kind="stable")]]


def geometric_mean(values: Sequence[float]) -> float:
    """Of positive numbers; NaN of none.

    >>> round(geometric_mean([0.5, 2.0, 1.0]), 12)
    1.0
    """
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def summary(
    table: Mapping[str, Mapping[str, dict[str, Any]]], ours: str, rivals: Sequence[str], before: str | None
) -> dict[str, Any]:
    """Where a rival is significantly better than ours, and ratios of scores; adds `... adjusted` p-values to the rows.

    Holm's method takes all comparisons with all rivals on all problems, of score and cost, for one table.
    """
    cells = [
        (problem, rival, metric)
        for problem, rows in table.items()
        for rival in rivals
        if rival in rows
        for metric in ("score", "cost")
    ]
    adjusted = holm([table[problem][rival][f"{metric} p"] for problem, rival, metric in cells])
    for (problem, rival, metric), p in zip(cells, adjusted, strict=True):
        table[problem][rival][f"{metric} p adjusted"] = p
    lost = [
        {
            "problem": problem,
            "rival": rival,
            "metric": metric,
            "difference": table[problem][rival][f"{metric} less ours"],
        }
        for problem, rival, metric in cells
        if table[problem][rival][f"{metric} less ours"][0] < 0
    ]
    of = [table[each["problem"]][each["rival"]] for each in lost]
    best = {
        problem: min((rows[rival]["score"], rival) for rival in rivals if rival in rows)
        for problem, rows in table.items()
        if any(rival in rows for rival in rivals)
    }
    summary: dict[str, Any] = {
        "rival significantly better": [
            each for each, row in zip(lost, of, strict=True) if row[f"{each['metric']} p adjusted"] < LEVEL
        ],
        "rival better at 5 %, taken alone": [
            each for each, row in zip(lost, of, strict=True) if row[f"{each['metric']} p"] < LEVEL
        ],
        "best rival": {problem: rival for problem, (_, rival) in best.items()},
        "score over best rival": {
            problem: table[problem][ours]["score"] / score for problem, (score, _) in best.items()
        },
    }
    summary["geometric mean of score over best rival"] = geometric_mean(list(summary["score over best rival"].values()))
    if before is not None:
        for metric in ("score", "seconds"):
            ratios = {name: rows[ours][metric] / rows[before][metric] for name, rows in table.items() if before in rows}
            summary[f"{metric} over before"] = ratios
            summary[f"geometric mean of {metric} over before"] = geometric_mean(list(ratios.values()))
    return summary
