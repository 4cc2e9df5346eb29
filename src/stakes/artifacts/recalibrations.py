"""A recalibrated forecast in a folder: JSON and parquet, checked when read, with nothing in it that is executed."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import pandas as pd

from stakes.argument_checks import require_count
from stakes.artifacts.folder import (
    MANIFEST,
    SELECTION,
    STATE,
    DataFingerprint,
    FittedSpan,
    Manifest,
    SavedFolder,
    checked_words,
    chosen_cost,
    errors_name,
    read_kept,
    read_manifest,
    saved_at_once,
)
from stakes.cost_spec.spec import CostSpec
from stakes.costs.cost import Cost
from stakes.data.forecasts.layout import ForecastLayout
from stakes.data.tables.files import write_table
from stakes.errors import SettingError
from stakes.evaluation.case_metrics import JudgedParts
from stakes.evaluation.selection import ModelSelection
from stakes.files import write_json
from stakes.forecasting.corrections import Correction
from stakes.forecasting.parameters import RecalibratorSettings
from stakes.forecasting.recalibration import JudgedCorrection
from stakes.json_values import json_value
from stakes.settings import from_plain

if TYPE_CHECKING:
    from stakes.forecasting.recalibrator import Recalibrator

_JUDGED = "judged.parquet"
_MOST_JUDGED = 10**6
_TIME = "time"
_LABEL = "label "  # how the names of the columns begin that tell what a case is called


@dataclass(frozen=True)
class AboutRecalibration:
    """What is known of a recalibration."""

    settings: RecalibratorSettings  # what was asked of it
    data: tuple[DataFingerprint, ...]  # the files it learned from
    fitted: FittedSpan  # which cases it learned from
    said: tuple[str, ...] = ()  # what the user was told
    alarms: tuple[str, ...] = ()  # sentences on what the test cases say against it
    block: int = 1  # how many neighbouring test cases depend on each other
    parts: JudgedParts | None = None  # of a vector action: some test cases part by part

    def __post_init__(self) -> None:
        require_count("block", self.block)


@dataclass(frozen=True, eq=False, kw_only=True)
class Recalibration(SavedFolder):
    """A recalibrated forecast and what is known about it."""

    kind: ClassVar[Literal["recalibration"]] = "recalibration"
    cost: Cost  # what a decision costs, at a price of 1 where each case has its own
    state: Correction  # what corrects forecasts
    selection: ModelSelection  # how it was selected
    cost_spec: CostSpec  # the cost in words
    layout: ForecastLayout  # where new forecasts, and their outcomes, are found in a user's files
    about: AboutRecalibration
    judged: JudgedCorrection | None

    @property
    def recalibrator(self) -> "Recalibrator":
        """The estimator; a folder decides without it."""
        from stakes.forecasting.recalibrator import Recalibrator

        estimator = Recalibrator(self.cost, **vars(self.about.settings))
        estimator.state_, estimator.selection_ = self.state, self.selection
        return estimator


def save_recalibration(folder: Path, recalibration: Recalibration) -> Path:
    """Write a recalibrated forecast; what was in the folder before is kept until all is written."""
    judged, about = recalibration.judged, recalibration.about
    if judged is not None:
        about = replace(about, block=judged.block, parts=judged.parts)
    cost = checked_words(recalibration.cost_spec).record()
    with saved_at_once(folder, "recalibration", cost, recalibration.layout, about) as stage:
        write_json(stage / STATE, json_value(recalibration.state))
        write_json(stage / SELECTION, json_value(recalibration.selection))
        if judged is not None:
            write_table(_table_of(judged), stage / _JUDGED)
    return folder


def load_recalibration(folder: Path, cost: CostSpec | None = None) -> Recalibration:
    """Read a recalibrated forecast."""
    folder = Path(folder)
    manifest = read_manifest(folder, "recalibration")
    with errors_name(folder / MANIFEST):
        if manifest.cost is None or manifest.layout is None or manifest.about is None:
            raise SettingError("cost, layout and about must be tables")
        decided_for, words, notes = chosen_cost(manifest.cost, cost, beside="", priced=True)
        layout = from_plain(ForecastLayout, manifest.layout, "layout")
        about = from_plain(AboutRecalibration, manifest.about, "about")
        if layout.learned is None:
            raise SettingError("layout.learned must be given")
    assert words is not None
    layout = replace(layout, prices=words.columns)
    with errors_name(folder / STATE):
        state = from_plain(Correction, manifest.part(folder, STATE))
    with errors_name(folder / SELECTION):
        selection = from_plain(ModelSelection, manifest.part(folder, SELECTION))
    with errors_name(folder / _JUDGED):
        judged = _judged(folder, manifest, about)
    return Recalibration(
        cost=decided_for,
        state=state,
        selection=selection,
        cost_spec=words,
        layout=layout,
        about=about,
        judged=judged,
        **manifest.of_folder(folder, notes, about.alarms),
    )


def _table_of(judged: JudgedCorrection) -> pd.DataFrame:
    """The test cases, what they are called first; levels without a name would be lost."""
    names = [f"case {place}" if name is None else str(name) for place, name in enumerate(judged.cases.index.names)]
    labels = judged.cases.index.to_frame(index=False)
    labels.columns = [f"{_LABEL}{name}" for name in names]
    return pd.concat([labels, judged.cases.reset_index(drop=True)], axis=1)


def _judged(folder: Path, manifest: Manifest, about: AboutRecalibration) -> JudgedCorrection | None:
    if _JUDGED not in manifest.files:
        return None
    table = read_kept(folder / _JUDGED, manifest.files[_JUDGED], _MOST_JUDGED)
    labels = [column for column in table.columns if column.startswith(_LABEL)]
    if not labels:
        raise SettingError(f"there must be a column that begins with {_LABEL!r}")
    index = pd.MultiIndex.from_frame(table[labels]) if len(labels) > 1 else pd.Index(table[labels[0]])
    index = index.set_names([label.removeprefix(_LABEL) for label in labels])
    cases = table.drop(columns=labels).set_axis(index)
    if _TIME in cases:
        cases[_TIME] = cases[_TIME].to_numpy().astype("datetime64[s]")
    others = [name for name in cases if name in (_TIME, "site") or str(name).startswith("today_")]
    if not np.isfinite(cases.drop(columns=others).to_numpy(np.float64)).all():
        raise SettingError("the judged cases must be finite numbers")
    return JudgedCorrection(cases, about.block, about.parts)
