"""The tables of a report, and model selection as a table for a terminal."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from stakes.costs.cost import RangedParameter
from stakes.data.tables.layout import DataQuality
from stakes.evaluation.case_metrics import LimitWorth
from stakes.evaluation.intervals import Difference
from stakes.evaluation.selection import Frontier, JudgedCandidate, ModelSelection, candidate_title
from stakes.reports.comparison import Comparison
from stakes.reports.page import Cell, Column, ShownCell, Table
from stakes.text import amount_text, count_text, fixed_text, shared_decimals, signed_interval_text


@dataclass(frozen=True, eq=False)
class Result:
    """What a fit, a recalibration or a backtest leaves, for a terminal and for machines."""

    folder: Path  # where it was made
    unit: str  # of the cost
    sentences: tuple[str, ...]  # what to know about it
    tables: tuple[tuple[str, pd.DataFrame], ...]  # what people are shown, each with its title
    facts: Mapping[str, Any]  # what machines are told besides

    def record(self) -> dict[str, Any]:
        """For machines."""
        return {"folder": str(self.folder), "unit": self.unit, "sentences": list(self.sentences), **self.facts}


_RANGE = ("min", "mean", "max")  # what is known of a column
_PAIRED = "Intervals are paired 95 % intervals, bold where they exclude zero."
_DELTA = "\N{GREEK CAPITAL LETTER DELTA}"


def selection_table(selection: ModelSelection, unit: str) -> Table:
    """What every candidate is worth on the validation cases, and on the test cases."""
    rows: list[tuple[Cell, ...]] = []
    for candidate, change, score, test_cost in _judged(selection):
        name = ShownCell(_with_parameters(candidate), strong=candidate is selection.selected)
        expected = candidate.expected_change
        rows.append((name, _standing(selection, candidate), test_cost, candidate.cost, change, score, expected))
    if (again := _fitted_again(selection)) is not None:
        rows.append((*again, *[None] * 4))
    columns = (
        Column("candidate", help="with its parameters; bold: selected"),
        Column("result", help="selected, selected before it, or why not"),
        Column("test cost", unit, "mean realised cost per test case"),
        Column("validation cost", unit, "mean realised cost per validation case"),
        Column(f"{_DELTA} cost", unit, "change from the one selected before it"),
        Column(f"{_DELTA} score", "%", "change from the one selected before it, in percent; a lower score is better"),
        Column(f"expected {_DELTA} cost", unit, "what decided: the candidate is selected if it is negative"),
    )
    note = (
        f"From {selection.words(selection.candidates[0].name)} on, each candidate is compared with the one selected "
        "so far, on validation cases, and selected if it is expected to cost less. The expected change of the cost is "
        "the measured one, shrunk towards what the change of the score implies: costs are noisy, scores less so. "
        "Intervals are paired 95 % intervals, with their upper ends widened for testing all steps together; a bold one "
        "proves a lower cost."
    )
    return Table("selection", "Every candidate", columns, tuple(rows), note)


def shown_selection(selection: ModelSelection, unit: str = "") -> tuple[str, pd.DataFrame]:
    """A title, and one line per candidate, for a terminal."""
    costs = f" ({unit})" if unit else ""
    lines: list[dict[str, Any]] = []
    for candidate, change, score, test_cost in _judged(selection):
        lines.append(
            {
                "candidate": _with_parameters(candidate),
                f"validation cost{costs}": candidate.cost,
                f"change{costs}": change and change.text,
                "score (%)": score and score.text,
                "proven": _proof(candidate),
                f"test cost{costs}": test_cost,
                "result": _standing(selection, candidate),
            }
        )
    if (again := _fitted_again(selection)) is not None:
        lines.append({"candidate": again[0], f"test cost{costs}": again[2], "result": again[1]})
    table = pd.DataFrame(lines)
    which = "past" if selection.corrects else "validation"
    title = (
        f"model selection on {selection.cases:,} {which} cases: changes against the candidate selected before, "
        "95 % intervals, upper ends with all steps tested together"
    )
    return title, table.loc[:, table.notna().any()]


def _judged(
    selection: ModelSelection,
) -> Iterator[tuple[JudgedCandidate, ShownCell | None, ShownCell | None, float | None]]:
    """Every candidate with the change of its cost, of its score, and its cost on test cases."""
    tested = {candidate.name: candidate.cost for candidate in selection.tested}
    costs = [candidate.cost for candidate in selection.candidates if candidate.cost is not None]
    decimals = shared_decimals(costs, digits=4)
    for candidate in selection.candidates:
        score = candidate.score_change
        shown = None if score is None else ShownCell(fixed_text(score.mean, 1, signed=True), score.mean)
        change = None if candidate.tested_change is None else ShownCell.interval(*candidate.tested_change, decimals)
        yield candidate, change, shown, tested.get(candidate.name)


def _proof(candidate: JudgedCandidate) -> str | None:
    return None if candidate.cost_change is None else "yes" if candidate.proven else "no"


def _with_parameters(candidate: JudgedCandidate) -> str:
    """What a candidate is called in a table, with what it changes."""
    values = candidate.parameters.items()
    changed = ", ".join(f"{name} {value if isinstance(value, str) else f'{value:g}'}" for name, value in values)
    return f"{candidate_title(candidate.name)} ({changed})" if changed else candidate_title(candidate.name)


def _standing(selection: ModelSelection, candidate: JudgedCandidate) -> str:
    """Whether a candidate is selected, was selected before another, or why not, in a few words."""
    if candidate is selection.selected:
        return "selected"
    return "selected before" if candidate.accepted else candidate.why


def _fitted_again(selection: ModelSelection) -> tuple[str, str, float] | None:
    """The selected forecast once it is fitted again on the validation cases too; corrections are not."""
    if selection.corrects or selection.test_cost is None:
        return None
    title = f"{candidate_title(selection.selected.name)}, fitted again"
    return title, "on all rows before the test cases: judged below", selection.test_cost


def policies_table(comparison: Comparison) -> Table:
    """What every policy costs, per case and in all, and how it differs from the reference."""
    climatology, foresight = comparison.policy("climatology"), comparison.policy("foresight")
    means = [float(policy.cost[policy.known].mean()) for policy in comparison.policies]
    totals = [float(policy.cost[policy.known].sum()) for policy in comparison.policies]
    ends = None if climatology is None or foresight is None else (climatology.cost.mean(), foresight.cost.mean())
    valued = ends is not None and not math.isclose(*ends)
    rows: list[tuple[Cell, ...]] = []
    for policy, mean, total in zip(comparison.policies, means, totals, strict=True):
        name = policy.name.removeprefix("the ")
        change = None if policy is comparison.reference else ShownCell.interval(*comparison.change(policy))
        row: tuple[Cell, ...] = (name, int(policy.known.sum()), _amount(mean, means), _amount(total, totals), change)
        if ends is not None and valued:
            row = (*row, float(100 * (ends[0] - mean) / (ends[0] - ends[1])) if policy.known.all() else None)
        rows.append(row)
    columns: tuple[Column, ...] = (
        Column("policy", help="a way to decide"),
        Column("cases", help="test cases in which the action is known"),
        Column("cost per case", comparison.unit),
        Column("in total", comparison.unit, "summed over these cases"),
        Column(
            f"change from {comparison.reference.label}",
            comparison.unit,
            "per case, over the cases in which both are known",
        ),
    )
    if valued:
        columns += (Column("value", "%", "0: climatology; 100: perfect foresight"),)
    note = _PAIRED
    if climatology is not None:
        priced = comparison.cost_spec is not None and comparison.cost_spec.columns
        whose = " at the prices of each case" if priced else ""
        note += f" Climatology is the constant action that was best for the training rows{whose}."
    return Table("policies", "What each policy costs", columns, tuple(rows), note)


def decision_makers_table(comparison: Comparison, ranged: RangedParameter) -> Table:
    """What all test cases cost at some values of the parameter."""
    beside = any(each.change is not None for each in comparison.by_parameter)
    rows: list[tuple[Cell, ...]] = []
    for each in comparison.by_parameter:
        row: tuple[Cell, ...] = (each.value, each.cost, each.climatology_cost)
        change = None if each.difference is None else ShownCell.interval(*each.difference)
        rows.append((*row, each.weight_0_cost, change) if beside else row)
    unit = comparison.unit
    columns = [
        Column(ranged.name, help="of a decision maker"),
        Column("cost", unit, "mean realised cost per test case"),
        Column("climatology", unit, "that of the one action that was best for this decision maker"),
    ]
    if beside:
        columns.append(Column("weight 0", unit, "that of the forecast trained on its score alone"))
        columns.append(Column(f"{_DELTA} cost", unit, "less that of weight 0"))
    note = f"Every row is over all test cases. {_PAIRED}"
    return Table("decision-makers", "What each decision maker pays", tuple(columns), tuple(rows), note)


def frontier_table(frontier: Frontier, unit: str, base: str) -> Table:
    """Every decision weight on the validation cases."""
    limit = frontier.tolerance
    rows = tuple(
        (
            ShownCell(point.named(base), point.weight, strong=point.weight == frontier.chosen),
            point.cost,
            None if point.cost_change is None else ShownCell.interval(*point.cost_change),
            point.score,
            None if point.score_change is None else ShownCell.interval(*point.score_change),
            *(() if limit is None else ("failed" if point.failed else "yes" if point.allowed else "no",)),
        )
        for point in frontier.points
    )
    columns: tuple[Column, ...] = (
        Column("weight", help="the decision weight; bold: selected"),
        Column("cost", unit, "mean realised cost per validation case"),
        Column(f"{_DELTA} cost", unit, f"less that of {base}"),
        Column("score", help="mean energy score; lower is better"),
        Column(f"{_DELTA} score", "%", f"in per cent of that of {base}"),
    )
    if limit is not None:
        columns += (Column("allowed", help=f"whether the score is at most {limit:g} % worse than that of {base}"),)
    return Table("frontier", "Every decision weight on the validation cases", columns, rows, _PAIRED)


def calibration_table(comparison: Comparison) -> Table:
    """Scores, expected and realised cost, and spread over error of every forecast."""
    scores = list(comparison.forecast.scores)
    rows: list[tuple[Cell, ...]] = []
    for policy, forecast in comparison.forecasts.items():
        ratio = comparison.spread_over_error(forecast)
        rows.append(
            (
                policy.label,
                *(float(forecast.scores[name].mean()) if name in forecast.scores else None for name in scores),
                float(forecast.expected_cost.mean()),
                float(policy.cost.mean()),
                ShownCell.interval(*comparison.gap(policy)),
                None if ratio is None else ShownCell.interval(*ratio, right=1.0),
            )
        )
    unit = comparison.unit
    columns = (
        Column("forecast"),
        *(Column(name, help="lower is better") for name in scores),
        Column("expected cost", unit, "mean cost that the forecast expects of its own action"),
        Column("realised cost", unit, "mean cost at the outcome"),
        Column("gap", unit, "expected less realised; 0 is right"),
        Column("spread / error", help="1 is right; below 1 the ensemble is under-dispersed"),
    )
    note = "Intervals are 95 % intervals, bold where they exclude the right value."
    return Table("calibration", "Calibration on the test cases", columns, tuple(rows), note)


def groups_table(comparison: Comparison) -> Table:
    """Costs in every group of cases."""
    both, unit = comparison.left_reference, comparison.unit
    rows = tuple(
        (
            group.kind,
            ShownCell(group.name, f"{group.place:02d}"),
            group.cases,
            group.cost,
            *((ShownCell.interval(*group.change),) if both else ()),
            group.regret,
            100 * group.share,
        )
        for group in comparison.groups
    )
    columns = [
        Column("grouped by", help="the outcome, or, as many cases, by what the forecast expected; times are UTC"),
        Column("group"),
        Column("cases"),
        Column("cost", unit, "mean per case, under the selected policy"),
    ]
    if both:
        columns.append(Column(f"change from {comparison.reference.label}", unit, "per case, paired"))
    columns.append(Column("regret", unit, "mean per case above perfect foresight, under the selected policy"))
    columns.append(Column("share of all regret", "%", "where the money went"))
    return Table("groups", "Cost and regret in groups of cases", tuple(columns), rows, _PAIRED if both else "")


def limits_table(comparison: Comparison, limits: Sequence[LimitWorth], cases: int) -> Table:
    """What the limits of a vector action cost."""
    unit = f"{comparison.unit or 'cost'} / {comparison.action_unit or 'unit'}"
    columns = (
        Column("limit"),
        Column("binds in", "% of cases", "where at least one limit of this parameter binds"),
        Column("one unit more saves", unit, "mean over the cases, allowed everywhere at once"),
        Column("most often at"),
        Column("there in", "% of cases"),
    )
    rows = [
        (limit.kind, 100 * limit.share, limit.saved, limit.place or "nowhere", 100 * limit.place_share)
        for limit in limits
    ]
    note = f"Shadow prices over {count_text(cases, 'test case')}: how fast the expected cost falls as a limit is eased."
    return Table("limits", "What the limits cost", columns, tuple(rows), note)


def origins_table(origins: pd.DataFrame, rivals: Mapping[str, str], unit: str) -> Table:
    """Every origin of a backtest, and all together."""
    columns = (
        Column("origin"),
        Column("first case"),
        Column("last case"),
        Column("cases", help="cases it is judged on"),
        Column("cost", unit, "mean realised cost of the decisions"),
        *(Column(f"change against {words}", unit, "with its 95 % interval") for words in rivals.values()),
        *((Column("candidate", help="the selected candidate"),) if "candidate" in origins else ()),
        Column("decision weight", help="the selected weight"),
        Column("fitted on", help="cases that were known by then"),
    )
    rows: list[tuple[Cell, ...]] = []
    for row in origins.to_dict("records"):
        fitted, weight = row["fitted_cases"], row["decision_weight"]
        changes = [Difference(*(float(row[f"{name}_{end}"]) for end in ("change", "low", "high"))) for name in rivals]
        rows.append(
            (
                str(row["origin"]),
                *(str(row[name]).partition(" ")[0] for name in ("first", "last")),
                int(row["cases"]),
                float(row["cost"]),
                *(
                    None
                    if math.isnan(change.mean)
                    else ShownCell(signed_interval_text(change), change.mean, strong=change.significant)
                    for change in changes
                ),
                *([", ".join(map(candidate_title, row["candidate"].split(", ")))] if "candidate" in row else []),
                ShownCell("varies") if pd.isna(weight) else ShownCell(f"{weight:g}", float(weight)),
                None if pd.isna(fitted) else int(fitted),
            )
        )
    return Table("origins", "Every origin, and all together", columns, tuple(rows))


def left_out_table(quality: DataQuality) -> Table:
    """How many rows were left out, and why."""
    columns = (Column("left out because"), Column("rows"))
    note = "" if quality.blamed is None else f"{quality.blamed.sentence}."
    return Table("left-out", "Rows that were left out", columns, tuple(sorted(quality.left_out.items())), note)


def columns_table(quality: DataQuality) -> Table:
    """The range of every column that is used."""
    rows: list[tuple[Cell, ...]] = []
    for name, facts in sorted(quality.columns.items()):
        known = [facts[key] for key in _RANGE if facts.get(key) is not None]
        span = [None if facts.get(key) is None else _amount(facts[key], known) for key in _RANGE]
        rows.append((name, *span, int(facts.get("missing", 0)), "yes" if name in quality.constant else ""))
    columns = (
        Column("column"),
        *(Column(name) for name in ("least", "mean", "largest")),
        Column("missing", help="rows without a value"),
        Column("constant", help="whether it never changes"),
    )
    return Table("columns", "The columns that are used", columns, tuple(rows))


def settings_table(settings: Mapping[str, Any], what: str) -> Table:
    """Every setting of a fit or a run by its dotted name."""
    rows = tuple((name, "–" if value is None else str(value)) for name, value in sorted(_flat(settings)))
    return Table("settings", f"Settings of the {what}", (Column("setting"), Column("value")), rows)


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", ", ".join(map(str, value)) if isinstance(value, list | tuple) else value


def _amount(value: float, beside: Sequence[float]) -> ShownCell:
    return ShownCell(amount_text(value, beside=beside), value)
