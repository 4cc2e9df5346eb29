"""A run: one model of one task at one decision weight and seed, as a typed object."""

import hashlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import torch

from reproduction.gaussian import GaussianSettings
from reproduction.tasks import find_task, task_types
from reproduction.tasks.task import Task, TaskData
from stakes.argument_checks import require_count, require_decision_weight
from stakes.errors import CheckpointError, SettingError
from stakes.scores.scoring_rules import score_weights
from stakes.settings import Registry, canonical_text, from_plain, to_plain
from stakes.training.replicas import Replica
from stakes.training.settings import (
    DiffusionSettings,
    ImplicitSettings,
    LinearSettings,
    ModelSettings,
    TrainingSettings,
)
from stakes.training.stored_models import load_models, model_keys, state_layout

WEIGHTS = "weights.safetensors"

MODELS: Mapping[str, type[ModelSettings]] = {
    kind.name: kind for kind in (ImplicitSettings, DiffusionSettings, LinearSettings, GaussianSettings)
}
_REGISTRY: Registry = {Task: task_types, ModelSettings: lambda: MODELS}


@dataclass(frozen=True)
class RunSettings:
    """Everything a training run depends on."""

    task: Task  # the data and the cost
    model: ModelSettings = field(default_factory=ImplicitSettings)  # the kind of model and its size
    decision_weight: float = 0.3  # the share of the decision term, from 0 to 1
    seed: int = 0  # what initial weights, batches and noise depend on
    training: TrainingSettings = field(default_factory=TrainingSettings)  # how it is trained
    start_from: str | None = None

    def __post_init__(self) -> None:
        require_decision_weight(self.decision_weight)
        require_count("seed", self.seed, least=0)

    @property
    def distinct(self) -> "RunSettings":
        """The run that stands for all with the same result.

        At weight 0 the companion does not matter, nor how many members decide, nor by which chain or solver, nor the
        cost unless the score looks at its total.
        """
        if self.decision_weight:
            return self
        task = self.task if "total" in score_weights(self.training.score) else _with_default_cost(self.task)
        training = replace(self.training, companion="decision", decision_member_count=None, solver="exact")
        defaults = {"chain_steps": 0, "chain_gradient": 3} if getattr(self.model, "chain_steps", 0) else {}
        model = replace(cast(Any, self.model), **defaults)
        return replace(self, task=task, training=training, model=model)

    @property
    def name(self) -> str:
        """A readable name that no other run has: the settings in short, and a hash of them all."""
        run = self.distinct
        digest = hashlib.sha256(canonical_text(to_plain(run)).encode()).hexdigest()[:10]
        shown = [f"{name}{getattr(run.task, name):g}" for name in run.task.cost_parameters if run.decision_weight]
        return "-".join([run.task.name, run.model.name, *shown, f"w{run.decision_weight:g}", f"s{run.seed}", digest])


def run_from_plain(values: Mapping[str, Any]) -> RunSettings:
    """A run from plain values, as a settings file has them.

    What they do not say about the model and its training is what the task's `paper` says; a run that starts from a
    trained model needs no pre-training.
    """
    values = dict(values)
    named = values.get("task")
    name = named.get("name") if isinstance(named, Mapping) else named
    if isinstance(name, str):
        paper = find_task(name).paper
        values["model"] = _model_values(paper.models, values.get("model"))
        given = values.get("training", {})
        if isinstance(given, Mapping):
            fresh = (
                {} if values.get("start_from") is None else {"pretraining_epochs": 0}
            )  # the start is trained already
            values["training"] = {**to_plain(paper.training), **fresh, **given}
    return from_plain(RunSettings, values, registry=_REGISTRY)


def _model_values(known: Sequence[ModelSettings], given: object) -> object:
    """What the file says about the model on top of what the task's settings say of the model of that name."""
    if isinstance(given, str):
        given = {"name": given}
    if given is None or not isinstance(given, Mapping):
        return to_plain(known[0]) if given is None else given
    alike = next((model for model in known if model.name == given.get("name", known[0].name)), None)
    return given if alike is None else {**to_plain(alike), **given}


def task_data(task: Task) -> TaskData:
    """The data of a task, loaded once for all its cost parameters."""
    return _load(cast(Hashable, _with_default_cost(task)))


def prepare(run: RunSettings) -> Replica:
    """The model of a run, its scaling fitted on the training cases, ready to train."""
    data, model = task_data(run.task), build_model(run)
    cast(Any, model).fit_scaling(data.train.features, data.train.outcome)
    if run.start_from is not None:
        model.load_state_dict(_starting_weights(Path(run.start_from), model))
    return Replica(model, data.train, data.validation, run.task.cost, run.decision_weight, run.seed, run.name)


def build_model(run: RunSettings) -> torch.nn.Module:
    """The model of a run with its initial weights, a function of the seed."""
    data = task_data(run.task)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.seed)
        return run.model.build(data.train.features.shape[1], data.train.outcome.shape[1])


def _starting_weights(path: Path, model: torch.nn.Module) -> dict[str, torch.Tensor]:
    file = path / WEIGHTS if path.is_dir() else path
    try:
        return saved_weights(file, None, model)
    except (CheckpointError, ValueError) as error:  # a path with a null character is a ValueError
        raise SettingError(f"start_from cannot be used: {error}") from error


def _with_default_cost(task: Task) -> Task:
    defaults = {}
    for each in fields(cast(Any, task)):
        if each.name in task.cost_parameters:
            assert each.default is not MISSING, f"{each.name} of task {task.name} needs a default"
            defaults[each.name] = each.default
    return cast(Task, replace(cast(Any, task), **defaults))


@lru_cache(maxsize=32)
def _load(task: Hashable) -> TaskData:
    return cast(Task, task).data()


def saved_weights(path: Path, sha256: str | None, model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The weights of the only model of a file, which must be those of such a model."""
    (weights,) = load_models(path, sha256, model_keys(1), state_layout(model))
    return weights
