"""What training tells while it runs, on a terminal and beside its checkpoints, and what it returns."""

import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from torch import Tensor

from stakes.errors import CheckpointError
from stakes.files import read_json, write_json
from stakes.training.replicas import Replica

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID


Status = Literal["running", "finished", "stopped early", "failed"]
Phase = Literal["pretraining", "training"]


@dataclass(frozen=True)
class Progress:
    """How far a stack is."""

    phase: Phase  # pre-training or training
    epoch: int  # the epochs of this phase that are over
    epochs: int  # the epochs of this phase in all
    running: int  # how many replicas are in training
    replica_steps: int  # steps of the optimiser since the start or the resumption, summed over the replicas
    seconds: float  # the time since the start or the resumption
    best_loss: float | None


@dataclass(frozen=True)
class ReplicaRecord:
    """How a replica stands, in plain values."""

    status: Status  # whether it is running, finished, stopped early or failed
    epoch: int  # the epoch of its last validation
    best_epoch: int  # the epoch of its best validation loss
    best_loss: float | None  # its best validation loss; None before there is any
    steps: int  # steps of the optimiser, pre-training counted in
    failure: str | None  # why it failed; None where it did not


@dataclass(eq=False)
class Trained:
    """A replica after training: its best weights by the validation loss, and how it came to them."""

    replica: Replica = field(repr=False)  # what was trained
    status: Status = "running"  # whether it is running, finished, stopped early or failed
    epoch: int = 0  # the epoch of its last validation
    best_epoch: int = 0  # the epoch of its best validation loss, whose weights these are
    best_loss: float = math.inf  # its best validation loss; infinite before there is any
    steps: int = 0  # steps of the optimiser, pre-training counted in
    failure: str | None = None  # why it failed; None where it did not
    seconds: float = 0.0  # how long the whole stack had taken when the replica was done
    score_scale: float = math.nan  # what the score is divided by in the objective; NaN before it is known
    decision_scale: float = math.nan  # what the decision term is divided by in the objective; NaN before it is known
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


_SECONDS_BETWEEN_LINES = 10.0


class StatusLines:
    """Writes one sentence at a time."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet

    def __call__(self, sentence: str) -> None:
        if not self.quiet:
            sys.stderr.write(f"{sentence}\n")
            sys.stderr.flush()

    @contextmanager
    def counting(self, sentence: str) -> Iterator[Callable[[int, int], None]]:
        """Write the sentence, and give a function that is to be told how many of how many are done.

        It moves a bar, or writes a line every ten seconds where there is no terminal, or no rich.
        """
        self(sentence)
        with Display(self.quiet) as display:
            yield display.counted


class Display:
    """One bar for each stack at work, and warnings; a line every ten seconds where there is no terminal, or no rich."""

    def __init__(self, quiet: bool = False) -> None:
        self.bars = None if quiet or not _has_bars() else _bars()
        self.quiet, self._told = quiet, monotonic()
        self.tasks: dict[str, TaskID] = {}
        self._warned: set[str] = set()

    def __enter__(self) -> Self:
        if self.bars is not None:
            self.bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.bars is not None:
            self.bars.stop()

    def note(self, sentence: str) -> None:
        """Something that is good to know while one watches."""
        if self.bars is not None:
            self.bars.console.print(sentence, highlight=False, markup=False)

    def beat(self, sentence: str) -> None:
        """How far the work is, where no bar shows it: the first sentence after ten seconds without one is told."""
        if self.quiet or self.bars is not None or monotonic() - self._told < _SECONDS_BETWEEN_LINES:
            return
        self._told = monotonic()
        sys.stderr.write(f"{sentence}\n")
        sys.stderr.flush()

    def warn(self, sentence: str) -> None:
        """Something one must know, watching or not; said once, whichever stack says it."""
        if sentence in self._warned:
            return
        self._warned.add(sentence)
        if self.bars is not None:
            self.note(sentence)
        else:
            sys.stderr.write(f"{sentence}\n")

    def counted(self, done: int, of: int) -> None:
        """Show that so many of so many are done."""
        if self.bars is None:
            self.beat(f"{done:,} of {of:,} done")
        else:
            self.bars.update(self._task("", of), completed=done, total=of)

    def progressed(self, stack: str, runs: int, line: dict[str, Any]) -> None:
        """Show how far a stack of so many runs is, by the fields of `Progress`."""
        if self.bars is None:
            where = f"{stack}: " if stack else ""
            self.beat(f"{where}{line['phase']}, epoch {line['epoch']} of at most {line['epochs']}")
            return
        task = self._task(stack, line["epochs"])
        rate = line["replica_steps"] / max(line["seconds"], 1e-9)
        loss = "" if line["best_loss"] is None else f", loss {line['best_loss']:.4f}"
        text = f"{line['phase']}, {line['running']} of {runs} running{loss}, {rate:,.0f} replica-steps/s"
        self.bars.update(task, description=text, total=line["epochs"], completed=line["epoch"])

    def _task(self, name: str, total: int) -> "TaskID":
        assert self.bars is not None
        if name not in self.tasks:
            self.tasks[name] = self.bars.add_task("", total=total)
        return self.tasks[name]


class StackDisplay(Observer):
    """Shows how far the one stack is that trains in this process."""

    def __init__(self, display: Display) -> None:
        self.display = display
        self.runs = 0

    def progressed(self, progress: Progress) -> None:
        self.runs = max(self.runs, progress.running)
        self.display.progressed("", self.runs, asdict(progress))

    def resumed(self, phase: Phase, epoch: int, skipped: Sequence[str]) -> None:
        for sentence in skipped:
            self.display.warn(sentence)
        self.display.note(f"resumed after epoch {epoch} of {phase}")


def _has_bars() -> bool:
    return sys.stderr.isatty() and find_spec("rich") is not None


def _bars() -> "Bars":
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}", markup=False))
    return Progress(*columns, console=Console(stderr=True), transient=True)


_KEPT = ("phase", "epoch", "loss", "score", "decision", "energy_score", "cost", "expected_cost")
_FILE = "history.json"


class ValidationHistory(Observer):
    """The validations of each replica, those before a resumption as well."""

    def __init__(self, checkpoints: Path | None) -> None:
        self.lines: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
        self._file = None if checkpoints is None else checkpoints / _FILE

    def validated(self, replica: int, line: dict[str, Any]) -> None:
        self.lines[replica].append({name: line[name] for name in _KEPT if name in line})

    def saving(self) -> None:
        if self._file is not None:
            write_json(self._file, [[replica, _to_plain(lines)] for replica, lines in self.lines.items()])

    def resumed(self, phase: Phase, epoch: int, skipped: Sequence[str]) -> None:
        """Take up the validations until this moment; those after it are made again."""
        if self._file is None or not self._file.exists():  # beside a checkpoint of an older version
            return
        try:
            for replica, lines in read_json(self._file):
                # "pretraining" comes before "training" in the alphabet too
                earlier = [line for line in lines if (line["phase"], line["epoch"]) <= (phase, epoch)]
                self.lines[replica] = _from_plain(earlier)
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{self._file} does not list the validations of each replica: {error}") from error


def _to_plain(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """With text for the numbers that JSON lacks."""

    def plain(value: Any) -> Any:
        return str(value) if isinstance(value, float) and not math.isfinite(value) else value

    return [{name: plain(value) for name, value in line.items()} for line in lines]


def _from_plain(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {name: float(line[name]) if name not in ("phase", "epoch") else line[name] for name in _KEPT if name in line}
        for line in lines
    ]
