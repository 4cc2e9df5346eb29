"""The estimator of this package with its defaults, and trained on its score alone with others."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.forecast_quality.problems import Problem
from stakes import DecisionAwareForecaster

__all__ = ["OURS"]

_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "stakes": {},
    "stakes, networks": {"decision_weight": 0.0},
    "stakes, before": {"decision_weight": 0.0, "base": "none", "refit_on_all_rows": False, "ensemble": 1},
    "stakes, linear model": {"decision_weight": 0.0, "model": "linear"},
}


def forecaster_of(
    settings: Mapping[str, Any], problem: Problem, members: int, seed: int, label: str | None = None
) -> DecisionAwareForecaster:
    """Unfitted, for the cost of this label, by default the first one."""
    step = np.median(np.diff(problem.times[: problem.train])) / np.timedelta64(1, "h")
    cost = next(iter(problem.costs.values())) if label is None else problem.costs[label]
    given = {"gap": round(problem.lead_hours / step), "members": members, "device": "cpu", "random_state": seed}
    return DecisionAwareForecaster(cost, **given, **settings)


def estimator(settings: Mapping[str, Any], problem: Problem, members: int, seed: int) -> dict[str, NDArray[np.float64]]:
    """Members (N, M, D) of the test rows for each cost, which matters to all that is selected by it."""
    known, drawn = slice(problem.train), {}
    for label in problem.costs:
        if drawn and settings.get("decision_weight") == 0.0:  # a cost trains and selects nothing then
            drawn[label] = next(iter(drawn.values()))
            continue
        forecaster = forecaster_of(settings, problem, members, seed, label)
        forecaster.fit(problem.features[known], problem.outcomes[known], times=problem.times[known])
        drawn[label] = forecaster.sample(problem.features[problem.test_rows]).astype(np.float64)
    return drawn


OURS = {name: partial(estimator, settings) for name, settings in _SETTINGS.items()}
"""By name, the default first."""
