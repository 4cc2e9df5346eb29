"""Models that are trained for a number of epochs whatever validation says, and a search that ends in such models."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from observed_training import QUICK, MakeReplica, assert_same, recorded, stop_after
from refusals import refuses
from straight_model import StraightModel

import stakes
from stakes.data.case_table import CaseTable
from stakes.errors import InterruptedTraining, SettingError
from stakes.settings import from_plain, to_plain
from stakes.training.replicas import Replica
from stakes.training.settings import RefitSchedule, TrainingSettings
from stakes.training.trainer import train
from stakes.training.weight_search import TrainingPlan, train_on_all_rows, train_weights

ASKED = replace(QUICK, epochs=6, pretraining_epochs=2, validate_every=4, patience=1)


def asked(make_replica: MakeReplica, *epochs: int | None) -> list[Replica]:
    return [replace(make_replica(weight=0.2 * place), epochs=each) for place, each in enumerate(epochs)]


def test_the_last_weights_of_the_epochs_asked_for_are_kept(make_replica: MakeReplica) -> None:
    results, recorder = recorded(asked(make_replica, 0, 1, 3, None), ASKED)
    assert [(each.status, each.epoch, each.best_epoch) for each in results[:3]] == [
        ("finished", 0, 0),
        ("finished", 1, 1),
        ("finished", 3, 3),
    ]
    for place, each in enumerate(results[:3]):
        last = [line for line in recorder.lines[place] if line["phase"] == "training"][-1]
        assert (each.best_loss, each.epoch) == (last["loss"], last["epoch"])
    # a longer plan and other companions change nothing
    (alone,) = train(asked(make_replica, 0, 1, 3)[2:], replace(ASKED, epochs=3, validate_every=1))
    for name, value in results[2].weights.items():
        assert torch.equal(value, alone.weights[name])


def test_none_at_all_is_what_pretraining_left(make_replica: MakeReplica) -> None:
    (start,) = train(asked(make_replica, 0), replace(ASKED, pretraining_epochs=0))
    for name, value in start.replica.model.state_dict().items():
        assert torch.equal(start.weights[name], value)
    (pretrained,) = train(asked(make_replica, 0), ASKED)
    assert start.steps == 0 < pretrained.steps
    assert any(not torch.equal(pretrained.weights[name], value) for name, value in start.weights.items())


@pytest.mark.parametrize("after", [1, 2, 3, 4])
def test_an_interruption_changes_nothing(make_replica: MakeReplica, tmp_path: Path, after: int) -> None:
    replicas = asked(make_replica, 1, 4)
    refuses(InterruptedTraining, "", train, replicas, ASKED, checkpoints=tmp_path, stop=stop_after(after))
    for found, expected in zip(train(replicas, ASKED, checkpoints=tmp_path), train(replicas, ASKED), strict=True):
        assert_same(found, expected)


def test_epochs_must_be_a_count(make_replica: MakeReplica) -> None:
    refuses(SettingError, "epochs", asked, make_replica, -1)


def test_a_loss_that_is_not_finite_fails(make_replica: MakeReplica) -> None:
    replica = asked(make_replica, 2)[0]
    (failed,) = train([replace(replica, validation=huge(replica.validation))], ASKED)
    assert (failed.status, failed.failure) == ("failed", "the validation loss is not finite after epoch 2")


def huge(cases: CaseTable) -> CaseTable:
    return CaseTable(cases.features, torch.full_like(cases.outcome, 3e38))


# A search and what follows it


def plan(rows: int = 80) -> TrainingPlan:
    features = torch.rand(rows, 2, generator=torch.Generator().manual_seed(0))
    cases = CaseTable(features, features[:, :1] + 0.1)
    return TrainingPlan(
        cost=stakes.ImbalanceCost(short=10.0, long=1.0, lower=-10.0, upper=10.0),
        factory=StraightModel,
        settings=TrainingSettings(epochs=4, pretraining_epochs=1, validate_every=1, batch=16, members=4),
        weights=(0.0, 0.3, 0.6),
        seeds=(1, 2),
        train=CaseTable(cases.features[:60], cases.outcome[:60]),
        stopping=CaseTable(cases.features[60:], cases.outcome[60:]),
        members=10,
        noise_seed=0,
        device="cpu",
    )


def test_what_a_search_has_found() -> None:
    records = [
        {"decision_weight": 0.0, "status": "finished", "best_epoch": 3},
        {"decision_weight": 0.0, "status": "failed", "best_epoch": 0},
        {"decision_weight": 0.3, "status": "stopped early", "best_epoch": 0},
        {"decision_weight": 0.3, "status": "finished", "best_epoch": 7},
    ]
    found = RefitSchedule.of(ASKED, records, (0.0, 0.3))
    assert (found.weights, found.epochs) == ((0.0, 0.3), ((3, None), (0, 7)))
    assert from_plain(RefitSchedule, to_plain(found)) == found


@pytest.mark.parametrize(
    ("weights", "epochs", "sentence"),
    [
        ((), (), "weights and epochs must be as many, at least one, got 0 and 0"),
        ((0.5,), ((1,), (2,)), "weights and epochs must be as many, at least one, got 1 and 2"),
        ((2.0,), ((1,),), "weights"),
        ((0.5,), ((1, None, -3),), "epochs"),
    ],
)
def test_what_no_search_can_find(weights: tuple[float, ...], epochs: tuple[tuple[int, ...]], sentence: str) -> None:
    refuses(SettingError, sentence, RefitSchedule, ASKED, weights, epochs)


def test_chosen_models_are_trained_on_all_rows_for_the_epochs_found(tmp_path: Path) -> None:
    search = plan()
    every = CaseTable(
        *(
            torch.cat([getattr(part, name) for part in (search.train, search.stopping)])
            for name in ("features", "outcome")
        )
    )
    whole = replace(search, train=every)
    found = RefitSchedule(search.settings, (0.0, 0.6), ((2, 0), (4, None)))
    refuses(SettingError, "ensemble", train_on_all_rows, replace(whole, seeds=(1,)), found)
    again = train_on_all_rows(whole, found)
    assert [(each.weight, len(each.models)) for each in again] == [(0.0, 2), (0.6, 1)]
    assert [record["epoch"] for each in again for record in each.records] == [2, 0, 4]
    assert again[0].records[0]["steps"] == (1 + 2) * (80 // 16)  # pre-training too, on all rows
    refuses(InterruptedTraining, "", train_on_all_rows, whole, found, checkpoints=tmp_path, stop=stop_after(3))
    resumed = train_on_all_rows(whole, found, checkpoints=tmp_path)
    for first, second in zip(again, resumed, strict=True):
        for model, other in zip(first.models, second.models, strict=True):
            for name, value in model.state_dict().items():
                assert torch.equal(value, other.state_dict()[name])


def test_from_a_start_there_is_no_pretraining() -> None:
    search = plan()
    (trained,) = train_weights(replace(search, weights=(0.0,)))
    warm = replace(search, start=tuple(model.state_dict() for model in trained.models))
    (again,) = train_on_all_rows(warm, RefitSchedule(search.settings, (0.0,), ((0, 0),)))
    assert [record["steps"] for record in again.records] == [0, 0]
    for model, before in zip(again.models, trained.models, strict=True):
        for name, value in model.state_dict().items():
            assert torch.equal(value, before.state_dict()[name])
