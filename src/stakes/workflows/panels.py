"""From a long table to a fitted forecast of all its series, and from newer rows to a decision for each."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from stakes.argument_checks import require_count
from stakes.artifacts.folder import DataFingerprint, read_judged
from stakes.artifacts.panels import AboutPanel, PanelFit, load_panel, save_panel
from stakes.cost_spec.spec import CostSpec, cost_again
from stakes.data.tables.columns import in_utc
from stakes.data.tables.files import PARQUET, file_suffix, read_table, write_table
from stakes.data.tables.panels import Panel, PanelLayout
from stakes.errors import SettingError
from stakes.files import content_digest, locked
from stakes.forecasting.panel_forecaster import PanelEvaluation, PanelForecaster
from stakes.forecasting.panels import PanelSettings, time_difference
from stakes.reports.panel import report_of_panel
from stakes.reports.tables import Result
from stakes.settings import to_plain
from stakes.training.execution import Engine
from stakes.training.progress import StatusLines
from stakes.workflows.decide import DecidedCases, overlap_notes
from stakes.workflows.evaluate import newer_sentence
from stakes.workflows.inputs import claim_folder


@dataclass(frozen=True)
class PanelRequest:
    """What is to be fitted to a long table, and how."""

    data: Path
    cost: str
    layout: Mapping[str, Any]  # the arguments of `PanelForecaster` that say which columns are what
    settings: PanelSettings = field(default_factory=PanelSettings)
    hold_test: bool = False

    @classmethod
    def again(cls, fit: PanelFit, data: Path, cost: str | None) -> "PanelRequest":
        """What was asked of a fit, of newer rows."""
        words, layout = cost_again(fit.cost_spec, cost), fit.forecaster.layout_
        asked = {each.name: getattr(layout, each.name) for each in fields(PanelLayout)}
        layout_of_fit = {name: value for name, value in asked.items() if name not in ("parameters", "step")}
        series = {"series": asked["series"] or None}
        return cls(data, str(words), layout_of_fit | series, fit.about.settings, fit.about.hold_test)

    def forecaster(self) -> PanelForecaster:
        """An untrained one."""
        settings = {each.name: getattr(self.settings, each.name) for each in fields(PanelSettings)}
        return PanelForecaster(self.cost, **self.layout, **settings)


def run_panel_fit(request: PanelRequest, out: Path, quiet: bool = False) -> Result:
    """Fit, judge and report."""
    say = StatusLines(quiet)
    forecaster = request.forecaster()
    with locked(out):
        if any(path.name != ".lock" for path in out.iterdir()):
            raise SettingError(f"{out} is not empty; choose another folder for the fit")
        sha256 = _digest(request.data)
        forecaster.fit(request.data, hold_test=request.hold_test, say=say)
        for note in forecaster.notes_:
            say(f"note: {note}")
        evaluation, fitted = forecaster.evaluation_, forecaster.fitted_
        assert evaluation is not None
        assert fitted is not None
        times = evaluation.cases["time"]
        file = DataFingerprint(
            request.data.name, max(1, fitted.state.trained), sha256, str(times.min()), str(times.max())
        )
        about = AboutPanel.of(forecaster, file, request.hold_test)
        save_panel(out, forecaster, about)
        report_of_panel(load_panel(out), out)
    rows = [(each.name, each.cost, *(each.change or ())) for each in fitted.state.candidates]
    candidates = pd.DataFrame(rows, columns=["candidate", "cost", "more than the selected", "low", "high"])
    title = f"costs of a case in {evaluation.unit}" if evaluation.unit else "costs of a case"
    tables = ("model selection on validation cases", candidates), (title, evaluation.table)
    facts = {"selection": candidates, "evaluation": evaluation.table}
    return Result(out, evaluation.unit, (*about.sentences, f"Report: {out / 'report.html'}"), tables, facts)


def refit_panel(folder: Path, data: Path, out: Path, cost: str | None, quiet: bool = False) -> Result:
    """Fit again, to new rows, what was asked for before, and compare both on cases that neither has seen."""
    old = load_panel(folder)
    result = run_panel_fit(PanelRequest.again(old, data, cost), out, quiet)
    seen, cases = old.forecaster.learned_, read_judged(out)
    if seen is None or not (cases["time"] > np.datetime64(seen[1])).any():
        told = "The old forecast and the new one are not compared: no test case is newer than the old fit."
        return replace(result, sentences=(*result.sentences, told))
    own = ["series", "time", *(name for name in ("lead_hours",) if name in cases)]
    before = old.forecaster.evaluate(data, since=str(cases["time"].min())).cases
    both = cases[cases["time"] > np.datetime64(seen[1])].merge(before[[*own, "cost"]], on=own, suffixes=("", "_old"))
    new, paid = both["cost"].to_numpy(), both["cost_old"].to_numpy()
    change = time_difference(new, paid, pd.factorize(both["time"], sort=True)[0])
    told = newer_sentence("fit", "forecast", new, paid, change, result.unit)
    return replace(result, sentences=(*result.sentences, told))


def run_panel_backtest(request: PanelRequest, out: Path, origins: int, quiet: bool = False) -> Result:
    """Fit before each origin and judge after it; a second call goes on with the origins that are not done."""
    require_count("origins", origins)
    say, forecaster = StatusLines(quiet), request.forecaster()
    panel = forecaster.read_first(request.data)
    _, cut, end = forecaster.split(panel)
    if end - cut < origins:
        raise SettingError(f"test_fraction must leave a time for each of {origins} origins, got {end - cut} times")
    starts = [round(start) for start in np.linspace(cut, end, origins + 1)]
    apart = replace(forecaster.settings, engine="serial", workers=None)
    asked = {
        "request": to_plain(replace(request, data=Path(), settings=apart)),
        "sha256": _digest(request.data),
        "origins": origins,
    }
    with locked(out):
        claim_folder(out / "backtest.json", asked, "backtest")
        files = [out / f"origin-{place}.parquet" for place in range(1, origins + 1)]
        missing = [(file, spans) for file, spans in zip(files, pairwise(starts), strict=True) if not file.exists()]
        where, forecaster.settings = forecaster.settings.where, apart
        made = where.map(_judged_origin, (spans for _, spans in missing), forecaster, panel)
        for (file, _), cases in zip(missing, made, strict=True):
            write_table(cases, file)
            say(f"{file.stem} is judged")
        parts = [read_table(file) for file in files]
        named = {str(place): part for place, part in enumerate(parts, start=1)} | {"all": pd.concat(parts)}
        unit = forecaster.cost.unit
        table = pd.concat([_origin_row(name, PanelEvaluation(each, unit)) for name, each in named.items()])
        write_table(table, out / "table.csv")
    every = PanelEvaluation(pd.concat(parts, ignore_index=True), unit)
    title = f"mean costs{f' in {unit}' if unit else ''}, 95 % intervals over time"
    said = (*every.sentences, *forecaster.notes_)
    return Result(out, unit, said, ((title, table),), {"origins": table})


def _judged_origin(forecaster: PanelForecaster, panel: Panel, first: int, stop: int) -> pd.DataFrame:
    """The cases of an origin, each judged by what was known before it."""
    forecaster.judge(panel, first, stop)
    assert forecaster.evaluation_ is not None
    return forecaster.evaluation_.cases


def _origin_row(name: str, evaluation: PanelEvaluation) -> pd.DataFrame:
    times = evaluation.cases["time"]
    table = evaluation.table.assign(origin=name, first=str(times.min()), last=str(times.max()))
    return table[["origin", "first", "last", *evaluation.table.columns]]


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
    fit: PanelFit, data: Path, out: Path | None, levels: Sequence[float], last: bool, engine: Engine
) -> DecidedPanel | DecidedCases:
    """A decision for every series and target time: their table, or, in parquet, how many there are.

    They go to a parquet file, or to files of a folder, some series after the other, so that all of them never stand in
    memory.
    """
    forecaster = working_on(fit, engine)
    if out is not None and not out.suffix and out.exists() and any(out.iterdir()):
        raise SettingError(f"{out} is not empty; choose another folder for the decisions")
    panel = forecaster.read(data)
    notes = (*fit.notes, *forecaster.notes_)
    parts = (in_utc(part) for part in forecaster.decided(panel, last, levels))
    if out is None or (out.suffix and file_suffix(out) not in PARQUET):
        table = pd.concat(list(parts), ignore_index=True)
        return DecidedCases(table, fit.cost_spec, (*notes, *_uncertified(int((~table["certified"]).sum()), len(table))))
    count, doubtful = 0, 0
    partial, writer = out.with_name(f".{out.name}.partial"), None
    try:
        for place, part in enumerate(parts):
            if not out.suffix:
                out.mkdir(exist_ok=True)
                write_table(part, out / f"part-{place:05}.parquet")
            else:
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


def working_on(fit: PanelFit, engine: Engine) -> PanelForecaster:
    """The forecaster of a fit, whose parts are worked on by an engine."""
    fit.forecaster.settings = replace(fit.forecaster.settings, engine=engine.kind, workers=engine.workers)
    return fit.forecaster


def evaluate_panel(fit: PanelFit, data: Path, engine: Engine) -> PanelEvaluation:
    """What the decisions of a fit were worth where outcomes are known."""
    evaluation, fitted = working_on(fit, engine).evaluate(data), fit.about.fitted
    times = evaluation.cases["time"].to_numpy()
    same = fit.about.data is not None and fit.about.data.sha256 == _digest(data)
    overlap = () if fitted is None else overlap_notes(fitted, times, len(times), same)
    return replace(evaluation, notes=(*fit.notes, *fit.forecaster.notes_, *overlap))


def _uncertified(doubtful: int, count: int) -> tuple[str, ...]:
    return (f"{doubtful} of {count} decisions are not certified",) if doubtful else ()


def _digest(path: Path) -> str:
    """The SHA-256 of a file, or of the files of a folder."""
    if path.is_file():
        return content_digest(path)
    together = hashlib.sha256()
    for each in sorted(path.rglob("*.parquet")):
        together.update(f"{each.relative_to(path)} {content_digest(each)}\n".encode())
    return together.hexdigest()
