"""From cases and a cost to trained models at several decision weights, in one process or in many."""

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from time import monotonic
from typing import Any

import torch
from torch import Tensor, nn

from stakes.costs.cost import Cost, ParameterColumn
from stakes.data.case_table import CaseTable
from stakes.data.outcome_bounds import OutcomeBounds
from stakes.errors import InterruptedTraining, SettingError, StakesError, StakesWarning
from stakes.models.sample_model import SampleModel
from stakes.training.execution import stop_on_interrupt
from stakes.training.processes import outcomes, stop_asked
from stakes.training.progress import Display, Observer, StackDisplay, Trained, ValidationHistory
from stakes.training.replicas import Replica
from stakes.training.settings import ModelFactory, RefitSchedule, TrainingSettings
from stakes.training.trainer import train


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch compute with one thread meanwhile; the user's setting comes back."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True, eq=False)
class TrainingPlan:
    """All that trained models depend on."""

    cost: Cost  # what decisions cost
    factory: ModelFactory  # makes a model from the numbers of features and outcomes
    settings: TrainingSettings  # how all models are trained
    weights: tuple[float, ...]  # the decision weights
    seeds: tuple[int, ...]  # the seeds; each weight gets one model per seed
    train: CaseTable  # the cases they are trained on
    stopping: CaseTable  # the cases that say which epoch is the best, and when to stop
    members: int  # how many members the pooled forecast has by which a weight is judged
    noise_seed: int  # what the noise of that forecast depends on
    device: str  # where models are trained
    start: tuple[dict[str, Tensor], ...] = ()  # the weights that each seed starts from; empty where all start afresh
    bounds: OutcomeBounds | None = None
    epochs: Mapping[float, tuple[int | None, ...]] | None = None
    conditioned: bool = False

    def replicas(self) -> list[Replica]:
        """One for each weight and seed; those of one seed start alike and share their pre-training."""
        models = [self.model(place) for place in range(len(self.seeds))]
        return [
            Replica(
                models[place],
                self.train,
                self.stopping,
                self.cost,
                weight,
                seed,
                f"weight {weight:g}, seed {place}",
                None if self.epochs is None else self.epochs[weight][place],
                self.conditioned,
            )
            for weight in self.weights
            for place, seed in enumerate(self.seeds)
            if self.epochs is None or self.epochs[weight][place] is not None
        ]

    def of_seeds(self, some: slice) -> "TrainingPlan":
        """The same for some of the seeds."""
        epochs = None if self.epochs is None else {weight: each[some] for weight, each in self.epochs.items()}
        return replace(self, seeds=self.seeds[some], start=self.start[some], epochs=epochs)

    @property
    def column(self) -> ParameterColumn:
        """Where each case has the parameter of its cost."""
        return ParameterColumn.of(self.cost, self.conditioned)

    def model(self, place: int) -> nn.Module:
        """An untrained model of one of the seeds with its scaling fitted, or what it starts from."""
        features, outcomes = self.column.unmoved(self.train.features), self.train.outcome
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seeds[place])
            model = self.factory(features.shape[1], outcomes.shape[1])
        if not isinstance(model, nn.Module) or not isinstance(model, SampleModel):
            raise SettingError(f"model must make a torch module with the methods of SampleModel, got {type(model)}")
        model.fit_scaling(features, outcomes)
        if self.start:
            try:
                model.load_state_dict(self.start[place])
            except RuntimeError as error:  # which lists every tensor
                raise SettingError(
                    "with warm_start the model and the numbers of features and outcomes must be as in the previous fit"
                ) from error
        return model


@dataclass(frozen=True, eq=False)
class FittedWeight:
    """The models of one weight, and how they were trained."""

    weight: float  # the decision weight
    models: list[nn.Module]  # those that did not fail
    records: list[dict[str, Any]]  # how each model trained, those that failed as well


def train_weights(
    plan: TrainingPlan,
    processes: int = 1,
    *,
    checkpoints: Path | None = None,
    stop: Callable[[], bool] | None = None,
    quiet: bool = True,
    about: str = "",
) -> list[FittedWeight]:
    """Train all weights and seeds, from one pre-training per seed; processes share the weights, or else the seeds."""
    plans = _shared(plan, processes)
    folders = [None if checkpoints is None else Path(checkpoints) / f"{place + 1}-of-{len(plans)}" for place in plans]
    if len(plans) == 1:
        with Display(quiet) as display, one_thread():
            if about:
                display.note(about)
            return _trained(plans[0], folders[0], stop or (lambda: False), [StackDisplay(display)])
    parts = _in_processes(plans, folders, stop, quiet)
    return [_merged(weight, [each for each in parts if each.weight == weight]) for weight in sorted(plan.weights)]


