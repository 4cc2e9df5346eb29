"""The generation schedule of Donti, Amos and Kolter (2017): 24 hourly commitments a day ahead, on the load of PJM."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from reproduction.programs.candidates import (
    RIDGE_CANDIDATES,
    WEIGHTS,
    recent_name,
    ridge_candidates,
    trained_candidates,
    weight_name,
)
from reproduction.programs.point_networks import POINT_NETWORKS, point_network_candidates
from reproduction.programs.problem import (
    Candidates,
    CandidateSource,
    Method,
    Plan,
    Problem,
    RunEffort,
    chronological_cases,
)
from reproduction.tables import read_reference_table
from stakes.data.case_table import CaseTable
from stakes.errors import TableError
from stakes.programs.schedules import ScheduleCost

if TYPE_CHECKING:
    import pandas as pd


LOAD_TABLE = "donti_pjm_price_load_hourly_2008_2016.csv.gz"
"""The file of the loads, which is not shipped."""

_TIME, _LOAD, _HEAT = "time_local_eastern", "load_GW", "temp"
_HOURS = 24
_LEAST_HOURS = 23  # of a day, as the one on which summer time begins has
_YEAR = 365

Floats = NDArray[np.float64]


class LoadDays(NamedTuple):
    """Days whose day before is there."""

    features: Floats  # what is known of each day, (N, 149)
    loads: Floats  # its hourly loads in GW, (N, 24)
    days: NDArray[np.datetime64]  # its date, (N,)


def load_days(folder: str | None) -> LoadDays:
    """The days of the table with their features."""
    table = read_reference_table(LOAD_TABLE, folder, _TIME)
    for column in ("time", _LOAD, _HEAT):
        if column not in table:
            raise TableError(f"{LOAD_TABLE} must have the column {column}, got {list(table.columns)}")
    table = table.dropna(subset=[_LOAD, _HEAT])
    loads, heat = (_by_day(table, column) for column in (_LOAD, _HEAT))
    days = loads.index.to_numpy("datetime64[D]")
    load, warmth = loads.to_numpy(np.float64), heat.to_numpy(np.float64)
    before, today = warmth[:-1], warmth[1:]
    features = [load[:-1], before, before**2, today, today**2, today**3, _calendar(days[1:])]
    following = np.diff(days) == np.timedelta64(1, "D")  # days whose day before is there
    return LoadDays(np.concatenate(features, axis=1)[following], load[1:][following], days[1:][following])


def summer_time(days: NDArray[np.datetime64]) -> NDArray[np.bool_]:
    """Whether summer time holds in the United States when each day begins, by the rule since 2007.

    It begins on the second Sunday of March and ends on the first one of November, both after midnight.

    >>> summer_time(np.array(["2010-03-14", "2010-03-15", "2010-11-07", "2010-11-08"], dtype="datetime64[D]")).tolist()
    [False, True, True, False]
    """
    begins, ends = _sunday(days, month=3) + 7, _sunday(days, month=11)
    return np.asarray((days.astype(np.int64) > begins) & (days.astype(np.int64) <= ends))


def _sunday(days: NDArray[np.datetime64], month: int) -> NDArray[np.int64]:
    """The first Sunday of a month in the year of each day, counted in days since 1970."""
    months = 12 * days.astype("datetime64[Y]").astype(np.int64) + month - 1
    first = months.astype("datetime64[M]").astype("datetime64[D]")
    return first.astype(np.int64) + (6 - _weekday(first)) % 7


def _weekday(days: NDArray[np.datetime64]) -> NDArray[np.int64]:
    """0 for Monday."""
    return (days.astype(np.int64) + 3) % 7  # day 0, 1970-01-01, was a Thursday


def _calendar(days: NDArray[np.datetime64]) -> Floats:
    """Weekend, holiday, summer time, and the day of the year as a wave, (N, 5)."""
    from pandas.tseries.holiday import USFederalHolidayCalendar

    holidays = USFederalHolidayCalendar().holidays(str(days.min()), str(days.max())).to_numpy("datetime64[D]")
    angle = 2 * np.pi * ((days - days.astype("datetime64[Y]")).astype(np.int64) + 1) / _YEAR
    columns = [_weekday(days) >= 5, np.isin(days, holidays), summer_time(days), np.cos(angle), np.sin(angle)]
    return np.column_stack(columns).astype(np.float64)


def _by_day(table: "pd.DataFrame", column: str) -> "pd.DataFrame":
    """Days by hours; an hour that a day lacks has the value of the next one, or of the one before."""
    time = table["time"]
    wide = table.assign(day=time.dt.normalize(), hour=time.dt.hour).pivot_table(column, "day", "hour")
    whole = wide.reindex(columns=range(_HOURS)).dropna(thresh=_LEAST_HOURS)
    if whole.empty:
        raise TableError(f"{LOAD_TABLE} must have days of at least {_LEAST_HOURS} hours, got none")
    return whole.bfill(axis=1).ffill(axis=1)


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
def _cases(folder: str | None) -> tuple[CaseTable, CaseTable, CaseTable]:
    return chronological_cases(*load_days(folder))


def generation_problem(folder: str | None, binding: bool) -> Problem:
    """The schedule with the literature's ramp limit, or with one that binds."""
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


