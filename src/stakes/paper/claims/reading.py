"""How claims read a study: the weights and parameters it has, and effects against weight 0."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stakes.errors import StudyError
from stakes.evaluation.intervals import Sampled
from stakes.evaluation.study import RegionBy, Study
from stakes.tasks.task import Task
from stakes.training.run_settings import run_from_plain

__all__ = [
    "change",
    "gap_change",
    "known",
    "masked_mean",
    "masked_pair",
    "mean_of",
    "nearest_weight",
    "parameters_below",
    "path",
    "required_parameter",
    "smallest_and_largest",
    "task_of",
    "weights_within",
]

_REACH = 0.2  # how far the nearest weight may be


def nearest_weight(study: Study, wanted: float) -> float:
    """The positive weight of the study nearest to that of the paper, at most 0.2 away."""
    near = [weight for weight in study.weights if weight > 0 and abs(weight - wanted) <= _REACH + 1e-9]
    if not near:
        raise StudyError(f"this study has the weights {_listed(study.weights)}, none near {wanted:g}")
    return min(near, key=lambda weight: abs(weight - wanted))


def weights_within(study: Study, low: float, high: float) -> list[float]:
    """The weights of the study from low to high."""
    found = [weight for weight in study.weights if low - 1e-9 <= weight <= high + 1e-9]
    if not found:
        raise StudyError(f"this study has the weights {_listed(study.weights)}, none from {low:g} to {high:g}")
    return found


def required_parameter(study: Study, wanted: float) -> float:
    """A parameter of the cost, if the study has it."""
    if not np.isclose(study.parameters, wanted).any():
        raise StudyError(f"this study has {_name(study)} {_listed(study.parameters)}, not {wanted:g}")
    return wanted


def smallest_and_largest(study: Study) -> tuple[float, float]:
    """The ends of the cost's parameters."""
    low, high = min(study.parameters), max(study.parameters)
    if low == high:
        raise StudyError(f"this study has one {_name(study)}, {low:g}: nothing to compare it with")
    return low, high


def parameters_below(study: Study, bound: float) -> list[float]:
    """The parameters of the cost below a bound."""
    found = [parameter for parameter in study.parameters if parameter < bound]
    if not found:
        raise StudyError(f"this study has {_name(study)} {_listed(study.parameters)}, none below {bound:g}")
    return found


def change(
    study: Study,
    metric: str,
    weight: float,
    parameter: float | None = None,
    region: str | None = None,
    by: RegionBy = "observed",
) -> Sampled:
    """The mean of a metric at a weight against that at weight 0, in per cent."""
    found, baseline = study.pair(metric, weight, parameter, region, by)
    return found.relative_to(baseline)


def path(study: Study, metric: str, parameter: float | None = None, region: str | None = None) -> dict[float, Sampled]:
    """The change at every weight of the study, in per cent of weight 0."""
    return {weight: change(study, metric, weight, parameter, region) for weight in study.weights}


def gap_change(study: Study, weight: float, parameter: float | None = None, region: str | None = None) -> Sampled:
    """|mean predicted - mean realised cost| at a weight less that at weight 0, in units of the cost."""
    found, baseline = study.pair("gap", weight, parameter, region)
    return abs(found) - abs(baseline)


def masked_mean(study: Study, values: NDArray[np.float64], mask: NDArray[np.bool_]) -> Sampled:
    """The mean of values (groups, seeds, cases) over the cases of a mask (groups, cases)."""
    return study.resampling.mean(values, mask[:, None])


def masked_pair(
    study: Study, values: NDArray[np.float64], baseline: NDArray[np.float64], mask: NDArray[np.bool_]
) -> tuple[Sampled, Sampled]:
    """The means of both, (groups, seeds, cases), over the cases of a mask (groups, cases), where both are finite."""
    return study.resampling.pair(values, baseline, mask[:, None])


def mean_of(parts: Sequence[Sampled]) -> Sampled:
    """The mean of some statistics."""
    return sum(parts[1:], parts[0]) / len(parts)


def known(value: float) -> Sampled:
    """A number without sampling error, such as a maximum over all that there is."""
    return Sampled(value, np.array([value]))


def task_of(study: Study) -> Task:
    """The task of a study with the settings it was evaluated under; its cost has one of the study's parameters."""
    settings = study.about["settings"].get("task", {"name": study.about["task"]})
    return run_from_plain({"task": settings}).task


def _name(study: Study) -> str:
    return str(study.about["parameter"]).replace("_", " ")


def _listed(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:g}" for number in numbers)
