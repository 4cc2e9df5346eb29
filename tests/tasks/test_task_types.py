import subprocess
import sys

import pytest

from stakes.errors import SettingError
from stakes.tasks import find_task, task_types
from stakes.tasks.task import PaperSettings

NAMES = {"synthetic", "wind", "frost", "simulated_portfolio", "french_load", "irish_wind", "european_wind"}


def test_every_task_is_found_by_its_name() -> None:
    found = task_types()
    assert set(found) == NAMES
    assert all(task.name == name for name, task in found.items())
    assert find_task("frost") is found["frost"]


def test_an_unknown_task_is_refused_with_the_nearest() -> None:
    with pytest.raises(SettingError, match=r"there is no task 'forst'; did you mean 'frost'\?"):
        find_task("forst")
    with pytest.raises(SettingError, match=r"there are .*, wind"):
        find_task("zzz")


def test_importing_the_package_imports_no_torch() -> None:
    code = "import sys, stakes.tasks; print({'torch', 'numpy'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "set()"


def test_two_tasks_of_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_types()["frost"], "name", "wind")
    with pytest.raises(SettingError, match="two tasks have the name 'wind': FrostTask, WindTask"):
        task_types()


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
