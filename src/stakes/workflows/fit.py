"""From a table and a cost to a fitted forecaster, judged on held-out rows; and the same again on new data."""

import platform
import shutil
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

import stakes
from stakes.artifacts.fits import AboutFit, load_bundle, save_bundle
from stakes.artifacts.folder import (
    JUDGED_CASES,
    WATCHED,
    DataFingerprint,
    FittedSpan,
    chosen_cost,
    is_saved,
    read_judged,
    read_manifest,
    record_file,
    save_cases,
)
from stakes.cost_spec.spec import CostSpec, cost_again
from stakes.costs.cost import ranged_parameter, user_cost_errors
from stakes.data.tables.files import read_table, without_noise, write_table
from stakes.data.tables.layout import TableCases
from stakes.errors import InterruptedTraining, SettingError, StakesError
from stakes.evaluation.case_metrics import WorthAtValue, summary_table
from stakes.evaluation.intervals import block_length, paired_difference
from stakes.files import locked, write_json
from stakes.forecasting.corrections import correction_sentence
from stakes.forecasting.forecaster import DecisionAwareForecaster
from stakes.forecasting.parameters import FitSettings
from stakes.reports.comparison import Comparison, comparison_of_bundle, comparison_of_fit
from stakes.reports.report import REPORT, write_comparison
from stakes.reports.sentences import (
    cost_sentences,
    dearer_than_expected,
    headline,
    warning_sentences,
    weight_sentences,
)
from stakes.reports.tables import Result, shown_selection
from stakes.settings import to_plain
from stakes.training.execution import Execution, stop_on_interrupt
from stakes.training.progress import StatusLines
from stakes.workflows.evaluate import judge_by_parameter, judge_forecast, newer_sentence
from stakes.workflows.inputs import FitInputs, FitRequest, claim_folder, read_request, request_record

FIT = "fit.json"
"""What was asked, in the folder of a fit."""

_SELECTION = "selection.json"
_CHECKPOINTS, _SERVICE_CHECKPOINTS = "checkpoints", "checkpoints/service"
_OUTCOMES_KEPT = 2000  # of the training outcomes, for the figure of the cost


def run_fit(request: FitRequest, out: Path, execution: Execution) -> Result:
    """Fit, judge and report; a second call with the same request goes on where the first was interrupted."""
    inputs, say = FitInputs.read(request), StatusLines(execution.quiet)
    record = request_record(request, inputs.spec, inputs.sha256)
    _, notes = inputs.split, inputs.notes  # there must be a split, and a cost that works, before there is a folder
    with locked(out), user_cost_errors(inputs.cost):
        claim_folder(out / FIT, record, "fit")
        for note in notes:
            say(f"note: {note}")
        if is_saved(out):
            return _kept(inputs, out)
        for note in inputs.too_few_notes:
            say(f"note: {note}")
        return _fit(inputs, out, execution, say)


def _fit(inputs: FitInputs, out: Path, execution: Execution, say: StatusLines) -> Result:
    cases, test = inputs.split
    forecaster = inputs.forecaster(execution)
    say(f"training on {len(cases)} cases")
    _trained(forecaster.fit, cases, out, _CHECKPOINTS)
    metrics, judged, parts = {}, None, None
    by_parameter: tuple[WorthAtValue, ...] = ()
    if test is not None:
        say(f"judging on the last {len(test)} cases")
        judgement = judge_forecast(forecaster.forecast_, test)
        rows = judgement.table().to_dict("records")
        metrics = {row["metric"]: {key: row[key] for key in row if key != "metric"} for row in rows}
        watched = judgement.forecast.errors(judgement.forecast.cases(test.feature_table, test.outcome_table))
        judged = judgement.case_table().assign(**{WATCHED + name: each for name, each in watched._asdict().items()})
        judged = judged.assign(**judgement.regret_columns())
        parts = judgement.parts
        by_parameter = judge_by_parameter(forecaster.forecast_, test, judgement.block)
        save_cases(out, test)
        write_table(judged, out / JUDGED_CASES)
        forecaster.selection_ = forecaster.tested_selection(test.feature_table, test.outcome_table, times=test.times)
        if not inputs.request.hold_test:
            say(f"training on all {len(inputs.cases)} cases, test cases included, for service")
            _trained(forecaster.refit, inputs.cases, out, _SERVICE_CHECKPOINTS)
    about = replace(_about(inputs, metrics, forecaster, execution), parts=parts, by_parameter=by_parameter)
    if forecaster.selection_ is not None:
        write_json(out / _SELECTION, forecaster.selection_.record())
    comparison = None
    if judged is not None:
        _, words, _ = chosen_cost(inputs.spec.record(), inputs.cost)
        frontier, selection = forecaster.frontier_, forecaster.selection_
        state = forecaster.forecast_.state
        comparison = comparison_of_fit(judged, state, about, inputs.cost, words, frontier, selection)
        about = replace(about, alarms=warning_sentences(comparison))
    save_bundle(out, forecaster, cost_spec=inputs.spec, layout=inputs.layout, about=to_plain(about))
    return _finished(inputs, out, about, comparison, forecaster)


