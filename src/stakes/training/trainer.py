"""The training loop: pre-training, loss scales, validation, early stopping, the best weights; and its checkpoints."""

import hashlib
import math
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from stakes.argument_checks import unwatched
from stakes.costs.cost import Cost, at_bounds
from stakes.errors import CheckpointError, InterruptedTraining, SettingError, StakesError
from stakes.files import canonical_json, json_document, read_json, short_ascii, write_atomically
from stakes.models.sample_model import TrainingDraw
from stakes.scores.decision_score import realised_cost
from stakes.scores.objective import DecisionAwareObjective, loss_scales
from stakes.scores.scoring_rules import Estimator, energy_score, score_weights
from stakes.settings import from_plain, to_plain
from stakes.training.progress import Observer, Phase, Progress, ReplicaRecord, Status, Trained
from stakes.training.replicas import Replica, ReplicaStack, structure
from stakes.training.settings import TrainingSettings
from stakes.training.steps import Stepper
from stakes.training.stored_models import TENSOR_LIMIT, check_tensors, load_tensors, serialised


def leaders(stack: ReplicaStack, parameters: Tensor) -> list[int]:
    """For each replica the first one that it shares a pre-training with: of the same seed, data and initial state.

    The decision weight does not matter in it, nor the cost unless the score looks at its total.
    """
    indices = (stack.seed_index, stack.train.index, stack.validation.index)
    sees_cost = "total" in score_weights(stack.settings.score)
    costs = [repr(_described(replica.cost)) if sees_cost else "" for replica in stack.replicas]
    keys = list(zip(costs, *(index.tolist() for index in indices), strict=True))
    state = (parameters, *stack.fixed.values())
    firsts: list[int] = []
    for index, key in enumerate(keys):
        alike = (
            other
            for other in range(index)
            if keys[other] == key and all(torch.equal(values[other], values[index]) for values in state)
        )
        firsts.append(next(alike, index))
    return firsts


def fingerprint(stack: ReplicaStack, parameters: Tensor) -> str:
    """A hash of all that the result of a stack depends on; the same in every process, wherever its classes live."""
    digest = hashlib.sha256(repr(stack.settings).encode())
    for replica in stack.replicas:
        model = [(name, kind.__qualname__, values) for name, kind, values in structure(replica.model)]
        told = (replica.name, replica.decision_weight, replica.seed, replica.epochs, replica.conditioned)
        digest.update(repr((*told, _described(replica.cost), model)).encode())
    for values in _tensors(stack, parameters):
        flat = values.cpu().clone(memory_format=torch.contiguous_format).reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _tensors(stack: ReplicaStack, parameters: Tensor) -> Iterator[Tensor]:
    for cases in (stack.train, stack.validation):
        yield from (cases.features, cases.outcome, cases.index)
    yield from (parameters, *stack.fixed.values())


def _described(value: object) -> object:
    """A cost or a part of one, in values that do not change from process to process: functions go by their name."""
    if is_dataclass(value):
        return type(value).__qualname__, [(each.name, _described(getattr(value, each.name))) for each in fields(value)]
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, bool | int | float | str | tuple | None):
        return value
    return getattr(value, "__qualname__", type(value).__qualname__)


_CASES_FOR_SCALES = 1 << 15


@torch.no_grad()
def validate(
    stack: ReplicaStack, parameters: Tensor, scales: Tensor | None, *, diagnostics: bool = True
) -> dict[str, Tensor]:
    """Means (R,) over the validation cases, with the same noise every time.

    `loss` is the objective, `score` and `decision` its two terms before scaling (`decision` is the companion, whichever
    it is). In physical units: `energy_score` of the members, realised `cost` of their best actions and the
    `expected_cost` they predict; then the shares of actions at each bound and of rows flagged because the search for
    their best action did not converge, so that they have no gradient. Without `diagnostics` there are only loss and
    score.
    """
    parts = [
        _validate(part, parameters[rows], None if scales is None else scales[rows], diagnostics)
        for rows, part in stack.parts()
    ]
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def _validate(stack: ReplicaStack, parameters: Tensor, scales: Tensor | None, diagnostics: bool) -> dict[str, Tensor]:
    objective, members = stack.objective(scales), stack.settings.validation_members
    if not diagnostics and not stack.weighs_decisions:
        objective = replace(objective, decision_weight=0.0)  # as a number: no best action is searched for
    sums: dict[str, Tensor] = {}
    deciding, draws = scales is not None, stack.validation_draws
    drawn = stack.draws(parameters, stack.validation, members, "validation", deciding=deciding, draws=draws)
    for draw, features in drawn:
        with unwatched():
            cost, charged = stack.column.cost(stack.cost, features), stack.charged(objective, features)
            values = _values(charged, cost, draw, stack.fair_estimator, diagnostics)
        for name, value in values.items():
            sums[name] = sums.get(name, 0.0) + value.sum(-1)
    return {name: total / (stack.validation.count * stack.validation_draws) for name, total in sums.items()}


