"""The one family of exceptions that `stakes` raises for its users' input, and what many messages are made of."""

import re
import sys
from collections.abc import Callable, Hashable, Iterable, Sequence
from difflib import get_close_matches
from typing import TypeVar

_COMPARED = 1000  # names, and letters of a name: looking for near ones takes their product
_LISTED = 50
_IN_A_ROW = 6  # names that count up, above which the first and the last tell all
_LONGEST_LINE = 2000
_Value = TypeVar("_Value", bound=Hashable)


class StakesError(ValueError):
    """An input that `stakes` cannot use; the message names it, and says what was given and what is expected."""


class StakesWarning(UserWarning, RuntimeWarning):
    """Something that users of `stakes` should know; commands show it, unlike the warnings of libraries."""


class CostError(StakesError):
    """A cost whose parameters or bounds do not define a decision problem."""


class ShapeError(StakesError):
    """A tensor of the wrong shape or type."""


class NonFiniteError(StakesError):
    """A tensor with NaN or infinity where every number must be finite."""


class SettingError(StakesError):
    """An option with a value outside its range."""


class InterruptedTraining(StakesError):  # noqa: N818 an answer to the user, not a fault
    """Training was asked to stop."""


class WorkerError(StakesError):
    """A worker process that ended before its work was done."""


class CheckpointError(StakesError):
    """A file kept by stakes, such as a checkpoint, that cannot be read or written, or was changed."""


class RecordError(StakesError):
    """A record that does not exist, or whose file is damaged."""


class TableError(StakesError):
    """A table, series or gridded file that cannot be read, or lacks what is asked of it."""


class BundleError(StakesError):
    """A bundle that cannot be written, or was changed since it was."""


def did_you_mean(wrong: str, known: Sequence[str]) -> str:
    """The end of a sentence about an unknown name: the nearest known one, or the first 50.

    Among more than 1,000 names, and for very long ones, only the same name in other letters of case is near.

    >>> did_you_mean("TEMP", ["load", "temp"]), did_you_mean("x", ["load", "temp"])
    ("did you mean 'temp'?", 'there are load, temp')
    """
    small = {name.casefold(): name for name in known}
    wanted = wrong.casefold()
    close = [wanted] if wanted in small else _near(wanted, list(small))
    return f"did you mean {small[close[0]]!r}?" if close else f"there are {listed(known)}"


def listed(names: Sequence[str]) -> str:
    """The names with commas between them; of very many, the first and how many more there are.

    >>> listed(["load", "temp"]), listed(["x"] * 1050)[-19:]
    ('load, temp', 'x, x and 1,000 more')
    """
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more:,} more" if more > 0 else "")


def names_text(names: Sequence[str]) -> str:
    """The names as `listed` has them; of more than six that count up, as the hours of a day do, the first and the last.

    >>> names_text([f"h{hour:02}" for hour in range(24)]), names_text(["north", "south"])
    ('h00 ... h23 (24)', 'north, south')
    """
    if len(names) <= _IN_A_ROW:
        return listed(names)
    matches = [re.fullmatch(r"(.*?)(\d{1,9})(\D*)", name) for name in names]
    counted = [int(match[2]) - place for place, match in enumerate(matches) if match]
    stems = {(match[1], match[3]) for match in matches if match}
    in_a_row = len(counted) == len(names) and len(set(counted)) == len(stems) == 1
    return f"{names[0]} ... {names[-1]} ({len(names)})" if in_a_row else listed(names)


def nearest_hint(wrong: str, known: Sequence[str]) -> str:
    """What a message about an unknown name ends with: the nearest known one, or nothing where none is near.

    >>> nearest_hint("TEMP", ["load", "temp"]), nearest_hint("x", ["load", "temp"])
    ("; did you mean 'temp'?", '')
    """
    hint = did_you_mean(wrong, known)
    return f"; {hint}" if hint.startswith("did you mean") else ""


def _near(wanted: str, names: Sequence[str]) -> list[str]:
    if max(len(names), len(wanted)) > _COMPARED:
        return []
    return get_close_matches(wanted, [name for name in names if len(name) <= _COMPARED], n=1)


def find_columns(wanted: Sequence[str], known: Sequence[str]) -> list[int]:
    """Where the wanted columns stand among the known."""
    check_names("columns", wanted)
    places = {column: place for place, column in enumerate(known)}
    for column in wanted:
        if column not in places:
            raise SettingError(f"there is no column {column!r}; {did_you_mean(column, known)}")
    return [places[column] for column in wanted]


def first_repeated(values: Iterable[_Value]) -> _Value | None:
    """The first value that was there before; None where all differ."""
    before: set[_Value] = set()
    for value in values:
        if value in before:
            return value
        before.add(value)
    return None


def check_names(field: str, names: Sequence[str]) -> None:
    """Raise unless the names are texts; one text alone would be read letter by letter."""
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise SettingError(f"{field} must be a tuple of names, got {names!r}")


def one_line(error: BaseException) -> str:
    """What an error says, without line breaks; its type where it says nothing."""
    return " ".join(str(error).split()) or type(error).__name__


def short_line(sentence: str) -> str:
    r"""The sentence on one line that a terminal shows as it is: cut where it is very long, control characters escaped.

    >>> short_line("the column 'a\x1b[2J'\nis " + "far " * 1000)[:36]
    "the column 'a\\x1b[2J' is far far far"
    """
    start = " ".join(sentence.split())[: _LONGEST_LINE + 1]
    line = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in start)
    return line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 4]} ..."


def exit_code_of(command: Callable[[], object]) -> int:
    """Run a command and return 0, 2 for what the user can mend, or 130 for an interruption.

    A fault of stakes itself keeps its traceback.
    """
    try:
        command()
    except KeyboardInterrupt:
        return complain("interrupted", 130)
    except StakesError as error:
        return complain(str(error), 130 if isinstance(error, InterruptedTraining) else 2)
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
