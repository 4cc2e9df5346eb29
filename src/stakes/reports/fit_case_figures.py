"""The figures of a fit's test cases: decisions over time against outcomes, and costs in groups of the cases."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure as Drawing

from stakes.number_text import count_text
from stakes.reports.error_bars import error_bars
from stakes.reports.fit_case_groups import HOUR, MONTH, MONTHS, OBSERVED, PREDICTED, CaseGroup
from stakes.reports.fit_panels import (
    LOOKS,
    axis_label,
    drawing_style,
    figure_of_panels,
    legend_below_panel,
    legend_entry,
    new_panel,
)
from stakes.reports.judged_fit import JudgedFit
from stakes.reports.page import Figure
from stakes.reports.style import COLOURS, band

__all__ = ["case_groups_figure", "decisions_figure"]

_WINDOW = 60  # cases that can be told apart on one panel
_GAP = 5  # steps between neighbours, above which no line joins them
_LOW, _HIGH = 0.1, 0.9  # quantiles of the forecast


def decisions_figure(fit: JudgedFit) -> Figure:
    """Actions and outcomes of the last cases, of all of them in short, and what was saved as time went by.

    Args:
        fit: The fit that is reported.
    """
    table = _cases(fit)
    with drawing_style():
        panels = [_draw_cases(fit, table.iloc[-_WINDOW:])]
        caption = f"First: the last {count_text(min(_WINDOW, len(table)), 'test case')}: the outcome"
        caption += (
            f", the range that the forecast gives {100 * (_HIGH - _LOW):.0f} % of the chance" if "low" in table else ""
        )
        caption += " and the actions."
        if len(table) > 2 * _WINDOW:
            size = -(-len(table) // _WINDOW)
            panels.append(_draw_cases(fit, _thinned(table, size)))
            caption += f" Second: the same for all {len(table):,} test cases, as means of {size} neighbours."
        saved, words = _draw_saved(fit, table)
        if saved is not None:
            panels.append(saved)
            caption += f" Last: {words}"
        title = "Decisions case by case" if fit.times is None else "Decisions over time"
        return figure_of_panels("decisions", title, caption, panels, fit.settings)


def case_groups_figure(fit: JudgedFit, groups: Sequence[CaseGroup]) -> Figure:
    """Mean cost, and its change against weight 0, by third of the outcome, month and hour.

    Args:
        fit: The fit that is reported.
        groups: Its test cases in groups.
    """
    with drawing_style():
        panels = [_draw_thirds(fit, [group for group in groups if group.kind in (OBSERVED, PREDICTED)])]
        for kind, name in ((MONTH, "month"), (HOUR, "hour of the day (UTC)")):
            chosen = [group for group in groups if group.kind == kind]
            if chosen:
                panels.append(_draw_group(fit, chosen, name))
        caption = "Mean cost per test case in parts of the cases"
        if fit.weight:
            caption += ", and below it the change against weight 0 with paired 95 % intervals, filled where they leave "
            caption += "out zero; where there is no bar, the cases are too few for one"
        caption += (
            ". Thirds go by the outcome, or, as many cases, by what the forecasts expected. To judge forecasts by "
            "cases chosen by their outcome rewards those that exaggerate (the forecaster's dilemma); cases chosen by "
            "the forecast do not have that fault."
        )
        return figure_of_panels("parts", "Cost in parts of the cases", caption, panels, fit.settings)


def _cases(fit: JudgedFit) -> pd.DataFrame:
    """What is drawn of every case, by time or case number."""
    columns = {"outcome": fit.of_cases("outcome"), "plain": fit.values("action", 0.0)}
    if fit.weight:
        columns["taken"] = fit.values("action", fit.weight)
    columns["today"] = fit.of_cases("baseline_action")
    if "quantile" in fit.study.forecasts:
        columns |= {
            name: fit.study.quantile(level, fit.weight)[0, 0] for name, level in (("low", _LOW), ("high", _HIGH))
        }
    index = np.arange(1, fit.cases + 1) if fit.times is None else pd.DatetimeIndex(fit.times)
    return pd.DataFrame({name: values for name, values in columns.items() if values is not None}, index=index)


def _thinned(table: pd.DataFrame, size: int) -> pd.DataFrame:
    """Means of so many neighbouring cases, at the first of them."""
    groups = np.arange(len(table)) // size
    return table.groupby(groups).mean().set_index(table.index[::size])


def _broken(table: pd.DataFrame) -> pd.DataFrame:
    """With a row of nothing wherever a gap lies between neighbours, so that no line crosses it."""
    places = table.index.to_numpy()
    apart = np.diff(places)
    if not len(apart):
        return table
    gaps = np.flatnonzero(apart > _GAP * np.median(apart.astype(np.float64)).astype(apart.dtype))
    holes = pd.DataFrame(np.nan, index=places[gaps] + apart[gaps] / 2, columns=table.columns)
    return pd.concat([table, holes]).sort_index() if len(gaps) else table


def _draw_cases(fit: JudgedFit, table: pd.DataFrame) -> Drawing:
    """The outcome and its forecast above the actions."""
    figure, (above, below) = new_panel(2, height=3.8, sharex=True)
    shown = _broken(table)
    if "low" in shown:
        band(above, shown.index, shown["low"], shown["high"], COLOURS["blue"])
    above.plot(shown.index, shown["outcome"], color="black", linewidth=1.0, marker=".", markersize=3)
    handles = [legend_entry("outcome", color="black", linewidth=1.0, marker=".")]
    if "low" in shown:
        handles.append(legend_entry("forecast", color=COLOURS["blue"], alpha=0.18, linewidth=7))
    for name, label in _actions(fit):
        if name in shown:
            look = {"color": LOOKS[name]["color"], "linestyle": _DASHES[name]}
            below.plot(shown.index, shown[name], drawstyle="steps-mid", linewidth=1.2, **look)
            handles.append(legend_entry(label, **look))
    above.set_ylabel("outcome")
    below.set_ylabel(axis_label("action", fit.action_unit))
    _time_axis(below, fit)
    legend_below_panel(figure, handles, columns=2)
    return figure


_DASHES = {"plain": "-", "taken": "--", "today": ":"}


def _actions(fit: JudgedFit) -> list[tuple[str, str]]:
    return [
        ("plain", f"action, {fit.label(0.0)}"),
        ("taken", f"action, {fit.label(fit.weight)}"),
        ("today", "today's action"),
    ]


def _draw_saved(fit: JudgedFit, table: pd.DataFrame) -> tuple[Drawing | None, str]:
    """The cost saved so far against weight 0, else against today's action, else against climatology."""
    rivals = [way for way in (fit.way("today"), fit.way("climatology")) if way is not None]
    other = fit.ways[0] if fit.weight else next(iter(rivals), None)
    if other is None:
        return None, ""
    known = np.isfinite(other.cost)
    saved = np.cumsum((other.cost - fit.taken.cost)[known])
    figure, (axes,) = new_panel(height=3.0)
    axes.axhline(0.0, color="black", linewidth=0.8)
    axes.plot(table.index[known], saved, color=LOOKS["taken" if fit.weight else "plain"]["color"])
    axes.set_ylabel(axis_label("cost saved so far", fit.unit))
    _time_axis(axes, fit)
    rival = "weight 0" if fit.weight else other.name
    who = "the forecast" if fit.weightless else fit.taken.short
    return figure, (
        f"what {who} has saved so far against {rival}, summed over the test cases; a steady "
        "rise is a gain that can be counted on, a few steps are luck."
    )


