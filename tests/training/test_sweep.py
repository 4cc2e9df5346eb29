import csv
import json
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from multiprocessing.synchronize import Event
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from forks import become

import stakes.cli
from stakes.errors import InterruptedTraining, SettingError, StakesError
from stakes.files import locked, read_json, write_json
from stakes.tasks.wind import WindTask
from stakes.training import execution, sweep, worker
from stakes.training.execution import Execution, Stack
from stakes.training.run_folder import RunFolder
from stakes.training.run_settings import run_from_plain
from stakes.training.stepper import Stepper
from stakes.training.sweep import (
    Point,
    Sweep,
    load_sweep,
    parse_overrides,
    parse_value,
    read_sweep,
    run_sweep,
    sweep_from_files,
)
from stakes.training.train_and_resume import resume_folder

TRAINING = {"epochs": 3, "validate_every": 1, "members": 2, "validation_members": 4, "batch": 400}
TINY = {"task": "synthetic", "model": {"hidden": 4, "layers": 1, "noise": 2}, "training": TRAINING}
LONG: dict[str, Any] = {**TINY, "training": {**TRAINING, "epochs": 40, "batch": 1600}}  # about half a second
GRID = {"decision_weight": [0, 0.3], "task.false_alarm_ratio": [0.5, 0.2], "model.hidden": [4, 5]}
ONE = Execution("cpu", workers=1, quiet=True)
OF_COST = ("decision", "cost", "expected_cost", "at_lower", "at_upper", "flagged")

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # Python 3.12 has doubts about threads


def toml(values: Mapping[str, Any], prefix: str = "") -> str:
    """Plain values as dotted keys of a TOML file."""
    lines = []
    for name, value in values.items():
        key = f"{prefix}{json.dumps(name)}"
        lines.append(toml(value, f"{key}.") if isinstance(value, Mapping) else f"{key} = {json.dumps(value)}")
    return "\n".join(lines)


def written(folder: Path, values: Mapping[str, Any]) -> Path:
    file = folder / "settings.toml"
    file.write_text(toml(values))
    return file


# Processes


class Forked(subprocess.Popen[str]):
    """A worker as a fork of this process: a fresh interpreter would take seconds to import torch."""

    started: list["Forked"]

    def __init__(self, command: Sequence[str], **options: Any) -> None:
        assert command[:3] == [sys.executable, "-m", "stakes.training.worker"]
        super().__init__(command, preexec_fn=partial(become, partial(worker.main, command[3:])), **options)
        self.started.append(self)


def forked(command: Callable[[], int]) -> subprocess.Popen[str]:
    """A command in a fork of this process."""
    pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(["command"], preexec_fn=partial(become, command), text=True, **pipes)


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> None:
    """All that the first training of a process has to import."""
    train_here(read_sweep(TINY), tmp_path_factory.mktemp("warm"))


@pytest.fixture
def workers(warm: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Forked]]:
    """The workers started from here on, which are forked."""
    if torch.cuda.is_available():
        pytest.skip("a process with a GPU cannot be forked once it has trained")
    Forked.started = []
    monkeypatch.setattr(execution, "subprocess", SimpleNamespace(Popen=Forked, PIPE=subprocess.PIPE))
    yield Forked.started
    for process in Forked.started:
        with process:  # closes its pipes
            process.kill()


@pytest.fixture
def no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*command: Any, **options: Any) -> None:
        raise AssertionError("a worker was started")

    monkeypatch.setattr(execution, "subprocess", SimpleNamespace(Popen=refuse, PIPE=subprocess.PIPE))


def children(process: int) -> list[int]:
    """Processes started by this one that are not dead."""
    return [number for number, parent in living().items() if parent == process]


