import pytest
import torch
from torch.nn.functional import linear

import stakes
from stakes.method.models.networks import FiLMNetwork, _parts, cases_at_once, linear_in_parts


@pytest.mark.parametrize("parts", [1, 2, 6])
@pytest.mark.parametrize("with_bias", [False, True])
def test_linear_map_in_parts_is_the_linear_map(parts: int, with_bias: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    inputs, weight, bias = (
        torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True)
        for shape in ((4, 3, 5), (7, 5), (7,))
    )
    chosen = bias if with_bias else None
    found, expected = linear_in_parts(inputs, weight, chosen, parts), linear(inputs, weight, chosen)
    torch.testing.assert_close(found, expected)
    leaves = (inputs, weight, bias) if with_bias else (inputs, weight)
    pull = torch.randn(expected.shape, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(
        torch.autograd.grad((found * pull).sum(), leaves), torch.autograd.grad((expected * pull).sum(), leaves)
    )


def test_linear_map_in_parts_of_a_stack() -> None:
    generator = torch.Generator().manual_seed(0)
    inputs, weight = torch.randn(3, 8, 5, generator=generator), torch.randn(3, 7, 5, generator=generator)
    found = torch.func.vmap(lambda x, w: linear_in_parts(x, w, parts=4))(inputs, weight)
    torch.testing.assert_close(found, inputs @ weight.mT)


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


def test_validation_noise_of_diffusion_spreads_the_levels_evenly() -> None:
    model = stakes.DiffusionModel(1, 1)
    first, second = (model.validation_noise(50, 3, torch.Generator().manual_seed(0)) for _ in range(2))
    assert torch.equal(first["time"], second["time"])
    torch.testing.assert_close(first["time"].sort().values, (torch.arange(50) + 0.5) / 50)
    assert not torch.equal(first["time"], first["time"].sort().values)


@pytest.mark.parametrize(("device", "budget"), [("cpu", 8 << 20), ("meta", 1 << 30)])
def test_chunks_fit_the_caches_of_a_cpu_and_fill_other_devices(device: str, budget: int) -> None:
    like = torch.zeros(1, device=device)
    by_default = cases_at_once(100, 500, like, None)
    assert by_default == cases_at_once(100, 500, like, budget)
    assert by_default * 3 * 100 * 500 * 4 <= budget < (by_default + 1) * 3 * 100 * 500 * 4


def test_chunk_holds_at_least_one_case() -> None:
    assert cases_at_once(100, 500, torch.zeros(1), 1) == 1
