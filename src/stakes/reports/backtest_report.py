"""The report of a backtest, one page: what the decisions cost as time went on, beside every rival, origin by origin."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.ticker import MaxNLocator

from stakes.evaluation.intervals import Difference
from stakes.reports.drawing import LOOKS, axis_label, drawing_style, error_bars, figure_of_panels, new_panel
from stakes.reports.fit_tables import settings_table
from stakes.reports.page import Cell, Column, Figure, Report, Section, ShownCell, Table
from stakes.reports.selection_text import candidate_title
from stakes.text import count_text, signed_interval_text

_LOOKS = {"weight_0": LOOKS["plain"], "climatology": LOOKS["selected"], "today": LOOKS["today"]}
_ABOUT = (
    "Every origin is a moment of the past: the forecast was fitted on the cases whose outcomes were known by then, and "
    "judged on those that came next, up to the following origin.",
)


def build_backtest_report(
    table: pd.DataFrame,
    sentences: Sequence[str],
    rivals: Mapping[str, str],
    unit: str,
    settings: Mapping[str, Any],
    provenance: Mapping[str, str],
) -> Report:
    """Everything on one page, the answer first."""
    overall, origins = table.iloc[-1], table.iloc[:-1]
    compared = {name: words for name, words in rivals.items() if overall.get(f"{name}_cases")}
    differing = {name: words for name, words in compared.items() if origins[f"{name}_change"].any()}
    section = Section(
        "origins",
        "Origin by origin",
        _ABOUT,
        (_changes_figure(origins, differing, unit, settings),) if differing else (),
        (_origins_table(table, compared, unit),),
    )
    judged = count_text(int(overall["cases"]), "case")
    return Report(
        title="A backtest of decisions",
        subtitle=f"Fitted {count_text(len(origins), 'time')}, and judged on {judged} "
        f"from {overall['first']} to {overall['last']}, each unseen by the fit that forecast it.",
        summary=tuple(sentences),
        sections=(section, Section("settings", "Settings", (), (), (settings_table(settings, "backtest"),))),
        provenance=provenance,
    )


def _changes_figure(origins: pd.DataFrame, rivals: Mapping[str, str], unit: str, settings: Mapping[str, Any]) -> Figure:
    """A panel per rival: how much more or less than it the decisions cost after each origin."""
    panels = []
    with drawing_style():
        for name, words in rivals.items():
            panel, (axes,) = new_panel()
            axes.axhline(0.0, color="black", linewidth=0.8)
            error_bars(
                axes, range(1, 1 + len(origins)), [_change(row, name) for _, row in origins.iterrows()], **_LOOKS[name]
            )
            axes.set(xlabel="origin", ylabel=axis_label("change of the cost", unit), title=f"against {words}")
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            panels.append(panel)
        caption = (
            "Mean cost of the decisions after each origin, less that of the rival in the same cases; below zero they "
            "cost less. Bars are paired 95 % intervals; marks are filled where an interval leaves out zero."
        )
        return figure_of_panels("changes", "Against every rival", caption, panels, settings)


def _origins_table(table: pd.DataFrame, rivals: Mapping[str, str], unit: str) -> Table:
    columns = (
        Column("origin"),
        Column("first case"),
        Column("last case"),
        Column("fitted on", kind="number", help="cases that were known by then"),
        Column("cases", kind="number", help="cases it is judged on"),
        *((Column("candidate", help="the selected candidate"),) if "candidate" in table else ()),
        Column("decision weight", kind="number", help="the selected weight"),
        Column("cost", unit, "number", "mean realised cost of the decisions"),
        *(Column(f"change against {words}", unit, "number", "with its 95 % interval") for words in rivals.values()),
    )
    rows = [(*_facts(row), *(_cell(_change(row, name)) for name in rivals)) for _, row in table.iterrows()]
    return Table("origins", "Every origin, and all together", columns, tuple(rows))


def _facts(row: "pd.Series[Any]") -> tuple[Cell, ...]:
    fitted, weight = row["fitted_cases"], row["decision_weight"]
    return (
        str(row["origin"]),
        str(row["first"]),
        str(row["last"]),
        None if pd.isna(fitted) else int(fitted),
        int(row["cases"]),
        *((", ".join(map(candidate_title, row["candidate"].split(", "))),) if "candidate" in row else ()),
        ShownCell("varies") if pd.isna(weight) else ShownCell(f"{weight:g}", float(weight)),
        float(row["cost"]),
    )


def _change(row: "pd.Series[Any]", rival: str) -> Difference:
    return Difference(*(float(row[f"{rival}_{name}"]) for name in ("change", "low", "high")))


def _cell(change: Difference) -> Cell:
    if pd.isna(change.mean):
        return None
    return ShownCell(signed_interval_text(change), change.mean, strong=change.significant)
