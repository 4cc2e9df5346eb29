"""The rivals of the decision's cost beside the score: the CRPS of the total and the variogram score."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from stakes import DecisionScore, EnergyScore, ImbalanceCost, ProtectionCost, ShortfallCost, TotalCRPS, VariogramScore
from stakes.errors import SettingError
from stakes.training.replicas import Replica, ReplicaStack
from stakes.training.settings import TrainingSettings
from stakes.training.steps import Stepper
from stakes.training.trainer import estimate_scales, train, validate

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


def mean_loss(stack: ReplicaStack, parameters: Tensor) -> Tensor:
    (draw,) = stack.draws(parameters, stack.train, 4, "here")
    scales = torch.tensor([[0.7, 0.2], [0.4, 3.0]], dtype=parameters.dtype)
    return stack.objective(scales)(draw).total.mean()


@every_kind
@every_rival
def test_the_loss_by_hand(companion: str, kind: str, make_replica: MakeReplica) -> None:
    """In physical units, and times the weight that the model gives the decision's term."""
    stack = stack_of(make_replica, kind, companion)
    (draw,) = stack.draws(stack.initial_parameters(), stack.train, 4, "here")
    members, outcome = draw.decision_members, draw.decision_outcome
    if companion == "variogram":
        rival = VariogramScore()(members, outcome)
    else:
        rival = EnergyScore()(members.sum(-1, keepdim=True), outcome.sum(-1, keepdim=True))
    rival = rival * draw.decision_term_weight
    score = EnergyScore()(draw.score_members, draw.score_outcome)
    expected = 0.6 * score / torch.tensor([[0.7], [0.4]]) + 0.4 * rival / torch.tensor([[0.2], [3.0]])
    torch.testing.assert_close(mean_loss(stack, stack.initial_parameters()), expected.mean(), rtol=1e-6, atol=0)
    assert not torch.allclose(draw.score_members, members), "or units would not matter"


@every_kind
@every_rival
def test_the_gradient_equals_finite_differences(companion: str, kind: str, make_replica: MakeReplica) -> None:
    stack = stack_of(make_replica, kind, companion)
    parameters = stack.initial_parameters().requires_grad_()
    (gradient,) = torch.autograd.grad(mean_loss(stack, parameters), parameters)
    generator = torch.Generator().manual_seed(0)
    for _ in range(3):
        direction = torch.randn(gradient.shape, generator=generator, dtype=gradient.dtype)
        step = 1e-7 * direction
        with torch.no_grad():
            slope = (mean_loss(stack, parameters + step) - mean_loss(stack, parameters - step)) / 2e-7
        assert slope.item() == pytest.approx((gradient * direction).sum().item(), rel=1e-4)


@every_kind
@every_rival
def test_a_stack_equals_its_runs_one_by_one(companion: str, kind: str, make_replica: MakeReplica) -> None:
    replicas = [
        make_replica(kind, cost=ShortfallCost(penalty), weight=weight, seed=seed, outcomes=3)
        for penalty, weight, seed in [(3.0, 0.3, 0), (9.0, 0.8, 0), (3.0, 0.3, 1)]
    ]
    used = settings_of(companion)
    for found, each in zip(train(replicas, used), replicas, strict=True):
        (alone,) = train([each], used)
        assert (found.status, found.best_loss) == ("finished", alone.best_loss)
        assert all(torch.equal(values, alone.weights[name]) for name, values in found.weights.items())


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
    (draw,) = stack.draws(rows, stack.train, 4, "scales")
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


def test_the_decision_keeps_its_estimator(make_replica: MakeReplica) -> None:
    objective = stack_of(make_replica, "implicit", "decision", decision_estimator="debiased").objective(None)
    assert isinstance(objective.decision, DecisionScore)
    assert objective.decision.estimator == "debiased"


def test_the_total_keeps_the_estimator_of_the_score(make_replica: MakeReplica) -> None:
    objective = stack_of(make_replica, "implicit", "crps_of_total", score_estimator="biased").objective(None)
    assert isinstance(objective.decision, TotalCRPS)
    assert objective.decision.estimator == "biased"


class BrokenTotal(ShortfallCost):
    def total(self, outcome: Tensor) -> Tensor:
        return super().total(outcome) * torch.nan


def test_a_companion_that_is_not_finite_is_named(make_replica: MakeReplica) -> None:
    stack = ReplicaStack([make_replica(cost=BrokenTotal(3.0))], settings_of("crps_of_total"), CPU)
    stepper = Stepper(stack, stack.initial_parameters(), torch.ones(1, 2))
    stepper.epoch("training", 1, 0.01)
    assert stepper.troubles()[0].term == "CRPS of the total"


@pytest.mark.parametrize("pretraining", [0, 2])
def test_companions_that_cannot_be_are_refused_before_any_epoch(pretraining: int, make_replica: MakeReplica) -> None:
    seen: list[bool] = []

    def stop() -> bool:
        seen.append(True)
        return False

    used = settings_of("crps_of_total", pretraining_epochs=pretraining)
    with pytest.raises(SettingError, match=r"its total\(outcome\), for the CRPS of it; ProtectionCost has none"):
        train([make_replica(cost=ProtectionCost(0.5, 0.5))], used, stop=stop)
    with pytest.raises(SettingError, match="companion variogram needs at least two sites, the cases have 1"):
        train([make_replica()], replace(used, companion="variogram"), stop=stop)
    assert not seen
