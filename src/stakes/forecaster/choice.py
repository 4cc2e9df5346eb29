"""Which of the trained weights a forecaster takes, and which models it keeps."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from torch import nn

from stakes.errors import StakesError
from stakes.evaluation.weight_frontier import Frontier, frontier
from stakes.method.training_settings import TrainingSettings
from stakes.training.all_rows import FoundTraining
from stakes.training.many_weights import FittedWeight, without_failures

__all__ = ["Choice", "KeptModels", "choose", "kept_models"]


class KeptModels(NamedTuple):
    """The models that a forecaster keeps.

    Attributes:
        chosen: Those of the weight that was taken.
        weight_0: Those of weight 0 beside it; none where that was taken, or not trained.
    """

    chosen: list[nn.Module]
    weight_0: list[nn.Module]


class Choice(NamedTuple):
    """What a search has found.

    Attributes:
        weight: The weight that is taken.
        frontier: How it was chosen; None where it was given.
        records: How each model of the search trained.
        training: How long the models that are kept are to be trained on all rows.
    """

    weight: float
    frontier: Frontier | None
    records: list[dict[str, Any]]
    training: FoundTraining


def choose(
    fitted: Sequence[FittedWeight], settings: TrainingSettings, block: int, choosing: bool, tolerance: float | None
) -> Choice:
    """Choose among the weights of a search; a warning tells of each model that failed.

    Args:
        fitted: All weights, in increasing order.
        settings: How they were trained.
        block: How many neighbouring judged cases belong together.
        choosing: Whether there is a choice; otherwise the last weight was given.
        tolerance: By how many per cent the score of the chosen weight may lie above that of weight 0; None for no
            limit.
    """
    sound = {each.weight for each in without_failures(fitted)}
    weight, trade_off = fitted[-1].weight, None
    if choosing:
        cost, score = (np.stack([getattr(each, name) for each in fitted]) for name in ("cost", "score"))
        trade_off = frontier([each.weight for each in fitted], cost, score, block=block, tolerance=tolerance)
        weight = trade_off.chosen
    kept_models(fitted, weight)  # there must be some
    records = [record for each in fitted for record in each.records]
    return Choice(weight, trade_off, records, FoundTraining.of(settings, records, sorted(sound & {0.0, weight})))


def kept_models(fitted: Sequence[FittedWeight], weight: float) -> KeptModels:
    """The models of the weight that was taken and of weight 0; an error where all of the first failed.

    Args:
        fitted: All weights that were trained.
        weight: The one that was taken.
    """
    by_weight = {each.weight: each for each in fitted}
    if not by_weight[weight].models:
        raise StakesError(f"all models of weight {weight:g} failed: {by_weight[weight].records[0]['failure']}")
    return KeptModels(by_weight[weight].models, by_weight[0.0].models if weight and 0.0 in by_weight else [])
