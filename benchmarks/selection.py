"""What model selection selects, what that is worth, and what it costs to find out.

    python -m benchmarks.selection problems [--reference FOLDER] [--seeds 1] [--jobs 2] [--json FILE]
    python -m benchmarks.selection gaussian [--draws 50] [--jobs 2] [--json FILE]
    python -m benchmarks.selection stale PJM_CSV [--seeds 3] [--jobs 2] [--json FILE]
    python -m benchmarks.selection time [--json FILE]

`problems` fits every candidate to every real problem of `benchmarks.forecast_quality` and judges the selected forecast
on the test rows, beside the linear forecast that was fitted to the same rows; p-values of the cost are adjusted by
Holm's method. `scatter` is by how much of the cost above foresight the costs of two successive candidates differ on
the test rows beside what their scores say, as a standard deviation: what model selection shrinks by.
`gaussian` draws records whose truth is linear with normal errors, where the linear candidate is right.
`stale` decides for every hour of the next day's load at 50 : 0.5 with a quadratic term: from a forecast that was
fitted once, as it is and corrected by its errors on the validation days, and from one that was fitted again on these
days as well.
`time` takes a fit with model selection and one without it by turns, in seconds of one core.
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

import stakes
from benchmarks.forecast_quality.comparison import holm, p_value
from benchmarks.forecast_quality.problems import Problem, problems
from benchmarks.timing import processor
from stakes.costs.cost import Cost
from stakes.evaluation.intervals import Resampling, block_length
from stakes.evaluation.selection import ModelSelection
from stakes.scores.decision_score import foresight_costs
from stakes.training.processes import called_for_each

MEMBERS = 200
TIMED = ("Irish wind", "French load, Brittany")
GAUSSIAN_ROWS = 1600

Floats = NDArray[np.float64]
Row = dict[str, Any]


def lead_rows(problem: Problem) -> int:
    step = np.median(np.diff(problem.times[: problem.train])) / np.timedelta64(1, "h")
    return round(problem.lead_hours / step)


def fitted(problem: Problem, cost: Cost, **settings: Any) -> stakes.DecisionAwareForecaster:
    known = slice(problem.train)
    given = {"gap": lead_rows(problem), "members": MEMBERS, "device": "cpu", "random_state": 0} | settings
    forecaster = stakes.DecisionAwareForecaster(cost, **given)
    return forecaster.fit(problem.features[known], problem.outcomes[known], times=problem.times[known])


def on_problem(name: str, label: str, seed: int, reference: Path | None) -> dict[str, Any]:
    """Model selection on one problem and cost, and what its forecast and the linear forecast cost on each test row."""
    torch.set_num_threads(1)
    problem = problems(reference)[name]()
    cost, rows = problem.costs[label], problem.test_rows
    start = time.process_time()
    forecaster = fitted(problem, cost, random_state=seed)
    seconds = time.process_time() - start
    linear = fitted(problem, cost, model="linear", decision_weight=0.0, recent_errors=False, random_state=seed)
    test = problem.features[rows], problem.outcomes[rows]
    selection = forecaster.tested_selection(*test, times=problem.times[rows])
    assert selection is not None
    return {
        "times": problem.times[rows],
        "selected": selection.selected.name,
        "parameters": selection.selected.parameters,
        "seconds": seconds,
        "candidates": {candidate.name: candidate.cost for candidate in selection.tested},
        "scatter": scatters(selection, float(foresight_costs(cost, torch.from_numpy(test[1])).mean())),
        "ours": forecaster.assess(*test)["cost"],
        "linear": linear.assess(*test)["cost"],
    }


def scatters(selection: ModelSelection, foresight: float) -> list[float]:
    """Of each later candidate against that below it: relative change of cost above foresight less that of the score."""
    tested = {candidate.name: candidate for candidate in selection.tested}
    pairs = [(tested[each.name], tested[each.below]) for each in selection.candidates[3:] if each.name in tested]
    return [
        (one.cost - below.cost) / (below.cost - foresight) - (one.score - below.score) / below.score
        for one, below in pairs
    ]


def real_problems(options: argparse.Namespace) -> dict[str, Any]:
    """Every problem and cost, over the seeds."""
    known = problems(options.reference)
    cells = [
        (name, label, seed)
        for name in known
        if any(part in name for part in options.problems)
        for label in known[name]().costs
        for seed in range(options.seeds)
    ]
    calls = {cell: (*cell, options.reference) for cell in cells}
    came = {}
    for cell, row in called_for_each(on_problem, calls, options.jobs):
        print(*cell, row["selected"], f"{row['seconds']:.0f} s", flush=True)
        came[cell] = row
    table = {}
    for name, label, _ in cells:
        seeds = [came[name, label, seed] for seed in range(options.seeds)]
        table[f"{name}, {label}" if label else name] = compared(seeds)
    for row, p in zip(table.values(), holm([row["p"] for row in table.values()]), strict=True):
        row["p adjusted"] = p
    worse = [name for name, row in table.items() if row["p adjusted"] < 0.05 and row["less linear"][0] > 0]
    scatter = float(np.std([value for row in came.values() for value in row["scatter"]]))
    return {"problems": table, "significantly worse than the linear forecast": worse, "scatter": scatter}


def compared(seeds: Sequence[dict[str, Any]]) -> Row:
    """The forecasts of several seeds against the linear one."""
    times = seeds[0]["times"]
    ours, linear = (np.stack([each[name] for each in seeds]) for name in ("ours", "linear"))
    resampling = Resampling(len(times), len(seeds), block=block_length(len(times), times))
    change = resampling.mean((ours - linear)[None])
    return {
        "selected": dict(Counter(each["selected"] for each in seeds)),
        "cost": float(ours.mean()),
        "linear cost": float(linear.mean()),
        "less linear": list(change.interval()),
        "p": p_value(change),
        "candidates": {
            name: np.mean([each["candidates"][name] for each in seeds]).item() for name in seeds[0]["candidates"]
        },
        "seconds": float(np.mean([each["seconds"] for each in seeds])),
    }


def gaussian_draw(seed: int) -> str:
    """Which candidate is selected where the truth is linear Gaussian."""
    torch.set_num_threads(1)
    random = np.random.default_rng(seed)
    features = random.normal(size=(GAUSSIAN_ROWS, 4))
    outcome = features @ [1.0, 0.5, -0.3, 0.0] + 0.7 * random.normal(size=GAUSSIAN_ROWS)
    cost = stakes.ImbalanceCost(9.0, 1.0, -50.0, 50.0)
    forecaster = stakes.DecisionAwareForecaster(cost, members=MEMBERS, device="cpu", random_state=seed)
    selection = forecaster.fit(features, outcome).selection_
    assert selection is not None
    return selection.selected.name


def gaussian(options: argparse.Namespace) -> dict[str, Any]:
    calls = {seed: (seed,) for seed in range(options.draws)}
    selected = Counter(name for _, name in called_for_each(gaussian_draw, calls, options.jobs))
    return {"draws": options.draws, "selected": dict(selected)}


def stale_load(path: Path) -> tuple[Floats, Floats, NDArray[np.datetime64]]:
    """Features of a day, its 24 loads in GW and its date: yesterday's loads and the temperatures of both days."""
    table = pd.read_csv(path, parse_dates=["time_local_eastern"]).dropna(subset=["load_GW", "temp"])
    moment = table["time_local_eastern"] - pd.Timedelta(hours=1)  # an hour is named by its end
    table = table.assign(day=moment.dt.normalize(), hour=moment.dt.hour)
    load, heat = (table.pivot_table(index="day", columns="hour", values=column) for column in ("load_GW", "temp"))
    days = pd.DatetimeIndex(load.index)
    angle = 2 * np.pi * days.dayofyear / 365.25
    calendar = np.column_stack([np.cos(angle), np.sin(angle), *(days.dayofweek == day for day in range(6))])
    heat = heat.reindex(load.index)
    features = np.column_stack([load.shift(1), heat, heat**2 / 100, heat.shift(1), calendar])
    whole = np.isfinite(features).all(1) & load.notna().all(axis=1).to_numpy()
    return features[whole], load.to_numpy()[whole], days.to_numpy()[whole]


