"""A cost from a user's own file: Python, executed because the user named it, or a program in TOML."""

import hashlib
import inspect
import math
import re
import sys
import tomllib
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from torch import Tensor

from stakes.costs.cost import Cost, Parameter, WrappedCost, error_words, require_cost, unwrapped
from stakes.errors import CostError, StakesError, did_you_mean
from stakes.files import is_pipe_or_device
from stakes.programs.convex_actions import cost_function
from stakes.programs.modelling import Program
from stakes.settings import from_plain, shown, to_plain

if TYPE_CHECKING:
    from stakes.cost_spec.spec import CostSpec

UNIT_KEYS = ("unit", "action_unit")  # of the cost and of the action
RISK_KEYS = {"cvar_level": "level", "cvar_mix": "mix"}  # and the fields of `stakes.CVaRCost`
COMMON_KEYS = (*RISK_KEYS, *UNIT_KEYS)  # of every cost

_BOUNDS = ("lower", "upper")


class OwnCost(WrappedCost):
    """The cost in a user's file; a copy in another process is made from the file again."""

    def __init__(self, spec: "CostSpec") -> None:
        self.spec, self.name = spec, spec.name
        self.cost = _cost_of(spec, _module(spec))

    @property
    def lower(self) -> Parameter:
        return self.cost.lower

    @property
    def upper(self) -> Parameter:
        return self.cost.upper

    def __call__(self, action: Tensor, outcome: Tensor) -> Tensor:
        try:
            return self.cost(action, outcome)
        except SystemExit as error:  # which would end the command
            raise CostError(f"{self.spec.function!r} of {self.spec.path.name!r} fails: {error_words(error)}") from error

    def __repr__(self) -> str:
        return f"OwnCost({str(self.spec)!r})"

    def __reduce__(self) -> tuple[type["OwnCost"], tuple["CostSpec"]]:
        return OwnCost, (self.spec,)

    def __deepcopy__(self, memo: dict[int, Any]) -> "OwnCost":
        return self


def file_hash(path: Path) -> str:
    """The SHA-256 of a user's file."""
    return hashlib.sha256(_content(path)).hexdigest()


def _content(path: Path, what: str = "cost's file", kind: str = "Python", most: float = math.inf) -> bytes:
    """The bytes of a user's file."""
    if is_pipe_or_device(path):
        raise CostError(f"the {what} {str(path)!r} must be a regular file, not a pipe or a device")
    try:
        if path.stat().st_size > most:
            raise CostError(f"the {what} {str(path)!r} must have at most {most:,} bytes")
        return path.read_bytes()
    except IsADirectoryError:
        raise CostError(f"the {what} {str(path)!r} is a folder, expected a {kind} file") from None
    except FileNotFoundError:
        near = sorted(other.name for other in path.parent.glob(f"*{path.suffix}")) if path.parent.is_dir() else []
        hint = f"; {did_you_mean(path.name, near)}" if near else ""
        raise CostError(f"there is no file {str(path)!r} for the cost{hint}") from None
    except OSError as error:
        raise CostError(f"the {what} {str(path)!r} cannot be read: {error.strerror}") from error


def _module(spec: "CostSpec") -> ModuleType:
    """The file as a module of its own, executed from the very bytes that were named."""
    content = _content(spec.path)
    if hashlib.sha256(content).hexdigest() != spec.sha256:
        raise CostError(f"the cost's file {str(spec.path)!r} has changed since it was read; give it again")
    module = ModuleType(f"own_cost_{spec.sha256[:16]}")
    module.__file__ = str(spec.path)
    sys.modules[module.__name__] = module  # dataclasses look their module up
    try:
        exec(compile(content, str(spec.path), "exec"), module.__dict__)
    except (Exception, SystemExit) as error:
        raise CostError(
            f"the cost's file {spec.path.name!r} fails{_line_of(error, spec.path)}: {error_words(error)}"
        ) from error
    return module


def _cost_of(spec: "CostSpec", module: ModuleType) -> Cost:
    """The object itself, what a class or factory makes of the keys, or f(action, outcome) between bounds."""
    if not hasattr(module, spec.function):
        names = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
        hint = f"; {did_you_mean(spec.function, names)}" if names else ""
        raise CostError(f"the file {spec.path.name!r} has no function {spec.function!r}{hint}")
    named, keys = getattr(module, spec.function), dict(spec.parameters)
    if not isinstance(named, type) and all(hasattr(named, name) for name in _BOUNDS):
        if keys:
            raise CostError(f"the cost {spec.function!r} is an object that takes no parameters, got {', '.join(keys)}")
        cost = named
    elif not callable(named):
        raise CostError(f"{spec.function!r} of {spec.path.name!r} must be a cost, got {type(named).__name__}")
    elif _takes(named, (), keys):
        cost = _made(spec, named, keys)
    else:
        cost = _bounded(spec, named, keys)
    try:
        require_cost(cost)
    except CostError as error:
        raise CostError(f"{spec.function!r} of {spec.path.name!r} is not a cost: {error}") from error
    return cost


def _made(spec: "CostSpec", factory: Callable[..., Any], keys: Mapping[str, Any]) -> Any:
    try:
        return factory(**keys)
    except StakesError:
        raise
    except (Exception, SystemExit) as error:
        raise CostError(f"{spec.function!r} of {spec.path.name!r} fails: {error_words(error)}") from error


