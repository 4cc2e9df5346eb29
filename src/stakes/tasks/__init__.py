"""Decision problems with data: the paper's, portfolios of many sites, and some simulated, with the truth known.

Every module of this package that defines a `Task` is found by itself: a new task is one file.
"""

from collections.abc import Iterator
from dataclasses import is_dataclass
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import TYPE_CHECKING, cast

from stakes.errors import SettingError, did_you_mean
from stakes.settings import shown

if TYPE_CHECKING:  # importing it for real would import torch
    from stakes.tasks.task import Task

__all__ = ["find_task", "task_types"]

_PROTOCOL = ("name", "cost_parameters", "paper", "data")


def task_types() -> "dict[str, type[Task]]":
    """Every task of the package by its name, in the order of the modules."""
    modules = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__) if module.name != "task"]
    found: dict[str, type[Task]] = {}
    for task in (task for module in modules for task in _tasks_of(module)):
        if task.name in found:
            raise SettingError(f"two tasks have the name {task.name!r}: {found[task.name].__name__}, {task.__name__}")
        found[task.name] = task
    return found


def find_task(name: str) -> "type[Task]":
    """The task of that name.

    >>> find_task("wind").__name__
    'WindTask'
    """
    known = task_types()
    if not isinstance(name, str) or name not in known:
        raise SettingError(f"there is no task {shown(name)}; {did_you_mean(shown(name), tuple(known))}")
    return known[name]


def _tasks_of(module: ModuleType) -> "Iterator[type[Task]]":
    """The classes that the module defines, and does not only import, and that have what a task has."""
    for each in vars(module).values():
        own = isinstance(each, type) and each.__module__ == module.__name__
        if own and is_dataclass(each) and all(hasattr(each, part) for part in _PROTOCOL):
            yield cast("type[Task]", each)
