"""Plots of decisions and their costs on matplotlib axes: those of the reports, for notebooks and papers.

Every `plot_` function draws on the axes it is given, or on new ones, and returns them.
"""

import io
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import Formatter, ScalarFormatter
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from stakes.actions.solve import optimal_action, solve_action
from stakes.costs.cost import Cost, action_is_outcome, outcome_total, require_cost, vector_cost
from stakes.errors import CostError, NonFiniteError, SettingError, ShapeError
from stakes.evaluation.case_metrics import BAND_LEVELS
from stakes.evaluation.intervals import LEAST_BLOCKS, Difference, Resampling, Sampled
from stakes.evaluation.regret import HOUR, OUTCOME, RegretAttribution, by_kind
from stakes.evaluation.selection import CandidateOnTest, ModelSelection, candidate_title
from stakes.evaluation.value import ValueCurve
from stakes.text import amount_text, number_text, tick_texts

__all__ = [
    "name_lines",
    "plot_cost",
    "plot_decision",
    "plot_regret",
    "plot_reliability",
    "plot_schedule",
    "plot_selection",
    "plot_value",
    "style",
]

COLOURS = {  # Okabe and Ito (2008)
    "blue": "#0072B2",
    "orange": "#D55E00",
    "green": "#009E73",
    "yellow": "#E69F00",
    "sky": "#56B4E9",
    "purple": "#CC79A7",
    "black": "#000000",
    "grey": "#7F7F7F",
}
DASHES: Sequence[Any] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
WIDTH = 3.75  # inches: 8 pt on it are legible where a screen is 360 pixels wide
_SETTINGS: dict[Any, Any] = {
    "figure.figsize": (WIDTH, 2.7),
    "figure.dpi": 160,
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "legend.fontsize": 7,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.4,
    "lines.markersize": 4,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "stakes",
    "figure.constrained_layout.use": True,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Arial", "Helvetica", "sans-serif"],
}


@contextmanager
def style() -> Iterator[None]:
    """Give figures made within the style of this package: small text, no frame, room for labels outside the axes.

    >>> from matplotlib import pyplot
    >>> with style():
    ...     figure, (above, below) = pyplot.subplots(2, 1, sharex=True)
    """
    with mpl.rc_context(_SETTINGS):
        yield


@contextmanager
def _own(ax: Axes | None) -> Iterator[Axes]:
    """The axes that are given, or new ones in the style of the package, whose lines are then named."""
    if ax is not None:
        yield ax
        return
    from matplotlib import pyplot

    with style():
        _, axes = pyplot.subplots()
        yield axes
        name_lines(axes)
        plain_numbers(axes)


_SHORT = 16  # letters that fit beside the axes
_LINE = 11.0  # points from one name to the next


def name_lines(ax: Axes) -> None:
    """Label every line at its right end in its colour; anything else gets a legend below.

    >>> from matplotlib import pyplot
    >>> ax = pyplot.figure().subplots()
    >>> _ = ax.plot([1, 2, 3], label="wind")
    >>> name_lines(ax)
    >>> [text.get_text() for text in ax.texts]
    ['wind']

    Args:
        ax: The axes, after everything is drawn on them.
    """
    others: dict[str, Any] = dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    ends = {name: _end(each) for name, each in others.items() if isinstance(each, Line2D)}
    known = {name: end for name, end in ends.items() if end is not None}
    if any(len(name) > _SHORT for name in known):
        known = {}
    figure = ax.get_figure(root=True)
    assert figure is not None
    height = 72 * figure.get_size_inches()[1] * ax.get_position().height
    ax.autoscale_view()
    heights = {name: ax.transLimits.transform(ax.transScale.transform(end))[1] for name, end in known.items()}
    place = -np.inf
    for name in sorted(heights, key=heights.__getitem__):
        place = max(place + _LINE / height, min(1.0, max(0.0, heights[name])))
        look: dict[str, Any] = {"color": others.pop(name).get_color(), "va": "center", "fontsize": "small"}
        ax.annotate(name, (1.0, place), (3, 0), "axes fraction", "offset points", **look)
    if others:
        figure.legend(others.values(), others.keys(), loc="outside lower center", ncols=3, handlelength=2.2)


def _end(line: Line2D) -> tuple[float, float] | None:
    """The last point of a curve; None for marks without a line, and for keys without data."""
    x, y = (np.asarray(each, np.float64) for each in line.get_data())
    known = np.flatnonzero(np.isfinite(y))
    return (x[known[-1]], y[known[-1]]) if len(known) > 1 and line.get_linestyle() != "None" else None


