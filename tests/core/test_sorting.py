"""Sorted members and their ranks: the same by every way, for every layout, type and tie."""

import hypothesis
import numpy as np
import pytest
import torch
from example_counts import examples
from hypothesis import strategies
from torch import Tensor

from stakes import ShortfallCost, energy_score, optimal_action
from stakes.costs import member_weights as sorting
from stakes.costs.member_weights import rank_balance, sort_members

LAYOUTS = {"cases first": torch.rand(400, 50), "members first": torch.rand(50, 400).T}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["sort_members", "rank_balance"])
def test_operators_keep_their_contracts(name: str, layout: str) -> None:
    operator = getattr(torch.ops.stakes, name).default
    torch.library.opcheck(operator, (LAYOUTS[layout],), test_utils=("test_schema", "test_faketensor"))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_compiled_actions_and_scores_do_not_depend_on_the_layout(layout: str) -> None:
    members = LAYOUTS[layout][..., None]
    outcome = torch.zeros(len(members), 1)

    def both(samples: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return optimal_action(ShortfallCost(5.0), samples), energy_score(samples, outcome)

    compiled = torch.compile(both, backend="aot_eager", fullgraph=True)(members)
    torch.testing.assert_close(compiled, both(members.contiguous()))


def test_sorted_members_rise_and_ranks_count_neighbours() -> None:
    values = torch.tensor([[3.0, 1.0, 2.0, 1.0], [0.0, -0.0, 5.0, -1.0]]).repeat(2000, 1)
    assert (sort_members(values).diff(dim=-1) >= 0).all()
    expected = torch.tensor([[3.0, -2.0, 1.0, -2.0], [0.0, 0.0, 3.0, -3.0]]).repeat(2000, 1)
    assert torch.equal(rank_balance(values), expected)


def balance_by_pairs(values: Tensor) -> Tensor:
    return torch.sign(values[..., :, None] - values[..., None, :]).sum(-1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(5,), (3, 7), (2, 0, 4), (90, 60), (2, 3, 1000)])
def test_order_and_ranks_of_every_shape(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    values = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)
    assert torch.equal(sort_members(values), torch.sort(values, dim=-1).values)
    assert torch.equal(rank_balance(values), balance_by_pairs(values))
    rounded = (4 * values).round()  # many ties
    assert torch.equal(rank_balance(rounded), balance_by_pairs(rounded))


@examples(80)
@hypothesis.given(
    strategies.lists(
        strategies.one_of(
            strategies.floats(width=32, allow_nan=False, allow_infinity=False),
            strategies.sampled_from([0.0, -0.0, 1.0, float(np.nextafter(np.float32(1), np.float32(2))), 1e-45]),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_ranks_of_neighbouring_floats_and_ties(values: list[float]) -> None:
    members = torch.tensor(values, dtype=torch.float32)
    exact = members.double()
    assert torch.equal(rank_balance(members).double(), balance_by_pairs(exact))


def test_ranks_sum_to_zero_and_follow_the_members() -> None:
    values = torch.randn(4, 33)
    balance = rank_balance(values)
    assert torch.equal(balance.sum(-1), torch.zeros(4))
    order = torch.randperm(33)
    assert torch.equal(rank_balance(values[:, order]), balance[:, order])


def test_parts_are_ranked_like_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    values = torch.randn(50, 9)
    whole = rank_balance(values)
    monkeypatch.setattr(sorting, "_AT_ONCE", 20)
    assert torch.equal(rank_balance(values), whole)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_order_and_ranks_under_vmap(axis: int) -> None:
    values = torch.randn(5, 6, 200)
    for function in (sort_members, rank_balance):
        moved = torch.func.vmap(function, in_dims=axis)(values.movedim(0, axis))
        assert torch.equal(moved, function(values))


def test_neither_has_a_gradient() -> None:
    values = torch.randn(3, 5, requires_grad=True)
    assert not sort_members(values).requires_grad
    assert not rank_balance(values).requires_grad
