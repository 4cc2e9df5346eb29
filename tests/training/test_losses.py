"""What is trained: scores by name and mixed, what stands beside them, and more members for the decision."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from refusals import refuses
from torch import Tensor

from stakes import (
    DecisionScore,
    EnergyScore,
    ImbalanceCost,
    ImplicitModel,
    ProtectionCost,
    ShortfallCost,
    TotalCRPS,
    VariogramScore,
)
from stakes.costs.cost import Cost
from stakes.errors import SettingError
from stakes.training.replicas import Replica, ReplicaStack
from stakes.training.settings import TrainingSettings
from stakes.training.steps import Stepper
from stakes.training.trainer import estimate_scales, leaders, train, validate

CPU = torch.device("cpu")
SETTINGS = TrainingSettings(
    epochs=3, pretraining_epochs=2, batch=16, members=4, validate_every=1, validation_members=6, learning_rate=0.01
)
RIVALS = ("crps_of_total", "variogram")
MakeReplica = Callable[..., Replica]
every_rival = pytest.mark.parametrize("companion", RIVALS)
every_kind = pytest.mark.parametrize("kind", ["implicit", "diffusion"])


def settings_of(companion: Any, **changed: Any) -> TrainingSettings:
    return replace(SETTINGS, companion=companion, **changed)


def stack_of(make_replica: MakeReplica, kind: str, companion: str, **changed: Any) -> ReplicaStack:
    replicas = [
        make_replica(kind, cost=ImbalanceCost(1.0 + row, 2.0, 0.0, 5.0), seed=row, outcomes=3, dtype=torch.float64)
        for row in range(2)
    ]
    return ReplicaStack(replicas, settings_of(companion, **changed), CPU, together=True)


@every_kind
def test_the_companion_matters_but_at_weight_zero(kind: str, make_replica: MakeReplica) -> None:
    for weight, distinct in ((0.5, 3), (0.0, 1)):
        each = make_replica(kind, weight=weight, outcomes=3)
        trained = [train([each], settings_of(companion))[0] for companion in ("decision", *RIVALS)]
        rows = [torch.cat([values.flatten() for values in one.weights.values()]) for one in trained]
        assert len({tuple(row.tolist()) for row in rows}) == distinct


@every_rival
@pytest.mark.parametrize("estimator", ["plain", "debiased"])
def test_scales_are_those_of_the_companion(companion: str, estimator: str, make_replica: MakeReplica) -> None:
    stack = stack_of(make_replica, "implicit", companion, decision_estimator=estimator)
    rows = stack.initial_parameters()
    ((draw, _),) = stack.draws(rows, stack.train, 4, "scales")
    pair = draw.decision_members, draw.decision_outcome
    rival = VariogramScore()(*pair) if companion == "variogram" else TotalCRPS(stack.replicas[0].cost)(*pair)
    found = estimate_scales(stack, rows)
    torch.testing.assert_close(found[:, 1], rival.abs().mean(-1))
    scaled = stack.objective(found.new_ones(2, 2)).estimate_scales(draw, dim=-1)
    torch.testing.assert_close(scaled.decision_scale[:, 0], found[:, 1])


@every_kind
@every_rival
def test_validation_tells_the_cost_of_the_decision(companion: str, kind: str, make_replica: MakeReplica) -> None:
    ours, usual = (stack_of(make_replica, kind, name) for name in (companion, "decision"))
    rows = ours.initial_parameters()
    found, expected = (validate(stack, rows, rows.new_ones(2, 2)) for stack in (ours, usual))
    assert found.keys() == expected.keys()
    for name in found.keys() - {"loss", "decision"}:
        assert torch.equal(found[name], expected[name]), name
    torch.testing.assert_close(found["loss"], 0.6 * found["score"] + 0.4 * found["decision"])
    assert not torch.isclose(found["decision"], expected["decision"]).any()


class BrokenTotal(ShortfallCost):
    def total(self, outcome: Tensor) -> Tensor:
        return super().total(outcome) * torch.nan


def test_a_companion_that_is_not_finite_is_named(make_replica: MakeReplica) -> None:
    stack = ReplicaStack([make_replica(cost=BrokenTotal(3.0))], settings_of("crps_of_total"), CPU)
    stepper = Stepper(stack, stack.initial_parameters(), torch.ones(1, 2))
    stepper.epoch("training", 1, 0.01)
    assert stepper.troubles()[0].term == "CRPS of the total"


@pytest.mark.parametrize("pretraining", [0, 2])
@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"companion": "crps_of_total"}, "ProtectionCost has none"),
        ({"companion": "variogram"}, "companion variogram"),
        ({"score": "total"}, "ProtectionCost has none"),
        ({"score": "energy=1,total=0.5"}, "ProtectionCost has none"),
    ],
)
def test_losses_that_cannot_be_are_refused_before_any_epoch(
    changed: dict[str, Any], said: str, pretraining: int, make_replica: MakeReplica
) -> None:
    used = replace(SETTINGS, pretraining_epochs=pretraining, **changed)
    replicas = [make_replica(cost=ProtectionCost(0.5, 0.5))]
    refuses(SettingError, said, train, replicas, used, stop=lambda: pytest.fail("an epoch"))


MIXED = "energy=1,total=0.5"


def scored_with(score: str, **changed: Any) -> TrainingSettings:
    return replace(SETTINGS, epochs=2, batch=24, score=score, **changed)


def weights_of(trained: Any) -> Tensor:
    return torch.cat([values.flatten() for values in trained.weights.values()])


@every_kind
def test_parts_of_a_mixture_are_divided_by_what_climatology_scores(kind: str, make_replica: MakeReplica) -> None:
    replicas = [
        make_replica(kind, cost=ImbalanceCost(1.0 + row, 2.0, 0.0, 5.0), seed=row, outcomes=3, dtype=torch.float64)
        for row in range(2)
    ]
    stack = ReplicaStack(replicas, scored_with(MIXED), CPU, together=True)
    ((draw, _),) = stack.draws(stack.initial_parameters(), stack.train, 4, "climatology")
    outcomes = draw.score_outcome, draw.decision_outcome
    count = stack.train.count
    others = [(torch.arange(count) - 1 - place * (count - 1) // 32) % count for place in range(32)]
    standardised, physical = (torch.stack([values[:, rows] for rows in others], -2) for values in outcomes)
    expected = torch.stack(
        [
            EnergyScore()(standardised, outcomes[0]).mean(-1),
            (TotalCRPS(replicas[0].cost)(physical, outcomes[1]) * draw.decision_term_weight).mean(-1),
        ],
        -1,
    )
    torch.testing.assert_close(stack.score_scales, expected)
    score = stack.objective(None)(draw).score
    energy = EnergyScore()(draw.score_members, draw.score_outcome) / expected[:, :1]
    total = TotalCRPS(replicas[0].cost)(draw.decision_members, draw.decision_outcome) / expected[:, 1:]
    torch.testing.assert_close(score, (energy + 0.5 * total * draw.decision_term_weight) / 1.5)


def test_the_total_alone_cannot_train_a_diffusion_model(make_replica: MakeReplica) -> None:
    refuses(SettingError, "score total alone", train, [make_replica("diffusion", outcomes=3)], scored_with("total"))


@pytest.mark.parametrize(("score", "expected"), [("energy", [0, 0, 0]), ("total", [0, 1, 0]), (MIXED, [0, 1, 0])])
def test_replicas_share_a_pretraining_where_the_score_is_the_same(
    score: str, expected: list[int], make_replica: MakeReplica
) -> None:
    costs: list[Cost] = [ShortfallCost(3.0), ShortfallCost(9.0), ShortfallCost(3.0)]
    replicas = [make_replica(cost=cost, weight=weight) for cost, weight in zip(costs, (0.0, 0.5, 0.9), strict=True)]
    stack = ReplicaStack(replicas, scored_with(score), CPU)
    assert leaders(stack, stack.initial_parameters()) == expected


FEW = replace(SETTINGS, pretraining_epochs=1)
MANY = replace(FEW, decision_member_count=9)
every_model = pytest.mark.parametrize("kind", ["implicit", "diffusion", "own"])


def replicas_of(make_replica: MakeReplica, kind: str, dtype: torch.dtype = torch.float32) -> list[Replica]:
    return [
        make_replica(kind, cost=ShortfallCost(penalty), weight=weight, seed=seed, outcomes=2, dtype=dtype)
        for penalty, weight, seed in [(3.0, 0.0, 0), (3.0, 0.6, 0), (9.0, 0.3, 1)]
    ]


@every_model
def test_the_score_sees_the_first_members_of_the_decision(kind: str, make_replica: MakeReplica) -> None:
    replicas = replicas_of(make_replica, kind, torch.float64)
    few, many = (ReplicaStack(replicas, settings, CPU, together=True) for settings in (FEW, MANY))
    rows = few.initial_parameters()
    ((usual, _),) = few.draws(rows, few.train, 4, "here", deciding=True)
    ((draw, _),) = many.draws(rows, many.train, 4, "here", deciding=True)
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


def test_validation_decides_with_as_many_and_pretraining_with_none(make_replica: MakeReplica) -> None:
    replicas = replicas_of(make_replica, "implicit", torch.float64)[1:]
    few, many = (ReplicaStack(replicas, settings, CPU) for settings in (FEW, MANY))
    rows = few.initial_parameters()
    ones = rows.new_ones(2, 2)
    usual, found = (validate(stack, rows, ones) for stack in (few, many))
    torch.testing.assert_close(found["score"], usual["score"])
    assert not torch.isclose(found["decision"], usual["decision"]).any()
    alone = many.select([0])
    ((draw, _),) = alone.draws(rows[:1], alone.validation, 6, "validation", deciding=True)
    torch.testing.assert_close(found["cost"][:1], DecisionScore(replicas[0].cost)(*draw[2:4]).mean(-1))
    for name, values in validate(few, rows, None).items():
        assert torch.equal(validate(many, rows, None)[name], values), name


class OneNoise(ImplicitModel):
    """All members of a case share their noise."""

    def draw_noise(self, cases: int, members: int, generator: torch.Generator | None = None) -> Any:
        return {"members": super().draw_noise(cases, 5, generator)["members"]}


def test_noise_without_an_axis_of_members_is_refused(make_replica: MakeReplica) -> None:
    model = OneNoise(2, 1)
    assert train([make_replica(model)], FEW)[0].status == "finished"
    refuses(SettingError, "decision_member_count", train, [make_replica(model)], MANY)