def living() -> dict[int, int]:
    """The parent of every process."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
        except OSError:  # it has ended meanwhile
            continue
        if state not in "ZX":
            parents[int(path.parent.name)] = int(parent)
    return parents


def wait_until(holds: Callable[[], object], process: subprocess.Popen[str] | None = None, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "waited in vain"
        if process is not None and process.poll() is not None:
            pytest.fail(f"ended with {process.returncode}: {process.communicate()}")
        time.sleep(0.005)


def lines(folder: Path) -> int:
    """Lines of metrics under a folder."""
    return sum(file.read_bytes().count(b"\n") for file in folder.rglob("metrics.jsonl"))


@contextmanager
def slow(seconds: float, first: int = 1) -> Iterator[Event]:
    """Epochs that take so long from this one on, here and in forks, and whether one of them is at it."""
    epoch, asleep = Stepper.epoch, multiprocessing.get_context("fork").Event()

    def slowly(self: Stepper, phase: str, number: int, rate: float) -> None:
        epoch(self, phase, number, rate)
        if number >= first:
            asleep.set()
            time.sleep(seconds)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stepper, "epoch", slowly)
        yield asleep


# Results


def table(folder: Path) -> list[dict[str, str]]:
    with (folder / "table.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def without_seconds(folder: Path) -> list[dict[str, str]]:
    return [{name: value for name, value in row.items() if name != "seconds"} for row in table(folder)]


def results(folder: Path) -> dict[str, tuple[bytes, bytes]]:
    """Weights and metrics of the runs under a folder, by their names."""
    found = {file.parent: file.read_bytes() for file in folder.rglob("weights.safetensors")}
    return {run.name: (weights, (run / "metrics.jsonl").read_bytes()) for run, weights in found.items()}


def stamps(folder: Path) -> dict[str, tuple[int, int]]:
    files = (file for name in ("weights.safetensors", "state.json", "metrics.jsonl") for file in folder.rglob(name))
    return {str(file.relative_to(folder)): (file.stat().st_ino, file.stat().st_mtime_ns) for file in files}


@pytest.fixture(scope="module")
def without_cyclopts(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Path]:
    """A sweep of two stacks by `python -m stakes.training.sweep`, where cyclopts cannot be imported."""
    base = tmp_path_factory.mktemp("sweep")
    (base / "sitecustomize.py").write_text("import sys\nsys.modules['cyclopts'] = None\n")
    values = {**TINY, "training": {**TRAINING, "epochs": 7}, "grid": GRID}
    words = [str(written(base, values)), "--out", "sweep", "--device", "cpu", "--workers", "1", "--training.epochs=3"]
    return subprocess.run(
        [sys.executable, "-m", "stakes.training.sweep", *words],
        cwd=base,
        env={**os.environ, "PYTHONPATH": str(base)},
        capture_output=True,
        text=True,
        check=False,
    ), base / "sweep"


@pytest.fixture
def finished(without_cyclopts: tuple[Any, Path], tmp_path: Path) -> Path:
    """A copy of that sweep's folder."""
    return Path(shutil.copytree(without_cyclopts[1], tmp_path / "finished"))


GRIDDED = read_sweep({**TINY, "grid": GRID})


# Reading


def test_a_grid_is_every_combination_in_order() -> None:
    found = read_sweep({**TINY, "decision_weight": 0.1, "grid": {"seed": [3, 1], "task.data_seed": [0, 1]}})
    assert [dict(point.axes) for point in found.points] == [
        {"seed": seed, "task.data_seed": data_seed} for seed in (3, 1) for data_seed in (0, 1)
    ]
    for point in found.points:
        assert point.run.seed == point.axes["seed"]
        assert point.run.task.data_seed == point.axes["task.data_seed"]
        assert point.run.decision_weight == 0.1
        assert point.run.training.epochs == TRAINING["epochs"]
        assert point.run.model.hidden == 4


def test_tables_in_a_grid_are_read_as_dots() -> None:
    nested = read_sweep({**TINY, "grid": {"task": {"data_seed": [0, 1]}, "training": {"epochs": [1, 2]}}})
    assert nested == read_sweep({**TINY, "grid": {"task.data_seed": [0, 1], "training.epochs": [1, 2]}})
    assert len(nested.runs) == 4


@pytest.mark.parametrize("axis", ["model", "model.name"])
def test_models_can_be_an_axis(axis: str) -> None:
    found = read_sweep({"task": "wind", "grid": {axis: ["diffusion", "implicit"]}})
    assert [point.run.model.name for point in found.points] == ["diffusion", "implicit"]


def test_tasks_can_be_an_axis() -> None:
    found = read_sweep({"grid": {"task": ["wind", {"name": "frost", "false_alarm_ratio": 0.2}]}})
    assert [point.run.task.name for point in found.points] == ["wind", "frost"]
    assert [point.run.training.pretraining_epochs for point in found.points] == [200, 0]  # each as its task has it


def test_settings_without_a_grid_are_one_run() -> None:
    assert read_sweep(TINY) == Sweep((Point({}, run_from_plain(TINY)),))


@pytest.mark.parametrize(
    ("paper", "points", "runs"),
    [("synthetic", 99, 99), (["wind"], 108, 96), (["frost"], 180, 168), (["wind", "frost", "synthetic"], 387, 363)],
)
def test_the_paper_has_so_many_runs(paper: Any, points: int, runs: int) -> None:
    found = read_sweep({"paper": paper})
    assert (len(found.points), len(found.runs)) == (points, runs)


def test_the_paper_takes_settings_and_axes_on_top() -> None:
    found = read_sweep({"paper": ["wind", "frost"], "training": {"batch": 1024}, "grid": {"seed": [5], "task": {}}})
    assert len(found.points) == 2 * 6 * 3 + 2 * 10 * 3
    for point in found.points:
        assert (point.run.seed, point.run.training.batch) == (5, 1024)
        assert point.axes["task"] == point.run.task.name
        assert point.run.training.pretraining_epochs == (200 if point.axes["task"] == "wind" else 0)


