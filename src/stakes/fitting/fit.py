"""From a table and a cost to a fitted forecaster, judged on the last part of the table, with its report.

The folder holds `fit.json` (what was asked), `headroom.json`, `checkpoints/` while there is training to be done,
`evaluation/` (the study of the test cases) and then the bundle; `bundle.json` says that all of it is done.
"""

import platform
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

import stakes
from stakes.bundle import bundle_files, is_bundle, load_bundle, record_file, save_bundle
from stakes.cost_text.cost_on_record import cost_again
from stakes.cost_text.own_cost_file import naming_own_cost
from stakes.cost_text.written_cost import CostSpec
from stakes.data.layout import TableCases, TableLayout
from stakes.data.stored_cases import save_cases
from stakes.data.tables import read_table
from stakes.errors import InterruptedTraining, TableError
from stakes.evaluation.case_metrics import summary_table
from stakes.evaluation.headroom import Headroom
from stakes.files import content_digest, locked, read_json, write_json
from stakes.fitting.judgement import judge_fit
from stakes.fitting.request import FitRequest, asked_of, claim, read_asked
from stakes.forecaster import DecisionAwareForecaster
from stakes.method.costs import Cost
from stakes.reports.fit_report import REPORT, read_judged_fit, write_fit_report
from stakes.reports.fit_sentences import climatology_sentence, today_sentence, verdict
from stakes.settings import from_plain, shown, to_plain
from stakes.status_lines import StatusLines
from stakes.training.execution import Execution
from stakes.training.interrupts import stop_on_interrupt

__all__ = ["FIT", "FitRequest", "FitResult", "Problem", "resume_fit", "run_fit"]

FIT = "fit.json"
"""What was asked, in the folder of a fit."""

_HEADROOM, _CHECKPOINTS = "headroom.json", "checkpoints"
_OUTCOMES_KEPT = 2000  # of the training outcomes, for the figure of the cost


@dataclass(frozen=True, eq=False)
class Problem:
    """A request with its data read: the cases to fit on and those to judge by, in time order."""

    request: FitRequest
    spec: CostSpec
    cost: Cost
    layout: TableLayout
    cases: TableCases
    sha256: str  # of the data
    passed_over: tuple[str, ...] = ()  # columns that might have been features, but hold no numbers

    @classmethod
    def read(cls, request: FitRequest) -> "Problem":
        """Read the table and build the cost."""
        spec = CostSpec.parse(request.cost)
        cost = spec.build()
        path = Path(request.data)
        table = read_table(path, separator=request.separator, encoding=request.encoding)
        layout = request.layout.resolved(table)
        passed_over = () if request.layout.features else layout.unused(table)
        return cls(request, spec, cost, layout, layout.cases(table), content_digest(path), passed_over)

    @property
    def parts(self) -> tuple[TableCases, TableCases | None]:
        """The cases to fit on, and those to judge by; what lies between is not known when the first one is issued."""
        held = round(self.request.test_fraction * len(self.cases))
        if not held:
            return self.cases, None
        return self.known_at(len(self.cases) - held), part_of(self.cases, slice(-held, None))

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know before any training: columns that are no features, and doubts about the cost."""
        names = ", ".join(map(shown, self.passed_over))
        passed_over = (f"columns without numbers are no features: {names}",) if names else ()
        return (*passed_over, *self.spec.doubts(_outcomes(self.cases)))

    def known_at(self, start: int) -> TableCases:
        """The cases whose outcomes are known when the forecast of case `start` is issued, `lead` before its time."""
        times, lead, end = self.cases.times, self.layout.lead, start
        if times is not None and lead is not None:
            issued = times[start] - np.timedelta64(round(lead * 3600), "s")
            end = int(np.searchsorted(times, issued, side="right"))
        if end < 2:
            raise TableError(
                f"only {end} cases are known when the first forecast to be judged is issued; a smaller test_fraction "
                "leaves more"
            )
        return part_of(self.cases, slice(None, end))


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
    unit: str = ""  # of the cost

    @property
    def title(self) -> str:
        """What the numbers of the table are in."""
        return f"costs in {self.unit}" if self.unit else ""

    def record(self) -> dict[str, Any]:
        """For machines."""
        return {
            "folder": str(self.folder),
            "decision_weight": self.decision_weight,
            "unit": self.unit,
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
    problem, execution, say = Problem.read(request), Execution(device, workers, quiet), StatusLines(quiet)
    asked, _ = asked_of(request, problem.spec, problem.sha256), problem.parts  # which must be there before a folder is
    for note in problem.notes:
        say(f"note: {note}")
    with locked(out), naming_own_cost(problem.cost):
        claim(out / FIT, asked, "fit")
        if is_bundle(out):
            return _kept(out, problem)
        found = _headroom(problem, out, execution, say) if headroom or headroom_only else None
        if headroom_only:
            assert found is not None
            return FitResult(out, _headroom_table(found), (found.sentence,), None, problem.spec.unit)
        return _fit(problem, out, execution, say, found)


def resume_fit(folder: Path, execution: Execution, cost: str | None = None) -> FitResult:
    """Go on with a fit that was interrupted, with the data it was asked for; a user's own cost is given again."""
    request, kept, _ = read_asked(folder / FIT)
    request = replace(request, cost=str(cost_again(kept, cost)))
    headroom = (folder / _HEADROOM).exists() or not (folder / _CHECKPOINTS).exists()  # else it was not wanted
    device, workers, quiet = execution.device, execution.workers, execution.quiet
    return run_fit(request, folder, device=device, workers=workers, quiet=quiet, headroom=headroom)


