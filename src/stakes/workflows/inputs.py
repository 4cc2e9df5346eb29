"""What is asked of a fit, and the data read: the cases to fit on, those to judge by, and what to know about them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from stakes.cost_spec.spec import CostSpec
from stakes.costs.cost import Cost, ParameterColumn
from stakes.data.outcome_bounds import written_pair
from stakes.data.tables.columns import likely_directions
from stakes.data.tables.files import read_table
from stakes.data.tables.layout import TableCases, TableLayout, left_out_notes
from stakes.errors import SettingError, StakesError, TableError
from stakes.evaluation.case_metrics import todays_cost, todays_notes
from stakes.evaluation.selection import too_few_to_choose
from stakes.files import content_digest, read_json, write_json
from stakes.forecasting.forecaster import DecisionAwareForecaster
from stakes.forecasting.parameters import FitSettings, ForecastSettings
from stakes.forecasting.plan import divided_rows
from stakes.settings import canonical_text, from_plain, shown, to_plain
from stakes.training.execution import Execution

_KEPT_BESIDE = ("data", "cost")  # of a request: told by SHA-256 or in full, not by words or places


@dataclass(frozen=True)
class FitRequest(FitSettings):
    """What is to be fitted, and how."""

    data: str  # the file of the table
    cost: str | CostSpec  # the cost in words, as in --cost, or as a record has it
    layout: TableLayout  # what the columns of the table are
    hold_test: bool = False

    def forecaster(self, cost: Cost, execution: Execution) -> DecisionAwareForecaster:
        """An untrained one."""
        parameters: dict[str, Any] = {
            **{each.name: getattr(self, each.name) for each in fields(ForecastSettings)},
            "cost": cost,
            "model": self.model,
            "outcome_bounds": written_pair(self.outcome_bounds),
            "scoring_rule": self.score,
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
    """What a folder keeps of a request."""
    placed = replace(request, data=str(Path(request.data).resolve()), cost=str(spec.kept()))
    return {"request": to_plain(placed), "sha256": sha256, "cost": spec.record()}


def read_request(file: Path) -> tuple[FitRequest, CostSpec, Mapping[str, Any]]:
    """The request that a folder keeps, its cost as recorded, and all else that the file says."""
    record = read_json(file)
    try:
        request = from_plain(FitRequest, record["request"], "request")
        spec = CostSpec.from_record(record["cost"])
    except (KeyError, TypeError, StakesError) as error:
        raise SettingError(f"{file} does not say what was to be fitted: {error}") from error
    if not spec.is_own and ".py:" in str(spec):
        raise SettingError(f"{file} does not say what was to be fitted: the cost {spec.name} names a file of code")
    return request, spec, record


def claim_folder(file: Path, record: Mapping[str, Any], what: str) -> None:
    """Write what is asked, or see that the folder was made for the same; where nothing was done yet it may change."""
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
    return {**record, "request": {key: each for key, each in record["request"].items() if key not in _KEPT_BESIDE}}


_TIMES = ("time", "times", "date", "datetime", "timestamp", "day", "valid_time")  # columns that tell a time, by name
_SAME_TIME = (
    "the features have the time of the target: this is a forecast only if they are known beforehand, as weather "
    "forecasts are; --lags and --lead take them from earlier times"
)


@dataclass(frozen=True, eq=False)
class FitInputs:
    """A request with its table read and its cost built."""

    request: FitRequest  # what is asked
    spec: CostSpec  # the cost in words
    cost: Cost  # the cost itself
    layout: TableLayout  # what the columns of the table are, with all features named
    cases: TableCases  # all cases of the table, in time order
    sha256: str  # of the file of the table
    not_numbers: tuple[str, ...] = ()  # columns that might have been features, but hold no numbers

    @classmethod
    def read(cls, request: FitRequest) -> "FitInputs":
        """Read the table and build the cost."""
        spec = CostSpec.given(request.cost)
        cost = spec.build()
        ParameterColumn.of(cost, request.conditioned)  # which checks that there is a range to see
        path = Path(request.data)
        table = read_table(path, separator=request.separator, encoding=request.encoding)
        layout = _with_directions(request.layout.resolved(table), request.directions, table)
        not_numbers = () if request.layout.features else layout.unused(table)
        cases = layout.cases(table)
        if cases.today is not None:  # which must be an action of this cost, before anything is trained
            todays_cost(spec.at().build(), cases.today[:1], cases.outcome[:1])
        return cls(request, spec, cost, layout, cases, content_digest(path), not_numbers)

    @property
    def split(self) -> tuple[TableCases, TableCases | None]:
        """The cases to fit on, and those to judge by; what lies between is not known when the first one is issued."""
        held = round(self.request.test_fraction * len(self.cases))
        if not held:
            return self.cases, None
        return self.known_at(len(self.cases) - held), self.cases.rows(slice(-held, None))

    @property
    def served(self) -> TableCases:
        """The cases that the forecaster is fitted on which is saved."""
        return self.split[0] if self.request.hold_test else self.cases

    @property
    def served_sentence(self) -> str:
        """Which cases the saved forecaster has seen, and which the one that is judged."""
        judged, all_cases = len(self.split[0]), len(self.cases)
        if self.request.hold_test:
            return f"The saved forecast is the one of this report, fitted on the {judged:,} cases before the test."
        return (
            f"The saved forecast is fitted on all {all_cases:,} cases, test cases included; all figures here are of "
            f"the same fit on the {judged:,} cases before them."
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know before any training: of the features, of rows left out, and what is doubtful about the cost."""
        layout, notes = self.layout, []
        if names := ", ".join(map(shown, self.not_numbers)):
            notes.append(f"columns without numbers are not used as features: {names}")
        if self.request.directions == "auto" and (names := ", ".join(map(shown, layout.directions))):
            notes.append(f"directions in degrees, replaced by sine and cosine: {names} (--directions none prevents it)")
        timed = layout.time is not None or any(name.lower() in _TIMES for name in self.not_numbers)
        if timed and layout.features and not layout.lags:  # as they stand
            notes.append(_SAME_TIME)
        doubts = self.spec.doubts(self.cases.outcome.numpy(), layout.targets)
        today = todays_notes(self.cost, self.cases.today, len(layout.targets))
        return (*notes, *left_out_notes(self.cases.quality), *doubts, *today)

    @property
    def gap(self) -> int:
        """How many cases the lead time spans, by the usual step from one case to the next."""
        times, lead = self.cases.times, self.layout.lead
        if times is None or not lead or len(times) < 2:
            return 0
        step = np.median(np.diff(times) / np.timedelta64(1, "h"))
        return min(len(times), math.ceil(lead / step)) if step else 0

    def forecaster(self, execution: Execution) -> DecisionAwareForecaster:
        """An untrained forecaster that knows the lead time."""
        return self.request.forecaster(self.cost, execution).set_params(gap=self.gap)

    @property
    def too_few_notes(self) -> tuple[str, ...]:
        """A sentence where a fit to all but the cases to judge by is to choose a candidate or a weight, and cannot."""
        request, (cases, _) = self.request, self.split
        if request.decision_weight != "auto":
            return ()
        divided = divided_rows(request.validation_fraction, request.block or "auto", len(cases), cases.times)
        few = too_few_to_choose(len(divided.judged), divided.block)
        selected = "the linear forecast" if request.model_selection else "weight 0"
        return (f"of the validation rows {few}: {selected} is selected whatever the others cost",) if few else ()

    def known_at(self, start: int) -> TableCases:
        """The cases whose outcomes are known when the forecast of case `start` is issued, `lead` before its time."""
        times, lead, end = self.cases.times, self.layout.lead, start
        if times is not None and lead is not None:
            issued = times[start] - np.timedelta64(round(lead * 3600), "s")
            end = int(np.searchsorted(times, issued, side="right"))
        if end < 2:
            raise TableError(
                f"only {end} cases are known when the first test forecast is issued; lower test_fraction to leave more"
            )
        return self.cases.rows(slice(None, end))


def _with_directions(
    layout: TableLayout, wanted: tuple[str, ...] | Literal["auto"], table: pd.DataFrame
) -> TableLayout:
    """The layout with the directions that are wanted, or with those that the table seems to have."""
    if wanted != "auto":
        return replace(layout, directions=wanted)
    likely = likely_directions(table, (*layout.features, *layout.known))
    return layout if layout.directions else replace(layout, directions=likely)
