"""Functions registered as operators of torch."""

from itertools import count

import pytest
import torch
from torch import Tensor

from stakes.costs.member_weights import register_operator

_NUMBER = count()


@pytest.fixture
def largest():
    """An operator with two results: the largest number of each row, and the row less it."""

    def function(values: Tensor) -> tuple[Tensor, Tensor]:
        top = values.max(-1).values
        return top, values - top[..., None]

    def fake(values: Tensor) -> tuple[Tensor, Tensor]:
        return values.new_empty(values.shape[:-1]), torch.empty_like(values)

    return register_operator(f"largest_{next(_NUMBER)}", "(Tensor values) -> (Tensor, Tensor)", function, fake)


VALUES = torch.tensor([[[1.0, 5.0], [4.0, 2.0]], [[0.0, -1.0], [3.0, 3.0]], [[7.0, 8.0], [-2.0, -3.0]]])


def test_is_the_function(largest) -> None:
    top, below = largest(VALUES)
    assert torch.equal(top, torch.tensor([[5.0, 4.0], [0.0, 3.0], [8.0, -2.0]]))
    assert torch.equal(below, VALUES - top[..., None])


@pytest.mark.parametrize("axis", [0, 1])
def test_batches(largest, axis: int) -> None:
    top, below = torch.func.vmap(largest, in_dims=axis)(VALUES)
    assert torch.equal(top, largest(VALUES.movedim(axis, 0))[0])
    assert torch.equal(below, largest(VALUES.movedim(axis, 0))[1])


def test_is_one_node_of_a_compiled_graph(largest) -> None:
    calls = []

    def backend(graph: torch.fx.GraphModule, _inputs: object) -> torch.fx.GraphModule:
        calls.extend(str(node.target) for node in graph.graph.nodes if node.op == "call_function")
        return graph

    compiled = torch.compile(lambda values: largest(values)[0] * 2, fullgraph=True, backend=backend)
    assert torch.equal(compiled(VALUES), 2 * largest(VALUES)[0])
    assert [call for call in calls if "stakes.largest" in call]


def test_a_name_is_taken_once() -> None:
    with pytest.raises(RuntimeError, match="sort_members"):
        register_operator("sort_members", "(Tensor values) -> Tensor", torch.clone, torch.empty_like)
