import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from forked_processes import Forked
from small_sweeps import GRID, OF_COST, ONE, TINY, TRAINING, planned, stamps, table, written

from reproduction.runs.folder import RunFolder
from reproduction.runs.jobs import Execution
from reproduction.runs.stacks import Stack
from reproduction.runs.sweep import (
    load_sweep,
    parse_value,
    read_sweep,
    resume_folder,
    run_sweep,
    sweep_from_files,
)
from reproduction.tasks.wind import WindTask
from stakes.errors import SettingError, StakesError
from stakes.files import locked, read_json, write_json

GRIDDED = read_sweep({**TINY, "grid": GRID})
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def without_cyclopts(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Path]:
    """A sweep of two stacks by `python -m reproduction.runs.sweep`, where cyclopts cannot be imported.

    Nor can the compiler of torch: importing it would cost every process that trains two seconds. The working folder
    holds modules that no process may take for those they are called like. Hashes are not those of this process: names
    of runs that depended on them would differ. Warnings are errors.
    """
    base = tmp_path_factory.mktemp("sweep")
    site = base / "site" / "sitecustomize.py"
    site.parent.mkdir()
    site.write_text("import sys\nsys.modules['cyclopts'] = sys.modules['torch._dynamo'] = None\n")
    for module in ("json", "stakes"):
        (base / f"{module}.py").write_text("raise SystemExit(f'{__file__} was imported')")
    values = {**TINY, "training": {**TRAINING, "epochs": 7}, "grid": GRID}
    words = [str(written(base, values)), "--out", "sweep", "--device", "cpu", "--workers", "1", "--training.epochs=3"]
    return subprocess.run(
        [sys.executable, "-P", "-W", "error", "-m", "reproduction.runs.sweep", *words],
        cwd=base,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(site.parent), str(ROOT))), "PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=False,
    ), base / "sweep"


@pytest.fixture
def finished(without_cyclopts: tuple[Any, Path], tmp_path: Path) -> Path:
    """A copy of that sweep's folder."""
    return Path(shutil.copytree(without_cyclopts[1], tmp_path / "finished"))


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
    assert len(workers) == 3  # one for each of 3 stacks of the first shape, and again for the second


@pytest.mark.usefixtures("no_workers")
def test_two_sweeps_in_one_folder_at_once_are_refused(finished: Path) -> None:
    before = stamps(finished)
    with locked(finished), pytest.raises(SettingError, match=f"another process is training in {finished}"):
        run_sweep(GRIDDED, finished, ONE)
    assert stamps(finished) == before


# Damage


@pytest.mark.usefixtures("no_workers")
@pytest.mark.parametrize("content", ["", "x\n", "5\n", "{}\n", "[]\n"])
@pytest.mark.parametrize("name", ["settings.json", "state.json", "metrics.jsonl", "weights.safetensors"])
def test_a_damaged_file_of_a_run_is_named(name: str, content: str, finished: Path) -> None:
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


def test_tasks_can_be_an_axis() -> None:
    found = read_sweep({"grid": {"task": ["wind", {"name": "frost", "false_alarm_ratio": 0.2}]}})
    assert [point.run.task.name for point in found.points] == ["wind", "frost"]
    assert [point.run.training.pretraining_epochs for point in found.points] == [200, 0]  # each as its task has it


@pytest.mark.parametrize(
    ("paper", "points", "runs"),
    [("synthetic", 99, 99), (["wind"], 108, 96), (["frost"], 600, 560), (["wind", "frost", "synthetic"], 807, 755)],
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
        ({"paper": ["wind", "wnd"]}, "there is no task 'wnd'; did you mean 'wind'?"),
        ({"paper": [1]}, "there is no task 1; there are "),
        ({"paper": []}, "paper must be the name of a task, or a list of names, got "),
        ({"paper": "wind", "task": "wind"}, "a sweep has a task or takes its tasks from paper, not both"),
        ({"paper": "wind", "grid": {"task.data_seed": [1]}}, "there is no setting 'task.data_seed'"),
        (with_grid([1]), "grid must be a table of settings and their values, got "),
        (with_grid({"seed": []}), "grid.seed must be a list of at least one value, got "),
        (with_grid({"task": {"data_seed": 3}}), "grid.task.data_seed must be a list of at least one value, got 3"),
        (with_grid({"task.false_alarm": [3]}), "'task.false_alarm'; did you mean 'false_alarm_ratio'?"),
        (with_grid({"seed": [0, -1]}), "seed must be a whole number of at least 0, got -1"),
        ({**TINY, "grdi": {"seed": [1]}}, "there is no setting 'grdi'"),
        (with_grid(16**5000), "grid must be a table of settings and their values"),
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
        ("diffusion", "diffusion"),
        ("[0, 1]", [0, 1]),
        ("{name = 'wind', penalty = 3}", {"name": "wind", "penalty": 3}),
        ("", ""),
        ("[0, 1", "[0, 1"),
        ("9" * 5000, "9" * 5000),
        ("[" * 5000, "[" * 5000),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_flag_is_toml_or_text(text: str, value: Any) -> None:
    assert parse_value(text) == value
