"""The figures of a fit's test cases: decisions over time against outcomes, and costs in parts of the cases."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure as Drawing

from stakes.reports.error_bars import error_bars
from stakes.reports.fit_parts import HOUR, MONTH, MONTHS, OBSERVED, PREDICTED, Part
from stakes.reports.fit_sentences import count_of
from stakes.reports.fit_story import FitStory
from stakes.reports.page import Figure
from stakes.reports.panels import LOOKS, drawing, figure_of, key, labelled, legend, panel
from stakes.reports.style import COLOURS, band

__all__ = ["decisions_figure", "parts_figure"]

_WINDOW = 60  # cases that can be told apart on one panel
_GAP = 5  # steps between neighbours, above which no line joins them
_LOW, _HIGH = 0.1, 0.9  # quantiles of the forecast


def decisions_figure(story: FitStory) -> Figure:
    """Actions and outcomes of the last cases, of all of them in short, and what was saved as time went by."""
    table = _cases(story)
    with drawing():
        panels = [_draw_cases(story, table.iloc[-_WINDOW:])]
        caption = f"First: the last {count_of(min(_WINDOW, len(table)), 'test case')}: the outcome"
        caption += (
            f", the range that the forecast gives {100 * (_HIGH - _LOW):.0f} % of the chance" if "low" in table else ""
        )
        caption += " and the actions."
        if len(table) > 2 * _WINDOW:
            size = -(-len(table) // _WINDOW)
            panels.append(_draw_cases(story, _thinned(table, size)))
            caption += f" Second: the same for all {len(table):,} test cases, as means of {size} neighbours."
        saved, words = _draw_saved(story, table)
        if saved is not None:
            panels.append(saved)
            caption += f" Last: {words}"
        title = "Decisions case by case" if story.times is None else "Decisions over time"
        return figure_of("decisions", title, caption, panels, story.settings)


def parts_figure(story: FitStory, found: Sequence[Part]) -> Figure:
    """Mean cost, and its change against weight 0, by third of the outcome, month and hour."""
    with drawing():
        panels = [_draw_thirds(story, [part for part in found if part.group in (OBSERVED, PREDICTED)])]
        for group, name in ((MONTH, "month"), (HOUR, "hour of the day (UTC)")):
            chosen = [part for part in found if part.group == group]
            if chosen:
                panels.append(_draw_group(story, chosen, name))
        caption = "Mean cost per test case in parts of the cases"
        if story.weight:
            caption += ", and below it the change against weight 0 with paired 95 % intervals, filled where they leave "
            caption += "out zero; where there is no bar, the cases are too few for one"
        caption += (
            ". Thirds go by the outcome, or, as many cases, by what the forecasts expected. To judge forecasts by "
            "cases chosen by their outcome rewards those that exaggerate (the forecaster's dilemma); cases chosen by "
            "the forecast do not have that fault."
        )
        return figure_of("parts", "Cost in parts of the cases", caption, panels, story.settings)


def _cases(story: FitStory) -> pd.DataFrame:
    """What is drawn of every case, by time or case number."""
    columns = {"outcome": story.of_cases("outcome"), "plain": story.values("action", 0.0)}
    if story.weight:
        columns["taken"] = story.values("action", story.weight)
    columns["today"] = story.of_cases("baseline_action")
    if "quantile" in story.study.forecasts:
        columns |= {
            name: story.study.quantile(level, story.weight)[0, 0] for name, level in (("low", _LOW), ("high", _HIGH))
        }
    index = np.arange(1, story.cases + 1) if story.times is None else pd.DatetimeIndex(story.times)
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


def _draw_cases(story: FitStory, table: pd.DataFrame) -> Drawing:
    """The outcome and its forecast above the actions, or in one where both have one unit."""
    together = bool(story.action_unit) and story.action_unit == story.outcome_unit
    figure, axes = panel(1 if together else 2, height=3.0 if together else 3.8, sharex=True)
    above, below = axes[0], axes[-1]
    shown = _broken(table)
    if "low" in shown:
        band(above, shown.index, shown["low"], shown["high"], COLOURS["blue"])
    above.plot(shown.index, shown["outcome"], color="black", linewidth=1.0, marker=".", markersize=3)
    handles = [key("outcome", color="black", linewidth=1.0, marker=".")]
    if "low" in shown:
        handles.append(key("forecast", color=COLOURS["blue"], alpha=0.18, linewidth=7))
    for name, label in _actions(story):
        if name in shown:
            look = {"color": LOOKS[name]["color"], "linestyle": _DASHES[name]}
            below.plot(shown.index, shown[name], drawstyle="steps-mid", linewidth=1.2, **look)
            handles.append(key(label, **look))
    if together:
        above.set_ylabel(labelled("outcome and action", story.outcome_unit))
    else:
        above.set_ylabel(labelled("outcome", story.outcome_unit))
        below.set_ylabel(labelled("action", story.action_unit))
    _time_axis(below, story)
    legend(figure, handles, columns=2)
    return figure


_DASHES = {"plain": "-", "taken": "--", "today": ":"}


def _actions(story: FitStory) -> list[tuple[str, str]]:
    return [
        ("plain", "action, weight 0"),
        ("taken", f"action, weight {story.weight:g}"),
        ("today", "today's action"),
    ]


def _draw_saved(story: FitStory, table: pd.DataFrame) -> tuple[Drawing | None, str]:
    """The cost saved so far against weight 0, else against today's action, else against climatology."""
    rivals = [way for way in (story.way("today"), story.way("climatology")) if way is not None]
    other = story.ways[0] if story.weight else next(iter(rivals), None)
    if other is None:
        return None, ""
    known = np.isfinite(other.cost)
    saved = np.cumsum((other.cost - story.taken.cost)[known])
    figure, (axes,) = panel(height=3.0)
    axes.axhline(0.0, color="black", linewidth=0.8)
    axes.plot(table.index[known], saved, color=LOOKS["taken" if story.weight else "plain"]["color"])
    axes.set_ylabel(labelled("cost saved so far", story.unit))
    _time_axis(axes, story)
    rival = "weight 0" if story.weight else other.name
    return figure, (
        f"what weight {story.weight:g} has saved so far against {rival}, summed over the test cases; a steady "
        "rise is a gain that can be counted on, a few steps are luck."
    )


