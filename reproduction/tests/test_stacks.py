import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from small_sweeps import TINY, TRAINING, planned, results, stamps

from reproduction.runs import stacks
from reproduction.runs.folder import RunFolder
from reproduction.runs.jobs import ProgressTeller
from reproduction.runs.stacks import Stack
from reproduction.runs.sweep import read_sweep
from stakes.errors import InterruptedTraining, StakesError
from stakes.training.steps import Stepper


def fitting(monkeypatch: pytest.MonkeyPatch, most: int) -> list[int]:
    """Stacks above a size do not fit; the sizes that were tried."""
    train, epoch, tried = stacks.train, Stepper.epoch, []

    def noted(replicas: Sequence[Any], *rest: Any, **options: Any) -> Any:
        tried.append(len(replicas))
        return train(replicas, *rest, **options)

    def tight(self: Stepper, *moment: Any) -> None:
        if len(self.stack) > most:
            raise torch.OutOfMemoryError
        epoch(self, *moment)

    monkeypatch.setattr(stacks, "train", noted)
    monkeypatch.setattr(Stepper, "epoch", tight)
    return tried


POINTS = read_sweep({**TINY, "training": {**TRAINING, "batch": 1600}, "grid": {"seed": [0, 1, 2, 3, 4]}})


def stack_of(folder: Path) -> Stack:
    """One of five runs."""
    for name, run in POINTS.runs.items():
        RunFolder(folder / "runs" / name).create(run)
    (names,) = planned(folder, POINTS)
    return Stack(folder, names)


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    return stack_of(tmp_path / "stack")


def train_stack(stack: Stack, stop: Callable[[], bool] = lambda: False) -> list[str]:
    """Train a stack here; returns the warnings."""
    told: list[dict[str, Any]] = []
    stacks.train_stack(stack, "cpu", 0.0, stop, ProgressTeller(told.append))
    return [line["warning"] for line in told if "warning" in line]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[bytes, bytes]]:
    """The results of the stack as one."""
    stack = stack_of(tmp_path_factory.mktemp("whole"))
    train_stack(stack)
    return results(stack.sweep)


def test_a_stack_that_does_not_fit_is_halved(
    stack: Stack, whole: dict[str, tuple[bytes, bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = fitting(monkeypatch, most=2)
    warnings = train_stack(stack)
    assert tried == [5, 3, 2, 1, 2]
    assert warnings == [f"a stack of {size} does not fit into the memory of cpu and is halved" for size in (5, 3)]
    assert results(stack.sweep) == whole


def test_a_halved_stack_goes_on_in_halves(
    stack: Stack, whole: dict[str, tuple[bytes, bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = fitting(monkeypatch, most=2)
    first = len(Stack(stack.sweep, stack.runs[::2][::2]).runs)
    with pytest.raises(InterruptedTraining):
        train_stack(stack, lambda: tried == [5, 3, first, 1])
    before = stamps(stack.sweep)
    tried.clear()
    assert train_stack(stack) == []
    assert tried == [1, 2]
    assert results(stack.sweep) == whole
    finished = {name: stamp for name, stamp in before.items() if "weights" in name}
    assert len(finished) == 2
    assert finished.items() <= stamps(stack.sweep).items()


def test_a_run_that_does_not_fit_alone_is_an_error(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    fitting(monkeypatch, most=0)
    with pytest.raises(StakesError, match=rf"run {stack.runs[0]} alone does not fit into the memory of cpu"):
        train_stack(stack)


class Killed(BaseException):
    pass


@pytest.mark.parametrize("left", [r".*\.json", r".*\.safetensors", "nothing"])
@pytest.mark.parametrize("doomed", ["the checkpoints of the whole", "those of a finished half"])
def test_a_kill_while_checkpoints_are_deleted_does_no_harm(
    doomed: str, left: str, stack: Stack, whole: dict[str, tuple[bytes, bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    if doomed == "the checkpoints of the whole":  # the stack was interrupted, and on the next start does not fit
        stops = iter([False, True])
        with pytest.raises(InterruptedTraining):
            train_stack(stack, lambda: next(stops))
    tried = fitting(monkeypatch, most=3)
    delete = shutil.rmtree

    def delete_some(folder: Path, ignore_errors: bool = False) -> None:
        if not Path(folder).exists():
            return
        for file in Path(folder).iterdir():
            if not re.fullmatch(left, file.name):
                file.unlink()
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", delete_some)
        with pytest.raises(Killed):
            train_stack(stack)
    assert shutil.rmtree is delete
    before = {name: stamp for name, stamp in stamps(stack.sweep).items() if "weights" in name}
    assert len(before) == (0 if doomed == "the checkpoints of the whole" else 3)
    tried.clear()
    train_stack(stack)
    assert results(stack.sweep) == whole
    assert before.items() <= stamps(stack.sweep).items()
    if before:
        assert tried == [2]
