"""From a table and a cost to a fitted forecaster, judged on the last part of the table, with its report.

The folder holds `fit.json` (what was asked), `headroom.json`, `checkpoints/` while there is training to be done,
`evaluation/` (the study of the test cases) and then the bundle; `bundle.json` says that all of it is done.
"""

import platform
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch

import stakes
from stakes.bundle import is_bundle, load_bundle, record_file, save_bundle
from stakes.checks import require_one_of
from stakes.commands.reading import blaming
from stakes.cost_specs import CostSpec
from stakes.costs import Cost
from stakes.data.datasets import content_digest
from stakes.data.layout import TableCases, TableLayout
from stakes.data.stored_cases import save_cases
from stakes.data.tables import read_table
from stakes.errors import SettingError
from stakes.evaluation.fitted import judge_fit
from stakes.evaluation.headroom import Headroom
from stakes.forecaster import DecisionAwareForecaster
from stakes.reporting.fit_report import write_fit_report
from stakes.reporting.voice import Voice
from stakes.training.checkpoints import read_json, write_json
from stakes.training.execution import Execution
from stakes.training.interrupts import stop_on_interrupt
from stakes.training.results import InterruptedTraining
from stakes.training.run_folder import locked
from stakes.typed import canonical_text, from_plain, to_plain

__all__ = ["FitRequest", "FitResult", "Problem", "resume_fit", "run_fit"]

_OUTCOMES_KEPT = 2000  # of the training outcomes, for the figure of the cost


@dataclass(frozen=True)
class FitRequest:
    """What is to be fitted: the words of the command line."""

    data: str
    cost: str
    layout: TableLayout
    model: str = "implicit"
    decision_weight: float | Literal["auto"] = "auto"
    members: int = 500
    ensemble: int = 1
    epochs: int | None = None
    test_fraction: float = 0.2
    tolerance: float = 2.0
    seed: int = 0
    separator: str | None = None
    encoding: str | None = None
    start_from: str | None = None  # the folder of a fit whose weights training starts from

    def __post_init__(self) -> None:
        require_one_of("model", self.model, ("implicit", "diffusion"))
        if not 0 <= self.test_fraction < 1:
            raise SettingError(f"test_fraction must lie in [0, 1), got {self.test_fraction}")

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
            "tolerance": self.tolerance,
            "device": execution.resolved_device,
            "n_jobs": execution.processes,
            "random_state": self.seed,
            "verbose": 0 if execution.quiet else 1,
        }
        if self.start_from is None:
            return DecisionAwareForecaster(**parameters)
        return load_bundle(Path(self.start_from), cost=cost).forecaster.set_params(**parameters, warm_start=True)


@dataclass(frozen=True, eq=False)
class Problem:
    """A request with its data read: the cases to fit on and those to judge by, in time order."""

    request: FitRequest
    spec: CostSpec
    cost: Cost
    layout: TableLayout
    cases: TableCases
    sha256: str  # of the data

    @classmethod
    def read(cls, request: FitRequest) -> "Problem":
        """Read the table and build the cost."""
        spec = CostSpec.parse(request.cost)
        cost = spec.build()
        path = Path(request.data)
        table = read_table(path, separator=request.separator, encoding=request.encoding)
        layout = request.layout.resolved(table)
        return cls(request, spec, cost, layout, layout.cases(table), content_digest(path))

    @property
    def parts(self) -> tuple[TableCases, TableCases | None]:
        """The cases to fit on, and those to judge by."""
        held = round(self.request.test_fraction * len(self.cases))
        if not held:
            return self.cases, None
        return part_of(self.cases, slice(None, -held)), part_of(self.cases, slice(-held, None))


def part_of(cases: TableCases, rows: slice) -> TableCases:
    """Some of the cases."""
    assert cases.outcomes is not None
    return replace(
        cases,
        features=cases.features.iloc[rows],
        outcomes=cases.outcomes.iloc[rows],
        times=None if cases.times is None else cases.times[rows],
        baseline_action=None if cases.baseline_action is None else cases.baseline_action[rows],
    )