def _kept(inputs: FitInputs, out: Path) -> Result:
    """What a finished fit said."""
    bundle = load_bundle(out, cost=inputs.cost)
    comparison = comparison_of_bundle(bundle, out) if bundle.known.metrics else None
    return _finished(inputs, out, bundle.known, comparison, bundle.forecaster)


def _finished(
    inputs: FitInputs, out: Path, about: AboutFit, comparison: Comparison | None, forecaster: DecisionAwareForecaster
) -> Result:
    """What is left to do once the bundle is saved, and what the fit says."""
    shutil.rmtree(out / _CHECKPOINTS, ignore_errors=True)
    recorded = read_manifest(out).files
    evaluation = sorted(str(path.relative_to(out)) for path in out.glob("evaluation/*") if path.is_file())
    others = [_SELECTION] if (out / _SELECTION).is_file() else []
    if fresh := [name for name in (*evaluation, *others) if name not in recorded]:
        record_file(out, *fresh)
    if comparison is not None and not (out / REPORT).exists():
        write_comparison(comparison, out)
    unit, selection, metrics = inputs.spec.unit, forecaster.selection_, summary_table(about.metrics)
    by_parameter = _by_parameter(inputs, about)
    many = () if by_parameter is None else (("all test cases, for one decision maker each", by_parameter),)
    selected = () if selection is None else (shown_selection(selection, unit),)
    facts = {
        "decision_weight": forecaster.decision_weight_,
        "candidate": None if selection is None else selection.selected.name,
        "selection": None if selection is None else selection.record(),
        "evaluation": without_noise(metrics),
        **({} if by_parameter is None else {"by_parameter": without_noise(by_parameter)}),
    }
    tables = (*selected, (f"costs in {unit}" if unit else "", metrics), *many)
    return Result(out, unit, _sentences(about, comparison, out), tables, facts)


def _by_parameter(inputs: FitInputs, about: AboutFit) -> pd.DataFrame | None:
    if inputs.spec.ranged is None or not about.by_parameter:
        return None
    rows = []
    for each in about.by_parameter:
        row = {inputs.spec.ranged.name: each.value, "cost": each.cost, "climatology_cost": each.climatology_cost}
        if each.change is not None and each.weight_0_cost is not None:
            names = ("difference", "difference_low", "difference_high")
            row |= {"weight_0_cost": each.weight_0_cost, **dict(zip(names, each.change, strict=True))}
        rows.append(row)
    return pd.DataFrame(rows)


def _trained(fit: Callable[..., DecisionAwareForecaster], cases: TableCases, out: Path, checkpoints: str) -> None:
    with stop_on_interrupt() as stop:
        try:
            fit(cases.feature_table, cases.outcome_table, times=cases.times, checkpoints=out / checkpoints, stop=stop)
        except (InterruptedTraining, KeyboardInterrupt):
            raise InterruptedTraining("interrupted; everything is saved, and the same command resumes") from None


