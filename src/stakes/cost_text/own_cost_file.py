"""A cost from a user's own Python file, executed because the user named it."""

import hashlib
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from torch import Tensor

from stakes.cost_text.library_costs import ParameterValue
from stakes.errors import CostError, StakesError, did_you_mean
from stakes.files import is_pipe_or_device
from stakes.method.costs import Cost, Parameter, refuse_numpy, require_cost, states_convexity
from stakes.method.function_costs import cost_function

__all__ = ["OwnCost", "OwnCostSpec", "file_hash", "naming_own_cost", "type_and_text"]

_BOUNDS = ("lower", "upper")
_OPTIONAL: tuple[str, ...] = ("best_action", "total", "part_names", "part_bounds", "limit_names", "hidden_parts")
_OPTIONAL += ("program", "free_action", "joined_action", "find_action", "fixed_cost", "plain_cost")


class OwnCostSpec(Protocol):
    """What must be known of a user's own cost to make it; a `CostSpec` has it."""

    @property
    def name(self) -> str:
        """FILE.py:function."""
        ...

    @property
    def path(self) -> Path:
        """The file."""
        ...

    @property
    def function(self) -> str:
        """What the file calls the cost: a function, a class or an object."""
        ...

    @property
    def parameters(self) -> Mapping[str, ParameterValue]:
        """What the user gives to it, and the bounds of a plain function."""
        ...

    @property
    def sha256(self) -> str:
        """The SHA-256 that the file must have."""
        ...


class OwnCost:
    """The cost in a user's file. A copy of it in another process is made from the file again.

    Args:
        spec: Where the cost is, what it is given, and the SHA-256 that the file must have.
    """

    def __init__(self, spec: OwnCostSpec) -> None:
        self.spec = spec
        self.cost = _cost_of(spec, _module(spec))
        for name in _OPTIONAL:  # there only where the cost has them
            if hasattr(self.cost, name):
                setattr(self, name, getattr(self.cost, name))

    @property
    def lower(self) -> Parameter:
        return self.cost.lower

    @property
    def upper(self) -> Parameter:
        return self.cost.upper

    @property
    def convex(self) -> bool:
        return states_convexity(self.cost)

    def __call__(self, action: Tensor, outcome: Tensor) -> Tensor:
        try:
            return self.cost(action, outcome)
        except SystemExit as error:  # which would end the command
            raise CostError(
                f"{self.spec.function!r} of {self.spec.path.name!r} fails: {type_and_text(error)}"
            ) from error

    def __repr__(self) -> str:
        return f"OwnCost({str(self.spec)!r})"

    def __reduce__(self) -> tuple[type["OwnCost"], tuple[OwnCostSpec]]:
        return OwnCost, (self.spec,)

    def __deepcopy__(self, memo: dict[int, Any]) -> "OwnCost":
        return self


def file_hash(path: Path) -> str:
    """The SHA-256 of a user's file.

    Args:
        path: The file that the user named.
    """
    return hashlib.sha256(_content(path)).hexdigest()


def _content(path: Path) -> bytes:
    if is_pipe_or_device(path):
        raise CostError(f"the cost's file {str(path)!r} must be a regular file, not a pipe or a device")
    try:
        return path.read_bytes()
    except IsADirectoryError:
        raise CostError(f"the cost's file {str(path)!r} is a folder, expected a Python file") from None
    except FileNotFoundError:
        near = sorted(other.name for other in path.parent.glob("*.py")) if path.parent.is_dir() else []
        hint = f"; {did_you_mean(path.name, near)}" if near else ""
        raise CostError(f"there is no file {str(path)!r} for the cost{hint}") from None
    except OSError as error:
        raise CostError(f"the cost's file {str(path)!r} cannot be read: {error.strerror}") from error


def _module(spec: OwnCostSpec) -> ModuleType:
    """The file as a module of its own, executed from the very bytes that were named."""
    content = _content(spec.path)
    if hashlib.sha256(content).hexdigest() != spec.sha256:
        raise CostError(f"the cost's file {str(spec.path)!r} has changed since it was named; name it again")
    module = ModuleType(f"own_cost_{spec.sha256[:16]}")
    module.__file__ = str(spec.path)
    sys.modules[module.__name__] = module  # dataclasses look their module up
    try:
        exec(compile(content, str(spec.path), "exec"), module.__dict__)
    except (Exception, SystemExit) as error:
        raise CostError(
            f"the cost's file {spec.path.name!r} fails{_line_of(error, spec.path)}: {type_and_text(error)}"
        ) from error
    return module


def _cost_of(spec: OwnCostSpec, module: ModuleType) -> Cost:
    """The object as it is, what a class or factory makes of the keys, or f(action, outcome) between bounds."""
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
        raise CostError(f"{spec.function!r} of {spec.path.name!r} is no cost: {error}") from error
    return cost


def _made(spec: OwnCostSpec, factory: Callable[..., Any], keys: Mapping[str, Any]) -> Any:
    try:
        return factory(**keys)
    except StakesError:
        raise
    except (Exception, SystemExit) as error:
        raise CostError(f"{spec.function!r} of {spec.path.name!r} fails: {type_and_text(error)}") from error


def _bounded(spec: OwnCostSpec, function: Callable[..., Tensor], keys: dict[str, Any]) -> Cost:
    others = {key: value for key, value in keys.items() if key not in (*_BOUNDS, "convex")}
    parts = None if _takes(function, (None, None), others) else others.pop("parts", None)
    if isinstance(function, type) or not _takes(function, (None, None), others):
        raise CostError(
            f"{spec.function!r} of {spec.path.name!r} must take {', '.join(keys) or 'no parameters'} and return a cost,"
            f" or be f(action, outcome) with the parameters lower and upper, and parts where an action has many; it"
            f" takes {_signature_text(function)}"
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
        return "what is not known"


def _line_of(error: BaseException, path: Path) -> str:
    """Where in the file it went wrong."""
    if isinstance(error, SyntaxError):
        return f" in line {error.lineno}" if error.lineno else ""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f" in line {lines[-1]}" if lines else ""


def type_and_text(error: BaseException) -> str:
    """The type of an error and what it says, in one line.

    Args:
        error: Whatever a user's own code raised.
    """
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    words = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return " ".join(words.split())


@contextmanager
def naming_own_cost(cost: Cost) -> Iterator[None]:
    """Turn whatever a user's own cost raises in this block into one sentence that names the cost.

    Args:
        cost: The cost that is called in the block; what another than a user's own raises is left as it is.
    """
    try:
        yield
    except StakesError:
        raise
    except Exception as error:
        if not isinstance(cost, OwnCost):
            raise
        refuse_numpy(error, f"the cost {cost.spec.name}")
        raise CostError(f"the cost {cost.spec.name} fails: {type_and_text(error)}") from error
