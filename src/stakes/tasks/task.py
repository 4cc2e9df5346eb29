"""What a task is: data, a cost, regions of interest and the paper's settings, in one typed object."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from torch import Tensor

from stakes.data.cases import Cases
from stakes.method.costs import Cost
from stakes.method.training_settings import ModelSettings, TrainingSettings

__all__ = ["Cases", "PaperSettings", "Region", "Task", "TaskData"]

Region = Callable[[Tensor], Tensor]
"""Which cases belong to a region, by their outcome (the paper's way) or forecast: (..., D) to bool (...)."""


@dataclass(frozen=True, eq=False)
class TaskData:
    """The three splits of a task, chronological where there are times.

    Attributes:
        train: The cases to train on.
        validation: The cases that choose when to stop.
        test: The cases to judge on.
        feature_names: The names of the features.
        outcome_names: The names of the outcomes.
        unit: The unit of the outcomes.
        attribution: What the licence of the data asks to be said; empty where they are simulated.
    """

    train: Cases
    validation: Cases
    test: Cases
    feature_names: tuple[str, ...]
    outcome_names: tuple[str, ...]
    unit: str
    attribution: str = ""


@dataclass(frozen=True)
class PaperSettings:
    """How the paper (or, beyond it, we) trains a task.

    Attributes:
        models: The models that are trained.
        training: How they are trained.
        grid: The values that settings of a run ("decision_weight", "seed", "task.penalty") take, by name.
        test_members: How many members a forecast of a test case has.
    """

    models: tuple[ModelSettings, ...]
    training: TrainingSettings
    grid: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    test_members: int = 500


class Task(Protocol):
    """A decision problem with its data: a frozen dataclass whose fields are its settings.

    Attributes:
        name: The name by which it is found.
        cost_parameters: The fields that the cost alone sees: a model trained on the score (decision weight 0) does not
            depend on them, and replicas that differ in them train in one stack.
        paper: How it is trained.
    """

    name: ClassVar[str]
    cost_parameters: ClassVar[tuple[str, ...]]
    paper: ClassVar[PaperSettings]
    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def cost(self) -> Cost:
        """What a decision costs."""
        ...

    @property
    def regions(self) -> Mapping[str, Region]:
        """Parts of the outcomes that are judged apart, by name."""
        ...

    def data(self) -> TaskData:
        """Training, validation and test cases."""
        ...
