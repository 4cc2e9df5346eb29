"""From new data and a fitted forecaster, or an ensemble and a cost, to the action of every case."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from stakes.cost_spec.spec import CostSpec, column_of
from stakes.costs.cost import Cost, ranged_parameter, user_cost_errors
from stakes.data.forecasts.forecast_set import ForecastSet
from stakes.data.tables.columns import column_numbers, column_times, in_utc, newest_cases, zone_notes
from stakes.data.tables.files import CsvOptions, read_table, write_table
from stakes.data.tables.layout import MISSING_FEATURE, DataQuality, TableCases, TableLayout, left_out_notes
from stakes.data.tables.time_axis import Times
from stakes.errors import CostError, SettingError, TableError, did_you_mean, listed
from stakes.forecasting.decisions import UNANSWERED, decision_notes, decision_table, member_parts
from stakes.forecasting.input_range import outside_notes
from stakes.scores.member_reduction import ReducedMembers, reduce_members
from stakes.settings import shown
from stakes.text import number_text

if TYPE_CHECKING:
    from stakes.artifacts.fits import AboutFit, Bundle
    from stakes.artifacts.folder import FittedSpan
    from stakes.artifacts.recalibrations import Recalibration
    from stakes.forecasting.fitted_forecast import FittedForecast
    from stakes.forecasting.input_range import InputRange
    from stakes.training.execution import Engine
    from stakes.workflows.panels import DecidedPanel


_OF_REDUCTION = ("members", "weights", "energy_distance")


def part_of_fit_notes(known: "AboutFit", cases: TableCases, sha256: str | None) -> tuple[str, ...]:
    """A sentence where the fit saw these cases, or others of the same times."""
    from stakes.artifacts.folder import FittedSpan  # not needed where there are members already

    if known.data is None:
        return ()
    fitted = known.fitted or FittedSpan(len(cases))
    return overlap_notes(fitted, cases.times, len(cases), known.data.sha256 == sha256)


def overlap_notes(fitted: "FittedSpan", times: Times | None, cases: int, same: bool) -> tuple[str, ...]:
    """A sentence where cases, or others of the same times, were learned from."""
    if times is None or fitted.first is None or fitted.last is None:
        count = min(fitted.cases, cases) if same else 0
    else:
        count = int(((times >= np.datetime64(fitted.first)) & (times <= np.datetime64(fitted.last))).sum())
    if not count:
        return ()
    if same:
        return (
            f"this is the table of the fit: {count} of {cases} cases were part of the fit, and what they cost "
            "says little about new cases",
        )
    return (
        f"{count} of {cases} cases lie in the time of the fit, {fitted.first} to {fitted.last}; what they "
        "cost says little about new cases if they were part of the fit",
    )


Floats = NDArray[np.float64]
Told = float | str | None


def ranged_cost(folder: Path, cost: str | None) -> "tuple[str | CostSpec | None, Told]":
    """The cost to open a folder with, and a value in the range of the fit, if it has one: a number, or @COLUMN."""
    from stakes.artifacts.folder import errors_name, read_manifest  # not needed where there are members already

    if cost is None:
        return None, None
    given, record = CostSpec.parse(cost), read_manifest(folder).cost
    with errors_name(folder):
        kept = given if record is None else CostSpec.from_record(record)
    ranged = kept.ranged
    told = None if ranged is None or given.name != kept.name else given.parameters.get(ranged.name)
    if ranged is None or not isinstance(told, float | str) or not (isinstance(told, float) or column_of(told)):
        return given, None
    return given.of_rows({ranged.name: ranged.range}), told


def case_parameters(
    cost: Cost, told: Told, table: pd.DataFrame, layout: TableLayout, index: "pd.Index[Any]", *, needed: bool
) -> dict[str, Floats] | None:
    """The parameter of each case, (N,), by its name, with lags as of the issue time; None where it need not be told."""
    ranged = ranged_parameter(cost)
    if ranged is None:
        return None
    if told is None:
        if needed:
            raise SettingError(
                f"the cost has {ranged.in_words}: give one value with --cost, as in "
                f"{ranged.name}={ranged.range.middle:.3g}, or {ranged.name}=@COLUMN for a column of the table"
            )
        return None
    values = np.full(len(index), told) if isinstance(told, float) else _column(told[1:], table, layout, index)
    if len(values):
        ranged.require_inside(float(values.min()), float(values.max()))
    return {ranged.name: values}


def spread_note(cost: Cost) -> tuple[str, ...]:
    """A sentence about cases of which nobody said to which decision maker they belong."""
    ranged = ranged_parameter(cost)
    if ranged is None:
        return ()
    return (
        f"the cost has {ranged.in_words}: the cases are spread evenly over that range, one decision maker each, see "
        f"the column {ranged.name} of the cases; {ranged.name}=... in --cost sets one value for all",
    )


def _column(name: str, table: pd.DataFrame, layout: TableLayout, index: "pd.Index[Any]") -> Floats:
    known = [str(column) for column in table.columns]
    if name not in known:
        raise TableError(f"the cost names the column {name!r}, which the table lacks; {did_you_mean(name, known)}")
    numbers = column_numbers(table, [name], "cost")[:, 0]
    if layout.time is None:
        values = numbers[index.to_numpy(np.int64) - 1]  # data rows count from 1
    else:
        times = pd.DatetimeIndex(index)
        times = times - pd.Timedelta(hours=layout.lead or 0.0) if layout.lags else times
        known_at = pd.DatetimeIndex(column_times(table, layout.time))
        values = np.asarray(pd.Series(numbers, known_at).reindex(times), dtype=np.float64)
    if len(lacking := np.flatnonzero(~np.isfinite(values))):
        raise TableError(f"the cost: column {name!r} has no value for the case {index[int(lacking[0])]}")
    return values


# Rows that lack some of their features, drawn from what the others say of them

_NAMED = 5
_TOO_MANY = 0.5  # of the rows of the fit's table: a column that is missing in more has hardly been seen


@dataclass(frozen=True, eq=False)
class DecidableRows:
    """The rows of a table for which a fit can forecast."""

    features: pd.DataFrame
    quality: DataQuality  # what became of the table's rows; those that cannot be forecast are left out and counted
    notes: tuple[str, ...] = ()  # sentences for the user

    @property
    def missing(self) -> "pd.Series[Any]":
        """The names of the features that each row lacks; empty for a row that has all."""
        names, lacks = np.array(self.features.columns, dtype=object), self.features.isna().to_numpy()
        return pd.Series([listed([str(name) for name in names[row]]) for row in lacks], dtype="str")

    def beside(self, forecast: "FittedForecast") -> dict[str, NDArray[Any]]:
        """Columns beside the decisions: the feature outside its training range, and those missing, where any is."""
        missing = self.missing.to_numpy()
        return forecast.outside(self.features) | ({"missing_features": missing} if (missing != "").any() else {})

    def sample(
        self, forecast: "FittedForecast", cost_parameters: Mapping[str, Floats] | None = None
    ) -> NDArray[np.float32]:
        """Members (N, M, D) of the forecast of every row."""
        rows = forecast.features(self.features, cost_parameters, incomplete=True)
        return np.concatenate([part.numpy() for _, part in forecast.drawn(rows)])


def decidable_rows(
    inputs: "InputRange", known: "AboutFit", layout: TableLayout, table: pd.DataFrame, last: bool = False
) -> DecidableRows:
    """The rows whose features are there, or can be drawn from those that are."""
    cases = layout.inputs(table, incomplete=True)
    missing = cases.features.isnan().numpy()
    notes: tuple[str, ...] = ()
    left_out = np.any(missing, axis=1) if inputs.correlation is None else _beyond(missing, layout, known.quality)
    if left_out.all():
        layout.inputs(table)  # which says what is wrong with the table
    features, quality = cases.feature_table[~left_out], cases.quality
    if left_out.any():
        counts = {**quality.left_out, MISSING_FEATURE: int(left_out.sum())}
        quality = replace(quality, used=len(features), left_out=counts)
    if last:
        features = features.tail(1)
        too_little = f"the newest row, {cases.feature_table.index[-1]}, lacks too many features for a decision"
        notes = (*notes, too_little) if left_out[-1] else notes
    lacking = features.isna()
    if names := [str(name) for name in features.columns[lacking.any()]]:
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        told = (
            f"{int(lacking.any(axis=1).sum()):,} of {len(features):,} rows are decided without "
            f"{', '.join(map(shown, names[:_NAMED]))}{more}, see the column missing_features: missing values "
            "are drawn given the other features, which widens these forecasts"
        )
        notes = (*notes, told)
    return DecidableRows(features, quality, notes)


def _beyond(missing: NDArray[np.bool_], layout: TableLayout, quality: DataQuality | None) -> NDArray[np.bool_]:
    """Rows (N,) that lack every feature but the calendar, or one that the fit itself has hardly seen."""
    columns = layout.source_columns
    of_columns = missing[:, : len(columns)]
    facts = {} if quality is None else quality.columns
    most = np.inf if quality is None else _TOO_MANY * quality.rows
    hardly_seen = np.array([facts.get(name, {}).get("missing", 0.0) > most for name in columns], dtype=bool)
    return np.logical_or(of_columns.all(1), of_columns[:, hardly_seen].any(1))


# Decisions


@dataclass(frozen=True, eq=False)
class DecidedCases:
    """The decisions of a run of `stakes decide`."""

    table: pd.DataFrame  # one row per case, its time or row first; see `stakes.forecasting.decisions.decision_table`
    cost: CostSpec | None  # the cost that is decided for, in words; None where the fit kept none
    notes: tuple[str, ...] = ()  # sentences for the user about the data and the decisions

    def require_an_answer(self) -> None:
        """Raise where no case at all has a best action."""
        status = self.table["status"] if "status" in self.table else pd.Series(dtype=object)
        counts = status[status.isin(UNANSWERED)].value_counts()
        if len(status) and counts.sum() == len(status):
            words = " and ".join(f"{count} {word}" for word, count in counts.items())
            raise CostError(f"none of {len(status)} decisions has a best action, see the column status: {words}")

    def record(self) -> dict[str, Any]:
        """All of it, as JSON can hold it."""
        unit, action_unit = (self.cost.unit, self.cost.action_unit) if self.cost else ("", "")
        return {
            "cost": None if self.cost is None else str(self.cost),
            "unit": unit,
            "action_unit": action_unit,
            "cases": len(self.table),
            "uncertified": int((~self.table["certified"]).sum()),
            "notes": self.notes,
            "rows": self.table,
        }


def decide_fit(
    bundle: "Bundle",
    folder: Path,
    table: pd.DataFrame,
    cost: str | None,
    levels: Sequence[float],
    last: bool = False,
    told: Told = None,
) -> DecidedCases:
    """The actions of a fitted forecaster for every row, or target time, whose features are there or can be drawn."""
    layout, price = bundle.layout_of(folder), bundle.forecast.cost
    rows = decidable_rows(bundle.forecast.inputs, bundle.known, layout, table, last)
    index = rows.features.index
    given = case_parameters(price, told, table, layout, index, needed=True)
    (parameter,) = given.values() if given else (None,)
    members = rows.sample(bundle.forecast, given)
    decided = decision_table(price, members, index, levels, outcomes=layout.targets, parameter=parameter)
    beside = rows.beside(bundle.forecast)
    decided = decided.assign(**beside)
    words = bundle.cost_spec.outcome_notes(price, layout.targets) if cost and bundle.cost_spec else ()
    notes = (
        *words,
        *zone_notes(table, layout.time),
        *left_out_notes(rows.quality),
        *outside_notes(beside),
        *decision_notes(price, decided, members),
    )
    return DecidedCases(in_utc(decided), bundle.cost_spec, (*bundle.notes, *rows.notes, *notes))


def decide_members(
    given: ForecastSet,
    spec: CostSpec,
    levels: Sequence[float],
    last: bool = False,
    *,
    reduce: int | None = None,
    scenarios: Path | None = None,
) -> DecidedCases:
    """The actions of least expected cost over all members, or over so many of them that stand for all."""
    doubts = spec.doubts(given.equal_members.reshape(-1, given.members.shape[2]), given.targets)
    given = given.rows(newest_cases(given.index)) if last else given
    cost, members, weights = spec.level_prices.build(), given.members, given.weights
    if reduce is None:
        return decided_cases(given, cost, spec, levels, members, weights, doubts)
    if spec.columns:
        raise SettingError(f"--reduce needs one cost for all cases, got {spec}")
    if not 1 <= reduce <= members.shape[1]:
        raise SettingError(f"reduce must lie between 1 and the number of members, {members.shape[1]}, got {reduce}")
    reduced, gap, proven = _reduced(cost, members, weights, reduce)
    if scenarios is not None:
        write_table(_scenario_table(reduced, given.labels, given.targets), scenarios)
    told = _reduction_note(reduce, members.shape[1], gap, proven, spec.unit)
    members, weights = reduced.members.numpy(), reduced.weights.numpy()
    decided = decided_cases(given, cost, spec, levels, members, weights, (*doubts, told))
    return replace(decided, table=decided.table.assign(reduction_gap=gap))


def decided_cases(
    given: ForecastSet,
    cost: Cost,
    spec: CostSpec,
    levels: Sequence[float],
    members: Floats,
    weights: Floats | None,
    told: Sequence[str] = (),
) -> DecidedCases:
    """The actions for the members of some forecasts, as they came or corrected."""
    decided = decision_table(given.priced(cost, spec.columns), members, given.labels, levels, weights, given.targets)
    if given.prices is not None:
        decided = decided.assign(**{name: given.prices[key].to_numpy() for key, name in spec.columns.items()})
    if given.horizon is not None and "horizon" not in decided:
        decided.insert(given.index.nlevels, "horizon", given.horizon)
    shared = None if weights is None or weights.ndim > 1 else weights
    notes = decision_notes(cost, decided, members, shared)
    return DecidedCases(in_utc(decided), spec, (*given.notes, *told, *notes))


def _reduced(
    cost: Cost, members: Floats, weights: Floats | None, count: int
) -> tuple[ReducedMembers, Floats, NDArray[np.bool_]]:
    """Every case reduced, a few at a time; the gap of each, and whether it is proven."""
    samples = torch.from_numpy(np.ascontiguousarray(members))
    shared = None if weights is None else torch.from_numpy(weights)
    with user_cost_errors(cost):
        parts = [reduce_members(part, count, shared, cost) for part in member_parts(samples)]
    joined = ReducedMembers(*(torch.cat([getattr(part, name) for part in parts]) for name in _OF_REDUCTION))
    gap, proven = (torch.cat([getattr(part, name) for part in parts]).numpy() for name in ("gap", "certified"))
    return joined, gap, proven


def _scenario_table(reduced: ReducedMembers, labels: "pd.Index[Any]", targets: Sequence[str]) -> pd.DataFrame:
    """One row per case, scenario and target: what stochastic programs take."""
    table = pd.DataFrame(reduced.scenarios(tuple(targets)))
    cases = labels.to_frame(index=False).iloc[table.pop("case").to_numpy() - 1].reset_index(drop=True)
    return in_utc(pd.concat([cases, table], axis=1))


def _reduction_note(count: int, members: int, gap: Floats, proven: NDArray[np.bool_], unit: str) -> str:
    known = gap[np.isfinite(gap)]
    if not len(known):
        return f"{members} members are reduced to {count}"
    proof = "" if proven.all() else f", which is proven for {int(proven.sum())} of {len(gap)} cases"
    most, mean = (
        f"{number_text(max(0.0, float(value)))}{unit and f' {unit}'}" for value in (known.max(), known.mean())
    )
    return (
        f"{members} members are reduced to {count}: judged by all members, decisions from the reduced ones cost "
        f"{mean} more per case, at most {most}{proof}, see the column reduction_gap"
    )


def decide_with(
    folder: Path,
    data: Path,
    cost: str | None,
    levels: Sequence[float],
    last: bool = False,
    *,
    out: Path | None = None,
    engine: "Engine | None" = None,
    separator: str | None = None,
    encoding: str | None = None,
) -> "DecidedCases | DecidedPanel":
    """The actions for new data, or for new forecasts, by a fit or a recalibration; those of a panel go to its file."""
    from stakes.artifacts.folder import open_folder  # likewise

    words, told = ranged_cost(folder, cost)
    opened, csv = open_folder(folder, words), {"separator": separator, "encoding": encoding}
    if opened.kind != "panel" and ((engine and engine.kind != "serial") or (out is not None and not out.suffix)):
        raise SettingError("--engine, and a folder for --out, are for a long table of many series")
    if opened.kind == "fit":
        return decide_fit(opened, folder, read_table(data, **csv), cost, levels, last, told)
    if opened.kind == "panel":
        from stakes.training.execution import SERIAL
        from stakes.workflows.panels import decide_panel

        if given := [name for name, value in csv.items() if value is not None]:
            raise SettingError(f"--{given[0]} is not for a long table, whose CSV files are recognised")
        return decide_panel(opened, data, out, levels, last, engine or SERIAL)
    return decide_recalibrated(opened, data, cost, levels, last, **csv)


def decide_recalibrated(
    opened: "Recalibration",
    forecasts: Path,
    cost: str | None,
    levels: Sequence[float],
    last: bool = False,
    **csv: Unpack[CsvOptions],
) -> DecidedCases:
    """The actions for new forecasts, corrected by what was learned from past ones."""
    from stakes.data.forecasts.reading import read_new  # not needed by a fit

    given, built = read_new(opened.layout, forecasts, **csv), opened.cost
    given = given.rows(newest_cases(given.index)) if last else given
    members, weights = opened.state.corrected(given)
    told = () if cost is None else opened.cost_spec.outcome_notes(built, given.targets)
    decided = decided_cases(given, built, opened.cost_spec, levels, members, weights, told)
    return replace(decided, notes=(*opened.notes, *decided.notes))
