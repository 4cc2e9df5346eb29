"""The effects that claims are about: which weights and parameters a study has, and what changes against weight 0."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stakes.errors import StudyError
from stakes.evaluation.intervals import Sampled
from stakes.evaluation.study import RegionBy, Study
from stakes.tasks.task import Task
from stakes.training.run_settings import run_from_plain

__all__ = [
    "changes_by_weight",
    "exact",
    "gap_change",
    "masked_mean",
    "masked_pair",
    "mean_of",
    "nearest_weight",
    "parameters_below",
    "relative_change",
    "required_parameter",
    "smallest_and_largest",
    "task_of",
    "weights_within",
]

_REACH = 0.2  # how far the nearest weight may be


def nearest_weight(study: Study, wanted: float) -> float:
    """The positive weight of the study nearest to that of the paper, at most 0.2 away.

    Args:
        study: The study.
        wanted: The paper's weight.
    """
    near = [weight for weight in study.weights if weight > 0 and abs(weight - wanted) <= _REACH + 1e-9]
    if not near:
        raise StudyError(f"this study has the weights {_listed(study.weights)}, none near {wanted:g}")
    return min(near, key=lambda weight: abs(weight - wanted))


def weights_within(study: Study, low: float, high: float) -> list[float]:
    """The weights of the study from low to high, at least one.

    Args:
        study: The study.
        low: The lowest weight, itself included.
        high: The highest weight, itself included.
    """
    weights = [weight for weight in study.weights if low - 1e-9 <= weight <= high + 1e-9]
    if not weights:
        raise StudyError(f"this study has the weights {_listed(study.weights)}, none from {low:g} to {high:g}")
    return weights


def required_parameter(study: Study, wanted: float) -> float:
    """A parameter of the cost, if the study has it.

    Args:
        study: The study.
        wanted: The parameter.
    """
    if not np.isclose(study.parameters, wanted).any():
        raise StudyError(f"this study has {_name(study)} {_listed(study.parameters)}, not {wanted:g}")
    return wanted


def smallest_and_largest(study: Study) -> tuple[float, float]:
    """The smallest and the largest parameter of the cost, if there are several.

    Args:
        study: The study.
    """
    low, high = min(study.parameters), max(study.parameters)
    if low == high:
        raise StudyError(f"this study has one {_name(study)}, {low:g}: nothing to compare it with")
    return low, high


def parameters_below(study: Study, bound: float) -> list[float]:
    """The parameters of the cost below a bound, at least one.

    Args:
        study: The study.
        bound: The bound, itself excluded.
    """
    parameters = [parameter for parameter in study.parameters if parameter < bound]
    if not parameters:
        raise StudyError(f"this study has {_name(study)} {_listed(study.parameters)}, none below {bound:g}")
    return parameters


def relative_change(
    study: Study,
    metric: str,
    weight: float,
    parameter: float | None = None,
    region: str | None = None,
    by: RegionBy = "observed",
) -> Sampled:
    """The mean of a metric at a weight against that at weight 0, in per cent.

    Args:
        study: The study.
        metric: The name of the metric.
        weight: The decision weight.
        parameter: The cost parameter; None for the first of the study.
        region: The region whose cases are averaged; None for all cases.
        by: Whether a region's cases are chosen by the outcome or by the forecast.
    """
    mean, at_0 = study.pair(metric, weight, parameter, region, by)
    return mean.relative_to(at_0)


def changes_by_weight(
    study: Study, metric: str, parameter: float | None = None, region: str | None = None
) -> dict[float, Sampled]:
    """The change of a metric at every weight of the study, in per cent of weight 0.

    Args:
        study: The study.
        metric: The name of the metric.
        parameter: The cost parameter; None for the first of the study.
        region: The region whose cases are averaged, chosen by their outcome; None for all cases.
    """
    return {weight: relative_change(study, metric, weight, parameter, region) for weight in study.weights}


def gap_change(study: Study, weight: float, parameter: float | None = None, region: str | None = None) -> Sampled:
    """|mean predicted - mean realised cost| at a weight less that at weight 0, in units of the cost.

    Args:
        study: The study.
        weight: The decision weight.
        parameter: The cost parameter; None for the first of the study.
        region: The region whose cases are averaged, chosen by their outcome; None for all cases.
    """
    gap, at_0 = study.pair("gap", weight, parameter, region)
    return abs(gap) - abs(at_0)


def masked_mean(study: Study, values: NDArray[np.float64], mask: NDArray[np.bool_]) -> Sampled:
    """The mean of values over some of the cases.

    Args:
        study: The study, which says which cases depend on each other.
        values: (groups, seeds, cases).
        mask: The cases that count, (groups, cases).
    """
    return study.resampling.mean(values, mask[:, None])


def masked_pair(
    study: Study, first: NDArray[np.float64], second: NDArray[np.float64], mask: NDArray[np.bool_]
) -> tuple[Sampled, Sampled]:
    """The means of two arrays over those of some cases where both are finite.

    Args:
        study: The study, which says which cases depend on each other.
        first: (groups, seeds, cases).
        second: (groups, seeds, cases).
        mask: The cases that count, (groups, cases).
    """
    return study.resampling.pair(first, second, mask[:, None])


def mean_of(parts: Sequence[Sampled]) -> Sampled:
    """The mean of some statistics.

    Args:
        parts: At least one, all of the same resampling.
    """
    return sum(parts[1:], parts[0]) / len(parts)


def exact(value: float) -> Sampled:
    """A number without sampling error, such as a maximum over all that there is.

    Args:
        value: The number.
    """
    return Sampled(value, (np.array([value]), np.array([value])), (math.inf, math.inf))


def task_of(study: Study) -> Task:
    """The task of a study with the settings it was evaluated under; its cost has one of the study's parameters.

    Args:
        study: A study of a named task.
    """
    settings = study.about["settings"].get("task", {"name": study.about["task"]})
    return run_from_plain({"task": settings}).task


def _name(study: Study) -> str:
    return str(study.about["parameter"]).replace("_", " ")


def _listed(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:g}" for number in numbers)
