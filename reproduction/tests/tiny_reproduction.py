"""Reproductions of small networks, few weights, seeds, members and epochs: all that they do, in seconds."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from reproduction import reproduce as module
from reproduction import run_studies as policies
from reproduction.claims import method
from reproduction.figures.portfolio import BASE_SCORE_FIGURES
from reproduction.plan import SCORE_CHOICES, PlannedStudy, planned_studies
from reproduction.runs import evaluations as task_forecasts
from reproduction.runs import settings as run_settings
from reproduction.runs import sweep
from reproduction.runs.jobs import Execution
from reproduction.runs.stacks import Stack, train_folders
from reproduction.tables_of_results import summarise
from reproduction.tasks import find_task, portfolio

EXECUTION = Execution("cpu", workers=1, quiet=True)
TINY: Mapping[str, Any] = {
    "model.hidden": 4,
    "model.layers": 1,
    "training.epochs": 1,
    "training.pretraining_epochs": 0,
    "training.validate_every": 1,
    "training.batch": 2000,
    "training.members": 4,
    "training.validation_members": 4,
}

METRICS = ("energy_score", "cost", "gap", "miscalibration")


def tiny(planned: PlannedStudy) -> PlannedStudy:
    """The study with small networks, two weights, two seeds and the first of everything else."""
    axes = find_task(planned.task).paper.grid
    grid = {axis: values[:1] for axis, values in axes.items()} | {"decision_weight": (0.0, 0.9), "seed": (0, 1)}
    chain = {"model.steps": 21} if planned.model == "diffusion" else {}
    settings = {**planned.settings, **TINY, **chain}
    if planned.assessment.shuffled:
        grid["decision_weight"] = (0.0,)
    return replace(planned, settings=settings, grid=grid, assessment=replace(planned.assessment, members=8))


@contextmanager
def tiny_studies() -> Iterator[None]:
    """Within, reproductions have a few tiny studies, trained here, and few timings."""

    def planned(*arguments: Any) -> list[PlannedStudy]:
        return [tiny(study) for study in planned_studies(*arguments) if _wanted(study)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "planned_studies", planned)
        patch.setattr(sweep, "run_jobs", train_here)
        patch.setattr(module, "summarise", partial(summarise, metrics=METRICS))
        patch.setattr(policies, "_SETTINGS", replace(policies._SETTINGS, epochs=1, batch=2000))
        patch.setattr(method, "_SETS", 600)
        patch.setattr(method, "_ROUNDS", 1)
        patch.setattr(method, "_SIZES", (2, 5, 8))
        patch.setattr(portfolio, "_SPLITS", (300, 100, 300))
        _forget_data()
        yield
    _forget_data()


def _forget_data() -> None:
    run_settings._load.cache_clear()
    task_forecasts._TRUTHS.clear()


def train_here(stacks: Sequence[Stack], folder: Path, execution: Execution) -> dict[str, str]:
    for stack in stacks:
        train_folders(stack.folders(), stack.checkpoints, "cpu", 1000.0, lambda: False)
    return {}


def _wanted(planned: PlannedStudy) -> bool:
    """Of the portfolios those with the implicit model of 60 sites, Irish and European wind, and their policies.

    Besides, the Irish stations trained point by point, with what the figure of it needs.
    """
    if planned.choice in SCORE_CHOICES:
        return any(planned.key in figure.needs for figure in BASE_SCORE_FIGURES)
    few = planned.key.sites in (None, 60) and planned.model != "diffusion" and planned.task != "french_load"
    return planned.choice == "main" and (few or planned.subject != "portfolio")
