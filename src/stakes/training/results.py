"""What training tells while it runs, and what it returns."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from torch import Tensor

from stakes.training.replicas import Replica

__all__ = ["Observer", "Phase", "Progress", "ReplicaRecord", "Status", "Trained"]

Status = Literal["running", "finished", "stopped early", "failed"]
Phase = Literal["pretraining", "training"]


@dataclass(frozen=True)
class Progress:
    """How far a stack is.

    Attributes:
        phase: Pre-training or training.
        epoch: The epochs of this phase that are over.
        epochs: The epochs of this phase in all.
        running: How many replicas are in training.
        replica_steps: Steps of the optimiser since the start or the resumption, summed over the replicas.
        seconds: The time since the start or the resumption.
        best_loss: The mean of the best validation losses of the replicas that have one; None before there is any.
    """

    phase: Phase
    epoch: int
    epochs: int
    running: int
    replica_steps: int
    seconds: float
    best_loss: float | None


@dataclass(frozen=True)
class ReplicaRecord:
    """How a replica stands, in plain values.

    Attributes:
        status: Whether it is running, finished, stopped early or failed.
        epoch: The epoch of its last validation.
        best_epoch: The epoch of its best validation loss.
        best_loss: Its best validation loss; None before there is any.
        steps: Steps of the optimiser, pre-training counted in.
        failure: Why it failed; None where it did not.
    """

    status: Status
    epoch: int
    best_epoch: int
    best_loss: float | None
    steps: int
    failure: str | None


@dataclass(eq=False)
class Trained:
    """A replica after training: its best weights by the validation loss, and how it came to them.

    Attributes:
        replica: What was trained.
        status: Whether it is running, finished, stopped early or failed.
        epoch: The epoch of its last validation.
        best_epoch: The epoch of its best validation loss, whose weights these are.
        best_loss: Its best validation loss; infinite before there is any.
        steps: Steps of the optimiser, pre-training counted in.
        failure: Why it failed; None where it did not.
        seconds: How long the whole stack had taken when the replica was done.
        score_scale: What the score is divided by in the objective; NaN before it is known.
        decision_scale: What the decision term is divided by in the objective; NaN before it is known.
        weights: The best state_dict of its model, on the CPU.
    """

    replica: Replica = field(repr=False)
    status: Status = "running"
    epoch: int = 0
    best_epoch: int = 0
    best_loss: float = math.inf
    steps: int = 0
    failure: str | None = None
    seconds: float = 0.0
    score_scale: float = math.nan
    decision_scale: float = math.nan
    weights: dict[str, Tensor] = field(default_factory=dict, repr=False)

    def record(self) -> ReplicaRecord:
        """How it stands, in plain values."""
        known = self.best_loss if math.isfinite(self.best_loss) else None
        return ReplicaRecord(self.status, self.epoch, self.best_epoch, known, self.steps, self.failure)

    def take(self, record: ReplicaRecord) -> None:
        """Stand where the record says."""
        for each in fields(record):
            setattr(self, each.name, getattr(record, each.name))
        self.best_loss = math.inf if record.best_loss is None else record.best_loss

    def load_into_model(self) -> None:
        """Put the weights into the replica's own model."""
        self.replica.model.load_state_dict(self.weights)


class Observer:
    """Hears what happens in training; every method may be overridden."""

    def resumed(self, phase: Phase, epoch: int, skipped: Sequence[str]) -> None:
        """Training goes on from a checkpoint; `skipped` says which newer ones were damaged."""

    def validated(self, replica: int, line: dict[str, Any]) -> None:
        """One line of metrics of one replica."""

    def progressed(self, progress: Progress) -> None:
        """An epoch is over."""

    def saving(self) -> None:
        """A checkpoint is about to be written."""

    def done(self, replica: int, trained: Trained) -> None:
        """A replica finished, stopped early or failed."""
