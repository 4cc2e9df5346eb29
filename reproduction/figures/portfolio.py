"""The figures of portfolios, ours: many sites and one decision on their total."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter

from reproduction.calibration import binned_gap, total_spread
from reproduction.figures.paper_figure import (
    BANDS,
    FILLED,
    PARAMETERS,
    WEIGHT_TICKS,
    Drawn,
    Line,
    PaperFigure,
    draw_changes,
    draw_levels,
    nearest,
    new_figure,
    shared_legend,
)
from reproduction.plan import BASES, SHUFFLED, TOTAL, ScoreChoice
from reproduction.study import Study, defined_deviation, defined_mean
from reproduction.study_collection import Studies, StudyKey
from reproduction.tables_of_results import chosen_weight, score_rows
from stakes.evaluation.intervals import Difference
from stakes.plots import COLOURS, band, error_bars

_TITLES = {
    "european_wind": "European wind, 21 series",
    "gefcom_wind": "GEFCom2014, 10 wind farms",
    "irish_wind": "Irish wind, 12 stations",
    "new_york_load": "New York load, 11 zones",
}
_LOOKS: dict[str, tuple[str, dict[str, Any]]] = {  # by method, from the top of a base's place to its bottom
    "plain": ("score alone", {"color": COLOURS["black"], "marker": "o", "markerfacecolor": "white"}),
    SHUFFLED: ("shuffled by past errors", {"color": COLOURS["purple"], "marker": "D"}),
    TOTAL: ("+ CRPS of the total", {"color": COLOURS["green"], "marker": "^"}),
    "variogram": ("+ variogram score", {"color": COLOURS["yellow"], "marker": "v"}),
    "decision": ("+ decision", {"color": COLOURS["blue"], "marker": "o"}),
    "many": ("+ decision, 64 members", {"color": COLOURS["sky"], "marker": "s"}),
}
_POLICY: dict[str, Any] = {"color": COLOURS["grey"], "linestyle": "--", "linewidth": 0.9}
_APART = 0.13  # of the distance between bases


def draw_base_scores(rows: pd.DataFrame) -> Drawn:
    """One panel per record, at its highest cost parameter."""
    records = [name for name in _TITLES if name in set(rows["portfolio"])]
    drawing, grid = new_figure(-(-len(records) // 2), min(2, len(records)), height=2.6, sharey=True)
    for axes in grid.flat[len(records) :]:
        axes.remove()
    for axes, name in zip(grid.flat, records, strict=False):
        own = rows[rows["portfolio"] == name]
        _panel(axes, own[own["parameter"] == own["parameter"].max()])
        axes.set(title=_TITLES[name], xlabel="cost above perfect foresight (%)")
        axes.set_ylabel("trained on")
    handles = [Line2D([], [], linestyle="", label=label, **look) for label, look in _LOOKS.values()]
    handles.append(Line2D([], [], label="direct policy, no forecast", **_POLICY))
    drawing.legend(handles=handles, loc="outside lower center", ncols=4)
    return Drawn(
        drawing,
        "What is paid above the cost of perfect foresight, in per cent of what the forecast trained point by point "
        "pays, for wind power (λ = 20) and for load (short 10 times as dear as long). Each at the weight that "
        "validation data choose; bars are paired 95 % intervals of the difference to the same forecast trained on its "
        "score alone, and marks are filled where one leaves out zero. To look for: how far the blue marks lie left of "
        "the white ones where forecasts are trained point by point, and that they hardly do where sites are trained "
        "together.",
    )


def _panel(axes: Axes, rows: pd.DataFrame) -> None:
    """Bases from top to bottom, and the methods of each from top to bottom."""
    plain = rows[(rows["method"] == "decision") & (rows["weight"] == 0)].set_index("base")["above_foresight"]
    unit = float(plain.get("pointwise", plain.iloc[0])) / 100
    for place, base in enumerate(BASES):
        own = rows[(rows["base"] == base) & rows["chosen"].astype(bool)].set_index("method")
        for step, (method, (_, look)) in enumerate(_LOOKS.items()):
            height = -place - _APART * (step - (len(_LOOKS) - 1) / 2)
            if method == "plain" and base in plain:
                axes.plot(plain[base] / unit, height, **look)
            elif method in own.index:
                change = np.array(own["above_foresight_change"][method])  # mean, low, high in per cent
                ends = plain[base] * (1 + change / 100) / unit
                sure = change[1] > 0 or change[2] < 0
                filled = look if sure else {**look, "markerfacecolor": "white"}
                axes.errorbar(ends[0], height, xerr=[[ends[0] - ends[1]], [ends[2] - ends[0]]], capsize=0, **filled)
        if place:
            axes.axhline(0.5 - place, color=COLOURS["grey"], linewidth=0.4)
    policy = rows[rows["method"] == "policy"]["above_foresight"]
    if len(policy):
        axes.axvline(policy.iloc[0] / unit, **_POLICY)
    axes.set(yticks=[-place for place in range(len(BASES))], ylim=(0.5 - len(BASES), 0.5))
    axes.set_yticklabels([title.replace(", ", ",\n") for title, _ in BASES.values()])


_NEEDED = (ScoreChoice("pointwise"), ScoreChoice("pointwise", SHUFFLED))

BASE_SCORE_FIGURES = (
    PaperFigure(
        "portfolio_base_scores",
        "portfolio",
        "Forecasts trained point by point, and what may be added to them",
        lambda studies: draw_base_scores(score_rows(studies)),
        tuple(StudyKey("irish_wind", "implicit", choice.name) for choice in _NEEDED),
    ),
)
"""One figure, of all records."""


_SIMULATED = StudyKey("simulated_portfolio", "implicit", sites=60)
_WEIGHT = "decision weight (–)"
_TOLERANCE = 1.0  # per cent of the energy score, of `chosen_weight`
_CHOSEN = (
    "the weight chosen on validation data (lowest cost among those whose energy score is at most "
    f"{_TOLERANCE:g} % worse)"
)
_SPOILT = 20.0  # per cent of the energy score
_WIDEST, _HIGHEST = 6.0, 40.0  # per cent of the energy score and of what is paid
_LEFT_OUT = f"Weights that make the energy score more than {_SPOILT:g} % worse are left out."


class _Task(NamedTuple):
    """A task in words."""

    name: str
    title: str
    data: str
    cost_unit: str
    sites: int | None = None


_TASKS = (
    _Task("simulated_portfolio", "simulated, 60 sites", "60 simulated wind sites", "–", 60),
    _Task("french_load", "French load", "the load of 12 French regions", "GW²"),
    _Task("irish_wind", "Irish stations", "wind power at 12 Irish stations", "–"),
    _Task("european_wind", "European wind", "21 series of European wind power", "–"),
)
_PORTFOLIO_LOOKS: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {  # by model and choice
    ("implicit", "main"): ("implicit", {"color": COLOURS["blue"], "marker": "o"}),
    ("diffusion", "main"): ("diffusion", {"color": COLOURS["orange"], "marker": "s"}),
    ("implicit", "crps_of_total"): (
        "rival: + CRPS of the total",
        {"color": COLOURS["green"], "marker": "^", "linestyle": "--"},
    ),
    ("implicit", "variogram"): ("rival: + variogram", {"color": COLOURS["purple"], "marker": "v", "linestyle": ":"}),
}
_RING: dict[str, Any] = {
    "marker": "o",
    "markersize": 9,
    "markerfacecolor": "none",
    "color": "black",
    "linestyle": "",
    "zorder": 4,
}

_RELIABILITY: dict[str, dict[str, Any]] = {
    "bins, weight 0": {"color": COLOURS["grey"], "marker": "D", "markersize": 3},
    "bins, chosen weight": {"color": COLOURS["green"], "marker": "^", "markersize": 3},
}


def _frontier(studies: Studies) -> Drawn:
    """One panel per task and cost parameter."""
    shown = [(task, parameter) for task in _present(studies) for parameter in _main(studies, task).parameters]
    columns = min(3, len(shown))
    drawing, grid = new_figure(-(-len(shown) // columns), columns, height=2.1)
    for axes in grid.flat[len(shown) :]:
        axes.remove()
    for axes, (task, parameter) in zip(grid.flat, shown, strict=False):
        axes.axhline(0.0, color="black", linewidth=0.8)
        axes.axvline(_TOLERANCE, color="black", linewidth=0.8, linestyle=":")
        for line in _lines(studies, task, parameter, rivals=True):
            _frontier_line(axes, line, _paid(line.study))
        axes.set(title=_titled(studies, task, parameter), xlabel="Δ energy score (%)")
        axes.set_ylabel(f"Δ {_paid(_main(studies, task))} (%)")
        axes.set(xlim=(None, min(_WIDEST, axes.get_xlim()[1])), ylim=(None, min(_HIGHEST, axes.get_ylim()[1])))
    shared_legend(drawing, _all_lines(studies, rivals=True), [_ring()], columns=3)
    return Drawn(
        drawing,
        "Change of the mean cost, or of the regret against the best action where the truth is known, against the "
        f"change of the mean energy score, for {_data(studies)}; lower left is better. Lines run from weight 0, at the "
        "origin, up; dashed and dotted lines are rivals that train the energy score together with another score that "
        f"sees the dependence. Bars are paired 95 % intervals, {FILLED} (cost or regret), and rings are {_CHOSEN}, "
        f"left of the dotted line. Lines that leave a panel go on to what is worse. {_LEFT_OUT}",
    )


def _spread(studies: Studies) -> Drawn:
    """Against the true spread, or the error of the mean."""
    tasks = _present(studies)
    drawing, grid = new_figure(1, len(tasks), height=2.4, sharey=True)
    for axes, task in zip(grid[0], tasks, strict=True):
        for line in _by_model_and_parameter(studies, task):
            _ratio_by_weight(axes, line)
        axes.axhline(1.0, color="black", linewidth=0.8)
        axes.set(xlabel=_WEIGHT, title=task.title, xticks=WEIGHT_TICKS)
    grid[0, 0].set_ylabel("spread of the total, relative (–)")
    shared_legend(drawing, _styles(studies), columns=4)
    return Drawn(
        drawing,
        f"The spread of the total by decision weight for {_data(studies)}: where the truth is known the mean standard "
        "deviation of the members' total over the true one, else the root of its mean variance times (M + 1) / M, for "
        "M members, over the root mean squared error of their mean; 1 is right, above 1 too wide. The "
        f"{BANDS}, and {FILLED}. {_LEFT_OUT}",
    )


def _calibration(studies: Studies) -> Drawn:
    """Rows: reliability at the highest cost parameter, the gap in its bins, and the signed gap by weight."""
    tasks = _present(studies)
    drawing, grid = new_figure(3, len(tasks), height=2.0)
    for (above, middle, below), task in zip(grid.T, tasks, strict=True):
        study = _main(studies, task)
        _reliability(above, middle, study, study.parameters[-1])
        above.set_title(_titled(studies, task, study.parameters[-1]))
        above.set(xlabel=f"predicted cost ({task.cost_unit})", ylabel=f"realised cost ({task.cost_unit})")
        middle.set(xlabel=f"predicted cost ({task.cost_unit})", ylabel=f"signed gap ({task.cost_unit})")
        draw_levels(below, "gap", _by_model_and_parameter(studies, task))
        below.set(xlabel=_WEIGHT, ylabel=f"signed gap ({task.cost_unit})")
    dots = [Line2D([], [], label=label, **look) for label, look in _RELIABILITY.items()]
    shared_legend(drawing, _styles(studies), dots, columns=4)
    return Drawn(
        drawing,
        "Top: mean realised against mean predicted cost in ten bins of the predicted cost with equally many cases, at "
        f"weight 0 and at {_CHOSEN}, implicit model, for {_data(studies)}; on the dotted diagonal a forecast knows "
        "what its decisions cost. Middle: the signed gap, predicted − realised cost, in the same bins; bars are 95 % "
        "intervals, and marks filled where one leaves out zero. Bottom: the signed gap of all cases by decision "
        f"weight, for both models and all cost parameters; {BANDS}, and {FILLED}. {_LEFT_OUT}",
    )


def _regret_by_sites(studies: Studies) -> Drawn:
    """Columns: cost parameters and models; lines: how many sites."""
    by_panel = {
        (parameter, model): _by_sites(studies, parameter, model)
        for parameter in nearest([5.0, 20.0], studies[_SIMULATED].parameters)
        for model in ("implicit", "diffusion")
    }
    shown = {place: lines for place, lines in by_panel.items() if lines}
    drawing, grid = new_figure(2, len(shown), height=2.0, sharex=True, sharey="row")
    for (above, below), ((parameter, model), lines) in zip(grid.T, shown.items(), strict=True):
        draw_levels(above, "regret", lines)
        draw_changes(below, "regret", lines, relative=True)
        for line in lines:
            _mark_chosen(above, line, "regret")
        above.set_title(f"λ = {parameter:g}, {model}")
        below.set_xlabel(_WEIGHT)
    grid[0, 0].set(ylabel="regret (–)", yscale="log", yticks=[0.003, 0.01, 0.03], yticklabels=["0.003", "0.01", "0.03"])
    grid[0, 0].yaxis.set_minor_formatter(NullFormatter())
    grid[1, 0].set_ylabel("change of regret\nagainst weight 0 (%)")
    shared_legend(drawing, max(shown.values(), key=len), [_ring()])
    return Drawn(
        drawing,
        "Regret of the simulated portfolio, the expected cost above that of the best action under the true "
        f"distribution, by decision weight, number of sites, λ and model. Top: means, where {BANDS} and rings are "
        f"{_CHOSEN}; bottom: the change against weight 0, where bars are paired 95 % intervals and marks filled where "
        "one leaves out zero. To look for: whether the change grows with the number of sites, since the energy score "
        "sees little of the dependence between many.",
    )


def _present(studies: Studies) -> list[_Task]:
    return [task for task in _TASKS if StudyKey(task.name, "implicit", sites=task.sites) in studies]


def _main(studies: Studies, task: _Task) -> Study:
    return studies.find(task.name, "implicit", sites=task.sites)


def _data(studies: Studies) -> str:
    *others, last = [task.data for task in _present(studies)]
    return f"{', '.join(others)} and {last}" if others else last


def _titled(studies: Studies, task: _Task, parameter: float) -> str:
    symbol = PARAMETERS[_main(studies, task).about["parameter"]]
    return f"{task.title}\n{symbol} = {parameter:g}"


def _paid(study: Study) -> str:
    return "regret" if "regret" in study.forecasts else "cost"


def _lines(studies: Studies, task: _Task, parameter: float, rivals: bool = False) -> Iterator[Line]:
    """Both models and, where wanted, the rivals, as far as they were evaluated with this cost parameter."""
    for (model, choice), (label, look) in _PORTFOLIO_LOOKS.items():
        wanted = rivals or choice == "main"
        study = studies.by_key.get(StudyKey(task.name, model, choice, task.sites)) if wanted else None
        if study is not None and np.isclose(study.parameters, parameter).any():
            yield Line(_sound(study, parameter), label, look, parameter)


def _sound(study: Study, parameter: float) -> Study:
    """Without the weights at which the forecast is spoilt."""
    weights = study.weights
    score = np.array([defined_mean(study.seed_means("energy_score", weight, parameter)) for weight in weights])
    kept = [weight for weight, each in zip(weights, score, strict=True) if not each > (1 + _SPOILT / 100) * score[0]]
    return replace(study, forecasts=study.forecasts.sel(decision_weight=kept))


def _all_lines(studies: Studies, rivals: bool) -> list[Line]:
    """One of each look that is drawn anywhere."""
    by_label = {
        line.label: line
        for task in _present(studies)
        for parameter in _main(studies, task).parameters
        for line in _lines(studies, task, parameter, rivals)
    }
    return [by_label[label] for label, _ in _PORTFOLIO_LOOKS.values() if label in by_label]


def _by_model_and_parameter(studies: Studies, task: _Task) -> list[Line]:
    """Colour and marker tell models apart, dashes the cost parameters."""
    parameters = _main(studies, task).parameters
    lines = []
    for dashes, parameter in zip(("-", "--", ":", "-."), parameters, strict=False):
        symbol = PARAMETERS[_main(studies, task).about["parameter"]]
        for line in _lines(studies, task, parameter):
            look = {**line.look, "linestyle": dashes}
            lines.append(Line(line.study, f"{line.label}, {symbol} = {parameter:g}", look, parameter))
    return lines


def _styles(studies: Studies) -> list[Line]:
    """One line of each label that `_by_model_and_parameter` gives."""
    lines = (line for task in _present(studies) for line in _by_model_and_parameter(studies, task))
    return list({line.label: line for line in lines}.values())


def _by_sites(studies: Studies, parameter: float, model: str) -> list[Line]:
    looks = {5: ("sky", "v"), 20: ("yellow", "s"), 60: ("blue", "o")}
    lines = []
    for sites, (colour, marker) in looks.items():
        study = studies.by_key.get(StudyKey("simulated_portfolio", model, sites=sites))
        if study is not None and np.isclose(study.parameters, parameter).any():
            look = {"color": COLOURS[colour], "marker": marker}
            lines.append(Line(study, f"{sites} sites", look, parameter))
    return lines


def _frontier_line(axes: Axes, line: Line, metric: str) -> None:
    """A line through the weights, hollow marks filled where the metric differs from that of weight 0."""
    score = [change.mean for change in line.changes("energy_score", relative=True)]
    paid = line.changes(metric, relative=True)
    error_bars(axes, score, paid, elinewidth=0.5, **line.look)
    if line.study.about["choice"] == "main":
        place = line.study.weights.index(chosen_weight(line.study, line.parameter))
        axes.plot(score[place], paid[place].mean, **_RING)


def _mark_chosen(axes: Axes, line: Line, metric: str) -> None:
    weight = chosen_weight(line.study, line.parameter)
    axes.plot(weight, defined_mean(line.study.seed_means(metric, weight, line.parameter)), **_RING)


def _ratio_by_weight(axes: Axes, line: Line) -> None:
    """The relative spread: mean and one standard deviation over seeds, filled where it differs from weight 0."""
    weights = np.array(line.study.weights)
    ratio = np.array([total_spread(line.study, weight, line.parameter).estimate for weight in weights])
    deviation = np.array([_seed_deviation(line.study, weight, line.parameter) for weight in weights])
    axes.plot(weights, ratio, markerfacecolor="white", **line.look)
    band(axes, weights, ratio - deviation, ratio + deviation, line.look["color"])
    sure = np.array([_spread_change(line.study, weight, line.parameter).significant for weight in line.study.weights])
    axes.plot(weights[sure], ratio[sure], **{**line.look, "linestyle": ""})


def _spread_change(study: Study, weight: float, parameter: float | None) -> Difference:
    """Of that ratio against weight 0, over the forecasts that failed at neither."""
    both = study.forecasts[["spread", "error"]].sel(decision_weight=sorted({0.0, weight}), method="nearest")
    kept = replace(study, forecasts=both.where(both["spread"].notnull().all("decision_weight")))
    return (total_spread(kept, weight, parameter) - total_spread(kept, 0.0, parameter)).interval()


def _seed_deviation(study: Study, weight: float, parameter: float | None) -> float:
    """How much that ratio differs between seeds."""
    spread = study.values("spread", weight, parameter)
    if "true_spread" in study.cases:
        ratio = defined_mean(spread, -1) / study.case_values("true_spread", parameter).mean()
    else:
        error, of_mean = study.values("error", weight, parameter), 1 + 1 / int(study.about["members"])
        ratio = np.sqrt(of_mean * defined_mean(spread**2, -1) / defined_mean(error**2, -1))
    return float(defined_deviation(ratio.reshape(-1), 0))


def _reliability(above: Axes, below: Axes, study: Study, parameter: float) -> None:
    """Realised cost, and the gap, against predicted cost in bins, at weight 0 and at the chosen weight."""
    for weight, look in zip((0.0, chosen_weight(study, parameter)), _RELIABILITY.values(), strict=True):
        bins = binned_gap(study, weight, parameter)
        predicted, realised = (np.array([getattr(each, side) for each in bins]) for side in ("predicted", "realised"))
        down, across = ((side[:, 0] - side[:, 1], side[:, 2] - side[:, 0]) for side in (realised, predicted))
        above.errorbar(predicted[:, 0], realised[:, 0], down, across, linewidth=0.9, **look)
        error_bars(below, predicted[:, 0], [each.gap for each in bins], **look)
    below.axhline(0.0, color="black", linewidth=0.8)
    below.sharex(above)
    ends = (min(above.get_xlim()[0], above.get_ylim()[0]), max(above.get_xlim()[1], above.get_ylim()[1]))
    above.plot(ends, ends, color="black", linestyle=":", linewidth=0.9, zorder=1)
    above.set(xlim=ends, ylim=ends)


def _ring() -> Line2D:
    return Line2D([], [], label="chosen on validation data", **_RING)


PORTFOLIO_FIGURES = (
    PaperFigure(
        "portfolio_frontier",
        "portfolio",
        "What a better decision costs the forecast",
        _frontier,
        (_SIMULATED,),
    ),
    PaperFigure("portfolio_spread", "portfolio", "The spread of the total", _spread, (_SIMULATED,)),
    PaperFigure("portfolio_calibration", "portfolio", "Reliability of the predicted cost", _calibration, (_SIMULATED,)),
    PaperFigure("portfolio_regret_by_sites", "portfolio", "Regret by number of sites", _regret_by_sites, (_SIMULATED,)),
)
"""In the order of the paper."""
