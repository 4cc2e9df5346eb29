"""Commands called in this process, and what they say."""

import io
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout

from stakes.cli import main


def called(*words: str, command: Callable[[list[str]], int] = main) -> tuple[int, str, str]:
    """Exit code, standard output and standard error."""
    with redirect_stdout(io.StringIO()) as output, redirect_stderr(io.StringIO()) as errors:
        code = command(list(words))
    return code, output.getvalue(), errors.getvalue()


def complaint(*words: str, command: Callable[[list[str]], int] = main) -> str:
    """The one line that a command which cannot be done has to say."""
    code, output, errors = called(*words, command=command)
    assert (code, output) == (2, "")
    assert errors.startswith("stakes: ")
    assert errors.endswith("\n")
    assert errors.count("\n") == 1
    return errors[8:-1]
