"""The noise that members are drawn from, and how many cases are drawn at once."""

import torch
from torch import Tensor

__all__ = ["cases_at_once", "draw_normal", "draw_shared"]

_ENOUGH_TO_BALANCE = 4  # members for each dimension of the noise
_CACHE = 1 << 23  # bytes that the caches of a CPU hold
_BATCH = 1 << 30  # bytes that fill an accelerator


def cases_at_once(width: int, members: int, like: Tensor, memory_budget: int | None) -> int:
    """How many cases fit the memory if every member needs three times `width` numbers on its way; at least one.

    Args:
        width: The widest layer of the network.
        members: How many members each case has.
        like: The tensor whose type and device the numbers have.
        memory_budget: The memory in bytes. None takes 8 MiB on a CPU, where chunks that leave its caches take twice as
            long, and 1 GiB elsewhere.
    """
    if memory_budget is None:
        memory_budget = _CACHE if like.device.type == "cpu" else _BATCH
    return max(1, memory_budget // (3 * width * members * like.element_size()))


def draw_normal(like: Tensor, *shape: int, generator: torch.Generator | None) -> Tensor:
    """Standard normal numbers of the type and on the device of another tensor.

    Args:
        like: The tensor whose type and device they have.
        shape: How many there are along each axis.
        generator: What they are drawn from; None takes torch's global one.
    """
    return torch.randn(shape, generator=generator, device=like.device, dtype=like.dtype)


def draw_shared(like: Tensor, members: int, width: int, generator: torch.Generator | None) -> Tensor:
    """Normal noise (1, M, K) for all cases alike, made to have mean 0 and covariance 1 where M is at least 4 K.

    Otherwise the sampling error of this one draw would be in every forecast, and in the same direction. With fewer
    members the noise is left as drawn: forcing it would change more than it mends.

    Args:
        like: The tensor whose type and device the noise has.
        members: M, how many members there are.
        width: K, the width of the noise of a member.
        generator: What the noise is drawn from; None takes torch's global one.
    """
    drawn = draw_normal(like, 1, members, width, generator=generator)
    if members < _ENOUGH_TO_BALANCE * width:
        return drawn
    centred = (drawn - drawn.mean(1, keepdim=True)).double()
    factor = torch.linalg.cholesky(centred.mT @ centred / members)
    return torch.linalg.solve_triangular(factor, centred.mT, upper=False).mT.to(like.dtype)
