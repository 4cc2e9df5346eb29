"""What is asked of a fit, and the file by which a folder keeps it.

The file names no code to run: of a user's own cost it has the name, the parameters and the SHA-256, and whoever goes on
from the folder names the cost's file again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from stakes.bundle import bundle_files, load_bundle
from stakes.cost_text.written_cost import CostSpec
from stakes.data.layout import TableLayout
from stakes.errors import SettingError, StakesError
from stakes.files import read_json, write_json
from stakes.forecaster import DecisionAwareForecaster
from stakes.method.argument_checks import require_count, require_finite, require_one_of
from stakes.method.costs import Cost
from stakes.settings import canonical_text, from_plain, to_plain
from stakes.training.execution import Execution
from stakes.training.model_folder import WEIGHTS

__all__ = ["FitRequest", "asked_of", "claim", "read_asked"]

_MOST_MEMBERS = 10**6  # that a bundle takes
_SEEDS = 2**32  # that numpy takes
_KEPT_BESIDE = ("data", "cost", "start_from")  # of a request: told by SHA-256 or in full, not by words or places


@dataclass(frozen=True)
class FitRequest:
    """What is to be fitted: the words of the command line."""

    data: str
    cost: str
    layout: TableLayout
    model: str = "implicit"
    decision_weight: float | Literal["auto"] = "auto"
    weights: tuple[float, ...] | None = None  # to choose among; the forecaster's own by default
    members: int = 500
    ensemble: int = 1
    epochs: int | None = None
    test_fraction: float = 0.2
    validation_fraction: float = 0.25  # of the other cases
    tolerance: float = 2.0
    block: int | None = None  # neighbouring cases that belong together; by their times by default
    seed: int = 0
    separator: str | None = None
    encoding: str | None = None
    start_from: str | None = None  # the folder of a fit whose weights training starts from

    def __post_init__(self) -> None:
        require_one_of("model", self.model, ("implicit", "diffusion"))
        if self.decision_weight != "auto" and not 0 <= self.decision_weight <= 1:
            raise SettingError(f"decision_weight must be auto or lie in [0, 1], got {self.decision_weight}")
        self._require_weights()
        require_count("members", self.members, 2)
        if self.members > _MOST_MEMBERS:
            raise SettingError(f"members must be at most {_MOST_MEMBERS:,}, got {self.members:,}")
        require_count("ensemble", self.ensemble)
        if self.epochs is not None:
            require_count("epochs", self.epochs)
        if not 0 <= self.test_fraction < 1:
            raise SettingError(f"test_fraction must lie in [0, 1), got {self.test_fraction}")
        if not 0 < self.validation_fraction < 1:
            raise SettingError(f"validation_fraction must lie between 0 and 1, got {self.validation_fraction}")
        require_finite("tolerance", self.tolerance)
        if self.block is not None:
            require_count("block", self.block)
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

    def forecaster(self, cost: Cost, execution: Execution) -> DecisionAwareForecaster:
        """An untrained one, or the one to start from."""
        parameters: dict[str, Any] = {
            "cost": cost,
            "model": self.model,
            "decision_weight": self.decision_weight,
            "baseline": True,
            "members": self.members,
            "ensemble": self.ensemble,
            "epochs": self.epochs,
            "validation_fraction": self.validation_fraction,
            "tolerance": self.tolerance,
            "block": "auto" if self.block is None else self.block,
            "device": execution.resolved_device,
            "n_jobs": execution.processes,
            "random_state": self.seed,
            "verbose": 0 if execution.quiet else 1,
        }
        if self.weights is not None:
            parameters["weights"] = self.weights
        if self.start_from is None:
            return DecisionAwareForecaster(**parameters)
        return load_bundle(Path(self.start_from), cost=cost).forecaster.set_params(**parameters, warm_start=True)

    @property
    def start_sha256(self) -> str | None:
        """Which weights training starts from."""
        return None if self.start_from is None else bundle_files(Path(self.start_from))[WEIGHTS]


def asked_of(request: FitRequest, spec: CostSpec, sha256: str) -> dict[str, Any]:
    """What a folder keeps of a request, its cost and the SHA-256 of its data."""
    placed = replace(request, data=str(Path(request.data).resolve()), cost=str(spec.kept()))
    return {
        "request": to_plain(placed),
        "sha256": sha256,
        "cost": spec.record(),
        "start_sha256": request.start_sha256,
    }


def read_asked(file: Path) -> tuple[FitRequest, CostSpec, Mapping[str, Any]]:
    """The request, its cost as recorded, and all else that the file says."""
    asked = read_json(file)
    try:
        request = from_plain(FitRequest, asked["request"], "request")
        spec = CostSpec.from_record(asked["cost"])
    except (KeyError, TypeError, StakesError) as error:
        raise SettingError(f"{file} does not say what was to be fitted: {error}") from error
    if not spec.is_own and ".py:" in str(spec):
        raise SettingError(f"{file} does not say what was to be fitted: the cost {spec.name} names a file of code")
    return request, spec, asked


def claim(file: Path, asked: Mapping[str, Any], what: str) -> None:
    """Write what is asked, or see that the folder was made for the same; where nothing was done yet it may change."""
    out = file.parent
    if not file.exists():
        if any(path.name != ".lock" for path in out.iterdir()):
            raise SettingError(f"{out} is not empty; choose another folder for the {what}")
    elif canonical_text(_essential(read_json(file))) == canonical_text(_essential(asked)):
        return
    elif any(path not in (file, out / ".lock") for path in out.rglob("*") if path.is_symlink() or not path.is_dir()):
        raise SettingError(f"{out} holds a {what} of other data or settings; choose another folder")
    write_json(file, asked)


def _essential(asked: Any) -> Any:
    """Without the places of files, which do not change a fit."""
    if not isinstance(asked, dict) or not isinstance(asked.get("request"), dict):
        return asked
    return {**asked, "request": {key: value for key, value in asked["request"].items() if key not in _KEPT_BESIDE}}
