"""The report of the problems: a section each, with what was decided, a figure and a table."""

from collections.abc import Mapping, Sequence
from typing import Any

from stakes.reports.page import Column, Figure, Report, Section, ShownCell, Table

__all__ = ["build_programs_report"]

_SUMMARY = (
    "Decisions with many parts on real records. Every method is learned from training cases, stopped, corrected and "
    "chosen on later validation cases, and judged on still later test cases, which choose nothing.",
    "Differences are paired, with 95 % intervals over time, whose neighbours depend on each other, and over seeds. The "
    "reference is what a practitioner would do in five minutes.",
)


def build_programs_report(
    problems: Mapping[str, Mapping[str, Any]],
    figures: Mapping[str, Figure],
    reduced: str | None,
    notes: Sequence[str],
    provenance: Mapping[str, str],
) -> Report:
    """Everything on one page.

    Args:
        problems: What `stakes.paper.programs.comparison.compared` said of each problem, by name.
        figures: Their figures, by name.
        reduced: In what respect the run was smaller than a whole one; None for a whole one.
        notes: What was left out, in sentences.
        provenance: How, with what and from which data it was made, by name.
    """
    sections = [
        Section(name, about["title"], _sentences(about), (figures[name],), tuple(_tables(name, about)))
        for name, about in problems.items()
    ]
    return Report(
        title="Decisions with many parts, on real records",
        subtitle="Schedules, batteries and allocations: what forecasts trained on the decision are worth",
        summary=(*_SUMMARY, *notes),
        reduced=reduced,
        sections=tuple(sections),
        provenance=provenance,
    )


def _sentences(about: Mapping[str, Any]) -> tuple[str, ...]:
    cases = about["cases"]
    counts = f"{cases['train']:,} cases to learn from, {cases['validation']:,} to choose by, {cases['test']:,} to judge"
    first = about["from"].get("test")
    since = "" if first is None else f" from {first} on"
    foresight = f"Who knows the outcomes pays {about['foresight_cost']:.4g} {about['unit']}."
    return about["text"], f"{counts}{since}. {foresight}"


def _tables(name: str, about: Mapping[str, Any]) -> list[Table]:
    unit, measures = about["unit"], about["measures"]
    columns = (
        Column("method"),
        Column("cost", unit, "number", "mean over test cases and seeds"),
        Column("less the reference", unit, "number", "paired difference with its 95 % interval"),
        Column("of the reference", "%", "number"),
        *(Column(measure.replace("_", " "), kind="number") for measure in measures),
        Column("energy score", kind="number"),
        Column("signed gap", unit, "number", "expected less paid; negative where a forecast is too sure"),
        Column("chosen on validation cases", help="how many seeds took which candidate"),
    )
    rows = tuple(
        (
            row["title"],
            row["cost"],
            _interval(row["less_reference"]) if row["name"] != about["reference"] else "the reference",
            _interval(row["change_in_percent"], 1) if row["name"] != about["reference"] else "",
            *(row[measure] for measure in measures),
            row["energy_score"],
            _interval(row["gap"]),
            _taken(row["taken"]),
        )
        for row in about["methods"]
    )
    tables = [Table(f"{name}-methods", "What each method cost", columns, rows)]
    if about["pairs"]:
        titles = {row["name"]: row["title"] for row in about["methods"]}
        heads = (Column("method"), Column("less"), Column("difference of the cost", unit, "number"))
        sides = [(titles[each["method"]], titles[each["less"]], _interval(each["cost"])) for each in about["pairs"]]
        tables.append(Table(f"{name}-pairs", "Methods side by side", heads, tuple(sides)))
    return tables


def _interval(interval: Sequence[float] | None, decimals: int = 3) -> ShownCell | None:
    if interval is None:
        return None
    mean, low, high = interval
    return ShownCell.interval(mean, low, high, decimals)


def _taken(taken: Mapping[str, int]) -> str:
    return ", ".join(f"{name}: {count}" for name, count in taken.items() if count) if len(taken) > 1 else ""
