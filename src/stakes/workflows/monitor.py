"""Whether the errors of a forecast in service have left what was learned, as `stakes monitor` tells it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import NDArray

from stakes.artifacts.fits import Bundle
from stakes.artifacts.folder import JUDGED_CASES, WATCHED, open_as_judged, read_judged
from stakes.artifacts.panels import PanelFit
from stakes.artifacts.recalibrations import Recalibration
from stakes.costs.cost import user_cost_errors
from stakes.data.forecasts.reading import read_new
from stakes.data.tables.columns import zone_notes
from stakes.data.tables.files import CsvOptions, read_table
from stakes.data.tables.layout import left_out_notes
from stakes.data.tables.time_axis import Times
from stakes.errors import SettingError
from stakes.evaluation.drift import (
    ENOUGH_BLOCKS,
    STRONG_CORRELATION,
    ErrorWatch,
    QuestionAnswered,
    SeenErrors,
    watch_errors,
)
from stakes.evaluation.intervals import block_length
from stakes.forecasting.input_range import outside_notes
from stakes.forecasting.recalibration import judge_correction
from stakes.text import amount_text, count_text, fixed_text, number_text
from stakes.workflows.recalibrate import require_same_files


@dataclass(frozen=True, eq=False)
class Monitored:
    """What a look at new cases says."""

    folder: Path  # of the fit or the recalibration
    watch: ErrorWatch  # what the test says
    times: Times | None  # when the outcomes of the new cases happened, in order, (N,); None where it is not known
    unit: str  # the unit of the cost; empty where it has none
    notes: tuple[str, ...]  # sentences for the user about the new cases

    @property
    def cases(self) -> int:
        """How many new cases there are."""
        return self.watch.new_blocks * self.watch.block + self.watch.waiting

    @property
    def sentence(self) -> str:
        """What is to be known, in one sentence."""
        watch, left = self.watch, self.watch.left
        if not self.cases:
            return "There is no new case with an outcome, so nothing can be judged yet."
        risk = f"false for at most {number_text(100 * watch.alpha)} % of unchanged forecasts"
        if not left:
            most = max(answer.evidence for answer in watch.answers)
            waiting = f", {watch.waiting} waiting for their block to fill" if watch.waiting else ""
            return (
                f"No drift detected in {count_text(self.cases, 'new case')}{waiting}: the strongest evidence of it is "
                f"{number_text(most, 2)}; {number_text(watch.enough)} would raise an alarm, {risk}."
            )
        changes = "; ".join(map(self._words, left))
        return f"Drift detected: {changes}. This alarm is {risk}."

    def record(self) -> dict[str, Any]:
        """For machines."""
        watch = self.watch
        return {
            "folder": str(self.folder),
            "left": bool(watch.left),
            "sentence": self.sentence,
            "alpha": watch.alpha,
            "cases": self.cases,
            "block": watch.block,
            "past_blocks": watch.past_blocks,
            "new_blocks": watch.new_blocks,
            "waiting": watch.waiting,
            "unit": self.unit,
            "enough": watch.enough,
            "questions": [
                {
                    "question": answer.name,
                    "past": answer.past,
                    "new": answer.new,
                    "evidence": answer.evidence,
                    "correlation": answer.correlation,
                    "left": answer.noticed is not None,
                    "noticed_after": answer.noticed,
                    "noticed_at": self._moment(answer),
                }
                for answer in watch.answers
            ],
            "notes": list(self.notes),
        }

    def _words(self, answer: QuestionAnswered) -> str:
        moment = self._moment(answer)
        when = f"noticed after {count_text(answer.noticed or 0, 'new case')}{f', at {moment}' if moment else ''}"
        return f"{self._change(answer)} ({when})"

    def _change(self, answer: QuestionAnswered) -> str:
        if answer.name == "bias":
            new, past = (fixed_text(value, 2) for value in (answer.new, answer.past))
            side = "higher" if answer.new > answer.past else "lower"
            return f"outcomes rank {side} among the members, at a mean level of {new} instead of {past}"
        if answer.name == "spread":
            ratio = number_text(answer.new / answer.past, 2)
            side = "farther from" if answer.new > answer.past else "closer to"
            return f"outcomes lie {side} the middle of the members, {ratio} times as far as before"
        new, past = (
            amount_text(value, self.unit, beside=(answer.new, answer.past)) for value in (answer.new, answer.past)
        )
        return f"decisions cost {new} per case more than expected, instead of {past}"

    def _moment(self, answer: QuestionAnswered) -> str | None:
        """The time of the case by which it was noticed."""
        if answer.noticed is None or self.times is None:
            return None
        return f"{np.datetime_as_string(self.times[answer.noticed - 1], 's')}Z"


def monitor_folder(
    folder: Path,
    new: Path,
    forecasts: Path | None = None,
    *,
    alpha: float = 0.05,
    cost: str | None = None,
    **csv: Unpack[CsvOptions],
) -> Monitored:
    """Hold the errors of new cases against those of the test cases of a fit or of a recalibration."""
    opened = open_as_judged(folder, cost)
    if opened.kind == "panel":
        seen = _of_panel(opened, folder, new, forecasts, csv)
    elif opened.kind == "fit":
        seen = _of_fit(opened, folder, new, forecasts, csv)
    else:
        seen = _of_recalibration(opened, folder, new, forecasts, csv)
    watch = watch_errors(seen.past, seen.new, block=min(seen.block, len(seen.past.pit)), alpha=alpha)
    said = seen.notes
    if watch.past_blocks < ENOUGH_BLOCKS:
        blocks = count_text(watch.past_blocks, "block")
        said = (*said, f"past cases make only {blocks} of {watch.block}: only large changes are noticed")
    correlation = max(answer.correlation for answer in watch.answers)
    if correlation > STRONG_CORRELATION:
        said = (
            *said,
            f"past errors are strongly correlated, {number_text(correlation, 2)} between neighbouring blocks of "
            f"{count_text(watch.block, 'case')}: small changes take long to show, and false alarms may exceed alpha",
        )
    unit = "" if opened.cost_spec is None else opened.cost_spec.unit
    return Monitored(folder, watch, seen.times, unit, (*opened.notes, *said))


class _Seen(NamedTuple):
    """Past errors, and those of new cases in the order of their times (N,)."""

    past: SeenErrors
    new: SeenErrors
    block: int
    times: Times | None
    notes: tuple[str, ...]


def _of_recalibration(opened: Recalibration, folder: Path, new: Path, forecasts: Path | None, csv: CsvOptions) -> _Seen:
    if opened.judged is None:
        raise SettingError(
            f"{folder} has no test cases to compare new ones with; recalibrate with more past cases, or with a "
            "larger --test-fraction"
        )
    require_same_files(opened, folder, forecasts)
    files = (new, None) if forecasts is None else (forecasts, new)
    given = read_new(opened.layout, *files, judged=True, **csv)
    newer, said = _newer(given.times, len(given), opened.about.fitted.last)
    errors = SeenErrors(np.empty(0), np.empty(0))
    if len(newer):
        chosen = given.rows(newer)
        members, weights = opened.state.corrected(chosen)
        with user_cost_errors(opened.cost):
            errors = judge_correction(chosen, members, opened.cost, weights=weights).errors
    times = None if given.times is None else given.times[newer]
    return _Seen(opened.judged.errors, errors, opened.judged.block, times, (*given.notes, *said))


def _of_fit(opened: Bundle, folder: Path, new: Path, forecasts: Path | None, csv: CsvOptions) -> _Seen:
    if forecasts is not None:
        raise SettingError(f"{folder} is a fit, which forecasts itself, got --forecast {str(forecasts)!r}")
    if JUDGED_CASES.as_posix() not in opened.files:
        raise SettingError(f"{folder} has no test cases to compare new ones with; fit with --test-fraction")
    opened.require_recorded(JUDGED_CASES.parent.as_posix())
    judged, forecast, layout = read_judged(folder), opened.forecast, opened.layout_of(folder)
    times = judged["time"].to_numpy() if "time" in judged else None
    block = block_length(len(judged), times, forecast.state.block)
    table = read_table(new, **csv)
    cases, fitted = layout.cases(table), opened.known.fitted
    newer, said = _newer(cases.times, len(cases), None if fitted is None else fitted.last)
    errors, outside = SeenErrors(np.empty(0), np.empty(0)), {}
    if len(newer):
        features, outcomes = (each.iloc[newer] for each in (cases.feature_table, cases.outcome_table))
        with user_cost_errors(forecast.cost):
            errors = forecast.errors(forecast.cases(features, outcomes))
        outside = forecast.outside(features)
    notes = (*zone_notes(table, layout.time), *left_out_notes(cases.quality), *said, *outside_notes(outside))
    past = SeenErrors(*(judged[WATCHED + name].to_numpy(np.float64) for name in SeenErrors._fields))
    return _Seen(past, errors, block, None if cases.times is None else cases.times[newer], notes)


def _of_panel(opened: PanelFit, folder: Path, new: Path, forecasts: Path | None, csv: CsvOptions) -> _Seen:
    """All series together, in the order of time: a block is what they have in as many times as one table's has."""
    if forecasts is not None or any(csv.values()):
        raise SettingError(f"{folder} is a fit of many series: monitor takes its newer rows only")
    fitted = opened.about.fitted
    past = read_judged(folder).sort_values("time", kind="stable")
    last = None if fitted is None else fitted.last
    since = None if last is None else str(np.datetime64(last) + np.timedelta64(1, "s"))
    cases = opened.forecaster.judged_since(new, since)
    if not len(cases):
        cases = past.iloc[:0]
    newer, said = _newer(cases["time"].to_numpy(), len(cases), last)
    times = past["time"].to_numpy()
    block = block_length(len(past), times)
    old, now = (
        SeenErrors(each["pit"].to_numpy(), (each["cost"] - each["expected_cost"]).to_numpy())
        for each in (past, cases.iloc[newer])
    )
    notes = (*opened.forecaster.notes_, *said)
    return _Seen(old, now, block, cases["time"].to_numpy()[newer], notes)


def _newer(times: Times | None, cases: int, last: str | None) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Which cases come after those that were learned from, in the order of their outcomes, and what to say of that."""
    if times is None or last is None:
        return np.arange(cases), ("without times new cases cannot be told from old ones, so all count as new",)
    later = times > np.datetime64(last)
    known = int((~later).sum())
    said = (f"{count_text(known, 'case')} up to {last} are part of the fit and left out",) if known else ()
    order = np.argsort(times, kind="stable")
    return order[later[order]], said
