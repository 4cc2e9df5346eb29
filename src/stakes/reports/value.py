"""The page about what a forecast is worth over a cost parameter: its figure, its table and what it says."""

from collections.abc import Sequence

import numpy as np

from stakes.cost_spec.spec import CostSpec
from stakes.evaluation.intervals import Difference
from stakes.evaluation.regret import MEMBERS, OUTCOME, RegretAttribution, by_kind
from stakes.evaluation.value import ValueCurve
from stakes.plots import panel, plot_regret, plot_value
from stakes.reports.page import Cell, Column, Figure, Report, Section, ShownCell, Table
from stakes.reports.sentences import cost_words
from stakes.text import count_text, interval_text, number_text

_ROWS = 12  # of the table
_MOST_DRAWN = 24  # side by side, as many as a day has hours
_ABOUT = (
    "Value 1 is perfect foresight, the best action for each outcome, and value 0 the best constant action. A forecast "
    "below 0 is worse than none for that cost. Bands are 95 % and hold for all values at once."
)


def value_report(
    curve: ValueCurve, spec: CostSpec, notes: Sequence[str] = (), regret: RegretAttribution | None = None
) -> Report:
    """The page of `stakes value`; where the money went is shown at the middle one of the parameter's values."""
    first, rival = curve.forecasts[0], curve.rival
    return Report(
        title=f"What {first} is worth against {rival}",
        subtitle=f"Cost: {cost_words(spec)}. Judged on {count_text(curve.cases, 'case')}.",
        headline=curve.sentence,
        summary=(_ABOUT,),
        sections=(
            Section("value", "Value for every cost", (), (value_figure(curve),), (value_table(curve),)),
            *([] if regret is None else [regret_section(regret, _at(curve))]),
            *([Section("data", "Data", tuple(notes))] if notes else []),
        ),
    )


def _at(curve: ValueCurve) -> str:
    return f"{curve.parameter} {number_text(float(curve.values[len(curve.values) // 2]), 3)}"


def regret_section(regret: RegretAttribution, at: str = "") -> Section:
    """Which errors of the forecast, and which cases, cost more than perfect foresight; `at` some parameter, if any."""
    kinds = {kind: parts for kind, parts in by_kind(regret.parts()).items() if 1 < len(parts) <= _MOST_DRAWN}
    panels = [panel(lambda axes, kind=kind: plot_regret(regret, kind, ax=axes)) for kind in kinds]
    caption = (
        "Mean regret per case: what decisions cost above perfect foresight. For outcomes and members it is the "
        "share of their errors, by the gradient through the action"
    )
    caption += "; hours, seasons and sites are groups of cases." if set(kinds) - {OUTCOME, MEMBERS} else "."
    settings = {"at": at} if at else {}
    figures = (Figure("regret", "Where the money went", caption, panels, settings),) if panels else ()
    rows: list[tuple[Cell, ...]] = [
        (part.kind, part.name, part.cases, ShownCell.interval(*part.mean), 100 * part.share)
        for parts in kinds.values()
        for part in parts
    ]
    columns = (
        Column("what"),
        Column("which"),
        Column("cases"),
        Column("regret", regret.unit, "mean per case above perfect foresight"),
        Column("share of all regret", "%"),
    )
    tables = (Table("regret", "Where the money went", columns, tuple(rows), ""),) if rows else ()
    title = f"Where the money went{f', at {at}' if at else ''}"
    return Section("regret", title, (regret.sentence,), figures, tables)


def value_figure(curve: ValueCurve) -> Figure:
    """The value of each forecast, and what the first one saves, over the parameter, with bands."""
    panels = [
        panel(lambda axes, saved=saved: plot_value(curve, saved=saved, ax=axes), legend=2) for saved in (False, True)
    ]
    caption = (
        f"First: value over {curve.parameter}, from climatology (0) to perfect foresight (1). Second: what "
        f"{curve.forecasts[0]} saves against {curve.rival}; green where that is proven. Bands are 95 %."
    )
    settings = {"parameter": curve.parameter, "cases": curve.cases, "block": curve.block}
    return Figure("value", f"Value over {curve.parameter}", caption, panels, settings)


def value_table(curve: ValueCurve) -> Table:
    """Some values of the parameter: what is saved, and the value of each forecast."""
    many, each = (1.0, "case") if curve.yearly is None else (curve.yearly.cases, "year")
    rows: list[tuple[Cell, ...]] = []
    for place in np.unique(np.linspace(0, len(curve.values) - 1, _ROWS).round().astype(int)):
        saved = Difference(*(float(many * part[place]) for part in (curve.saved, curve.saved_low, curve.saved_high)))
        worth = [
            ShownCell(interval_text(float(value[place]), float(low[place]), float(high[place]), 2), float(value[place]))
            for value, low, high in zip(curve.value, curve.value_low, curve.value_high, strict=True)
        ]
        parameter = ShownCell(number_text(float(curve.values[place]), 3), float(curve.values[place]))
        rows.append((parameter, ShownCell.interval(*saved), *worth))
    columns = (
        Column(curve.parameter),
        Column(f"saved per {each}", curve.unit, f"by {curve.forecasts[0]} against {curve.rival}"),
        *(Column(f"value of {name}", "", "0 climatology, 1 perfect foresight") for name in curve.forecasts),
    )
    return Table("value", "Value and what it saves", columns, tuple(rows), "Savings in bold are proven.")
