"""Fits of invented numbers, for the report of a fit: members scatter around the outcomes, and real costs judge them."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from stakes.actions.solve import optimal_action
from stakes.artifacts.fits import AboutFit
from stakes.cost_spec.spec import CostSpec
from stakes.costs.cost import outcome_total
from stakes.data.tables.layout import DataQuality
from stakes.evaluation.case_metrics import CaseMetrics
from stakes.evaluation.intervals import Difference
from stakes.evaluation.metrics import Assessor
from stakes.evaluation.selection import (
    Frontier,
    JudgedCandidate,
    JudgedCases,
    ModelSelection,
    candidate_on_test,
    frontier,
)
from stakes.reports.comparison import Comparison, comparison_of_fit
from stakes.workflows.evaluate import ForecastJudgement

SPEC = CostSpec.parse("imbalance:short=10,long=1,upper=150,unit=EUR,action_unit=GW")
WEIGHTS = tuple(tenth / 10 for tenth in range(10))
MEMBERS = 40


def invented_outcomes(cases: int, targets: int = 1, seed: int = 0) -> NDArray[np.float64]:
    """A load with a daily and a yearly wave, all targets alike, (N, D)."""
    generator = np.random.default_rng(seed)
    hours = 6 * np.arange(cases)
    waves = 60 + 12 * np.cos(2 * np.pi * hours / 8766) + 8 * np.sin(2 * np.pi * hours / 24)
    return (waves[:, None] + generator.normal(0, 4, (cases, targets))) / targets


def invented_fit(
    spec: CostSpec = SPEC,
    weight: float = 0.4,
    gain: float = 1.0,
    cases: int = 1000,
    targets: int = 1,
    block: int = 7,
    times: bool = True,
    baseline: bool = True,
    chosen: bool = True,
    selected: str | None = None,
    more: dict[str, float] | None = None,
    **about: Any,
) -> Comparison:
    """Weight 0 has members too close together; the weight selected has them as they should, so much as it gains.

    With a selected candidate there is a selection, in which candidates cost `more` on test cases.
    """
    judged, state = invented_cases(spec, weight, gain, cases, targets, block, times, baseline)
    cost = spec.build()
    frontier = invented_frontier(weight) if chosen else None
    known = invented_about(cases, targets, **about)
    comparison = comparison_of_fit(judged, state, known, cost, spec, frontier, None)
    if selected is None:
        return comparison
    assert frontier is not None
    points = tuple(replace(point, allowed=True) for point in frontier.points)
    points = (points[0], replace(points[1], also=(0.2, 0.3)), *points[4:])
    frontier = replace(frontier, points=points, tolerance=None)
    selection = invented_selection(comparison, selected, more)
    return comparison_of_fit(judged, state, known, cost, spec, frontier, selection)


def invented_about(cases: int, targets: int = 1, **about: Any) -> AboutFit:
    """What a bundle keeps of such a fit."""
    known: dict[str, Any] = {
        "quality": invented_quality(cases),
        "settings": {"model": {"name": "implicit", "hidden": 64}, "members": MEMBERS, "weights": list(WEIGHTS)},
        "provenance": {"stakes": "1.0", "data": "load.csv"},
        "outcomes": tuple(map(tuple, invented_outcomes(500, targets, seed=2).tolist())),
    }
    return AboutFit(**known | about)


def changed(comparison: Comparison, error: float = 1.0, regret: float = 1.0, **more: float) -> Comparison:
    """With so much added to what its forecasts cost or expect, or with errors and regrets multiplied."""
    foresight = comparison.policy("foresight")
    assert foresight is not None
    policies = []
    for policy in comparison.policies:
        if (forecast := policy.forecast) is not None and forecast.error is not None:
            excess = (regret - 1) * (policy.cost - foresight.cost)
            expected = forecast.expected_cost + excess + more.get("expected_cost", 0.0)
            spread = forecast.spread * more.get("spread", 1.0) if forecast.spread is not None else None
            forecast = replace(forecast, expected_cost=expected, error=error * forecast.error, spread=spread)
            policy = replace(policy, cost=policy.cost + excess + more.get("cost", 0.0), forecast=forecast)
        policies.append(policy)
    selected = policies[comparison.policies.index(comparison.selected)]
    return replace(comparison, policies=tuple(policies), selected=selected)


def invented_cases(
    spec: CostSpec = SPEC,
    weight: float = 0.4,
    gain: float = 1.0,
    cases: int = 1000,
    targets: int = 1,
    block: int = 7,
    times: bool = True,
    baseline: bool = True,
) -> tuple[pd.DataFrame, Any]:
    """The test cases of such a fit, and the state of its forecast."""
    cost = spec.build()
    outcome = invented_outcomes(cases, targets)
    generator = np.random.default_rng(1)
    centre = outcome + generator.normal(0, 3 / targets, outcome.shape)
    noise = generator.normal(0, 3 / targets, (cases, MEMBERS, targets))
    spreads = {0.0: 0.6, **({weight: 0.6 + 0.4 * gain} if weight else {})}
    names = tuple(f"load_{place}" for place in range(targets))
    state = SimpleNamespace(target_names=names, decision_weight=weight, members=MEMBERS, block=block, features=1)
    observed, total = torch.from_numpy(outcome), partial(outcome_total, cost)
    low, high = np.quantile(total(torch.from_numpy(outcome)), [1 / 3, 2 / 3])
    regions: dict[str, Any] = {
        "low": lambda values: total(values) <= low,
        "middle": lambda values: (total(values) > low) & (total(values) <= high),
        "high": lambda values: total(values) > high,
    }
    found = {}
    for each, spread in spreads.items():
        assessed = Assessor(cost, regions)(torch.from_numpy(centre[:, None] + spread * noise), observed)
        found[each] = {name: values.numpy() for name, values in assessed.items()}
        found[each]["climatology_cost"] = cost(optimal_action(cost, observed).expand(cases, 1), observed).numpy()
    today = None
    if baseline:
        action = np.clip(outcome_total(cost, torch.from_numpy(outcome)).numpy() + 5, cost.lower, cost.upper)
        action[:3] = np.nan  # today's action is not always known
        paid = cost(torch.from_numpy(action)[:, None], torch.from_numpy(outcome)).numpy()
        today = {"action": action, "cost": paid}
    at = np.datetime64("2023-01-01", "ns") + np.arange(cases) * np.timedelta64(6, "h") if times else None
    metrics = CaseMetrics(pd.DataFrame(outcome), found[weight], MEMBERS, found[0.0] if weight else None, today)
    rows: Any = SimpleNamespace(outcome=observed, times=at)
    forecast: Any = SimpleNamespace(cost=cost, state=state)
    return ForecastJudgement(forecast, rows, metrics, regions).case_table(), state


def invented_frontier(weight: float) -> Frontier:
    """Costs fall with the weight where one is to be selected, scores rise; the last weight failed."""
    paid = np.random.default_rng(3).gamma(4.0, 3.0, 300)
    wiggle = np.random.default_rng(4).normal(0, 1, (len(WEIGHTS), 300))
    gain = np.minimum(np.array(WEIGHTS), weight)[:, None]
    cost = paid * (1 - 0.4 * gain) + 0.5 * wiggle * (np.array(WEIGHTS)[:, None] > 0)
    score = 3 + 0.03 * wiggle + 0.2 * np.array(WEIGHTS)[:, None] ** 2
    cost[-1] = np.nan
    return frontier(WEIGHTS, cost, score, block=7, tolerance=2.0)


COSTS_MORE = {"climatology": 40.0, "linear": 5.0, "network": 1.0, "recent_errors": 0.5, "decision": 0.2}


def invented_selection(fit: Comparison, selected: str, more: dict[str, float] | None = None) -> ModelSelection:
    """What each candidate costs more on test cases; all up to the selected one are accepted, but for recent errors."""
    more = COSTS_MORE | (more or {})
    wiggle = np.random.default_rng(5).normal(0, 1, fit.cases)
    paid = JudgedCases(fit.selected.cost, np.ones(fit.cases))
    tested = [
        candidate_on_test(name, JudgedCases(paid.cost + extra + wiggle, paid.score), paid, fit.block)
        for name, extra in more.items()
    ]
    names, candidates, held = list(more), list[JudgedCandidate](), None
    for place, name in enumerate(names):
        accepted = place <= names.index(selected) and (name != "recent_errors" or name == selected)
        gain = None if held is None else Difference(*((-2.0, -3.0, -1.0) if accepted else (0.1, -0.2, 0.4)))
        why = "its mean cost is lower" if accepted else "it is not proven to be cheaper"
        parameters: dict[str, str | float] = {"decision weight": fit.weight or 0.3} if name == "decision" else {}
        candidates.append(
            JudgedCandidate(
                name, held, parameters, 12.0 + more[name], 3.0, gain, gain, -0.1, -0.5, accepted=accepted, why=why
            )
        )
        held = name if accepted else held
    return ModelSelection(tuple(candidates), 300, 7, tuple(tested))


def invented_quality(cases: int) -> DataQuality:
    return DataQuality(
        rows=4 * cases,
        used=3 * cases,
        left_out={"a value it needs is missing": cases - 12, "the lags reach before the first row": 12},
        first="2020-01-01T00:00:00",
        last="2023-09-08T12:00:00",
        step_hours=6.0,
        gaps=3,
        constant=("holiday",),
        columns={
            "load": {"min": 31.5, "mean": 60.2, "max": 91.0, "missing": 14.0},
            "holiday": {"min": 0.0, "mean": 0.0, "max": 0.0, "missing": 0.0},
            "empty": {"missing": float(4 * cases)},
        },
    )
