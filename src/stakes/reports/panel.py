"""The report of a fit of many series: one page for all of them."""

from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

from stakes.artifacts.folder import read_judged, read_kept, record_file
from stakes.artifacts.panels import GROUPS, WORTH, PanelFit, PolicyCost
from stakes.errors import SettingError, did_you_mean
from stakes.forecasting.panel_forecaster import CALIBRATED
from stakes.forecasting.panels import PanelState
from stakes.plots import COLOURS, band
from stakes.reports.drawing import panel
from stakes.reports.page import (
    Cell,
    Chart,
    ChartBand,
    ChartLine,
    Column,
    Figure,
    Report,
    Section,
    ShownCell,
    Table,
    write_report,
)
from stakes.settings import to_plain
from stakes.text import amount_text, count_text, fixed_text

_BEST = 10
_LISTED = 5000  # series in the table of all
_SHOWN = 100  # cases of one series


def report_of_panel(fit: PanelFit, folder: Path, out: Path | None = None) -> Path:
    """Write FOLDER/report.html, or another file; returns where it is."""
    series, groups = (read_kept(folder / name) for name in (WORTH, GROUPS))
    fitted, layout, about, spec = fit.forecaster.fitted_, fit.forecaster.layout_, fit.about, fit.cost_spec
    assert fitted is not None
    assert layout is not None
    state, path = fitted.state, out or folder / "report.html"
    unit, beside = spec.unit, "today's action" if layout.baseline_action else "the level with pooled errors"
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
                        Column("cases"),
                        Column("mean cost", unit),
                        Column("forecast less this", unit),
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
        provenance={
            "data": "a table in memory" if about.data is None else about.data.file,
            "trained on": f"{state.trained:,} cases",
        },
        folded={
            "Settings": tuple(
                f"{name}: {value}" for name, value in {**to_plain(layout), **to_plain(about.settings)}.items()
            )
        },
    )
    write_report(report, path)
    if out is None:
        record_file(folder, "report.html")
    return path


def report_of_series(fit: PanelFit, folder: Path, key: str, out: Path) -> Path:
    """Write the page of one series: its test cases, what was ordered and what that cost."""
    cases, spec = read_judged(folder), fit.cost_spec
    own = cases[cases["series"] == key].sort_values("time")
    if not len(own):
        known = tuple(cases["series"].unique())
        raise SettingError(f"series must be one with test cases, got {key!r}; {did_you_mean(key, known)}")
    beside = "today_cost" if "today_cost" in own else "level_cost"
    unit, other = spec.unit, "today's action" if beside == "today_cost" else "the level with pooled errors"
    means = [amount_text(float(own[name].mean()), unit) for name in ("cost", beside, "expected_cost")]
    shown = own[own["lead_hours"] == own["lead_hours"].min()] if "lead_hours" in own else own
    shown = shown.set_index("time").tail(_SHOWN)
    what = f"the last {count_text(len(shown), 'test case')}"
    place: dict[str, Any] = {"x": "target time", "places": shown.index, "group": "cases"}
    charts = (
        Chart(
            f"Outcome, {what}",
            lines=(ChartLine("outcome", "ink", shown["outcome"], dots=True),),
            bands=(ChartBand("forecast, 10 to 90 %", "blue band", shown["low"], shown["high"]),),
            **place,
        ),
        Chart(f"Action, {what}", lines=(ChartLine("action", "blue", shown["action"]),), steps=True, **place),
    )
    figure = Figure(
        "cases",
        "Outcome, forecast and action",
        f"{what.capitalize()}: the outcome, the 10 to 90 % range of the forecast, and below the action.",
        [panel(_draw_series, shown, rows=2, height=3.8, legend=2)],
        {},
        [charts],
    )
    columns = ("time", "outcome", "action", "cost", beside, "expected_cost")
    rows = own[list(columns)].tail(_LISTED).itertuples(index=False)
    heads = (Column("time"), *(Column(name.replace("_", " ")) for name in columns[1:]))
    cells: tuple[tuple[Cell, ...], ...] = tuple((str(time), *map(float, values)) for time, *values in rows)
    report = Report(
        title=f"Decisions for {key}",
        subtitle=str(spec),
        headline=f"{count_text(len(own), 'test case')} cost {means[0]} each, against {means[1]} of {other}.",
        summary=(f"The forecast expected to pay {means[2]} each.",),
        sections=(Section("cases", "Case by case", figures=(figure,), tables=(Table("cases", what, heads, cells),)),),
        provenance={},
        folded={},
    )
    write_report(report, out)
    return out


def _draw_series(shown: pd.DataFrame, above: Axes, below: Axes) -> None:
    above.plot(shown.index, shown["outcome"], color="black", linewidth=1.0, marker=".", markersize=3, label="outcome")
    band(above, shown.index, shown["low"], shown["high"], COLOURS["blue"], label="forecast")
    below.plot(shown.index, shown["action"], color=COLOURS["blue"], drawstyle="steps-mid", label="action")
    locator = AutoDateLocator(maxticks=5)
    below.xaxis.set(major_locator=locator, major_formatter=ConciseDateFormatter(locator))


def _policy(each: PolicyCost) -> tuple[Cell, ...]:
    told: Cell = None if each.change is None else ShownCell.interval(*each.change)
    return each.policy, each.cases, each.cost, told


def _series_table(identifier: str, title: str, series: pd.DataFrame, unit: str) -> Table:
    columns = (
        Column("series"),
        Column("cases"),
        Column("mean cost", unit),
        Column("expected", unit),
        Column("saved in all", unit),
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
        Column("cases"),
        Column("mean cost", unit),
        Column("expected", unit),
        Column("level's cost", unit),
        Column("spread/error"),
        Column("inside 80 %"),
    )
    names = ["group", "value", "cases", "cost", "expected_cost", "level_cost", "spread/error", "inside 80 %"]
    rows = []
    for group, value, cases, cost, due, level, ratio, inside in groups[names].itertuples(index=False):
        told = ShownCell(fixed_text(ratio, 2), ratio, strong=not CALIBRATED[0] <= ratio <= CALIBRATED[1])
        rows.append(
            (str(group).strip(), str(value), int(cases), float(cost), float(due), float(level), told, float(inside))
        )
    return Table("groups", "By words of few levels, and by size of the series", columns, tuple(rows))


def _selection_table(state: PanelState, unit: str) -> Table:
    columns = (
        Column("candidate"),
        Column("mean cost", unit),
        Column("more than the selected", unit),
    )
    rows: list[tuple[Cell, ...]] = []
    for each in sorted(state.candidates, key=lambda candidate: candidate.cost):
        change = each.change
        told = ShownCell.interval(*change) if change is not None and all(value == value for value in change) else None
        rows.append((each.name, each.cost, told))
    return Table("candidates", "Candidates on validation cases", columns, tuple(rows))
