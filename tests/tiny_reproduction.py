"""Reproductions of small networks, few weights, seeds, members and epochs: all that they do, in seconds."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from stakes.evaluation import study
from stakes.evaluation.intervals import Resampling
from stakes.evaluation.summary import summarise
from stakes.paper import assess as assessment
from stakes.paper import policies
from stakes.paper import reproduce as module
from stakes.paper.plan import Part, planned_parts
from stakes.tasks import find_task, portfolio
from stakes.training import run_settings, sweep
from stakes.training.execution import Execution, Stack
from stakes.training.worker import train_folders

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


def tiny(part: Part) -> Part:
    """The part with small networks, two weights, two seeds and the first of everything else."""
    axes = find_task(part.task).paper.grid
    grid = {axis: values[:1] for axis, values in axes.items()} | {"decision_weight": (0.0, 0.9), "seed": (0, 1)}
    chain = {"model.steps": 21} if part.model == "diffusion" else {}
    settings = {**part.settings, **TINY, **chain}
    return replace(part, settings=settings, grid=grid, assessment=replace(part.assessment, members=8))


@contextmanager
def tiny_parts(changed: Callable[[Part], Part] = tiny, workers: bool = False) -> Iterator[None]:
    """Within, reproductions have a few tiny parts, trained in this process or in workers, and few resamples."""

    def planned(*arguments: Any) -> list[Part]:
        return [changed(part) for part in planned_parts(*arguments) if _wanted(part)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "planned_parts", planned)
        if not workers:
            patch.setattr(sweep, "train_stacks", train_here)
        patch.setattr(study, "Resampling", partial(Resampling, resamples=40))
        patch.setattr(module, "summarise", partial(summarise, metrics=METRICS))
        patch.setattr(policies, "_SETTINGS", replace(policies._SETTINGS, epochs=1, batch=2000))
        patch.setattr(portfolio, "_SPLITS", (300, 100, 300))
        _forget_data()
        yield
    _forget_data()


def _forget_data() -> None:
    run_settings._load.cache_clear()
    assessment._TRUTHS.clear()


def train_here(stacks: Sequence[Stack], execution: Execution) -> dict[str, str]:
    for stack in stacks:
        train_folders(stack.folders(), stack.checkpoints, "cpu", 1000.0, lambda: False)
    return {}


def _wanted(part: Part) -> bool:
    """Of the portfolios those with the implicit model of 60 sites, Irish and European wind, and their policies."""
    few = part.key.sites in (None, 60) and part.model != "diffusion" and part.task != "french_load"
    return part.choice == "main" and (few or part.subject != "portfolio")
