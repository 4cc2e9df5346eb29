import copy
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from observed_training import (
    QUICK,
    SETTINGS,
    Line,
    MakeReplica,
    Recorder,
    assert_same,
    recorded,
    stop_after,
    sweep_of,
    with_interruptions,
)
from refusals import refuses

from stakes import ImbalanceCost, ImplicitModel, ShortfallCost
from stakes.data.case_table import CaseTable
from stakes.errors import CheckpointError, InterruptedTraining
from stakes.training.progress import Trained
from stakes.training.replicas import Replica, ReplicaStack
from stakes.training.settings import TrainingSettings
from stakes.training.trainer import fingerprint, train

RESUMABLE = replace(SETTINGS, pretraining_epochs=3, validate_every=2, validation_draws=1, patience=2)


@cache
def uninterrupted(
    make_replica: MakeReplica, make_cases: Any, kind: str
) -> tuple[list[Replica], list[Trained], Recorder]:
    replicas = [sweep_of(make_replica, kind, make_cases(80))[index] for index in (1, 7, 8)]
    results, recorder = recorded(replicas, RESUMABLE)
    assert {result.status for result in results} == {"finished", "stopped early"}
    return replicas, results, recorder


# Epochs of pre-training are 1 to 3, of training 4 to 9; validations come every second epoch and at a phase's end.


INTERRUPTIONS = {
    "in pre-training": [1],
    "before the branch": [2],
    "at the branch": [3],
    "between validations": [4],
    "at a validation": [5],
    "after some have stopped": [8],
    "at the end": [9],
    "often": [2, 1, 1, 3, 1],
}


@pytest.mark.parametrize(
    ("kind", "epochs"),
    [
        *(pytest.param("implicit", epochs, id=name) for name, epochs in INTERRUPTIONS.items()),
        pytest.param("diffusion", INTERRUPTIONS["often"], id="diffusion, often"),
    ],
)
def test_a_resumed_run_equals_an_uninterrupted_one(
    kind: str, epochs: list[int], tmp_path: Path, make_replica: MakeReplica, make_cases: Any
) -> None:
    replicas, expected, recorder = uninterrupted(make_replica, make_cases, kind)
    results, lines, sessions = with_interruptions(replicas, RESUMABLE, tmp_path, epochs)
    assert len(sessions) == len(epochs) + 1, "it was interrupted each time"
    for index, result in enumerate(results):
        assert_same(result, expected[index])
        assert lines[index] == recorder.lines[index]
    last = sessions[-1]
    total = sum(epochs)
    assert last.resumptions == [("pretraining", total, ()) if total <= 3 else ("training", total - 3, ())]
    assert bool(sessions[0].ended) == (epochs[0] >= 5), "the first to stop does so in epoch 2 of training"
    assert sorted(last.ended) == list(range(len(replicas))), "all are told of, those that had ended before too"


@settings(max_examples=3, deadline=None, derandomize=True)
@given(epochs=st.lists(st.integers(1, 5), min_size=1, max_size=5), seconds=st.sampled_from([0.0, 1e9]))
def test_any_interruptions(epochs: list[int], seconds: float, make_replica: MakeReplica, make_cases: Any) -> None:
    replicas, expected, recorder = uninterrupted(make_replica, make_cases, "implicit")
    with tempfile.TemporaryDirectory() as folder:
        results, lines, _ = with_interruptions(replicas, RESUMABLE, Path(folder), epochs, checkpoint_seconds=seconds)
    for index, result in enumerate(results):
        assert_same(result, expected[index])
        assert lines[index] == recorder.lines[index]


def test_a_float64_model_resumes_whatever_the_default_type(tmp_path: Path, make_replica: MakeReplica) -> None:
    torch.set_default_dtype(torch.float64)
    try:
        replicas = [make_replica(dtype=torch.float64)]
        expected = train(replicas, QUICK)
        results, _, _ = with_interruptions(replicas, QUICK, tmp_path, [1])
    finally:
        torch.set_default_dtype(torch.float32)
    assert_same(results[0], expected[0])


