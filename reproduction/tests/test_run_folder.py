import hashlib
import json
import math
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from golden_run import FOLDER as GOLDEN
from golden_run import RUN as GOLDEN_RUN
from golden_run import data_sha256, train_in

from reproduction.runs.folder import RunFolder, RunRecorder
from reproduction.runs.settings import RunSettings, prepare, run_from_plain, task_data
from reproduction.tasks.synthetic import SyntheticTask
from reproduction.tasks.wind import WindTask
from stakes.errors import CheckpointError, InterruptedTraining, SettingError
from stakes.settings import to_plain
from stakes.training.progress import Trained
from stakes.training.replicas import Replica
from stakes.training.settings import DiffusionSettings, ImplicitSettings, LinearSettings, TrainingSettings
from stakes.training.trainer import train

TRAINING = TrainingSettings(epochs=3, batch=800, members=3, validation_members=4, validate_every=1, learning_rate=0.01)
RUN = RunSettings(SyntheticTask(), ImplicitSettings(2, 4, 1), 0.4, 3, TRAINING)
OTHERS = {
    "task": replace(RUN, task=WindTask()),
    "data": replace(RUN, task=SyntheticTask(data_seed=1)),
    "frequency": replace(RUN, task=SyntheticTask(frequency=2.0)),
    "cost parameter": replace(RUN, task=SyntheticTask(false_alarm_ratio=0.7)),
    "close cost parameter": replace(RUN, task=SyntheticTask(false_alarm_ratio=0.5 + 1e-12)),
    "model": replace(RUN, model=DiffusionSettings(2, 4, 1)),
    "hidden": replace(RUN, model=ImplicitSettings(2, 5, 1)),
    "weight": replace(RUN, decision_weight=0.5),
    "close weight": replace(RUN, decision_weight=0.4 + 1e-12),
    "weight zero": replace(RUN, decision_weight=0.0),
    "seed": replace(RUN, seed=4),
    "training": replace(RUN, training=replace(TRAINING, epochs=4)),
    "start": replace(RUN, start_from="runs/earlier"),
}


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = RunFolder(tmp_path / "runs" / RUN.name)
    made.create(RUN)
    return made


@pytest.fixture(scope="module")
def trained() -> Trained:
    return train([prepare(RUN)], TRAINING)[0]


# -- names


def test_names_are_distinct() -> None:
    names = {RUN.name, *(other.name for other in OTHERS.values())}
    assert len(names) == 1 + len(OTHERS)
    assert all(re.fullmatch(r"[a-z0-9.-]+-[0-9a-f]{10}", name.replace("_", "-")) for name in names)


def test_names_are_readable() -> None:
    assert re.fullmatch(r"synthetic-implicit-false_alarm_ratio0\.5-w0\.4-s3-[0-9a-f]{10}", RUN.name)
    assert re.fullmatch(r"synthetic-diffusion-false_alarm_ratio0\.5-w0\.4-s3-[0-9a-f]{10}", OTHERS["model"].name)
    assert re.fullmatch(r"synthetic-implicit-w0-s3-[0-9a-f]{10}", OTHERS["weight zero"].name)


def test_equal_numbers_have_one_name() -> None:
    assert replace(RUN, decision_weight=0).name == replace(RUN, decision_weight=0.0).name
    assert replace(OTHERS["frequency"], task=SyntheticTask(frequency=2)).name == OTHERS["frequency"].name


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (SyntheticTask(false_alarm_ratio=0.2), SyntheticTask(false_alarm_ratio=0.9)),
        (WindTask(penalty=3.0), WindTask(penalty=10.0)),
    ],
    ids=["synthetic", "wind"],
)
def test_at_weight_zero_runs_of_all_cost_parameters_are_one(first: Any, second: Any) -> None:
    score_only = [replace(RUN, task=task, decision_weight=0.0) for task in (first, second)]
    assert score_only[0].name == score_only[1].name
    assert score_only[0].distinct == score_only[1].distinct
    weighted = [replace(RUN, task=task) for task in (first, second)]
    assert weighted[0].name != weighted[1].name
    assert weighted[0].distinct == weighted[0]


def test_at_weight_zero_all_else_still_counts() -> None:
    changed = [{"task": SyntheticTask(data_seed=1)}, {"seed": 4}, {"training": replace(TRAINING, members=5)}]
    names = [replace(RUN, decision_weight=0.0, **each).name for each in ({}, *changed)]
    assert len(set(names)) == 4


# -- settings


