"""What estimators are asked for, spelled once, for signatures, stored settings and flags; light enough for --help."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

from stakes.data.forecasts.layout import Pair
from stakes.errors import SettingError

Base = Literal["linear", "trees", "none"]
"""What a forecast starts from; see `stakes.DecisionAwareForecaster`."""

_MOST_MEMBERS = 10**6  # that a bundle takes
_SEEDS = 2**32  # that numpy takes


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ForecastSettings:
    """What a forecaster is asked for, in Python as in words; the text of an attribute is the help of its flag.

    Attributes:
        base: what the forecast starts from; trees needs LightGBM
        decision_weight: auto, or between 0, the score alone, and 1, the decision alone
        conditioned: let models see the parameter of the cost that is a range, such as penalty=1..50
        members: members of a forecast
        ensemble: networks of different seeds, pooled
        decision_member_count: members to decide from in training; by default the 10 of the score
        model_selection: select from climatology, linear, trees, network and decision weights by expected cost
        recent_errors: correct members by the errors of validation cases, where that is expected to help
        epochs: most epochs of the training
        validation_fraction: share of the others, their last ones, by which training stops and a weight is selected
        tolerance: per cent by which a decision weight may make the score worse; no limit by default
    """

    base: Base = "linear"
    decision_weight: float | Literal["auto"] = "auto"
    conditioned: bool = False
    members: int = 500
    ensemble: int = 4
    decision_member_count: int | None = None
    model_selection: bool = True
    recent_errors: bool = True
    epochs: int | None = None
    validation_fraction: float = 0.25
    tolerance: float | None = None

    def check(self) -> None:
        """Raise where one of these cannot be used; estimators are not checked before they are fitted."""
        from stakes.argument_checks import require_decision_weight, require_finite, require_one_of, whole_number

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


@dataclass(frozen=True, kw_only=True)
class FitSettings(ForecastSettings):
    """How a forecaster is fitted; the text of an attribute is the help of its flag.

    Attributes:
        model: kind of the model; linear needs no training
        score: energy, pointwise or total (of what the cost looks at), or a mixture such as energy=1,total=0.5
        outcome_bounds: what the targets cannot cross, such as 0,1; none, or auto, what the cost knows or the data show
        directions: features in degrees, which become sine and cosine; none, or auto, by their names and values
        weights: weights that auto chooses among; 0,0.1,0.3 by default
        test_fraction: share of the cases, the last ones, to judge by
        block: neighbouring cases that belong together; a week by default, in short records at least three days
        seed: of all that is random
        separator: of CSV files; found by itself by default
        encoding: of CSV files; found by itself by default
    """

    model: Literal["implicit", "diffusion", "linear"] = "implicit"
    score: str = "energy"
    outcome_bounds: str = "auto"
    directions: tuple[str, ...] | Literal["auto"] = "auto"
    weights: tuple[float, ...] | None = None
    test_fraction: float = 0.2
    block: int | None = None
    seed: int = 0
    separator: str | None = None
    encoding: str | None = None

    def __post_init__(self) -> None:
        from stakes.argument_checks import require_count, require_one_of
        from stakes.data.outcome_bounds import written_pair
        from stakes.scores.mixture import score_weights

        require_one_of("model", self.model, ("implicit", "diffusion", "linear"))
        self.check()
        score_weights(self.score)  # which checks it
        written_pair(self.outcome_bounds)  # as this does
        self._require_weights()
        if self.members > _MOST_MEMBERS:
            raise SettingError(f"members must be at most {_MOST_MEMBERS:,}, got {self.members:,}")
        if self.block is not None:
            require_count("block", self.block)
        if not 0 <= self.test_fraction < 1:
            raise SettingError(f"test_fraction must lie in [0, 1), got {self.test_fraction}")
        if not 0 <= self.seed < _SEEDS:
            raise SettingError(f"seed must lie between 0 and {_SEEDS - 1}, got {self.seed}")

    def _require_weights(self) -> None:
        if self.weights is None:
            return
        if self.decision_weight != "auto":
            raise SettingError(
                "weights are for decision_weight auto, which chooses among them, got decision_weight "
                f"{self.decision_weight:g} too"
            )
        if not self.weights or not all(0 <= weight <= 1 for weight in self.weights):
            given = ", ".join(f"{weight:g}" for weight in self.weights) or "none"
            raise SettingError(f"weights must be at least one number in [0, 1], got {given}")


@dataclass(frozen=True, kw_only=True, repr=False)
class RecalibratorSettings:
    """What a recalibrator is asked for, in Python as in words; the text of an attribute is the help of its flag.

    Attributes:
        outcome_bounds: what outcomes cannot cross; as the flag it is said of the file of forecasts
        decision_weights: weights of the decision that are tried, 0.2,0.5,0.8 by default; none tries none
        tolerance: per cent by which a decision weight may make the score worse; no limit by default
        test_fraction: share of the cases, the last ones, that choose nothing and tell what it is worth
        gap: cases before a forecast whose outcomes were not known yet; 0 where leads tell
        block: neighbouring cases that belong together; auto: a week, in short records at least three days
    """

    outcome_bounds: Pair | Literal["auto"] | None = "auto"
    decision_weights: tuple[float, ...] = (0.2, 0.5, 0.8)
    tolerance: float | None = None
    test_fraction: float = 0.25
    gap: int = 0
    block: int | Literal["auto"] = "auto"

    def check(self) -> None:
        """Raise where one of these cannot be used; estimators are not checked before they are fitted."""
        from stakes.argument_checks import require_decision_weight, require_finite, whole_number

        for weight in self.decision_weights:
            require_decision_weight(weight, expected="lie in [0, 1)")
        if self.tolerance is not None:
            require_finite("tolerance", self.tolerance)
        whole_number("gap", self.gap, 0)
