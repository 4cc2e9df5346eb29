"""How a forecaster is fitted: the settings behind the flags of `stakes fit`, light enough for --help."""

from dataclasses import dataclass
from typing import Literal

from stakes.errors import SettingError
from stakes.forecasting.parameters import ForecastSettings

_MOST_MEMBERS = 10**6  # that a bundle takes
_SEEDS = 2**32  # that numpy takes


@dataclass(frozen=True, kw_only=True)
class FitSettings(ForecastSettings):
    """How a forecaster is fitted; the text of an attribute is the help of its flag.

    Attributes:
        model: kind of the model; linear needs no training
        score: energy, pointwise or total (of what the cost looks at), or a mixture such as energy=1,total=0.5
        outcome_bounds: what the targets cannot cross, such as 0,1; none, or auto, what the cost knows or the data show
        directions: features in degrees, which become sine and cosine; none, or auto, by their names and values
        weights: weights that auto chooses among, such as 0,0.1,0.3; 0 to 0.9 by tenths by default
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
        from stakes.data.forecasts.quantiles import written_pair
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
