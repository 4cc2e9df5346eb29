"""What tests of decisions with many parts share: a small schedule of three hours, and a made-up table of loads."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from reproduction.programs.generation import LOAD_TABLE
from reproduction.programs.problem import Candidates, CandidateSource, Forecast, Method, Plan, Problem, RunEffort
from stakes.data.case_table import CaseTable
from stakes.programs.schedules import ScheduleCost

EFFORT = RunEffort(seeds=2, members=30, network_members=20, epochs=2, patience=2, decision_members=20, steps=3)


def small_problem(validation: int = 120, test: int = 40) -> Problem:
    """Loads of three hours that follow two features; the noise of later cases is twice as large."""
    random = np.random.default_rng(0)
    counts = {"train": 90, "validation": validation, "test": test}
    parts, day = {}, np.datetime64("2020-01-01")
    for name, count in counts.items():
        features = random.normal(size=(count, 2))
        spread = 0.1 if name == "train" else 0.2
        loads = 5 + features @ [[1.0, 0.5, 0.2], [0.0, 0.3, 0.4]] + spread * random.normal(size=(count, 3))
        days = day + np.arange(count)
        day = days[-1] + 1
        parts[name] = CaseTable(torch.from_numpy(features).float(), torch.from_numpy(loads).float(), days)
    cost: Any = ScheduleCost(short=9.0, long=1.0, ramp=1.0)
    return Problem("small", "A small schedule", "Three hours.", "EUR", cost, *parts.values(), block=3)


def shifted(problem: Problem, seed: int, effort: RunEffort) -> Candidates:
    """What happens, moved: "near" is the better one of validation cases, "far" of test cases."""
    validation, test = (problem.parts[name].outcome[:, None] for name in ("validation", "test"))
    return {
        "near": Forecast(validation + 0.1, test + 0.2 + 0.1 * seed),
        "far": Forecast(validation + 0.5, test + 0.1),
    }


def known(problem: Problem, seed: int, effort: RunEffort) -> Candidates:
    """The outcomes themselves."""
    return {"known": Forecast(None, problem.test.outcome[:, None])}


def small_plan(name: str = "small") -> Plan:
    """The made-up candidates and their methods."""
    return Plan(
        name,
        lambda folder: replace(small_problem(), name=name),
        (
            CandidateSource("shifted", shifted, ("near", "far")),
            CandidateSource("known", known, ("known",), seeded=False),
        ),
        (
            Method("foresight", "what happens", ("known",)),
            Method("near", "moved a little", ("near",)),
            Method("chosen", "by validation", ("near", "far"), ours=True),
        ),
        "near",
        (("chosen", "foresight"),),
    )


def made_loads(folder: Path, days: int = 12, first: str = "2010-03-10") -> pd.DataFrame:
    """Loads 1.00, 1.01, ... by hour plus a tenth a day, and temperatures that fall by one a day."""
    times = pd.date_range(first, periods=24 * days, freq="h")
    day, hour = (times.normalize() - times[0]).days, times.hour
    table = pd.DataFrame({"time_local_eastern": times, "load_GW": 1 + day / 10 + hour / 100, "temp": 50.0 - day})
    table.to_csv(folder / LOAD_TABLE, index=False, compression="gzip")
    return table
