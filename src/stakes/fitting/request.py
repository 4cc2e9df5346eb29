"""What is asked of a fit, and the file by which a folder keeps it.

The file names no code to run: of a user's own cost it has the name, the parameters and the SHA-256, and whoever goes on
from the folder names the cost's file again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from stakes.cost_text.written_cost import CostSpec
from stakes.data.layout import TableLayout
from stakes.data.outcome_bounds import written_pair
from stakes.errors import SettingError, StakesError
from stakes.files import read_json, write_json
from stakes.fitting.fit_settings import FitSettings
from stakes.forecaster.estimator import DecisionAwareForecaster
from stakes.method.costs import Cost
from stakes.settings import canonical_text, from_plain, to_plain
from stakes.training.execution import Execution

__all__ = ["FitRequest", "claim_folder", "read_request", "request_record"]

_SHARED = (
    *("model", "base", "decision_weight", "conditioned", "members", "ensemble", "ladder", "fresh_errors"),
    *("epochs", "validation_fraction", "tolerance"),
)
_OLDEST = {"base": "none"}  # of requests from before there was a choice
_KEPT_BESIDE = ("data", "cost")  # of a request: told by SHA-256 or in full, not by words or places
_FORMER = ("start_from", "start_sha256")  # of folders from when a refit could start from the weights of the fit before


@dataclass(frozen=True)
class FitRequest(FitSettings):
    """What is to be fitted, and how.

    Attributes:
        data: The file of the table.
        cost: The cost in words, as in --cost, or as a record has it.
        layout: What the columns of the table are.
        hold_test: Whether the forecaster that is saved is the one that was judged, which has not seen the test cases.
    """

    data: str
    cost: str | CostSpec
    layout: TableLayout
    hold_test: bool = field(default=False, metadata={"later": True})

    def forecaster(self, cost: Cost, execution: Execution) -> DecisionAwareForecaster:
        """An untrained one."""
        parameters: dict[str, Any] = {
            **{name: getattr(self, name) for name in _SHARED},
            "cost": cost,
            "outcome_bounds": written_pair(self.outcome_bounds),
            "scoring_rule": self.score,
            "decision_member_count": self.decision_member_count,
            "baseline": True,
            "block": "auto" if self.block is None else self.block,
            "device": execution.resolved_device,
            "n_jobs": execution.processes,
            "random_state": self.seed,
            "verbose": 0 if execution.quiet else 1,
        }
        if self.weights is not None:
            parameters["weights"] = self.weights
        return DecisionAwareForecaster(**parameters)


def request_record(request: FitRequest, spec: CostSpec, sha256: str) -> dict[str, Any]:
    """What a folder keeps of a request.

    Args:
        request: What is asked.
        spec: Its cost.
        sha256: Of the file of its data.
    """
    placed = replace(request, data=str(Path(request.data).resolve()), cost=str(spec.kept()))
    return {"request": to_plain(placed), "sha256": sha256, "cost": spec.record()}


def read_request(file: Path) -> tuple[FitRequest, CostSpec, Mapping[str, Any]]:
    """The request that a folder keeps, its cost as recorded, and all else that the file says.

    Args:
        file: Where `claim_folder` wrote it.
    """
    record = read_json(file)
    try:
        asked = record["request"]
        known = _OLDEST | _without(asked, _FORMER) if isinstance(asked, dict) else asked
        request = from_plain(FitRequest, known, "request")
        spec = CostSpec.from_record(record["cost"])
    except (KeyError, TypeError, StakesError) as error:
        raise SettingError(f"{file} does not say what was to be fitted: {error}") from error
    if not spec.is_own and ".py:" in str(spec):
        raise SettingError(f"{file} does not say what was to be fitted: the cost {spec.name} names a file of code")
    return request, spec, record


def claim_folder(file: Path, record: Mapping[str, Any], what: str) -> None:
    """Write what is asked, or see that the folder was made for the same; where nothing was done yet it may change.

    Args:
        file: Where the folder keeps it.
        record: What is asked, as `request_record` has it.
        what: What the folder holds, for the messages: a fit or a backtest.
    """
    out = file.parent
    if not file.exists():
        if any(path.name != ".lock" for path in out.iterdir()):
            raise SettingError(f"{out} is not empty; choose another folder for the {what}")
    elif canonical_text(_essential(read_json(file))) == canonical_text(_essential(record)):
        return
    elif any(path not in (file, out / ".lock") for path in out.rglob("*") if path.is_symlink() or not path.is_dir()):
        raise SettingError(f"{out} holds a {what} of other data or settings; choose another folder")
    write_json(file, record)


def _essential(record: Any) -> Any:
    """Without the places of files, which do not change a fit."""
    if not isinstance(record, dict) or not isinstance(record.get("request"), dict):
        return record
    return {**_without(record, _FORMER), "request": _without(record["request"], (*_KEPT_BESIDE, *_FORMER))}


def _without(table: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key not in keys}