def _bounded(spec: "CostSpec", function: Callable[..., Tensor], keys: dict[str, Any]) -> Cost:
    others = {key: value for key, value in keys.items() if key not in (*_BOUNDS, "convex")}
    parts = None if _takes(function, (None, None), others) else others.pop("parts", None)
    if isinstance(function, type) or not _takes(function, (None, None), others):
        raise CostError(
            f"{spec.function!r} of {spec.path.name!r} must take {', '.join(keys) or 'no parameters'} and return a cost,"
            f" or be f(action, outcome) with the parameters lower, upper and, for a vector action, parts; its signature"
            f" is {_signature_text(function)}"
        )
    if missing := [name for name in _BOUNDS if name not in keys]:
        raise CostError(
            f"{spec.function!r} of {spec.path.name!r} needs the bounds of its action, {' and '.join(missing)}, as in "
            f"{spec.path.name}:{spec.function}:lower=0,upper=10"
        )
    if (convex := keys.get("convex", "no")) not in ("yes", "no"):
        raise CostError(f"{spec.function!r} of {spec.path.name!r}: convex must be yes or no, got {convex!r}")
    if parts is not None and not (isinstance(parts, float) and parts.is_integer()):
        raise CostError(f"{spec.function!r} of {spec.path.name!r}: parts must be a whole number, got {parts!r}")
    whole, count = partial(function, **others) if others else function, None if parts is None else int(parts)
    try:
        return cost_function(whole, keys["lower"], keys["upper"], convex == "yes", parts=count)
    except CostError as error:
        raise CostError(f"{spec.function!r} of {spec.path.name!r}: {error}") from error


def _takes(function: Callable[..., Any], arguments: tuple[Any, ...], keys: Mapping[str, Any]) -> bool:
    try:
        inspect.signature(function).bind(*arguments, **keys)
    except TypeError:
        return False
    except ValueError:  # built into another library, without a signature
        return bool(arguments)
    return True


def _signature_text(function: Callable[..., Any]) -> str:
    try:
        return str(inspect.signature(function)).partition(" -> ")[0]
    except (TypeError, ValueError):
        return "unknown"


def _line_of(error: BaseException, path: Path) -> str:
    """Where in the file it went wrong."""
    if isinstance(error, SyntaxError):
        return f" in line {error.lineno}" if error.lineno else ""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f" in line {lines[-1]}" if lines else ""


def spec_of_file(cost: Cost) -> "CostSpec | None":
    """Which file a cost is from; None where it is from none."""
    spec: CostSpec | None = None if unwrapped(cost) is cost else cast(OwnCost, cost).spec
    return spec


_LARGEST = 1 << 20  # bytes of a file
_HEADER = re.compile(r"\s*\[([^\[\]]+)\]\s*(?:#.*)?")
_WORD = re.compile(r"[^\W\d]\w*")
_KEY = re.compile(r"\s*([^=#\[]+?)\s*=")
_PLACE = re.compile(
    r"there is no setting '(.+)';|\b((?:decide|recourse|recourse_constraints|limits|numbers)\.[\w.-]+|(?:action_)?unit)"
)


class ProgramFile(NamedTuple):
    """What a file says."""

    program: Program  # the program
    unit: str  # the unit of its cost, as in EUR; empty where the file does not say
    action_unit: str  # the unit of what is decided, likewise


def read_program(path: Path) -> ProgramFile:
    """The program in a file; errors name the line."""
    content = _content(path, "program", "TOML", _LARGEST)
    try:
        text = content.decode("utf-8-sig")  # some editors write the mark
    except UnicodeDecodeError:
        raise CostError(f"the program {str(path)!r} must be UTF-8 text") from None
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise CostError(f"the program {path.name!r} is not valid TOML: {error}") from error
    try:
        for key in (key for key in RISK_KEYS if key in table):
            raise CostError(f"there is no setting {key!r}; give it as {path.name}:{key}={shown(table[key])}")
        unit, action_unit = (from_plain(str, table.pop(key, ""), key) for key in UNIT_KEYS)
        program = program_of(table)
        for key in (key for key in program.numbers if key in COMMON_KEYS):
            raise CostError(
                f"numbers.{key} must have another name: {key} is a key of every cost, given as {path.name}:{key}=..."
            )
        _require_numbers_used(program)
        return ProgramFile(program, unit, action_unit)
    except StakesError as error:
        place = _PLACE.search(str(error))
        line = None if place is None else _line(text, place[1] or place[2])
        where = "" if line is None else f", line {line}"
        raise CostError(f"the program {path.name!r}{where}: {error}") from error


def program_of(table: object, where: str = "") -> Program:
    """The program in a table of TOML or JSON."""
    return from_plain(Program, table, where)


def program_record(program: Program) -> dict[str, Any]:
    """A program for JSON, with the order of its quantities, which sorted keys would lose."""
    return {**to_plain(program), "order": list(program.decide)}


def recorded_program(record: object, where: str) -> Program:
    """The program of a record."""
    if not isinstance(record, Mapping):
        return program_of(record, where)  # which refuses it
    program = program_of({key: value for key, value in record.items() if key != "order"}, where)
    order = from_plain(tuple[str, ...], record.get("order"), f"{where}.order")
    if sorted(order) != sorted(program.decide):
        raise CostError(f"{where}.order must name every decided quantity once, got {', '.join(order)}")
    return replace(program, decide={name: program.decide[name] for name in order})


def _require_numbers_used(program: Program) -> None:
    quantities = [*program.decide.values(), *program.recourse.values()]
    amounts = [amount for quantity in quantities for amount in quantity.amounts.values() if isinstance(amount, str)]
    texts = [*amounts, *program.recourse_constraints.values(), *program.limits.values()]
    used = {word for text in texts for word in _WORD.findall(text)}
    if others := [name for name in program.numbers if name not in used]:
        known = ", ".join(name for name in program.numbers if name in used) or "none"
        raise CostError(
            f"numbers.{others[0]} is used by no quantity, recourse constraint or limit; the numbers in use are {known}"
        )


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