def _values(
    objective: DecisionAwareObjective, cost: Cost, draw: TrainingDraw, estimator: Estimator, diagnostics: bool
) -> dict[str, Tensor]:
    """What `validate` takes the mean of, case by case, (R, B)."""
    terms = objective(draw)
    members, outcome = draw.decision_members, draw.decision_outcome
    values = {"loss": terms.total, "score": terms.score}
    if not diagnostics:
        return values
    values["energy_score"] = energy_score(members, outcome, estimator)
    if terms.decision is None:
        return values
    decided = realised_cost(cost, members, outcome, thorough=False, certify=True)
    assert decided.certificate is not None
    at_lower, at_upper = at_bounds(cost, decided.action, members)
    return values | {
        "decision": terms.decision,
        "cost": decided.cost,
        "expected_cost": decided.certificate.expected_cost,
        "at_lower": at_lower.to(members),
        "at_upper": at_upper.to(members),
        "flagged": (~decided.certificate.converged).to(members),
    }


@torch.no_grad()
def estimate_scales(stack: ReplicaStack, parameters: Tensor) -> Tensor:
    """Mean score and mean |companion| of each replica on its training cases, (R, 2), by the plain estimator."""
    return torch.cat([_estimate_scales(part, parameters[rows]) for rows, part in stack.parts()])


def _estimate_scales(stack: ReplicaStack, parameters: Tensor) -> Tensor:
    objective, members = stack.objective(parameters.new_ones(len(stack), 2)).plain, stack.settings.members
    drawn = stack.draws(parameters, stack.train, members, "scales", _CASES_FOR_SCALES, deciding=True)

    def both(draw: TrainingDraw, features: Tensor) -> tuple[Tensor, Tensor]:
        with unwatched():
            terms = stack.charged(objective, features)(draw)
        assert terms.decision is not None  # the weight is a tensor
        return terms.score, terms.decision.abs()

    return torch.cat(loss_scales((both(*each) for each in drawn), -1), -1)


# Where a training stands, on disk: its newest checkpoints, every file atomic and verified, no pickle

_EPOCHS = 10**8
_JSON_NAME = re.compile(r"epoch-[0-9]{8}\.json")
_TENSOR_NAME = re.compile(r"epoch-[0-9]{8}-[0-9a-f]{16}\.safetensors")
_TEMPORARY_NAME = re.compile(rf"\.(?:{_JSON_NAME.pattern}|{_TENSOR_NAME.pattern})\.([0-9]{{1,9}})-[0-9a-f]{{16}}\.tmp")


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Where a training stands."""

    epoch: int  # the epochs that are over, those of pre-training counted in
    tensors: dict[str, Tensor]  # named tensors, on any device
    state: dict[str, Any]  # all else, in what JSON can hold


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Write the checkpoint, then delete all others but the one before it: later ones, too, as training went back."""
    epoch = checkpoint.epoch
    if type(epoch) is not int or not 0 <= epoch < _EPOCHS:
        raise CheckpointError(f"epoch must be a whole number from 0 to {_EPOCHS - 1}, got {short_ascii(epoch)}")
    name = f"epoch-{epoch:08d}.json"
    content = serialised(name, checkpoint.tensors)
    entry = _entry(epoch, hashlib.sha256(content).hexdigest(), len(content), checkpoint.state)
    document = json_document(name, entry)
    write_atomically(folder / entry["file"], content)
    write_atomically(folder / name, document)
    with suppress(OSError):
        _tidy(folder, epoch, entry["file"])


