"""A forecast of many series in a folder: JSON, safetensors, parquet and the text of trees; nothing is executed."""

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
import torch

from stakes.artifacts.folder import (
    JUDGED_CASES,
    MANIFEST,
    STATE,
    WEIGHTS,
    DataFingerprint,
    FittedSpan,
    Manifest,
    SavedFolder,
    checked_words,
    errors_name,
    read_kept,
    read_manifest,
    record_file,
    saved_at_once,
)
from stakes.cost_spec.spec import CostSpec
from stakes.data.tables.files import write_table
from stakes.data.tables.panels import Floats, PanelLayout
from stakes.errors import SettingError
from stakes.files import write_atomically, write_json
from stakes.forecasting.panel_forecaster import PanelForecaster, group_columns
from stakes.forecasting.panels import FittedPanel, LinearPart, PanelCandidate, PanelSettings, PanelState, Part, TreePart
from stakes.forecasting.plan import TreeLocation
from stakes.json_values import json_value
from stakes.settings import from_plain
from stakes.training.stored_models import load_tensors, save_tensors

SERIES, NEWEST = "series.parquet", "evaluation/newest.parquet"
WORTH, GROUPS = "evaluation/series.parquet", "evaluation/groups.parquet"
_MOST_SERIES = 10**7
_PARTS = ("location", "spread")
_ARRAYS = ("quantiles", "edges", "shift", "breadth", "ranks")
_OF_LINEAR = ("weights", "mean", "scale")


@dataclass(frozen=True)
class PolicyCost:
    """What a policy cost on the test cases."""

    policy: str
    cases: int
    cost: float
    change: tuple[float, float, float] | None = None  # of the forecast less this one, with its 95 % interval


@dataclass(frozen=True)
class AboutPanel:
    """What is known of a fit of a panel."""

    data: DataFingerprint | None = None  # None where it was a table in memory
    settings: PanelSettings = field(default_factory=PanelSettings)  # by which it is fitted again
    hold_test: bool = False
    policies: tuple[PolicyCost, ...] = ()
    sentences: tuple[str, ...] = ()
    fitted: FittedSpan | None = None

    @classmethod
    def of(
        cls, forecaster: PanelForecaster, data: DataFingerprint | None = None, hold_test: bool = False
    ) -> "AboutPanel":
        """What a forecaster knows of itself."""
        evaluation, fitted = forecaster.evaluation_, forecaster.fitted_
        assert fitted is not None
        policies = () if evaluation is None else evaluation.table.itertuples(index=False)
        return cls(
            data,
            replace(forecaster.settings, engine="serial", workers=None),
            hold_test,
            tuple(
                PolicyCost(policy, int(cases), float(cost), None if math.isnan(change) else (change, low, high))
                for policy, cases, cost, change, low, high in policies
            ),
            (*(() if evaluation is None else evaluation.sentences), *forecaster.notes_),
            None if forecaster.learned_ is None else FittedSpan(fitted.state.trained, *forecaster.learned_),
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class PanelFit(SavedFolder):
    """A forecast of many series and what is known about it."""

    kind: ClassVar[Literal["panel"]] = "panel"
    forecaster: PanelForecaster
    cost_spec: CostSpec
    about: AboutPanel


def save_panel(folder: str | Path, forecaster: PanelForecaster, about: AboutPanel | None = None) -> Path:
    """Save a fitted forecaster of many series as a folder, which the commands and the service read.

    What was in the folder before is kept until all is written; nothing in it is executed when it is loaded.

    Args:
        folder: Where to save it, a new folder or one that was saved before.
        forecaster: The forecaster, fitted.
        about: What is known of the fit; by default what the forecaster tells.
    """
    folder, fitted, layout = Path(folder), forecaster.fitted_, forecaster.layout_
    if fitted is None:
        raise SettingError("the forecaster must be fitted before it is saved: call fit")
    about = about or AboutPanel.of(forecaster)
    cost = checked_words(forecaster.cost).record()
    with saved_at_once(folder, "panel", cost, layout, about) as stage:
        write_json(stage / STATE, json_value(fitted.state))
        save_tensors(stage / WEIGHTS, _tensors(fitted))
        write_table(pd.DataFrame({"series": fitted.keys.astype(str)}), stage / SERIES)
        for name in _PARTS:
            part = getattr(fitted, name)
            for place, text in enumerate(part.trees.texts if isinstance(part, TreePart) else ()):
                write_atomically(stage / f"trees-{name}-{place}.txt", text.encode())
    evaluation, tables = forecaster.evaluation_, {NEWEST: forecaster.newest_}
    if evaluation is not None:
        groups = group_columns(evaluation)
        tables |= {GROUPS: evaluation.by_group(groups), WORTH: evaluation.by_series()}
        tables[JUDGED_CASES.as_posix()] = evaluation.cases.drop(columns=groups)
    kept = {name: table for name, table in tables.items() if table is not None}
    (folder / JUDGED_CASES).parent.mkdir(exist_ok=True)
    for name, table in kept.items():
        write_table(table, folder / name)
    record_file(folder, *kept)
    return folder


def load_panel(folder: str | Path, cost: str | CostSpec | None = None) -> PanelFit:
    """Load what `stakes.save_panel` or `stakes fit --series` saved; its `forecaster` decides.

    Args:
        folder: The folder.
        cost: Another cost to decide for; by default that of the fit.
    """
    folder, cost = Path(folder), None if cost is None else CostSpec.given(cost)
    manifest = read_manifest(folder, "panel")
    with errors_name(folder / MANIFEST):
        if manifest.cost is None or manifest.layout is None or manifest.about is None:
            raise SettingError("cost, layout and about must be tables")
        kept = checked_words(CostSpec.from_record(manifest.cost))
        layout = from_plain(PanelLayout, manifest.layout, "layout")
        about = from_plain(AboutPanel, manifest.about, "about")
    with errors_name(folder / STATE):
        state = from_plain(PanelState, manifest.part(folder, STATE))
    with errors_name(folder / SERIES):
        keys = read_kept(folder / SERIES, manifest.files[SERIES], _MOST_SERIES)["series"].to_numpy(dtype=np.str_)
    with errors_name(folder / WEIGHTS):
        fitted = _fitted(folder, manifest, state, keys, layout)
    words = (
        kept
        if cost is None
        else replace(cost, unit=cost.unit or kept.unit, action_unit=cost.action_unit or kept.action_unit)
    )
    layout = replace(layout, parameters=words.price_columns)
    other = () if words == kept else (f"the forecast was fitted for the cost {kept}; decisions are for {words}",)
    forecaster = PanelForecaster.restored(words, layout, fitted, about.settings)
    if about.fitted is not None and about.fitted.first is not None and about.fitted.last is not None:
        forecaster.learned_ = about.fitted.first, about.fitted.last
    return PanelFit(
        forecaster=forecaster,
        cost_spec=words,
        about=about,
        **manifest.of_folder(folder, other),
    )


def _tensors(fitted: FittedPanel) -> dict[str, torch.Tensor]:
    arrays = {name: getattr(fitted, name) for name in _ARRAYS}
    arrays |= {f"level_{name}": getattr(fitted.constant(), name) for name in ("quantiles", "edges")}
    for name in _PARTS:
        part = getattr(fitted, name)
        if isinstance(part, LinearPart):
            arrays |= {f"{name}_{each}": getattr(part, each) for each in _OF_LINEAR}
    return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}


