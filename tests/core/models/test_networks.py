"""Networks and their scaling."""

from typing import Any

import pytest
import torch
from refusals import refuses
from torch.nn.functional import linear

from stakes.errors import NonFiniteError, SettingError, ShapeError
from stakes.models.networks import FiLMNetwork, Perceptron, _parts, linear_in_parts, sinusoidal_embedding
from stakes.models.sample_model import Scaling


@pytest.mark.parametrize("parts", [1, 2, 6])
@pytest.mark.parametrize("with_bias", [False, True])
def test_linear_map_in_parts_is_the_linear_map(parts: int, with_bias: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    inputs, weight, bias = (
        torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True)
        for shape in ((4, 3, 5), (7, 5), (7,))
    )
    chosen = bias if with_bias else None
    in_parts, expected = linear_in_parts(inputs, weight, chosen, parts), linear(inputs, weight, chosen)
    torch.testing.assert_close(in_parts, expected)
    leaves = (inputs, weight, bias) if with_bias else (inputs, weight)
    pull = torch.randn(expected.shape, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(
        torch.autograd.grad((in_parts * pull).sum(), leaves), torch.autograd.grad((expected * pull).sum(), leaves)
    )


@pytest.mark.parametrize("rows", [1, 1023, 2000, 2560, 10_240, 10_007, 4 * 1031])
def test_parts_are_equal_and_large(rows: int) -> None:
    parts = _parts(rows)
    assert rows % parts == 0
    assert parts == 1 or rows // parts >= 1024


def test_film_network_modulates_every_layer_by_condition_and_noise() -> None:
    torch.manual_seed(0)
    network = FiLMNetwork(inputs=2, outputs=3, condition=4, noise=5, hidden=6, layers=2).double()
    inputs, condition, noise = (torch.randn(shape).double() for shape in ((7, 8, 2), (7, 4), (7, 8, 5)))
    joint = torch.cat([condition[:, None].expand(7, 8, 4), noise], -1)
    modulation = linear(joint, network.modulation.weight, network.modulation.bias)
    state = inputs
    for place, layer in enumerate(network.hidden):
        gamma, beta = modulation[..., 12 * place : 12 * (place + 1)].chunk(2, -1)
        state = torch.relu((1 + gamma) * linear(state, layer.weight, layer.bias) + beta)
    expected = linear(state, network.output.weight, network.output.bias)
    torch.testing.assert_close(network(inputs, condition, noise), expected)


def test_perceptron_is_linear_maps_with_relu_between() -> None:
    network = Perceptron(inputs=3, outputs=2, hidden=5, layers=2).double()
    inputs = torch.randn(7, 4, 3, dtype=torch.float64)
    state = inputs
    first, _, second, _, last = network.layers
    for layer in (first, second):
        state = torch.relu(linear(state, layer.weight, layer.bias))
    torch.testing.assert_close(network(inputs), linear(state, last.weight, last.bias))
    assert network.widest == 5


def test_time_embedding_holds_sines_and_cosines_of_rising_frequency() -> None:
    time = torch.tensor([0.0, 0.37], dtype=torch.float64)
    embedded = sinusoidal_embedding(time, 6)
    angles = time[:, None] * torch.tensor([1.0, 1000**0.5, 1000.0], dtype=torch.float64)
    torch.testing.assert_close(embedded, torch.cat([angles.sin(), angles.cos()], -1))


def fitted(values: torch.Tensor) -> Scaling:
    scaling = Scaling(values.shape[1]).to(values.dtype)
    scaling.fit(values)
    return scaling


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_standardised_values_have_mean_zero_and_deviation_one(dtype: torch.dtype) -> None:
    values = (torch.randn(500, 3, generator=torch.Generator().manual_seed(0)) * 20 + 280).to(dtype)
    standardised = fitted(values).standardise(values)
    tolerance = 1e-4 if dtype == torch.float32 else 1e-12
    torch.testing.assert_close(standardised.mean(0), torch.zeros(3, dtype=dtype), rtol=0.0, atol=tolerance)
    torch.testing.assert_close(standardised.std(0, correction=0), torch.ones(3, dtype=dtype), rtol=tolerance, atol=0.0)


def test_restored_values_are_the_values() -> None:
    values = torch.rand(50, 2, dtype=torch.float64) * torch.tensor([1e5, 1e-3], dtype=torch.float64)
    scaling = fitted(values)
    torch.testing.assert_close(scaling.restore(scaling.standardise(values)), values, rtol=1e-12, atol=0.0)
    members = values.expand(4, 3, 50, 2)
    torch.testing.assert_close(scaling.restore(scaling.standardise(members)), members, rtol=1e-12, atol=0.0)


def test_what_cannot_be_scaled_is_named() -> None:
    for values in (torch.rand(5), torch.rand(5, 3), torch.rand(0, 2), torch.rand(2, 5, 2)):
        refuses(ShapeError, "scaling", Scaling(2).fit, values)
    for bad in (torch.nan, torch.inf):
        refuses(NonFiniteError, "scaling", Scaling(2).fit, torch.tensor([[0.0, 1.0], [bad, 1.0]]))
    widths: tuple[Any, ...] = (0, -1, 1.5, None)
    for width in widths:
        refuses(SettingError, "width", Scaling, width)
