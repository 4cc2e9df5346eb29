"""The page about what a forecast is worth over a cost parameter: its figure, its table and what it says."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from stakes.cost_spec.spec import CostSpec
from stakes.evaluation.intervals import Difference
from stakes.evaluation.value import ValueCurve
from stakes.plots import COLOURS, DASHES, axis_label, band
from stakes.reports.drawing import figure_of_panels, panel
from stakes.reports.page import Cell, Column, Figure, Report, Section, ShownCell, Table
from stakes.reports.sentences import cost_words
from stakes.text import count_text, number_text

_ROWS = 12  # of the table
_LINES = ("orange", "blue", "green", "purple", "yellow")
_ABOUT = (
    "Value 1 is perfect foresight, the best action for each outcome, and value 0 the best constant action. A forecast "
    "below 0 is worse than none for that cost. Bands hold at all values at once."
)


def value_report(curve: ValueCurve, spec: CostSpec, notes: Sequence[str] = ()) -> Report:
    """The page of `stakes value`."""
    first, rival = curve.forecasts[0], curve.rival
    return Report(
        title=f"What {first} is worth against {rival}",
        subtitle=f"Cost: {cost_words(spec)}. Judged on {count_text(curve.cases, 'case')}.",
        headline=curve.sentence,
        summary=(_ABOUT,),
        sections=(
            Section("value", "Value for every cost", (), (value_figure(curve),), (value_table(curve),)),
            *([Section("data", "Data", tuple(notes))] if notes else []),
        ),
    )


def value_figure(curve: ValueCurve) -> Figure:
    """The value of each forecast, and what the first one saves, over the parameter, with bands."""
    panels = [panel(draw_value, curve, legend=2), panel(draw_saved, curve)]
    caption = (
        f"First: value over {curve.parameter}, from climatology (0) to perfect foresight (1). Second: what "
        f"{curve.forecasts[0]} saves against {curve.rival}; green where that is proven. Bands are 95 %, at all values "
        "at once."
    )
    settings = {"parameter": curve.parameter, "cases": curve.cases, "block": curve.block}
    return figure_of_panels("value", f"Value over {curve.parameter}", caption, panels, settings)


def draw_value(curve: ValueCurve, axes: Axes) -> None:
    """A line and a band for each forecast."""
    looks = zip(curve.forecasts, _LINES, DASHES, strict=False)
    for place, (name, colour, dashes) in enumerate(looks):
        axes.plot(curve.values, curve.value[place], color=COLOURS[colour], linestyle=dashes, label=name)
        band(axes, curve.values, curve.value_low[place], curve.value_high[place], COLOURS[colour])
    shown = np.concatenate([curve.value.ravel(), curve.value_low.ravel(), curve.value_high.ravel()])
    shown = shown[np.isfinite(shown)]
    if len(shown):
        low, high = max(float(shown.min()), -1.0), min(float(shown.max()), 1.0)
        room = 0.05 * (high - low or 1.0)
        axes.set_ylim(low - room, high + room)
    axes.axhline(0.0, color="black", linewidth=0.8)
    axes.set(ylabel="value")
    _arrange(curve, axes)


def draw_saved(curve: ValueCurve, axes: Axes) -> None:
    """What the first forecast saves, a year where that is known."""
    many, each = (1.0, "case") if curve.yearly is None else (curve.yearly.cases, "year")
    axes.plot(curve.values, many * curve.saved, color=COLOURS["orange"])
    band(axes, curve.values, many * curve.saved_low, many * curve.saved_high, COLOURS["orange"])
    for low, high in curve.worth_buying:
        axes.axvspan(low, high, color=COLOURS["green"], alpha=0.08, linewidth=0)
    axes.axhline(0.0, color="black", linewidth=0.8)
    axes.set(ylabel=axis_label(f"saved a {each}", curve.unit))
    _arrange(curve, axes)


def _arrange(curve: ValueCurve, axes: Axes) -> None:
    axes.set(xlabel=curve.parameter, xlim=(curve.values[0], curve.values[-1]))
    if is_geometric(curve.values):
        axes.set_xscale("log")
        ticks = _decimal_ticks(float(curve.values[0]), float(curve.values[-1]))
        axes.set_xticks(ticks, [number_text(tick, 3) for tick in ticks])
        axes.set_xticks([], minor=True)


def is_geometric(values: NDArray[np.float64]) -> bool:
    """Whether values are evenly spread over their logarithm."""
    if values[0] <= 0 or len(values) < 3:
        return False
    steps = np.diff(np.log(values))
    return bool(np.ptp(steps) < 1e-6 * steps.mean())


def _decimal_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten, or the powers alone where that were too many."""
    for steps in ((1, 2, 5), (1,)):
        powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
        ticks = [step * 10.0**power for power in powers for step in steps]
        ticks = [tick for tick in ticks if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]
        if len(ticks) <= 8:
            break
    return ticks or [low, high]


def value_table(curve: ValueCurve) -> Table:
    """Some values of the parameter: what is saved, and the value of each forecast."""
    many, each = (1.0, "case") if curve.yearly is None else (curve.yearly.cases, "year")
    rows: list[tuple[Cell, ...]] = []
    for place in np.unique(np.linspace(0, len(curve.values) - 1, _ROWS).round().astype(int)):
        saved = Difference(*(float(many * part[place]) for part in (curve.saved, curve.saved_low, curve.saved_high)))
        worth = [
            ShownCell.interval(float(value[place]), float(low[place]), float(high[place]), 2)
            for value, low, high in zip(curve.value, curve.value_low, curve.value_high, strict=True)
        ]
        parameter = ShownCell(number_text(float(curve.values[place]), 3), float(curve.values[place]))
        rows.append((parameter, ShownCell.interval(*saved), *worth))
    columns = (
        Column(curve.parameter, "", "number"),
        Column(f"saved a {each}", curve.unit, "number", f"by {curve.forecasts[0]} against {curve.rival}"),
        *(Column(f"value of {name}", "", "number", "0 climatology, 1 perfect foresight") for name in curve.forecasts),
    )
    return Table("value", "Value and what it saves", columns, tuple(rows), f"{_ABOUT} Bold where they leave out zero.")
