"""Sums and means over a batch that is split over the processes of `torch.distributed`."""

import torch
from torch import Tensor
from torch import distributed as processes

__all__ = ["mean_over_processes", "process_count", "sum_over_processes"]


def process_count() -> int:
    """How many processes there are: 1 without a process group."""
    return processes.get_world_size() if processes.is_available() and processes.is_initialized() else 1


def sum_over_processes(values: Tensor) -> Tensor:
    """The sum of the values of all processes, without gradients; every process must call it.

    Args:
        values: What this process has, of one shape in all of them.
    """
    total = values.detach().clone()
    if process_count() > 1:
        processes.all_reduce(total)
    return total


def mean_over_processes(values: Tensor, dim: int | None = None) -> Tensor:
    """The mean over the values of all processes, whose numbers of values may differ; every process must call it.

    Args:
        values: What this process has.
        dim: The axis that the mean is taken over, kept with length 1; None takes it over all of them.
    """
    total = values.sum() if dim is None else values.sum(dim, keepdim=True)
    count = torch.full_like(total, values.numel() / total.numel())
    return sum_over_processes(total) / sum_over_processes(count)
