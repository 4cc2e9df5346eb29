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


def forecaster_of(settings: Mapping[str, Any], problem: Problem, members: int, seed: int) -> DecisionAwareForecaster:
    """Unfitted; without a decision weight the cost, the first one, is of no account."""
    step = np.median(np.diff(problem.times[: problem.train])) / np.timedelta64(1, "h")
    return DecisionAwareForecaster(
        next(iter(problem.costs.values())),
        decision_weight=0.0,
        gap=round(problem.lead_hours / step),
        members=members,
        device="cpu",
        random_state=seed,
        **settings,
    )


def estimator(settings: Mapping[str, Any], problem: Problem, members: int, seed: int) -> NDArray[np.float64]:
    """Members (N, M, D) of the test rows."""
    known, forecaster = slice(problem.train), forecaster_of(settings, problem, members, seed)
    forecaster.fit(problem.features[known], problem.outcomes[known], times=problem.times[known])
    return forecaster.sample(problem.features[problem.test_rows]).astype(np.float64)


OURS = {name: partial(estimator, settings) for name, settings in _SETTINGS.items()}
"""By name, the default first."""