def plain_numbers(ax: Axes) -> None:
    """Write the numbers of the axes without offsets and powers of ten."""
    for axis in (ax.xaxis, ax.yaxis):
        if type(axis.get_major_formatter()) is ScalarFormatter:
            axis.set_major_formatter(NumberFormatter())


class NumberFormatter(Formatter):
    """Ticks as `stakes.text` writes them, instead of matplotlib's own with its offsets and powers of ten."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        return self.format_ticks([x])[0]

    def format_ticks(self, values: Sequence[float]) -> list[str]:
        return [self.fix_minus(text) for text in tick_texts(values)]


def weight_colours(weights: Sequence[float] | NDArray[np.float64]) -> list[Any]:
    """A colour for each decision weight, dark for low ones, along a perceptually uniform map."""
    places = np.linspace(0.0, 0.85, max(2, len(weights)))
    return [mpl.colormaps["viridis"](place) for place in places[: len(weights)]]


_NOISE = 1e-6  # of the largest value


def leave_room(axes: Axes, side: Literal["x", "y"], values: ArrayLike) -> None:
    """Around values that are all the same but for rounding, which would fill the axes with noise."""
    numbers = np.asarray(values, np.float64)
    numbers = numbers[np.isfinite(numbers)]
    size = float(np.abs(numbers).max(initial=0.0))
    if len(numbers) and float(np.ptp(numbers)) <= _NOISE * size:
        ends = float(numbers.min()) - 0.05 * (size or 1.0), float(numbers.max()) + 0.05 * (size or 1.0)
        axes.set(**{f"{side}lim": ends})


def band(axes: Axes, places: ArrayLike, low: ArrayLike, high: ArrayLike, colour: Any, label: str = "") -> None:
    """The space between two curves, faint."""
    axes.fill_between(places, low, high, color=colour, alpha=0.18, linewidth=0, label=label or None)


Floats = NDArray[np.float64]


def binned_means(resampling: Resampling, key: Floats, values: Sequence[Floats], bins: int) -> list[list[Sampled]]:
    """The means of each of some values within bins of a key, from its lowest to its highest."""
    place = np.argsort(np.argsort(key, kind="stable")) * bins // len(key)
    parts = np.stack([np.where(place == each, value, np.nan) for value in values for each in range(bins)])
    means = resampling.means(parts[:, None, None])
    return [means[start : start + bins] for start in range(0, len(means), bins)]


_THIN = 0.9


def error_bars(axes: Axes, places: Any, intervals: Sequence[Difference], **look: Any) -> None:
    """Means joined by a line, bars for their intervals, marks filled where an interval leaves out zero."""
    mean = np.array([each.mean for each in intervals])
    colour, marker = look["color"], look.pop("marker", "o")
    axes.errorbar(places, mean, reach(intervals), linewidth=_THIN, marker=marker, markerfacecolor="white", **look)
    sure = np.array([each.significant for each in intervals])
    size = look.get("markersize")
    axes.plot(
        np.asarray(places)[sure], mean[sure], linestyle="", marker=marker, color=colour, markersize=size, zorder=3
    )


def reach(intervals: Sequence[Difference]) -> NDArray[np.float64]:
    """How far the intervals reach below and above their means, (2, K); not below zero, whatever the rounding."""
    mean, low, high = np.array(intervals, dtype=np.float64).reshape(-1, 3).T
    return np.maximum(0.0, [mean - low, high - mean])


def crosses(axes: Axes, x: Sequence[Difference], y: Sequence[Difference], **look: Any) -> None:
    """Marks with the intervals of both their coordinates."""
    places, means = ([each.mean for each in side] for side in (x, y))
    axes.errorbar(places, means, reach(y), reach(x), linestyle="", elinewidth=0.6, markersize=4, **look)


def diagonal(axes: Axes) -> None:
    """Both axes alike, and the dotted line on which they are equal."""
    ends = (min(axes.get_xlim()[0], axes.get_ylim()[0]), max(axes.get_xlim()[1], axes.get_ylim()[1]))
    axes.plot(ends, ends, color="black", linestyle=":", linewidth=0.9, zorder=1)
    axes.set(xlim=ends, ylim=ends)


LOOKS: dict[str, dict[str, Any]] = {
    "plain": {"color": COLOURS["blue"], "marker": "o"},
    "selected": {"color": COLOURS["orange"], "marker": "s"},
    "today": {"color": COLOURS["purple"], "marker": "^"},
}
"""The reference, the selected forecast, and today's action."""
CHOSEN: dict[str, Any] = {"marker": "o", "markersize": 10, "markerfacecolor": "none", "color": "black", "zorder": 5}


