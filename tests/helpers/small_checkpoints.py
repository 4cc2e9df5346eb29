"""Small checkpoints, and whether two are the same."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from stakes.training.trainer import Checkpoint, save_checkpoint

DTYPES = (
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.uint8,
    torch.int8,
    torch.int32,
    torch.int64,
)
LAYOUT = {"bias": (torch.float64, (3,)), "weights": (torch.float32, (2, 3))}


def checkpoint(epoch: int, value: float = 0.5) -> Checkpoint:
    tensors = {"weights": torch.full((2, 3), value), "bias": torch.arange(3, dtype=torch.float64) + epoch}
    return Checkpoint(epoch, tensors, {"loss": [1.5, None], "value": value})


def assert_same(found: Checkpoint | None, expected: Checkpoint) -> None:
    assert found is not None
    assert found.epoch == expected.epoch
    assert found.state == expected.state
    assert_same_tensors(found.tensors, expected.tensors)


def assert_same_tensors(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype
        assert found[name].shape == tensor.shape
        assert torch.equal(found[name], tensor)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of two checkpoints, of epochs 1 and 2."""
    for epoch in (1, 2):
        save_checkpoint(tmp_path / "checkpoints", checkpoint(epoch))
    return tmp_path / "checkpoints"