def _time_axis(axes: Axes, story: FitStory) -> None:
    if story.times is None:
        axes.set_xlabel("test case (number)")
        return
    locator = AutoDateLocator(minticks=3, maxticks=6)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    axes.set_xlabel("time (UTC)")


def _draw_thirds(story: FitStory, found: Sequence[Part]) -> Drawing:
    """By outcome on the left of each tick, by forecast on the right."""
    figure, axes = _rows(story)
    for group, offset, marker in _SIDES:
        chosen = [part for part in found if part.group == group]
        if chosen:
            _draw_parts(axes, story, chosen, offset, marker=marker, linestyle="")
    names = {part.place: part.name for part in found}
    axes[-1].set_xticks(list(names), list(names.values()))
    axes[-1].set(xlabel="third of the cases", xlim=(-0.5, len(names) - 0.5))
    groups = {part.group for part in found}
    black: dict[str, Any] = {"color": "black", "linestyle": ""}
    sides = [key(group, marker=marker, **black) for group, _, marker in _SIDES if group in groups]
    legend(figure, [*_weight_keys(story, marker="_", markeredgewidth=3), *sides], columns=2)
    return figure


_SIDES = ((OBSERVED, -0.15, "o"), (PREDICTED, 0.15, "D"))  # side by side


def _draw_group(story: FitStory, found: Sequence[Part], name: str) -> Drawing:
    figure, axes = _rows(story)
    months = found[0].group == MONTH
    apart = months and found[-1].place - found[0].place >= len(found)  # no line crosses months without a case
    _draw_parts(axes, story, found, 0.0, **({"linestyle": ""} if apart else {}))
    if months:
        axes[-1].set_xticks([part.place for part in found], [MONTHS[part.place - 1] for part in found])
    else:
        axes[-1].set_xticks(range(0, 24, 6))
    axes[-1].set_xlabel(name)
    legend(figure, _weight_keys(story), columns=2)
    return figure


def _rows(story: FitStory) -> tuple[Drawing, list[Axes]]:
    """Costs and, where there are two weights, their change below."""
    figure, axes = panel(2 if story.weight else 1, height=3.8 if story.weight else 3.0, sharex=True)
    axes[0].set_ylabel(labelled("cost", story.unit))
    if story.weight:
        axes[1].axhline(0.0, color="black", linewidth=0.8)
        axes[1].set_ylabel(labelled("change", story.unit))
    return figure, axes


def _draw_parts(axes: Sequence[Axes], story: FitStory, found: Sequence[Part], offset: float, **look: Any) -> None:
    places = np.array([part.place for part in found]) + offset
    plain, taken = ({**LOOKS[name], "markersize": 4, **look} for name in ("plain", "taken"))
    axes[0].plot(places, [part.plain for part in found], **plain)
    if story.weight:
        axes[0].plot(places, [part.taken for part in found], **taken)
        error_bars(axes[1], places, [part.change for part in found], **taken)


def _weight_keys(story: FitStory, **look: Any) -> list[Any]:
    looks = zip(story.weights, ("plain", "taken"), strict=False)
    return [key(f"weight {weight:g}", **{**LOOKS[name], "linestyle": "", **look}) for weight, name in looks]