@dataclass(frozen=True, eq=False)
class FitResult:
    """What a fit leaves: its folder, the table of its worth on the test cases, and what to know in sentences."""

    folder: Path
    table: pd.DataFrame
    sentences: tuple[str, ...]
    decision_weight: float | None

    def record(self) -> dict[str, Any]:
        """For machines."""
        return {
            "folder": str(self.folder),
            "decision_weight": self.decision_weight,
            "sentences": list(self.sentences),
            "evaluation": self.table,
        }


def run_fit(
    request: FitRequest,
    out: Path,
    *,
    device: str = "auto",
    workers: int | None = None,
    quiet: bool = False,
    headroom: bool = True,
    headroom_only: bool = False,
) -> FitResult:
    """Fit, judge and report; a second call with the same request goes on where the first was interrupted."""
    problem, execution, say = Problem.read(request), Execution(device, workers, quiet), Voice(quiet)
    for doubt in problem.spec.doubts(_outcomes(problem.cases)):
        say(f"note: {doubt}")
    with locked(out), blaming(problem.cost):
        _claim(out, problem)
        if is_bundle(out):
            return _kept(out, problem)
        found = _headroom(problem, out, execution, say) if headroom or headroom_only else None
        if headroom_only:
            assert found is not None
            return FitResult(out, _headroom_table(found), (found.sentence,), None)
        return _fit(problem, out, execution, say, found)


def resume_fit(folder: Path, execution: Execution) -> FitResult:
    """Go on with a fit that was interrupted, with the data it was asked for."""
    asked = read_json(folder / "fit.json")
    try:
        request = from_plain(FitRequest, asked["request"])
    except (KeyError, TypeError) as error:
        raise SettingError(f"{folder / 'fit.json'} does not say what was to be fitted: {error}") from error
    device, workers = execution.device, execution.workers
    return run_fit(request, folder, device=device, workers=workers, quiet=execution.quiet)


def _claim(out: Path, problem: Problem) -> None:
    """Write what is asked, or see that the folder was made for the same."""
    request = replace(problem.request, data=str(Path(problem.request.data).resolve()))
    asked = {"request": to_plain(request), "sha256": problem.sha256, "cost": problem.spec.record()}
    file = out / "fit.json"
    if not file.exists():
        if is_bundle(out) or any(path.name != ".lock" for path in out.iterdir()):
            raise SettingError(f"{out} is not empty; choose another folder for the fit")
        write_json(file, asked)
    elif canonical_text(_essential(read_json(file))) != canonical_text(_essential(asked)):
        raise SettingError(f"{out} holds a fit of other data or settings; choose another folder")


