"""What else was trained on the paper's tasks beside the decision loss, each against the score alone."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reproduction.figures.paper_figure import nearest
from reproduction.plan import CHOICES, MAIN
from reproduction.studies import untrained_runs, with_decision_training
from reproduction.study import Study
from reproduction.study_collection import Studies, StudyKey
from stakes.evaluation.intervals import Resampling

_OF_TASK = {"synthetic": ("diffusion", None), "wind": ("implicit", 5.0), "frost": ("implicit", 0.5)}
"""The model of each task with which forecasts of other kinds are compared, and the cost's parameter."""
_OTHER_MODELS = {"gaussian": "a Gaussian forecast (mean and width)", "policy": "a direct policy a(x), no forecast"}
_SHOWN = (0.0, 0.3, 0.5, 0.9, 0.95, 1.0)  # where there are many weights
_LEFT_OUT = ("rolling", "rolling_nora10", "late_cutoff", "reduced")  # of other cases or another cost, or a part
_OF_SAME_SETTINGS = (MAIN, "decision_alone")  # whose weight 0 is that of the paper's settings


def rival_rows(studies: Studies) -> list[dict[str, Any]]:
    """One row for each task, method and weight: what it changes against weight 0 of the main settings, paired.

    Where this reproduction has no such weight 0, a method is compared with its own.
    """
    rows = []
    for key in (key for key in studies if key.task in _OF_TASK and key.choice not in _LEFT_OUT):
        base, (_, parameter) = _base(key, studies), _OF_TASK[key.task]
        if base is not None and parameter is not None:
            parameter = nearest([parameter], base.parameters)[0]
        if base is not None and (parameter is None or parameter in studies[key].parameters):
            study = studies[key]
            for row in _rows(key, with_decision_training(study), base, parameter):
                untrained = untrained_runs(study, decision_weight=row["weight"], parameter=parameter)
                rows.append({"task": key.task, "method": _title(key), **row, "untrained": untrained})
    return rows


def _base(key: StudyKey, studies: Studies) -> Study | None:
    """The study whose weight 0 one is compared with."""
    model = _OF_TASK[key.task][0] if key.model in _OTHER_MODELS else key.model
    keys = [*(StudyKey(key.task, model, choice) for choice in _OF_SAME_SETTINGS), key]
    return next((studies[each] for each in keys if each in studies and 0.0 in studies[each].weights), None)


def _title(key: StudyKey) -> str:
    if key.model in _OTHER_MODELS:
        return _OTHER_MODELS[key.model]
    title = "the decision loss" if key.choice == MAIN else CHOICES[key.choice][0]
    return title if key.model == _OF_TASK[key.task][0] else f"{title}; {key.model} model"


def _rows(key: StudyKey, study: Study, base: Study, parameter: float | None) -> Iterator[dict[str, Any]]:
    for weight in (weight for weight in study.weights if weight in _SHOWN or len(study.weights) < len(_SHOWN)):
        row: dict[str, Any] = {"choice": key.choice, "model": key.model, "weight": weight}
        for metric, relative in (("cost", False), ("foresight_regret", True), ("energy_score", True), ("gap", False)):
            if metric not in study.forecasts:
                row[metric] = None
                continue
            values, at_0 = _same_runs(study.values(metric, weight, parameter), base.values(metric, 0.0, parameter))
            groups, seeds, cases = values.shape
            resampling = Resampling(cases, seeds, groups, block=min(study.block, cases))
            mean, before = resampling.pair(values, at_0)
            change = mean.relative_to(before) if relative else mean - before
            row[metric] = [float(mean.estimate), *map(float, change.interval())]
        yield row


def _same_runs(values: NDArray[np.float64], others: NDArray[np.float64]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The data sets and seeds, from the first, that both have."""
    groups, seeds = (min(sizes) for sizes in zip(values.shape[:2], others.shape[:2], strict=True))
    return values[:groups, :seeds], others[:groups, :seeds]
