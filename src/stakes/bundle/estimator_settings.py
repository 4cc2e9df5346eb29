"""The estimator's parameters as a file keeps them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from numbers import Integral
from typing import Any, Literal

from stakes.errors import SettingError
from stakes.forecaster.base import Base
from stakes.forecaster.estimator import DecisionAwareForecaster
from stakes.json_values import json_value
from stakes.method.argument_checks import require_count
from stakes.method.training_settings import DiffusionSettings, ImplicitSettings, LinearSettings, TrainingSettings
from stakes.settings import from_plain, shown, to_plain
from stakes.training.many_weights import ESTIMATOR_MODELS, resolved_device

__all__ = ["MOST_MODELS", "EstimatorSettings", "estimator_settings", "require_at_most", "settings_from_plain"]

MOST_MODELS = 1000  # of an ensemble
_MOST_MEMBERS = 10**6
_LARGEST_SIZE = 4096  # of any number in a model's settings: what a file says is built before it is compared
_LIBRARY_MODELS = (ImplicitSettings, DiffusionSettings, LinearSettings)
_DEVICE = re.compile(r"(?!meta)[a-z]{2,20}(?::[0-9]{1,3})?")


@dataclass(frozen=True)
class EstimatorSettings:
    """The parameters of `stakes.DecisionAwareForecaster`, but `cost`, `n_jobs` and `verbose`.

    Attributes:
        model: The settings of the library's model, or "own" where the user's factory made it.
        decision_weight: The weight that was asked for; "auto" chose it.
        weights: Which weights "auto" chose among.
        baseline: Whether weight 0 was trained beside a weight that was given.
        members: How many members a forecast has.
        ensemble: How many models are pooled into one forecast.
        epochs: How long the training was to be; None for what suits the number of rows.
        training: All else about the training; None for what suits the number of rows.
        validation_fraction: The share of the rows, the last ones, that decided when to stop.
        tolerance: By how many per cent the energy score may lie above that of weight 0; None for no limit.
        block: How many neighbouring rows belong together; "auto" tells by their times.
        device: Where the models are computed.
        random_state: The seed; None where it was none or a generator.
        warm_start: Whether a second fit starts from the models of the first.
        base: What the forecast starts from; "none" for bundles from before there was a choice.
        gap: How many rows the lead time has.
        outcome_bounds: What the outcomes cannot cross; None for bundles from before there was a choice.
        scoring_rule: What was trained beside the decision; None for that of `training`.
        decision_member_count: How many members the decision was made from in training; None for those of the score.
        refit_on_all_rows: Whether the chosen weight was trained again on all rows; earlier bundles do not say so.
        fresh_errors: Whether members may be corrected by the errors of validation rows; earlier bundles were not.
        ladder: Whether the ladder was climbed; earlier bundles did not.
        conditioned: Whether models see the parameter of the cost that is a range.
    """

    model: ImplicitSettings | DiffusionSettings | LinearSettings | Literal["own"]
    decision_weight: float | Literal["auto"]
    weights: tuple[float, ...]
    baseline: bool
    members: int
    ensemble: int
    epochs: int | None
    training: TrainingSettings | None
    validation_fraction: float
    tolerance: float | None
    block: int | Literal["auto"]
    device: str
    random_state: int | None
    warm_start: bool = False
    base: Base = "none"
    gap: int = 0
    outcome_bounds: tuple[float | None, float | None] | Literal["auto"] | None = None
    scoring_rule: str | None = field(default=None, metadata={"later": True})
    decision_member_count: int | None = field(default=None, metadata={"later": True})
    refit_on_all_rows: bool = field(default=False, metadata={"later": True})
    fresh_errors: bool = field(default=False, metadata={"later": True})
    ladder: bool = field(default=False, metadata={"later": True})
    conditioned: bool = field(default=False, metadata={"later": True})

    def __post_init__(self) -> None:
        if not _DEVICE.fullmatch(self.device):
            raise SettingError(f'device must be "auto" or a device of torch, got {shown(self.device)}')
        resolved_device(self.device)  # which knows them
        require_at_most("members", self.members, _MOST_MEMBERS)
        require_at_most("ensemble", self.ensemble, MOST_MODELS)
        require_count("gap", self.gap, least=0)


def settings_from_plain(values: Mapping[str, Any]) -> EstimatorSettings:
    """The settings of a file, the model's numbers looked at first: a mere schedule of 10^12 steps fills the memory.

    Args:
        values: The table that the file holds.
    """
    model = values.get("model")
    for name, value in model.items() if isinstance(model, Mapping) else ():
        if isinstance(value, int) and value > _LARGEST_SIZE:
            raise SettingError(f"model.{name} must be at most {_LARGEST_SIZE}, got {shown(value)}")
    return from_plain(EstimatorSettings, values)


def estimator_settings(forecaster: DecisionAwareForecaster) -> EstimatorSettings:
    """The settings of a forecaster; they are refused if `settings_from_plain` would not read them again.

    Args:
        forecaster: The forecaster, fitted or not.
    """
    given = {field.name: getattr(forecaster, field.name) for field in fields(EstimatorSettings)}
    model, seed = given["model"], given["random_state"]
    if isinstance(model, str):
        model = ESTIMATOR_MODELS[model]
    given["model"] = to_plain(model) if isinstance(model, _LIBRARY_MODELS) else "own"
    given["random_state"] = seed if isinstance(seed, Integral) else None
    return settings_from_plain(json_value(given))


def require_at_most(name: str, value: int, most: int) -> None:
    """Raise unless the value is a whole number from 1 to `most`.

    Args:
        name: What the value is, for the message.
        value: The value.
        most: The largest that is taken.
    """
    require_count(name, value)
    if value > most:
        raise SettingError(f"{name} must be at most {most}, got {shown(value)}")
