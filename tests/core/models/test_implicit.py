"""The implicit model: what it computes, against the network written out; the template of all models tests the rest."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import linear

from stakes import ImplicitModel, energy_score

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
    features, outcome = 100 + torch.randn(5, 3, dtype=DOUBLE), 100 + torch.randn(5, 2, dtype=DOUBLE)
    noise = model.draw_noise(5, 7, torch.Generator().manual_seed(0))
    standardised, scaling = by_hand(model, features, noise["members"]), model.outcome_scaling
    members = standardised * scaling.scale + scaling.mean
    draw = model.training_draw(features, outcome, noise)
    torch.testing.assert_close(draw.score_members, standardised)
    torch.testing.assert_close(draw.score_outcome, (outcome - scaling.mean) / scaling.scale)
    torch.testing.assert_close(draw.decision_members, members)
    assert torch.equal(draw.decision_term_weight, torch.ones(5, dtype=DOUBLE))
    torch.testing.assert_close(model.sample(features, 7, torch.Generator().manual_seed(0)), members)


# The linear part


def with_linear(outcomes: int = 2, **settings: Any) -> ImplicitModel:
    return fitted(outcomes=outcomes, linear=True, gap=2, **settings)


@pytest.mark.parametrize("outcomes", [2, 70])
def test_before_training_the_members_are_those_of_the_linear_part(outcomes: int) -> None:
    model = with_linear(outcomes)
    assert model.linear is not None
    features = 100 + torch.randn(5, 3, dtype=DOUBLE)
    noise = model.draw_noise(5, 7)["members"]
    assert noise.shape == (5, 7, 4 + model.linear.noise)
    expected = model.linear(model.feature_scaling.standardise(features), noise[..., 4:])
    assert torch.equal(model(features, noise), expected)
    assert model.linear.weight.abs().max() > 0


@pytest.mark.parametrize("outcomes", [2, 70])
def test_the_network_is_added_and_sees_the_noise_of_the_factors(outcomes: int) -> None:
    model = with_linear(outcomes)
    assert model.linear is not None
    torch.nn.init.normal_(model.network.layers[-1].weight)
    features = 100 + torch.randn(5, 3, dtype=DOUBLE)
    noise = model.draw_noise(5, 7)["members"]
    standardised = model.feature_scaling.standardise(features)
    seen = noise[..., : 4 + min(outcomes, 64 if outcomes <= 64 else 32)]
    network = model.network(torch.cat([standardised[:, None].expand(-1, 7, -1), seen], -1))
    torch.testing.assert_close(model(features, noise), model.linear(standardised, noise[..., 4:]) + network)


def test_training_bends_the_line() -> None:
    generator = torch.Generator().manual_seed(0)
    x = 4 * torch.rand(400, 1, generator=generator, dtype=DOUBLE)
    y = x.square() + 0.2 * x * torch.randn(400, 1, generator=generator, dtype=DOUBLE)
    torch.manual_seed(0)
    model = ImplicitModel(1, 1, 2, 16, 2, linear=True).double()
    model.fit_scaling(x, y)
    optimiser = torch.optim.AdamW(model.parameters(), 0.01, weight_decay=0.1)

    def score() -> Tensor:
        draw = model.training_draw(x, y, model.draw_noise(400, 10, generator))
        return energy_score(draw.score_members, draw.score_outcome).mean()

    before = score().item()
    for _ in range(60):
        optimiser.zero_grad()
        score().backward()
        optimiser.step()
    assert score().item() < 0.7 * before