def test_what_a_file_does_not_say_is_the_papers() -> None:
    paper = SyntheticTask.paper
    run = run_from_plain({"task": "synthetic", "training": {"epochs": 7}})
    assert run.training == replace(paper.training, epochs=7) != TrainingSettings(epochs=7)
    assert run.model == paper.models[0]
    assert run_from_plain({"task": {"name": "wind", "penalty": 3}, "model": "diffusion"}) == RunSettings(
        WindTask(penalty=3.0), WindTask.paper.models[1], training=WindTask.paper.training
    )
    with pytest.raises(SettingError, match=r"task\.penalty"):
        run_from_plain({"task": {"name": "wind", "penalty": "high"}})


@pytest.mark.parametrize("run", [RUN, *OTHERS.values()], ids=["same", *OTHERS])
def test_settings_round_trip(run: RunSettings, tmp_path: Path) -> None:
    made = RunFolder(tmp_path / "new" / "run")
    made.create(run)
    assert made.settings() == run
    assert made.settings().name == run.name
    assert run_from_plain(json.loads(json.dumps(to_plain(run)))) == run
    assert made.state() is None
    assert made.metrics() == []


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_a_folder_of_another_run_is_refused(other: RunSettings, folder: RunFolder) -> None:
    before = (folder.path / "settings.json").read_bytes()
    with pytest.raises(SettingError, match="holds a run with other settings; choose another folder"):
        folder.create(other)
    assert (folder.path / "settings.json").read_bytes() == before


# -- the end of a run


def test_finish_state_and_model_round_trip(folder: RunFolder, trained: Trained) -> None:
    with pytest.raises(SettingError, match=r"has not finished; `python -m reproduction resume .*` goes on with it"):
        folder.model()
    folder.finish(trained)
    state = folder.state()
    assert state is not None
    assert (state.status, state.epoch, state.best_epoch) == (trained.status, trained.epoch, trained.best_epoch)
    assert (state.best_loss, state.steps, state.failure) == (trained.best_loss, trained.steps, None)
    assert (state.score_scale, state.decision_scale) == (trained.score_scale, trained.decision_scale)
    assert state.seconds == pytest.approx(trained.seconds, abs=1e-3)
    assert state.versions.keys() == {"stakes", "torch", "python"}
    content = (folder.path / "weights.safetensors").read_bytes()
    assert state.weights_sha256 == hashlib.sha256(content).hexdigest()
    model = folder.model()
    assert model.state_dict().keys() == trained.weights.keys()
    assert all(torch.equal(values, trained.weights[name]) for name, values in model.state_dict().items())
    fresh = prepare(RUN).model.state_dict()
    assert not all(torch.equal(values, fresh[name]) for name, values in trained.weights.items())


def test_a_run_that_failed_at_once_has_a_state(folder: RunFolder, trained: Trained) -> None:
    folder.finish(Trained(trained.replica, "failed", failure="the score is no number", weights=trained.weights))
    state = folder.state()
    assert state is not None
    assert (state.status, state.failure) == ("failed", "the score is no number")
    assert state.best_loss is state.score_scale is state.decision_scale is None


def test_weights_that_are_not_those_of_the_state_are_refused(folder: RunFolder, trained: Trained) -> None:
    folder.finish(trained)
    file = folder.path / "weights.safetensors"
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(CheckpointError, match=r"weights\.safetensors is damaged"):
        folder.model()
    file.unlink()
    with pytest.raises(CheckpointError, match=r"weights\.safetensors cannot be read"):
        folder.model()


def test_the_golden_run_is_read() -> None:
    folder = RunFolder(GOLDEN / "finished")
    assert folder.settings() == GOLDEN_RUN
    state = folder.state()
    assert state is not None
    assert (state.status, state.epoch, len(folder.metrics())) == ("finished", 6, 7)
    weights = folder.model().state_dict()
    prepared = prepare(replace(RUN, start_from=str(folder.path))).model.state_dict()
    assert all(torch.equal(values, prepared[name]) for name, values in weights.items())
    folder.create(GOLDEN_RUN)  # which is the same run


