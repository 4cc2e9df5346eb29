"""The figure of decisions over time, against what happened, and of what they saved."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure as Drawing

from stakes.number_text import count_text
from stakes.reports.charts import Chart, ChartBand, ChartLine
from stakes.reports.fit_panels import (
    LOOKS,
    axis_label,
    drawing_style,
    figure_of_panels,
    legend_below_panel,
    legend_entry,
    new_panel,
)
from stakes.reports.judged_ways import JudgedWays, WayToDecide
from stakes.reports.page import Figure
from stakes.reports.style import COLOURS, band

__all__ = ["decisions_figure"]

_WINDOW = 60  # cases that can be told apart on one panel
_GAP = 5  # steps between neighbours, above which no line joins them
_CHANCE = 80  # per cent between the quantiles of the forecast
_NOISE = 1e-6  # of the largest value
_POINTS = 300  # of a line that readers can point at


def decisions_figure(fit: JudgedWays) -> Figure:
    """Actions and outcomes of the last cases, of all of them in short, and what was saved as time went by.

    Args:
        fit: What is reported.
    """
    table = fit.case_table
    with drawing_style():
        what = "test case" if len(table) == fit.cases else "time"
        last = f"the last {count_text(min(_WINDOW, len(table)), what)}"
        panels = [_draw_cases(fit, table.iloc[-_WINDOW:])]
        charts = [_case_charts(fit, table.iloc[-_WINDOW:], last)]
        caption = f"First: {last}: the outcome"
        caption += f", the range that the forecast gives {_CHANCE} % of the chance" if "low" in table else ""
        caption += " and the actions."
        caption += f" All are means of {len(fit.parts)} parts." if fit.parts else ""
        caption += "" if len(table) == fit.cases else " A time with several cases is shown by their mean."
        if len(table) > 2 * _WINDOW:
            size = -(-len(table) // _WINDOW)
            panels.append(_draw_cases(fit, _thinned(table, size)))
            charts.append(_case_charts(fit, _thinned(table, size), f"means of {size} neighbours"))
            caption += f" Second: the same for all {len(table):,} {what}s, as means of {size} neighbours."
        if (rival := _rival(fit)) is not None:
            saved = _saved(fit, rival)
            panels.append(_draw_saved(fit, saved))
            charts.append((_saved_chart(fit, saved),))
            caption += f" Last: {_saved_words(fit, rival)}"
        title = "Decisions case by case" if fit.times is None else "Decisions over time"
        return figure_of_panels("decisions", title, caption, panels, fit.settings, charts)


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


def _draw_cases(fit: JudgedWays, table: pd.DataFrame) -> Drawing:
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
    _leave_room(below, shown[[name for name, _ in _actions(fit) if name in shown]])
    above.set_ylabel("outcome")
    below.set_ylabel(axis_label("action", fit.action_unit))
    _time_axis(below, fit)
    legend_below_panel(figure, handles, columns=2)
    return figure


def _leave_room(axes: Axes, actions: pd.DataFrame) -> None:
    """Above and below actions that are all the same but for rounding, which would fill the axes with noise."""
    if actions.empty:
        return
    values = actions.to_numpy(np.float64)
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    size = max(abs(low), abs(high))
    if high - low <= _NOISE * size:
        axes.set_ylim(low - 0.05 * (size or 1.0), high + 0.05 * (size or 1.0))


_DASHES = {"plain": "-", "taken": "--", "today": ":"}


def _actions(fit: JudgedWays) -> list[tuple[str, str]]:
    return [
        ("plain", f"action, {fit.labels['plain']}"),
        ("taken", f"action, {fit.labels['taken']}"),
        ("today", "today's action"),
    ]


def _case_charts(fit: JudgedWays, table: pd.DataFrame, which: str) -> tuple[Chart, ...]:
    """The same as numbers."""
    shown = _broken(table)
    place: dict[str, Any] = {"x": _what_runs(fit), "places": shown.index, "group": which}
    forecast = (
        (ChartBand(f"forecast, {_CHANCE} %", "blue band", shown["low"], shown["high"]),) if "low" in shown else ()
    )
    actions = tuple(ChartLine(label, _LOOKS[name], shown[name]) for name, label in _actions(fit) if name in shown)
    outcome = ChartLine("outcome", "ink", shown["outcome"], dots=True)
    above = Chart(f"Outcome, {which}", lines=(outcome,), bands=forecast, **place)
    below = Chart(f"Action{_in_unit(fit.action_unit)}, {which}", lines=actions, steps=True, **place)
    return (above, below) if actions else (above,)


_LOOKS = {"plain": "blue", "taken": "orange dashed", "today": "purple dotted"}


def _in_unit(unit: str) -> str:
    return f" in {unit}" if unit else ""


def _rival(fit: JudgedWays) -> WayToDecide | None:
    """What is saved against: the plain forecast, else today's action, else climatology."""
    rivals = [way for way in (fit.way("today"), fit.way("climatology")) if way is not None]
    return fit.ways[0] if fit.has_left_plain else next(iter(rivals), None)


def _saved(fit: JudgedWays, rival: WayToDecide) -> pd.Series:
    """The cost saved so far, by time or number."""
    index = pd.RangeIndex(1, fit.cases + 1) if fit.times is None else pd.DatetimeIndex(fit.times)
    saved = pd.Series(rival.cost - fit.taken.cost, index).sort_index(kind="stable")
    return saved[np.isfinite(saved)].cumsum()


def _draw_saved(fit: JudgedWays, saved: pd.Series) -> Drawing:
    figure, (axes,) = new_panel(height=3.0)
    axes.axhline(0.0, color="black", linewidth=0.8)
    axes.plot(saved.index, saved, color=LOOKS["taken" if fit.has_left_plain else "plain"]["color"])
    axes.set_ylabel(axis_label("cost saved so far", fit.unit))
    _time_axis(axes, fit)
    return figure


def _saved_chart(fit: JudgedWays, saved: pd.Series) -> Chart:
    kept = saved.iloc[np.linspace(0, len(saved) - 1, min(_POINTS, len(saved))).round().astype(np.int64)]
    line = ChartLine("cost saved so far", "orange" if fit.has_left_plain else "blue", kept)
    return Chart(f"Cost saved so far{_in_unit(fit.unit)}", _what_runs(fit), kept.index, (line,))


def _saved_words(fit: JudgedWays, other: WayToDecide) -> str:
    who, plain = fit.who_saves
    rival = plain if fit.has_left_plain else other.name
    return (
        f"what {who} has saved so far against {rival}, summed over the test cases; a steady "
        "rise is a gain that can be counted on, a few steps are luck."
    )


def _what_runs(fit: JudgedWays) -> str:
    return "test case" if fit.times is None else "time (UTC)"


def _time_axis(axes: Axes, fit: JudgedWays) -> None:
    if fit.times is None:
        axes.set_xlabel("test case (number)")
        return
    locator = AutoDateLocator(minticks=3, maxticks=6)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    axes.set_xlabel("time (UTC)")