@pytest.mark.parametrize("model", ["diffusion", {"hidden": 20}, {"name": "implicit", "hidden": 20}])
def test_the_paper_with_another_model_says_so(model: Any) -> None:
    found = read_sweep({"paper": "wind", "model": model})
    assert all(point.axes["model"] == point.run.model.name for point in found.points)
    if isinstance(model, dict):
        assert all(point.run.model.hidden == 20 for point in found.points)
    if model == {"hidden": 20}:
        assert {point.run.model.name for point in found.points} == {"implicit", "diffusion"}


def test_runs_of_weight_0_are_shared_by_all_cost_parameters() -> None:
    points = GRIDDED.points
    assert len(points) == 8
    assert len(GRIDDED.runs) == 6
    shared = {point.run.name for point in points if point.run.decision_weight == 0}
    assert len(shared) == 2  # one a model
    assert all(run.task.false_alarm_ratio == 0.5 for name, run in GRIDDED.runs.items() if name in shared)
    assert all(name == run.name for name, run in GRIDDED.runs.items())


def with_grid(grid: Any) -> dict[str, Any]:
    return {**TINY, "grid": grid}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "task must be given"),
        ({"task": "wnd"}, "there is no task 'wnd'; did you mean 'wind'?"),
        ({"task": 3}, "task must be a table, got 3"),
        ({"paper": "wnd"}, "there is no task 'wnd'; did you mean 'wind'?"),
        ({"paper": ["wind", "wnd"]}, "there is no task 'wnd'; did you mean 'wind'?"),
        ({"paper": [1]}, "there is no task 1; there are "),
        ({"paper": [["wind"]]}, "task"),
        ({"paper": [{}]}, "task"),
        ({"paper": []}, "paper must be the name of a task, or a list of names, got "),
        ({"paper": 3}, "paper must be the name of a task, or a list of names, got 3"),
        ({"paper": "wind", "task": "wind"}, "a sweep has a task or takes its tasks from paper, not both"),
        ({"paper": "wind", "grid": {"task.data_seed": [1]}}, "there is no setting 'task.data_seed'"),
        (with_grid([1]), "grid must be a table of settings and their values, got "),
        (with_grid({"seed": []}), "grid.seed must be a list of at least one value, got "),
        (with_grid({"seed": 3}), "grid.seed must be a list of at least one value, got 3"),
        (with_grid({"task": {"data_seed": 3}}), "grid.task.data_seed must be a list of at least one value, got 3"),
        (with_grid({"sed": [3]}), "there is no setting 'sed'; did you mean 'seed'?"),
        (with_grid({"task.false_alarm": [3]}), "'task.false_alarm'; did you mean 'false_alarm_ratio'?"),
        (with_grid({"seed.x": [3]}), "seed"),
        (with_grid({"": [3]}), "a setting must be a name or names joined by dots, got ''"),
        (with_grid({"seed": [0, -1]}), "seed must be a whole number of at least 0, got -1"),
        (with_grid({"decision_weight": [2]}), "decision_weight must lie in [0, 1], got 2"),
        ({**TINY, "grdi": {"seed": [1]}}, "there is no setting 'grdi'"),
        (with_grid(16**5000), "grid must be a table of settings and their values"),
        (with_grid({"seed": 16**5000}), "grid.seed must be a list of at least one value"),
        ({"paper": [16**5000]}, "there is no task"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_sweep_is_refused(values: Any, message: str) -> None:
    with pytest.raises(SettingError, match=re.escape(message)):
        read_sweep(values)


def test_several_files_are_one_sweep_and_flags_go_on_top_of_each(tmp_path: Path) -> None:
    files = [tmp_path / "a.toml", tmp_path / "b.json"]
    files[0].write_text('task = "wind"\n[grid]\nseed = [0, 1]\ntask.penalty = [3]')
    files[1].write_text('{"task": {"name": "frost"}, "seed": 7}')
    found = sweep_from_files(files, {"training.epochs": 3, "model": "diffusion"})
    assert [(point.run.task.name, point.run.seed) for point in found.points] == [("wind", 0), ("wind", 1), ("frost", 7)]
    assert {(point.run.training.epochs, point.run.model.name) for point in found.points} == {(3, "diffusion")}
    found = sweep_from_files(files[:1], {"grid.seed": [5], "grid.task.penalty": [1, 2]})
    assert [(point.run.seed, point.run.task) for point in found.points] == [(5, WindTask(1.0)), (5, WindTask(2.0))]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("0.5", 0.5),
        ("true", True),
        ("diffusion", "diffusion"),
        ("'3'", "3"),
        ("[0, 1]", [0, 1]),
        ("{name = 'wind', penalty = 3}", {"name": "wind", "penalty": 3}),
        ("", ""),
        ("[0, 1", "[0, 1"),
        ("runs/a b", "runs/a b"),
        ("9" * 5000, "9" * 5000),
        ("[" * 5000, "[" * 5000),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_flag_is_toml_or_text(text: str, value: Any) -> None:
    assert parse_value(text) == value


def test_flags_are_read_with_and_without_an_equals_sign() -> None:
    words = ["--training.epochs", "100", "--seed=3", "--start-from=a=b", "--task.false-alarm_ratio", "0.3"]
    expected = {"training.epochs": 100, "seed": 3, "start_from": "a=b", "task.false_alarm_ratio": 0.3}
    assert parse_overrides(words) == expected


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["seed", "3"], "expected a flag such as --training.epochs 100, got 'seed'"),
        (["--", "3"], "expected a flag such as --training.epochs 100, got '--'"),
        (["--seed"], "the flag --seed needs a value"),
    ],
)
def test_what_is_no_flag_is_refused(words: list[str], message: str) -> None:
    with pytest.raises(SettingError, match=re.escape(message)):
        parse_overrides(words)