def binding_ramp(cases: CaseTable) -> float:
    """Half of the median over days of the largest change from one hour to the next, in GW."""
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
    ("energy_recent", "energy"),
    ("decision_recent", "energy_recent"),
    ("decision_recent", "decision"),
    ("decision", "ridge_recent"),
    ("decision_recent", "ridge_recent"),
)
_PAIRS_OF_TASK = (("decision", "task"), ("decision_recent", "task"), ("task", "ridge_recent"))
_RIDGE = CandidateSource("ridge", ridge_candidates, RIDGE_CANDIDATES, seeded=False)
_THEIRS = (
    Method("squared", "network, squared error (Donti et al.)", POINT_NETWORKS[:1]),
    Method("weighted", "network, cost-weighted (Donti et al.)", POINT_NETWORKS[1:2]),
    Method("task", "network, trained on the cost (Donti et al.)", POINT_NETWORKS[2:]),
)
_REGRESSIONS = (
    Method("ridge", "ridge + error vectors", ("ridge",)),
    Method("ridge_recent", "ridge + recent error vectors", ("ridge recent",)),
    Method("ridge_refit", "ridge on all days + recent error vectors", ("ridge refit",)),
)


def _weighed(training: str, weights: Sequence[float]) -> tuple[str, ...]:
    return tuple(weight_name(training, weight) for weight in weights)


def _by_weight(name: str, candidates: Sequence[str], weights: Sequence[float]) -> list[Method]:
    pairs = zip(candidates, weights, strict=True)
    recent = ", recent errors" if name == "recent" else ""
    return [
        Method(f"{name}_{weight:g}", f"energy + decision {weight:g}{recent}", (each,), ours=True)
        for each, weight in pairs
    ]


def _original_plan() -> Plan:
    energy = _weighed("energy", WEIGHTS)
    recent = tuple(map(recent_name, energy))
    sources = (
        _RIDGE,
        CandidateSource("point", point_network_candidates, POINT_NETWORKS),
        CandidateSource("energy", trained_candidates, (*energy, *recent)),
    )
    methods = (
        *_THEIRS,
        *_REGRESSIONS,
        Method("energy", "energy score, linear start", energy[:1], ours=True),
        *_by_weight("decision", energy[1:], WEIGHTS[1:]),
        Method("decision", "energy + decision by validation", energy, ours=True),
        Method("energy_recent", "energy score, recent errors", recent[:1], ours=True),
        *_by_weight("recent", recent[1:], WEIGHTS[1:]),
        Method("decision_recent", "energy + decision by validation, recent errors", recent, ours=True),
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
            (*energy, *map(recent_name, energy)),
        ),
        CandidateSource(
            "through",
            partial(trained_candidates, name="through", weights=weights[1:]),
            (*through, *map(recent_name, through)),
        ),
    )
    methods = (
        *_REGRESSIONS,
        Method("energy", "energy score, linear start", energy[:1], ours=True),
        Method("decision", "energy + decision 0.5, without the limit", energy[1:], ours=True),
        Method("through", "energy + decision 0.5, with the limit", through, ours=True),
        Method("energy_recent", "energy score, recent errors", (recent_name(energy[0]),), ours=True),
        Method(
            "decision_recent",
            "energy + decision 0.5, without the limit, recent errors",
            (recent_name(energy[1]),),
            True,
        ),
        Method(
            "through_recent", "energy + decision 0.5, with the limit, recent errors", (recent_name(through[0]),), True
        ),
    )
    pairs = (*_PAIRS, ("through", "decision"), ("through_recent", "decision_recent"))
    return Plan("generation_ramp", _binding, sources, methods, "ridge", pairs)


GENERATION_PLANS = (_original_plan(), _binding_plan())
"""The schedule with the literature's ramp limit, and with one that binds."""