def _time_axis(axes: Axes, fit: JudgedFit) -> None:
    if fit.times is None:
        axes.set_xlabel("test case (number)")
        return
    locator = AutoDateLocator(minticks=3, maxticks=6)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    axes.set_xlabel("time (UTC)")


def _draw_thirds(fit: JudgedFit, groups: Sequence[CaseGroup]) -> Drawing:
    """By outcome on the left of each tick, by forecast on the right."""
    figure, axes = _rows(fit)
    for kind, offset, marker in _SIDES:
        chosen = [group for group in groups if group.kind == kind]
        if chosen:
            _draw_groups(axes, fit, chosen, offset, marker=marker, linestyle="")
    names = {group.place: group.name for group in groups}
    axes[-1].set_xticks(list(names), list(names.values()))
    axes[-1].set(xlabel="third of the cases", xlim=(-0.5, len(names) - 0.5))
    kinds = {group.kind for group in groups}
    black: dict[str, Any] = {"color": "black", "linestyle": ""}
    sides = [legend_entry(kind, marker=marker, **black) for kind, _, marker in _SIDES if kind in kinds]
    legend_below_panel(figure, [*_weight_keys(fit, marker="_", markeredgewidth=3), *sides], columns=2)
    return figure


_SIDES = ((OBSERVED, -0.15, "o"), (PREDICTED, 0.15, "D"))  # side by side


def _draw_group(fit: JudgedFit, groups: Sequence[CaseGroup], name: str) -> Drawing:
    figure, axes = _rows(fit)
    months = groups[0].kind == MONTH
    apart = months and groups[-1].place - groups[0].place >= len(groups)  # no line crosses months without a case
    _draw_groups(axes, fit, groups, 0.0, **({"linestyle": ""} if apart else {}))
    if months:
        axes[-1].set_xticks([group.place for group in groups], [MONTHS[group.place - 1] for group in groups])
    else:
        axes[-1].set_xticks(range(0, 24, 6))
    axes[-1].set_xlabel(name)
    legend_below_panel(figure, _weight_keys(fit), columns=2)
    return figure


def _rows(fit: JudgedFit) -> tuple[Drawing, list[Axes]]:
    """Costs and, where there are two weights, their change below."""
    figure, axes = new_panel(2 if fit.weight else 1, height=3.8 if fit.weight else 3.0, sharex=True)
    axes[0].set_ylabel(axis_label("cost", fit.unit))
    if fit.weight:
        axes[1].axhline(0.0, color="black", linewidth=0.8)
        axes[1].set_ylabel(axis_label("change", fit.unit))
    return figure, axes


def _draw_groups(axes: Sequence[Axes], fit: JudgedFit, groups: Sequence[CaseGroup], offset: float, **look: Any) -> None:
    places = np.array([group.place for group in groups]) + offset
    plain, taken = ({**LOOKS[name], "markersize": 4, **look} for name in ("plain", "taken"))
    axes[0].plot(places, [group.weight_0_cost for group in groups], **plain)
    if fit.weight:
        axes[0].plot(places, [group.cost for group in groups], **taken)
        error_bars(axes[1], places, [group.change for group in groups], **taken)


def _weight_keys(fit: JudgedFit, **look: Any) -> list[Any]:
    looks = zip(fit.weights, ("plain", "taken"), strict=False)
    return [legend_entry(fit.label(weight), **{**LOOKS[name], "linestyle": "", **look}) for weight, name in looks]