def _shared(plan: TrainingPlan, processes: int) -> dict[int, TrainingPlan]:
    """The part of each process."""
    if len(plan.weights) > 1:
        groups = [plan.weights[place::processes] for place in range(min(processes, len(plan.weights)))]
        return {place: replace(plan, weights=group) for place, group in enumerate(groups)}
    edges = [len(plan.seeds) * place // processes for place in range(processes + 1)]
    return {place: plan.of_seeds(slice(*ends)) for place, ends in enumerate(p for p in pairwise(edges) if p[0] < p[1])}


def _merged(weight: float, parts: Sequence["FittedWeight"]) -> "FittedWeight":
    """The models of a weight from several processes, in the order of their seeds."""
    models, records = [model for each in parts for model in each.models], [r for each in parts for r in each.records]
    return FittedWeight(weight, models, records)


def without_failures(fitted: Sequence[FittedWeight]) -> list[FittedWeight]:
    """The weights with a model that did not fail; a warning names each one that did."""
    failed = [record for each in fitted for record in each.records if record["status"] == "failed"]
    sound = [each for each in fitted if each.models]
    if not sound:
        raise StakesError(f"all models failed: {failed[0]['failure']}")
    for record in failed:
        sentence = f"a model of weight {record['decision_weight']:g} failed and is left out: {record['failure']}"
        warnings.warn(sentence, StakesWarning, stacklevel=3)
    return sound


def _trained(
    plan: TrainingPlan, folder: Path | None, stop: Callable[[], bool], observers: Sequence[Observer] = ()
) -> list[FittedWeight]:
    history = ValidationHistory(folder)
    trained = train(
        plan.replicas(),
        plan.settings,
        device=plan.device,
        checkpoints=folder,
        observers=[history, *observers],
        stop=stop,
        diagnostics=False,
    )
    told = [(each, history.lines[replica]) for replica, each in enumerate(trained)]
    return [
        _fitted(weight, [pair for pair in told if pair[0].replica.decision_weight == weight]) for weight in plan.weights
    ]


def _fitted(weight: float, trained: Sequence[tuple[Trained, list[Any]]]) -> FittedWeight:
    models = []
    for each, _ in trained:
        if each.status != "failed":
            model = copy.deepcopy(each.replica.model)
            model.load_state_dict(each.weights)
            models.append(model.requires_grad_(False).eval())
    return FittedWeight(weight, models, [_record(each, lines) for each, lines in trained])


def _record(trained: Trained, lines: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "decision_weight": trained.replica.decision_weight,
        "seed": trained.replica.seed,
        **asdict(trained.record()),
        "score_scale": trained.score_scale,
        "decision_scale": trained.decision_scale,
        "history": lines,
    }


# Several processes


def _in_processes(
    plans: dict[int, TrainingPlan], folders: Sequence[Path | None], stop: Callable[[], bool] | None, quiet: bool
) -> list[FittedWeight]:
    fitted: dict[int, list[FittedWeight]] = {}
    errors: list[BaseException] = []
    calls = {place: (plan, folders[place]) for place, plan in plans.items()}
    models, begun = sum(len(plan.weights) * len(plan.seeds) for plan in plans.values()), monotonic()
    with stop_on_interrupt() as interrupted, Display(quiet) as display:

        def asked() -> bool:
            """Without one part the others are of no use."""
            display.beat(f"{models} models in {len(plans)} processes, since {monotonic() - begun:.0f} s")
            return bool(errors) or interrupted() or (stop is not None and stop())

        for place, outcome in outcomes(_trained_apart, calls, len(plans), asked):
            if outcome.error is None:
                fitted[place] = outcome.unwrap()
            else:
                errors.append(outcome.error)
    if len(fitted) == len(plans):
        return [each for place in plans for each in fitted[place]]
    for error in errors:
        if not isinstance(error, InterruptedTraining):
            raise error
    if interrupted() and stop is None:
        raise KeyboardInterrupt
    raise errors[0] if errors else InterruptedTraining("interrupted before training began")


def _trained_apart(plan: TrainingPlan, folder: Path | None) -> list[FittedWeight]:
    """What a process does with its weights."""
    with stop_on_interrupt() as interrupted:
        return _trained(plan, folder, lambda: interrupted() or stop_asked())


def train_on_all_rows(
    plan: TrainingPlan,
    training: RefitSchedule,
    processes: int = 1,
    *,
    checkpoints: Path | None = None,
    stop: Callable[[], bool] | None = None,
    quiet: bool = True,
) -> list[FittedWeight]:
    """Train the chosen models without early stopping.

    An epoch is one of the rows there are now. Rate, pre-training and batches are those of the search.
    """
    if widths := {len(each) for each in training.epochs} - {len(plan.seeds)}:
        raise SettingError(f"ensemble must be {widths.pop()}, as in the search, got {len(plan.seeds)}")
    pretraining = 0 if plan.start else training.settings.pretraining_epochs
    again = replace(
        plan,
        settings=replace(training.settings, validate_every=training.settings.epochs, pretraining_epochs=pretraining),
        weights=training.weights,
        epochs=dict(zip(training.weights, training.epochs, strict=True)),
    )
    about = f"training again on {len(plan.train)} cases"
    return train_weights(again, processes, checkpoints=checkpoints, stop=stop, quiet=quiet, about=about)