def _headroom(problem: Problem, out: Path, execution: Execution, say: StatusLines) -> Headroom:
    file = out / _HEADROOM
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


def _fit(problem: Problem, out: Path, execution: Execution, say: StatusLines, headroom: Headroom | None) -> FitResult:
    cases, test = problem.parts
    forecaster = problem.request.forecaster(problem.cost, execution)
    say(f"training on {len(cases)} cases")
    _trained(forecaster, cases, out)
    metrics = {}
    if test is not None:
        say(f"judging on the last {len(test)} cases")
        judgement = judge_fit(forecaster, test)
        rows = judgement.table().to_dict("records")
        metrics = {row["metric"]: {key: row[key] for key in row if key != "metric"} for row in rows}
        judgement.study().save(out / "evaluation")
        save_cases(out, test)
    about = _about(problem, headroom, metrics, _reason(forecaster), execution)
    save_bundle(out, forecaster, cost_spec=problem.spec, layout=problem.layout, about=about)
    return _finished(problem, out, about, forecaster.decision_weight_)


def _finished(problem: Problem, out: Path, about: Mapping[str, Any], weight: float) -> FitResult:
    """What is left to do once the bundle is saved, and what the fit says."""
    shutil.rmtree(out / _CHECKPOINTS, ignore_errors=True)
    table = summary_table(about["metrics"])
    recorded = bundle_files(out)
    evaluation = sorted(str(path.relative_to(out)) for path in out.glob("evaluation/*") if path.is_file())
    if fresh := [name for name in evaluation if name not in recorded]:
        record_file(out, *fresh)
    if len(table) and not (out / REPORT).exists():
        write_fit_report(out, problem.cost)
    return FitResult(out, table, _sentences(problem, about, out), weight, problem.spec.unit)


def _trained(forecaster: DecisionAwareForecaster, cases: TableCases, out: Path) -> None:
    with stop_on_interrupt() as stop:
        try:
            forecaster.fit(cases.features, cases.outcomes, times=cases.times, checkpoints=out / _CHECKPOINTS, stop=stop)
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
    request = to_plain(problem.request)
    settings = {key: value for key, value in request.items() if key not in ("data", "layout", "start_from")}
    start = {"start_sha256": problem.request.start_sha256} if problem.request.start_from else {}
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
        "fitted": _fitted(problem.parts[0]),
        "settings": {**settings, "cost": str(problem.spec.kept()), **start, **to_plain(problem.layout)},
        "provenance": {
            "data": Path(problem.request.data).name,
            "stakes": stakes.__version__,
            "torch, numpy, pandas": f"{torch.__version__}, {np.__version__}, {pd.__version__}",
            "python": platform.python_version(),
            "trained on": execution.resolved_device,
        },
    }


def _fitted(cases: TableCases) -> dict[str, Any]:
    """How many cases the fit saw, and from when to when."""
    first, last = (None, None) if cases.times is None else (str(cases.times[0]), str(cases.times[-1]))
    return {"cases": len(cases), "first": first, "last": last}


def _outcomes(cases: TableCases) -> Any:
    assert cases.outcomes is not None
    return cases.outcomes.to_numpy(np.float64)


def _reason(forecaster: DecisionAwareForecaster) -> str:
    chosen = forecaster.frontier_
    return f"Decision weight {forecaster.decision_weight_:g}, as given." if chosen is None else chosen.reason


def _sentences(problem: Problem, about: Mapping[str, Any], out: Path) -> tuple[str, ...]:
    """Whether there is anything to gain, which weight was taken and why, and how it did on the test cases."""
    headroom = about["headroom"]
    found = [*([] if headroom is None else [from_plain(Headroom, headroom).sentence]), about["reason"]]
    if not about["metrics"]:
        return (*found, "No case was kept to judge by: no report.")
    judged = read_judged_fit(out, problem.cost)
    if judged.weight or judged.frontier is None:  # else the verdict is the reason
        found.append(verdict(judged)[0])
    return (*found, *today_sentence(judged), *climatology_sentence(judged), f"Report: {out / REPORT}")


def _kept(out: Path, problem: Problem) -> FitResult:
    """What a finished fit said."""
    bundle = load_bundle(out, cost=problem.spec)
    return _finished(problem, out, bundle.about, bundle.forecaster.decision_weight_)
