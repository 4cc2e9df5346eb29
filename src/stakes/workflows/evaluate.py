"""What a forecaster, or an ensemble, was worth where the outcomes are known."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from stakes.artifacts.folder import REGRET, open_folder
from stakes.cost_spec.spec import CostSpec
from stakes.costs.cost import (
    outcome_total,
    plain_cost_of,
    ranged_parameter,
    risk_of,
    user_cost_errors,
    vector_cost,
    with_parameter,
)
from stakes.costs.member_weights import case_parts
from stakes.data.forecasts.forecast_set import ForecastSet
from stakes.data.tables.columns import in_utc, told_labels, zone_notes
from stakes.data.tables.files import CsvOptions, read_table
from stakes.data.tables.layout import TableCases, left_out_notes
from stakes.errors import SettingError
from stakes.evaluation.case_metrics import (
    VALUES_SHOWN,
    CaseMetrics,
    JudgedParts,
    WorthAtValue,
    constant_notes,
    ensemble_metrics,
    hindsight_note,
    infeasible_notes,
    infeasible_today_notes,
    judged_parts,
    part_by_part,
    todays_cost,
    todays_notes,
)
from stakes.evaluation.intervals import Difference, Resampling, block_length, paired_difference
from stakes.evaluation.metrics import LEVELS
from stakes.evaluation.regret import MEMBERS, OUTCOME, THIRDS, attributed
from stakes.files import content_digest
from stakes.forecasting.fitted_forecast import FittedForecast, Which
from stakes.forecasting.input_range import outside_notes
from stakes.reports.sentences import policy_warnings
from stakes.text import amount_text, change_text, count_text
from stakes.training.execution import SERIAL, Engine
from stakes.workflows.decide import Told, overlap_notes, part_of_fit_notes, ranged_cost

if TYPE_CHECKING:
    from stakes.artifacts.fits import Bundle
    from stakes.artifacts.recalibrations import Recalibration
    from stakes.forecasting.panel_forecaster import PanelEvaluation

Floats = NDArray[np.float64]
_SLOW_CASES = 200  # whose regret is attributed where an action has no formula: a second takes about five


@dataclass(frozen=True, eq=False)
class ForecastJudgement:
    """A fitted forecaster, and weight 0 where there is another, judged on the same cases."""

    forecast: FittedForecast
    cases: TableCases  # the cases it was judged on, with their outcomes
    metrics: CaseMetrics  # what was measured of every case
    parts: JudgedParts | None = None

    @property
    def block(self) -> int:
        """How many neighbouring cases belong together: as the forecaster has it, or by their times."""
        return block_length(len(self.cases), self.cases.times, self.forecast.state.block)

    def table(self, block: int | None = None) -> pd.DataFrame:
        """One row per metric; see `stakes.evaluation.case_metrics` and `CaseMetrics.summary`."""
        return self.metrics.summary(block or self.block)

    def case_table(self) -> pd.DataFrame:
        """One row per case, as a report takes them: what happened, and what each forecast did, `weight_0_` too."""
        outcome = self.cases.outcome
        judged = {"": self.metrics.chosen} | ({"weight_0_": self.metrics.weight_0} if self.metrics.weight_0 else {})
        columns: dict[str, NDArray[Any]] = {} if self.cases.times is None else {"time": self.cases.times}
        columns["outcome"] = outcome_total(self.forecast.cost, outcome).numpy()
        columns["climatology_cost"] = self.metrics.chosen["climatology_cost"]
        for start, measured in judged.items():
            low, high = (measured["quantile"][:, LEVELS.index(level)] for level in (0.1, 0.9))
            for name, values in {**measured, "low": low, "high": high}.items():
                if values.ndim == 1 and name != "climatology_cost":
                    columns[f"{start}{name}"] = values.astype(np.float32)
        columns |= {f"today_{name}": values for name, values in (self.metrics.today or {}).items()}
        return pd.DataFrame(columns)

    def regret_columns(self) -> dict[str, Floats]:
        """Each case's regret by outcome and by region of members, (N,), NaN where left out; none for vectors."""
        cost = self.forecast.cost
        if vector_cost(plain_cost_of(cost)) is not None or ranged_parameter(cost) is not None:
            return {}
        quick = risk_of(cost) is None and hasattr(cost, "best_action")
        chosen = np.arange(len(self.cases))[:: 1 if quick else -(-len(self.cases) // _SLOW_CASES)]
        features = self.forecast.features(self.cases.feature_table.iloc[chosen], None)
        outcomes = self.cases.outcome[torch.from_numpy(chosen)].double()
        parts = [
            attributed(cost, part[own].double(), outcomes[rows][own])[1:]
            for rows, part in self.forecast.drawn(features)
            for own in case_parts(part)
        ]
        whose, found = (self.forecast.state.target_names, THIRDS), {}
        for kind, names, each in zip((OUTCOME, MEMBERS), whose, zip(*parts, strict=True), strict=True):
            for name, values in zip(names, torch.cat(each).T.numpy(), strict=True):
                found[f"{REGRET}{kind}_{name}"] = np.full(len(self.cases), np.nan)
                found[f"{REGRET}{kind}_{name}"][chosen] = values
        return found


def judge_forecast(
    forecast: FittedForecast, cases: TableCases, cost_parameters: Mapping[str, Floats] | None = None
) -> ForecastJudgement:
    """Judge the forecaster, that of weight 0 where there is one, and today's action, case by case."""
    features, outcomes = cases.feature_table, cases.outcome_table
    whose = forecast.decision_makers(len(cases), cost_parameters)

    def assessed(which: Which) -> dict[str, Floats]:
        metrics = forecast.assess(features, outcomes, which, cost_parameters=whose or None)
        return {**whose, **part_by_part(metrics, forecast.cost, forecast.state.target_names)}

    chosen = assessed("chosen")
    weight_0 = assessed("baseline") if forecast.baseline_models else None
    today = _today(forecast, cases, whose)
    metrics = CaseMetrics(outcomes, chosen, forecast.state.members, weight_0, today)
    return ForecastJudgement(forecast, cases, metrics, _parts(forecast, cases, chosen["cost"]))


def judge_by_parameter(forecast: FittedForecast, cases: TableCases, block: int) -> tuple[WorthAtValue, ...]:
    """What all cases cost at some values of the cost's range; nothing where it has none."""
    ranged = ranged_parameter(forecast.cost)
    if ranged is None:
        return ()
    told = []
    features, outcomes = cases.feature_table, cases.outcome_table
    for value in ranged.range.points(VALUES_SHOWN):
        costs = partial(forecast.realised_cost, features, outcomes, cost_parameters={ranged.name: value})
        paid, constant = costs(), costs("climatology")
        worth = WorthAtValue(value, float(paid.mean()), float(constant.mean()))
        if forecast.baseline_models:
            plain = costs("baseline")
            mean, low, high = paired_difference(paid[None], plain[None], block)
            worth = replace(worth, weight_0_cost=float(plain.mean()), change=(mean, low, high))
        told.append(worth)
    return tuple(told)


def _parts(forecast: FittedForecast, cases: TableCases, paid: Floats) -> JudgedParts | None:
    """A few cases part by part, and what limits cost."""

    def draw(rows: NDArray[np.int64], most: int | None) -> torch.Tensor:
        count = forecast.state.members if most is None else min(most, forecast.state.members)
        return torch.from_numpy(forecast.sample(cases.feature_table.iloc[rows], count))

    return judged_parts(forecast.cost, forecast.state.target_names, cases.outcome.numpy(), paid, draw)


def _today(forecast: FittedForecast, cases: TableCases, whose: Mapping[str, Floats]) -> dict[str, Floats] | None:
    """Today's action and what it costs."""
    if cases.today is None:
        return None
    cost = forecast.cost
    for name, values in whose.items():
        cost = with_parameter(cost, name, torch.from_numpy(values))
    paid = todays_cost(cost, cases.today, cases.outcome)
    today = {"action": cases.today.numpy(), "cost": paid}
    return part_by_part(today, forecast.cost, forecast.state.target_names)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Metrics with their 95 % intervals, and every case."""

    table: pd.DataFrame  # one row per metric
    cases: pd.DataFrame  # one row per case
    cost: CostSpec | None  # the cost in words; None where the fit kept none
    block: int  # how many neighbouring cases depend on each other
    notes: tuple[str, ...] = ()  # sentences for the user about the cases and the cost
    subject: str = ""  # what was judged, where its folder alone does not say it; empty otherwise
    infeasible: tuple[str, ...] = ()  # the times or names of cases that are not judged, because their cost is infinite
    alarms: tuple[str, ...] = ()  # sentences about simple ways to decide that would have been cheaper

    @property
    def title(self) -> str:
        """What the table is of."""
        unit = f", cost in {self.cost.unit}" if self.cost is not None and self.cost.unit else ""
        drawn = f"blocks of {self.block} neighbours" if self.block > 1 else "single cases"
        subject = f"{self.subject}: " if self.subject else ""
        judged = f"{len(self.cases)} case{'s' if len(self.cases) > 1 else ''}"
        if self.infeasible:
            judged = f"means of the {len(self.cases)} of {len(self.cases) + len(self.infeasible)} cases of finite cost"
        intervals = f"95 % intervals from {drawn}" if len(self.cases) > 1 else "too few for intervals"
        return f"{subject}{judged}, {intervals}{unit}"

    def record(self) -> dict[str, Any]:
        """The table for machines."""
        return {
            "subject": self.subject,
            "cost": None if self.cost is None else str(self.cost),
            "unit": self.cost.unit if self.cost is not None else "",
            "cases": len(self.cases),
            "infeasible_cases": self.infeasible,
            "block": self.block,
            "notes": self.notes,
            "alarms": self.alarms,
            "metrics": self.table,
        }


def alarms_of(cases: CaseMetrics, block: int, spec: CostSpec | None, each_site: bool = False) -> tuple[str, ...]:
    """Why not to follow the forecast: climatology was cheaper, even if by chance, or today's actions beyond doubt."""
    cost, priced = cases.chosen["cost"], spec is not None and bool(spec.columns)
    whose = " per site" if each_site else " per price" if priced else ""
    return tuple(
        policy_warnings(
            cost,
            None if cases.today is None else cases.today["cost"],
            cases.chosen["climatology_cost"],
            Resampling(len(cost), block=min(block, len(cost))),
            "" if spec is None else spec.unit,
            "these cases",
            f"one action{whose} for all {'its ' if whose else ''}cases",
        )
    )


def evaluated(
    cases: CaseMetrics, block: int, spec: CostSpec | None, notes: Sequence[str], each_site: bool = False
) -> Evaluation:
    """What was measured of every case, with intervals, what to know about it, and what speaks against it."""
    infeasible = told_labels(cases.infeasible.index[cases.infeasible])
    return Evaluation(
        cases.summary(block),
        in_utc(cases.table()),
        spec,
        block,
        (*notes, *infeasible_notes(infeasible, len(cases.outcomes))),
        infeasible=infeasible,
        alarms=alarms_of(cases, block, spec, each_site),
    )


def newer_sentence(old: str, new: str, costs: Floats, old_costs: Floats, change: Difference, unit: str) -> str:
    """What a new forecast costs on test cases that are newer than an old one, and what that one costs there."""
    verdict = "costs less than" if change.mean < 0 else "costs more than"
    if not change.significant:
        verdict = "does not differ significantly in cost from"
    means = [amount_text(float(each.mean()), unit) for each in (costs, old_costs)]
    return (
        f"On the {count_text(len(costs), 'test case')} newer than the old {old} the new {new} {verdict} the old one: "
        f"{means[0]} against {means[1]} per case (change {change_text(change)})."
    )


def evaluate_fit(
    bundle: "Bundle",
    folder: Path,
    table: pd.DataFrame,
    cost: str | None,
    block: int | None = None,
    sha256: str | None = None,
    baseline_action: str | None = None,
    told: Told = None,
) -> Evaluation:
    """A fitted forecaster on a table with outcomes; weight 0 and today's action beside it where they are known."""
    from stakes.workflows.decide import case_parameters, spread_note

    layout = bundle.layout_of(folder)
    layout = replace(layout, baseline_action=baseline_action or layout.baseline_action)
    cases = layout.cases(table)
    cost_of_fit = bundle.forecast.cost
    given = case_parameters(cost_of_fit, told, table, layout, cases.feature_table.index, needed=False)
    with user_cost_errors(cost_of_fit):
        judgement = judge_forecast(bundle.forecast, cases, given)
    block = block or judgement.block
    outside = bundle.forecast.outside(cases.feature_table)
    words = bundle.cost_spec.outcome_notes(cost_of_fit, layout.targets) if cost and bundle.cost_spec else ()
    notes = (
        *bundle.notes,
        *words,
        *(spread_note(cost_of_fit) if given is None else ()),
        *zone_notes(table, layout.time),
        *left_out_notes(cases.quality),
        *part_of_fit_notes(bundle.known, cases, sha256),
        *todays_notes(cost_of_fit, cases.today, len(layout.targets)),
        *outside_notes(outside),
    )
    evaluation = evaluated(judgement.metrics, block, bundle.cost_spec, notes)
    return replace(evaluation, cases=evaluation.cases.assign(**outside))


def evaluate_members(given: ForecastSet, spec: CostSpec, block: int | None = None) -> Evaluation:
    """An ensemble of at least two members on the outcomes of its cases."""
    given = given.rows(np.argsort(given.index.get_level_values(0), kind="stable"))
    seen, cost = given.outcome_table, given.priced(spec.level_prices.build(), spec.columns)
    with user_cost_errors(cost):
        cases = CaseMetrics.of_ensemble(given.members, seen, cost, given.today, given.weights, given.sites)
    moments, each_site = cases.outcomes.index.get_level_values(0), given.sites is not None
    times = moments.to_numpy() if isinstance(moments, pd.DatetimeIndex) else None
    notes = (
        *given.notes,
        *spec.doubts(cases.outcomes.to_numpy(), list(cases.outcomes.columns)),
        *todays_notes(cost, given.today, len(given.targets)),
        *infeasible_today_notes(None if cases.today is None else cases.today["cost"]),
        *(constant_notes(cases.chosen["climatology_cost"]) or (hindsight_note(each_site, bool(spec.columns)),)),
    )
    return evaluated(cases, block_length(len(cases.outcomes), times, block), spec, notes, each_site)


def evaluate_with(
    folder: Path,
    data: Path,
    outcomes: Path | None,
    cost: str | None,
    block: int | None = None,
    baseline_action: str | None = None,
    *,
    engine: Engine = SERIAL,
    separator: str | None = None,
    encoding: str | None = None,
) -> "Evaluation | PanelEvaluation":
    """What the decisions of a fit or a recalibration were worth where outcomes are known."""
    words, told = ranged_cost(folder, cost)
    opened, csv = open_folder(folder, words), {"separator": separator, "encoding": encoding}
    if opened.kind != "panel" and engine.kind != "serial":
        raise SettingError("--engine is for a long table of many series")
    if opened.kind == "recalibration":
        return evaluate_recalibrated(opened, data, outcomes, cost, block, baseline_action, **csv)
    if opened.kind == "panel":
        from stakes.workflows.panels import evaluate_panel

        named = {"outcomes": outcomes, "block": block, "baseline-action": baseline_action, **csv}
        if given := [name for name, value in named.items() if value is not None]:
            raise SettingError(f"--{given[0]} is not for a long table: its columns are those of the fit")
        return evaluate_panel(opened, data, engine)
    if outcomes is not None:
        raise SettingError("--outcomes is for --members, or for a recalibration of a file of forecasts, not for a fit")
    table, sha256 = read_table(data, **csv), content_digest(data)
    return evaluate_fit(opened, folder, table, cost, block, sha256, baseline_action, told)


def evaluate_recalibrated(
    opened: "Recalibration",
    forecasts: Path,
    outcomes: Path | None,
    cost: str | None,
    block: int | None = None,
    baseline_action: str | None = None,
    **csv: Unpack[CsvOptions],
) -> Evaluation:
    """What the corrected forecasts were worth, the forecasts as they came and today's action beside them."""
    from stakes.data.forecasts.reading import read_new  # not needed by a fit

    today = opened.layout.today if baseline_action is None else tuple(map(str.strip, baseline_action.split(",")))
    layout = replace(opened.layout, today=today)
    given = read_new(layout, forecasts, outcomes, judged=True, cost=opened.cost, **csv)
    metrics = _metrics(opened, given)
    block = block_length(len(given), given.times, block or opened.about.settings.block)
    known = {each.sha256 for each in opened.about.data}
    same = any(content_digest(path) in known for path in (forecasts, outcomes) if path is not None)
    told = () if cost is None else opened.cost_spec.outcome_notes(opened.cost, given.targets)
    notes = (*opened.notes, *given.notes, *told, *overlap_notes(opened.about.fitted, given.times, len(given), same))
    each_site, priced = given.sites is not None, given.prices is not None
    notes = (*notes, f"baseline is the forecast as given; {hindsight_note(each_site, priced)}")
    notes = (*notes, *constant_notes(metrics.chosen["climatology_cost"]))
    judged = evaluated(metrics, block, opened.cost_spec, notes, each_site)
    cases = judged.cases.rename(columns=lambda name: str(name).replace("weight_0_", "raw_"))
    return replace(judged, cases=cases)


def _metrics(opened: "Recalibration", given: ForecastSet) -> CaseMetrics:
    """Of the corrected forecasts, with those as they came in the place of weight 0."""
    assert given.outcomes is not None
    cost, seen = given.priced(opened.cost, opened.cost_spec.columns), given.outcome_table
    members, weights = opened.state.corrected(given)
    raw_weights = np.ones(1) if given.is_point else given.weights
    weights = np.ones(1) if weights is None and members.shape[1] == 1 else weights  # of which nothing else has a score
    with user_cost_errors(cost):
        corrected = CaseMetrics.of_ensemble(members, seen, cost, given.today, weights, given.sites)
        raw, _ = ensemble_metrics(given.members, given.outcomes, cost, weights=raw_weights)
    raw = {name: values[~corrected.infeasible.to_numpy()] for name, values in raw.items()}
    ratio = np.sqrt((1 + 1 / given.members.shape[1]) / (1 + 1 / members.shape[1]))  # comparable with so many members
    beside = {"climatology_cost": corrected.chosen["climatology_cost"], "spread": ratio * raw["spread"]}
    return replace(corrected, weight_0=part_by_part(raw, cost, given.targets) | beside)
