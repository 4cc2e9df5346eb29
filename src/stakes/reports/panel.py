"""The report of a fit of many series: one page for all of them, and one for each."""

from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

from stakes.artifacts.folder import read_judged, read_kept, record_file
from stakes.artifacts.panels import GROUPS, WORTH, PanelFit, PolicyCost
from stakes.errors import SettingError, did_you_mean
from stakes.evaluation.intervals import Difference
from stakes.forecasting.panel_forecaster import CALIBRATED, LEVEL, TODAY
from stakes.forecasting.panels import PanelState
from stakes.plots import COLOURS, band, panel
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
from stakes.reports.sentences import Rival, advice, cost_words
from stakes.reports.tables import settings_table
from stakes.settings import to_plain
from stakes.text import amount_text, count_text, fixed_text

_BEST = 10
_LISTED = 5000  # series in the table of all
_SHOWN = 100  # cases of one series


def report_of_panel(fit: PanelFit, folder: Path, out: Path | None = None) -> Path:
    """Write FOLDER/report.html, or another file; returns where it is."""
    series, groups = (read_kept(folder / name) for name in (WORTH, GROUPS))
    fitted, layout, about, unit = fit.forecaster.fitted_, fit.forecaster.layout_, fit.about, fit.cost_spec.unit
    assert fitted is not None
    assert layout is not None
    state, path = fitted.state, out or folder / "report.html"
    rival = TODAY if layout.baseline_action else LEVEL
    saved = f"{fixed_text(float(series['saved'].sum()), 0)} {unit}".rstrip()
    most = min(_BEST, max(1, len(series) // 2))
    listed = f"The table lists {_LISTED:,} of {len(series):,} series; `evaluation/series.parquet` has all."
    best = (
        _series_table("gains", f"The {most} series that save most against {rival}", series.head(most), unit),
        _series_table("losses", f"The {most} series that save least, or lose", series.iloc[::-1].head(most), unit),
    )
    every = _series_table("all-series", "Every series, the largest savings first", series.head(_LISTED), unit)
    settings = {"layout": to_plain(layout), **to_plain(about.settings)}
    sections = (
        Section(
            "policies",
            "What each policy costs",
            (f"On all test cases the {len(series):,} series save {saved} against {rival}.",),
            tables=(_policies_table(about.policies, unit),),
        ),
        Section("best", "Where it gains and loses most", tables=best),
        Section(
            "groups",
            "Cost and calibration by group",
            (
                "Spread/error is the spread of the members over the error of their mean, both in levels of the series. "
                f"1 is calibrated; below {CALIBRATED[0]:g} the forecast is too sure (bold).",
            ),
            tables=(_groups_table(groups, unit),),
        ),
        Section("selection", "Model selection", tables=(_selection_table(state, unit),)),
        Section("series", "All series", (listed,) if len(series) > _LISTED else (), tables=(every,)),
        Section("settings", "Settings", tables=(settings_table(settings, "fit"),)),
    )
    report = Report(
        title=f"Decisions for {len(series):,} series",
        subtitle=f"Cost: {cost_words(fit.cost_spec)}.",
        headline=advice("the forecast", _rivals(about.policies), unit) if about.policies else "",
        warnings=tuple(each for each in about.sentences if each.startswith("Warning")),
        summary=tuple(each for each in about.sentences if not each.startswith("Warning")),
        sections=sections,
        provenance={
            "data": "a table in memory" if about.data is None else about.data.file,
            "trained on": f"{state.trained:,} cases",
        },
    )
    write_report(report, path)
    if out is None:
        record_file(folder, "report.html")
    return path


def report_of_series(fit: PanelFit, folder: Path, key: str, out: Path) -> Path:
    """Write the page of one series: its test cases, what was ordered and what that cost."""
    cases, unit = read_judged(folder), fit.cost_spec.unit
    own = cases[cases["series"] == key].sort_values("time")
    if not len(own):
        known = tuple(cases["series"].unique())
        raise SettingError(f"series must be one with test cases, got {key!r}; {did_you_mean(key, known)}")
    rival, beside = (TODAY, "today_cost") if "today_cost" in own else (LEVEL, "level_cost")
    paid, theirs, expected = (amount_text(float(own[name].mean()), unit) for name in ("cost", beside, "expected_cost"))
    shown = own[own["lead_hours"] == own["lead_hours"].min()] if "lead_hours" in own else own
    shown = shown.set_index("time").tail(_SHOWN)
    what = f"the last {count_text(len(shown), 'test case')}"
    place: dict[str, Any] = {"x": "time", "places": shown.index, "group": "cases"}
    charts = (
        Chart(
            f"Outcome, {what}",
            lines=(ChartLine("outcome", "ink", shown["outcome"], dots=True),),
            bands=(ChartBand("forecast, 10 to 90 %", "blue band", shown["low"], shown["high"]),),
            **place,
        ),
        Chart(f"Action, {what}", lines=(ChartLine("action", "blue", shown["action"]),), steps=True, **place),
    )
    caption = f"{what.capitalize()}: above the outcome and the 10 to 90 % range of the forecast, below the action."
    drawing = panel(_draw_series, shown, rows=2, height=3.8, legend=2)
    figure = Figure("cases", "Outcome, forecast and action", caption, (drawing,), {}, (charts,))
    names = ("outcome", "action", "cost", beside, "expected_cost")
    heads = (Column("time"), *(Column(name.replace("_", " "), unit if "cost" in name else "") for name in names))
    days = bool((own["time"].dt.normalize() == own["time"]).all())
    times = own["time"].dt.strftime("%Y-%m-%d" if days else "%Y-%m-%d %H:%M")
    rows = zip(times, *(own[name].astype(float) for name in names), strict=True)
    table = Table("cases", "Its test cases", heads, tuple(list(rows)[-_LISTED:]))
    report = Report(
        title=f"Decisions for the series {key}",
        subtitle=f"Cost: {cost_words(fit.cost_spec)}. Judged on {count_text(len(own), 'test case')}.",
        headline=f"The forecast costs {paid} per case, {rival} {theirs}.",
        summary=(f"It expected to cost {expected} per case.",),
        sections=(Section("cases", "Case by case", figures=(figure,), tables=(table,)),),
    )
    write_report(report, out)
    return out


def _draw_series(shown: pd.DataFrame, above: Axes, below: Axes) -> None:
    above.plot(shown.index, shown["outcome"], color="black", linewidth=1.0, marker=".", markersize=3, label="outcome")
    band(above, shown.index, shown["low"], shown["high"], COLOURS["blue"], label="forecast")
    below.plot(shown.index, shown["action"], color=COLOURS["blue"], drawstyle="steps-mid", label="action")
    locator = AutoDateLocator(maxticks=5)
    below.xaxis.set(major_locator=locator, major_formatter=ConciseDateFormatter(locator))


def _rivals(policies: tuple[PolicyCost, ...]) -> list[Rival]:
    """What the forecast is compared with."""
    known = [(each, each.change) for each in policies if each.change is not None]
    return [Rival(each.policy, each.cost, Difference(*change)) for each, change in known]


def _policies_table(policies: tuple[PolicyCost, ...], unit: str) -> Table:
    columns = (
        Column("policy", help="a way to decide"),
        Column("cases"),
        Column("cost per case", unit),
        Column("change with the forecast", unit, "cost per case of the forecast less that of this policy"),
    )
    rows = [
        (each.policy, each.cases, each.cost, None if each.change is None else ShownCell.interval(*each.change))
        for each in policies
    ]
    note = "Intervals are paired 95 % intervals over time, bold where they exclude zero."
    return Table("policies", "What each policy costs", columns, tuple(rows), note)


def _series_table(identifier: str, title: str, series: pd.DataFrame, unit: str) -> Table:
    heads = ("cost per case", "expected", "saved in total")
    columns = (Column("series"), Column("cases"), *(Column(name, unit) for name in heads))
    rows = zip(
        series["series"].astype(str),
        series["cases"].astype(int).tolist(),
        *(series[name].astype(float).tolist() for name in ("cost", "expected", "saved")),
        strict=True,
    )
    return Table(identifier, title, columns, tuple(rows))


def _groups_table(groups: pd.DataFrame, unit: str) -> Table:
    costs = ("cost per case", "expected", "cost of the level")
    columns = (Column("group"), Column("value"), Column("cases"), *(Column(name, unit) for name in costs))
    columns = (*columns, Column("spread/error"), Column("inside 80 %", help="share of outcomes in the 80 % interval"))
    names = ["group", "value", "cases", "cost", "expected_cost", "level_cost", "spread/error", "inside 80 %"]
    rows: list[tuple[Cell, ...]] = []
    for group, value, cases, cost, due, level, ratio, inside in groups[names].itertuples(index=False):
        told = ShownCell(fixed_text(ratio, 2), ratio, strong=not CALIBRATED[0] <= ratio <= CALIBRATED[1])
        amounts = (float(cost), float(due), float(level))
        rows.append((str(group).strip(), str(value), int(cases), *amounts, told, float(inside)))
    return Table("groups", "By words of few levels, and by size of the series", columns, tuple(rows))


def _selection_table(state: PanelState, unit: str) -> Table:
    columns = (Column("candidate"), Column("cost per case", unit), Column("more than the selected one", unit))
    rows: list[tuple[Cell, ...]] = []
    for each in sorted(state.candidates, key=lambda candidate: candidate.cost):
        change = each.change
        told = ShownCell.interval(*change) if change is not None and all(value == value for value in change) else None
        rows.append((each.name, each.cost, told))
    return Table("candidates", "Candidates on validation cases", columns, tuple(rows))
