"""Members from several models as one forecast, the same for a row whatever its neighbours."""

import copy
from collections.abc import Iterator, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from stakes.models.sample_model import SampleModel

_MEMBERS_AT_ONCE = {"cpu": 1 << 14}
_MEMBERS_ELSEWHERE = 1 << 19
_MEMBERS_HELD = 1 << 21


def member_shares(members: int, models: int) -> list[int]:
    """How many members each model gives; where they cannot share evenly, the first ones give one more.

    >>> member_shares(10, 4)
    [3, 3, 2, 2]
    """
    share, more = divmod(members, models)
    return [share + (place < more) for place in range(models)]


def pooled_parts(
    models: Sequence[nn.Module],
    features: Tensor,
    members: int,
    seed: int,
    device: str = "cpu",
    *,
    share_noise: bool = True,
) -> Iterator[tuple[slice, Tensor]]:
    """`pooled_members` of as many rows at a time as memory should hold, with their place; nothing without a model.

    Without shared noise a part draws from a seed of its own, `seed` plus the place of its first row.
    """
    size = max(1, _MEMBERS_HELD // members)
    for start in range(0, len(features) if models else 0, size):
        rows = slice(start, start + size)
        own_seed = seed if share_noise else seed + start
        yield rows, pooled_members(models, features[rows], members, own_seed, device, share_noise=share_noise)


@torch.no_grad()
def pooled_members(
    models: Sequence[nn.Module],
    features: Tensor,
    members: int,
    seed: int,
    device: str = "cpu",
    *,
    share_noise: bool = True,
) -> Tensor:
    """Members (N, M, D) of all models together, in physical units, on the CPU.

    Rows are computed in parts of one size, the last one filled up: float32 sums depend on the shape of a product, and
    so a row would depend on how many neighbours it has. Its place among them may still change its last digits.
    """
    shares = member_shares(members, len(models))
    parts = [
        _members(model, features, share, seed + place, device, share_noise)
        for place, (model, share) in enumerate(zip(models, shares, strict=True))
        if share
    ]
    return torch.cat(parts, 1)


def _members(model: nn.Module, features: Tensor, members: int, seed: int, device: str, share_noise: bool) -> Tensor:
    moved = model if device == "cpu" else copy.deepcopy(model).to(device)
    generator = torch.Generator(device).manual_seed(seed)
    if getattr(model, "at_once", False):
        drawn = cast(SampleModel, moved).sample(features.to(device), members, generator, share_noise=share_noise)
        return drawn.cpu()
    at_once = _MEMBERS_AT_ONCE.get(torch.device(device).type, _MEMBERS_ELSEWHERE)
    size = max(1, at_once // members)
    parts = []
    for part in features.split(size):
        filled = torch.cat([part, part[-1:].expand(size - len(part), -1)]).to(device)
        if share_noise:
            generator.manual_seed(seed)
        drawn = cast(SampleModel, moved).sample(filled, members, generator, share_noise=share_noise)
        parts.append(drawn[: len(part)].cpu())
    return torch.cat(parts)
