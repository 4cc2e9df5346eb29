"""The direct policy as a study, so that it stands beside the forecasts: what no forecast at all would cost."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, cast

from stakes.evaluation.study import Study
from stakes.evaluation.task_forecasts import against_truth
from stakes.paper.assess import build_study, place_of_task
from stakes.paper.run_evaluations import Assessment, MetricArrays, ProgressListener
from stakes.tasks.simulation import KnownTruth
from stakes.tasks.task import Task
from stakes.training.policy import PolicySettings, train_policy
from stakes.training.run_settings import task_data

__all__ = ["assess_policies"]

_SETTINGS = PolicySettings(epochs=200, patience=40)


def assess_policies(
    tasks: Sequence[Task],
    seeds: Sequence[int],
    settings: Assessment,
    about: Mapping[str, Any],
    report: ProgressListener | None = None,
) -> Study:
    """Train a policy for every task (a cost parameter each) and seed; what its actions cost on the test cases.

    A policy sees the cost alone, so it stands at decision weight 1.

    Args:
        tasks: One task for every cost parameter.
        seeds: The training seeds.
        settings: Which field of the task is the cost's parameter, and on which device to train.
        about: What else the study should say of itself.
        report: Called after every policy, with how many are trained and of how many.
    """
    evaluations: dict[tuple[float, ...], MetricArrays] = {}
    for task, seed in product(tasks, seeds):
        evaluations[(*place_of_task(task, settings), 1.0, float(seed))] = _assessed(task, seed, settings.device)
        if report is not None:
            report(len(evaluations), len(tasks) * len(seeds))
    return build_study(evaluations, {place_of_task(task, settings): task for task in tasks}, settings, about)


def _assessed(task: Task, seed: int, device: str) -> MetricArrays:
    data, cost = task_data(task), task.cost
    network = cast(Any, task.paper.models[0])
    settings = replace(_SETTINGS, hidden=network.hidden, layers=network.layers)
    policy = train_policy(cost, data.train, data.validation, settings, seed, device)
    action = policy(data.test.features)
    metrics = {"action": action[:, 0], "cost": cost(action, data.test.outcome)}
    if isinstance(task, KnownTruth):
        metrics |= against_truth(task, data.test, action)
    return {name: values.float().numpy() for name, values in metrics.items()}
