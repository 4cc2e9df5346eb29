"""Models around a location: what they are trained on, and what they add it to."""

import pickle
from typing import Any

import pytest
import torch
from observed_training import QUICK, MakeReplica
from torch import Tensor

from stakes import DiffusionModel, ImplicitModel, SampleModel
from stakes.data.case_table import CaseTable
from stakes.models.residual_model import LocatedFactory, ResidualModel
from stakes.training.settings import ImplicitSettings
from stakes.training.trainer import train

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


def test_the_factory_can_be_sent_to_other_processes() -> None:
    factory = pickle.loads(pickle.dumps(LocatedFactory(ImplicitSettings(2, 4, 1).build)))
    model = factory(5, 2)
    assert model.sample(torch.randn(3, 5), 4).shape == (3, 4, 2)
