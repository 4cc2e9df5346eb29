import pytest
import torch

from stakes import ShortfallCost, energy_score, optimal_action
from stakes.method.sorting import rank_balance, sort_members

LAYOUTS = {"cases first": torch.rand(400, 50), "members first": torch.rand(50, 400).T}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["sort_members", "rank_balance", "pair_distances"])
def test_operators_keep_their_contracts(name: str, layout: str) -> None:
    values = LAYOUTS[layout] if name != "pair_distances" else LAYOUTS[layout][:, :, None].expand(-1, -1, 2)
    operator = getattr(torch.ops.stakes, name).default
    torch.library.opcheck(operator, (values,), test_utils=("test_schema", "test_faketensor"))


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