def test_a_finished_run_with_a_checkpoint_ends_at_once(
    tmp_path: Path, make_replica: MakeReplica, epochs_seen: list[Any]
) -> None:
    replicas = [make_replica()]
    refuses(InterruptedTraining, "interrupted after", train, replicas, QUICK, checkpoints=tmp_path, stop=stop_after(2))
    epochs_seen.clear()
    (result,) = train(replicas, QUICK, checkpoints=tmp_path)
    assert (result.status, result.epoch) == ("finished", 2)
    assert not epochs_seen


def test_without_a_folder_nothing_is_saved(make_replica: MakeReplica) -> None:
    refuses(InterruptedTraining, "interrupted after epoch 1 of", train, [make_replica()], QUICK, stop=stop_after(1))


def test_checkpoints_come_after_any_epoch_when_they_are_due(tmp_path: Path, make_replica: MakeReplica) -> None:
    used = replace(QUICK, pretraining_epochs=3, epochs=5, validate_every=2, patience=100)
    _, often = recorded([make_replica()], used, checkpoints=tmp_path / "often", checkpoint_seconds=0.0)
    assert often.saved == 3 + 5
    names = sorted(path.name for path in (tmp_path / "often").glob("*.json"))
    assert names == ["epoch-00000007.json", "epoch-00000008.json"], "the newest and the one before"
    _, never = recorded([make_replica()], used, checkpoints=tmp_path / "never", checkpoint_seconds=1e9)
    assert never.saved == 0
    assert not (tmp_path / "never").exists()


