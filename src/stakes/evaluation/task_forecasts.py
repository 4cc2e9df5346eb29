"""Forecasts of the cases of a task and what they are worth, beside what is known of the cases without any forecast."""

from typing import Any, cast

import torch
from numpy.typing import NDArray
from torch import Tensor

from stakes.data.cases import Cases
from stakes.evaluation.metrics import Assessor, Metrics
from stakes.method.actions import optimal_action
from stakes.method.models.sample_model import SampleModel
from stakes.settings import canonical_text, to_plain
from stakes.tasks.simulation import KnownTruth
from stakes.tasks.task import Task
from stakes.training.run_settings import task_data

__all__ = ["against_truth", "known_of_test_cases", "sampled_members", "task_metrics", "truth_of"]

_TRUTHS: dict[str, Any] = {}


def sampled_members(model: SampleModel, cases: Cases, members: int, seed: int, device: str = "cpu") -> Tensor:
    """Members (N, M, D) with fresh noise for every case.

    Args:
        model: The trained model, on the device.
        cases: The cases to be forecast.
        members: How many members each forecast has.
        seed: What the noise is drawn from.
        device: Where they are sampled, "cpu" or "cuda".
    """
    generator = torch.Generator(device).manual_seed(seed)
    return model.sample(cases.features.to(device), members, generator)


def task_metrics(task: Task, cases: Cases, members: Tensor) -> Metrics:
    """The metrics (N,) of forecasts for the cost and regions of a task, and against the truth where it is known.

    Args:
        task: The task.
        cases: The cases that were forecast.
        members: The forecasts (N, M, D).
    """
    metrics = Assessor(task.cost, task.regions)(members, cases.outcome.to(members.device))
    if isinstance(task, KnownTruth):
        metrics |= against_truth(task, cases, metrics["action"].cpu()[:, None])
    return metrics


def known_of_test_cases(task: Task) -> dict[str, NDArray[Any]]:
    """What is known of the test cases without any forecast, each (N,).

    The outcome, what the constant action that was best for the training outcomes costs, and `observed_NAME` for every
    region; the time, the only feature and the truth where there are such.

    Args:
        task: The task.
    """
    data = task_data(task)
    test, cost = data.test, task.cost
    climatology = optimal_action(cost, data.train.outcome, thorough=True).expand(len(test), -1)
    values: dict[str, NDArray[Any]] = {
        "outcome": Assessor(cost).total(test.outcome).numpy(),
        "climatology_cost": cost(climatology, test.outcome).numpy(),
    }
    values |= {f"observed_{name}": region(test.outcome).numpy() for name, region in task.regions.items()}
    if test.times is not None:
        values["time"] = test.times
    if test.features.shape[1] == 1:
        values["feature"] = test.features[:, 0].numpy()
    if isinstance(task, KnownTruth):
        values["true_action"] = truth_of(task, test).action[:, 0].numpy()
    if hasattr(task, "true_power"):
        values["true_spread"] = cast(Any, task).true_power(test.features).std(-1).numpy()
    return values


def against_truth(task: KnownTruth, test: Cases, action: Tensor) -> dict[str, Tensor]:
    """The regret of actions under the true distribution, and how far they are from its best ones, each (N,).

    Args:
        task: A task whose true distribution is known.
        test: Its test cases.
        action: The action taken in each case, (N, 1).
    """
    truth = truth_of(task, test)
    return {"regret": truth.regret(action), "tracking": (action - truth.action).abs().squeeze(-1)}


def truth_of(task: Any, test: Cases) -> Any:
    """What the true distribution says of the test cases, kept for the runs that follow.

    Args:
        task: A task whose true distribution is known.
        test: Its test cases.
    """
    key = canonical_text(to_plain(task))
    if key not in _TRUTHS:
        if len(_TRUTHS) > 8:
            _TRUTHS.clear()
        _TRUTHS[key] = task.truth(test.features)
    return _TRUTHS[key]
