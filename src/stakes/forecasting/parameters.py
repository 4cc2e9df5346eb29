"""What the estimators are asked for, spelled once: their signatures, stored settings and flags are made of these."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

from stakes.data.forecasts.layout import Pair

Base = Literal["linear", "trees", "none"]
"""What a forecast starts from; see `stakes.DecisionAwareForecaster`."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ForecastSettings:
    """What a forecaster is asked for, in Python as in words; the text of an attribute is the help of its flag.

    Attributes:
        base: what the forecast starts from; trees needs LightGBM
        decision_weight: auto, or between 0, the score alone, and 1, the decision alone
        conditioned: let models see the parameter of the cost that is a range, such as penalty=1..50
        members: members of a forecast
        ensemble: models of different seeds, pooled
        decision_member_count: members to decide from in training; by default the 10 of the score
        model_selection: select from climatology, linear, network and decision weights, each step only with proof
        recent_errors: correct members by the errors of validation cases, where that is proven to help
        epochs: most epochs of the training
        validation_fraction: share of the others, their last ones, by which training stops and a weight is selected
        tolerance: per cent by which a decision weight may make the score worse; no limit by default
    """

    base: Base = "linear"
    decision_weight: float | Literal["auto"] = "auto"
    conditioned: bool = False
    members: int = 500
    ensemble: int = 1
    decision_member_count: int | None = None
    model_selection: bool = True
    recent_errors: bool = True
    epochs: int | None = None
    validation_fraction: float = 0.25
    tolerance: float | None = None

    def check(self) -> None:
        """Raise where one of these cannot be used; estimators are not checked before they are fitted."""
        from stakes.argument_checks import require_decision_weight, require_finite, require_one_of, whole_number
        from stakes.errors import SettingError

        require_one_of("base", self.base, get_args(Base))
        if self.decision_weight != "auto":
            require_decision_weight(self.decision_weight, expected="be auto or lie in [0, 1]")
        whole_number("members", self.members, 2)
        whole_number("ensemble", self.ensemble)
        for name in ("decision_member_count", "epochs"):
            if getattr(self, name) is not None:
                whole_number(name, getattr(self, name))
        fraction: Any = self.validation_fraction
        if isinstance(fraction, str | bool) or not 0 < fraction < 1:
            raise SettingError(f"validation_fraction must lie between 0 and 1, got {fraction!r}")
        if self.tolerance is not None:
            require_finite("tolerance", self.tolerance)


@dataclass(frozen=True, kw_only=True, repr=False)
class RecalibratorSettings:
    """What a recalibrator is asked for, but its cost; see `stakes.Recalibrator`."""

    outcome_bounds: Pair | Literal["auto"] | None = "auto"
    decision_weights: tuple[float, ...] = (0.2, 0.5, 0.8)
    tolerance: float | None = None
    test_fraction: float = 0.25
    gap: int = 0
    block: int | Literal["auto"] = "auto"
