"""Small trainings whose every step is seen, for the tests of the trainer."""

from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from stakes import ShortfallCost
from stakes.data.case_table import CaseTable
from stakes.errors import InterruptedTraining
from stakes.training.progress import Observer, Phase, Progress, Trained
from stakes.training.replicas import Replica
from stakes.training.settings import TrainingSettings
from stakes.training.steps import Stepper
from stakes.training.trainer import train

CPU = torch.device("cpu")
MakeReplica = Callable[..., Replica]
Line = dict[str, Any]
# Two steps of 37 cases an epoch, six cases left over; odd numbers of members; some replicas stop early.
SETTINGS = TrainingSettings(
    epochs=6,
    pretraining_epochs=2,
    batch=37,
    members=5,
    validation_members=7,
    validate_every=1,
    patience=2,
    learning_rate=0.01,
)
QUICK = TrainingSettings(epochs=2, batch=16, members=5, validation_members=7, validate_every=1, learning_rate=0.01)
METRICS = {"loss", "score", "decision", "energy_score", "cost", "expected_cost", "at_lower", "at_upper", "flagged"}
METRICS |= {"gradient_score", "gradient_decision"}


class Recorder(Observer):
    """Keeps the lines of metrics as a run folder does, and counts everything else."""

    def __init__(self, lines: dict[int, list[Line]] | None = None) -> None:
        self.lines: dict[int, list[Line]] = {} if lines is None else lines
        self.resumptions: list[tuple[Phase, int, tuple[str, ...]]] = []
        self.progress: list[Progress] = []
        self.ended: list[int] = []
        self.saved = 0

    def resumed(self, phase: Phase, epoch: int, skipped: Sequence[str]) -> None:
        self.resumptions.append((phase, epoch, tuple(skipped)))
        for lines in self.lines.values():
            lines[:] = [line for line in lines if (line["phase"], line["epoch"]) <= (phase, epoch)]

    def validated(self, replica: int, line: Line) -> None:
        self.lines.setdefault(replica, []).append(line)

    def progressed(self, progress: Progress) -> None:
        self.progress.append(progress)

    def saving(self) -> None:
        self.saved += 1

    def done(self, replica: int, trained: Trained) -> None:
        self.ended.append(replica)

    def losses(self, replica: int) -> dict[int, float]:
        return {line["epoch"]: line["loss"] for line in self.lines[replica] if line["phase"] == "training"}


def recorded(replicas: Sequence[Replica], used: TrainingSettings, **options: Any) -> tuple[list[Trained], Recorder]:
    recorder = Recorder()
    return train(replicas, used, observers=[recorder], **options), recorder


def assert_same(found: Trained, expected: Trained) -> None:
    """All but the time it took, to the last bit."""
    for each in fields(Trained):
        if each.name not in ("replica", "seconds", "weights"):
            assert getattr(found, each.name) == getattr(expected, each.name), each.name
    assert found.weights.keys() == expected.weights.keys()
    for name, values in expected.weights.items():
        assert torch.equal(found.weights[name], values), name


def stop_after(epochs: int) -> Callable[[], bool]:
    """Says yes when it is asked for the n-th time."""
    asked = iter(range(1, epochs))
    return lambda: next(asked, None) is None


def with_interruptions(
    replicas: Sequence[Replica], used: TrainingSettings, folder: Path, epochs: Sequence[int], **options: Any
) -> tuple[list[Trained], dict[int, list[Line]], list[Recorder]]:
    """Train, stopped after so many epochs, and then so many more, and so on, and at last to the end."""
    lines: dict[int, list[Line]] = {}
    sessions = []
    for number in epochs:
        sessions.append(Recorder(lines))
        try:
            results = train(
                replicas, used, checkpoints=folder, stop=stop_after(number), observers=[sessions[-1]], **options
            )
        except InterruptedTraining:
            continue
        return results, lines, sessions
    sessions.append(Recorder(lines))
    return train(replicas, used, checkpoints=folder, observers=[sessions[-1]], **options), lines, sessions


def sweep_of(make_replica: MakeReplica, kind: str, train_cases: CaseTable) -> list[Replica]:
    """Nine replicas: three seeds by three weights, each weight with a cost of its own."""
    return [
        make_replica(
            kind, seed=seed, cost=ShortfallCost(2.0 + place), weight=weight, train=train_cases, name=f"{seed}-{weight}"
        )
        for seed in range(3)
        for place, weight in enumerate((0.0, 0.4, 0.8))
    ]


@pytest.fixture
def epochs_seen(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, float, dict[str, Tensor]]]:
    """Phase, epoch, learning rate and the state before, for every epoch of any stepper."""
    seen = []
    original = Stepper.epoch

    def epoch(self: Stepper, phase: str, number: int, learning_rate: float) -> None:
        seen.append((phase, number, learning_rate, {name: values.clone() for name, values in self.state().items()}))
        original(self, phase, number, learning_rate)

    monkeypatch.setattr(Stepper, "epoch", epoch)
    return seen


def rows_seen(epochs_seen: list[tuple[str, int, float, dict[str, Tensor]]]) -> list[tuple[str, int]]:
    return [(phase, len(state["parameters"])) for phase, _, _, state in epochs_seen]
