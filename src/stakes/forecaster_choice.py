"""Which of the trained weights a forecaster takes."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from torch import nn

from stakes.errors import StakesError
from stakes.evaluation.weight_frontier import Frontier, frontier
from stakes.training.many_weights import FittedWeight, without_failures

__all__ = ["ChosenWeight", "choose_weight"]


class ChosenWeight(NamedTuple):
    """A weight, how it was chosen, and its models.

    Attributes:
        weight: The decision weight.
        frontier: How it was chosen; None where it was given.
        models: Those of the weight.
        baselines: Those of weight 0 beside it, where they were trained.
    """

    weight: float
    frontier: Frontier | None
    models: list[nn.Module]
    baselines: list[nn.Module]


def choose_weight(fitted: Sequence[FittedWeight], automatic: bool, block: int, tolerance: float) -> ChosenWeight:
    """Choose among weights by their cost on the judged cases, or take the one that was given.

    Args:
        fitted: All weights that were trained, in rising order.
        automatic: Whether there is a choice; otherwise the last one was given.
        block: How many neighbouring cases belong together.
        tolerance: By how many per cent the energy score may lie above that of weight 0.
    """
    by_weight = {each.weight: each.models for each in without_failures(fitted)}
    chosen, how = fitted[-1].weight, None
    if automatic:
        cost, score = (np.stack([getattr(each, name) for each in fitted]) for name in ("cost", "score"))
        how = frontier([each.weight for each in fitted], cost, score, block=block, tolerance=tolerance)
        chosen = how.chosen
    if chosen not in by_weight:
        raise StakesError(f"all models of weight {chosen:g} failed: {fitted[-1].records[0]['failure']}")
    return ChosenWeight(chosen, how, by_weight[chosen], by_weight.get(0.0, []) if chosen else [])