def test_the_golden_run_goes_on(tmp_path: Path) -> None:
    if (GOLDEN / "data.sha256").read_text() != data_sha256():
        pytest.skip("the data of the task have other last digits on this machine, and the checkpoint is not of these")
    folder = RunFolder(Path(shutil.copytree(GOLDEN / "interrupted", tmp_path / "run")))
    assert folder.state() is None
    train_in(folder)
    finished = RunFolder(GOLDEN / "finished")
    state, whole = folder.state(), finished.state()
    assert state is not None
    assert whole is not None
    assert (state.epoch, state.steps) == (whole.epoch, whole.steps)
    assert state.best_loss == pytest.approx(whole.best_loss, rel=1e-5)
    assert [line["epoch"] for line in folder.metrics()] == [line["epoch"] for line in finished.metrics()]
    for name, values in folder.model().state_dict().items():
        torch.testing.assert_close(values, finished.model().state_dict()[name], rtol=1e-5, atol=1e-5)


# -- metrics


def line(phase: str, epoch: int, **values: float) -> dict[str, Any]:
    return {"phase": phase, "epoch": epoch, "loss": epoch / 7, **values}


LINES = [line("pretraining", epoch) for epoch in (0, 2, 4)] + [line("training", epoch) for epoch in (0, 2, 10)]


def fill(folder: RunFolder, lines: Sequence[dict[str, Any]] = LINES) -> None:
    for each in lines:
        folder.add_metrics(each)


def test_numbers_that_json_has_not_are_none(folder: RunFolder) -> None:
    folder.add_metrics(line("training", 1, cost=math.nan, score=math.inf, gradient=-math.inf))
    assert folder.metrics() == [{**line("training", 1), "cost": None, "score": None, "gradient": None}]


@pytest.mark.parametrize(
    ("phase", "epoch", "kept"),
    [
        ("pretraining", 0, 1),
        ("pretraining", 3, 2),
        ("pretraining", 4, 3),
        ("training", 0, 4),
        ("training", 9, 5),
        ("training", 10, 6),
    ],
)
def test_metrics_are_cut_at_a_moment(phase: Any, epoch: int, kept: int, folder: RunFolder) -> None:
    fill(folder)
    folder.cut_metrics(phase, epoch)
    assert folder.metrics() == LINES[:kept]
    fill(folder, LINES[kept:])
    assert folder.metrics() == LINES


@pytest.mark.parametrize("torn", [b'{"phase": "training", "ep', b"{", b'{"epoch": 12}', b"\0\0\0", b"\xc3"])
def test_a_torn_last_line_is_as_good_as_none(torn: bytes, folder: RunFolder) -> None:
    fill(folder)
    with folder.metrics_file.open("ab") as file:
        file.write(torn)
    assert folder.metrics() == LINES
    folder.cut_metrics("training", 10)
    fill(folder, [line("training", 12)])
    assert folder.metrics() == [*LINES, line("training", 12)]


# -- a recorder in training


def trained_in(
    folder: RunFolder, replica: Replica, stop: Callable[[], bool] = lambda: False, checkpoints: Path | None = None
) -> None:
    train([replica], TRAINING, observers=[RunRecorder([folder])], stop=stop, checkpoints=checkpoints)


def stop_after(epochs: int) -> Callable[[], bool]:
    asked = iter(range(1, epochs))
    return lambda: next(asked, None) is None


@pytest.mark.parametrize("kept", [True, False], ids=["with a checkpoint", "without"])
def test_an_interrupted_run_leaves_the_same_files(
    kept: bool, folder: RunFolder, tmp_path: Path, trained: Trained
) -> None:
    whole = RunFolder(tmp_path / "whole")
    whole.create(RUN)
    trained_in(whole, prepare(RUN))
    assert [each["epoch"] for each in whole.metrics()] == [0, 1, 2, 3]
    checkpoints = folder.checkpoints if kept else None
    with pytest.raises(InterruptedTraining):
        trained_in(folder, prepare(RUN), stop_after(2), checkpoints)
    assert folder.state() is None
    assert [each["epoch"] for each in folder.metrics()] == [0, 1, 2]
    folder.add_metrics(line("training", 3))  # what came between the checkpoint and a kill
    trained_in(folder, prepare(RUN), checkpoints=checkpoints)
    for name in ("metrics.jsonl", "weights.safetensors"):
        assert (folder.path / name).read_bytes() == (whole.path / name).read_bytes()
    states = [each.state() for each in (folder, whole)]
    assert all(state is not None for state in states)
    assert replace(states[0], seconds=0.0) == replace(states[1], seconds=0.0)  # type: ignore[type-var]
    assert states[0].best_loss == trained.best_loss  # type: ignore[union-attr]


# -- prepared models


