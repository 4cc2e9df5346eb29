"""The report of the vector decisions: a section each, with what was decided, a figure and a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from reproduction.figures.paper_figure import new_figure
from reproduction.programs.problem import Method, Problem
from reproduction.programs.run import Results
from stakes.actions.solve import solve_action
from stakes.evaluation.intervals import Resampling
from stakes.plots import COLOURS, style, to_svg
from stakes.reports.page import Column, Figure, Report, Section, ShownCell, Table

Floats = NDArray[np.float64]

_PLAIN = "plain_cost"  # the measure of a risk whose worst cases are shown, too
_TENTH = 0.1


def compared(results: Results) -> dict[str, Any]:
    """What is known of a problem and one row per method, as JSON has it.

    `cost`, `expected_cost` and `energy_score` are means over test cases and seeds; `less_reference` is the paired
    difference of the cost to the reference, `gap` what was expected less what was paid, `taken` how often each
    candidate was chosen; `pairs` are differences of the cost between further methods. Differences are [mean, low, high]
    with 95 % intervals over time and seeds.
    """
    problem = results.problem
    resampling = Resampling(len(problem.test), results.seeds, block=min(problem.block, len(problem.test)))
    reference = results.plan.method(results.plan.reference)
    compare = _Comparison(results, resampling, _taken(results, reference, "cost"))
    return {
        "title": problem.title,
        "text": problem.text,
        "unit": problem.unit,
        "cost": repr(problem.cost),
        "cases": {name: len(part) for name, part in problem.parts.items()},
        "from": {name: str(part.times[0])[:10] for name, part in problem.parts.items() if part.times is not None},
        "attribution": problem.attribution,
        "seeds": results.seeds,
        "foresight_cost": foresight_cost(problem),
        "reference": reference.name,
        "measures": [*problem.measures, *(["worst_tenth"] if _PLAIN in problem.measures else [])],
        "methods": [compare.row(method) for method in results.plan.methods],
        "pairs": [compare.pair(*map(results.plan.method, pair)) for pair in results.plan.pairs],
    }


def foresight_cost(problem: Problem) -> float:
    """The mean cost of the test cases for who knows their outcomes."""
    outcome = problem.test.outcome
    solution = solve_action(problem.cost, outcome[:, None])
    return float(problem.cost(solution.action, outcome.to(solution.action.dtype)).double().mean())


def chosen_candidates(results: Results, method: Method) -> list[str]:
    """The candidate that each seed takes: that of the least mean cost on its validation cases."""
    if len(method.candidates) == 1:
        return results.seeds * [method.candidates[0]]
    costs = [results.values(each, "validation", "cost").mean(1) for each in method.candidates]
    return [method.candidates[place] for place in np.argmin(costs, axis=0)]


def _taken(results: Results, method: Method, metric: str) -> Floats:
    """The test numbers (seeds, cases) of what each seed takes."""
    chosen = chosen_candidates(results, method)
    return np.stack([results.by_seed[each, "test", seed][metric] for seed, each in enumerate(chosen)])


@dataclass(frozen=True, eq=False)
class _Comparison:
    """Methods beside the reference."""

    results: Results
    resampling: Resampling
    reference: Floats

    def row(self, method: Method) -> dict[str, Any]:
        names = ("cost", "expected_cost", "energy_score", *self.results.problem.measures)
        values = {name: _taken(self.results, method, name) for name in names}
        certified = _taken(self.results, method, "certified")
        chosen = chosen_candidates(self.results, method)
        difference = self._interval(values["cost"] - self.reference)
        cost, paid = self.resampling.pair(values["cost"][None], self.reference[None])
        return {
            "name": method.name,
            "title": method.title,
            "ours": method.ours,
            **{name: _number(each) for name, each in values.items()},
            **({"worst_tenth": worst_tenth(values[_PLAIN])} if _PLAIN in values else {}),
            "less_reference": difference,
            "change_in_percent": _plain(cost.relative_to(paid).interval()),
            "gap": self._interval(values["expected_cost"] - values["cost"]),
            "certified": _number(certified),
            "taken": {each: chosen.count(each) for each in method.candidates},
        }

    def pair(self, method: Method, other: Method) -> dict[str, Any]:
        costs, others = (_taken(self.results, each, "cost") for each in (method, other))
        return {"method": method.name, "less": other.name, "cost": self._interval(costs - others)}

    def _interval(self, values: Floats) -> list[float] | None:
        return _plain(self.resampling.mean(values[None]).interval()) if np.isfinite(values).any() else None


def worst_tenth(costs: Floats) -> float:
    """The mean over seeds of the mean cost of the dearest tenth of the cases.

    >>> worst_tenth(np.arange(20.0)[None])
    18.5
    """
    count = max(1, round(_TENTH * costs.shape[1]))
    return float(np.sort(costs, axis=1)[:, -count:].mean())


def _plain(interval: Any) -> list[float] | None:
    numbers = [float(each) for each in interval]
    return numbers if np.isfinite(numbers).all() else None


def _number(values: Floats) -> float | None:
    mean = float(values.mean())
    return mean if np.isfinite(mean) else None


_LOOKS = {False: ("a rival", COLOURS["black"]), True: ("ours", COLOURS["blue"])}
_ROW, _REST = 0.24, 1.1  # inches


def problem_figure(name: str, about: Mapping[str, Any]) -> Figure:
    """The methods of a problem from top to bottom, their costs with intervals and their energy scores."""
    rows = about["methods"]
    reference = next(row for row in rows if row["name"] == about["reference"])
    with style():
        drawing, grid = new_figure(1, 2, _ROW * len(rows) + _REST, sharey=True, width_ratios=(3, 1))
        costs, scores = grid[0]
        _costs(costs, rows, reference)
        _scores(scores, rows)
        costs.set(xlabel=f"mean cost on test cases ({about['unit']})")
        costs.set_yticks(-np.arange(len(rows)), [row["title"] for row in rows])
        costs.set_ylim(0.6 - len(rows), 0.6)
        scores.set(xlabel="energy score")
        handles = [
            Line2D([], [], color=colour, marker="o", linestyle="", label=label) for label, colour in _LOOKS.values()
        ]
        drawing.legend(handles=handles, loc="outside lower center", ncols=2)
        svg = to_svg(drawing)
    caption = (
        f"Mean cost on {about['cases']['test']:,} test cases. Bars are paired 95 % intervals, over time and "
        f"{about['seeds']} seeds, of the difference to “{reference['title']}”, the dashed line; marks are filled where "
        "one leaves out zero. Right: the energy score of the forecast, where there is one. To look for: blue marks "
        "that are filled and left of the line."
    )
    settings = {key: about[key] for key in ("cost", "cases", "from", "seeds", "reference", "foresight_cost")}
    return Figure(name, about["title"], caption, (svg,), settings)


def _costs(axes: Axes, rows: Sequence[Mapping[str, Any]], reference: Mapping[str, Any]) -> None:
    axes.axvline(reference["cost"], color=COLOURS["grey"], linestyle="--", linewidth=0.9)
    for place, row in enumerate(rows):
        colour = _LOOKS[row["ours"]][1]
        change = row["less_reference"]
        sure = change is not None and (change[1] > 0 or change[2] < 0)
        if change is not None:
            axes.plot([reference["cost"] + end for end in change[1:]], [-place, -place], color=colour, linewidth=0.9)
        fill = colour if sure or row is reference else "white"
        axes.plot(row["cost"], -place, color=colour, marker="o", markerfacecolor=fill)


def _scores(axes: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    for place, row in enumerate(rows):
        if row["energy_score"] is not None:
            axes.plot(row["energy_score"], -place, color=_LOOKS[row["ours"]][1], marker="o")


_SUMMARY = (
    "Decisions with many parts on real records. Every method is learned from training cases, stopped, corrected and "
    "chosen on later validation cases, and judged on still later test cases, which choose nothing.",
    "Differences are paired, with 95 % intervals over time, whose neighbours depend on each other, and over seeds. The "
    "reference is what a practitioner would do in five minutes.",
)


def build_programs_report(
    problems: Mapping[str, Mapping[str, Any]],
    figures: Mapping[str, Figure],
    reduced: str | None,
    notes: Sequence[str],
    provenance: Mapping[str, str],
) -> Report:
    """Everything on one page."""
    sections = [
        Section(name, about["title"], _sentences(about), (figures[name],), tuple(_tables(name, about)))
        for name, about in problems.items()
    ]
    return Report(
        title="Decisions with many parts, on real records",
        subtitle="Schedules, batteries and allocations: what forecasts trained on the decision are worth",
        summary=(*_SUMMARY, *notes),
        reduced=reduced,
        sections=tuple(sections),
        provenance=provenance,
    )


def _sentences(about: Mapping[str, Any]) -> tuple[str, ...]:
    cases = about["cases"]
    counts = f"{cases['train']:,} cases to learn from, {cases['validation']:,} to choose by, {cases['test']:,} to judge"
    first = about["from"].get("test")
    since = "" if first is None else f" from {first} on"
    foresight = f"Who knows the outcomes pays {about['foresight_cost']:.4g} {about['unit']}."
    return about["text"], f"{counts}{since}. {foresight}"


def _tables(name: str, about: Mapping[str, Any]) -> list[Table]:
    unit, measures = about["unit"], about["measures"]
    columns = (
        Column("method"),
        Column("cost", unit, "mean over test cases and seeds"),
        Column("less the reference", unit, "paired difference with its 95 % interval"),
        Column("of the reference", "%"),
        *(Column(measure.replace("_", " ")) for measure in measures),
        Column("energy score"),
        Column("signed gap", unit, "expected less paid; negative where a forecast is too sure"),
        Column("chosen on validation cases", help="how many seeds took which candidate"),
    )
    rows = tuple(
        (
            row["title"],
            row["cost"],
            _interval(row["less_reference"]) if row["name"] != about["reference"] else "the reference",
            _interval(row["change_in_percent"], 1) if row["name"] != about["reference"] else "",
            *(row[measure] for measure in measures),
            row["energy_score"],
            _interval(row["gap"]),
            _report_taken(row["taken"]),
        )
        for row in about["methods"]
    )
    tables = [Table(f"{name}-methods", "What each method cost", columns, rows)]
    if about["pairs"]:
        titles = {row["name"]: row["title"] for row in about["methods"]}
        heads = (Column("method"), Column("less"), Column("difference of the cost", unit))
        sides = [(titles[each["method"]], titles[each["less"]], _interval(each["cost"])) for each in about["pairs"]]
        tables.append(Table(f"{name}-pairs", "Methods side by side", heads, tuple(sides)))
    return tables


def _interval(interval: Sequence[float] | None, decimals: int = 3) -> ShownCell | None:
    if interval is None:
        return None
    mean, low, high = interval
    return ShownCell.interval(mean, low, high, decimals)


def _report_taken(taken: Mapping[str, int]) -> str:
    return ", ".join(f"{name}: {count}" for name, count in taken.items() if count) if len(taken) > 1 else ""
