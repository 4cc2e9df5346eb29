"""What a command says while it works, and the exit code it ends with."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from time import monotonic

from stakes.errors import StakesError, short_line

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
        if self.quiet or not sys.stderr.isatty() or find_spec("rich") is None:
            yield self._lines()
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

        columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
            task = bars.add_task("", total=None)
            yield lambda done, of: bars.update(task, completed=done, total=of)

    def _lines(self) -> Callable[[int, int], None]:
        told = monotonic()

        def tell(done: int, of: int) -> None:
            nonlocal told
            if monotonic() - told >= _SECONDS_BETWEEN_LINES:
                told = monotonic()
                self(f"{done:,} of {of:,} done")

        return tell


ALARM = 3
"""How `stakes monitor` ends where errors have left what was learned: nothing went wrong, but somebody should look."""


def exit_code_of(command: Callable[[], object]) -> int:
    """Run a command and return 0, 2 for what the user can mend, or 130 for an interruption.

    A fault of stakes itself keeps its traceback.
    """
    try:
        command()
    except KeyboardInterrupt:
        return complain("interrupted", 130)
    except StakesError as error:
        return complain(str(error), 130 if type(error).__name__ == "InterruptedTraining" else 2)
    except OSError as error:
        return complain(f"{error.strerror or error}: {error.filename or ''}".rstrip(": "), 2)
    except (MemoryError, RuntimeError) as error:
        if not _lacks_memory(error):
            raise
        return complain("there is not enough memory for these settings", 2)
    return 0


def complain(sentence: str, code: int) -> int:
    """Say what is wrong in one line, and return the exit code."""
    sys.stderr.write(f"stakes: {short_line(sentence)}\n")
    return code


def _lacks_memory(error: Exception) -> bool:
    """Torch tells of it in words only, except on a GPU."""
    words = ("out of memory", "can't allocate memory", "not enough memory", "invalid storage", "overflow")
    return isinstance(error, MemoryError) or any(word in str(error).lower() for word in words)
