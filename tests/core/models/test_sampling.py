"""The noise of members, shared or not, and the size of chunks."""

import pytest
import torch

from stakes.models.sample_model import cases_at_once, draw_normal, draw_shared


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_normal_noise_has_the_type_and_the_shape(dtype: torch.dtype) -> None:
    like = torch.zeros(1, dtype=dtype)
    drawn = draw_normal(like, 3, 4, 5, generator=seeded())
    assert (drawn.shape, drawn.dtype) == ((3, 4, 5), dtype)
    assert torch.equal(drawn, draw_normal(like, 3, 4, 5, generator=seeded()))
    assert not torch.equal(drawn, draw_normal(like, 3, 4, 5, generator=torch.Generator().manual_seed(1)))


@pytest.mark.parametrize(("members", "width"), [(8, 2), (40, 8), (501, 3)])
def test_shared_noise_of_enough_members_has_mean_zero_and_covariance_one(members: int, width: int) -> None:
    noise = draw_shared(torch.zeros(1, dtype=torch.float64), members, width, seeded())
    assert noise.shape == (1, members, width)
    torch.testing.assert_close(noise.mean(1), torch.zeros(1, width, dtype=torch.float64), rtol=0.0, atol=1e-12)
    covariance = noise[0].T @ noise[0] / members
    torch.testing.assert_close(covariance, torch.eye(width, dtype=torch.float64), rtol=0.0, atol=1e-10)


def test_shared_noise_of_few_members_is_left_as_drawn() -> None:
    like = torch.zeros(1)
    assert torch.equal(draw_shared(like, 7, 2, seeded()), draw_normal(like, 1, 7, 2, generator=seeded()))


def test_balancing_is_a_linear_map_of_the_draw() -> None:
    """The members keep their shape: no member is moved towards another one."""
    like = torch.zeros(1, dtype=torch.float64)
    drawn = draw_normal(like, 1, 20, 2, generator=seeded())[0]
    balanced = draw_shared(like, 20, 2, seeded())[0]
    centred = drawn - drawn.mean(0)
    mixing = torch.linalg.lstsq(centred, balanced).solution
    torch.testing.assert_close(centred @ mixing, balanced, rtol=0.0, atol=1e-12)


@pytest.mark.parametrize(("device", "budget"), [("cpu", 8 << 20), ("meta", 1 << 30)])
def test_chunks_fit_the_caches_of_a_cpu_and_fill_other_devices(device: str, budget: int) -> None:
    like = torch.zeros(1, device=device)
    by_default = cases_at_once(100, 500, like, None)
    assert by_default == cases_at_once(100, 500, like, budget)
    assert by_default * 3 * 100 * 500 * 4 <= budget < (by_default + 1) * 3 * 100 * 500 * 4


def test_chunk_holds_at_least_one_case() -> None:
    assert cases_at_once(100, 500, torch.zeros(1), 1) == 1
