"""`stakes backtest`: fitted again and again as time goes on, and judged each time on what came next."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import stakes
from stakes.argument_checks import require_count
from stakes.costs.cost import user_cost_errors
from stakes.data.tables.files import read_table, write_table
from stakes.data.tables.layout import TableCases
from stakes.errors import InterruptedTraining, SettingError
from stakes.evaluation.intervals import Difference, block_length, paired_difference
from stakes.files import locked, write_atomically
from stakes.json_values import json_value
from stakes.reports.comparison import Comparison, comparison_of_backtest
from stakes.reports.report import REPORT, write_comparison
from stakes.reports.sentences import cost_sentences, headline, warning_sentences
from stakes.reports.tables import Result
from stakes.settings import to_plain
from stakes.training.execution import Execution, stop_on_interrupt
from stakes.training.progress import StatusLines
from stakes.workflows.evaluate import judge_forecast
from stakes.workflows.inputs import FitInputs, FitRequest, claim_folder, request_record

SETTINGS = "backtest.json"
# The columns that people are shown; the files have all of them.
_SHOWN = ["origin", "first", "cases", "candidate", "decision_weight", "cost", "weight_0_cost", "weight_0_change"]
_SHOWN += ["weight_0_low", "weight_0_high", "climatology_cost", "today_cost"]
_TABLE, _RESULTS, _CHECKPOINTS = "table.csv", "results.json", "checkpoints"
_FITTED, _WEIGHT, _CANDIDATE = "fitted_cases", "decision_weight", "candidate"  # columns of the judged cases
_RIVALS = ("weight_0", "climatology", "today")


def run_backtest(request: FitRequest, out: Path, origins: int, execution: Execution) -> Result:
    """Fit before each origin and judge after it; a second call goes on with the origins that are not done."""
    require_count("origins", origins)
    inputs, say = FitInputs.read(request), StatusLines(execution.quiet)
    starts = _starts(inputs, origins)
    record = request_record(request, inputs.spec, inputs.sha256) | {"origins": origins}
    inputs.known_at(starts[0])  # there must be some
    notes = inputs.notes  # an own cost may fail for them, before there is a folder
    with locked(out), user_cost_errors(inputs.cost):
        claim_folder(out / SETTINGS, record, "backtest")
        for note in notes:
            say(f"note: {note}")
        parts = [
            _origin(inputs, out, place, starts[place - 1 : place + 1], execution, say)
            for place in range(1, origins + 1)
        ]
        shutil.rmtree(out / _CHECKPOINTS, ignore_errors=True)
        every = pd.concat(parts, ignore_index=True)
        named = {**{str(place): part for place, part in enumerate(parts, start=1)}, "all": every}
        table = pd.DataFrame([_row(name, part, inputs) for name, part in named.items()])
        comparison = _comparison(every, table, inputs, record)
        told = (headline(comparison), *warning_sentences(comparison), cost_sentences(comparison))
        unit, shown = inputs.spec.unit, table[[name for name in _SHOWN if name in table]]
        title = f"mean costs{f' in {unit}' if unit else ''}; changes with their 95 % intervals"
        result = Result(out, unit, (*told, f"Report: {out / REPORT}"), ((title, shown),), {"origins": table})
        write_table(table, out / _TABLE)
        write_atomically(out / _RESULTS, f"{json.dumps(json_value(result.record()), allow_nan=False)}\n".encode())
        write_comparison(comparison, out)
    return result


def _comparison(cases: pd.DataFrame, origins: pd.DataFrame, inputs: FitInputs, record: dict[str, Any]) -> Comparison:
    """What the report tells of."""
    request = {name: value for name, value in record["request"].items() if name not in ("data", "cost", "layout")}
    times = _times(cases, inputs)
    return comparison_of_backtest(
        cases,
        origins,
        tuple(inputs.layout.targets),
        inputs.cost,
        inputs.spec,
        inputs.request.members,
        times=times,
        block=block_length(len(cases), times, inputs.request.block),
        settings={"cost": str(inputs.spec.kept()), "origins": record["origins"], **request, **to_plain(inputs.layout)},
        provenance={
            "data": f"{Path(inputs.request.data).name}, SHA-256 {inputs.sha256}",
            "stakes": stakes.__version__,
        },
    )


def _times(cases: pd.DataFrame, inputs: FitInputs) -> Any:
    return pd.to_datetime(cases.iloc[:, 0]).to_numpy() if inputs.layout.time else None


def _starts(inputs: FitInputs, origins: int) -> list[int]:
    """Where the judged parts begin, and where the last one ends."""
    cases = len(inputs.cases)
    held = round(inputs.request.test_fraction * cases)
    if held < 2 * origins:
        raise SettingError(
            f"test_fraction must leave at least 2 cases for each of {origins} origins, got {held} of {cases} cases"
        )
    return [round(start) for start in np.linspace(cases - held, cases, origins + 1)]


def _origin(
    inputs: FitInputs, out: Path, place: int, rows: list[int], execution: Execution, say: StatusLines
) -> pd.DataFrame:
    """The judged cases of one origin, fitted now or before."""
    file, checkpoints = out / f"origin-{place}.csv", out / _CHECKPOINTS / str(place)
    if not file.exists():
        fitted, later = inputs.known_at(rows[0]), inputs.cases.rows(slice(*rows))
        say(f"origin {place}: fitting on {len(fitted)} cases, judging on {len(later)}")
        write_table(_judged(inputs, fitted, later, checkpoints, execution), file)
    shutil.rmtree(checkpoints, ignore_errors=True)
    return read_table(file)


def _judged(
    inputs: FitInputs, fitted: TableCases, later: TableCases, checkpoints: Path, execution: Execution
) -> pd.DataFrame:
    forecaster = inputs.forecaster(execution)
    with stop_on_interrupt() as stop:
        try:
            features, outcomes = fitted.feature_table, fitted.outcome_table
            forecaster.fit(features, outcomes, times=fitted.times, checkpoints=checkpoints, stop=stop)
        except (InterruptedTraining, KeyboardInterrupt):
            raise InterruptedTraining("interrupted; everything is saved, and the same command resumes") from None
    metrics = judge_forecast(forecaster.forecast_, later).metrics
    if metrics.weight_0 is None:  # it was chosen
        metrics = replace(metrics, weight_0=metrics.chosen)
    selection, facts = forecaster.selection_, {_WEIGHT: forecaster.decision_weight_, _FITTED: len(fitted)}
    return metrics.table().assign(**facts, **({} if selection is None else {_CANDIDATE: selection.selected.name}))


def _row(name: str, part: pd.DataFrame, inputs: FitInputs) -> dict[str, Any]:
    labels = part.iloc[:, 0]
    block = block_length(len(part), _times(part, inputs), inputs.request.block)
    weights = part[_WEIGHT].unique()
    row = {
        "origin": name,
        "first": str(labels.iloc[0]),
        "last": str(labels.iloc[-1]),
        _FITTED: int(part[_FITTED].iloc[0]) if part[_FITTED].nunique() == 1 else None,
        "cases": len(part),
        **({_CANDIDATE: ", ".join(part[_CANDIDATE].unique())} if _CANDIDATE in part else {}),
        _WEIGHT: float(weights[0]) if len(weights) == 1 else float("nan"),
        "cost": float(part["cost"].mean()),
    }
    for rival in _RIVALS:
        if f"{rival}_cost" in part:
            row |= _change(part, rival, block)
    scores = [float(part[column].mean()) for column in ("energy_score", "weight_0_energy_score")]
    return row | {"energy_score": scores[0], "weight_0_energy_score": scores[1]}


def _change(part: pd.DataFrame, rival: str, block: int) -> dict[str, float]:
    """What a rival costs, in so many cases, and the forecast's actions in the same ones; and their difference."""
    values, other = (part[column].to_numpy(np.float64) for column in ("cost", f"{rival}_cost"))
    known = np.isfinite(other)
    difference, means = Difference(*[float("nan")] * 3), [float("nan")] * 2
    if known.any():
        difference = paired_difference(values[None], other[None], block)
        means = [float(each[known].mean()) for each in (values, other)]
    return {
        f"{rival}_cases": int(known.sum()),
        f"cost_beside_{rival}": means[0],
        f"{rival}_cost": means[1],
        **{f"{rival}_{name}": value for name, value in zip(("change", "low", "high"), difference, strict=True)},
    }
