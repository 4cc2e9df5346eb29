"""The estimator of this package, trained on its score alone, with its defaults and with others."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.forecast_quality.problems import Problem
from stakes import DecisionAwareForecaster
from stakes.method.training_settings import ImplicitSettings
from stakes.training.many_weights import automatic_settings

__all__ = ["OURS"]


def estimator(settings: dict[str, Any], problem: Problem, members: int, seed: int) -> NDArray[np.float64]:
    """Members (N, M, D) of the test rows; without a decision weight the cost, the first one, is of no account."""
    known, cost = slice(problem.train), next(iter(problem.costs.values()))
    forecaster = DecisionAwareForecaster(
        cost, decision_weight=0.0, members=members, device="cpu", random_state=seed, **settings
    )
    forecaster.fit(problem.features[known], problem.outcomes[known], times=problem.times[known])
    return forecaster.sample(problem.features[problem.test_rows]).astype(np.float64)


def linear_start(problem: Problem, members: int, seed: int) -> NDArray[np.float64]:
    step = np.median(np.diff(problem.times[: problem.train]).astype(np.int64)) / 3600
    model = ImplicitSettings(16, 64, 3, linear=True, gap=round(problem.lead_hours / step))
    training = replace(automatic_settings(problem.train * 3 // 4), weight_decay=0.1)
    return estimator({"model": model, "training": training}, problem, members, seed)


OURS = {"stakes": linear_start, "before": partial(estimator, {})}