def _fitted(folder: Path, manifest: Manifest, state: PanelState, keys: Any, layout: PanelLayout) -> FittedPanel:
    """The forecast; arrays that do not belong together are refused."""
    arrays = {name: tensor.numpy() for name, tensor in load_tensors(folder / WEIGHTS, manifest.files[WEIGHTS]).items()}
    for name in (*_ARRAYS, "level_quantiles", "level_edges"):
        if name not in arrays:
            raise SettingError(f"there must be a tensor {name}")
    for name, values in arrays.items():
        if not np.isfinite(values).all() and name != "ranks":
            raise SettingError(f"{name} must be finite")
    for start in ("", "level_"):
        bins = len(arrays[f"{start}edges"]) + 1
        if arrays[f"{start}quantiles"].shape != (bins, state.members):
            raise SettingError(f"{start}quantiles must be {bins} x {state.members}")
    own_places = (0,), keys.shape
    if not all(arrays[name].shape in own_places for name in ("shift", "breadth")) or (
        arrays["ranks"].shape[1:] != keys.shape
    ):
        raise SettingError(f"shift, breadth and ranks must be of {len(keys)} series")
    levels = tuple(len(state.scale.levels.get(name, ())) for name in layout.words)
    wanted = state.candidate.model != "level", bool(state.candidate.share)
    location, spread = (
        _part(folder, manifest, name, arrays, layout, levels) if there else None
        for name, there in zip(_PARTS, wanted, strict=True)
    )
    quantiles, edges, shift, breadth, ranks = (arrays[name] for name in _ARRAYS)
    plain = replace(state, candidate=PanelCandidate("level", "level", 0.0))
    own = arrays["level_quantiles"], arrays["level_edges"]
    level = FittedPanel(plain, None, None, *own, keys, np.empty(0), np.empty(0), ranks)
    return FittedPanel(state, location, spread, quantiles, edges, keys, shift, breadth, ranks, level)


def _part(
    folder: Path, manifest: Manifest, name: str, arrays: dict[str, Floats], layout: PanelLayout, levels: tuple[int, ...]
) -> Part:
    width = len(layout.feature_names)
    if f"{name}_weights" in arrays:
        weights, mean, scale = (arrays[f"{name}_{each}"].astype(np.float64) for each in _OF_LINEAR)
        found = LinearPart(weights, mean, scale, levels)
        if (
            found.weights.shape != (1 + width + sum(levels),)
            or found.mean.shape != found.scale.shape
            or len(found.mean) != width
        ):
            raise SettingError(f"{name} must be of {width} features and {sum(levels)} words")
        return found
    count = 1
    while f"trees-{name}-{count}.txt" in manifest.files:
        count += 1
    trees = TreeLocation(manifest.tree_texts(folder, (f"trees-{name}-{place}.txt" for place in range(count))))
    trees.require_widths(width + len(levels), count)
    return TreePart(trees)