def test_a_sweep_comes_back_from_its_folder(tmp_path: Path) -> None:
    points = [{"axes": dict(point.axes), "run": sweep.to_plain(point.run)} for point in GRIDDED.points]
    write_json(tmp_path / "sweep.json", points)
    assert load_sweep(tmp_path) == GRIDDED


@pytest.mark.parametrize("content", [None, 3, [3], [{}], [{"axes": {}, "run": 3}], [{"axes": {}, "run": {}}]])
def test_a_file_that_lists_no_points_is_refused(content: Any, tmp_path: Path) -> None:
    write_json(tmp_path / "sweep.json", content)
    with pytest.raises(SettingError):
        load_sweep(tmp_path)


# Stacks


@pytest.mark.parametrize(
    ("processes", "runs", "size"),
    [(1, 3, 3), (1, 9, 9), (1, 10, 9), (2, 10, 5), (2, 11, 6), (4, 363, 9), (8, 3, 1), (1, 1, 1)],
)
def test_stacks_on_cores_are_small_and_keep_all_of_them_at_work(processes: int, runs: int, size: int) -> None:
    assert Execution("cpu", workers=processes).stack_size(runs) == size


def test_stacks_on_a_gpu_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert Execution().resolved_device == "cuda"
    assert Execution().processes == 1
    assert [Execution().stack_size(runs) for runs in (1, 99, 1000)] == [1, 99, 256]


def test_there_is_one_process_a_core() -> None:
    assert Execution("cpu").processes == len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "gpu"}, "device must be one of auto, cpu, cuda, got 'gpu'"),
        ({"workers": 0}, "workers must be a whole number of at least 1, got 0"),
    ],
)
def test_an_execution_that_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=re.escape(message)):
        Execution(**options)


def planned(folder: Path, points: Sweep, processes: int = 1) -> list[tuple[str, ...]]:
    stacks = sweep._planned(folder, points.runs, Execution("cpu", workers=processes))
    assert [list(stack.runs) for stack in stacks if set(stack.runs) & points.runs.keys()] == [
        names for names in read_json(folder / "plan.json") if set(names) & points.runs.keys()
    ]
    return [stack.runs for stack in stacks]


@pytest.mark.parametrize(
    ("grid", "stacks"),
    [
        ({"seed": [0, 1], "decision_weight": [0.1, 0.2], "task.false_alarm_ratio": [0.2, 0.5]}, 1),
        ({"task.data_seed": [0, 1, 2], "task.frequency": [2, 3]}, 1),  # other data of the same shape
        ({"model.hidden": [4, 5]}, 2),
        ({"model": ["implicit", "diffusion"]}, 2),
        ({"training.epochs": [1, 2], "seed": [0, 1]}, 2),
        ({"task": ["synthetic", {"name": "simulated_portfolio", "sites": 2}]}, 2),
        (
            {
                "task": [
                    {"name": "simulated_portfolio", "sites": sites, "penalty": penalty}
                    for sites in (2, 3)
                    for penalty in (1, 2)
                ]
            },
            2,
        ),
        ({"seed": list(range(20))}, 3),  # at most 9 runs each
    ],
)
def test_runs_of_one_shape_train_together(grid: Any, stacks: int, tmp_path: Path) -> None:
    points = read_sweep({**TINY, "model": {"name": "diffusion", "layers": 1}, "grid": grid})
    groups = planned(tmp_path, points)
    assert len(groups) == stacks
    assert sorted(name for names in groups for name in names) == sorted(points.runs)
    for names in groups:
        runs = [points.runs[name] for name in names]
        assert len({(run.model, run.training, run.task.name) for run in runs}) == 1
        assert len(runs) <= 9


def test_a_seed_stays_together(tmp_path: Path) -> None:
    points = read_sweep({**TINY, "grid": {"decision_weight": [tenth / 10 for tenth in range(9)], "seed": [0, 1]}})
    assert [{points.runs[name].seed for name in names} for names in planned(tmp_path, points)] == [{0}, {1}]