def test_a_run_is_prepared_from_its_seed_alone() -> None:
    torch.rand(1)  # so that the generator is not where the run's own seed would leave it
    before = torch.get_rng_state()
    first = prepare(RUN)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(3)
    again, other = prepare(RUN), prepare(replace(RUN, seed=4))
    states = [each.model.state_dict() for each in (first, again, other)]
    assert all(torch.equal(values, states[1][name]) for name, values in states[0].items())
    assert not all(torch.equal(values, states[2][name]) for name, values in states[0].items())
    assert (first.seed, first.decision_weight, first.name, first.cost) == (3, 0.4, RUN.name, RUN.task.cost)
    outcome = task_data(RUN.task).train.outcome
    torch.testing.assert_close(states[0]["outcome_scaling.mean"], outcome.mean(0))
    torch.testing.assert_close(states[0]["outcome_scaling.scale"], outcome.std(0, correction=0))


@pytest.mark.parametrize("given", ["folder", "file"])
def test_a_run_may_start_from_another(given: str, folder: RunFolder, trained: Trained) -> None:
    folder.finish(trained)
    start = folder.path if given == "folder" else folder.path / "weights.safetensors"
    other = replace(RUN, task=SyntheticTask(frequency=1.5, data_seed=2), seed=9, start_from=str(start))
    made = prepare(other)
    assert all(torch.equal(values, trained.weights[name]) for name, values in made.model.state_dict().items())
    outcome = made.train.outcome
    assert not torch.allclose(made.model.state_dict()["outcome_scaling.mean"], outcome.mean(0)), "scaling comes along"


@pytest.mark.parametrize(
    ("model", "wrong"),
    [
        (ImplicitSettings(2, 5, 1), r"network\.layers\.0\.weight"),
        (ImplicitSettings(2, 4, 2), r"network\.layers\.4\.weight"),
        (DiffusionSettings(2, 4, 1), r"network\.hidden\.0\.weight"),
    ],
    ids=["width", "depth", "kind"],
)
def test_weights_of_other_shapes_are_refused(model: Any, wrong: str, folder: RunFolder, trained: Trained) -> None:
    folder.finish(trained)
    with pytest.raises(SettingError, match=rf"^start_from cannot be used: .*{wrong}.*must be"):
        prepare(replace(RUN, model=model, start_from=str(folder.path)))


@pytest.mark.parametrize("line", ["[1]", '{"phase": "training"}', '{"epoch": "3", "phase": "training"}', "{"])
def test_damaged_metrics_are_named(line: str, folder: RunFolder) -> None:
    folder.metrics_file.write_text(line + "\n")
    with pytest.raises(CheckpointError, match=r"metrics\.jsonl is damaged"):
        folder.metrics()


def test_at_weight_zero_the_cost_matters_where_the_score_looks_at_its_total() -> None:
    for score, count in (("energy", 1), ("pointwise", 1), ("total", 2), ("energy=1,total=0.5", 2)):
        training = replace(TRAINING, score=score)
        runs = [
            RunSettings(WindTask(penalty=penalty), decision_weight=0.0, training=training) for penalty in (3.0, 5.0)
        ]
        assert len({run.name for run in runs}) == count


def test_at_weight_zero_members_of_the_decision_do_not_matter() -> None:
    many = replace(GOLDEN_RUN.training, decision_member_count=9)
    for weight, count in ((0.0, 1), (0.4, 2)):
        runs = [replace(GOLDEN_RUN, decision_weight=weight, training=each) for each in (GOLDEN_RUN.training, many)]
        assert len({run.name for run in runs}) == count
    assert (
        replace(GOLDEN_RUN, training=replace(GOLDEN_RUN.training, score="energy=1,total=0.5")).name != GOLDEN_RUN.name
    )


@pytest.mark.parametrize(
    "model", [LinearSettings(50, gap=3), ImplicitSettings(2, 4, 1, linear=True, gap=3)], ids=["linear", "linear start"]
)
def test_runs_of_linear_models_are_saved_and_can_be_started_from(model: Any, tmp_path: Path) -> None:
    run = RunSettings(SyntheticTask(), model, 0.4, 3, replace(TRAINING, epochs=2))
    folder = RunFolder(tmp_path / "run")
    folder.create(run)
    assert folder.settings() == run
    train_in(folder)
    state = folder.state()
    assert state is not None
    assert state.status == "finished"
    again = prepare(replace(run, start_from=str(folder.path))).model.state_dict()
    fresh = prepare(run).model.state_dict()
    changed = any(not torch.equal(value, fresh[name]) for name, value in again.items())
    assert changed == (state.best_epoch > 0)