def load_latest(
    folder: Path, check: Callable[[Checkpoint], None] | None = None, limit: int = TENSOR_LIMIT
) -> tuple[Checkpoint | None, tuple[str, ...]]:
    """The newest checkpoint that can be read, and a sentence for every newer one that cannot; None if there is none.

    If there are checkpoints and none can be read, that is an error: nobody shall start again from zero unawares.
    """
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return None, ()
    except OSError as error:
        raise CheckpointError(f"the folder {folder} cannot be read: {error.strerror}") from error
    reasons: list[str] = []
    for name in sorted(filter(_JSON_NAME.fullmatch, names), reverse=True):
        try:
            checkpoint = _load_checkpoint(folder / name, limit)
            if check:
                check(checkpoint)
            return checkpoint, tuple(reasons)
        except StakesError as error:
            reasons.append(f"the checkpoint of epoch {_epoch(name)} was skipped: {error}")
    if reasons:
        raise CheckpointError(f"no checkpoint in {folder} can be used; to start anew, move it: {'; '.join(reasons)}")
    return None, ()


def _entry(epoch: int, sha256: str, size: int, state: dict[str, Any]) -> dict[str, Any]:
    name = f"epoch-{epoch:08d}-{sha256[:16]}.safetensors"
    return {"version": 1, "epoch": epoch, "file": name, "sha256": sha256, "size": size, "state": state}


def _load_checkpoint(path: Path, limit: int) -> Checkpoint:
    """The checkpoint, if its JSON is the very one this module writes for that file name, hash, size and state."""
    entry, kinds = read_json(path), {"sha256": str, "size": int, "state": dict}
    if not isinstance(entry, dict) or any(type(entry.get(field)) is not kind for field, kind in kinds.items()):
        raise CheckpointError(f"{path} must give sha256, size and state of a checkpoint, got {short_ascii(entry)}")
    right = _entry(_epoch(path.name), entry["sha256"], entry["size"], entry["state"])
    if not _TENSOR_NAME.fullmatch(right["file"]):
        raise CheckpointError(f"{path}: sha256 must be 64 hexadecimal digits, got {short_ascii(entry['sha256'])}")
    for field in sorted(right.keys() | entry.keys()):
        came, due = entry.get(field, "absent"), right.get(field, "absent")
        if field not in right or canonical_json(came) != canonical_json(due):  # as text, since True == 1
            raise CheckpointError(f"{path}: {short_ascii(field)} must be {short_ascii(due)}, got {short_ascii(came)}")
    file = path.with_name(right["file"])
    tensors = load_tensors(file, right["sha256"], limit=min(limit, right["size"]))
    if file.stat().st_size != right["size"]:
        raise CheckpointError(f"{path}: size must be {file.stat().st_size}, got {right['size']}")
    return Checkpoint(right["epoch"], tensors, right["state"])


def _epoch(name: str) -> int:
    return int(name[6:14])


def _tidy(folder: Path, epoch: int, tensor_name: str) -> None:
    """Delete all checkpoints but this one and the one before, tensors without JSON, and what dead writers left."""
    names = os.listdir(folder)
    documents, tensors = (sorted(filter(pattern.fullmatch, names)) for pattern in (_JSON_NAME, _TENSOR_NAME))
    kept = {epoch, max((other for other in map(_epoch, documents) if other < epoch), default=epoch)}
    stale = [name for name in documents + tensors if _epoch(name) not in kept]  # no JSON outlives its tensors
    stale += [name for name in tensors if _epoch(name) == epoch and name != tensor_name]
    stale += [match[0] for match in map(_TEMPORARY_NAME.fullmatch, names) if match and _is_dead(int(match[1]))]
    for name in stale:
        with suppress(OSError):
            os.unlink(folder / name)


def _is_dead(process: int) -> bool:
    """Whether no other process has that number; this one, which asks, has nothing left to write."""
    try:
        os.kill(process, 0)
    except OSError as error:
        return isinstance(error, ProcessLookupError)
    return process == os.getpid()


# The loop

_IDLE_SHARE = 1 / 8  # of a captured stack may wait for the others before it is captured anew without them


@dataclass(frozen=True)
class SessionState:
    """What a checkpoint keeps beside tensors."""

    fingerprint: str
    phase: Phase
    epoch: int
    rows: tuple[int, ...]
    seconds: float
    replicas: tuple[ReplicaRecord, ...]


