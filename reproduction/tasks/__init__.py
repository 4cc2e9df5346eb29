"""Decision problems with data: the paper's, portfolios of many sites, and some simulated, with the truth known.

A new task is a class that meets the protocol `Task`, and one line in the table below.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from stakes.errors import SettingError, did_you_mean
from stakes.settings import shown

if TYPE_CHECKING:
    from reproduction.tasks.task import Task


_TASKS = {  # by name: its module and class, imported when asked for, since every task imports torch
    "european_wind": ("portfolio", "EuropeanWind"),
    "french_load": ("portfolio", "FrenchLoad"),
    "frost": ("frost", "FrostTask"),
    "gefcom_wind": ("portfolio", "GefcomWind"),
    "irish_wind": ("portfolio", "IrishWind"),
    "new_york_load": ("portfolio", "NewYorkLoad"),
    "simulated_portfolio": ("portfolio", "SimulatedPortfolio"),
    "synthetic": ("synthetic", "SyntheticTask"),
    "wind": ("wind", "WindTask"),
}


def task_types() -> "dict[str, type[Task]]":
    """Every task of the package by its name, in alphabetical order."""
    return {name: find_task(name) for name in _TASKS}


def find_task(name: str) -> "type[Task]":
    """The class of a task.

    >>> find_task("wind").__name__
    'WindTask'
    """
    if not isinstance(name, str) or name not in _TASKS:
        raise SettingError(f"there is no task {shown(name)}; {did_you_mean(shown(name), tuple(_TASKS))}")
    module, class_name = _TASKS[name]
    task: type[Task] = getattr(import_module(f"{__name__}.{module}"), class_name)
    return task