def test_a_plan_is_kept_and_extended(tmp_path: Path) -> None:
    first = read_sweep({**TINY, "grid": {"seed": [0, 1, 2, 3]}})
    more = read_sweep({**TINY, "grid": {"seed": [5, 3, 2, 1, 0, 4]}})
    stacks = planned(tmp_path, first, processes=2)
    assert [len(names) for names in stacks] == [2, 2]
    assert planned(tmp_path, first, processes=1) == stacks
    extended = planned(tmp_path, more, processes=1)
    assert extended[:2] == stacks
    assert [{more.runs[name].seed for name in names} for names in extended[2:]] == [{4, 5}]
    fewer = read_sweep({**TINY, "grid": {"seed": [0]}})
    assert planned(tmp_path, fewer) == stacks[:1]
    assert planned(tmp_path, more) == extended


# A whole sweep


def test_the_module_works_without_cyclopts(without_cyclopts: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    result, folder = without_cyclopts
    assert (result.returncode, result.stdout, result.stderr) == (0, "sweep/table.csv\n", "")
    assert sorted(path.name for path in (folder / "runs").iterdir()) == sorted(GRIDDED.runs)
    for name, run in GRIDDED.runs.items():
        assert RunFolder(folder / "runs" / name).settings() == run  # epochs from the flag, not the file
        RunFolder(folder / "runs" / name).model()
        assert not (folder / "runs" / name / "checkpoints").exists()
    assert [len(names) for names in read_json(folder / "plan.json")] == [3, 3]
    assert load_sweep(folder) == GRIDDED


def test_the_module_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(written(tmp_path, TINY))
    for words in ([file, "--out", "x", "--sed", "3"], [f"{file}x", "--out", "x"], [file, "--out", "x", "--device=gpu"]):
        assert sweep.main(words) == 2
        output, errors = capsys.readouterr()
        assert (output, errors.count("\n")) == ("", 1)
        assert not errors.startswith("Traceback")


def test_the_table_has_a_line_a_point(finished: Path) -> None:
    rows = table(finished)
    assert list(rows[0]) == [
        *GRID,
        *("run", "status", "epoch", "best_epoch", "best_loss", "steps", "seconds", "failure"),
        *("score", "energy_score", *OF_COST),
    ]
    assert [row["run"] for row in rows] == [point.run.name for point in GRIDDED.points]
    for row, point in zip(rows, GRIDDED.points, strict=True):
        assert {axis: float(row[axis]) for axis in GRID} == dict(point.axes)
        folder = RunFolder(finished / "runs" / row["run"])
        state = folder.state()
        assert state is not None
        assert (row["status"], row["epoch"], row["steps"], row["failure"]) == ("finished", "3", "12", "")
        assert (int(row["best_epoch"]), float(row["best_loss"])) == (state.best_epoch, state.best_loss)
        (best,) = (line for line in folder.metrics() if line["epoch"] == state.best_epoch)
        foreign = point.axes["decision_weight"] == 0 and point.axes["task.false_alarm_ratio"] != 0.5
        for name in ("score", "energy_score"):
            assert float(row[name]) == best[name]
        for name in OF_COST:
            assert row[name] == ("" if foreign else str(best[name]))
    assert sum(row["cost"] == "" for row in rows) == 2


@pytest.mark.usefixtures("no_workers")
def test_finished_runs_are_never_repeated(finished: Path) -> None:
    before, rows = stamps(finished), table(finished)
    (finished / "table.csv").unlink()
    assert run_sweep(GRIDDED, finished, ONE) == finished / "table.csv"
    assert table(finished) == rows
    assert resume_folder(finished, Execution("cpu", quiet=True)) == finished / "table.csv"
    assert (stamps(finished), table(finished)) == (before, rows)


def test_new_points_are_trained_beside_the_old(finished: Path, workers: list[Forked]) -> None:
    before, plan = stamps(finished), read_json(finished / "plan.json")
    more = read_sweep({**TINY, "grid": {**GRID, "seed": [0, 1]}})
    run_sweep(more, finished, Execution("cpu", workers=3, quiet=True))
    assert before.items() <= stamps(finished).items()
    assert read_json(finished / "plan.json")[:2] == plan
    assert {row["status"] for row in table(finished)} == {"finished"}
    assert len(table(finished)) == 16
    assert len(workers) == 6  # 2 shapes of 3 new runs on 3 processes
    assert all(process.returncode == 0 for process in workers)


def test_no_pipe_of_a_worker_stays_open(tmp_path: Path, workers: list[Forked]) -> None:
    run_sweep(read_sweep(TINY), tmp_path, ONE)
    (process,) = workers
    assert all(pipe.closed for pipe in (process.stdin, process.stdout, process.stderr) if pipe)


@pytest.mark.usefixtures("no_workers")
def test_a_smaller_grid_in_the_same_folder_gives_a_smaller_table(finished: Path) -> None:
    before, rows = stamps(finished), table(finished)
    fewer = read_sweep({**TINY, "grid": {**GRID, "decision_weight": [0.3]}})
    run_sweep(fewer, finished, ONE)
    assert stamps(finished) == before
    assert table(finished) == rows[4:]


@pytest.mark.usefixtures("no_workers")
def test_two_sweeps_in_one_folder_at_once_are_refused(finished: Path) -> None:
    before = stamps(finished)
    with locked(finished), pytest.raises(SettingError, match=f"another process is training in {finished}"):
        run_sweep(GRIDDED, finished, ONE)
    assert stamps(finished) == before


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / ("x" * 300)):
        with pytest.raises(StakesError, match=re.escape(str(folder))):
            run_sweep(GRIDDED, folder, ONE)