def key(axes: Axes, label: str, **look: Any) -> None:
    """An entry of the legend without data."""
    axes.plot([], [], label=label, **look)


def axis_label(name: str, unit: str) -> str:
    """The text of an axis: the name of what it shows and its unit."""
    return f"{name} ({literal_text(unit)})" if unit else name


def literal_text(text: str) -> str:
    """A user's text as matplotlib shows it, letter by letter: no formula between dollars, nothing unprintable."""
    return "".join(letter for letter in text if letter.isprintable()).replace("$", r"\$")


# What an action costs

_TYPICAL = (0.05, 0.25, 0.5, 0.75, 0.95)
_ACTIONS = 201  # on a curve
_LITTLE = 1e-3


def plot_cost(
    cost: Cost, outcomes: ArrayLike | None = None, *, unit: str = "", action_unit: str = "", ax: Axes | None = None
) -> Axes:
    """What actions cost at a few outcomes from low to high: check that these curves are what you pay.

    >>> import stakes
    >>> ax = stakes.plots.plot_cost(stakes.ImbalanceCost(short=10.0, long=1.0, lower=0.0, upper=150.0), unit="EUR")
    >>> ax.get_ylabel()
    'cost (EUR)'

    Args:
        cost: A scalar, risk-neutral cost.
        outcomes: Outcomes (N,) or (N, D), of which five are shown; None takes the range of the action, where an action
            is on the scale of the outcome.
        unit: The unit of the cost.
        action_unit: The unit of the action.
        ax: Axes to draw on; None for new ones.
    """
    if outcomes is None:
        require_cost(cost)
        if not action_is_outcome(cost):
            raise SettingError("outcomes must be given: the cost does not say that they are on the scale of the action")
        outcomes = np.linspace(float(cost.lower), float(cost.upper), 101)
    shown = typical_outcomes(cost, outcome_rows(cost, "outcomes", outcomes))
    actions = _actions(cost, shown)
    totals = outcome_total(cost, shown).tolist()
    looks = zip(weight_colours(totals), DASHES, strict=False)
    with _own(ax) as axes:
        for column, total, (colour, dashes) in zip(_paid(cost, actions, shown).T, totals, looks, strict=False):
            axes.plot(actions, column, color=colour, linestyle=dashes, label=f"outcome {number_text(total, 3)}")
        axes.set(xlabel=axis_label("action", action_unit), ylabel=axis_label("cost", unit))
    return axes


def plot_decision(
    cost: Cost,
    members: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    unit: str = "",
    action_unit: str = "",
    ax: Axes | None = None,
) -> Axes:
    """One decision: what every action is expected to cost, the best one, and below it the forecast.

    The forecast is shown where an action is on the scale of the outcome.

    >>> import stakes
    >>> cost = stakes.NewsvendorCost(underage=4.0, overage=1.0, lower=0.0, upper=100.0)
    >>> ax = stakes.plots.plot_decision(cost, [30.0, 42.0, 50.0, 55.0, 61.0, 78.0], action_unit="loaves")
    >>> [text.get_text() for text in ax.texts]
    ['forecast', 'best action 61.0 loaves']

    Args:
        cost: A scalar, risk-neutral cost.
        members: The forecast, (M,) or (M, D).
        weights: Member weights, (M,); None for equal weights.
        unit: The unit of the cost.
        action_unit: The unit of the action.
        ax: Axes to draw on; None for new ones.
    """
    sample = outcome_rows(cost, "members", members)
    shares = None if weights is None else torch.as_tensor(np.asarray(weights, np.float64))
    solution = solve_action(cost, sample, weights=shares, thorough=True)
    best = float(solution.action)
    actions = _actions(cost, typical_outcomes(cost, sample), best)
    expected = np.average(_paid(cost, actions, sample), axis=1, weights=None if shares is None else shares.numpy())
    with _own(ax) as axes:
        axes.plot(actions, expected, color=COLOURS["blue"])
        least = float(np.average(_paid(cost, torch.tensor([best]).double(), sample)[0], weights=shares))
        if action_is_outcome(cost):
            _draw_members(axes, outcome_total(cost, sample).numpy(), shares, expected)
        axes.axvline(best, color=COLOURS["orange"], linestyle="--", linewidth=0.9)
        axes.plot(best, least, color=COLOURS["orange"], marker="o", markersize=6, linestyle="")
        right = best > float(actions.mean())
        look: dict[str, Any] = {"color": COLOURS["orange"], "ha": "right" if right else "left", "va": "top"}
        words = literal_text(f"best action {amount_text(best, action_unit)}")
        axes.annotate(words, (best, 1.0), (-4 if right else 4, -2), ("data", "axes fraction"), "offset points", **look)
        axes.set(xlabel=axis_label("action", action_unit), ylabel=axis_label("expected cost", unit))
    return axes


