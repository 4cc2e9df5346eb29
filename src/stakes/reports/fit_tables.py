"""The tables of the report of a fit."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from stakes.data.tables.layout import DataQuality
from stakes.evaluation.calibration import calibration_sides, spread_skill
from stakes.evaluation.intervals import Difference
from stakes.evaluation.selection import Frontier, ModelSelection, candidate_words
from stakes.reports.comparison import JudgedFit, PolicyComparison
from stakes.reports.fit_figures import CaseGroup
from stakes.reports.page import Cell, Column, ShownCell, Table
from stakes.reports.selection_text import (
    REFITTED,
    candidate_standing,
    candidate_with_parameters,
    cost_decimals,
    refitted_title,
    weight_label,
)
from stakes.text import amount_text, fixed_text, interval_text

_RANGE = ("min", "mean", "max")  # what is known of a column
_PAIRED = "Intervals are paired 95 % ones, bold where they leave out zero."
_CLIMATOLOGY = "Climatology is the one action that was best for the rows that taught the forecast."
_SCORES = {"energy_score": "score", "crps_of_total": "CRPS of the total", "tail_crps": "tail CRPS"}


def selection_table(selection: ModelSelection, unit: str, *, refitted: bool = True) -> Table:
    """What every candidate is worth on the validation cases, and on the test cases."""
    tested = {candidate.name: candidate.cost for candidate in selection.tested}
    decimals = cost_decimals(selection)
    rows: list[tuple[Cell, ...]] = []
    for candidate in selection.candidates:
        score = candidate.score_change
        rows.append(
            (
                ShownCell(candidate_with_parameters(candidate), strong=candidate is selection.selected),
                candidate_standing(selection, candidate),
                candidate.cost,
                interval_cell(candidate.deciding_change, decimals=decimals),
                None if score is None else ShownCell(fixed_text(score.mean, 1, signed=True), score.mean),
                tested.get(candidate.name),
            )
        )
    if refitted and selection.test_cost is not None:
        rows.append((refitted_title(selection), REFITTED, None, None, None, selection.test_cost))
    columns = (
        Column("candidate", help="with what it changes; bold: selected"),
        Column("result", help="selected, accepted before it, or why not"),
        Column("validation cost", unit, "number", "mean realised cost per validation case"),
        Column("Δ cost", unit, "number", "less that of the last one accepted before it"),
        Column(
            "Δ score", "%", "number", "in per cent of that of the last one accepted before it; a lower score is better"
        ),
        Column("test cost", unit, "number", "mean realised cost per test case"),
    )
    note = f"From {candidate_words(selection.candidates[0].name)} on, {_SELECTING} {_PAIRED} {_UPPER_ENDS}"
    return Table("selection", "Every candidate", columns, tuple(rows), note)


_UPPER_ENDS = "The upper end of a change is the one that decided: it holds for all steps at once."
_SELECTING = (
    "each forecast was compared with the last one accepted before it, on validation cases. It was accepted where it "
    "was cheaper beyond doubt, all steps tested together, or better in score beyond doubt and at most half a per cent "
    "more expensive."
)


def money_table(fit: PolicyComparison) -> Table:
    """What every way to decide costs, per case and in all, and how it differs from the first, the plain forecast."""
    span = _span(fit)
    known = [np.isfinite(way.cost) for way in fit.ways]
    means = [float(way.cost[cases].mean()) for way, cases in zip(fit.ways, known, strict=True)]
    totals = [float(way.cost[cases].sum()) for way, cases in zip(fit.ways, known, strict=True)]
    rows: list[tuple[Cell, ...]] = []
    for way, cases, mean, total in zip(fit.ways, known, means, totals, strict=True):
        change = None if way is fit.ways[0] else interval_cell(fit.change(way))
        value = None if span is None or not cases.all() else 100 * (span[0] - mean) / (span[0] - span[1])
        row = (way.name, int(cases.sum()), _amount(mean, means), _amount(total, totals), change)
        rows.append(row if span is None else (*row, value))
    columns: tuple[Column, ...] = (
        Column("way to decide"),
        Column("cases", kind="number", help="test cases in which the action is known"),
        Column("cost per case", fit.unit, "number"),
        Column("in all", fit.unit, "number", "summed over these cases"),
        Column(
            f"change from {fit.ways[0].short}", fit.unit, "number", "per case, over the cases in which both are known"
        ),
    )
    if span is not None:
        columns += (Column("value", "%", "number", "0: climatology's action; 100: perfect foresight"),)
    note = _PAIRED if fit.way("climatology") is None else f"{_PAIRED} {_CLIMATOLOGY}"
    return Table("money", "What each way to decide costs", columns, tuple(rows), note)


def _span(fit: PolicyComparison) -> tuple[float, float] | None:
    """The mean costs of climatology's action and of perfect foresight; None where they are one."""
    climatology, foresight = fit.way("climatology"), fit.way("foresight")
    if climatology is None or foresight is None:
        return None
    ends = float(climatology.cost.mean()), float(foresight.cost.mean())
    return None if math.isclose(*ends) else ends