# Damage


@pytest.mark.usefixtures("no_workers")
@pytest.mark.parametrize("content", ["", "x\n", "5\n", "{}\n", "[]\n"])
@pytest.mark.parametrize("name", ["settings.json", "state.json", "metrics.jsonl"])
def test_a_damaged_file_of_a_run_is_named(name: str, content: str, finished: Path) -> None:
    if (name, content) == ("metrics.jsonl", ""):
        return  # a run without a line of metrics
    run = GRIDDED.points[-1].run.name
    (finished / "runs" / run / name).write_text(content)
    with pytest.raises(StakesError, match=re.escape(str(Path("runs", run, name)))):
        run_sweep(GRIDDED, finished, ONE)


@pytest.mark.usefixtures("no_workers")
@pytest.mark.parametrize("content", ["", "x", "[]", '{"sha256":"","payload":[]}'])
@pytest.mark.parametrize("name", ["plan.json", "sweep.json"])
def test_a_damaged_file_of_the_sweep_is_named(name: str, content: str, finished: Path) -> None:
    (finished / name).write_text(content)
    with pytest.raises(StakesError, match=name):
        resume_folder(finished, Execution("cpu", quiet=True))


@pytest.mark.usefixtures("no_workers")
@pytest.mark.parametrize("plan", [3, [3], [["a/b"]], [[3]], {"a": 1}, None])
def test_a_plan_that_is_none_is_refused(plan: Any, finished: Path) -> None:
    write_json(finished / "plan.json", plan)
    with pytest.raises(StakesError, match=r"plan\.json must list the runs of each stack"):
        run_sweep(GRIDDED, finished, ONE)


def test_a_damaged_checkpoint_is_reported_and_others_go_on(tmp_path: Path, workers: list[Forked]) -> None:
    points = read_sweep({**TINY, "grid": {"model.hidden": [4, 5]}})
    first, second = (Stack(tmp_path, names) for names in planned(tmp_path, points))
    first.checkpoints.mkdir(parents=True)
    write_json(first.path / "stack.json", list(first.runs))
    (first.checkpoints / "epoch-00000001.json").write_text("half a")
    with pytest.raises(StakesError, match=f"{first.name}: no checkpoint in ") as caught:
        run_sweep(points, tmp_path, ONE)
    assert second.name not in str(caught.value)
    assert {row["run"]: row["status"] for row in table(tmp_path)} == {
        first.runs[0]: "not finished",
        second.runs[0]: "finished",
    }


def test_another_sweeps_run_in_the_folder_is_refused(finished: Path) -> None:
    run = GRIDDED.points[-1].run.name
    other = GRIDDED.points[0].run.name
    shutil.copy(finished / "runs" / other / "settings.json", finished / "runs" / run / "settings.json")
    with pytest.raises(SettingError, match=rf"{run} holds a run with other settings"):
        run_sweep(GRIDDED, finished, ONE)


# Workers that die

TWO_STACKS = read_sweep({**LONG, "decision_weight": 0.5, "grid": {"model.hidden": [4, 5], "seed": [0, 1]}})


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a sweep of two stacks that nothing befell, trained in this process."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    train_here(TWO_STACKS, folder)
    return folder