def train(
    replicas: Sequence[Replica],
    settings: TrainingSettings,
    *,
    device: str | torch.device = "cpu",
    checkpoints: Path | None = None,
    checkpoint_seconds: float = 30.0,
    observers: Sequence[Observer] = (),
    stop: Callable[[], bool] = lambda: False,
    capture: bool = True,
    together: bool | None = None,
    diagnostics: bool = True,
) -> list[Trained]:
    """Train replicas as one stack and restore the best weights of each; models with nothing to train are validated.

    Without `diagnostics` validations tell only what stops the training: neither costs nor norms of gradients, which
    take a third of the time.

    >>> import torch, stakes
    >>> from stakes.data.case_table import CaseTable
    >>> cases = CaseTable(torch.rand(64, 1), torch.rand(64, 1))
    >>> model = stakes.ImplicitModel(1, 1)
    >>> model.fit_scaling(cases.features, cases.outcome)
    >>> replica = Replica(model, cases, cases, stakes.ShortfallCost(5.0), decision_weight=0.3, seed=0)
    >>> trained, = train([replica], TrainingSettings(epochs=2, validate_every=1))
    >>> trained.status, trained.epoch
    ('finished', 2)
    """
    if not replicas:
        raise SettingError("there must be at least one replica to train")
    folder = None if checkpoints is None else Path(checkpoints)
    session = _Session(replicas, settings, torch.device(device), folder, observers, capture, together, diagnostics)
    session.run(checkpoint_seconds, stop)
    return session.results


