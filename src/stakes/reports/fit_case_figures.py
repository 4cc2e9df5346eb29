"""The figure of a fit's test cases in groups: where decisions are cheap, and where expensive."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

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

__all__ = ["case_groups_figure"]


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