def _about(
    inputs: FitInputs,
    metrics: Mapping[str, Any],
    forecaster: DecisionAwareForecaster,
    execution: Execution,
) -> AboutFit:
    quality = inputs.cases.quality
    before_test, _ = inputs.split
    outcomes = before_test.outcome.numpy()
    every = -(-len(outcomes) // _OUTCOMES_KEPT)
    settings = {field.name: to_plain(getattr(inputs.request, field.name)) for field in fields(FitSettings)}
    times = inputs.served.times
    first, last = (None, None) if times is None else (str(times[0]), str(times[-1]))
    file = Path(inputs.request.data).name
    chosen, state = forecaster.selection_ or forecaster.frontier_, forecaster.forecast_.state
    return AboutFit(
        data=DataFingerprint(file, quality.rows, inputs.sha256, quality.first, quality.last),
        metrics=dict(metrics),
        quality=quality,
        outcomes=tuple(map(tuple, outcomes[::every].tolist())),
        reason=f"Decision weight {forecaster.decision_weight_:g}, as given." if chosen is None else chosen.reason,
        bounds=() if state.outcome_bounds is None else state.outcome_bounds.sentences(state.target_names),
        leaks=forecaster.leaks_,
        correction="" if state.correction is None else correction_sentence(state.correction, state.target_names),
        fitted=FittedSpan(len(inputs.served), first, last),
        settings={"cost": str(inputs.spec.kept()), **settings, **to_plain(inputs.layout)},
        provenance={
            "data": file,
            "stakes": stakes.__version__,
            "torch, numpy, pandas": f"{torch.__version__}, {np.__version__}, {pd.__version__}",
            "python": platform.python_version(),
            "trained on": execution.resolved_device,
            **({"fitted on": inputs.served_sentence} if metrics else {}),
        },
    )


def _sentences(about: AboutFit, comparison: Comparison | None, out: Path) -> tuple[str, ...]:
    """What to do, what speaks against it, what was selected and why, and how it did on the test cases."""
    sentences = [about.reason, *about.bounds]
    sentences += [about.correction] if about.correction else []
    if comparison is None:
        return (*about.leaks, *sentences, "No test case was kept, so there is no report.")
    if comparison.weight or comparison.frontier is None:  # else the reason says it
        sentences += weight_sentences(comparison)[:1]
    sentences += [cost_sentences(comparison), *dearer_than_expected(comparison), comparison.provenance["fitted on"]]
    return (headline(comparison), *warning_sentences(comparison), *sentences, f"Report: {out / REPORT}")


_NOT_COMPARED = "The old forecast and the new one are not compared"


def run_refit(folder: Path, data: Path, out: Path, cost: str | None, execution: Execution) -> Result:
    """Fit again, to new data, what was asked for before, and compare both on cases that neither has seen."""
    if out.resolve() == folder.resolve():
        raise SettingError(f"a refit needs a new folder, but {str(out)!r} holds the old fit")
    if not (folder / FIT).is_file():
        raise SettingError(f"{folder} does not hold a fit: there is no {FIT}")
    request, kept, _ = read_request(folder / FIT)
    wanted = cost_again(kept, None) if cost is None else cost
    request = replace(request, data=str(data), cost=wanted)
    result = run_fit(request, out, execution)
    try:
        sentence = _compared(folder, request, result)
    except StakesError as error:
        sentence = f"{_NOT_COMPARED}: {error}."
    return replace(result, sentences=(*result.sentences, sentence))


def _compared(folder: Path, request: FitRequest, result: Result) -> str:
    """What both cost on those test cases of the new fit that are newer than the old one."""
    if not (result.folder / JUDGED_CASES).is_file() or result.facts["decision_weight"] is None:
        return f"{_NOT_COMPARED}: no test case was kept."
    old = load_bundle(folder, cost=None if request.cost is None else CostSpec.given(request.cost))
    fitted, judged = old.known.fitted, read_judged(result.folder)
    if fitted is None or fitted.last is None or "time" not in judged:
        return f"{_NOT_COMPARED}: without times, cases newer than the old fit cannot be told apart."
    table = read_table(Path(request.data), separator=request.separator, encoding=request.encoding)
    cases = old.layout_of(folder).cases(table)
    times = pd.DatetimeIndex(judged["time"])
    newer = times[times > np.datetime64(fitted.last)].intersection(pd.DatetimeIndex(cases.feature_table.index))
    if not len(newer):
        return f"{_NOT_COMPARED}: no test case is newer than the old fit, which has seen all up to {fitted.last}."
    places = times.get_indexer(newer)
    ranged = ranged_parameter(old.forecast.cost)
    whose = None
    if ranged is not None:  # the decision makers that the new fit was judged for
        values = judged[ranged.name].to_numpy(np.float64)[places]
        whose = {ranged.name: values.clip(ranged.range.low, ranged.range.high)}
    features, outcomes = (each.loc[newer] for each in (cases.feature_table, cases.outcome_table))
    paid = old.forecast.assess(features, outcomes, cost_parameters=whose)["cost"]
    new = judged["cost"].to_numpy(np.float64)[places]
    block = block_length(len(judged), times, request.block)
    change = paired_difference(new[None], paid[None], block)
    return newer_sentence("fit", "forecast", new, paid, change, result.unit)


def refit_with(
    folder: Path, data: Path, forecasts: Path | None, out: Path, cost: str | None, execution: Execution
) -> Result:
    """The same again, with newer data."""
    if (kind := read_manifest(folder).kind) == "panel":
        from stakes.workflows.panels import refit_panel

        if forecasts is not None:
            raise SettingError(f"{folder} is a fit, which forecasts itself, got --forecast {str(forecasts)!r}")
        return refit_panel(folder, data, out, cost, execution.quiet)
    if kind == "recalibration":
        from stakes.workflows.recalibrate import recalibrate_again

        return recalibrate_again(folder, data, out, forecasts=forecasts, cost=cost, quiet=execution.quiet)
    if forecasts is not None:
        raise SettingError(f"{folder} is a fit, which forecasts itself, got --forecast {str(forecasts)!r}")
    return run_refit(folder, data, out, cost, execution)
