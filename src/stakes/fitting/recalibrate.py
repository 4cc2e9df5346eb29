"""From past forecasts and what happened to a corrected forecast in a folder; and the same again with newer ones."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from stakes.bundle.about_fit import FittedSpan
from stakes.bundle.folder_kinds import is_recalibration
from stakes.bundle.manifest import DataFingerprint
from stakes.bundle.recalibration_folder import (
    Recalibration,
    RecalibratorSettings,
    load_recalibration,
    save_recalibration,
)
from stakes.cost_text.cost_on_record import cost_again
from stakes.cost_text.own_cost_file import naming_own_cost
from stakes.cost_text.written_cost import CostSpec
from stakes.data.forecast_layout import ForecastLayout
from stakes.data.given_forecasts import GivenForecasts
from stakes.data.past_forecasts import read_past
from stakes.errors import SettingError, StakesError, names_text
from stakes.evaluation.forecast_table import todays_cost, todays_notes
from stakes.evaluation.intervals import paired_difference
from stakes.evaluation.ladder import Ladder
from stakes.files import content_digest
from stakes.number_text import amount_text, change_text, count_text, number_text
from stakes.recalibrator.ladder import past_parts
from stakes.reports.ladder_words import CHANGES, shown_ladder
from stakes.reports.recalibration_report import judged_recalibration_of, write_recalibration_report
from stakes.reports.recalibration_sentences import recalibration_alarms, summary_sentences, taken_sentences
from stakes.settings import to_plain
from stakes.status_lines import StatusLines

__all__ = ["RecalibrateRequest", "RecalibrateResult", "recalibrate_again", "run_recalibrate"]


@dataclass(frozen=True)
class RecalibrateRequest:
    """What is to be recalibrated, and how.

    Attributes:
        past: The table of the outcomes, and of the forecasts where these have no file of their own.
        cost: The cost in words, as in --cost, or as a record has it.
        layout: What the columns are.
        forecasts: The file of the forecasts; None where they stand in `past`.
        settings: The parameters of the recalibrator.
        separator: The character between the fields of text files; None finds it out.
        encoding: The encoding of text files; None finds it out.
    """

    past: Path
    cost: str | CostSpec
    layout: ForecastLayout
    forecasts: Path | None = None
    settings: RecalibratorSettings = field(default_factory=RecalibratorSettings)
    separator: str | None = None
    encoding: str | None = None

    @property
    def files(self) -> tuple[Path, ...]:
        """All that is read."""
        return (self.past,) if self.forecasts is None else (self.past, self.forecasts)


@dataclass(frozen=True, eq=False)
class RecalibrateResult:
    """What a recalibration leaves.

    Attributes:
        folder: Where it was made.
        recalibration: The corrected forecast.
        sentences: What to know about it.
    """

    folder: Path
    recalibration: Recalibration
    sentences: tuple[str, ...]

    @property
    def ladder(self) -> Ladder:
        """What each rung was worth."""
        return self.recalibration.recalibrator.ladder_

    @property
    def tables(self) -> tuple[tuple[str, pd.DataFrame], ...]:
        """What people are shown, each with its title."""
        title = f"the ladder on {self.ladder.cases:,} past cases: {CHANGES}"
        return ((title, shown_ladder(self.ladder, self.recalibration.cost_spec.unit)),)

    def record(self) -> dict[str, Any]:
        """For machines."""
        return {
            "folder": str(self.folder),
            "rung": self.ladder.taken.name,
            "unit": self.recalibration.cost_spec.unit,
            "sentences": list(self.sentences),
            "ladder": to_plain(self.ladder),
        }


def run_recalibrate(
    request: RecalibrateRequest, out: Path, *, force: bool = False, quiet: bool = False
) -> RecalibrateResult:
    """Learn from past forecasts, judge, and write the folder; nothing is written where anything goes wrong.

    Args:
        request: What is asked.
        out: The folder to make.
        force: Whether a recalibration that is there already may be replaced.
        quiet: Whether nothing is told meanwhile.
    """
    return _made(request, out, force, quiet)[0]


def recalibrate_again(
    folder: Path,
    past: Path,
    out: Path,
    *,
    forecasts: Path | None = None,
    cost: str | None = None,
    quiet: bool = False,
) -> RecalibrateResult:
    """Learn again, from newer forecasts, what was asked for before, and compare both where neither has learned.

    Args:
        folder: Of the old recalibration, whose layout and settings are kept.
        past: The newer table of outcomes.
        out: The folder to make.
        forecasts: The newer file of forecasts; None where they stand in `past`.
        cost: Takes the place of the old cost; None for the old one, if it is of the library.
        quiet: Whether nothing is told meanwhile.
    """
    if out.resolve() == folder.resolve():
        raise SettingError(f"a refit needs a folder of its own, got {str(out)!r}, which holds the old one")
    old = load_recalibration(folder, None if cost is None else CostSpec.parse(cost))
    if old.layout.own_file and forecasts is None:
        raise SettingError(f"{folder} has learned from a file of forecasts; --forecast names a newer one")
    if forecasts is not None and not old.layout.own_file:
        raise SettingError(f"{folder} has learned from one table of both, got --forecast {str(forecasts)!r} besides")
    words = cost_again(old.cost_spec, None) if cost is None else cost
    request = RecalibrateRequest(past, words, old.layout, forecasts, old.settings)
    result, given = _made(request, out, False, quiet)
    try:
        sentence = _compared(old, result, given)
    except StakesError as error:
        sentence = f"{_NOT_COMPARED}: {error}."
    return replace(result, sentences=(*result.sentences, sentence))


_NOT_COMPARED = "The old correction and the new one are not compared"


def _made(request: RecalibrateRequest, out: Path, force: bool, quiet: bool) -> tuple[RecalibrateResult, GivenForecasts]:
    _require_free(out, force)
    say = StatusLines(quiet)
    spec = CostSpec.given(request.cost)
    cost = spec.build()
    given, layout = read_past(
        request.layout,
        request.past,
        request.forecasts,
        cost=cost,
        bounds=request.settings.outcome_bounds,
        separator=request.separator,
        encoding=request.encoding,
    )
    assert given.outcomes is not None
    past_parts(given, request.settings.test_fraction, request.settings.gap)  # too few are refused before all else
    if given.today is not None:  # which must be an action of this cost, before anything is learned
        todays_cost(cost, given.today[:1], torch.from_numpy(given.outcomes[:1]))
    broken = todays_notes(cost, given.today, len(given.targets))
    notes = (*given.notes, *spec.doubts(given.outcomes, given.targets), *broken)
    for note in notes:
        say(f"note: {note}")
    recalibrator = request.settings.recalibrator(cost)
    sentence = f"learning from the errors of {len(given):,} past forecasts, each of {_form(given, layout)}"
    with naming_own_cost(cost), say.counting(sentence) as progress:
        recalibrator.fit(given, progress=progress)
    new_notes = tuple(note for note in recalibrator.notes_ if note not in given.notes)
    recalibration = Recalibration(
        recalibrator,
        spec,
        layout,
        request.settings,
        tuple(_fingerprint(path, given) for path in request.files),
        _span(given),
        recalibrator.judged_,
        said=(*notes, *new_notes),
    )
    if recalibration.judged is not None:
        alarms = recalibration_alarms(judged_recalibration_of(recalibration))
        recalibration = replace(recalibration, alarms=tuple(sentence.removesuffix(".") for sentence in alarms))
    save_recalibration(out, recalibration)
    sentences = (*_worth(recalibration, out), *taken_sentences(recalibrator.ladder_), *new_notes)
    return RecalibrateResult(out, recalibration, sentences), given


def _form(given: GivenForecasts, layout: ForecastLayout) -> str:
    """As what a forecast was read."""
    targets = f" a target ({names_text(given.targets)})" if len(given.targets) > 1 else ""
    if layout.levels:
        levels = f"levels {number_text(layout.levels[0])} to {number_text(layout.levels[-1])}"
        return f"{count_text(len(layout.levels), 'quantile')}{targets}, {levels}"
    if given.is_point:
        return f"one number{targets}, a point forecast"
    return f"{count_text(given.members.shape[1], 'member')}{targets}"


def _worth(recalibration: Recalibration, out: Path) -> tuple[str, ...]:
    """What the test cases say, which the report tells at length; it is written here."""
    if recalibration.judged is None:
        return (
            "There are too few past cases to put any aside: nobody knows what this is worth, and there is no report.",
        )
    write_recalibration_report(recalibration, out)
    return summary_sentences(judged_recalibration_of(recalibration))


def _require_free(out: Path, force: bool) -> None:
    if out.is_file():
        raise SettingError(f"the folder to make, {str(out)!r}, is a file")
    if not out.is_dir() or not any(out.iterdir()):
        return
    if not is_recalibration(out):
        raise SettingError(f"{out} is not empty; choose another folder")
    if not force:
        raise SettingError(f"{out} holds a recalibration already; --force replaces it, another folder keeps both")


def _fingerprint(path: Path, given: GivenForecasts) -> DataFingerprint:
    span = _span(given)
    return DataFingerprint(path.name, len(given), content_digest(path), span.first, span.last)


def _span(given: GivenForecasts) -> FittedSpan:
    if given.times is None:
        return FittedSpan(len(given))
    return FittedSpan(len(given), str(given.times.min()), str(given.times.max()))


def _compared(old: Recalibration, result: RecalibrateResult, given: GivenForecasts) -> str:
    """What both cost on those test cases of the new one that are newer than all that the old one knew."""
    judged = result.recalibration.judged
    if judged is None or judged.times is None or old.fitted.last is None or given.index is None:
        return f"{_NOT_COMPARED}: without test cases and times nobody knows which cases are newer."
    newer = np.flatnonzero(judged.times > np.datetime64(old.fitted.last))
    if not len(newer):
        return f"{_NOT_COMPARED}: no test case is newer than the old one, which has seen all up to {old.fitted.last}."
    places = given.index.get_indexer(judged.cases.index[newer])
    paid = old.recalibrator.judge(given.rows(places)).values("cost", "corrected")
    new = judged.values("cost", "corrected")[newer]
    change = paired_difference(new[None], paid[None], min(judged.block, len(newer)))
    verdict = "costs less than" if change.mean < 0 else "costs more than"
    if not change.significant:
        verdict = "cannot be told apart by its cost from"
    costs = [amount_text(float(each.mean()), result.recalibration.cost_spec.unit) for each in (new, paid)]
    return (
        f"On the {count_text(len(newer), 'test case')} newer than the old correction the new one {verdict} the old "
        f"one: {costs[0]} against {costs[1]} per case (change {change_text(change)})."
    )
