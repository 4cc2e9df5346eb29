"""Studies without training: forecasts made of the outcomes themselves, for tests of figures and claims."""

from functools import lru_cache
from typing import Any

import numpy as np
import torch

from reproduction import studies as assessment
from reproduction.plan import NOT_SHIPPED, planned_studies
from reproduction.runs.evaluations import Assessment, metrics_by_member, place_of_run, place_of_task
from reproduction.runs.settings import task_data
from reproduction.runs.sweep import Point
from reproduction.study import Study
from reproduction.study_collection import Studies, StudyKey
from reproduction.tasks.task import KnownTruth, TaskData
from stakes.data.case_table import CaseTable
from stakes.evaluation.metrics import Assessor

CASES, MEMBERS, SEEDS = 120, 20, 2


def made_study(points: tuple[Point, ...], settings: Assessment, choice: str = "main") -> Study:
    """A study of these points on a few test cases: members scatter around the outcome, less so with the weight."""
    evaluations = {}
    for point in points:
        run = point.run
        if run.seed < SEEDS:
            evaluations[place_of_run(run, settings)] = _made_metrics(run, settings)
    tasks = {place_of_task(point.run.task, settings): point.run.task for point in points}
    first = points[0].run
    about = {
        "task": first.task.name,
        "model": first.model.name,
        "choice": choice,
        "unit": "m/s",
        "parameter": settings.parameter,
        "members": MEMBERS,
        "settings": {"made": True},
    }
    cases = assessment._cases(tasks).isel(case=_places(len(task_data(first.task).test)))
    cases = cases.assign_coords(case=np.arange(CASES))
    return Study(assessment._forecasts(evaluations), cases, about, block=min(settings.block, 10))


def _places(count: int) -> Any:
    return np.linspace(0, count - 1, CASES).astype(int)


def _made_metrics(run: Any, settings: Assessment) -> dict[str, Any]:
    data: TaskData = task_data(run.task)
    rows = torch.from_numpy(_places(len(data.test)))
    test = CaseTable(data.test.features[rows], data.test.outcome[rows])
    generator = torch.Generator().manual_seed(run.seed)
    scale = data.train.outcome.std(0) * (0.6 - 0.2 * run.decision_weight)
    centre = test.outcome + scale * torch.randn(test.outcome.shape, generator=generator)
    members = centre[:, None] + scale * torch.randn(CASES, MEMBERS, test.outcome.shape[1], generator=generator)
    metrics = Assessor(run.task.cost, run.task.regions)(members, test.outcome)
    if members.shape[-1] == 1:
        metrics |= metrics_by_member(run.task, members, test.outcome)
    if isinstance(run.task, KnownTruth):
        truth = run.task.truth(test.features)
        action = metrics["action"][:, None]
        metrics |= {"regret": truth.regret(action), "tracking": (action - truth.action).abs().squeeze(-1)}
    if settings.validation:
        metrics |= {f"validation_{name}": metrics[name].mean() for name in ("cost", "energy_score")}
    return {name: values.float().numpy() for name, values in metrics.items()}


@lru_cache
def made_studies(subject: str, *choices: str) -> Studies:
    """The studies of a subject (European wind left out, whose data are not shipped), under these choices."""
    studies: dict[StudyKey, Study] = {}
    for planned in planned_studies([subject]):
        if planned.choice in (choices or ("main",)) and planned.task not in NOT_SHIPPED:
            points = tuple(point for point in planned.sweep.points if point.run.seed < SEEDS)
            studies[planned.key] = made_study(points, planned.assessment, planned.choice)
    return Studies(studies)
