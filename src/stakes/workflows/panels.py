"""From a long table to a fitted forecast of all its series, and from newer rows to a decision for each."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from stakes.artifacts.folder import DataFingerprint, FittedSpan, record_file
from stakes.artifacts.panels import NEWEST, AboutPanel, PanelFit, PolicyCost, save_panel
from stakes.cost_spec.spec import CostSpec
from stakes.data.tables.columns import in_utc
from stakes.data.tables.files import PARQUET, file_suffix, write_table
from stakes.errors import SettingError
from stakes.files import content_digest, locked
from stakes.forecasting.panel_forecaster import PanelEvaluation, PanelForecaster, group_columns
from stakes.forecasting.panels import PanelSettings
from stakes.reports.panel import write_panel_report
from stakes.reports.tables import Result
from stakes.settings import to_plain
from stakes.text import amount_text, change_text, count_text
from stakes.training.progress import StatusLines
from stakes.workflows.decide import DecidedCases, overlap_notes

EVALUATION = "evaluation"


@dataclass(frozen=True)
class PanelRequest:
    """What is to be fitted to a long table, and how."""

    data: Path
    cost: str
    layout: Mapping[str, Any]  # the arguments of `PanelForecaster` that say which columns are what
    settings: PanelSettings = field(default_factory=PanelSettings)
    hold_test: bool = False


def run_panel_fit(request: PanelRequest, out: Path, quiet: bool = False) -> Result:
    """Fit, judge and report."""
    say = StatusLines(quiet)
    settings = {each.name: getattr(request.settings, each.name) for each in fields(PanelSettings)}
    forecaster = PanelForecaster(request.cost, **request.layout, **settings)
    with locked(out):
        if any(path.name != ".lock" for path in out.iterdir()):
            raise SettingError(f"{out} is not empty; choose another folder for the fit")
        sha256 = _digest(request.data)
        forecaster.fit(request.data, hold_test=request.hold_test, say=say)
        for note in forecaster.notes_:
            say(f"note: {note}")
        evaluation, fitted, layout = forecaster.evaluation_, forecaster.fitted_, forecaster.layout_
        assert evaluation is not None
        assert fitted is not None
        assert layout is not None
        sentences = (*_sentences(evaluation, forecaster.cost), *forecaster.notes_)
        times = evaluation.cases["time"]
        about = AboutPanel(
            DataFingerprint(
                request.data.name, max(1, fitted.state.trained), sha256, str(times.min()), str(times.max())
            ),
            settings={name: str(value) for name, value in {**to_plain(layout), **to_plain(request.settings)}.items()},
            policies=_policies(evaluation),
            sentences=sentences,
            today=layout.baseline_action or "",
            fitted=None if forecaster.learned_ is None else FittedSpan(fitted.state.trained, *forecaster.learned_),
        )
        save_panel(out, forecaster, about)
        folder = out / EVALUATION
        folder.mkdir(exist_ok=True)
        series, groups = evaluation.by_series(), evaluation.by_group(group_columns(evaluation))
        write_table(series, folder / "series.parquet")
        write_table(groups, folder / "groups.parquet")
        if (newest := forecaster.newest_) is not None:
            write_table(newest, out / NEWEST)
        write_panel_report(out, about, forecaster.cost, fitted.state, series, groups)
        record_file(out, *(f"{EVALUATION}/{path.name}" for path in sorted(folder.iterdir())), "report.html")
    rows = [(each.name, each.cost, *(each.change or ())) for each in fitted.state.candidates]
    candidates = pd.DataFrame(rows, columns=["candidate", "cost", "more than the selected", "low", "high"])
    title = f"costs of a case in {evaluation.unit}" if evaluation.unit else "costs of a case"
    tables = ("model selection on validation cases", candidates), (title, evaluation.table)
    facts = {"selection": candidates, "evaluation": evaluation.table}
    return Result(out, evaluation.unit, (*sentences, f"Report: {out / 'report.html'}"), tables, facts)


@dataclass(frozen=True)
class DecidedPanel:
    """The decisions of a panel, which are in a file already."""

    cases: int
    uncertified: int
    cost: CostSpec
    notes: tuple[str, ...] = ()

    def record(self) -> dict[str, Any]:
        """For machines."""
        return {"cost": str(self.cost), "cases": self.cases, "uncertified": self.uncertified, "notes": self.notes}


def decide_panel(
    fit: PanelFit, data: Path, out: Path | None, levels: Sequence[float], last: bool
) -> DecidedPanel | DecidedCases:
    """A decision for every series and target time: their table, or, in a parquet file, how many there are.

    They go to the file some series after the other, so that all of them never stand in memory.
    """
    forecaster = fit.forecaster
    panel = forecaster.read(data)
    notes = (*fit.notes, *forecaster.notes_)
    parts = (in_utc(part) for part in forecaster.decided(panel, last, levels))
    if out is None or file_suffix(out) not in PARQUET:
        table = pd.concat(list(parts), ignore_index=True)
        return DecidedCases(table, fit.cost_spec, (*notes, *_uncertified(int((~table["certified"]).sum()), len(table))))
    partial, count, doubtful, writer = out.with_name(f".{out.name}.partial"), 0, 0, None
    try:
        for part in parts:
            table = pa.Table.from_pandas(part, preserve_index=False)
            writer = writer or pq.ParquetWriter(partial, table.schema)
            writer.write_table(table)
            count, doubtful = count + len(part), doubtful + int((~part["certified"]).sum())
        if writer is not None:
            writer.close()
        partial.replace(out)
    finally:
        partial.unlink(missing_ok=True)
    return DecidedPanel(count, doubtful, fit.cost_spec, (*notes, *_uncertified(doubtful, count)))


def evaluate_panel(fit: PanelFit, data: Path) -> PanelEvaluation:
    """What the decisions of a fit were worth where outcomes are known."""
    evaluation, fitted = fit.forecaster.evaluate(data), fit.about.fitted
    times = evaluation.cases["time"].to_numpy()
    same = fit.about.data.sha256 == _digest(data)
    overlap = () if fitted is None else overlap_notes(fitted, times, len(times), same)
    return replace(evaluation, notes=(*fit.notes, *fit.forecaster.notes_, *overlap))


def _uncertified(doubtful: int, count: int) -> tuple[str, ...]:
    return (f"{doubtful} of {count} decisions are not certified",) if doubtful else ()


def _sentences(evaluation: PanelEvaluation, spec: CostSpec) -> tuple[str, ...]:
    """What the test cases say."""
    rows: dict[str, dict[str, float]] = evaluation.table.set_index("decided by").to_dict("index")  # type: ignore[assignment]
    own, unit = rows["forecast"], spec.unit
    other = "today" if "today" in rows else "level and pooled errors"
    beside = rows[other]
    change = (beside["forecast less this"], beside["low"], beside["high"])
    cases, series = count_text(len(evaluation.cases), "test case"), evaluation.cases["series"].nunique()
    words = " a case against ".join(amount_text(float(each["mean cost"]), unit) for each in (own, beside))
    sentences = [
        f"On {cases} of {series:,} series the forecast costs {words} of {other} (change {change_text(change)})."
    ]
    expected = float(evaluation.cases["expected_cost"].mean())
    sentences.append(f"It expected to pay {amount_text(expected, unit)} a case.")
    if change[0] > 0:
        sentences.append(f"Warning: {other} was cheaper.")
    groups = evaluation.by_group(group_columns(evaluation))
    sure = groups[(groups["spread/error"] < 0.85) | (groups["spread/error"] > 1.15)]
    if len(groups):
        sentences.append(f"Spread/error lies in 0.85 to 1.15 for {len(groups) - len(sure)} of {len(groups)} groups.")
    return tuple(sentences)


def _policies(evaluation: PanelEvaluation) -> tuple[PolicyCost, ...]:
    rows = evaluation.table.itertuples(index=False)
    return tuple(
        PolicyCost(policy, int(cases), float(cost), None if math.isnan(change) else (change, low, high))
        for policy, cases, cost, change, low, high in rows
    )


def _digest(path: Path) -> str:
    """The SHA-256 of a file, or of the files of a folder."""
    if path.is_file():
        return content_digest(path)
    together = hashlib.sha256()
    for each in sorted(path.rglob("*.parquet")):
        together.update(f"{each.relative_to(path)} {content_digest(each)}\n".encode())
    return together.hexdigest()
