"""From trained runs to a study: every run evaluated on the test cases, and the metrics on common axes."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from reproduction.runs.evaluations import (
    Assessment,
    MetricArrays,
    ProgressListener,
    evaluate_runs,
    evaluated_run,
    has_failed,
    known_of_test_cases,
    place_of_run,
    place_of_task,
    points_by_run,
)
from reproduction.runs.folder import RunFolder
from reproduction.runs.settings import task_data
from reproduction.runs.sweep import Sweep
from reproduction.study import AXES, Study, StudyError
from reproduction.tasks.task import Task
from stakes.errors import SettingError
from stakes.evaluation.metrics import LEVELS
from stakes.settings import to_plain


def assess(
    sweep: Sweep, folder: Path, settings: Assessment, about: Mapping[str, Any], report: ProgressListener | None = None
) -> Study:
    """The study of a sweep whose runs are trained; those that failed are named in `about`, and NaN."""
    _require_one_of_each(sweep, settings)
    evaluate_runs([(sweep, settings)], folder, settings.processes, report)
    by_run = points_by_run(sweep)
    failed = [name for name in by_run if has_failed(RunFolder(folder / "runs" / name))]
    evaluations: dict[tuple[float, ...], MetricArrays] = {}
    for name in by_run.keys() - set(failed):
        evaluated = evaluated_run(name, by_run[name], folder, settings)
        places = (place_of_run(point.run, settings) for point in by_run[name])
        evaluations |= dict(zip(places, evaluated, strict=True))
    if not evaluations:
        raise StudyError(f"none of the {len(by_run)} runs of the sweep in {folder} was trained to its end")
    evaluations |= {place_of_run(point.run, settings): {} for name in failed for point in by_run[name]}
    first = sweep.points[0].run
    described = {"model": first.model.name, "settings": to_plain(first), "failed": failed, **about}
    tasks = {place_of_task(point.run.task, settings): point.run.task for point in sweep.points}
    return build_study(evaluations, tasks, settings, described)


def untrained_runs(study: Study, **place: float | None) -> int:
    """How many runs with a decision weight kept the weights of epoch 0, in which there is no decision training.

    Of all, or of those at a `decision_weight` and a `parameter` of the cost.
    """
    if _BEST_EPOCH not in study.forecasts:
        return 0
    chosen = {axis: value for axis, value in place.items() if value is not None}
    return int(_untrained(study).sel(chosen, method="nearest").sum())


def with_decision_training(study: Study) -> Study:
    """The study without the runs that have a decision weight and no decision training in them."""
    if not untrained_runs(study):
        return study
    return replace(study, forecasts=study.forecasts.where(~_untrained(study)))


_BEST_EPOCH = "validation_best_epoch"


def _untrained(study: Study) -> xr.DataArray:
    return (study.forecasts[_BEST_EPOCH] == 0) & (study.forecasts["decision_weight"] > 0)


def _require_one_of_each(sweep: Sweep, settings: Assessment) -> None:
    places = set()
    for point in sweep.points:
        place = place_of_run(point.run, settings)
        if place in places:
            raise SettingError(
                "a study has one forecast for each cost parameter, data set, weight and seed, but "
                f"{point.run.name} is a second one: assess one task, one model and one choice of settings at a time"
            )
        places.add(place)


def build_study(
    evaluations: Mapping[tuple[float, ...], MetricArrays],
    tasks: Mapping[tuple[float, float], Task],
    settings: Assessment,
    about: Mapping[str, Any],
) -> Study:
    """Evaluations and what is known of their cases as one study."""
    task = next(iter(tasks.values()))
    described = {
        "task": task.name,
        "unit": task_data(task).unit,
        "attribution": task_data(task).attribution,
        "parameter": settings.parameter,
        "members": settings.members,
        **about,
    }
    return Study(_forecasts(evaluations), _cases(tasks), described, settings.block)


def _forecasts(evaluations: Mapping[tuple[float, ...], MetricArrays]) -> xr.Dataset:
    """All evaluations on common axes, NaN where a point of the grid was not trained or has none."""
    axes = [sorted({place[axis] for place in evaluations}) for axis in range(4)]
    names = list(dict.fromkeys(name for arrays in evaluations.values() for name in arrays))
    some = next(arrays for arrays in evaluations.values() if arrays)
    shape = [len(axis) for axis in axes]
    stacked = {name: np.full((*shape, *some[name].shape), np.nan, np.float32) for name in names}
    for place, arrays in evaluations.items():
        index = tuple(axis.index(value) for axis, value in zip(axes, place, strict=True))
        for name, values in arrays.items():
            stacked[name][index] = values
    dims = {0: AXES[:4], 1: AXES, 2: (*AXES, "level")}
    variables = {name: (dims[values.ndim - 4], values) for name, values in stacked.items()}
    coordinates = dict(zip(AXES[:4], axes, strict=True))
    dataset = xr.Dataset(variables, coordinates | {"case": np.arange(len(some["cost"]))})
    return dataset.assign_coords(level=list(LEVELS)) if "level" in dataset.dims else dataset


def _cases(tasks: Mapping[tuple[float, float], Task]) -> xr.Dataset:
    """What is known of the test cases without any forecast."""
    parts = []
    for (parameter, group), task in tasks.items():
        variables = {name: ("case", values) for name, values in known_of_test_cases(task).items()}
        test = task_data(task).test
        dataset = xr.Dataset(variables, {"case": np.arange(len(test))})
        parts.append(dataset.expand_dims(parameter=[parameter], group=[group]))
    return xr.combine_by_coords(parts, combine_attrs="drop")  # type: ignore[return-value]
