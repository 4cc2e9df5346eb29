"""What simulated tasks share: cases drawn from a seed, and what the true conditional distribution knows of them."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from stakes.data.cases import Cases

__all__ = ["KnownTruth", "Truth", "data_generator", "draw_splits"]

Draw = Callable[[int, torch.Generator], tuple[Tensor, Tensor]]


@dataclass(frozen=True, eq=False)
class Truth:
    """What the true conditional distribution says of N cases.

    Attributes:
        action: The best actions (N, 1).
        expected_cost: The expected cost (N,) of any actions (N, 1).
    """

    action: Tensor
    expected_cost: Callable[[Tensor], Tensor]

    def regret(self, action: Tensor) -> Tensor:
        """Expected cost of actions (N, 1) above that of the best ones, (N,)."""
        return self.expected_cost(action) - self.expected_cost(self.action)


@runtime_checkable
class KnownTruth(Protocol):
    """A task whose true conditional distribution is known."""

    def draw_outcomes(self, features: Tensor, members: int, generator: torch.Generator) -> Tensor:
        """Members (N, M, D) of the true conditional distribution."""
        ...

    def truth(self, features: Tensor) -> Truth:
        """The best actions for features (N, F) and what others cost."""
        ...


def data_generator(name: str, seed: int) -> torch.Generator:
    """A generator that shares no numbers with those that others seed with the same number.

    Args:
        name: What is drawn, such as the name of the task.
        seed: Another seed gives other numbers.
    """
    digest = hashlib.sha256(f"data of {name}, seed {seed}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:4], "big"))


def draw_splits(draw: Draw, sizes: tuple[int, int, int], generator: torch.Generator) -> tuple[Cases, Cases, Cases]:
    """Training, validation and test cases, drawn one after the other.

    Args:
        draw: Draws so many cases: features (N, F) and outcomes (N, D).
        sizes: How many cases the three splits have.
        generator: Where the random numbers come from.
    """
    train, validation, test = (Cases(*draw(cases, generator)) for cases in sizes)
    return train, validation, test