def damage(file: Path, way: str) -> None:
    content = file.read_bytes()
    if way == "cut":
        file.write_bytes(content[: len(content) // 2])
    elif way == "changed":
        file.write_bytes(content[:-3] + bytes([content[-3] ^ 1]) + content[-2:])
    else:
        file.unlink()


FOUR_EPOCHS = replace(QUICK, epochs=4)


@pytest.fixture(scope="module")
def three_of_four_epochs(tmp_path_factory: pytest.TempPathFactory, make_replica: MakeReplica) -> Any:
    """Replicas, what they come to and its recorder, and the checkpoints and lines of three epochs of them."""
    replicas, folder = [make_replica()], tmp_path_factory.mktemp("three")
    expected, recorder = recorded(replicas, FOUR_EPOCHS)
    lines: dict[int, list[Line]] = {}
    options: dict[str, Any] = {"checkpoints": folder, "checkpoint_seconds": 0.0, "stop": stop_after(3)}
    refuses(InterruptedTraining, "", train, replicas, FOUR_EPOCHS, observers=[Recorder(lines)], **options)
    return replicas, expected, recorder, folder, lines


@pytest.mark.parametrize("suffix", ["json", "safetensors"])
@pytest.mark.parametrize("way", ["cut", "changed", "gone"])
def test_a_damaged_checkpoint_falls_back_to_the_one_before(
    suffix: str, way: str, tmp_path: Path, three_of_four_epochs: Any
) -> None:
    replicas, expected, recorder, left, lines_left = three_of_four_epochs
    lines = copy.deepcopy(lines_left)
    shutil.copytree(left, tmp_path, dirs_exist_ok=True)
    damage(max(tmp_path.glob(f"*.{suffix}")), way)
    session = Recorder(lines)
    results = train(replicas, FOUR_EPOCHS, checkpoints=tmp_path, observers=[session])
    ((phase, epoch, skipped),) = session.resumptions
    assert (phase, epoch) == ("training", 2)
    gone = (suffix, way) == ("json", "gone")  # then there is nothing to tell
    assert len(skipped) == (0 if gone else 1)
    assert gone or "the checkpoint of epoch 3 was skipped" in skipped[0]
    for index, result in enumerate(results):
        assert_same(result, expected[index])
        assert lines[index] == recorder.lines[index]


def test_nothing_starts_again_unawares(tmp_path: Path, make_replica: MakeReplica) -> None:
    refuses(InterruptedTraining, "", train, [make_replica()], QUICK, checkpoints=tmp_path, stop=stop_after(1))
    damage(next(tmp_path.glob("*.json")), "cut")
    refuses(CheckpointError, "no checkpoint in .* can be used", train, [make_replica()], QUICK, checkpoints=tmp_path)


def moved(cases: CaseTable, which: str) -> CaseTable:
    parts = {name: getattr(cases, name).clone() for name in ("features", "outcome")}
    parts[which][3, 0] += 1e-3
    return CaseTable(**parts)


def with_changed_tensor(made: Replica, name: str) -> Replica:
    made.model.state_dict()[name].view(-1)[0] += 0.01
    return made


# What makes another run, each as a function of how a replica is made and which cases it has.


OTHER_RUNS: dict[str, Callable[[MakeReplica, Replica], tuple[Sequence[Replica], dict[str, Any]]]] = {
    "learning rate": lambda make, same: ([same, same], {"learning_rate": 0.02}),
    "epochs": lambda make, same: ([same, same], {"epochs": 3}),
    "epochs of a replica": lambda make, same: ([same, replace(same, epochs=1)], {}),
    "estimator": lambda make, same: ([same, same], {"score_estimator": "biased"}),
    "training features": lambda make, same: ([replace(same, train=moved(same.train, "features"))] * 2, {}),
    "training outcome": lambda make, same: ([replace(same, train=moved(same.train, "outcome"))] * 2, {}),
    "validation features": lambda make, same: ([replace(same, validation=moved(same.validation, "features"))] * 2, {}),
    "validation outcome": lambda make, same: ([replace(same, validation=moved(same.validation, "outcome"))] * 2, {}),
    "which data": lambda make, same: ([same, replace(same, train=copy.copy(same.train))], {}),
    "cost parameter": lambda make, same: ([same, replace(same, cost=ShortfallCost(3.5))], {}),
    "cost": lambda make, same: ([replace(same, cost=ImbalanceCost(1.0, 2.0, 0.0, 1.0))] * 2, {}),
    "decision weight": lambda make, same: ([same, replace(same, decision_weight=0.41)], {}),
    "seed": lambda make, same: ([same, replace(same, seed=1)], {}),
    "name": lambda make, same: ([same, replace(same, name="other")], {}),
    "number": lambda make, same: ([same], {}),
    "weights": lambda make, same: ([same, with_changed_tensor(make(), "network.layers.0.bias")], {}),
    "buffers": lambda make, same: ([same, with_changed_tensor(make(), "outcome_scaling.mean")], {}),
}


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory, make_replica: MakeReplica) -> tuple[Replica, Path]:
    """A replica, and the checkpoints of a training of two of it that was interrupted."""
    same, folder = make_replica(), tmp_path_factory.mktemp("stopped")
    refuses(InterruptedTraining, "", train, [same, same], QUICK, checkpoints=folder, stop=stop_after(1))
    return same, folder


@pytest.mark.parametrize("other", OTHER_RUNS)
def test_checkpoints_of_another_run_are_refused(
    other: str, stopped: tuple[Replica, Path], make_replica: MakeReplica
) -> None:
    same, folder = stopped
    replicas, changed = OTHER_RUNS[other](make_replica, same)
    refuses(CheckpointError, "it belongs to other", train, replicas, replace(QUICK, **changed), checkpoints=folder)


def test_a_cost_of_tensors_and_a_prediction_make_another_run(make_replica: MakeReplica) -> None:
    """The same tensors, another model."""
    assert fingerprint_of(make_replica(cost=ShortfallCost(torch.tensor(3.0)))) != fingerprint_of(
        make_replica(cost=ShortfallCost(torch.tensor(4.0)))
    )
    first, other = (fingerprint_of(make_replica("diffusion", prediction=each)) for each in ("v", "epsilon"))
    assert first != other


class OtherModel(ImplicitModel):
    """The same in all but its name."""


def fingerprint_of(replica: Replica) -> str:
    stack = ReplicaStack([replica], TrainingSettings(), torch.device("cpu"))
    return fingerprint(stack, stack.initial_parameters())


def test_it_does_not_matter_in_which_module_a_class_lives(
    make_replica: Callable[..., Replica], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = fingerprint_of(make_replica())
    monkeypatch.setattr(ImplicitModel, "__module__", "elsewhere")
    assert fingerprint_of(make_replica()) == before
    replica = make_replica()
    replica.model.__class__ = OtherModel
    assert fingerprint_of(replica) != before
