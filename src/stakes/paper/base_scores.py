"""Forecasts trained point by point or all sites together, and what may be added to them: the choices of studies.

A base is a score and a start of training; a method is what is done to it, or trained beside it, for the decision.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["BASES", "METHODS", "SCORE_CHOICES", "SHUFFLED", "TOTAL", "ScoreChoice", "score_choice"]

_EVERYWHERE: Mapping[str, Any] = {
    "training.members": 20,
    "training.decision_estimator": "plain",
    "training.pretraining_epochs": 0,
    "training.epochs": 100,
    "training.patience": 20,
}
_LINEAR: Mapping[str, Any] = {"model.linear": True, "training.weight_decay": 0.1}
_POINTWISE: Mapping[str, Any] = {"training.score": "pointwise"}

BASES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "pointwise": ("point by point", _POINTWISE),
    "pointwise_linear": ("point by point, linear start", {**_POINTWISE, **_LINEAR}),
    "energy": ("energy score", {}),
    "energy_linear": ("energy score, linear start", _LINEAR),
}
"""What a forecast is trained on before anything is added, by name: in words, and as settings."""

TOTAL, SHUFFLED = "total", "shuffled"
METHODS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "decision": ("decision", {}),
    "many": ("decision, 64 members", {"training.decision_member_count": 64}),
    TOTAL: ("CRPS of the total, a rival", {"training.companion": "crps_of_total"}),
    "variogram": ("variogram score, a rival", {"training.companion": "variogram"}),
    SHUFFLED: ("members shuffled by past errors, a rival", {}),
}
"""What is added to a base, by name: in words, and as settings."""


@dataclass(frozen=True)
class ScoreChoice:
    """A base and what is added to it.

    Attributes:
        base: A key of `BASES`.
        method: A key of `METHODS`.
    """

    base: str
    method: str = "decision"

    @property
    def name(self) -> str:
        """The name of the choice: that of the base, and of a method other than the decision."""
        return self.base if self.method == "decision" else f"{self.base}_{self.method}"

    @property
    def title(self) -> str:
        """Both in words."""
        return f"{BASES[self.base][0]} + {METHODS[self.method][0]}"

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of its runs, by dotted name."""
        return {**_EVERYWHERE, **BASES[self.base][1], **METHODS[self.method][1]}


_CHOICES = {choice.name: choice for choice in (ScoreChoice(base, method) for base in BASES for method in METHODS)}

SCORE_CHOICES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    name: (choice.title, choice.settings) for name, choice in _CHOICES.items()
}
"""The choices of studies by name: what each is, and the settings it changes."""


def score_choice(name: str) -> ScoreChoice | None:
    """The base and method of a study's choice; None for a choice of another kind.

    Args:
        name: The name of the choice.
    """
    return _CHOICES.get(name)
