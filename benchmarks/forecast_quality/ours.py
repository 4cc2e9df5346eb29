"""The estimator of this package, trained on its score alone, with its defaults and with others."""

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
    "stakes, before": {"base": "none", "refit_on_all_rows": False},
    "stakes, linear model": {"model": "linear"},
}


def estimator(settings: Mapping[str, Any], problem: Problem, members: int, seed: int) -> NDArray[np.float64]:
    """Members (N, M, D) of the test rows; without a decision weight the cost, the first one, is of no account."""
    known, cost = slice(problem.train), next(iter(problem.costs.values()))
    step = np.median(np.diff(problem.times[known])) / np.timedelta64(1, "h")
    forecaster = DecisionAwareForecaster(
        cost,
        decision_weight=0.0,
        gap=round(problem.lead_hours / step),
        members=members,
        device="cpu",
        random_state=seed,
        **settings,
    )
    forecaster.fit(problem.features[known], problem.outcomes[known], times=problem.times[known])
    return forecaster.sample(problem.features[problem.test_rows]).astype(np.float64)


OURS = {name: partial(estimator, settings) for name, settings in _SETTINGS.items()}
"""By name, the default first."""
