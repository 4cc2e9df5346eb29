"""One product for the open shops of a bakery, out of one capacity: who gets how much."""

from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reproduction.programs.candidates import (
    RIDGE_CANDIDATES,
    WEIGHTS,
    fitted_ridge,
    recent_name,
    ridge_candidates,
    trained_candidates,
    weight_name,
)
from reproduction.programs.problem import Actions, Candidates, CandidateSource, Method, Plan, Problem, RunEffort
from stakes.data.case_table import CaseTable
from stakes.data.records import Record, load_record
from stakes.programs.schedules import AllocationCost, ScheduleCost

_RECORD = "demand_bakery"
_PRODUCTS = ("101", "109", "110")
_VALIDATION, _TEST = np.datetime64("2018-01-01"), np.datetime64("2018-07-01")
_OPEN = 0.95  # of the training days
_KNOWN = 2  # days before, up to which demand is known
_WEEKDAYS = (7, 14, 21, 28)
_WEEK = tuple(range(_KNOWN, _KNOWN + 7))
_BESIDE = ("promotion_", "is_", "rain_", "temperature_")

Floats = NDArray[np.float64]


class BakeryDays(NamedTuple):
    """Days on which all shops are open."""

    features: Floats  # what is known of each day, (N, F)
    demand: Floats  # the demand at each shop, in pieces, (N, D)
    days: NDArray[np.datetime64]  # its date, (N,)
    product: str  # the number of the product
    shops: tuple[str, ...]  # the numbers of the D shops


def bakery_days(record: Record | None = None) -> BakeryDays:
    """The days with their features."""
    record = record or load_record(_RECORD)
    days = record.times.astype("datetime64[D]")
    training = days < _VALIDATION
    product = max(_PRODUCTS, key=lambda each: np.nansum(_demand(record, each)[0][training]))
    demand, shops = _demand(record, product)
    often = (demand[training] > 0).mean(0) >= _OPEN
    demand, shops = demand[:, often], tuple(shop for shop, kept in zip(shops, often, strict=True) if kept)
    opened = np.where(demand > 0, demand, np.nan)
    beside = [place for place, name in enumerate(record.columns) if name.startswith(_BESIDE)]
    weekdays = np.eye(7)[days.astype(np.int64) % 7]
    features = [_mean_before(opened, _WEEKDAYS), _mean_before(opened, _WEEK), record.values[:, beside], weekdays]
    table = np.concatenate(features, axis=1)
    whole = np.isfinite(table).all(1) & np.isfinite(opened).all(1)
    return BakeryDays(table[whole], demand[whole], days[whole], product, shops)


def bakery_cases(days: BakeryDays) -> tuple[CaseTable, CaseTable, CaseTable]:
    """Training cases to the end of 2017, validation cases to the middle of 2018, and test cases after that."""
    features, demand = (torch.from_numpy(values).float() for values in (days.features, days.demand))
    first, second = np.searchsorted(days.days, [_VALIDATION, _TEST])
    edges = (slice(0, first), slice(first, second), slice(second, len(days.days)))
    train, validation, test = (CaseTable(features[rows], demand[rows], days.days[rows]) for rows in edges)
    return train, validation, test


def _demand(record: Record, product: str) -> tuple[Floats, tuple[str, ...]]:
    """The demand for a product (T, shops), and the shops."""
    names = [name.split("_") for name in record.columns]
    places = [place for place, name in enumerate(names) if name[0] == "demand" and name[-1] == product]
    return record.values[:, places], tuple(names[place][1] for place in places)


def _mean_before(values: Floats, days: tuple[int, ...]) -> Floats:
    """The mean of what is there some days before each day, (T, D); NaN where nothing is."""
    moved = np.full((len(days), *values.shape), np.nan)
    for place, before in enumerate(days):
        moved[place, before:] = values[:-before]
    there = np.isfinite(moved)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(there, moved, 0.0).sum(0) / there.sum(0))


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
    """The allocation."""
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


def binding_capacity(train: CaseTable, validation: CaseTable) -> float:
    """The median over validation days of the sum of what the shops would order by themselves, by ridge regression."""
    features, outcome = (
        torch.cat([getattr(part, name) for part in (train, validation)]) for name in ("features", "outcome")
    )
    known = CaseTable(features, outcome)
    ridge = fitted_ridge(known, gap=1)
    members = ridge.sample(validation.features, len(known), torch.Generator().manual_seed(0), share_noise=True)
    alone = ScheduleCost(_SHORT, _LONG).free_action(members)
    return float(np.median(alone.sum(-1).numpy()).round())


def scaled_newsvendor(cost: AllocationCost, members: Tensor) -> Tensor:
    """What each shop would order by itself, all scaled down alike where the capacity does not suffice, (n, D)."""
    alone = ScheduleCost(cost.short, cost.long).free_action(members)  # which knows no capacity
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
_RECENT = tuple(map(recent_name, _WEIGHED))

BAKERY_PLANS = (
    Plan(
        "bakery",
        bakery_problem,
        (
            CandidateSource("scaled", _scaled, tuple(f"scaled {name}" for name in RIDGE_CANDIDATES), seeded=False),
            CandidateSource("ridge", ridge_candidates, RIDGE_CANDIDATES, seeded=False),
            CandidateSource("energy", partial(trained_candidates, settings={"batch": 64}), (*_WEIGHED, *_RECENT)),
        ),
        (
            Method("scaled", "newsvendor of each shop, scaled down", ("scaled ridge",)),
            Method("scaled_recent", "newsvendor of each shop on all days, recent errors", ("scaled ridge refit",)),
            Method("ridge", "ridge + error vectors, allocated", ("ridge",)),
            Method("ridge_recent", "ridge on all days + recent error vectors, allocated", ("ridge refit",)),
            Method("energy", "energy score, linear start", _WEIGHED[:1], ours=True),
            Method("decision", "energy + decision by validation", _WEIGHED, ours=True),
            Method("energy_recent", "energy score, recent errors", _RECENT[:1], ours=True),
            Method("decision_recent", "energy + decision by validation, recent errors", _RECENT, ours=True),
        ),
        "scaled",
        (
            ("ridge", "scaled"),
            ("ridge_recent", "scaled_recent"),
            ("decision", "energy"),
            ("decision_recent", "energy_recent"),
            ("decision", "ridge"),
        ),
    ),
)
"""The allocation of one product."""
