import subprocess
import sys

import pytest

from reproduction.tasks import find_task, task_types
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


def test_the_paper_trains_as_its_appendix_says() -> None:
    for name in ("synthetic", "wind", "frost"):
        training = task_types()[name].paper.training
        assert (training.epochs, training.learning_rate, training.members) == (2000, 1e-3, 10)
        assert (training.validate_every, training.patience) == (10, 600)
        assert training.pretraining_epochs == (200 if name == "wind" else 0)
        assert training.batch == (200 if name == "synthetic" else 256)
        assert task_types()[name].paper.test_members == (200 if name == "synthetic" else 500)
