"""What a cost is: the protocols, and what is refused."""

from typing import Any

import pytest
import torch
from torch import Tensor

from stakes import Cost, ShortfallCost
from stakes.costs.cost import ClosedFormCost, TotalCost, require_bounds, require_cost
from stakes.errors import CostError


def test_a_class_is_a_cost_by_its_shape_alone() -> None:
    class Plain:
        lower, upper = 0.0, 1.0

        def __call__(self, action: Tensor, outcome: Tensor) -> Tensor:
            return (action - outcome).squeeze(-1) ** 2

    require_cost(Plain())
    assert isinstance(Plain(), Cost)
    assert not isinstance(Plain(), ClosedFormCost | TotalCost)
    assert isinstance(ShortfallCost(5.0), TotalCost)


@pytest.mark.parametrize("thing", [None, 3.0, torch.sub, "shortfall"])
def test_what_cannot_serve_as_a_cost_is_refused(thing: Any) -> None:
    with pytest.raises(CostError, match="cost must have lower, upper and be callable"):
        require_cost(thing)


@pytest.mark.parametrize(
    ("lower", "upper"),
    [(0, 1), (-3.5, torch.tensor([0.0, 1.0])), (torch.tensor([[0.0], [1.0]]), torch.tensor([2.0, 3.0]))],
)
def test_ordered_bounds_pass(lower: Any, upper: Any) -> None:
    require_bounds(lower, upper)