def _draw_members(axes: Axes, values: Floats, weights: Tensor | None, expected: Floats) -> None:
    """The forecast as a histogram in the lowest quarter of the axes, below the curve."""
    bins = max(5, min(30, round(2 * len(values) ** 0.5)))
    heights, edges = np.histogram(values, bins=bins, weights=None if weights is None else weights.numpy())
    span = float(np.ptp(expected)) or 1.0
    least = float(expected.min())
    axes.set_yticks([tick for tick in axes.get_yticks() if tick >= min(0.0, least)])  # none below what can be
    axes.set_ylim(least - 0.5 * span, float(expected.max()) + 0.1 * span)
    tops, across = 0.23 * np.append(heights, 0.0) / heights.max(), axes.get_xaxis_transform()
    axes.fill_between(edges, 0, tops, step="post", transform=across, color=COLOURS["grey"], alpha=0.35, linewidth=0)
    axes.text(float(edges[heights.argmax()]), 0.25, "forecast", transform=across, color=COLOURS["grey"], size="small")


def outcome_rows(cost: Cost, name: str, values: ArrayLike) -> Tensor:
    """Outcomes (N, D) or members (M, D) in double precision, but for incomplete ones, of a cost that has a curve."""
    require_cost(cost)
    if vector_cost(cost) is not None:
        raise CostError("of a vector action, or a risk-averse one, no curve shows what it costs")
    numbers = np.asarray(values, dtype=np.float64)
    numbers = numbers[:, None] if numbers.ndim == 1 else numbers
    if numbers.ndim != 2 or not np.isfinite(numbers).all(1).any():
        raise ShapeError(f"{name} must be cases by targets, with some finite, got shape {numbers.shape}")
    if name == "members" and not np.isfinite(numbers).all():
        raise NonFiniteError("members must be finite")
    return torch.from_numpy(numbers[np.isfinite(numbers).all(1)])


def typical_outcomes(cost: Cost, outcomes: Tensor) -> Tensor:
    """Different outcomes from low to high."""
    ordered = outcomes[outcome_total(cost, outcomes).argsort(stable=True)]
    chosen = ordered[[round(level * (len(ordered) - 1)) for level in _TYPICAL]].unique(dim=0)
    return chosen[outcome_total(cost, chosen).argsort()]


def _actions(cost: Cost, outcomes: Tensor, best: float | None = None) -> Tensor:
    """A grid of actions, (A,), around those that are best for some outcomes (N, D), and another one."""
    alone = optimal_action(cost, outcomes[:, None], thorough=True).flatten().tolist()
    low, high = (end([*alone, *([] if best is None else [best])]) for end in (min, max))
    lower, upper = float(cost.lower), float(cost.upper)
    room = max(0.3 * (high - low), _LITTLE * (upper - lower))
    return torch.linspace(max(lower, low - room), min(upper, high + room), _ACTIONS, dtype=torch.float64)


def _paid(cost: Cost, actions: Tensor, outcomes: Tensor) -> Floats:
    """What every action (A,) costs at every outcome (N, D): (A, N)."""
    rows = len(actions), len(outcomes)
    with torch.no_grad():
        paid = cost(actions.repeat_interleave(rows[1])[:, None], outcomes.repeat(rows[0], 1))
    return np.asarray(paid.reshape(rows).double())


# What forecasts are worth

_KINDS: dict[str, dict[str, Any]] = {
    "selected": {**LOOKS["selected"], "linestyle": "", "markersize": 7},
    "accepted": {**LOOKS["plain"], "linestyle": ""},
    "tried, not selected": {"color": "#B0B0B0", "marker": "o", "markerfacecolor": "white", "linestyle": ""},
}
TICKS = 5  # on an axis of costs, whose numbers may be long


