"""What a long command tells on standard error while it works: one line for each step and, on a terminal, a bar."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

__all__ = ["StatusLines"]


class StatusLines:
    """Writes one sentence at a time.

    Args:
        quiet: Write nothing at all.
    """

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet

    def __call__(self, sentence: str) -> None:
        if not self.quiet:
            sys.stderr.write(f"{sentence}\n")
            sys.stderr.flush()

    @contextmanager
    def counting(self, sentence: str) -> Iterator[Callable[[int, int], None]]:
        """Write the sentence, and give a function that is to be told how many of how many are done."""
        self(sentence)
        if self.quiet or not sys.stderr.isatty() or find_spec("rich") is None:
            yield lambda done, of: None
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

        columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
            task = bars.add_task("", total=None)
            yield lambda done, of: bars.update(task, completed=done, total=of)