def hourly_cost(members: NDArray[np.floating], outcomes: Floats) -> Floats:
    """What one action for every hour of a day costs: 50 : 0.5 and half the squared error, (N,)."""

    def charge(action: Tensor, load: Tensor) -> Tensor:
        short, over = torch.relu(load - action), torch.relu(action - load)
        return 50 * short + 0.5 * over + 0.5 * (action - load) ** 2

    cost = stakes.cost_function(charge, 0.0, 5.0, convex=True)
    drawn, seen = torch.from_numpy(members).double(), torch.from_numpy(outcomes)
    hours = [cost(stakes.optimal_action(cost, drawn[..., [hour]]), seen[..., [hour]]) for hour in range(seen.shape[1])]
    return np.asarray(torch.stack(hours).sum(0))


def stale_seed(path: Path, seed: int) -> dict[str, Floats]:
    torch.set_num_threads(1)
    features, outcomes, days = stale_load(path)
    train = int(0.8 * len(days))
    known, test = slice(train), slice(train + 1, None)

    def fitted_forecast(**settings: Any) -> stakes.DecisionAwareForecaster:
        cost = stakes.NewsvendorCost(50.0, 0.5, 0.0, 200.0)
        given = {"decision_weight": 0.0, "gap": 1, "members": MEMBERS, "device": "cpu", "random_state": seed}
        forecaster = stakes.DecisionAwareForecaster(cost, **(given | settings))
        return forecaster.fit(features[known], outcomes[known], times=days[known])

    once, again = fitted_forecast(refit_on_all_rows=False, recent_errors=False), fitted_forecast()
    validation = slice(train - once.validation_cases_ + 1, train)
    correction = stakes.Correction.fit(once.sample(features[validation]).astype(np.float64), outcomes[validation])
    members = {"fitted once": once.sample(features[test]), "fitted again": again.sample(features[test])}
    members["fitted once, corrected"] = correction.apply(members["fitted once"])
    return {name: hourly_cost(drawn, outcomes[test]) for name, drawn in members.items()}


