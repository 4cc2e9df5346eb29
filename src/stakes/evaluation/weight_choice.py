"""Which decision weight to take, judged on validation data alone."""

from typing import NamedTuple

import numpy as np

from stakes.errors import StudyError
from stakes.evaluation.intervals import defined_mean
from stakes.evaluation.study import Study
from stakes.method.argument_checks import require_finite

__all__ = ["chosen_weight"]


def chosen_weight(study: Study, parameter: float | None = None, tolerance: float = 1.0) -> float:
    """The weight with the lowest mean validation cost, over groups and seeds, that costs the forecast little.

    Only weights whose mean validation energy score is hardly worse than that of weight 0 are considered, and weight 0
    itself. Each is compared with weight 0 over the runs that failed at neither.

    Args:
        study: Forecasts that were judged on validation cases too.
        parameter: The parameter of the cost; None for the only, or the first, one.
        tolerance: How far the score may lie above that of weight 0, in per cent of it.
    """
    require_finite("tolerance", tolerance)
    if "validation_cost" not in study.forecasts:
        raise StudyError("this study was evaluated without validation data, by which a weight is chosen")
    if 0.0 not in study.weights:
        raise StudyError(f"a weight is chosen against weight 0, this study has the weights {study.weights}")
    score, cost = (
        {weight: _change(study, metric, weight, parameter) for weight in study.weights}
        for metric in ("energy_score", "cost")
    )
    allowed = [
        weight
        for weight in study.weights
        if score[weight].difference <= abs(score[weight].baseline) * tolerance / 100 and cost[weight].difference < 0
    ]
    return min(allowed, key=lambda weight: cost[weight].difference, default=0.0)


class _Change(NamedTuple):
    """The mean of a metric at weight 0, and how far that of another weight lies above it."""

    baseline: float
    difference: float


def _change(study: Study, metric: str, weight: float, parameter: float | None) -> _Change:
    """Over the runs that failed at neither weight; NaN where there are none."""
    values, baseline = (study.validation(metric, each, parameter) for each in (weight, 0.0))
    difference = values - baseline
    return _Change(
        float(defined_mean(np.where(np.isfinite(difference), baseline, np.nan))), float(defined_mean(difference))
    )
