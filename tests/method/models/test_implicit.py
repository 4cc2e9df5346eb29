"""The implicit model: what it computes, against the network written out; the template of all models tests the rest."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import linear

from stakes import ImplicitModel
from stakes.errors import SettingError

DOUBLE = torch.float64


def fitted(features: int = 3, outcomes: int = 2, **settings: Any) -> ImplicitModel:
    torch.manual_seed(0)
    model = ImplicitModel(features, outcomes, **({"noise": 4, "hidden": 6, "layers": 2} | settings)).double()
    generator = torch.Generator().manual_seed(1)
    table = torch.randn(200, features + outcomes, generator=generator, dtype=DOUBLE) * 5 + 100
    model.fit_scaling(table[:, :features], table[:, features:])
    return model


def by_hand(model: ImplicitModel, features: Tensor, noise: Tensor) -> Tensor:
    """Standardised members, one case and one member at a time."""
    inputs = (features - model.feature_scaling.mean) / model.feature_scaling.scale
    members = torch.empty(*noise.shape[:-1], len(model.outcome_scaling.mean), dtype=DOUBLE)
    for case in range(noise.shape[0]):
        for member in range(noise.shape[1]):
            state = torch.cat([inputs[case], noise[case, member]])
            *hidden, last = [layer for layer in model.network.layers if hasattr(layer, "weight")]
            for layer in hidden:
                state = torch.relu(linear(state, layer.weight, layer.bias))
            members[case, member] = linear(state, last.weight, last.bias)
    return members


def test_a_member_is_the_network_of_features_and_its_noise() -> None:
    model = fitted()
    features, noise = 100 + torch.randn(5, 3, dtype=DOUBLE), torch.randn(5, 7, 4, dtype=DOUBLE)
    torch.testing.assert_close(model(features, noise), by_hand(model, features, noise))


def test_training_draw_shows_the_score_standardised_and_the_decision_physical_members() -> None:
    model = fitted()
    features, outcome = 100 + torch.randn(5, 3, dtype=DOUBLE), 100 + torch.randn(5, 2, dtype=DOUBLE)
    noise = model.draw_noise(5, 7, torch.Generator().manual_seed(0))
    draw = model.training_draw(features, outcome, noise)
    standardised = by_hand(model, features, noise["members"])
    scaling = model.outcome_scaling
    torch.testing.assert_close(draw.score_members, standardised)
    torch.testing.assert_close(draw.score_outcome, (outcome - scaling.mean) / scaling.scale)
    torch.testing.assert_close(draw.decision_members, standardised * scaling.scale + scaling.mean)
    assert torch.equal(draw.decision_outcome, outcome)
    assert torch.equal(draw.decision_term_weight, torch.ones(5, dtype=DOUBLE))


def test_samples_are_the_members_of_the_noise_that_was_drawn() -> None:
    model = fitted()
    features = 100 + torch.randn(5, 3, dtype=DOUBLE)
    noise = model.draw_noise(5, 7, torch.Generator().manual_seed(3))["members"]
    samples = model.sample(features, 7, torch.Generator().manual_seed(3))
    torch.testing.assert_close(samples, model.outcome_scaling.restore(by_hand(model, features, noise)))
    assert not samples.requires_grad


def test_noise_is_drawn_by_name_and_from_the_generator() -> None:
    model = fitted()
    noise = model.draw_noise(5, 7, torch.Generator().manual_seed(0))
    assert {name: tuple(values.shape) for name, values in noise.items()} == {"members": (5, 7, 4)}
    assert torch.equal(noise["members"], model.draw_noise(5, 7, torch.Generator().manual_seed(0))["members"])
    assert noise["members"].dtype == DOUBLE


@pytest.mark.parametrize("budget", [1, 10_000, None])
def test_chunks_of_cases_with_shared_noise_give_the_same_members(budget: int | None) -> None:
    model = fitted()
    features = 100 + torch.randn(9, 3, dtype=DOUBLE)
    whole, chunked = (
        model.sample(features, 50, torch.Generator().manual_seed(0), share_noise=True, memory_budget=memory)
        for memory in (1 << 30, budget)
    )
    torch.testing.assert_close(chunked, whole)


def test_the_paper_has_five_layers_of_fifty() -> None:
    linears = [layer for layer in ImplicitModel(3, 2).network.layers if hasattr(layer, "weight")]
    assert [tuple(layer.weight.shape) for layer in linears] == [(50, 11), *[(50, 50)] * 4, (2, 50)]


@pytest.mark.parametrize("name", ["features", "outcomes", "noise", "hidden", "layers"])
def test_bad_sizes_are_named(name: str) -> None:
    with pytest.raises(SettingError, match=f"{name} must be a whole number of at least 1"):
        ImplicitModel(**({"features": 1, "outcomes": 1} | {name: 0}))