def stale(options: argparse.Namespace) -> dict[str, Any]:
    calls = {seed: (options.pjm, seed) for seed in range(options.seeds)}
    came = dict(called_for_each(stale_seed, calls, options.jobs))
    costs = {name: np.stack([came[seed][name] for seed in calls]) for name in came[0]}
    base = costs["fitted once"]
    resampling = Resampling(base.shape[1], options.seeds, block=7)
    rows = {}
    for name, values in costs.items():
        change, before = resampling.means(np.stack([values - base, base])[:, None])
        rows[name] = {"cost": float(values.mean()), "change in %": list((change / abs(before) * 100.0).interval())}
    return rows


def timed(options: argparse.Namespace) -> dict[str, Any]:
    """Seconds of one core with model selection, over those without."""
    torch.set_num_threads(1)
    known, table = problems(options.reference), {}
    for name in (each for each in TIMED if any(part in each for part in options.problems)):
        problem = known[name]()
        cost = list(problem.costs.values())[-1]
        seconds = {}
        for selection in (False, True):
            start = time.process_time()
            fitted(problem, cost, model_selection=selection)
            seconds[selection] = time.process_time() - start
        table[name] = {"without": seconds[False], "with": seconds[True], "ratio": seconds[True] / seconds[False]}
        print(name, table[name], flush=True)
    return table


COMMANDS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "problems": real_problems,
    "gaussian": gaussian,
    "stale": stale,
    "time": timed,
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.selection")
    parser.add_argument("what", choices=list(COMMANDS))
    parser.add_argument("pjm", type=Path, nargs="?", help="the hourly loads and temperatures of `stale`")
    parser.add_argument("--reference", type=Path, help="folder of the tables that cannot be shipped")
    parser.add_argument("--problems", nargs="*", default=[""], help="parts of their names; all by default")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=1, help="processes at once")
    parser.add_argument("--json", type=Path, help="file to write")
    options = parser.parse_args(arguments)
    record = {"machine": f"{processor()}, torch {torch.__version__}", **COMMANDS[options.what](options)}
    text = json.dumps(record, indent=1)
    print(text)
    if options.json is not None:
        options.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