def _essential(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Without the places of files, which do not change a fit."""
    request = {key: value for key, value in asked["request"].items() if key not in ("data", "cost", "start_from")}
    return {**asked, "request": request}


def _headroom(problem: Problem, out: Path, execution: Execution, say: Voice) -> Headroom:
    file = out / "headroom.json"
    if file.exists():
        return from_plain(Headroom, read_json(file))
    say("asking whether there is anything to gain")
    cases, _ = problem.parts
    forecaster = problem.request.forecaster(problem.cost, execution)
    found = forecaster.headroom(cases.features, cases.outcomes, times=cases.times)
    write_json(file, to_plain(found))
    say(found.sentence)
    return found


def _headroom_table(found: Headroom) -> pd.DataFrame:
    names = {"forecast": found.forecast_cost, "policy": found.policy_cost}
    names |= {"climatology": found.climatology_cost, "foresight": found.foresight_cost}
    return pd.DataFrame({"decided by": list(names), "mean cost": list(names.values())})


def _fit(problem: Problem, out: Path, execution: Execution, say: Voice, headroom: Headroom | None) -> FitResult:
    cases, test = problem.parts
    forecaster = problem.request.forecaster(problem.cost, execution)
    say(f"training on {len(cases)} cases")
    _trained(forecaster, cases, out)
    table, metrics = pd.DataFrame(), {}
    if test is not None:
        say(f"judging on the last {len(test)} cases")
        judgement = judge_fit(forecaster, test)
        table = judgement.table()
        metrics = {row["metric"]: {key: row[key] for key in row if key != "metric"} for row in table.to_dict("records")}
        judgement.study({"unit": ""}).save(out / "evaluation")
        save_cases(out, test)
    about = _about(problem, headroom, metrics, _reason(forecaster), execution)
    save_bundle(out, forecaster, cost_spec=problem.spec, layout=problem.layout, about=about)
    for file in sorted(path for path in out.glob("evaluation/*") if path.is_file()):
        record_file(out, str(file.relative_to(out)))
    shutil.rmtree(out / "checkpoints", ignore_errors=True)
    if test is not None:
        write_fit_report(out, problem.cost)
    return FitResult(out, table, _sentences(about, out), forecaster.decision_weight_)


def _trained(forecaster: DecisionAwareForecaster, cases: TableCases, out: Path) -> None:
    with stop_on_interrupt() as stop:
        try:
            forecaster.fit(
                cases.features, cases.outcomes, times=cases.times, checkpoints=out / "checkpoints", stop=stop
            )
        except (InterruptedTraining, KeyboardInterrupt):
            raise InterruptedTraining(
                f"interrupted; everything is saved, the same command or `stakes resume {out}` goes on from there"
            ) from None


def _about(
    problem: Problem,
    headroom: Headroom | None,
    metrics: Mapping[str, Any],
    reason: str,
    execution: Execution,
) -> dict[str, Any]:
    quality = problem.cases.quality
    outcomes = _outcomes(problem.parts[0])
    every = -(-len(outcomes) // _OUTCOMES_KEPT)
    settings = {key: value for key, value in to_plain(problem.request).items() if key not in ("data", "layout")}
    return {
        "data": {
            "file": Path(problem.request.data).name,
            "rows": quality.rows,
            "sha256": problem.sha256,
            "first": quality.first,
            "last": quality.last,
        },
        "metrics": metrics,
        "headroom": None if headroom is None else to_plain(headroom),
        "quality": to_plain(quality),
        "outcomes": outcomes[::every].tolist(),
        "reason": reason,
        "settings": {**settings, "cost": str(problem.spec), **to_plain(problem.layout)},
        "provenance": {
            "data": Path(problem.request.data).name,
            "stakes": stakes.__version__,
            "torch, numpy, pandas": f"{torch.__version__}, {np.__version__}, {pd.__version__}",
            "python": platform.python_version(),
            "trained on": execution.resolved_device,
        },
    }


def _outcomes(cases: TableCases) -> Any:
    assert cases.outcomes is not None
    return cases.outcomes.to_numpy(np.float64)


def _reason(forecaster: DecisionAwareForecaster) -> str:
    chosen = forecaster.frontier_
    return f"Decision weight {forecaster.decision_weight_:g}, as given." if chosen is None else chosen.reason


def _sentences(about: Mapping[str, Any], out: Path) -> tuple[str, ...]:
    report = out / "report.html"
    found = [about["reason"]]
    if about["headroom"] is not None:
        found.insert(0, from_plain(Headroom, about["headroom"]).sentence)
    return (*found, *([f"Report: {report}"] if report.exists() else ["No case was kept to judge by: no report."]))


def _kept(out: Path, problem: Problem) -> FitResult:
    """What a finished fit said."""
    bundle = load_bundle(out, cost=problem.spec)
    rows = [{"metric": name, **values} for name, values in bundle.about["metrics"].items()]
    if rows and not (out / "report.html").exists():
        write_fit_report(out, problem.cost)
    return FitResult(out, pd.DataFrame(rows), _sentences(bundle.about, out), bundle.forecaster.decision_weight_)
