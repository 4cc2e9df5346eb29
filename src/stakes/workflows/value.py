"""`stakes value`: for which costs a forecast is worth buying, and what it saves there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from stakes.cost_spec.spec import CostSpec
from stakes.costs.cost import plain_cost_of, vector_cost, with_parameter
from stakes.data.forecasts.forecast_set import ForecastSet
from stakes.data.tables.files import read_table
from stakes.data.tables.layout import TableCases, left_out_notes
from stakes.errors import CostError, SettingError, TableError
from stakes.evaluation.case_metrics import hindsight_note
from stakes.evaluation.regret import RegretAttribution, attribute_regret
from stakes.evaluation.value import POINTS, ValueCurve, value_curve
from stakes.forecasting.fitted_forecast import FittedForecast, Which
from stakes.forecasting.input_range import outside_notes


@dataclass(frozen=True, eq=False)
class Value:
    """A curve of value with its cost in words, and sentences for the user."""

    curve: ValueCurve
    cost: CostSpec
    forecast: ForecastSet  # the first one, with its outcomes
    notes: tuple[str, ...] = ()

    def regret(self) -> RegretAttribution | None:
        """Where the money went with the first forecast, at the middle of the range; None for vector actions."""
        ranged, middle = self.cost.ranged, float(self.curve.values[len(self.curve.values) // 2])
        assert ranged is not None
        cost = with_parameter(self.cost.build(), ranged.name, middle)
        if vector_cost(plain_cost_of(cost)) is not None:
            return None
        return attribute_regret(
            self.forecast,
            self.forecast.outcomes,
            cost,
            names=self.forecast.targets,
            times=self.forecast.times,
            sites=self.forecast.sites,
            block=self.curve.block,
            unit=self.curve.unit,
        )

    def record(self) -> dict[str, Any]:
        """All of it, as JSON can hold it."""
        return {
            "cost": str(self.cost),
            "unit": self.cost.unit,
            "cases": self.curve.cases,
            "block": self.curve.block,
            "cases_a_year": None if self.curve.yearly is None else self.curve.yearly.cases,
            "forecasts": self.curve.forecasts,
            "sentence": self.curve.sentence,
            "worth_buying": self.curve.worth_buying,
            "a_loss": self.curve.a_loss,
            "notes": self.notes,
            "rows": self.curve.to_frame(),
        }


def value_of_members(
    given: Mapping[str, ForecastSet], spec: CostSpec, points: int = POINTS, block: int | None = None
) -> Value:
    """The value of forecasts, each with its outcomes, over the cases that all of them have."""
    keys = [_keys(each) for each in given.values()]
    shared = keys[0]
    for other in keys[1:]:
        shared = shared[shared.isin(other)]
    if not len(shared):
        raise TableError(f"{' and '.join(given)} have no case in common, got {keys[0][0]} and {keys[1][0]}")
    together = {name: each.rows(own.get_indexer(shared)) for (name, each), own in zip(given.items(), keys, strict=True)}
    notes = [note for each in given.values() for note in each.notes]
    for (name, each), before in zip(together.items(), given.values(), strict=True):
        if len(before) > len(each):
            notes.append(f"{len(before) - len(each)} of {len(before)} cases of {name} are left out: others lack them")
    one = next(iter(together.values()))
    assert one.outcomes is not None
    order = np.arange(len(one)) if one.times is None else np.argsort(one.times, kind="stable")
    together = {name: each.rows(order) for name, each in together.items()}
    one = next(iter(together.values()))
    for name, each in together.items():
        if each.targets != one.targets or not np.array_equal(np.asarray(each.outcomes), np.asarray(one.outcomes)):
            raise TableError(f"{name} must be of the outcomes {', '.join(one.targets)} of the first, got others")
    curve = _curve(together, spec, points, block)
    doubts = spec.doubts(np.asarray(one.outcomes), one.targets)
    notes = [*dict.fromkeys(notes), *doubts, hindsight_note(one.sites is not None)]
    return Value(curve, spec, one, tuple(notes))


def value_of_fit(
    folder: Path, data: Path, spec: CostSpec, points: int = POINTS, block: int | None = None, **csv: Any
) -> Value:
    """The value of a fit's forecast, and of weight 0 where there is one beside it, on a table with outcomes."""
    from stakes.artifacts.fits import load_bundle
    from stakes.workflows.decide import part_of_fit_notes

    bundle, table = load_bundle(folder, cost=spec), read_table(data, **csv)
    layout, forecast = bundle.layout_of(folder), bundle.forecast
    if forecast.state.conditioned:
        raise SettingError(
            f"{folder} has a forecast of its own for each value of {forecast.state.ranged}, so no single curve shows "
            "their value"
        )
    cases = layout.cases(table)
    sets = {"the forecast": _drawn(forecast, cases, "chosen")}
    if forecast.baseline_models and forecast.state.decision_weight:
        sets["weight 0"] = _drawn(forecast, cases, "baseline")
    curve = _curve(sets, spec, points, block)
    notes = (*bundle.notes, *left_out_notes(cases.quality), *part_of_fit_notes(bundle.known, cases, None))
    notes = (*notes, *outside_notes(forecast.outside(cases.feature_table)), hindsight_note(False))
    return Value(curve, spec, sets["the forecast"], notes)


def _drawn(forecast: FittedForecast, cases: TableCases, which: Which) -> ForecastSet:
    """All members of one of a fit's two forecasts, with what happened."""
    rows = forecast.features(cases.feature_table, None)
    members = np.concatenate([part.double().numpy() for _, part in forecast.drawn(rows, which)])
    return ForecastSet(
        members, targets=forecast.state.target_names, times=cases.times, outcomes=cases.outcome.double().numpy()
    )


def _curve(sets: Mapping[str, ForecastSet], spec: CostSpec, points: int, block: int | None) -> ValueCurve:
    if (ranged := spec.ranged) is None:
        raise CostError(f"--cost needs a range of one parameter, as in shortfall:penalty=1..50, got {spec}")
    if points < 2:
        raise SettingError(f"values must be at least 2, got {points}")
    one = next(iter(sets.values()))
    return value_curve(
        sets,
        one.outcomes,
        spec.build(),
        ranged.range.points(points),
        times=one.times,
        sites=one.sites,
        block="auto" if block is None else block,
        unit=spec.unit,
    )


def _keys(given: ForecastSet) -> "pd.Index[Any]":
    """What tells the cases apart: what they are called, and their site."""
    index = given.index
    if given.sites is not None:
        index = pd.MultiIndex.from_arrays(
            [*(index.get_level_values(level) for level in range(index.nlevels)), given.sites]
        )
    if not index.is_unique:
        raise TableError(
            f"the cases must be told apart by their times or names, got {index[index.duplicated()][0]} twice"
        )
    return index


def names_of(files: Sequence[Path]) -> list[str]:
    """What forecasts in files are called: by their names, or in full where two are alike."""
    stems = [file.name.split(".")[0] for file in files]
    return stems if len(set(stems)) == len(stems) else [str(file) for file in files]
