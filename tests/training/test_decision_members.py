"""More members for the decision than for the score."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from golden.make_run import RUN as GOLDEN_RUN
from torch import Tensor

from stakes import DecisionScore, EnergyScore, ImplicitModel, ShortfallCost
from stakes.errors import InterruptedTraining, SettingError
from stakes.training.replicas import Replica, ReplicaStack
from stakes.training.settings import TrainingSettings
from stakes.training.trainer import estimate_scales, train, validate

CPU = torch.device("cpu")
FEW = TrainingSettings(
    epochs=3, pretraining_epochs=1, batch=16, members=4, validate_every=1, validation_members=6, learning_rate=0.01
)
MANY = replace(FEW, decision_member_count=9)
MakeReplica = Callable[..., Replica]
every_kind = pytest.mark.parametrize("kind", ["implicit", "diffusion", "own"])


def replicas_of(make_replica: MakeReplica, kind: str, dtype: torch.dtype = torch.float32) -> list[Replica]:
    return [
        make_replica(kind, cost=ShortfallCost(penalty), weight=weight, seed=seed, outcomes=2, dtype=dtype)
        for penalty, weight, seed in [(3.0, 0.0, 0), (3.0, 0.6, 0), (9.0, 0.3, 1)]
    ]


def weights_of(trained: Any) -> Tensor:
    return torch.cat([values.flatten() for values in trained.weights.values()])


@every_kind
def test_the_score_sees_the_first_members_of_the_decision(kind: str, make_replica: MakeReplica) -> None:
    replicas = replicas_of(make_replica, kind, torch.float64)
    few, many = (ReplicaStack(replicas, settings, CPU, together=True) for settings in (FEW, MANY))
    rows = few.initial_parameters()
    (usual,) = few.draws(rows, few.train, 4, "here", deciding=True)
    (draw,) = many.draws(rows, many.train, 4, "here", deciding=True)
    assert draw.score_members.shape[-2:] == (4, 2)
    assert draw.decision_members.shape[-2:] == (9, 2)
    torch.testing.assert_close(draw.score_members, usual.score_members)
    torch.testing.assert_close(draw.decision_members[..., :4, :], usual.decision_members)
    assert torch.equal(draw.decision_term_weight, usual.decision_term_weight)
    later = draw.decision_members[..., 4:, :]
    assert (later[..., :4, :] != usual.decision_members).float().mean() > 0.5  # where noise reaches the members at all
    terms = many.objective(rows.new_ones(3, 2))(draw)
    torch.testing.assert_close(terms.score, EnergyScore()(usual.score_members, usual.score_outcome))
    decision = DecisionScore(many.cost)(draw.decision_members, draw.decision_outcome) * draw.decision_term_weight
    torch.testing.assert_close(terms.decision, decision)


@pytest.mark.parametrize("kind", ["implicit", "diffusion"])
def test_at_weight_zero_nothing_changes_by_a_bit(kind: str, make_replica: MakeReplica) -> None:
    replicas = replicas_of(make_replica, kind)
    (alone,) = train(replicas[:1], FEW)
    for found in (train(replicas[:1], MANY)[0], train(replicas, MANY)[0]):
        assert torch.equal(weights_of(found), weights_of(alone))
        assert (found.best_loss, found.decision_scale) == (alone.best_loss, alone.decision_scale)


def test_as_many_as_the_score_has_changes_nothing(make_replica: MakeReplica) -> None:
    replicas = replicas_of(make_replica, "implicit")[1:]
    usual = train(replicas, FEW)
    for found, expected in zip(train(replicas, replace(FEW, decision_member_count=4)), usual, strict=True):
        assert torch.equal(weights_of(found), weights_of(expected))
    for found, expected in zip(train(replicas, MANY), usual, strict=True):
        assert not torch.equal(weights_of(found), weights_of(expected))


@pytest.mark.parametrize("kind", ["implicit", "diffusion"])
def test_a_stack_equals_its_runs_one_by_one(kind: str, make_replica: MakeReplica) -> None:
    replicas = replicas_of(make_replica, kind)
    for found, each in zip(train(replicas, MANY), replicas, strict=True):
        (alone,) = train([each], MANY)
        assert (found.status, found.best_loss) == ("finished", alone.best_loss)
        assert torch.equal(weights_of(found), weights_of(alone))


@every_kind
def test_together_equals_in_turns(kind: str, make_replica: MakeReplica) -> None:
    replicas = replicas_of(make_replica, kind, torch.float64)[1:]
    turns, together = (ReplicaStack(replicas, MANY, CPU, way) for way in (False, True))
    rows = turns.initial_parameters()
    scales = estimate_scales(turns, rows)
    torch.testing.assert_close(estimate_scales(together, rows), scales)
    found, expected = (validate(stack, rows, scales) for stack in (together, turns))
    for name, values in expected.items():
        torch.testing.assert_close(found[name], values, rtol=1e-10, atol=1e-12)


def test_validation_decides_with_as_many_and_pretraining_with_none(make_replica: MakeReplica) -> None:
    replicas = replicas_of(make_replica, "implicit", torch.float64)[1:]
    few, many = (ReplicaStack(replicas, settings, CPU) for settings in (FEW, MANY))
    rows = few.initial_parameters()
    ones = rows.new_ones(2, 2)
    usual, found = (validate(stack, rows, ones) for stack in (few, many))
    torch.testing.assert_close(found["score"], usual["score"])
    assert not torch.isclose(found["decision"], usual["decision"]).any()
    alone = many.select([0])
    (draw,) = alone.draws(rows[:1], alone.validation, 6, "validation", deciding=True)
    torch.testing.assert_close(found["cost"][:1], DecisionScore(replicas[0].cost)(*draw[2:4]).mean(-1))
    for name, values in validate(few, rows, None).items():
        assert torch.equal(validate(many, rows, None)[name], values), name


def test_resumed_training_ends_with_the_same_bits(make_replica: MakeReplica, tmp_path: Path) -> None:
    replicas = replicas_of(make_replica, "implicit")[:2]
    whole = train(replicas, MANY)
    for _ in range(2):  # in the pre-training, and after it
        with pytest.raises(InterruptedTraining):
            train(replicas, MANY, checkpoints=tmp_path, stop=lambda: True)
    for one, other in zip(train(replicas, MANY, checkpoints=tmp_path), whole, strict=True):
        assert torch.equal(weights_of(one), weights_of(other))


class OneNoise(ImplicitModel):
    """All members of a case share their noise."""

    def draw_noise(self, cases: int, members: int, generator: torch.Generator | None = None) -> Any:
        return {"members": super().draw_noise(cases, 5, generator)["members"]}


def test_noise_without_an_axis_of_members_is_refused(make_replica: MakeReplica) -> None:
    model = OneNoise(2, 1)
    assert train([make_replica(model)], FEW)[0].status == "finished"
    with pytest.raises(SettingError, match="decision_member_count needs a model whose noise has an axis of members"):
        train([make_replica(model)], MANY)


def test_runs_at_weight_zero_are_one() -> None:
    many = replace(GOLDEN_RUN.training, decision_member_count=9)
    for weight, count in ((0.0, 1), (0.4, 2)):
        runs = [replace(GOLDEN_RUN, decision_weight=weight, training=each) for each in (GOLDEN_RUN.training, many)]
        assert len({run.name for run in runs}) == count