def plot_selection(selection: ModelSelection, *, unit: str = "", ax: Axes | None = None) -> Axes:
    """The cost of each candidate, on test cases if there are any, else on validation cases.

    Bars are 95 % intervals: on test cases of the difference from the selected forecast (the orange line), on validation
    cases of the difference from the candidate selected before.

    >>> import numpy as np, stakes
    >>> random = np.random.default_rng(0)
    >>> members = random.normal(size=(300, 1)) + 0.5 * random.normal(size=(300, 10))
    >>> outcomes = members.mean(1) + 1 + random.normal(size=300)
    >>> cost = stakes.NewsvendorCost(underage=9.0, overage=1.0, lower=-10.0, upper=10.0)
    >>> recalibrator = stakes.Recalibrator(cost, decision_weights=()).fit(members, outcomes)
    >>> ax = stakes.plots.plot_selection(recalibrator.selection_, unit="EUR")
    >>> ax.get_xlabel()
    'mean cost per test case (EUR)'

    Args:
        selection: `selection_` of a fitted forecaster or recalibrator.
        unit: The unit of the cost.
        ax: Axes to draw on; None for new ones.
    """
    rows, final = _selection_rows(selection)
    beside = [cost for _, cost, _, _ in rows]
    with _own(ax) as axes:
        axes.axvline(final, color=COLOURS["orange"], linewidth=1.0, zorder=1)
        for place, (_, cost, apart, kind) in enumerate(rows):
            bar = None if apart is None or np.isnan(apart.low) else reach([apart])
            axes.errorbar(cost, place, xerr=bar, elinewidth=1.0, **_KINDS[kind])
            colour = COLOURS["grey"] if kind == "tried, not selected" else "black"
            look: dict[str, Any] = {"ha": "center", "fontsize": "small", "color": colour}
            behind = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
            words = amount_text(cost, beside=beside)
            axes.annotate(words, (cost, place), xytext=(0, 6), textcoords="offset points", bbox=behind, **look)
        for kind in {kind: None for *_, kind in rows}:
            key(axes, kind, **_KINDS[kind])
        axes.set_yticks(range(len(rows)), [title for title, *_ in rows])
        axes.set_ylim(len(rows) - 0.4, -0.8)  # from above, as the table has them
        axes.locator_params(axis="x", nbins=TICKS)
        axes.margins(x=0.12)
        axes.grid(visible=False, axis="y")
        which = "test" if selection.tested else "validation"
        axes.set(xlabel=axis_label(f"mean cost per {which} case", unit))
    return axes


def _selection_rows(selection: ModelSelection) -> tuple[list[tuple[str, float, Difference | None, str]], float]:
    """Title, cost, interval and kind of each candidate, and the cost of the selected forecast."""
    accepted = {candidate.name for candidate in selection.candidates if candidate.accepted}
    name = selection.selected.name
    kinds = dict.fromkeys(accepted, "accepted") | {name: "selected"}
    final = float(selection.selected.cost or np.nan) if selection.test_cost is None else selection.test_cost
    rows: list[tuple[str, float, Difference | None, str]] = []
    for judged in selection.tested or selection.candidates:
        if judged.cost is None:  # it failed
            continue
        apart = judged.cost_change
        if isinstance(judged, CandidateOnTest):  # whose change is that of the selected forecast against it
            apart = Difference(judged.cost, final - judged.cost_change.high, final - judged.cost_change.low)
        rows.append((candidate_title(judged.name), judged.cost, apart, kinds.get(judged.name, "tried, not selected")))
    if selection.tested and not selection.corrects:
        rows.append(("fitted again", final, None, "selected"))
    return rows, final


_MARKERS = {look["color"]: look["marker"] for look in LOOKS.values()}
Sides = Mapping[str, Sequence[Sequence[Difference]]]


