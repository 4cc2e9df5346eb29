"""The scores that a stack may be trained with: by name, and mixed."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from golden.make_run import RUN as GOLDEN_RUN

from reproduction.runs.settings import RunSettings
from reproduction.tasks.wind import WindTask
from stakes import (
    EnergyScore,
    ImbalanceCost,
    PointwiseCRPS,
    ProtectionCost,
    ScoreMixture,
    ShortfallCost,
    TotalCRPS,
    WindDispatchCost,
)
from stakes.costs.cost import Cost
from stakes.costs.scalar_costs import PowerCurve
from stakes.errors import InterruptedTraining, SettingError
from stakes.settings import from_plain, to_plain
from stakes.training.replicas import Replica, ReplicaStack
from stakes.training.settings import TrainingSettings
from stakes.training.trainer import leaders, train, validate

CPU = torch.device("cpu")
SETTINGS = TrainingSettings(
    epochs=2, pretraining_epochs=2, batch=24, members=4, validate_every=1, validation_members=6, learning_rate=0.01
)
SCORES = ("pointwise", "total", "energy=1,total=0.5")
MIXED = "energy=1,total=0.5"
CURVE = PowerCurve(ramp_speed=0.5, ramp_sharpness=4.0, shear=0.0)
MakeReplica = Callable[..., Replica]
every_kind = pytest.mark.parametrize("kind", ["implicit", "diffusion"])


def settings_of(score: str, **changed: Any) -> TrainingSettings:
    return replace(SETTINGS, score=score, **changed)


def different(make_replica: MakeReplica, kind: str = "implicit", **given: Any) -> list[Replica]:
    """Replicas that differ in weight, seed and cost."""
    return [
        make_replica(kind, cost=WindDispatchCost(penalty, CURVE), weight=weight, seed=seed, outcomes=3, **given)
        for penalty, weight, seed in [(5.0, 0.0, 0), (5.0, 0.6, 0), (9.0, 0.3, 1)]
    ]


def weights_of(trained: Any) -> torch.Tensor:
    return torch.cat([values.flatten() for values in trained.weights.values()])


@pytest.mark.parametrize(
    ("score", "expected"),
    [("energy", EnergyScore), ("pointwise", PointwiseCRPS), ("total", TotalCRPS), (MIXED, ScoreMixture)],
)
def test_names_of_scores(score: str, expected: type, make_replica: MakeReplica) -> None:
    stack = ReplicaStack([make_replica(outcomes=3)], settings_of(score, score_estimator="biased"), CPU)
    found = stack.objective(None).score
    assert isinstance(found, expected)
    for part in found.parts if isinstance(found, ScoreMixture) else [found]:
        assert part.estimator == "biased"


@every_kind
def test_parts_of_a_mixture_are_divided_by_what_climatology_scores(kind: str, make_replica: MakeReplica) -> None:
    replicas = [
        make_replica(kind, cost=ImbalanceCost(1.0 + row, 2.0, 0.0, 5.0), seed=row, outcomes=3, dtype=torch.float64)
        for row in range(2)
    ]
    stack = ReplicaStack(replicas, settings_of(MIXED), CPU, together=True)
    (draw,) = stack.draws(stack.initial_parameters(), stack.train, 4, "climatology")
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


@pytest.mark.parametrize(
    ("kind", "score"), [("implicit", "pointwise"), ("implicit", "total"), ("implicit", MIXED), ("diffusion", MIXED)]
)
def test_a_stack_equals_its_runs_one_by_one(score: str, kind: str, make_replica: MakeReplica) -> None:
    replicas = different(make_replica, kind)
    for found, each in zip(train(replicas, settings_of(score)), replicas, strict=True):
        (alone,) = train([each], settings_of(score))
        assert (found.status, found.best_loss) == ("finished", alone.best_loss)
        assert torch.equal(weights_of(found), weights_of(alone))


@pytest.mark.parametrize("score", SCORES)
def test_together_equals_in_turns(score: str, make_replica: MakeReplica) -> None:
    replicas = different(make_replica, dtype=torch.float64)
    turns, together = (ReplicaStack(replicas, settings_of(score), CPU, way) for way in (False, True))
    rows = turns.initial_parameters()
    found, expected = (validate(stack, rows, rows.new_ones(3, 2)) for stack in (together, turns))
    for name, values in expected.items():
        torch.testing.assert_close(found[name], values, rtol=1e-10, atol=1e-12)


def test_every_score_trains_another_model(make_replica: MakeReplica) -> None:
    each = make_replica(outcomes=3)
    rows = [weights_of(train([each], settings_of(score))[0]) for score in ("energy", *SCORES)]
    assert len({tuple(row.tolist()) for row in rows}) == 4


def test_resumed_training_ends_with_the_same_bits(make_replica: MakeReplica, tmp_path: Path) -> None:
    replicas, settings = different(make_replica)[1:], settings_of(MIXED)
    whole = train(replicas, settings)
    for _ in range(3):  # one epoch at a time: within the pre-training, at its end, and after it
        with pytest.raises(InterruptedTraining):
            train(replicas, settings, checkpoints=tmp_path, stop=lambda: True)
    for one, other in zip(train(replicas, settings, checkpoints=tmp_path), whole, strict=True):
        assert torch.equal(weights_of(one), weights_of(other))


def test_the_total_alone_cannot_train_a_diffusion_model(make_replica: MakeReplica) -> None:
    with pytest.raises(SettingError, match=r"score total alone cannot train a diffusion model.*mix it, as in energy=1"):
        train([make_replica("diffusion", outcomes=3)], settings_of("total"))


@pytest.mark.parametrize("score", ["total", MIXED])
def test_a_cost_without_a_total_is_refused_before_any_epoch(score: str, make_replica: MakeReplica) -> None:
    with pytest.raises(SettingError, match=r"its total\(outcome\), for the CRPS of it; ProtectionCost has none"):
        train([make_replica(cost=ProtectionCost(0.5, 0.5))], settings_of(score), stop=lambda: pytest.fail("an epoch"))


@pytest.mark.parametrize(("score", "expected"), [("energy", [0, 0, 0]), ("total", [0, 1, 0]), (MIXED, [0, 1, 0])])
def test_replicas_share_a_pretraining_where_the_score_is_the_same(
    score: str, expected: list[int], make_replica: MakeReplica
) -> None:
    costs: list[Cost] = [ShortfallCost(3.0), ShortfallCost(9.0), ShortfallCost(3.0)]
    replicas = [make_replica(cost=cost, weight=weight) for cost, weight in zip(costs, (0.0, 0.5, 0.9), strict=True)]
    stack = ReplicaStack(replicas, settings_of(score), CPU)
    assert leaders(stack, stack.initial_parameters()) == expected


def test_at_weight_zero_the_cost_matters_where_the_score_looks_at_its_total() -> None:
    for score, count in (("energy", 1), ("pointwise", 1), ("total", 2), (MIXED, 2)):
        runs = [RunSettings(WindTask(penalty=penalty), decision_weight=0.0, training=settings_of(score))
                for penalty in (3.0, 5.0)]  # fmt: skip
        assert len({run.name for run in runs}) == count


def test_another_score_is_another_run() -> None:
    assert replace(GOLDEN_RUN, training=replace(GOLDEN_RUN.training, score=MIXED)).name != GOLDEN_RUN.name
    assert from_plain(TrainingSettings, to_plain(settings_of(MIXED))) == settings_of(MIXED)
