"""Training from a linear start, and the linear model, of which nothing is trained."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from observed_training import QUICK, MakeReplica, recorded
from torch import Tensor

from stakes import DiffusionModel, ImplicitModel, SampleModel
from stakes.data.case_table import CaseTable
from stakes.models.residual_model import ResidualModel
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


def test_replicas_of_one_seed_start_alike(make_replica: MakeReplica) -> None:
    (first, second), lines = recorded([make_replica("linear start", weight=weight) for weight in (0.0, 0.7)], USED)
    assert first.score_scale == second.score_scale
    assert lines.lines[0][0]["energy_score"] == lines.lines[1][0]["energy_score"]


@pytest.mark.parametrize("pretraining", [0, 2])
@pytest.mark.parametrize("together", [False, True])
def test_the_linear_model_is_validated_and_done(pretraining: int, together: bool, make_replica: MakeReplica) -> None:
    pair = [make_replica("linear", weight=weight, seed=seed) for weight, seed in ((0.3, 0), (0.9, 1))]
    for found in train(pair, replace(USED, pretraining_epochs=pretraining), together=together):
        assert (found.status, found.epoch, found.best_epoch, found.steps) == ("finished", 0, 0, 0)
        assert math.isfinite(found.best_loss)
        model = found.replica.model
        assert all(torch.equal(value, model.state_dict()[name]) for name, value in found.weights.items())


INNER = {
    "implicit": lambda: ImplicitModel(4, 2, 2, 6, 1, linear=True),
    "diffusion": lambda: DiffusionModel(4, 2, 2, 6, 1, steps=25),
}


def table(rows: int = 60) -> tuple[Tensor, Tensor]:
    """Two features and a location that is two, and outcomes beside it."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(rows, 4, generator=generator)
    features[:, 2:] *= 100
    return features, features[:, 2:] + features[:, :1] + 0.1 * torch.randn(rows, 2, generator=generator)


def located(kind: str) -> ResidualModel:
    torch.manual_seed(0)
    model = ResidualModel(INNER[kind](), 2)
    model.fit_scaling(*table())
    return model


@pytest.mark.parametrize("kind", INNER)
def test_members_are_those_of_the_model_beside_the_location(kind: str) -> None:
    model, (features, outcome) = located(kind), table()
    inner: Any = model.model
    assert isinstance(model, SampleModel)
    noise = model.validation_noise(60, 5, torch.Generator().manual_seed(1))
    draw, own = (
        each.training_draw(features, y, noise) for each, y in ((model, outcome), (inner, outcome - features[:, 2:]))
    )
    assert torch.equal(draw.score_members, own.score_members)
    assert torch.equal(draw.score_outcome, own.score_outcome)
    assert torch.equal(draw.decision_outcome, outcome)
    torch.testing.assert_close(draw.decision_members, own.decision_members + features[:, None, 2:])
    members = model.sample(features[:3], 4, torch.Generator().manual_seed(2), share_noise=True)
    expected = inner.sample(features[:3], 4, torch.Generator().manual_seed(2), share_noise=True)
    torch.testing.assert_close(members, expected + features[:3, None, 2:])
    assert inner.outcome_scaling.scale.max() < 2  # of what is left


def test_what_forecasts_the_location_is_asked_once_the_model_is_trained() -> None:
    model, (features, _) = located("implicit"), table()
    before = model.sample(features, 4, torch.Generator().manual_seed(0))
    model.location = lambda rows: 100 * rows
    features[:, 2:] = 100 * features[:, :2]
    expected = located("implicit").sample(features, 4, torch.Generator().manual_seed(0))
    assert torch.equal(model.sample(features[:, :2], 4, torch.Generator().manual_seed(0)), expected)
    assert before.shape == expected.shape


@pytest.mark.parametrize("together", [False, True])
def test_it_trains_in_a_stack(together: bool, make_replica: MakeReplica) -> None:
    cases = CaseTable(*table())
    replicas = [make_replica(located("implicit"), train=cases, validation=cases, seed=seed) for seed in (0, 1)]
    for found in train(replicas, QUICK, together=together):
        assert found.status == "finished"
        assert found.best_loss < 10
