"""The sum of distances between members, against all pairs in float64, in every way it is computed."""

import hypothesis
import pytest
import torch
from example_counts import examples
from hypothesis import strategies
from torch import Tensor

from stakes.scores import scoring_rules as pair_distances
from stakes.scores.scoring_rules import pair_distance_sum

DOUBLE = torch.float64
RTOL = {torch.float32: 1e-5, DOUBLE: 1e-12}
every_dtype = pytest.mark.parametrize("dtype", RTOL, ids=str)
every_width = pytest.mark.parametrize("sites", [1, 2, 5])
LAYOUTS = {"cases first": torch.rand(400, 50, 2), "members first": torch.rand(50, 400, 2).transpose(0, 1)}


@pytest.fixture(params=["all pairs", "sorted"])
def way_to_rank(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways of ranking members, whichever their number would choose."""
    monkeypatch.setattr(pair_distances, "_FEW_PAIRS", 1 << 40 if request.param == "all pairs" else 0)


def draw(*shape: int, dtype: torch.dtype = DOUBLE) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=dtype)


def all_pairs(samples: Tensor) -> tuple[Tensor, Tensor]:
    """The sum and its gradient in float64, tied members pushing each other nowhere."""
    exact = samples.detach().double()
    gaps = exact[..., :, None, :] - exact[..., None, :, :]
    distance = gaps.norm(dim=-1)
    unit = torch.where(distance[..., None] > 0, gaps / distance[..., None].clamp(min=1e-300), 0.0)
    return distance.sum((-2, -1)) / 2, unit.sum(-2)


@pytest.mark.usefixtures("way_to_rank")
@every_dtype
@every_width
@pytest.mark.parametrize("members", [1, 2, 7, 60])
def test_sum_and_gradient_equal_all_pairs(members: int, sites: int, dtype: torch.dtype) -> None:
    samples = draw(3, 2, members, sites, dtype=dtype).requires_grad_()
    expected, expected_gradient = all_pairs(samples)
    total = pair_distance_sum(samples)
    assert (total.shape, total.dtype) == ((3, 2), dtype)
    torch.testing.assert_close(total.double(), expected, rtol=RTOL[dtype], atol=RTOL[dtype])
    (gradient,) = torch.autograd.grad(total.sum(), samples)
    torch.testing.assert_close(gradient.double(), expected_gradient, rtol=10 * RTOL[dtype], atol=10 * RTOL[dtype])


@every_width
def test_near_ties_far_from_zero_keep_their_digits(sites: int) -> None:
    """Physical units: members of a pressure in Pa that differ by a fraction of one."""
    samples = (101_325 + 0.25 * draw(3, 20, sites).round()).float()
    expected, _ = all_pairs(samples)
    for with_gradient in (False, True):
        with torch.set_grad_enabled(with_gradient):
            torch.testing.assert_close(pair_distance_sum(samples).double(), expected, rtol=1e-5, atol=0.0)


@pytest.mark.usefixtures("way_to_rank")
@every_width
def test_tied_members_push_each_other_nowhere(sites: int) -> None:
    samples = torch.full((2, 6, sites), 3.7, dtype=DOUBLE, requires_grad=True)
    total = pair_distance_sum(samples)
    assert torch.equal(total, torch.zeros(2, dtype=DOUBLE))
    assert torch.equal(torch.autograd.grad(total.sum(), samples)[0], torch.zeros_like(samples))


@every_width
def test_sum_does_not_depend_on_the_order_of_members_or_on_where_they_lie(sites: int) -> None:
    samples = draw(3, 20, sites)
    total = pair_distance_sum(samples)
    torch.testing.assert_close(pair_distance_sum(samples.flip(-2)), total)
    torch.testing.assert_close(pair_distance_sum(samples + 3.5), total)
    torch.testing.assert_close(pair_distance_sum(-2 * samples), 2 * total)


@every_width
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_sum_and_gradient_under_vmap(sites: int, axis: int) -> None:
    samples = draw(3, 2, 9, sites)
    expected, expected_gradient = all_pairs(samples)
    moved = torch.func.vmap(pair_distance_sum, in_dims=axis)(samples.movedim(0, axis))
    torch.testing.assert_close(moved, expected)
    gradient = torch.func.vmap(torch.func.grad(lambda each: pair_distance_sum(each).sum()))(samples)
    torch.testing.assert_close(gradient, expected_gradient)


@pytest.mark.parametrize("pairs_at_once", [1, 30, 200])
def test_parts_add_up_to_the_whole(pairs_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = draw(4, 11, 3).requires_grad_()
    expected, expected_gradient = all_pairs(samples)
    monkeypatch.setattr(pair_distances, "_PAIRS_AT_ONCE", pairs_at_once)
    total = pair_distance_sum(samples)
    torch.testing.assert_close(total, expected)
    torch.testing.assert_close(torch.autograd.grad(total.sum(), samples)[0], expected_gradient)
    with torch.no_grad():
        torch.testing.assert_close(pair_distance_sum(samples.float()), expected.float(), rtol=1e-5, atol=0.0)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_operator_keeps_its_contract(layout: str) -> None:
    operator = torch.ops.stakes.pair_distances.default
    torch.library.opcheck(operator, (LAYOUTS[layout],), test_utils=("test_schema", "test_faketensor"))


@examples(60)
@hypothesis.given(strategies.lists(strategies.floats(-1e6, 1e6, width=32), min_size=1, max_size=12))
def test_one_site_equals_the_sum_of_absolute_differences(values: list[float]) -> None:
    total = pair_distance_sum(torch.tensor(values, dtype=DOUBLE)[:, None])
    expected = sum(abs(first - second) for place, first in enumerate(values) for second in values[:place])
    assert total.item() == pytest.approx(expected, rel=1e-9, abs=1e-6)
