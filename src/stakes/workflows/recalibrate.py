"""From past forecasts and what happened to a corrected forecast in a folder, and what it decides for new ones."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch

from stakes.artifacts.folder import DataFingerprint, FittedSpan, is_saved, read_manifest
from stakes.artifacts.recalibrations import (
    AboutRecalibration,
    Recalibration,
    load_recalibration,
    save_recalibration,
)
from stakes.cost_spec.spec import CostSpec, cost_again
from stakes.costs.cost import user_cost_errors
from stakes.data.forecasts.forecast_set import ForecastSet
from stakes.data.forecasts.layout import ForecastLayout
from stakes.data.forecasts.reading import read_past
from stakes.data.tables.files import CsvOptions
from stakes.errors import SettingError, StakesError, names_text
from stakes.evaluation.case_metrics import (
    todays_cost,
    todays_notes,
)
from stakes.evaluation.intervals import paired_difference
from stakes.files import content_digest
from stakes.forecasting.correction_candidates import past_parts
from stakes.forecasting.decisions import untrained_decision
from stakes.forecasting.parameters import RecalibratorSettings
from stakes.forecasting.recalibrator import Recalibrator
from stakes.reports.comparison import Comparison, comparison_of_recalibration
from stakes.reports.report import write_comparison
from stakes.reports.sentences import cost_sentences, headline, risk_sentences, selection_sentences, warning_sentences
from stakes.reports.tables import Result, shown_selection
from stakes.text import count_text, number_text
from stakes.training.progress import StatusLines
from stakes.workflows.evaluate import newer_sentence


@dataclass(frozen=True)
class RecalibrateRequest:
    """What is to be recalibrated, and how."""

    past: Path  # the table of the outcomes, and of the forecasts where these have no file of their own
    cost: str | CostSpec  # the cost in words, as in --cost, or as a record has it
    layout: ForecastLayout  # what the columns are
    forecasts: Path | None = None  # the file of the forecasts; None where they stand in `past`
    settings: RecalibratorSettings = field(default_factory=RecalibratorSettings)  # the parameters of the recalibrator
    csv: CsvOptions = field(default_factory=CsvOptions)  # how text files are read

    @property
    def files(self) -> tuple[Path, ...]:
        """All that is read."""
        return (self.past,) if self.forecasts is None else (self.past, self.forecasts)


def run_recalibrate(request: RecalibrateRequest, out: Path, *, force: bool = False, quiet: bool = False) -> Result:
    """Learn from past forecasts, judge, and write the folder; nothing is written where anything goes wrong."""
    return _made(request, out, force, quiet)[0]


def recalibrate_again(
    folder: Path,
    past: Path,
    out: Path,
    *,
    forecasts: Path | None = None,
    cost: str | None = None,
    quiet: bool = False,
) -> Result:
    """Learn again, from newer forecasts, what was asked for before, and compare both where neither has learned."""
    if out.resolve() == folder.resolve():
        raise SettingError(f"a refit needs a new folder, but {str(out)!r} holds the old recalibration")
    old = load_recalibration(folder, None if cost is None else CostSpec.parse(cost))
    require_same_files(old, folder, forecasts)
    words = cost_again(old.cost_spec, None) if cost is None else cost
    request = RecalibrateRequest(past, words, old.layout, forecasts, old.about.settings)
    result, made, given = _made(request, out, False, quiet)
    try:
        sentence = _compared(old, made, given)
    except StakesError as error:
        sentence = f"{_NOT_COMPARED}: {error}."
    return replace(result, sentences=(*result.sentences, sentence))


def require_same_files(opened: Recalibration, folder: Path, forecasts: Path | None) -> None:
    """Raise unless forecasts have a file of their own where those had that were learned from."""
    if opened.layout.own_file and forecasts is None:
        raise SettingError(f"{folder} was learned from a file of forecasts; name the new one with --forecast")
    if forecasts is not None and not opened.layout.own_file:
        raise SettingError(f"{folder} was learned from one table; leave out --forecast, got {str(forecasts)!r}")


_NOT_COMPARED = "The old correction and the new one are not compared"


def _made(
    request: RecalibrateRequest, out: Path, force: bool, quiet: bool
) -> tuple[Result, Recalibration, ForecastSet]:
    _require_free(out, force)
    say = StatusLines(quiet)
    spec = CostSpec.given(request.cost)
    cost, asked = spec.level_prices.build(), replace(request.layout, prices=spec.columns)
    given, layout = read_past(asked, request.past, request.forecasts, cost=cost, **request.csv)
    assert given.outcomes is not None
    given.priced(cost, spec.columns)  # a cost that takes no prices of each case is refused before all else
    past_parts(given, request.settings.test_fraction, request.settings.gap)  # too few are refused before all else
    if given.today is not None:  # which must be an action of this cost, before anything is learned
        todays_cost(cost, given.today[:1], torch.from_numpy(given.outcomes[:1]))
    broken = todays_notes(cost, given.today, len(given.targets))
    notes = (*given.notes, *spec.doubts(given.outcomes, given.targets), *broken)
    for note in notes:
        say(f"note: {note}")
    recalibrator = Recalibrator(cost, **vars(request.settings))
    weighted = any(request.settings.decision_weights)
    if weighted and (why := untrained_decision(cost, given.outcomes)):  # at once, rather than after all is learned
        say(f"decision weights are {why}")
    sentence = f"learning from the errors of {len(given):,} past forecasts, each of {_form(given, layout)}"
    with user_cost_errors(cost), say.counting(sentence) as progress:
        recalibrator.fit(given, progress=progress)
    new_notes = tuple(note for note in recalibrator.notes_ if note not in given.notes)
    span = FittedSpan(len(given))
    if given.times is not None:
        span = replace(span, first=str(given.times.min()), last=str(given.times.max()))
    fingerprints = tuple(
        DataFingerprint(path.name, len(given), content_digest(path), span.first, span.last) for path in request.files
    )
    about = AboutRecalibration(request.settings, fingerprints, span, said=(*notes, *new_notes))
    recalibration = Recalibration(
        cost=cost,
        state=recalibrator.state_,
        selection=recalibrator.selection_,
        cost_spec=spec,
        layout=layout,
        about=about,
        judged=recalibrator.judged_,
    )
    comparison = None if recalibration.judged is None else comparison_of_recalibration(recalibration)
    alarms = () if comparison is None else warning_sentences(comparison)
    about = replace(about, alarms=tuple(sentence.removesuffix(".") for sentence in alarms))
    recalibration = replace(recalibration, about=about)
    save_recalibration(out, recalibration)
    sentences = (*_worth(comparison, out), *selection_sentences(recalibrator.selection_), *new_notes)
    facts = {"candidate": recalibration.selection.selected.name, "selection": recalibration.selection.record()}
    tables = (shown_selection(recalibration.selection, spec.unit),)
    return Result(out, spec.unit, sentences, tables, facts), recalibration, given


def _form(given: ForecastSet, layout: ForecastLayout) -> str:
    """As what a forecast was read."""
    targets = f" a target ({names_text(given.targets)})" if len(given.targets) > 1 else ""
    if layout.learned is not None and (levels := layout.learned.levels):
        span = f"levels {number_text(levels[0])} to {number_text(levels[-1])}"
        return f"{count_text(len(levels), 'quantile')}{targets}, {span}"
    if given.is_point:
        return f"one number{targets}, a point forecast"
    return f"{count_text(given.members.shape[1], 'member')}{targets}"


def _worth(comparison: Comparison | None, out: Path) -> tuple[str, ...]:
    """What the test cases say, which the report tells at length; it is written here."""
    if comparison is None:
        return (
            "There are too few past cases to keep any for a test, so there is no estimate of the gain and no report.",
        )
    write_comparison(comparison, out)
    others = (cost_sentences(comparison), *risk_sentences(comparison))
    return (headline(comparison), *warning_sentences(comparison), *others)


def _require_free(out: Path, force: bool) -> None:
    if out.is_file():
        raise SettingError(f"the folder to make, {str(out)!r}, is a file")
    if not out.is_dir() or not any(out.iterdir()):
        return
    if not is_saved(out) or read_manifest(out).kind != "recalibration":
        raise SettingError(f"{out} is not empty; choose another folder")
    if not force:
        raise SettingError(f"{out} holds a recalibration already; --force replaces it, another folder keeps both")


def _compared(old: Recalibration, made: Recalibration, given: ForecastSet) -> str:
    """What both cost on those test cases of the new one that are newer than all that the old one knew."""
    judged, last = made.judged, old.about.fitted.last
    if judged is None or judged.times is None or last is None:
        return f"{_NOT_COMPARED}: without test cases and times, newer cases cannot be told apart."
    newer = np.flatnonzero(judged.times > np.datetime64(last))
    if not len(newer):
        return f"{_NOT_COMPARED}: no test case is newer than the old one, which has seen all up to {last}."
    places = given.index.get_indexer(judged.cases.index[newer])
    if old.cost_spec.columns != made.cost_spec.columns:
        return f"{_NOT_COMPARED}: their prices are in different columns."
    paid = old.recalibrator.judge(given.rows(places)).values("cost", "corrected")
    new = judged.values("cost", "corrected")[newer]
    change = paired_difference(new[None], paid[None], min(judged.block, len(newer)))
    return newer_sentence("correction", "one", new, paid, change, made.cost_spec.unit)
