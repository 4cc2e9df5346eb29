"""A program of one's own in a TOML file, in the words of `stakes.Program`; nothing in it is executed."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from stakes.cost_text.common_keys import COMMON_KEYS, RISK_KEYS, UNIT_KEYS
from stakes.errors import CostError, StakesError, did_you_mean
from stakes.files import is_pipe_or_device
from stakes.method.program_words import Program
from stakes.settings import from_plain, shown, to_plain

__all__ = ["ProgramFile", "program_of", "program_record", "read_program", "recorded_program"]

_LARGEST = 1 << 20  # bytes of a file
_HEADER = re.compile(r"\s*\[([^\[\]]+)\]\s*(?:#.*)?")
_WORD = re.compile(r"[^\W\d]\w*")
_KEY = re.compile(r"\s*([^=#\[]+?)\s*=")
_PLACE = re.compile(
    r"there is no setting '(.+)';|\b((?:decide|recourse|covers|limits|numbers)\.[\w.-]+|(?:action_)?unit)"
)


class ProgramFile(NamedTuple):
    """What a file says.

    Attributes:
        program: The program.
        unit: The unit of its cost, as in EUR; empty where the file does not say.
        action_unit: The unit of what is decided, likewise.
    """

    program: Program
    unit: str
    action_unit: str


def read_program(path: Path) -> ProgramFile:
    """The program in a file, or one sentence that names the line and what is wrong there.

    Args:
        path: The file, TOML.
    """
    text = _text(path)
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise CostError(f"the program {path.name!r} is no TOML: {error}") from error
    try:
        _require_no_aversion(table, path.name)
        unit, action_unit = (from_plain(str, table.pop(key, ""), key) for key in UNIT_KEYS)
        program = program_of(table)
        _require_number_names(program, path.name)
        _require_numbers_used(program)
        return ProgramFile(program, unit, action_unit)
    except StakesError as error:
        place = _PLACE.search(str(error))
        line = None if place is None else _line(text, place[1] or place[2])
        where = "" if line is None else f", line {line}"
        raise CostError(f"the program {path.name!r}{where}: {error}") from error


def program_of(table: object, where: str = "") -> Program:
    """The program that a table of TOML or JSON states.

    Args:
        table: What a file or a record has.
        where: The place of the table, which begins the message of an error.
    """
    return from_plain(Program, table, where)


def program_record(program: Program) -> dict[str, Any]:
    """What JSON can hold of a program: its words, and the order of what is decided, which sorted keys would lose.

    Args:
        program: The program.
    """
    return {**to_plain(program), "order": list(program.decide)}


def recorded_program(record: object, where: str) -> Program:
    """The program of a record.

    Args:
        record: What `program_record` gave.
        where: The place of the record, which begins the message of an error.
    """
    if not isinstance(record, Mapping):
        return program_of(record, where)  # which refuses it
    program = program_of({key: value for key, value in record.items() if key != "order"}, where)
    order = from_plain(tuple[str, ...], record.get("order"), f"{where}.order")
    if sorted(order) != sorted(program.decide):
        raise CostError(f"{where}.order must name all that is decided once, got {', '.join(order)}")
    return replace(program, decide={name: program.decide[name] for name in order})


def _require_no_aversion(table: Mapping[str, object], name: str) -> None:
    if others := [key for key in RISK_KEYS if key in table]:
        raise CostError(f"there is no setting {others[0]!r}; give it as {name}:{others[0]}={shown(table[others[0]])}")


def _require_number_names(program: Program, name: str) -> None:
    if taken := [key for key in program.numbers if key in COMMON_KEYS]:
        raise CostError(
            f"numbers.{taken[0]} must have another name: {taken[0]} is a word of every cost, given as "
            f"{name}:{taken[0]}=..."
        )


def _require_numbers_used(program: Program) -> None:
    quantities = [*program.decide.values(), *program.recourse.values()]
    amounts = [amount for quantity in quantities for amount in quantity.amounts.values() if isinstance(amount, str)]
    texts = [*amounts, *program.covers.values(), *program.limits.values()]
    used = {word for text in texts for word in _WORD.findall(text)}
    if others := [name for name in program.numbers if name not in used]:
        known = ", ".join(name for name in program.numbers if name in used) or "none"
        raise CostError(
            f"numbers.{others[0]} is not used by any quantity, cover or limit; the numbers used are {known}"
        )


def _text(path: Path) -> str:
    if is_pipe_or_device(path):
        raise CostError(f"the program {str(path)!r} must be a regular file, not a pipe or a device")
    try:
        if path.stat().st_size > _LARGEST:
            raise CostError(f"the program {str(path)!r} must have at most {_LARGEST:,} bytes")
        return path.read_text(encoding="utf-8-sig")  # some editors write the mark
    except IsADirectoryError:
        raise CostError(f"the program {str(path)!r} is a folder, expected a TOML file") from None
    except FileNotFoundError:
        near = sorted(other.name for other in path.parent.glob("*.toml")) if path.parent.is_dir() else []
        hint = f"; {did_you_mean(path.name, near)}" if near else ""
        raise CostError(f"there is no file {str(path)!r} for the cost{hint}") from None
    except UnicodeDecodeError:
        raise CostError(f"the program {str(path)!r} must be text in UTF-8") from None
    except OSError as error:
        raise CostError(f"the program {str(path)!r} cannot be read: {error.strerror}") from error


def _line(text: str, place: str) -> int | None:
    """The line at which something is said about a place such as decide.hours.upper, or about a table around it."""
    wanted = place.split(".")
    first: dict[int, int] = {}  # the line by how much of the place it is about
    for number, path in _paths(text):
        depth = min(len(path), len(wanted))
        if path[:depth] == wanted[:depth]:
            first.setdefault(depth, number)
    return first[max(first)] if first else None


def _paths(text: str) -> Iterator[tuple[int, list[str]]]:
    """The keys that lines are about, as far as they can be seen at their beginning."""
    table: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.fullmatch(line):
            table = _words(header[1])
            yield number, table
        elif key := _KEY.match(line):
            yield number, [*table, *_words(key[1])]


def _words(dotted: str) -> list[str]:
    return [word.strip().strip("\"'") for word in dotted.split(".")]
