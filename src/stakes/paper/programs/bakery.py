"""One product for the open shops of a bakery, out of one capacity: who gets how much."""

from functools import partial

import numpy as np
import torch
from torch import Tensor

from stakes.data.cases import Cases
from stakes.method.schedules import AllocationCost, ScheduleCost
from stakes.paper.programs.bakery_data import bakery_cases, bakery_days
from stakes.paper.programs.methods import Actions, Candidates, CandidateSource, Method, Plan
from stakes.paper.programs.networks import (
    RIDGE_CANDIDATES,
    WEIGHTS,
    fitted_ridge,
    fresh_name,
    ridge_candidates,
    trained_candidates,
    weight_name,
)
from stakes.paper.programs.problem import Problem, RunEffort

__all__ = ["BAKERY_PLANS", "bakery_problem", "binding_capacity", "scaled_newsvendor"]

_SHORT, _LONG = 4.0, 1.0
_ROUNDING = 1e-5  # as a share of a limit, within which it binds
_TEXT = (
    "{shops} shops order {product} the day before, out of one capacity of {capacity:,.0f} pieces. A piece that is "
    "asked for and not there costs 4, one that is left over 1. The capacity is the median, over validation days, of "
    "what the shops would order by themselves. Days on which one of the shops, which are those open on at least 95 % "
    "of the training days, is closed are left out. Demand fell by more than a quarter after 2017."
)
_ATTRIBUTION = "Bakery demand: data of ddop, copyright (c) 2007-2020 the ddop developers, BSD 3-Clause."


def bakery_problem(folder: str | None = None) -> Problem:
    """The allocation.

    Args:
        folder: Not used: the record is in the package.
    """
    days = bakery_days()
    train, validation, test = bakery_cases(days)
    capacity = binding_capacity(train, validation)
    return Problem(
        name="bakery",
        title="One capacity for the shops of a bakery",
        text=_TEXT.format(shops=len(days.shops), product=f"product {days.product}", capacity=capacity),
        unit="a day",
        cost=AllocationCost(_SHORT, _LONG, capacity),
        train=train,
        validation=validation,
        test=test,
        attribution=_ATTRIBUTION,
        measures={"capacity_binds": lambda action, outcome: _spent(action, capacity)},
    )


def binding_capacity(train: Cases, validation: Cases) -> float:
    """The median over validation days of the sum of what the shops would order by themselves, by ridge regression.

    Args:
        train: The training cases, to which it is fitted together with the validation cases.
        validation: The validation cases.
    """
    features, outcome = (
        torch.cat([getattr(part, name) for part in (train, validation)]) for name in ("features", "outcome")
    )
    known = Cases(features, outcome)
    ridge = fitted_ridge(known, gap=1)
    members = ridge.sample(validation.features, len(known), torch.Generator().manual_seed(0), share_noise=True)
    alone = ScheduleCost(_SHORT, _LONG).free_action(members).action
    return float(np.median(alone.sum(-1).numpy()).round())


def scaled_newsvendor(cost: AllocationCost, members: Tensor) -> Tensor:
    """What each shop would order by itself, all scaled down alike where the capacity does not suffice, (n, D).

    Args:
        cost: The prices and the capacity.
        members: Members (n, M, D).
    """
    alone = ScheduleCost(cost.short, cost.long).free_action(members).action  # which knows no capacity
    return alone * (cost.budget / alone.sum(-1, keepdim=True)).clamp(max=1.0)


def _spent(action: Tensor, capacity: float) -> Tensor:
    """Whether all of the capacity is given out, (n,)."""
    return (action.sum(-1) >= capacity * (1 - _ROUNDING)).double()


def _scaled(problem: Problem, seed: int, effort: RunEffort) -> Candidates:
    """The newsvendor of each shop, from ridge regression with its errors, out of fold and fresh."""
    assert isinstance(problem.cost, AllocationCost)
    cost, scaled = problem.cost, {}
    for name, forecast in ridge_candidates(problem, seed, effort).items():
        parts = [
            None if part is None else scaled_newsvendor(cost, part) for part in (forecast.validation, forecast.test)
        ]
        scaled[f"scaled {name}"] = Actions(parts[0], torch.as_tensor(parts[1]))
    return scaled


_WEIGHED = tuple(weight_name("energy", weight) for weight in WEIGHTS)
_FRESH = tuple(map(fresh_name, _WEIGHED))

BAKERY_PLANS = (
    Plan(
        "bakery",
        bakery_problem,
        (
            CandidateSource("scaled", _scaled, tuple(f"scaled {name}" for name in RIDGE_CANDIDATES), seeded=False),
            CandidateSource("ridge", ridge_candidates, RIDGE_CANDIDATES, seeded=False),
            CandidateSource("energy", partial(trained_candidates, settings={"batch": 64}), (*_WEIGHED, *_FRESH)),
        ),
        (
            Method("scaled", "newsvendor of each shop, scaled down", ("scaled ridge",)),
            Method("scaled_fresh", "newsvendor of each shop on all days, fresh errors", ("scaled ridge refit",)),
            Method("ridge", "ridge + error vectors, allocated", ("ridge",)),
            Method("ridge_fresh", "ridge on all days + fresh error vectors, allocated", ("ridge refit",)),
            Method("energy", "energy score, linear start", _WEIGHED[:1], ours=True),
            Method("decision", "energy + decision by validation", _WEIGHED, ours=True),
            Method("energy_fresh", "energy score, fresh errors", _FRESH[:1], ours=True),
            Method("decision_fresh", "energy + decision by validation, fresh errors", _FRESH, ours=True),
        ),
        "scaled",
        (
            ("ridge", "scaled"),
            ("ridge_fresh", "scaled_fresh"),
            ("decision", "energy"),
            ("decision_fresh", "energy_fresh"),
            ("decision", "ridge"),
        ),
    ),
)
"""The allocation of one product."""
