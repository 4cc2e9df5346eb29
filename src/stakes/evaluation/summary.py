"""A study in one table: every metric in every region, and its paired difference from weight 0."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from stakes.evaluation.intervals import Difference, defined_deviation, defined_mean
from stakes.evaluation.study import RegionBy, Study

__all__ = ["METRICS", "summarise"]

METRICS = (
    "energy_score",
    "tail_crps",
    "crps_of_total",
    "variogram_score",
    "cost",
    "expected_cost",
    "gap",
    "miscalibration",
    "regret",
    "foresight_regret",
    "tracking",
    "spread",
)
"""What is averaged, where a study has it."""


def summarise(study: Study, metrics: Sequence[str] = METRICS) -> pd.DataFrame:
    """One line for each parameter, decision weight, region (all, by outcome, by forecast) and metric.

    `mean` over cases and seeds, `deviation` between seeds; `difference` from weight 0 with its 95 % interval `low` to
    `high`, paired in cases and seeds: over those that failed at neither weight.

    Args:
        study: The judged forecasts.
        metrics: Which metrics are summarised, where the study has them.
    """
    present = [metric for metric in metrics if metric in study.forecasts]
    rows = [
        row
        for parameter in study.parameters
        for region, by in _regions(study)
        for metric in present
        for row in _rows(study, metric, parameter, region, by)
    ]
    return pd.DataFrame(rows)


def _regions(study: Study) -> Iterator[tuple[str | None, RegionBy]]:
    yield None, "observed"
    for name in study.regions:
        yield name, "observed"
        if f"mass_{name}" in study.forecasts:  # a policy has actions, and no forecast
            yield name, "forecast"


def _rows(study: Study, metric: str, parameter: float, region: str | None, by: RegionBy) -> Iterator[dict[str, object]]:
    values = np.stack([study.chosen(metric, weight, parameter, region, by) for weight in study.weights])
    for weight, at_weight, difference in zip(study.weights, values, _differences(study, values), strict=True):
        yield {
            "parameter": parameter,
            "decision_weight": weight,
            "region": region or "all",
            "by": by if region else "",
            "metric": metric,
            "mean": float(defined_mean(at_weight)),
            "deviation": float(defined_deviation(defined_mean(at_weight, -1).reshape(-1), 0)),
            "difference": None if difference is None else difference.mean,
            "low": None if difference is None else difference.low,
            "high": None if difference is None else difference.high,
        }


def _differences(study: Study, values: NDArray[np.float64]) -> list[Difference] | list[None]:
    """Of values (weights, groups, seeds, cases) from those at weight 0, over the forecasts that both have."""
    if 0.0 not in study.weights:
        return [None] * len(values)
    apart = values - values[study.weights.index(0.0)]
    return [mean.interval() for mean in study.resampling.means(apart)]
