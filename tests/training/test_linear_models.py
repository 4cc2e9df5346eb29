"""Training from a linear start, and the linear model, of which nothing is trained."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from observed_training import QUICK, MakeReplica, assert_same, recorded

from reproduction.runs.folder import RunFolder
from reproduction.runs.settings import RunSettings, prepare
from reproduction.runs.stacks import train_folders
from reproduction.tasks.synthetic import SyntheticTask
from stakes.errors import InterruptedTraining
from stakes.training.settings import ImplicitSettings, LinearSettings, TrainingSettings
from stakes.training.trainer import train

USED = replace(QUICK, weight_decay=0.1)


def test_the_linear_forecast_is_a_candidate_of_early_stopping(make_replica: MakeReplica) -> None:
    """Steps so large that all which follow are worse."""
    each = make_replica("linear start")
    (found,), lines = recorded([each], replace(USED, learning_rate=10.0))
    assert found.best_epoch == 0
    assert found.epoch > 0
    assert found.best_loss == lines.losses(0)[0]
    assert all(torch.equal(value, each.model.state_dict()[name]) for name, value in found.weights.items())


def test_the_linear_part_learns_and_the_network_with_it(make_replica: MakeReplica) -> None:
    each = make_replica("linear start", outcomes=2)
    (found,) = train([each], replace(USED, epochs=4, patience=100))
    assert found.best_epoch > 0
    before = each.model.state_dict()
    moved = {name for name, value in found.weights.items() if not torch.equal(value, before[name])}
    assert moved == {name for name, _ in each.model.named_parameters()}


def test_a_replica_is_the_same_in_every_stack(make_replica: MakeReplica) -> None:
    replicas = [make_replica("linear start", seed=seed, weight=0.2 * (1 + seed)) for seed in range(3)]
    together = train(replicas, USED)
    for index in range(3):
        assert_same(train([replicas[index]], USED)[0], together[index])


def test_replicas_of_one_seed_start_alike(make_replica: MakeReplica) -> None:
    (first, second), lines = recorded([make_replica("linear start", weight=weight) for weight in (0.0, 0.7)], USED)
    assert first.score_scale == second.score_scale
    assert lines.lines[0][0]["energy_score"] == lines.lines[1][0]["energy_score"]


@pytest.mark.parametrize("pretraining", [0, 2])
def test_an_interrupted_training_comes_to_the_same(pretraining: int, make_replica: MakeReplica, tmp_path: Path) -> None:
    used = replace(USED, epochs=3, pretraining_epochs=pretraining)
    pair = [make_replica("linear start", weight=weight, seed=seed) for weight, seed in ((0.3, 0), (0.3, 1))]
    whole = train(pair, used)
    asked = iter([False, True])
    with pytest.raises(InterruptedTraining):
        train(pair, used, checkpoints=tmp_path, stop=lambda: next(asked))
    for again, once in zip(train(pair, used, checkpoints=tmp_path), whole, strict=True):
        assert_same(again, once)


@pytest.mark.parametrize("pretraining", [0, 2])
@pytest.mark.parametrize("together", [False, True])
def test_the_linear_model_is_validated_and_done(pretraining: int, together: bool, make_replica: MakeReplica) -> None:
    pair = [make_replica("linear", weight=weight, seed=seed) for weight, seed in ((0.3, 0), (0.9, 1))]
    for found in train(pair, replace(USED, pretraining_epochs=pretraining), together=together):
        assert (found.status, found.epoch, found.best_epoch, found.steps) == ("finished", 0, 0, 0)
        assert math.isfinite(found.best_loss)
        model = found.replica.model
        assert all(torch.equal(value, model.state_dict()[name]) for name, value in found.weights.items())


TRAINING = TrainingSettings(epochs=2, batch=800, members=3, validation_members=4, validate_every=1)


@pytest.mark.parametrize(
    "model", [LinearSettings(50, gap=3), ImplicitSettings(2, 4, 1, linear=True, gap=3)], ids=["linear", "linear start"]
)
def test_runs_of_both_are_saved_and_can_be_started_from(model: Any, tmp_path: Path) -> None:
    run = RunSettings(SyntheticTask(), model, 0.4, 3, TRAINING)
    folder = RunFolder(tmp_path / "run")
    folder.create(run)
    assert folder.settings() == run
    train_folders([folder], folder.checkpoints, "cpu", 1e9, lambda: False)
    state = folder.state()
    assert state is not None
    assert state.status == "finished"
    again = prepare(replace(run, start_from=str(folder.path), training=TRAINING)).model.state_dict()
    fresh = prepare(run).model.state_dict()
    changed = any(not torch.equal(value, fresh[name]) for name, value in again.items())
    assert changed == (state.best_epoch > 0)
