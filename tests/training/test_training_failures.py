import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
from observed_training import CPU, QUICK, MakeReplica, assert_same, recorded, with_interruptions
from torch import Tensor

from stakes import ImplicitModel, TrainingDraw, cost_function
from stakes.data.case_table import CaseTable
from stakes.training.replicas import Replica, ReplicaStack
from stakes.training.trainer import train

TRIGGER = 0.125  # an outcome at which the model breaks, in training but not in validation
BROKEN_CASE = 17


class Fragile(ImplicitModel):
    def draw_noise(self, cases: int, members: int, generator: torch.Generator | None = None) -> Mapping[str, Tensor]:
        return {**super().draw_noise(cases, members, generator), "live": torch.ones(cases)}

    def validation_noise(
        self, cases: int, members: int, generator: torch.Generator | None = None, draws: int = 1
    ) -> Mapping[str, Tensor]:
        return {**super().draw_noise(cases * draws, members, generator), "live": torch.zeros(cases * draws)}

    def training_draw(self, features: Tensor, outcome: Tensor, noise: Mapping[str, Tensor]) -> TrainingDraw:
        draw = super().training_draw(features, outcome, noise)
        hit = (outcome == TRIGGER)[..., None, :] * noise["live"][..., None, None]
        return draw._replace(score_members=draw.score_members / (1 - hit))


def fragile(make_replica: MakeReplica, seed: int, sick: bool, weight: float = 0.4) -> Replica:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = Fragile(2, 1, noise=3, hidden=6, layers=2)
    made = make_replica(model, seed=seed, weight=weight, name=f"run-{seed}")
    model.fit_scaling(made.train.features, made.train.outcome)
    return replace(made, train=sick_cases(made.train) if sick else made.train)


@cache
def sick_cases(cases: CaseTable) -> CaseTable:
    outcome = cases.outcome.clone()
    outcome[BROKEN_CASE] = TRIGGER
    return CaseTable(cases.features, outcome)


BRIEF = replace(QUICK, epochs=1, batch=24)
# Of 48 cases an epoch sees 40, in two steps: the broken case may come late.
FAILING = replace(QUICK, batch=20, epochs=5, validate_every=2, patience=100)


def first_broken(each: Replica, phase: str) -> tuple[int, int]:
    """The epoch in which the broken case comes first, and the step of that epoch, from 1."""
    stack = ReplicaStack([each], FAILING, CPU)
    for epoch in range(1, 9):
        place = stack.shuffles(phase, epoch)[0].tolist().index(BROKEN_CASE)
        if place < 40:
            return epoch, 1 + place // 20
    raise AssertionError


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("phase", ["pretraining", "training"])
def test_the_epoch_of_a_failure_is_right(phase: str, step: int, make_replica: MakeReplica) -> None:
    """At the first step of an epoch and at its last."""
    made = (fragile(make_replica, seed, sick=True) for seed in range(99))
    each = next(each for each in made if first_broken(each, phase) == (2, step))
    epochs = {"pretraining_epochs" if phase == "pretraining" else "epochs": 4}
    results = train([each, fragile(make_replica, 0, sick=False)], replace(FAILING, **epochs))
    assert results[0].failure == f"the score is not finite in epoch 2 of {phase}"


@pytest.mark.parametrize("together", [False, True], ids=["in turns", "together"])
def test_one_failure_leaves_the_others_alone(together: bool, make_replica: MakeReplica) -> None:
    replicas = [fragile(make_replica, seed, sick=seed == 1) for seed in range(3)]
    results, recorder = recorded(replicas, FAILING, together=together)
    assert [result.status for result in results] == ["finished", "failed", "finished"]
    epoch, _ = first_broken(replicas[1], "training")
    assert results[1].failure == f"the score is not finite in epoch {epoch} of training"
    assert (results[1].epoch, results[1].best_epoch) == (0, 0), "it was last well at the validation before"
    assert results[1].best_loss == recorder.losses(1)[0]
    for name, values in results[1].weights.items():
        assert torch.equal(values, replicas[1].model.state_dict()[name]), "the best weights, none but the first"
    assert recorder.ended[0] == 1
    replicas[1] = fragile(make_replica, 1, sick=False)
    well, lines_of_well = recorded(replicas, FAILING, together=together)
    assert [result.status for result in well] == ["finished"] * 3
    for index in (0, 2):
        if together:  # fewer rows at once may round differently
            assert results[index].best_loss == pytest.approx(well[index].best_loss, rel=1e-4)
        else:
            assert_same(results[index], well[index])
            assert recorder.lines[index] == lines_of_well.lines[index]


