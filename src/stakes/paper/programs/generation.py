"""The generation schedule of Donti, Amos and Kolter (2017): 24 hourly commitments a day ahead, on the load of PJM."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
from torch import Tensor

from stakes.data.cases import Cases
from stakes.method.schedules import ScheduleCost
from stakes.paper.programs.generation_data import load_days
from stakes.paper.programs.methods import Candidates, CandidateSource, Method, Plan
from stakes.paper.programs.networks import (
    RIDGE_CANDIDATES,
    WEIGHTS,
    fresh_name,
    ridge_candidates,
    trained_candidates,
    weight_name,
)
from stakes.paper.programs.point_networks import POINT_NETWORKS, point_network_candidates
from stakes.paper.programs.problem import Problem, RunEffort, chronological_cases

__all__ = ["GENERATION_PLANS", "binding_ramp", "generation_problem"]

_SHORT, _LONG, _QUADRATIC, _RAMP = 50.0, 0.5, 1.0, 0.4
_ROUNDING = 1e-5  # as a share of a limit, within which it binds
_TEXT = (
    "Tomorrow's generation is scheduled hour by hour. A GW too little costs 50, one too much 0.5, and both half their "
    "square; neighbouring hours differ by at most {ramp:.3g} GW. {about}"
)
_ORIGINAL = "The limit of 0.4 hardly ever binds on these loads: the schedule is 24 newsvendors."
_BINDING = (
    "The limit is half of the largest change from hour to hour on the median training day, at which it binds in about "
    "half of the hours of a schedule."
)
_ATTRIBUTION = "PJM load: data of Donti, Amos and Kolter (2017), locuslab/e2e-model-learning, Apache-2.0."


@cache
def _cases(folder: str | None) -> tuple[Cases, Cases, Cases]:
    return chronological_cases(*load_days(folder))


def generation_problem(folder: str | None, binding: bool) -> Problem:
    """The schedule with the literature's ramp limit, or with one that binds.

    Args:
        folder: The folder of the table of loads; None for the current one.
        binding: Whether the ramp limit is `binding_ramp` of the training days.
    """
    train, validation, test = _cases(folder)
    ramp = binding_ramp(train) if binding else _RAMP
    cost: Any = ScheduleCost(short=_SHORT, long=_LONG, quadratic=_QUADRATIC, ramp=ramp)  # without an upper bound
    return Problem(
        name="generation_ramp" if binding else "generation",
        title=f"Generation for 24 hours, ramp {'that binds' if binding else '0.4'}",
        text=_TEXT.format(ramp=ramp, about=_BINDING if binding else _ORIGINAL),
        unit="a day",
        cost=cost,
        train=train,
        validation=validation,
        test=test,
        attribution=_ATTRIBUTION,
        measures={"ramp_binds": lambda action, outcome: _at_limit(action, ramp)},
    )


def binding_ramp(cases: Cases) -> float:
    """Half of the median over days of the largest change from one hour to the next, in GW.

    Args:
        cases: Days with 24 loads each.
    """
    return float(np.median(cases.outcome.diff(dim=-1).abs().amax(-1).numpy())) / 2


def _at_limit(action: Tensor, ramp: float) -> Tensor:
    """The share of the hours whose change is as large as the limit allows, (n,)."""
    return (action.diff(dim=-1).abs() >= ramp * (1 - _ROUNDING)).double().mean(-1)


def _original(folder: str | None) -> Problem:
    return generation_problem(folder, binding=False)


def _binding(folder: str | None) -> Problem:
    return generation_problem(folder, binding=True)


def _without_limit(make: Callable[..., Candidates], problem: Problem, seed: int, effort: RunEffort) -> Candidates:
    """Candidates trained with the limit of the literature, which hardly ever binds."""
    cost: Any = problem.cost
    return make(replace(problem, cost=replace(cost, ramp=_RAMP)), seed, effort)


_PAIRS = (
    ("decision", "energy"),
    ("energy_fresh", "energy"),
    ("decision_fresh", "energy_fresh"),
    ("decision_fresh", "decision"),
    ("decision", "ridge_fresh"),
    ("decision_fresh", "ridge_fresh"),
)
_PAIRS_OF_TASK = (("decision", "task"), ("decision_fresh", "task"), ("task", "ridge_fresh"))
_RIDGE = CandidateSource("ridge", ridge_candidates, RIDGE_CANDIDATES, seeded=False)
_THEIRS = (
    Method("squared", "network, squared error (Donti et al.)", POINT_NETWORKS[:1]),
    Method("weighted", "network, cost-weighted (Donti et al.)", POINT_NETWORKS[1:2]),
    Method("task", "network, trained on the cost (Donti et al.)", POINT_NETWORKS[2:]),
)
_REGRESSIONS = (
    Method("ridge", "ridge + error vectors", ("ridge",)),
    Method("ridge_fresh", "ridge + fresh error vectors", ("ridge fresh",)),
    Method("ridge_refit", "ridge on all days + fresh error vectors", ("ridge refit",)),
)


def _weighed(training: str, weights: Sequence[float]) -> tuple[str, ...]:
    return tuple(weight_name(training, weight) for weight in weights)


def _by_weight(name: str, candidates: Sequence[str], weights: Sequence[float]) -> list[Method]:
    pairs = zip(candidates, weights, strict=True)
    fresh = ", fresh errors" if name == "fresh" else ""
    return [
        Method(f"{name}_{weight:g}", f"energy + decision {weight:g}{fresh}", (each,), ours=True)
        for each, weight in pairs
    ]


def _original_plan() -> Plan:
    energy = _weighed("energy", WEIGHTS)
    fresh = tuple(map(fresh_name, energy))
    sources = (
        _RIDGE,
        CandidateSource("point", point_network_candidates, POINT_NETWORKS),
        CandidateSource("energy", trained_candidates, (*energy, *fresh)),
    )
    methods = (
        *_THEIRS,
        *_REGRESSIONS,
        Method("energy", "energy score, linear start", energy[:1], ours=True),
        *_by_weight("decision", energy[1:], WEIGHTS[1:]),
        Method("decision", "energy + decision by validation", energy, ours=True),
        Method("energy_fresh", "energy score, fresh errors", fresh[:1], ours=True),
        *_by_weight("fresh", fresh[1:], WEIGHTS[1:]),
        Method("decision_fresh", "energy + decision by validation, fresh errors", fresh, ours=True),
    )
    return Plan("generation", _original, sources, methods, "ridge", (*_PAIRS, *_PAIRS_OF_TASK))


def _binding_plan() -> Plan:
    """Theirs are left to the first plan, and ours are trained without the limit, too: with it a step takes longer."""
    weights = (0.0, 0.5)
    energy, through = _weighed("energy", weights), _weighed("through", weights[1:])
    sources = (
        _RIDGE,
        CandidateSource(
            "energy",
            partial(_without_limit, partial(trained_candidates, weights=weights)),
            (*energy, *map(fresh_name, energy)),
        ),
        CandidateSource(
            "through",
            partial(trained_candidates, name="through", weights=weights[1:]),
            (*through, *map(fresh_name, through)),
        ),
    )
    methods = (
        *_REGRESSIONS,
        Method("energy", "energy score, linear start", energy[:1], ours=True),
        Method("decision", "energy + decision 0.5, without the limit", energy[1:], ours=True),
        Method("through", "energy + decision 0.5, with the limit", through, ours=True),
        Method("energy_fresh", "energy score, fresh errors", (fresh_name(energy[0]),), ours=True),
        Method(
            "decision_fresh", "energy + decision 0.5, without the limit, fresh errors", (fresh_name(energy[1]),), True
        ),
        Method("through_fresh", "energy + decision 0.5, with the limit, fresh errors", (fresh_name(through[0]),), True),
    )
    pairs = (*_PAIRS, ("through", "decision"), ("through_fresh", "decision_fresh"))
    return Plan("generation_ramp", _binding, sources, methods, "ridge", pairs)


GENERATION_PLANS = (_original_plan(), _binding_plan())
"""The schedule with the literature's ramp limit, and with one that binds."""