def train_here(points: Sweep, folder: Path) -> None:
    for name, run in points.runs.items():
        RunFolder(folder / "runs" / name).create(run)
    for names in planned(folder, points):
        stack = Stack(folder, names)
        worker.train_folders(stack.folders(), stack.checkpoints, "cpu", 30.0, lambda: False)
    run_sweep(points, folder, ONE)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_worker_that_dies_is_reported_and_others_go_on(
    number: signal.Signals, tmp_path: Path, workers: list[Forked], uninterrupted: Path
) -> None:
    def kill_the_first() -> None:
        wait_until(lambda: workers and lines(tmp_path) > 10)
        workers[0].send_signal(number)

    killer = threading.Thread(target=kill_the_first)
    killer.start()
    with slow(0.02), pytest.raises(StakesError, match=re.escape(str(tmp_path / "table.csv"))) as caught:
        run_sweep(TWO_STACKS, tmp_path, ONE)
    killer.join()
    dead, living = (Stack(tmp_path, names) for names in planned(tmp_path, TWO_STACKS))
    assert dead.name in str(caught.value)
    assert living.name not in str(caught.value)
    if number == signal.SIGKILL:
        assert "its process was ended by SIGKILL; a second start resumes it" in str(caught.value)
    statuses = {row["run"]: row["status"] for row in table(tmp_path)}
    assert statuses == dict.fromkeys(dead.runs, "not finished") | dict.fromkeys(living.runs, "finished")
    before = {name: stamp for name, stamp in stamps(tmp_path).items() if name.split("/")[1] in living.runs}
    assert len(workers) == 2
    assert resume_folder(tmp_path, Execution("cpu", quiet=True)) == tmp_path / "table.csv"
    assert len(workers) == 3
    assert before.items() <= stamps(tmp_path).items()
    assert without_seconds(tmp_path) == without_seconds(uninterrupted)
    assert results(tmp_path) == results(uninterrupted)


def test_a_run_that_fails_is_a_line_of_the_table(tmp_path: Path, workers: list[Forked]) -> None:
    points = read_sweep({**TINY, "training": {**TRAINING, "learning_rate": 1e30}, "grid": {"seed": [0, 1]}})
    with pytest.raises(StakesError, match="not finite in epoch 1 of training"):
        run_sweep(points, tmp_path, ONE)
    assert {row["status"] for row in table(tmp_path)} == {"failed"}
    assert all("not finite in epoch" in row["failure"] for row in table(tmp_path))


# Interrupts


def test_ctrl_c_during_training_and_resume_give_the_same_weights(tmp_path: Path) -> None:
    file = written(tmp_path, {**LONG, "training": {**LONG["training"], "epochs": 100}})  # this one cannot be slowed
    folder, other = tmp_path / "run", tmp_path / "other" / "run"
    command = [sys.executable, "-m", "stakes.cli", "train", str(file), "--out", str(folder), "--device", "cpu"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: lines(folder) > 3, process)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate()
    assert (process.returncode, output) == (130, "")
    message = (
        rf"stakes: interrupted after epoch \d+ of training; everything up to it is saved; `stakes resume {folder}`"
    )
    assert re.match(message, errors)
    assert errors.count("\n") == 1
    assert RunFolder(folder).state() is None
    assert resume_folder(folder, Execution("cpu", quiet=True)) == folder
    assert stakes.cli.main(["train", str(file), "--out", str(other), "--device", "cpu"]) == 0
    assert results(folder) == results(other)
    assert not (folder / "checkpoints").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_during_a_sweep_and_resume_give_the_same_table(
    number: signal.Signals, tmp_path: Path, workers: list[Forked], uninterrupted: Path
) -> None:
    file = written(tmp_path, {**LONG, "decision_weight": 0.5, "grid": {"model.hidden": [4, 5], "seed": [0, 1]}})
    folder = tmp_path / "sweep"
    words = ["sweep", str(file), "--out", str(folder)]
    main = partial(stakes.cli.main, [*words, "--device", "cpu", "--workers", "2"])
    with slow(0.02), forked(main) as process:
        wait_until(lambda: lines(folder) > 10, process)
        process.send_signal(number)
        output, errors = process.communicate()
    assert (process.returncode, output) == (130, "")
    assert errors == f"stakes: interrupted; everything is saved, `stakes resume {folder}` goes on from there\n"
    assert "not finished" in {row["status"] for row in table(folder)}
    assert stakes.cli.main(["resume", str(folder), "--device", "cpu"]) == 0
    assert without_seconds(folder) == without_seconds(uninterrupted)
    assert results(folder) == results(uninterrupted)


@pytest.mark.usefixtures("workers")
@pytest.mark.parametrize("command", ["stakes train", "stakes sweep", "python -m stakes.training.sweep"])
def test_a_second_ctrl_c_ends_at_once(command: str, tmp_path: Path) -> None:
    file, folder = written(tmp_path, LONG), tmp_path / "folder"
    words = [str(file), "--out", str(folder), "--device", "cpu"]
    main = partial(sweep.main, words) if "python" in command else partial(stakes.cli.main, [command[7:], *words])
    with slow(60.0, first=3) as asleep, forked(main) as process:
        wait_until(asleep.is_set, process)
        own = [process.pid, *children(process.pid)]
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=20)
    assert (process.returncode, output) == (130, "")
    assert "Traceback" not in errors
    wait_until(lambda: not living().keys() & own, seconds=10)