class _Session:
    """The state of a stack in training; rows of the stepper belong to the replicas listed in `rows`."""

    def __init__(
        self,
        replicas: Sequence[Replica],
        settings: TrainingSettings,
        device: torch.device,
        folder: Path | None,
        observers: Sequence[Observer],
        capture: bool,
        together: bool | None,
        diagnostics: bool,
    ) -> None:
        self.diagnostics = diagnostics
        self.folder = folder
        self.observers = observers
        self.capture = capture
        self.stack = ReplicaStack(replicas, settings, device, together)
        self.trains = bool(self.stack.layout.sizes)
        self.settings = settings if self.trains else replace(settings, pretraining_epochs=0)
        self.results = [Trained(replica) for replica in self.stack.replicas]
        self.best = self.stack.initial_parameters()  # (R, P)
        self.scales = torch.ones(len(replicas), 2, device=device, dtype=self.best.dtype)
        self.leaders = leaders(self.stack, self.best)
        self.phase: Phase = "pretraining" if self.settings.pretraining_epochs else "training"
        self.epoch = 0
        self.rows: list[int] = []
        self.replica_steps = 0
        self.fingerprint = fingerprint(self.stack, self.best)
        self.seconds_before = 0.0
        self.started = time.perf_counter()

    def run(self, checkpoint_seconds: float, stop: Callable[[], bool]) -> None:
        self.checkpoint_seconds, self.stop = checkpoint_seconds, stop
        self.saved = time.perf_counter()
        if not self._resume():
            self._enter(sorted(set(self.leaders)) if self.phase == "pretraining" else range(len(self.stack)), self.best)
        if self.phase == "pretraining":
            self._epochs(self.settings.pretraining_epochs)
            self._branch()
        self._epochs(self.settings.epochs)
        for index in self._running():
            if self.results[index].best_loss == math.inf:
                self._fail(index, "the validation loss was never finite")
            else:
                self._finish(index, "finished")

    # -- phases

    def _enter(self, rows: Sequence[int], parameters: Tensor) -> None:
        """Start a phase with these replicas, all of whose parameters are given, (R, P)."""
        self.rows, self.epoch = list(rows), 0
        if self.rows and self.trains and self.phase == "training":
            self._estimate_scales(parameters)
        if self.rows:  # all may have failed
            self._make_stepper(parameters[self.rows])
            self._validate()

    def _branch(self) -> None:
        """From one pre-trained model per seed to all its replicas."""
        for row, leader in enumerate(self.rows):
            self.best[self._followers(leader)] = self.stepper.parameters[row].detach()
        self.phase = "training"
        self._enter(self._running(), self.best)

    def _estimate_scales(self, parameters: Tensor) -> None:
        """Both loss scales of every replica, once; one that has none of a term it needs fails."""
        scales = estimate_scales(self.stack.select(self.rows), parameters[self.rows])
        sound = ((scales > 0) & torch.isfinite(scales)).tolist()
        self.scales[self.rows] = scales
        for index, (score, decision) in zip(list(self.rows), sound, strict=True):
            if score and not decision and not self.results[index].replica.decision_weight:
                self.scales[index, 1] = 1.0  # at weight 0 the cost does not matter
            elif not (score and decision):
                term = "decision" if score else "score"
                self._fail(index, f"the mean {term} term on the training cases is not a positive number before epoch 1")
        self.rows = self._running()

    def _make_stepper(self, parameters: Tensor) -> None:
        scales = self.scales[self.rows] if self.phase == "training" else None
        self.stepper = Stepper(self.stack.select(self.rows), parameters, scales, self.capture)

    def _epochs(self, last: int) -> None:
        while self.trains and self.epoch < last and self._running():
            self.epoch += 1
            self.stepper.epoch(self.phase, self.epoch, self._learning_rate(last))
            self.replica_steps += self.stepper.stack.steps * len(self._running())
            if self.epoch % self.settings.validate_every == 0 or self.epoch == last or self._someone_ends():
                self._validate()
                self._leave()
            self._after_epoch(last)

    def _someone_ends(self) -> bool:
        """Whether this is the last epoch that was asked of a replica."""
        asked = (self.results[index].replica.epochs for index in self._running())
        return self.phase == "training" and self.epoch in asked

    def _after_epoch(self, last: int) -> None:
        self._tell_progress(last)
        now = time.perf_counter()
        asked = self.stop()
        due = now - self.saved >= self.checkpoint_seconds
        if self.folder is not None and (asked or due):
            self._save()
            self.saved = now
        if asked:
            saved = "nothing is saved" if self.folder is None else "everything up to it is saved"
            raise InterruptedTraining(f"interrupted after epoch {self.epoch} of {self.phase}; {saved}")

    def _learning_rate(self, last: int) -> float:
        if self.settings.schedule == "constant" or self.phase == "pretraining":
            return self.settings.learning_rate
        return self.settings.learning_rate * (1 + math.cos(math.pi * (self.epoch - 1) / last)) / 2

    # -- validation

    def _validate(self) -> None:
        self._note_troubles()
        stepper = self.stepper
        metrics = validate(stepper.stack, stepper.parameters, stepper.scales, diagnostics=self.diagnostics)
        if self.diagnostics:
            norms = stepper.gradient_norms(self.phase, self.epoch)
            metrics |= {f"gradient_{name}": norm for name, norm in norms.items()}
        table = torch.stack(list(metrics.values())).double().tolist()  # the one wait for the device
        for row, index in enumerate(self.rows):
            if self.results[index].status != "running":
                continue
            values = {name: column[row] for name, column in zip(metrics, table, strict=True)}
            line = {"phase": self.phase, "epoch": self.epoch, **values}
            for follower in self._sharing(index):
                for observer in self.observers:
                    observer.validated(follower, line)
            if self.phase == "training":
                self._judge(row, index, values["loss"])

    def _judge(self, row: int, index: int, loss: float) -> None:
        """Note a better loss, or end a replica that has waited for one too long, or was to end here."""
        result = self.results[index]
        result.epoch = self.epoch
        result.steps = (self.settings.pretraining_epochs + self.epoch) * self.stack.steps
        due = result.replica.epochs
        if due is None and self.settings.keep == "last":
            due = self.settings.epochs
        if loss < (result.best_loss if due is None else math.inf):
            result.best_loss, result.best_epoch = loss, self.epoch
            self.best[index] = self.stepper.parameters[row].detach()
        if due is not None:
            if self.epoch >= due:
                self._end_as_asked(index, loss)
        elif self.epoch - result.best_epoch >= self.settings.patience:
            self._finish(index, "stopped early")

    def _end_as_asked(self, index: int, loss: float) -> None:
        if math.isfinite(loss):
            self._finish(index, "finished")
        else:
            self._fail(index, f"the validation loss is not finite after epoch {self.epoch}")

    def _note_troubles(self) -> None:
        for row, trouble in self.stepper.troubles().items():
            index = self.rows[row]
            if self.results[index].status != "running":
                continue
            epoch = 1 + (trouble.step - 1) // self.stack.steps
            for each in self._sharing(index):
                if self.results[each].best_loss == math.inf:
                    self.best[each] = self.stepper.parameters[row].detach()
                self._fail(each, f"the {trouble.term} is not finite in epoch {epoch} of {self.phase}")

    def _leave(self) -> None:
        """Let the replicas that are done leave the stack, so that the rest gets faster."""
        kept = [row for row, index in enumerate(self.rows) if self.results[index].status == "running"]
        idle = len(self.rows) - len(kept)
        patient = self.stack.device.type == "cuda" and self.capture  # a new capture costs time
        if not kept or not idle or (patient and idle < _IDLE_SHARE * len(self.rows)):
            return
        index = torch.tensor(kept, device=self.stack.device)
        state = {name: values[index] if values.dim() else values for name, values in self.stepper.state().items()}
        self.rows = [self.rows[row] for row in kept]
        self._make_stepper(state["parameters"])
        self.stepper.load_state(state)

    # -- replicas

    def _running(self) -> list[int]:
        known = range(len(self.stack)) if self.phase == "training" else self.rows
        return [index for index in known if self.results[index].status == "running"]

    def _followers(self, leader: int) -> list[int]:
        return [index for index, own in enumerate(self.leaders) if own == leader]

    def _sharing(self, index: int) -> list[int]:
        """The replicas that a row stands for: in pre-training all that will branch off it."""
        return self._followers(index) if self.phase == "pretraining" else [index]

    def _fail(self, index: int, failure: str) -> None:
        self.results[index].failure = failure
        self._finish(index, "failed")

    def _finish(self, index: int, status: Status) -> None:
        result = self.results[index]
        result.status, result.seconds = status, self._seconds()
        result.score_scale, result.decision_scale = self.scales[index].tolist()
        result.weights = self.stack.layout.weights(result.replica.model, self.best[index])
        for observer in self.observers:
            observer.done(index, result)

    def _tell_progress(self, last: int) -> None:
        losses = [result.best_loss for result in self.results if result.best_loss < math.inf]
        mean = sum(losses) / len(losses) if losses else None
        seconds = self._seconds() - self.seconds_before
        running = len(self._running())
        progress = Progress(self.phase, self.epoch, last, running, self.replica_steps, seconds, mean)
        for observer in self.observers:
            observer.progressed(progress)

    def _seconds(self) -> float:
        return self.seconds_before + time.perf_counter() - self.started

    # -- checkpoints

    def _save(self) -> None:
        assert self.folder is not None
        for observer in self.observers:
            observer.saving()
        tensors = {**self.stepper.state(), "best": self.best, "scales": self.scales}
        records = tuple(result.record() for result in self.results)
        state = SessionState(self.fingerprint, self.phase, self.epoch, tuple(self.rows), self._seconds(), records)
        before = self.settings.pretraining_epochs if self.phase == "training" else 0
        save_checkpoint(self.folder, Checkpoint(before + self.epoch, tensors, to_plain(state)))

    def _resume(self) -> bool:
        if self.folder is None:
            return False
        checkpoint, skipped = load_latest(self.folder, self._check)
        if checkpoint is None:
            return False
        tensors = {name: values.to(self.stack.device) for name, values in checkpoint.tensors.items()}
        state = from_plain(SessionState, checkpoint.state)
        self.phase, self.epoch, self.rows = state.phase, state.epoch, list(state.rows)
        self.seconds_before = state.seconds
        self.best, self.scales = tensors.pop("best"), tensors.pop("scales")
        self._make_stepper(tensors["parameters"])
        self.stepper.load_state(tensors)
        for observer in self.observers:
            observer.resumed(self.phase, self.epoch, skipped)
        for index, record in enumerate(state.replicas):
            self.results[index].take(record)
            if record.status != "running":
                self._finish(index, record.status)
        return True

    def _check(self, checkpoint: Checkpoint) -> None:
        """Raise unless the checkpoint is one of this very stack."""
        state = from_plain(SessionState, checkpoint.state)
        if state.fingerprint != self.fingerprint:
            raise CheckpointError("it belongs to other replicas, data or settings")
        count, rows = len(self.stack), state.rows
        if len(state.replicas) != count or not rows or len({*rows} & {*range(count)}) != len(rows):
            raise CheckpointError(f"it does not fit a stack of {count} replicas")
        pretraining = self.settings.pretraining_epochs
        before, last = (pretraining, self.settings.epochs) if state.phase == "training" else (0, pretraining)
        if not 0 < state.epoch <= last or checkpoint.epoch != before + state.epoch:
            raise CheckpointError(f"it must be of an epoch of {state.phase} up to {last}, got {state.epoch}")
        expected = self._expected(len(state.rows))
        check_tensors("its tensors", checkpoint.tensors, expected)

    def _expected(self, rows: int) -> dict[str, tuple[torch.dtype, tuple[int, ...]]]:
        """Type and shape of every tensor of a checkpoint with so many rows."""
        whole = {"best": self.best, "scales": self.scales}
        layout = {name: (values.dtype, tuple(values.shape)) for name, values in whole.items()}
        dtype, width = self.best.dtype, self.best.shape[1]
        layout |= dict.fromkeys(("parameters", "first_moment", "second_moment"), (dtype, (rows, width)))
        layout |= dict.fromkeys(("refused", "refused_at"), (torch.long, (rows,)))
        return layout | {"step": (torch.float32, ())}
