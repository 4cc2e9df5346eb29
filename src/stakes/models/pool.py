"""Several models in one: each gives its share of the members of a pooled forecast."""

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from stakes.errors import ShapeError


def shared_counts(members: int, shares: Sequence[float]) -> list[int]:
    """How many members each gives: as its share of the total says, the largest remainders rounded up.

    >>> shared_counts(10, [0.25, 0.25, 0.5])
    [3, 2, 5]
    """
    due = [members * share / sum(shares) for share in shares]
    counts = [int(each) for each in due]
    by_remainder = sorted(range(len(due)), key=lambda place: counts[place] - due[place])
    for place in by_remainder[: members - sum(counts)]:
        counts[place] += 1
    return counts


class PoolModel(nn.Module):
    """Fitted models of one outcome vector, and what share of the members each gives; it draws, and does not train.

    Args:
        models: The models, each a `SampleModel`.
        shares: What share of the members each gives, (K,).
    """

    def __init__(self, models: Sequence[nn.Module], shares: Sequence[float]) -> None:
        super().__init__()
        if len(models) != len(shares) or not shares or min(shares) <= 0:
            raise ShapeError(f"shares must be {len(models)} numbers above 0, one for each model, got {list(shares)}")
        self.models = nn.ModuleList(models)
        self.shares = tuple(shares)

    def fit_scaling(self, features: Tensor, outcome: Tensor) -> None:
        """Nothing: its models are fitted by themselves."""

    @torch.no_grad()
    def sample(
        self,
        features: Tensor,
        members: int,
        generator: torch.Generator | None = None,
        *,
        share_noise: bool = False,
    ) -> Tensor:
        """Members (N, M, D) in physical units."""
        counts = shared_counts(members, self.shares)
        parts = [
            cast(Any, model).sample(features, count, generator, share_noise=share_noise)
            for model, count in zip(self.models, counts, strict=True)
            if count
        ]
        return torch.cat(parts, 1)
