"""Progress of training on a terminal: time left, throughput and the current figures."""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from stakes.training.results import Observer, Phase, Progress

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

__all__ = ["Display", "ProgressTeller", "StackDisplay"]

_SECONDS_BETWEEN_LINES = 0.25


_SECONDS_BETWEEN_LINES = 10.0


class Display:
    """One bar for each stack at work, and warnings; a line every ten seconds where there is no terminal, or no rich.

    Args:
        quiet: Show neither.
    """

    def __init__(self, quiet: bool = False) -> None:
        self.bars = None if quiet or not sys.stderr.isatty() or find_spec("rich") is None else _bars()
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

    def hear(self, stack: str, runs: int, line: dict[str, Any]) -> None:
        """Show what a `ProgressTeller` told of a stack of so many runs."""
        if "warning" in line:
            self.warn(line["warning"])
        else:
            self.progressed(stack, runs, line)

    def progressed(self, stack: str, runs: int, line: dict[str, Any]) -> None:
        """Show how far a stack of so many runs is, by the fields of `Progress`."""
        if self.bars is None:
            where = f"{stack}: " if stack else ""
            self.beat(f"{where}{line['phase']}, epoch {line['epoch']} of at most {line['epochs']}")
            return
        if stack not in self.tasks:
            self.tasks[stack] = self.bars.add_task("", total=line["epochs"])
        rate = line["replica_steps"] / max(line["seconds"], 1e-9)
        loss = "" if line["best_loss"] is None else f", loss {line['best_loss']:.4f}"
        text = f"{line['phase']}, {line['running']} of {runs} running{loss}, {rate:,.0f} replica-steps/s"
        self.bars.update(self.tasks[stack], description=text, total=line["epochs"], completed=line["epoch"])

    def ended(self, stack: str) -> None:
        """Take away the bar of a stack."""
        if self.bars is not None and stack in self.tasks:
            self.bars.remove_task(self.tasks.pop(stack))


class StackDisplay(Observer):
    """Shows how far the one stack is that trains in this process.

    Args:
        display: Where its bar is.
    """

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


def _bars() -> "Bars":
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}", markup=False))
    return Progress(*columns, console=Console(stderr=True), transient=True)


class ProgressTeller(Observer):
    """Tells in plain values how far a stack is.

    Args:
        tell: Gets the fields of `Progress`, a few times a second at most, or a "warning".
    """

    def __init__(self, tell: Callable[[dict[str, Any]], None]) -> None:
        self.tell = tell
        self._told = 0.0

    def progressed(self, progress: Progress) -> None:
        now = time.monotonic()
        if now - self._told >= _SECONDS_BETWEEN_LINES or progress.epoch == progress.epochs:
            self._told = now
            self.tell(asdict(progress))

    def resumed(self, phase: Phase, epoch: int, skipped: Sequence[str]) -> None:
        for sentence in skipped:
            self.warn(sentence)

    def warn(self, sentence: str) -> None:
        """Something the user must know."""
        self.tell({"warning": sentence})
