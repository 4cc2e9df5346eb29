import re
from pathlib import Path
from typing import Any

import pytest
from small_sweeps import GRID, TINY, TRAINING

from reproduction.runs.settings import run_from_plain
from reproduction.runs.sweep import Point, Sweep, load_sweep, parse_overrides, parse_value, read_sweep, sweep_from_files
from reproduction.tasks.wind import WindTask
from stakes.errors import SettingError
from stakes.files import write_json

GRIDDED = read_sweep({**TINY, "grid": GRID})


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


@pytest.mark.parametrize("content", [None, 3, [3], [{}], [{"axes": {}, "run": 3}], [{"axes": {}, "run": {}}]])
def test_a_file_that_lists_no_points_is_refused(content: Any, tmp_path: Path) -> None:
    write_json(tmp_path / "sweep.json", content)
    with pytest.raises(SettingError):
        load_sweep(tmp_path)
