import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import reproduction.tasks
from reproduction.tasks import find_task, task_types
from reproduction.tasks.task import PaperSettings
from stakes.errors import SettingError

NAMES = ("european_wind", "french_load", "frost", "gefcom_wind", "irish_wind", "new_york_load")
NAMES += ("simulated_portfolio", "synthetic", "wind")


def test_every_task_is_listed_under_its_name() -> None:
    types = task_types()
    assert tuple(types) == NAMES
    assert all(task.name == name for name, task in types.items())
    assert find_task("frost") is types["frost"]


def test_an_unknown_task_is_refused_with_the_nearest() -> None:
    with pytest.raises(SettingError, match=r"there is no task 'forst'; did you mean 'frost'\?"):
        find_task("forst")
    with pytest.raises(SettingError, match=r"there are .*, wind"):
        find_task("zzz")


def test_importing_the_package_imports_no_torch() -> None:
    code = "import sys, reproduction.tasks; print({'torch', 'numpy'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "set()"


def test_no_file_with_a_task_is_forgotten() -> None:
    names = {path.stem for path in Path(reproduction.tasks.__file__).parent.glob("*.py")} - {"__init__", "task"}
    modules = [import_module(f"reproduction.tasks.{name}") for name in names]
    classes = {each for module in modules for each in vars(module).values() if isinstance(each, type)}
    parts = ("name", "cost_parameters", "paper", "data")
    assert {each for each in classes if all(hasattr(each, part) for part in parts)} == set(task_types().values())


def trainings(paper: PaperSettings, cost_parameters: tuple[str, ...]) -> int:
    """Distinct runs of one model: without a decision weight, runs that differ in the cost alone are one."""
    others = {key: len(values) for key, values in paper.grid.items() if key != "decision_weight"}
    of_the_cost = [count for key, count in others.items() if key.removeprefix("task.") in cost_parameters]
    aware = sum(weight > 0 for weight in paper.grid["decision_weight"])
    plain = sum(weight == 0 for weight in paper.grid["decision_weight"])
    runs, shared = 1, 1
    for count in others.values():
        runs *= count
    for count in of_the_cost:
        shared *= count
    return aware * runs + plain * runs // shared


def test_the_paper_takes_363_trainings() -> None:
    tasks = [find_task(name) for name in ("synthetic", "wind", "frost")]
    counts = {task.name: trainings(task.paper, task.cost_parameters) for task in tasks}
    assert counts == {"synthetic": 99, "wind": 48, "frost": 84}
    assert sum(counts[task.name] * len(task.paper.models) for task in tasks) == 363


def test_the_paper_trains_as_its_appendix_says() -> None:
    for name in ("synthetic", "wind", "frost"):
        training = task_types()[name].paper.training
        assert (training.epochs, training.learning_rate, training.members) == (2000, 1e-3, 10)
        assert (training.validate_every, training.patience) == (10, 600)
        assert training.pretraining_epochs == (200 if name == "wind" else 0)
        assert training.batch == (200 if name == "synthetic" else 256)
        assert task_types()[name].paper.test_members == (200 if name == "synthetic" else 500)