def plot_reliability(
    forecasts: Mapping[str, tuple[ArrayLike, ArrayLike]] | tuple[ArrayLike, ArrayLike],
    *,
    bins: int | None = None,
    block: int = 1,
    colours: Sequence[str] = ("blue", "orange", "green", "purple"),
    unit: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Whether expected costs are right: realised against expected cost, in bins of the expected cost.

    Above the diagonal, decisions cost more than expected. Bars are 95 % intervals, if there are enough cases.

    >>> import numpy as np, stakes
    >>> expected = np.random.default_rng(0).gamma(2.0, size=200)
    >>> ax = stakes.plots.plot_reliability({"raw": (expected, 1.5 * expected)}, unit="EUR")
    >>> ax.get_ylabel()
    'realised cost (EUR)'

    Args:
        forecasts: Expected and realised costs, (N,) each, in order of time: of one forecast, or of several by name.
        bins: The number of bins with equally many cases; None takes one per twenty cases, 2 to 10.
        block: How many neighbouring cases depend on each other.
        colours: The colour of each forecast, one of `COLOURS`.
        unit: The unit of the cost.
        ax: Axes to draw on; None for new ones.
    """
    sides = {}
    for name, (expected, paid) in (forecasts if isinstance(forecasts, Mapping) else {"": forecasts}).items():
        costs = [np.asarray(each, np.float64) for each in (expected, paid)]
        if costs[0].ndim != 1 or costs[0].shape != costs[1].shape or not len(costs[0]):
            raise ShapeError(
                f"forecasts must be pairs of costs (N,), got {' and '.join(str(each.shape) for each in costs)}"
            )
        if not np.isfinite(costs).all():
            raise NonFiniteError("forecasts must have finite costs")
        cases = len(costs[0])
        resampling = Resampling(cases, block=min(block, cases))
        means = binned_means(resampling, costs[0], costs, bins or max(2, min(10, cases // 20)))
        believed = cases >= LEAST_BLOCKS * block
        sides[name] = [[_stated(each, believed) for each in side] for side in means]
    with _own(ax) as axes:
        draw_sides(axes, sides, colours)
        axes.set(xlabel=axis_label("expected cost", unit), ylabel=axis_label("realised cost", unit))
    return axes


def _stated(mean: Sampled, believed: bool) -> Difference:
    return mean.interval() if believed else Difference(mean.estimate, np.nan, np.nan)


def draw_sides(axes: Axes, sides: Sides, colours: Sequence[str]) -> None:
    """Two sides that should be equal; an interval that is much longer than the axes is cut off."""
    for (name, both), colour in zip(sides.items(), map(COLOURS.__getitem__, colours), strict=False):
        crosses(axes, *both, color=colour, marker=_MARKERS.get(colour, "D"), label=name or None)
    means = [each.mean for both in sides.values() for side in both for each in side]
    span = max(means) - min(means) or 1.0
    lowest = min(means) - 0.2 * span
    ends = max(lowest, -0.05 * span) if min(means) >= 0 else lowest, max(means) + 0.2 * span
    axes.set(xlim=ends, ylim=ends)
    diagonal(axes)
    axes.locator_params(axis="x", nbins=TICKS)


_WIDE = 40  # letters that stand side by side below the axes


def plot_regret(found: RegretAttribution, kind: str = OUTCOME, *, ax: Axes | None = None) -> Axes:
    """Where the money went: the mean regret by outcome, member, hour, season or site.

    Bars are 95 % intervals, if there are enough cases.

    >>> import numpy as np, stakes
    >>> random = np.random.default_rng(0)
    >>> load = random.normal(50, 10, size=(400, 2))
    >>> members = load[:, None] + random.normal(size=(400, 30, 2)) * [1.0, 4.0]
    >>> found = stakes.attribute_regret(members, load, stakes.ImbalanceCost(10.0, 1.0, lower=0.0, upper=300.0))
    >>> ax = stakes.plots.plot_regret(found)
    >>> ax.get_ylabel()
    'regret'

    Args:
        found: What `stakes.attribute_regret` returns.
        kind: "outcome", "members", "hour", "season" or "site", as in `to_frame`.
        ax: Axes to draw on; None for new ones.
    """
    kinds = by_kind(found.parts())
    if kind not in kinds:
        raise SettingError(f"kind must be one of {', '.join(kinds)}, got {kind!r}")
    names, hours = [part.name for part in kinds[kind]], kind == HOUR
    places = [int(name[:2]) for name in names] if hours else list(range(len(names)))
    with _own(ax) as axes:
        means = [part.mean for part in kinds[kind]]
        error_bars(axes, places, means, color=COLOURS["blue"], linestyle="-" if hours else "", markersize=4)
        axes.axhline(0.0, color="black", linewidth=0.8)
        if not hours:
            axes.set_xticks(places, [literal_text(name) for name in names])
            axes.set_xlim(-0.5, len(names) - 0.5)
            axes.tick_params(axis="x", labelrotation=30 if sum(map(len, names)) > _WIDE else 0)
        axes.set(xlabel="hour of the day (UTC)" if hours else kind, ylabel=axis_label("regret", found.unit))
    return axes


_LINES = ("orange", "blue", "green", "purple", "yellow")


def plot_value(curve: ValueCurve, *, saved: bool = False, ax: Axes | None = None) -> Axes:
    """What forecasts are worth over a cost parameter, from climatology (0) to perfect foresight (1).

    Bands are 95 % and hold at all values at once.

    >>> import numpy as np, stakes
    >>> random = np.random.default_rng(0)
    >>> known = random.uniform(0.2, 0.8, size=(400, 1))
    >>> outcomes, members = known[:, 0] + 0.1 * random.normal(size=400), known + 0.1 * random.normal(size=(400, 30))
    >>> curve = stakes.value_curve(members, outcomes, stakes.ShortfallCost(stakes.ParameterRange(1, 50)))
    >>> ax = stakes.plots.plot_value(curve)
    >>> ax.get_xlabel(), ax.get_xscale()
    ('penalty', 'log')

    Args:
        curve: What `stakes.value_curve` returns.
        saved: Show what the first forecast saves against the second, or against climatology, in green where that is
            proven; False shows the value of each forecast.
        ax: Axes to draw on; None for new ones.
    """
    with _own(ax) as axes:
        (_draw_saved if saved else _draw_value)(curve, axes)
        axes.axhline(0.0, color="black", linewidth=0.8)
        axes.set(xlabel=curve.parameter, xlim=(curve.values[0], curve.values[-1]))
        if _is_geometric(curve.values):
            axes.set_xscale("log")
            ticks = _decimal_ticks(float(curve.values[0]), float(curve.values[-1]))
            axes.set_xticks(ticks, [number_text(tick, 3) for tick in ticks])
            axes.set_xticks([], minor=True)
    return axes


def _draw_value(curve: ValueCurve, axes: Axes) -> None:
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
    axes.set(ylabel="value")


def _draw_saved(curve: ValueCurve, axes: Axes) -> None:
    """What the first forecast saves, a year where that is known."""
    many, each = (1.0, "case") if curve.yearly is None else (curve.yearly.cases, "year")
    axes.plot(curve.values, many * curve.saved, color=COLOURS["orange"])
    band(axes, curve.values, many * curve.saved_low, many * curve.saved_high, COLOURS["orange"])
    for low, high in curve.worth_buying:
        axes.axvspan(low, high, color=COLOURS["green"], alpha=0.08, linewidth=0)
    axes.set(ylabel=axis_label(f"saved per {each}", curve.unit))


def _is_geometric(values: Floats) -> bool:
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


# Vector actions

_BAND_LOOKS = (0.18, 0.3)  # how dark, from the widest
_MOST_TICKS = 8
_JOINED = 2  # parts that a limit is drawn between


def plot_schedule(
    action: ArrayLike | Mapping[str, ArrayLike] | None,
    forecast: ArrayLike | Mapping[float, ArrayLike] | None = None,
    outcome: ArrayLike | None = None,
    *,
    names: Sequence[str] | None = None,
    limits: Sequence[Sequence[int]] = (),
    unit: str = "",
    ax: Axes | None = None,
) -> Axes:
    """A vector action part by part, such as hour by hour, or several decisions, in front of the forecast.

    >>> import torch, stakes
    >>> members = torch.tensor([[3.0, 4.0, 6.0], [5.0, 5.0, 9.0], [4.0, 7.0, 8.0]])
    >>> solution = stakes.solve_action(stakes.ScheduleCost(short=4.0, long=1.0, ramp=2.0), members)
    >>> ax = stakes.plots.plot_schedule(solution.action, members, names=["6 h", "7 h", "8 h"], unit="MW")
    >>> ax.get_ylabel()
    'outcome and action (MW)'

    Args:
        action: The action, (A,), or several by name, such as charge and discharge; None for the forecast alone.
        forecast: Members (M, D), whose 5 to 95 % range and middle half are shown; or quantiles (D,) by level, shown as
            bands between levels equally far from the median; None for none.
        outcome: What happened, (D,); None if unknown.
        names: The names of the parts; None numbers them.
        limits: The parts of each binding limit, as in `parts` of `stakes.limit_prices`: one part at its bound, or two
            neighbours at their largest step. Others are not drawn.
        unit: The unit of the action.
        ax: Axes to draw on; None for new ones.
    """
    actions = {} if action is None else action if isinstance(action, Mapping) else {"action": action}
    rows = {name: np.asarray(values, np.float64).reshape(-1) for name, values in actions.items()}
    quantiles = _quantiles(forecast)
    seen = None if outcome is None else np.asarray(outcome, np.float64).reshape(-1)
    sizes = {len(each) for each in (*rows.values(), *quantiles.values(), *([] if seen is None else [seen]))}
    if len(sizes) != 1 or (names is not None and len(names) not in sizes):
        raise ShapeError(f"action, forecast, outcome and names must have equally many parts, got {sorted(sizes)}")
    count = sizes.pop()
    edges = np.arange(count + 1) - 0.5
    with _own(ax) as axes:
        levels = sorted(quantiles)
        for low, high, dark in zip(levels[: len(levels) // 2], levels[::-1], _BAND_LOOKS, strict=False):
            look: dict[str, Any] = {"color": COLOURS["blue"], "alpha": dark, "linewidth": 0, "fill": True}
            axes.stairs(quantiles[high], edges, baseline=quantiles[low], **look)
        if quantiles:
            key(axes, "forecast", color=COLOURS["blue"], alpha=0.3, linewidth=7)
        if seen is not None:
            axes.plot(seen, color="black", marker=".", markersize=4, linestyle="", label="outcome")
        colours = [each for each in _LINES if each != "blue" or not quantiles]  # which is the forecast's
        for (name, values), colour in zip(rows.items(), colours, strict=False):
            axes.stairs(values, edges, baseline=None, color=COLOURS[colour], linewidth=1.4)
            key(axes, name, color=COLOURS[colour])
        if rows and limits:
            _draw_limits(axes, next(iter(rows.values())), limits)
        what = " and ".join([*(["outcome"] if quantiles or seen is not None else []), *(["action"] if rows else [])])
        axes.set_axisbelow(True)
        axes.set_ylabel(axis_label(what, unit))
        labels = [str(place) for place in range(1, count + 1)] if names is None else [*map(str, names)]
        every = -(-count // _MOST_TICKS)
        axes.set_xticks(range(0, count, every), [literal_text(name) for name in labels[::every]])
        if max(map(len, labels)) > _MOST_TICKS // 2:
            axes.tick_params(axis="x", labelrotation=30)
    return axes


def _quantiles(forecast: ArrayLike | Mapping[float, ArrayLike] | None) -> dict[float, Floats]:
    """Quantiles (D,) by their levels."""
    if forecast is None:
        return {}
    if isinstance(forecast, Mapping):
        return {float(level): np.asarray(values, np.float64).reshape(-1) for level, values in forecast.items()}
    members = np.asarray(forecast, np.float64)
    if members.ndim != 2:
        raise ShapeError(f"forecast must be members (M, D) or quantiles by their levels, got shape {members.shape}")
    return dict(zip(BAND_LEVELS, np.quantile(members, BAND_LEVELS, axis=0), strict=True))


def _draw_limits(axes: Axes, action: Floats, limits: Sequence[Sequence[int]]) -> None:
    """A bar on each part that is at its bound, and on each step that cannot be larger."""
    bound: dict[str, Any] = {"color": COLOURS["purple"], "linewidth": 3}
    for parts in limits:
        places = list(parts)
        if len(places) == _JOINED and places[1] == places[0] + 1:
            axes.plot([places[0] + 0.5] * 2, action[places], **bound)
        elif len(places) == 1:
            axes.plot([places[0] - 0.5, places[0] + 0.5], action[places * 2], **bound)
    key(axes, "limit binds", **bound)


# Drawings of reports: SVG, small enough to be read on a phone

_METADATA = ("Creator", "Date", "Format", "Type")  # none of them


def to_svg(figure: Figure) -> str:
    """The figure as SVG text, the same every time; its numbers plain."""
    for axes in figure.axes:
        plain_numbers(axes)
    text = io.StringIO()
    with style():
        FigureCanvasSVG(figure).print_svg(text, metadata=dict.fromkeys(_METADATA))  # `savefig` would draw it twice
    return text.getvalue()


def panel(draw: Callable[..., Any], *data: Any, rows: int = 1, height: float = 3.0, legend: int = 3) -> str:
    """A small drawing as SVG: `draw(*data, *axes)`, and below it a legend in so many columns."""
    with style(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)  # the reader's font has them
        figure = Figure(figsize=(WIDTH, height))
        axes = figure.subplots(rows, 1, squeeze=False, sharex=rows > 1)[:, 0]
        draw(*data, *axes)
        entries: dict[str, Any] = {}
        for each in axes:
            for handle, label in zip(*each.get_legend_handles_labels(), strict=True):
                entries.setdefault(label, handle)
        if legend and entries:
            look: dict[str, Any] = {"handlelength": 2.2, "columnspacing": 1.2}
            handles, labels = list(entries.values()), list(entries)
            figure.legend(handles, labels, loc="outside lower center", ncols=legend, **look)
        return to_svg(figure)
