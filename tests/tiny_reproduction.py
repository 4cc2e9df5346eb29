"""Reproductions of small networks, few weights, seeds, members and epochs: all that they do, in seconds."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stakes.evaluation import policies
from stakes.reporting import reproduce as module
from stakes.reporting.plan import Part, planned_parts
from stakes.reporting.reproduce import Reproduction, reproduce
from stakes.tasks import find_task
from stakes.training import sweep
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


def tiny(part: Part) -> Part:
    """The part with small networks, two weights, two seeds and the first of everything else."""
    axes = find_task(part.task).paper.grid
    grid = {axis: values[:1] for axis, values in axes.items()} | {"decision_weight": (0.0, 0.9), "seed": (0, 1)}
    chain = {"model.steps": 21} if part.model == "diffusion" else {}
    settings = {**part.settings, **TINY, **chain}
    return replace(part, settings=settings, grid=grid, assessment=replace(part.assessment, members=8))


@contextmanager
def tiny_parts(changed: Callable[[Part], Part] = tiny, choices: Sequence[str] = ("main",)) -> Iterator[None]:
    """Within, reproductions have tiny parts of these choices, trained in this process."""

    def planned(*arguments: Any) -> list[Part]:
        return [changed(part) for part in planned_parts(*arguments) if part.choice in choices]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "planned_parts", planned)
        patch.setattr(sweep, "train_stacks", train_here)
        patch.setattr(policies, "_SETTINGS", replace(policies._SETTINGS, epochs=1, batch=2000))
        yield


def train_here(stacks: Sequence[Stack], execution: Execution) -> dict[str, str]:
    for stack in stacks:
        train_folders(stack.folders(), stack.checkpoints, "cpu", 1000.0, lambda: False)
    return {}


def tiny_reproduction(out: Path, subject: str, **others: Any) -> Path:
    with tiny_parts():
        return reproduce(Reproduction(subject, **others), out, EXECUTION)
