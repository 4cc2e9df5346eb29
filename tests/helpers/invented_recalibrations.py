"""Recalibrations of invented numbers, for their report: a forecast that lies too low, and the same corrected."""

from dataclasses import replace
from typing import Literal

import numpy as np

from stakes.cost_spec.spec import CostSpec
from stakes.costs.cost import Cost
from stakes.data.forecasts.forecast_set import ForecastSet
from stakes.evaluation.intervals import Difference
from stakes.evaluation.selection import (
    START,
    JudgedCandidate,
    JudgedCases,
    ModelSelection,
    candidate_on_test,
    untested_candidate,
)
from stakes.forecasting.recalibration import judge_correction
from stakes.reports.comparison import Comparison, comparison_of_correction

SPEC = CostSpec.parse("newsvendor:underage=9,overage=1,upper=40,unit=EUR,action_unit=kg")


def invented_recalibration(
    selected: Literal["raw", "bias_and_spread", "linear"] = "linear",
    form: Literal["members", "quantiles", "points"] = "members",
    *,
    cases: int = 300,
    block: int = 7,
    bias: float = -3.0,
    correction: float = 3.0,
    spread: float = 1.0,
    times: bool = True,
    today: float | None = 13.0,
    cost: Cost | None = None,
) -> Comparison:
    """Members lie off by `bias`, are moved by `correction` and get a spread of so much of the right one."""
    generator = np.random.default_rng(0)
    centre = 10 + generator.normal(size=(cases, 1, 1))
    outcomes = (centre + generator.normal(size=(cases, 1, 1)))[:, 0]
    noise = np.linspace(-2, 2, 41)[None, :, None]
    given = ForecastSet(
        centre + bias + (0.0 if form == "points" else 0.5 * noise[:, ::4]),
        weights=np.linspace(1, 2, 11) if form == "quantiles" else None,
        targets=("bread",),
        times=np.datetime64("2023-01-01", "D") + np.arange(cases) if times else None,
        outcomes=outcomes,
        today=None if today is None else np.full(cases, today),
    )
    if form == "points":
        given = replace(given, members=given.members[:, :1])
    corrected = given.members if selected == "raw" else centre + bias + correction + spread * noise
    weights = given.weights if selected == "raw" else None
    cost = cost or SPEC.build()
    judged = judge_correction(given, corrected, cost, block, weights)
    return comparison_of_correction(
        judged,
        _selection(selected, judged.values("cost", "raw"), judged.values("cost", "corrected"), block),
        form,
        given.targets,
        cost,
        SPEC,
        settings={"test_fraction": 0.25},
        provenance={"data": "past.csv"},
        notes=("3 rows lack an outcome and are left out",),
    )


def _selection(selected: str, raw: np.ndarray, corrected: np.ndarray, block: int) -> ModelSelection:
    worth = {"raw": JudgedCases(raw, raw), selected: JudgedCases(corrected, corrected)}
    candidates = [untested_candidate("raw", None, worth["raw"], START)]
    if selected != "raw":
        change = Difference(*(float((corrected - raw).mean()) + step for step in (0.0, -0.1, 0.1)))
        costs = float(corrected.mean())
        candidates.append(
            JudgedCandidate(
                selected, "raw", {}, costs, costs, change, change, -0.1, -0.1, accepted=True, why="it is cheaper"
            )
        )
    tested = [candidate_on_test(name, each, worth[selected], block) for name, each in worth.items()]
    return ModelSelection(tuple(candidates), 500, block, tuple(tested))