@pytest.mark.usefixtures("workers")
def test_workers_end_with_a_checkpoint_when_their_parent_is_killed(
    tmp_path: Path, uninterrupted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "_SECONDS_BETWEEN_LINES", 0.0)  # a line an epoch, as where epochs take longer than that
    main = partial(run_sweep, TWO_STACKS, tmp_path, Execution("cpu", workers=2, quiet=True))
    with slow(0.02), forked(lambda: bool(main())) as process:
        wait_until(lambda: lines(tmp_path) > 10, process)
        orphans = children(process.pid)
        assert len(orphans) == 2
        process.kill()
    wait_until(lambda: not living().keys() & orphans, seconds=10)
    stacks = [Stack(tmp_path, names) for names in planned(tmp_path, TWO_STACKS)]
    started = [stack for stack in stacks if lines(tmp_path / "runs" / stack.runs[0])]
    assert len(started) == 2
    left = [list(stack.checkpoints.glob("epoch-*.json")) for stack in started]
    assert stakes.cli.main(["resume", str(tmp_path), "--device", "cpu", "--quiet"]) == 0
    assert without_seconds(tmp_path) == without_seconds(uninterrupted)
    assert results(tmp_path) == results(uninterrupted)
    assert all(left), "a worker ended without a checkpoint"


@pytest.mark.usefixtures("workers")
def test_a_run_of_a_sweep_at_work_cannot_be_resumed_beside_it(tmp_path: Path) -> None:
    points = read_sweep(LONG)
    run = tmp_path / "runs" / points.points[0].run.name
    with slow(60.0, first=3) as asleep:
        process = forked(lambda: bool(run_sweep(points, tmp_path, ONE)))
    with process:
        wait_until(asleep.is_set, process)
        own = [process.pid, *children(process.pid)]
        try:
            with pytest.raises(SettingError, match="another process is training in"):
                resume_folder(run, Execution("cpu", quiet=True))
        finally:
            for number in own:
                os.kill(number, signal.SIGKILL)


def test_the_companion_can_be_an_axis(tmp_path: Path, workers: list[Forked]) -> None:
    companions = ["decision", "crps_of_total", "variogram"]
    task = {"name": "simulated_portfolio", "sites": 3}
    few = {"training": {**TRAINING, "epochs": 2, "pretraining_epochs": 1, "batch": 1500}}
    grid = {"training.companion": companions, "decision_weight": [0, 0.5]}
    file = written(tmp_path, {**TINY, **few, "task": task, "grid": grid})
    assert stakes.cli.main(["sweep", str(file), "--out", str(tmp_path / "out"), "--device", "cpu", "--quiet"]) == 0
    rows = table(tmp_path / "out")
    assert [row["training.companion"] for row in rows] == [each for each in companions for _ in range(2)]
    assert {row["status"] for row in rows} == {"finished"}
    shared, own = rows[::2], rows[1::2]
    assert len({row["run"] for row in shared}) == 1, "at weight 0 the companion does not matter"
    assert len({row["run"] for row in own}) == len({row["energy_score"] for row in own}) == 3
    assert len({row["decision"] for row in own}) == 3
    assert [bool(row["decision"]) for row in shared] == [True, False, False]
    assert all(row[name] for row in rows for name in OF_COST if name != "decision")


# Stacks that do not fit


def fitting(monkeypatch: pytest.MonkeyPatch, most: int) -> list[int]:
    """Stacks above a size do not fit; the sizes that were tried."""
    train, epoch, tried = worker.train, Stepper.epoch, []

    def noted(replicas: Sequence[Any], *rest: Any, **options: Any) -> Any:
        tried.append(len(replicas))
        return train(replicas, *rest, **options)

    def tight(self: Stepper, *moment: Any) -> None:
        if len(self.stack) > most:
            raise torch.OutOfMemoryError
        epoch(self, *moment)

    monkeypatch.setattr(worker, "train", noted)
    monkeypatch.setattr(Stepper, "epoch", tight)
    return tried


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    """One of five runs."""
    points = read_sweep({**TINY, "grid": {"seed": [0, 1, 2, 3, 4]}})
    for name, run in points.runs.items():
        RunFolder(tmp_path / "stack" / "runs" / name).create(run)
    (names,) = planned(tmp_path / "stack", points)
    return Stack(tmp_path / "stack", names)


class Said(worker.Teller):
    """What a worker tells, in memory."""

    def __init__(self) -> None:
        super().__init__(sys.stdout)
        self.warnings: list[str] = []

    def tell(self, line: dict[str, Any]) -> None:
        if "warning" in line:
            self.warnings.append(line["warning"])


def train_stack(stack: Stack, stop: Callable[[], bool] = lambda: False) -> list[str]:
    said = Said()
    worker.train_stack(stack, "cpu", 0.0, stop, said)
    return said.warnings


@pytest.fixture
def whole(stack: Stack, tmp_path: Path) -> Iterator[dict[str, tuple[bytes, bytes]]]:
    """The results of the stack as one."""
    copy = shutil.copytree(stack.sweep, tmp_path / "whole")
    train_stack(Stack(copy, stack.runs))
    return results(copy)


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
