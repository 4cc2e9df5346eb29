"""The report of a fit of many series: one page for all of them."""

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from stakes.artifacts.folder import record_file
from stakes.cost_spec.spec import CostSpec
from stakes.reports.page import Cell, Column, Report, Section, ShownCell, Table, write_report
from stakes.text import fixed_text

if TYPE_CHECKING:
    from stakes.artifacts.panels import AboutPanel, PanelFit, PolicyCost
    from stakes.forecasting.panels import PanelState

_BEST = 10
_LISTED = 5000  # series in the table of all
_RIGHT = (0.85, 1.15)


def write_panel_report(
    folder: Path,
    about: "AboutPanel",
    spec: CostSpec,
    state: "PanelState",
    series: pd.DataFrame,
    groups: pd.DataFrame,
    out: Path | None = None,
) -> Path:
    """Write FOLDER/report.html, or another file; returns where it is."""
    path = out or folder / "report.html"
    unit, beside = spec.unit, "today's action" if about.today else "the level with pooled errors"
    saved = float(series["saved"].sum())
    total = f"All {len(series):,} series together save {fixed_text(saved, 0)} {unit}".rstrip()
    policies = tuple(_policy(each) for each in about.policies)
    sections = (
        Section(
            "policies",
            "What decisions cost",
            (
                "Mean cost of a test case, and of the forecast less each other policy, with 95 % intervals over time.",
                f"{total} beside {beside}.",
            ),
            tables=(
                Table(
                    "policies",
                    "Policies on the same cases",
                    (
                        Column("decided by"),
                        Column("cases", kind="number"),
                        Column("mean cost", unit, "number"),
                        Column("forecast less this", unit, "number"),
                    ),
                    policies,
                ),
            ),
        ),
        Section(
            "best",
            "Where it gains and loses most",
            tables=(
                _series_table("gains", f"The {_BEST} series that save most beside {beside}", series.head(_BEST), unit),
                _series_table(
                    "losses", f"The {_BEST} series that lose most, or save least", series.iloc[::-1].head(_BEST), unit
                ),
            ),
        ),
        Section(
            "groups",
            "Cost and calibration by group",
            (
                "Spread/error is the spread of the members over the error of their mean, both in levels of the series:"
                " 1 is calibrated, below 0.85 the forecast is too sure (bold).",
            ),
            tables=(_groups_table(groups, unit),),
        ),
        Section("selection", "Model selection", tables=(_selection_table(state, unit),)),
        Section(
            "series",
            "All series",
            (
                ()
                if len(series) <= _LISTED
                else (f"The table lists {_LISTED:,} of {len(series):,} series; evaluation/series.parquet has all.",)
            ),
            tables=(
                _series_table("all-series", "Every series, the largest savings first", series.head(_LISTED), unit),
            ),
        ),
    )
    report = Report(
        title=f"Decisions for {len(series):,} series",
        subtitle=str(spec),
        summary=about.sentences[1:],
        sections=sections,
        headline=about.sentences[0] if about.sentences else "",
        provenance={"data": about.data.file, "trained on": f"{state.trained:,} cases"},
        folded={"Settings": tuple(f"{name}: {value}" for name, value in about.settings.items())},
    )
    write_report(report, path)
    return path


def report_of_panel(fit: "PanelFit", folder: Path, out: Path | None) -> Path:
    """Write the report again."""
    series, groups = (pd.read_parquet(folder / "evaluation" / f"{name}.parquet") for name in ("series", "groups"))
    fitted = fit.forecaster.fitted_
    assert fitted is not None
    path = write_panel_report(folder, fit.about, fit.cost_spec, fitted.state, series, groups, out)
    if out is None:
        record_file(folder, "report.html")
    return path


def _policy(each: "PolicyCost") -> tuple[Cell, ...]:
    told: Cell = None if each.change is None else ShownCell.interval(*each.change)
    return each.policy, each.cases, each.cost, told


def _series_table(identifier: str, title: str, series: pd.DataFrame, unit: str) -> Table:
    columns = (
        Column("series"),
        Column("cases", kind="number"),
        Column("mean cost", unit, "number"),
        Column("expected", unit, "number"),
        Column("saved in all", unit, "number"),
    )
    return Table(identifier, title, columns, tuple(series_table_rows(series)))


def series_table_rows(series: pd.DataFrame) -> list[tuple[Cell, ...]]:
    """A row of each series."""
    rows = zip(series["series"], series["cases"], series["cost"], series["expected"], series["saved"], strict=True)
    return [(str(name), int(count), float(cost), float(due), float(saved)) for name, count, cost, due, saved in rows]


def _groups_table(groups: pd.DataFrame, unit: str) -> Table:
    columns = (
        Column("group"),
        Column("value"),
        Column("cases", kind="number"),
        Column("mean cost", unit, "number"),
        Column("expected", unit, "number"),
        Column("level's cost", unit, "number"),
        Column("spread/error", kind="number"),
        Column("inside 80 %", kind="number"),
    )
    names = ["group", "value", "cases", "cost", "expected_cost", "level_cost", "spread/error", "inside 80 %"]
    rows = []
    for group, value, cases, cost, due, level, ratio, inside in groups[names].itertuples(index=False):
        told = ShownCell(fixed_text(ratio, 2), ratio, strong=not _RIGHT[0] <= ratio <= _RIGHT[1])
        rows.append(
            (str(group).strip(), str(value), int(cases), float(cost), float(due), float(level), told, float(inside))
        )
    return Table("groups", "By words of few levels, and by size of the series", columns, tuple(rows))


def _selection_table(state: "PanelState", unit: str) -> Table:
    columns = (
        Column("candidate"),
        Column("mean cost", unit, "number"),
        Column("more than the selected", unit, "number"),
    )
    rows: list[tuple[Cell, ...]] = []
    for each in sorted(state.candidates, key=lambda candidate: candidate.cost):
        change = each.change
        told = ShownCell.interval(*change) if change is not None and all(value == value for value in change) else None
        rows.append((each.name, each.cost, told))
    return Table("candidates", "Candidates on validation cases", columns, tuple(rows))
