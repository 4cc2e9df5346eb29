"""The rows of a problem's table: what each method cost, and by how much it differs from what a practitioner does."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stakes.evaluation.intervals import Resampling
from stakes.method.actions import solve_action
from stakes.paper.programs.methods import Method
from stakes.paper.programs.problem import Problem
from stakes.paper.programs.run import Results

__all__ = ["chosen_candidates", "compared", "foresight_cost", "worst_tenth"]

Floats = NDArray[np.float64]

_PLAIN = "plain_cost"  # the measure of a risk whose worst cases are shown, too
_TENTH = 0.1


def compared(results: Results) -> dict[str, Any]:
    """What is known of a problem and one row per method, as JSON has it.

    `cost`, `expected_cost` and `energy_score` are means over test cases and seeds; `less_reference` is the paired
    difference of the cost to the reference, `gap` what was expected less what was paid, `taken` how often each
    candidate was chosen; `pairs` are differences of the cost between further methods. Differences are [mean, low, high]
    with 95 % intervals over time and seeds.

    Args:
        results: What all candidates were worth.
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
    """The mean cost of the test cases for who knows their outcomes.

    Args:
        problem: What is decided.
    """
    outcome = problem.test.outcome
    solution = solve_action(problem.cost, outcome[:, None])
    return float(problem.cost(solution.action, outcome.to(solution.action.dtype)).double().mean())


def chosen_candidates(results: Results, method: Method) -> list[str]:
    """The candidate that each seed takes: that of the least mean cost on its validation cases.

    Args:
        results: What all candidates were worth.
        method: What may be taken.
    """
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

    Args:
        costs: Costs (seeds, cases).
    """
    count = max(1, round(_TENTH * costs.shape[1]))
    return float(np.sort(costs, axis=1)[:, -count:].mean())


def _plain(interval: Any) -> list[float] | None:
    numbers = [float(each) for each in interval]
    return numbers if np.isfinite(numbers).all() else None


def _number(values: Floats) -> float | None:
    mean = float(values.mean())
    return mean if np.isfinite(mean) else None
