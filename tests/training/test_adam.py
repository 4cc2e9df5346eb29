from typing import Any

import pytest
import torch
from torch import Tensor

from stakes.training.steps import Adam


def drawn(*seeds: int) -> list[list[Tensor]]:
    """Two tensors for each seed."""
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    return [[torch.randn(shape, generator=each) for shape in ((3, 5), (7,))] for each in generators]


@pytest.mark.parametrize(
    ("make", "decay"), [(torch.optim.Adam, 0.0), (torch.optim.AdamW, 0.0), (torch.optim.AdamW, 0.3)]
)
def test_steps_are_those_of_torch(make: Any, decay: float) -> None:
    parameters, *gradients = drawn(0, 1, 2, 3)
    theirs = [each.clone().requires_grad_() for each in parameters]
    reference, own = make(theirs, lr=0.1, weight_decay=decay), Adam(parameters, 0.1, decay)
    for rate, gradient in zip((0.1, 0.1, 0.02), gradients, strict=True):
        reference.param_groups[0]["lr"] = rate
        own.set_learning_rate(rate)
        for each, values in zip(theirs, gradient, strict=True):
            each.grad = values
        reference.step()
        own.step(gradient)
    assert all(map(torch.equal, parameters, theirs))
    assert all(map(torch.equal, own.first_moments, [reference.state[each]["exp_avg"] for each in theirs]))
    assert all(map(torch.equal, own.second_moments, [reference.state[each]["exp_avg_sq"] for each in theirs]))
    assert own.steps == [3, 3]


def test_no_graph_is_kept() -> None:
    (parameters,) = drawn(0)
    for each in parameters:
        each.requires_grad_()
    own = Adam(parameters, 0.1)
    own.step(torch.autograd.grad(sum(each.square().sum() for each in parameters), parameters))
    assert all(each.is_leaf and each.requires_grad for each in parameters)
    assert not any(each.requires_grad for each in own.first_moments)
