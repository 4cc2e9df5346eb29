"""A function of action and outcome as a cost, and what is refused."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from stakes import Cost, cost_function, optimal_action, solve_action
from stakes.costs.cost import ClosedFormCost
from stakes.errors import CostError, ShapeError


def test_cost_function_drops_the_last_axis_for_one_outcome() -> None:
    seen: list[tuple[int, ...]] = []

    def squared(action: Tensor, outcome: Tensor) -> Tensor:
        seen.append((*action.shape, -1, *outcome.shape))
        return (action - outcome) ** 2

    values = cost_function(squared, 0.0, 1.0)(torch.full((4, 1), 3.0), torch.full((6, 4, 1), 1.0))
    assert seen == [(4, -1, 6, 4)]
    assert torch.equal(values, torch.full((6, 4), 4.0))


def test_cost_function_passes_all_axes_for_many_outcomes() -> None:
    cost = cost_function(lambda action, outcome: ((action - outcome) ** 2).sum(-1), 0.0, 1.0)
    values = cost(torch.full((4, 1), 3.0), torch.tensor([1.0, 2.0]).expand(6, 4, 2))
    assert torch.equal(values, torch.full((6, 4), 5.0))


def test_function_cost_is_a_cost_without_closed_form() -> None:
    cost = cost_function(torch.sub, 0.0, 1.0)
    assert isinstance(cost, Cost)
    assert not isinstance(cost, ClosedFormCost)


NOT_FINITE: tuple[Any, ...] = (math.nan, math.inf, -math.inf, torch.tensor([0.0, math.nan]))
BAD = [
    *(("function", lambda bad: cost_function(bad, 0.0, 1.0), bad) for bad in (None, 3.0)),
    *(("lower", lambda bad: cost_function(torch.sub, bad, 1.0), bad) for bad in (*NOT_FINITE, 1.0, 2.0)),
    *(("upper", lambda bad: cost_function(torch.sub, 0.0, bad), bad) for bad in (*NOT_FINITE, 0.0, -2.0)),
]


@pytest.mark.parametrize(("field", "make", "bad"), BAD)
def test_bad_parameter_is_named(field: str, make: Callable[[Any], Any], bad: Any) -> None:
    with pytest.raises(CostError, match=rf"\b{field}\b"):
        make(bad)


@pytest.mark.parametrize(
    "function",
    [
        lambda a, y: np.maximum(3 * (y - a), a - y),
        lambda a, y: torch.from_numpy((a.numpy() - y.numpy()) ** 2),
        lambda a, y: torch.as_tensor(np.abs(np.asarray(a) - np.asarray(y))),
    ],
)
@pytest.mark.filterwarnings("ignore:__array_wrap__")
@pytest.mark.parametrize("parts", [None, 2])
def test_numpy_in_a_function_is_refused_in_plain_words(function: Callable[..., Tensor], parts: int | None) -> None:
    samples = torch.rand(4, 10, parts or 1, generator=torch.Generator().manual_seed(0))
    for solve in (solve_action, optimal_action):
        with pytest.raises((CostError, ShapeError), match=r"calls numpy|ndarray"):
            solve(cost_function(function, 0.0, 1.0, parts=parts), samples)
