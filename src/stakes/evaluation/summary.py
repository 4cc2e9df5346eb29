"""A study in one table: every metric in every region, and its paired difference from weight 0."""

from collections.abc import Iterator, Sequence

import pandas as pd

from stakes.evaluation.significance import Difference, defined_deviation, defined_mean
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
    for weight in study.weights:
        values = study.chosen(metric, weight, parameter, region, by)
        difference = _difference(study, metric, weight, parameter, region, by) if 0.0 in study.weights else None
        yield {
            "parameter": parameter,
            "decision_weight": weight,
            "region": region or "all",
            "by": by if region else "",
            "metric": metric,
            "mean": float(defined_mean(values)),
            "deviation": float(defined_deviation(defined_mean(values, -1).reshape(-1), 0)),
            "difference": None if difference is None else difference.mean,
            "low": None if difference is None else difference.low,
            "high": None if difference is None else difference.high,
        }


def _difference(
    study: Study, metric: str, weight: float, parameter: float, region: str | None, by: RegionBy
) -> Difference:
    found, baseline = study.pair(metric, weight, parameter, region, by)
    return (found - baseline).interval()
