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
        base: forecast that the network improves on; trees needs LightGBM
        decision_weight: share of the decision in the loss, from 0 (score only) to 1 (decision only); auto selects it
        conditioned: give the model the cost parameter that has a range, such as penalty=1..50, as a feature
        members: members of each forecast
        ensemble: number of networks, with different seeds, whose members are pooled
        decision_member_count: members for each decision in training; default: 10, as for the score
        model_selection: select among climatology, linear, trees, network and decision weights by expected cost
        recent_errors: correct members by validation errors where that is expected to lower the cost
        epochs: maximum number of training epochs
        validation_fraction: share of the training cases, the latest, for early stopping and selection
        tolerance: largest increase of the score, in percent, that a decision weight may cause; default: no limit
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
        model: kind of model; linear needs no training
        score: energy, pointwise, total (the CRPS of the total), or a mixture such as energy=1,total=0.5
        outcome_bounds: physical limits of the targets as LOWER,UPPER, either may be empty; auto detects them
        directions: features in degrees, encoded as sine and cosine; auto detects them
        weights: decision weights that auto compares; default: 0,0.1,0.3
        test_fraction: share of the cases, the latest, held out as test cases
        block: consecutive cases that depend on each other; default: one week, in short records at least three days
        seed: random seed
        separator: column separator of CSV files; default: detected
        encoding: text encoding of CSV files; default: detected
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
        from stakes.scores.scoring_rules import score_weights

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
                "weights are for decision_weight auto, which selects one of them, got decision_weight "
                f"{self.decision_weight:g}"
            )
        if not self.weights or not all(0 <= weight <= 1 for weight in self.weights):
            given = ", ".join(f"{weight:g}" for weight in self.weights) or "none"
            raise SettingError(f"weights must be at least one number in [0, 1], got {given}")


@dataclass(frozen=True, kw_only=True, repr=False)
class RecalibratorSettings:
    """What a recalibrator is asked for, in Python as in words; the text of an attribute is the help of its flag.

    Attributes:
        outcome_bounds: physical limits of the outcomes
        decision_weights: decision weights to compare, by default 0.2,0.5,0.8; none skips them
        tolerance: largest increase of the score, in percent, that a decision weight may cause; default: no limit
        test_fraction: share of the cases, the latest, held out as test cases
        gap: number of cases before a forecast whose outcomes were not yet known; not needed with --lead or --issued
        block: consecutive cases that depend on each other; auto: one week, in short records at least three days
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
