"""Models trained once more, on all rows, for as long as a search has found to be best.

A search keeps the newest rows out of training: they say when to stop and which weight to take. Once that is known they
are worth more as rows to learn from.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from stakes.errors import SettingError
from stakes.method.argument_checks import require_count, require_decision_weight
from stakes.method.training_settings import TrainingSettings
from stakes.training.many_weights import FittedWeight, TrainingPlan, train_weights

__all__ = ["FoundTraining", "train_on_all_rows"]


@dataclass(frozen=True)
class FoundTraining:
    """How long the models that a search has chosen are to be trained.

    Attributes:
        settings: How the models of the search were trained.
        weights: The decision weights that are kept.
        epochs: The best epochs of the models of each of these weights, one per seed; None where the model failed.
    """

    settings: TrainingSettings
    weights: tuple[float, ...]
    epochs: tuple[tuple[int | None, ...], ...]

    def __post_init__(self) -> None:
        if not self.weights or len(self.weights) != len(self.epochs):
            raise SettingError(
                f"weights and epochs must be as many, at least one, got {len(self.weights)} and {len(self.epochs)}"
            )
        for weight in self.weights:
            require_decision_weight(weight, "weights")
        for each in (epochs for row in self.epochs for epochs in row if epochs is not None):
            require_count("epochs", each, least=0)

    @classmethod
    def of(
        cls, settings: TrainingSettings, records: Sequence[Mapping[str, Any]], weights: Sequence[float]
    ) -> "FoundTraining":
        """What the records of a search say of these weights."""
        own = [[record for record in records if record["decision_weight"] == weight] for weight in weights]
        return cls(settings, tuple(weights), tuple(tuple(map(_epochs, each)) for each in own))


def train_on_all_rows(
    plan: TrainingPlan,
    training: FoundTraining,
    processes: int = 1,
    *,
    checkpoints: Path | None = None,
    stop: Callable[[], bool] | None = None,
    quiet: bool = True,
) -> list[FittedWeight]:
    """Train the chosen models without early stopping; nothing is judged.

    An epoch is one of the rows there are now. Rate, pre-training and batches are those of the search.

    Args:
        plan: What the models depend on but for their weights and how long they are trained; it trains on all cases.
        training: Which weights to train, and how long, as the search has found it.
        processes: How many processes share the weights.
        checkpoints: A folder where a second call goes on after a kill; None keeps nothing.
        stop: Asked after every epoch; yes writes a checkpoint and raises `InterruptedTraining`. None never stops.
        quiet: Show no progress.
    """
    if widths := {len(each) for each in training.epochs} - {len(plan.seeds)}:
        raise SettingError(f"ensemble must be the {widths.pop()} of the search, got {len(plan.seeds)}")
    pretraining = 0 if plan.start else training.settings.pretraining_epochs
    again = replace(
        plan,
        settings=replace(training.settings, validate_every=training.settings.epochs, pretraining_epochs=pretraining),
        weights=training.weights,
        judged=None,
        epochs=dict(zip(training.weights, training.epochs, strict=True)),
    )
    about = f"training again on {len(plan.train)} cases"
    return train_weights(again, processes, checkpoints=checkpoints, stop=stop, quiet=quiet, about=about)


def _epochs(record: Mapping[str, Any]) -> int | None:
    return None if record["status"] == "failed" else int(record["best_epoch"])
