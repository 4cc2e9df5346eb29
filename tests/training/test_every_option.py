"""What holds whatever a stack is trained with: no replica notices another, and an interruption changes nothing."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from observed_training import CPU, MakeReplica, assert_same
from refusals import refuses

from stakes import ImbalanceCost, ShortfallCost
from stakes.errors import InterruptedTraining
from stakes.training.progress import Trained
from stakes.training.replicas import ReplicaStack
from stakes.training.settings import TrainingSettings
from stakes.training.trainer import estimate_scales, train, validate

DOUBLE = torch.float64
OPTIONS: dict[str, dict[str, Any]] = {
    "CRPS of the total beside it": {"companion": "crps_of_total"},
    "variogram beside it": {"companion": "variogram"},
    "pointwise": {"score": "pointwise"},
    "total": {"score": "total"},
    "mixed": {"score": "energy=1,total=0.5"},
    "more members decide": {"decision_member_count": 9},
    "no pretraining": {"pretraining_epochs": 0, "weight_decay": 0.1},
}
PAIRS = [("implicit", option) for option in OPTIONS]
PAIRS += [("diffusion", option) for option in OPTIONS if option not in ("pointwise", "total", "no pretraining")]
PAIRS += [(kind, option) for kind in ("own", "linear start") for option in ("more members decide", "no pretraining")]
RANGED = [("conditioned", "pointwise"), ("blind to its range", "pointwise")]
RESUMED = [("implicit", "mixed"), ("implicit", "variogram beside it"), ("diffusion", "more members decide")]
RESUMED += [("own", "no pretraining"), ("linear start", "no pretraining"), *RANGED]
PLACES = [(5.0, 0.0, 0), (9.0, 0.6, 0), (9.0, 0.3, 1)]  # penalty, weight and seed
every_option = pytest.mark.parametrize(("kind", "option"), [*PAIRS, *RANGED])


def settings_of(option: str) -> TrainingSettings:
    usual = {"epochs": 2, "pretraining_epochs": 1, "batch": 24, "members": 4, "validation_members": 6}
    return TrainingSettings(**usual | {"validate_every": 1, "learning_rate": 0.01} | OPTIONS[option])


@pytest.fixture
def whole(kind: str, option: str, make_replica: MakeReplica, make_ranged: MakeReplica) -> list[Trained]:
    """Three replicas that differ in weight, seed and cost, or belong to one range of decision makers, trained."""
    return _whole(kind, option, make_replica, make_ranged)


@cache
def _whole(kind: str, option: str, make_replica: MakeReplica, make_ranged: MakeReplica) -> list[Trained]:
    if kind in dict(RANGED):
        replicas = [make_ranged(kind == "conditioned", seed, weight) for _, weight, seed in PLACES]
    else:
        replicas = [
            make_replica(kind, cost=ShortfallCost(penalty), weight=weight, seed=seed, outcomes=3)
            for penalty, weight, seed in PLACES
        ]
    return train(replicas, settings_of(option))


@every_option
def test_a_stack_equals_its_runs_one_by_one(whole: list[Trained], option: str) -> None:
    for found in whole:
        assert found.status == "finished"
        assert_same(found, train([found.replica], settings_of(option))[0])


@pytest.mark.parametrize(("kind", "option"), PAIRS)
def test_together_equals_in_turns(kind: str, option: str, make_replica: MakeReplica, make_cases: Any) -> None:
    replicas = [
        make_replica(
            kind,
            cost=ImbalanceCost(1.0 + row, 2.0, 0.0, 5.0),
            seed=row,
            train=make_cases(seed=row, outcomes=3),
            validation=make_cases(24, 10 + row, 3),
            dtype=DOUBLE,
        )
        for row in range(2)
    ]
    turns, together = (ReplicaStack(replicas, settings_of(option), CPU, way) for way in (False, True))
    rows = turns.initial_parameters()
    scales = estimate_scales(turns, rows)
    torch.testing.assert_close(estimate_scales(together, rows), scales)
    found, expected = (validate(stack, rows, scales) for stack in (together, turns))
    for name, values in expected.items():
        torch.testing.assert_close(found[name], values, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("kind", "option"), RESUMED)
def test_resumed_training_ends_with_the_same_bits(whole: list[Trained], option: str, tmp_path: Path) -> None:
    settings, replicas = settings_of(option), [each.replica for each in whole]
    for _ in range(settings.pretraining_epochs + 1):  # an epoch at a time
        refuses(InterruptedTraining, "", train, replicas, settings, checkpoints=tmp_path, stop=lambda: True)
    for found, expected in zip(train(replicas, settings, checkpoints=tmp_path), whole, strict=True):
        assert_same(found, expected)