def test_a_late_failure_keeps_the_best_weights(make_replica: MakeReplica) -> None:
    """Of seeds in which the broken case comes late enough for a validation before it."""
    used = replace(FAILING, batch=5, validate_every=1, epochs=40)  # all 45 of 48 cases, by chance three are left out
    stack = ReplicaStack([fragile(make_replica, 0, sick=True)], used, CPU)
    assert stack.steps == 9
    each = next(
        made
        for made in (fragile(make_replica, seed, sick=True) for seed in range(99))
        if BROKEN_CASE not in ReplicaStack([made], used, CPU).shuffles("training", 1)[0, :45]
    )
    (result,), recorder = recorded([each], used)
    assert result.status == "failed"
    assert result.failure == "the score is not finite in epoch 2 of training"
    losses = recorder.losses(0)
    assert list(losses) == [0, 1]
    assert losses[1] < losses[0]
    assert (result.epoch, result.best_epoch, result.best_loss, result.steps) == (1, 1, losses[1], 9)
    good = train([each], replace(used, epochs=1))[0]
    for name, values in good.weights.items():
        assert torch.equal(result.weights[name], values)


def test_a_failure_in_pretraining_is_that_of_all_who_share_it(make_replica: MakeReplica) -> None:
    sick = fragile(make_replica, 0, sick=True)
    replicas = [sick, replace(sick, decision_weight=0.8), fragile(make_replica, 1, sick=False)]
    used = replace(FAILING, pretraining_epochs=4, epochs=2)
    results, recorder = recorded(replicas, used)
    assert [result.status for result in results] == ["failed", "failed", "finished"]
    epoch, _ = first_broken(sick, "pretraining")
    for result in results[:2]:
        assert result.failure == f"the score is not finite in epoch {epoch} of pretraining"
        assert result.best_loss == math.inf
        assert all(values.isfinite().all() for values in result.weights.values())
    assert {line["phase"] for line in recorder.lines[0]} == {"pretraining"}
    assert_same(results[2], train(replicas[2:], used)[0])


@pytest.mark.parametrize("pretraining", [0, 2])
def test_all_may_fail(pretraining: int, make_replica: MakeReplica) -> None:
    replicas = [fragile(make_replica, seed, sick=True) for seed in range(2)]
    results, recorder = recorded(replicas, replace(FAILING, pretraining_epochs=pretraining))
    assert [result.status for result in results] == ["failed"] * 2
    assert all(result.weights and result.failure for result in results)
    assert sorted(recorder.ended) == [0, 1]


@pytest.mark.parametrize("epochs", [1, 2, 3])
def test_a_failure_outlives_an_interruption(epochs: int, tmp_path: Path, make_replica: MakeReplica) -> None:
    """Before it is noticed at a validation, and after."""
    replicas = [fragile(make_replica, seed, sick=seed == 1) for seed in range(2)]
    expected, recorder = recorded(replicas, FAILING)
    results, lines, _ = with_interruptions(replicas, FAILING, tmp_path, [epochs])
    for index, result in enumerate(results):
        assert_same(result, expected[index])
        assert repr(lines[index]) == repr(recorder.lines[index])  # there may be NaN among the gradients
    assert results[1].status == "failed"


def broken_above(action: Tensor, outcome: Tensor) -> Tensor:
    return torch.where(outcome == TRIGGER, torch.nan, (action - outcome) ** 2)


def free(action: Tensor, outcome: Tensor) -> Tensor:
    return 0 * (action - outcome) ** 2


def test_a_scale_that_is_not_finite_fails_its_replica_alone(make_replica: MakeReplica) -> None:
    well = make_replica(cost=cost_function(broken_above, -1.0, 3.0))
    sick = replace(well, train=sick_cases(well.train))
    results, recorder = recorded([well, sick, replace(well, decision_weight=0.1)], BRIEF)
    assert [result.status for result in results] == ["finished", "failed", "finished"]
    assert results[1].failure == "the mean decision term on the training cases is not a positive number before epoch 1"
    assert math.isnan(results[1].decision_scale)
    assert 1 not in recorder.lines
    assert_same(results[0], train([well], BRIEF)[0])


def test_weights_that_overflow_fail_by_their_score(make_replica: MakeReplica) -> None:
    vast = make_replica(seed=1)
    with torch.no_grad():
        for value in vast.model.parameters():
            value.mul_(1e25)
    results = train([make_replica(), vast], QUICK)
    assert [result.status for result in results] == ["finished", "failed"]
    assert results[1].failure == "the mean score term on the training cases is not a positive number before epoch 1"


def test_at_weight_zero_a_cost_without_scale_does_no_harm(make_replica: MakeReplica) -> None:
    plain = replace(make_replica(), decision_weight=0.0)
    free_of_charge = replace(plain, cost=cost_function(free, 0.0, 1.0))
    results = [train([each], BRIEF)[0] for each in (plain, free_of_charge)]
    assert [result.status for result in results] == ["finished", "finished"]
    assert all(torch.equal(results[0].weights[name], results[1].weights[name]) for name in results[0].weights)


def test_a_validation_that_is_never_finite_fails_the_replica(make_replica: MakeReplica) -> None:
    well = make_replica(cost=cost_function(broken_above, -1.0, 3.0))
    blind = replace(well, validation=sick_cases(well.validation))
    results = train([blind, well], BRIEF)
    assert [result.status for result in results] == ["failed", "finished"]
    assert results[0].failure == "the validation loss was never finite"