def frontier_table(frontier: Frontier, unit: str, base: str = "") -> Table:
    """Every weight on the validation cases."""
    rival, limit = base or "weight 0", frontier.tolerance
    rows = tuple(
        (
            ShownCell(weight_label(point, base), point.weight, strong=point.weight == frontier.chosen),
            point.cost,
            interval_cell(point.cost_change),
            point.score,
            interval_cell(point.score_change),
            *(() if limit is None else ("failed" if point.failed else "yes" if point.allowed else "no",)),
        )
        for point in frontier.points
    )
    columns: tuple[Column, ...] = (
        Column("weight", kind="number", help="the decision weight; bold: selected"),
        Column("cost", unit, "number", "mean realised cost per validation case"),
        Column("Δ cost", unit, "number", f"less that of {rival}"),
        Column("score", kind="number", help="mean energy score; lower is better"),
        Column("Δ score", "%", "number", f"in per cent of that of {rival}"),
    )
    if limit is not None:
        allowed = Column("allowed", help=f"whether the score is at most {limit:g} % worse than that of {rival}")
        columns = (*columns, allowed)
    return Table("frontier", "Every decision weight on the validation cases", columns, rows, _PAIRED)


def calibration_table(fit: JudgedFit) -> Table:
    """Scores, both sides of the decision's calibration, and the spread, at both weights."""
    scores = [name for name in _SCORES if name in fit.study.forecasts]
    rows: list[tuple[Cell, ...]] = []
    for weight in fit.weights:
        sides = calibration_sides(fit.study, weight)
        means = [float(fit.values(name, weight).mean()) for name in scores]
        ratio = fit.stated(spread_skill(fit.study, weight))
        gap = interval_cell(fit.stated(sides.gap))
        rows.append((weight, *means, sides.predicted.estimate, sides.realised.estimate, gap, interval_cell(ratio, 1.0)))
    columns = (
        Column("weight", kind="number", help="the decision weight"),
        *(Column(_SCORES[name], kind="number", help="lower is better") for name in scores),
        Column("predicted cost", fit.unit, "number", "mean cost that the forecast expects of its own action"),
        Column("realised cost", fit.unit, "number", "mean cost at the outcome"),
        Column("gap", fit.unit, "number", "predicted less realised; 0 is right"),
        Column("spread / error", kind="number", help="1 is right; below 1 the members lie too close together"),
    )
    note = "Intervals are 95 % ones, bold where they leave out what is right."
    return Table("calibration", "Calibration on the test cases", columns, tuple(rows), note)


def case_groups_table(fit: JudgedFit, groups: Sequence[CaseGroup]) -> Table:
    """Costs in every group of the cases."""
    rows = tuple(
        (
            group.kind,
            ShownCell(group.name, f"{group.place:02d}"),
            group.cases,
            group.weight_0_cost,
            *_selected(fit, group),
        )
        for group in groups
    )
    columns = (
        Column("parts by", help="the outcome, or, as many cases, by what the forecasts expected; times are UTC"),
        Column("part"),
        Column("cases", kind="number"),
        Column("cost" if fit.weightless else "cost at weight 0", fit.unit, "number", "mean per case"),
        *(
            (
                Column(f"cost at weight {fit.weight:g}", fit.unit, "number", "mean per case"),
                Column("change", fit.unit, "number", "per case, paired"),
            )
            if fit.weight
            else ()
        ),
    )
    return Table("parts", "Cost in parts of the cases", columns, rows, _PAIRED if fit.weight else "")


def _selected(fit: JudgedFit, group: CaseGroup) -> tuple[Cell, ...]:
    return (group.cost, interval_cell(group.change)) if fit.weight else ()


def left_out_table(quality: DataQuality) -> Table:
    """How many rows were left out, and why."""
    columns = (Column("left out because"), Column("rows", kind="number"))
    note = "" if quality.blamed is None else f"{quality.blamed.sentence}."
    return Table("left-out", "Rows that were left out", columns, tuple(quality.left_out.items()), note)


def columns_table(quality: DataQuality) -> Table:
    """The range of every column that is used."""
    rows: list[tuple[Cell, ...]] = []
    for name, facts in quality.columns.items():
        known = [facts[key] for key in _RANGE if facts.get(key) is not None]
        span = [None if facts.get(key) is None else _amount(facts[key], known) for key in _RANGE]
        rows.append((name, *span, int(facts.get("missing", 0)), "yes" if name in quality.constant else ""))
    columns = (
        Column("column"),
        *(Column(name, kind="number") for name in ("least", "mean", "largest")),
        Column("missing", kind="number", help="rows without a value"),
        Column("constant", help="whether it never changes"),
    )
    return Table("columns", "The columns that are used", columns, tuple(rows))


def settings_table(settings: Mapping[str, Any], what: str = "fit") -> Table:
    """Every setting of a fit or a run by its dotted name."""
    rows = tuple((name, "–" if value is None else str(value)) for name, value in _flat(settings))
    return Table("settings", f"Settings of the {what}", (Column("setting"), Column("value")), rows)


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", ", ".join(map(str, value)) if isinstance(value, list | tuple) else value


def _amount(value: float, beside: Sequence[float]) -> ShownCell:
    return ShownCell(amount_text(value, beside=beside), value)


def interval_cell(change: Difference | None, right: float = 0.0, decimals: int | None = None) -> Cell:
    """A number with its interval where there is one, strong where that leaves out what is right."""
    if change is None:
        return None
    strong = not math.isnan(change.low) and not change.low <= right <= change.high
    return ShownCell(interval_text(*change, decimals), change.mean, strong)
