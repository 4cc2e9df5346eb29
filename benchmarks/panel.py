"""What one forecast for many series is worth beside boosted quantiles, what it costs, and how it grows.

    python -m benchmarks.panel bakery [--seeds 5] [--workers 1] [--threads 1] [--until 2018-09-01] [--json FILE]
    python -m benchmarks.panel walmart SALES_CSV [--seeds 1] [--json FILE]
    python -m benchmarks.panel margins [--json FILE]
    python -m benchmarks.panel budget [--json FILE]
    python -m benchmarks.panel mlforecast [--json FILE]
    python -m benchmarks.panel neuralforecast [--json FILE]
    python -m benchmarks.panel scale [--series 100,1000,10000,50000] [--days 400] [--json FILE]

`bakery` is 99 series of 33 shops and 3 products, of the record in the package; zeros are closed days. `walmart` is the
sales of departments of Walmart's 2014 competition, a file that is not in the package. Both order for the next day or
week, too little costs 3 and too much 1. The rivals are LightGBM's quantiles at 0.75: one model of all series, with the
features of ours (a category of shop and product too), its targets as they are or scaled by the level before the
forecast. `margins` draws a margin and a waste for each series and trains one quantile model for each group of ratios.
`mlforecast` and `neuralforecast`, which must be installed, forecast the quantile too, one by LightGBM, one by NHITS;
their series have no gaps, so that closed days are filled with the week before. `budget` shares out what the forecasts
ask for less a tenth. `scale` simulates series, learns from 100,000 drawn cases and decides for all. With `--until` the
time after is left out, for choices on validation data.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from benchmarks.timing import processor
from stakes import AllocationCost, PanelForecaster
from stakes.actions.solve import solve_action
from stakes.cost_spec.spec import CostSpec
from stakes.data.records import load_record
from stakes.data.tables.panels import Panel, PanelCases, PanelLayout, PanelScale
from stakes.forecasting.panel_forecaster import CALIBRATED, PanelEvaluation, group_columns
from stakes.forecasting.panels import (
    FittedPanel,
    PanelSettings,
    decide_cases,
    fit_panel,
    gather,
    realised,
    time_difference,
)
from stakes.training.execution import Engine

NEWSVENDOR = "newsvendor:underage=3,overage=1"
_DAY, _WEEK = 24.0, 168.0
_TASKS = ["bakery", "walmart", "margins", "budget", "mlforecast", "neuralforecast", "scale", "scale-one"]
RIVALS = ((False, False), (False, True), (True, True))  # scaled, with shop and product


def bakery() -> pd.DataFrame:
    """A row for each shop, product and day; `open` is 0 where nothing was sold."""
    record = load_record("demand_bakery")
    wide = pd.DataFrame(record.values, columns=list(record.columns), index=record.times)
    weather = {name: wide.filter(like=f"{name}_").mean(axis=1) for name in ("rain", "temperature")}
    parts = []
    for name in wide.filter(like="demand_"):
        _, shop, product = name.split("_")
        part = pd.DataFrame({"date": wide.index, "shop": shop, "product": product, "demand": wide[name].to_numpy()})
        for column in ("promotion_currentweek", "promotion_lastweek"):
            part[column] = wide[f"{column}_{product}"].to_numpy()
        for column in ("is_holiday", "is_holiday_next2days", "is_schoolholiday_2", "is_schoolholiday_40"):
            part[column] = wide[column].to_numpy()
        for column, values in weather.items():
            part[column] = values.to_numpy()
        parts.append(part)
    table = pd.concat(parts, ignore_index=True)
    return table.assign(open=(table["demand"] > 0).astype(float))


BAKERY = PanelLayout(
    series=("shop", "product"),
    target="demand",
    time="date",
    lags=tuple(_DAY * lag for lag in (0, 1, 2, 5, 6, 13, 20, 27, 34)),
    windows=(7 * _DAY, 28 * _DAY, 91 * _DAY),
    leads=(_DAY,),
    known=(
        "promotion_currentweek",
        "promotion_lastweek",
        "is_holiday",
        "is_holiday_next2days",
        "is_schoolholiday_2",
        "is_schoolholiday_40",
        "rain",
        "temperature",
    ),
    categorical=("shop", "product"),
    calendar=("weekday", "season"),
    mask="open",
)


def walmart(path: Path) -> pd.DataFrame:
    """A row for each store, department and week; no markdown is 0."""
    return pd.read_csv(path, parse_dates=["date"]).fillna(0.0)


WALMART = PanelLayout(
    series=("store", "dept"),
    target="sales",
    time="date",
    lags=tuple(_WEEK * lag for lag in (0, 1, 2, 3, 50, 51)),
    windows=(4 * _WEEK, 13 * _WEEK, 52 * _WEEK),
    leads=(_WEEK,),
    known=(
        "holiday",
        "temperature",
        "fuel_price",
        *(f"markdown{place}" for place in range(1, 6)),
        "cpi",
        "unemployment",
    ),
    static=("size",),
    categorical=("store", "dept", "type"),
    calendar=("season",),
)


class Task:
    """A panel, split in time, and what decisions cost on the last part."""

    def __init__(self, table: pd.DataFrame, layout: PanelLayout, start: str, cost: str = NEWSVENDOR) -> None:
        self.spec = CostSpec.parse(cost)
        self.panel = Panel.read(table, layout)
        self.end = self.panel.step_of(np.datetime64(start, "s"))
        self.table = table

    def known(self) -> Panel:
        """The panel as it was known before the test."""
        layout = self.panel.layout
        moments = pd.DatetimeIndex(self.table[layout.time])
        return Panel.read(self.table[moments < pd.Timestamp(self.panel.times([self.end])[0])], layout)

    def test(self, scale: PanelScale) -> PanelCases:
        """The test cases, scaled by what was known."""
        everything = PanelSettings(most_rows=10**9)
        return gather(self.panel, scale, self.end, self.panel.last + 1, everything)


def ours(task: Task, seed: int, threads: int = 1) -> tuple[FittedPanel, PanelCases, np.ndarray, dict[str, Any]]:
    """Our forecast, the test cases and what its decisions cost; the clock and what it selected."""
    began = time.perf_counter()
    known = task.known()
    given = PanelSettings(seed=seed, threads=threads)
    fitted = fit_panel(known, task.spec, given, known.last + 1, lambda told: print(told, flush=True))
    seconds = time.perf_counter() - began
    cases = task.test(fitted.state.scale)
    places = fitted.places(task.panel.key_texts())[cases.series]
    began = time.perf_counter()
    decisions = decide_cases(task.spec, fitted.sample(cases, places), cases.parameters, False)
    speed = len(cases) / (time.perf_counter() - began)
    paid = realised(task.spec, decisions.action, cases)
    judged = PanelForecaster.restored(task.spec, known.layout, fitted).judged(task.panel, cases)
    evaluation = PanelEvaluation(judged.assign(size=pd.qcut(cases.level, 4, labels=False).astype(str)))
    groups = evaluation.by_group(group_columns(evaluation))
    said = {
        "calibrated groups": int(groups["spread/error"].between(*CALIBRATED).sum()),
        "groups": len(groups),
        "spread/error": groups["spread/error"].quantile([0.0, 0.1, 0.5, 0.9, 1.0]).round(3).tolist(),
        "inside 80 %": groups["inside 80 %"].quantile([0.0, 0.5, 1.0]).round(3).tolist(),
        "mean": float(paid.mean()),
        "expected": float(decisions.expected_cost.mean()),
        "seconds": seconds,
        "threads": threads,
        "cases a second": speed,
        "selected": fitted.state.candidate.name,
        "candidates": {each.name: each.cost for each in fitted.state.candidates},
    }
    return fitted, cases, paid, said


def rival(
    task: Task, cases: PanelCases, *, scaled: bool, words: bool, level: float = 0.75, seed: int = 0
) -> np.ndarray:
    """What LightGBM's quantile costs: one model of all series with the same features, scaled or unscaled."""
    import lightgbm

    known = task.known()
    train = gather(known, known.scale(), known.first_with_history, known.last + 1, PanelSettings(most_rows=10**9))

    def rows(own: PanelCases) -> np.ndarray:
        features = own.features.astype(np.float64)
        if not scaled:
            features[:, : known.layout.scaled] *= own.level[:, None]
        return np.concatenate([features, own.words], 1) if words else features

    size = train.level if scaled else np.ones(len(train))
    model = lightgbm.LGBMRegressor(
        objective="quantile",
        alpha=level,
        n_estimators=300,
        learning_rate=0.05,
        verbosity=-1,
        n_jobs=1,
        random_state=seed,
    )
    width = known.layout.scaled and train.features.shape[1]
    categories = list(range(width, width + train.words.shape[1])) if words else "auto"
    model.fit(rows(train), train.outcome / size, sample_weight=size, categorical_feature=categories)
    action = np.maximum(model.predict(rows(cases)) * (cases.level if scaled else 1.0), 0.0)
    return realised(task.spec, action, cases)


def _rival_of(task: Task, scaled: bool, words: bool) -> tuple[np.ndarray, float]:
    """What a rival costs, and its seconds."""
    began = time.perf_counter()
    paid = rival(task, task.test(task.known().scale()), scaled=scaled, words=words)
    return paid, time.perf_counter() - began


def against(name: str, task: Task, seeds: int, workers: int, threads: int) -> dict[str, Any]:
    """Ours beside the rivals on the same cases, with paired intervals over time."""
    engine = Engine("processes", workers)
    runs = list(engine.map(ours, ((seed, threads) for seed in range(seeds)), task))
    _, cases, _, _ = runs[0]
    paid = np.mean([run[2] for run in runs], axis=0)
    last = realised(task.spec, np.nan_to_num(cases.features[:, task.panel.layout.scaled - 1] * cases.level), cases)
    rivals = {"same season": (last, 0.0)}
    for (scaled, words), made in zip(RIVALS, engine.map(_rival_of, RIVALS, task), strict=True):
        title = f"LightGBM quantile, {'scaled' if scaled else 'unscaled'}{', shop and product' if words else ''}"
        rivals[title] = made
    found: dict[str, Any] = {
        "task": name,
        "cases": len(cases),
        "series": len(np.unique(cases.series)),
        "ours": float(paid.mean()),
        "by seed": [run[3] for run in runs],
        "rivals": {},
    }
    for title, (own, seconds) in rivals.items():
        change = time_difference(paid, own, cases.step)
        found["rivals"][title] = {"mean": float(own.mean()), "seconds": seconds, "ours less this": list(change)}
    return found


def margins(seeds: int) -> dict[str, Any]:
    """A margin and a waste for each series; rivals are one quantile model for each of five groups of ratios."""
    import lightgbm

    table = bakery()
    random = np.random.default_rng(0)
    keys = table[["shop", "product"]].drop_duplicates(ignore_index=True)
    ratio = np.exp(random.uniform(0.0, np.log(20.0), len(keys)))
    keys = keys.assign(waste=random.uniform(0.5, 2.0, len(keys)).round(2)).assign(ratio=ratio)
    keys["margin"] = (keys["waste"] * keys["ratio"]).round(2)
    table = table.merge(keys.drop(columns="ratio"), on=["shop", "product"])
    layout = replace(BAKERY, parameters=("margin", "waste"))
    task = Task(table, layout, "2018-09-01", "newsvendor:underage=@margin,overage=@waste")
    runs = [ours(task, seed) for seed in range(seeds)]
    cases, paid = runs[0][1], np.mean([run[2] for run in runs], axis=0)
    known = task.known()
    train = gather(known, known.scale(), known.first_with_history, known.last + 1, PanelSettings(most_rows=10**9))

    def rows(own: PanelCases) -> np.ndarray:
        return np.concatenate([own.features, own.words], 1)

    def level(own: PanelCases) -> np.ndarray:
        return own.parameters["margin"] / (own.parameters["margin"] + own.parameters["waste"])

    edges = np.quantile(level(train), [0.2, 0.4, 0.6, 0.8])
    groups, asked = np.searchsorted(edges, level(train)), np.searchsorted(edges, level(cases))
    action, began = np.empty(len(cases)), time.perf_counter()
    for place in range(5):
        own = groups == place
        model = lightgbm.LGBMRegressor(
            objective="quantile",
            alpha=float(level(train)[own].mean()),
            n_estimators=300,
            learning_rate=0.05,
            verbosity=-1,
            n_jobs=1,
        )
        width = train.features.shape[1]
        words = list(range(width, width + train.words.shape[1]))
        scaled = train.outcome / train.level
        model.fit(rows(train), scaled, sample_weight=train.level, categorical_feature=words)
        action[asked == place] = model.predict(rows(cases)[asked == place]) * cases.level[asked == place]
    seconds = time.perf_counter() - began
    other = realised(task.spec, np.maximum(action, 0), cases)
    return {
        "task": "own margins",
        "ours": float(paid.mean()),
        "by seed": [run[3] for run in runs],
        "five quantile models, scaled": {
            "mean": float(other.mean()),
            "seconds": seconds,
            "ours less this": list(time_difference(paid, other, cases.step)),
        },
    }


def budget() -> dict[str, Any]:
    """One budget a day for all series, nine tenths of what newsvendors ask for, and who shares it out."""
    task = Task(bakery(), BAKERY, "2018-09-01")
    fitted, cases, _, said = ours(task, 0)
    places = fitted.places(task.panel.key_texts())
    members = fitted.sample(cases, places[cases.series])
    alone = decide_cases(task.spec, members, {}, False).action
    shared, scaled, foresight, steps = [], [], [], np.unique(cases.step)
    for step in steps:
        rows = np.flatnonzero(cases.step == step)
        own = cases.rows(rows)
        amount = 0.9 * alone[rows].sum()
        joint = torch.from_numpy(fitted.vectors(members[rows], places[own.series]))[None]
        solved = solve_action(AllocationCost(short=3.0, long=1.0, budget=float(amount)), joint)
        for found, action in (
            (shared, solved.action[0, : len(rows)].numpy()),
            (scaled, 0.9 * alone[rows]),
        ):
            found.append(realised(task.spec, action, own).sum())
        foresight.append(3 * max(own.outcome.sum() - amount, 0))
    order = np.arange(len(steps))
    return {
        "task": "one budget a day",
        "days": len(steps),
        "shared by our members": float(np.mean(shared)),
        "scaled newsvendors": float(np.mean(scaled)),
        "ours less this": list(time_difference(np.array(shared), np.array(scaled), order)),
        "foresight": float(np.mean(foresight)),
        "fit": said,
    }


def _for_rivals() -> pd.DataFrame:
    """The bakery as the Nixtla packages take it, without gaps: closed days have the sales of the week before."""
    table = bakery().rename(columns={"date": "ds", "demand": "y"}).sort_values(["shop", "product", "ds"])
    table["unique_id"] = table["shop"] + "/" + table["product"]
    table["outcome"] = table["y"] = table["y"].where(table["open"] > 0)
    for days in (7, 14, 21, 28):
        table["y"] = table["y"].fillna(table.groupby("unique_id")["y"].shift(days))
    table["y"] = table.groupby("unique_id")["y"].ffill()
    return table.dropna(subset=["y"])


def _judged_rival(task: str, table: pd.DataFrame, made: pd.DataFrame, seconds: float) -> dict[str, Any]:
    """What forecasts of the quantile, a row for each series and day, cost where there is an outcome."""
    found = made.merge(table[["unique_id", "ds", "outcome"]].dropna(), on=["unique_id", "ds"])
    short = found["outcome"] - found["action"].clip(lower=0)
    paid = np.maximum(3 * short, -short)
    return {"task": task, "cases": len(found), "mean": paid.mean(), "seconds": seconds}


def of_mlforecast() -> dict[str, Any]:
    """What mlforecast's one model of all series costs on the bakery, its forecasts those of the day before."""
    import lightgbm
    from mlforecast import MLForecast
    from mlforecast.lag_transforms import RollingMean

    table = _for_rivals().astype({"shop": "category", "product": "category"})
    model = lightgbm.LGBMRegressor(
        objective="quantile", alpha=0.75, n_estimators=300, learning_rate=0.05, verbosity=-1, n_jobs=1
    )
    means = [RollingMean(days, min_samples=1) for days in (7, 28)]
    forecaster = MLForecast(
        {"action": model}, "D", lags=[1, 7, 14, 21, 28], lag_transforms={1: means}, date_features=["dayofweek"]
    )
    days, began = table.loc[table["ds"] >= "2018-09-01", "ds"].nunique(), time.perf_counter()
    made = forecaster.cross_validation(
        table.drop(columns=["outcome", "open"]), days, 1, step_size=1, refit=False, static_features=["shop", "product"]
    )
    return _judged_rival("mlforecast", table, made, time.perf_counter() - began)


def of_neuralforecast(seed: int = 0) -> dict[str, Any]:
    """What neuralforecast's NHITS costs on the bakery: one network of all series, with the features of the day."""
    from neuralforecast import NeuralForecast
    from neuralforecast.losses.pytorch import QuantileLoss
    from neuralforecast.models import NHITS

    table = _for_rivals().rename(columns={"open": "available_mask"})
    week = 2 * np.pi * table["ds"].dt.day_of_week / 7
    table = table.assign(week_sin=np.sin(week), week_cos=np.cos(week), twice_sin=np.sin(2 * week))
    known = [*BAKERY.known, "week_sin", "week_cos", "twice_sin"]
    model = NHITS(
        h=1,
        input_size=91,
        loss=QuantileLoss(0.75),
        futr_exog_list=known,
        scaler_type="robust",
        max_steps=1000,
        random_seed=seed,
        alias="action",
        enable_progress_bar=False,
        logger=False,
        enable_checkpointing=False,
    )
    days, began = table.loc[table["ds"] >= "2018-09-01", "ds"].nunique(), time.perf_counter()
    columns = ["unique_id", "ds", "y", "available_mask", *known]
    made = NeuralForecast([model], "D").cross_validation(table[columns].fillna(0.0), n_windows=days, step_size=1)
    (name,) = [column for column in made if str(column).startswith("action")]
    made = made.rename(columns={name: "action"})
    return _judged_rival("neuralforecast", table, made, time.perf_counter() - began)


def scale(counts: list[int], days: int) -> dict[str, Any]:
    """Time and memory of simulated series, each count in a process of its own."""
    found = []
    for count in counts:
        line = [sys.executable, "-m", "benchmarks.panel", "scale-one", "--series", str(count), "--days", str(days)]
        told = subprocess.run(line, check=True, capture_output=True, text=True).stdout
        found.append(json.loads(told.splitlines()[-1]))
        print(found[-1], flush=True)
    return {"task": "scale", "days": days, "sizes": found}


def scale_one(count: int, days: int) -> dict[str, Any]:
    """A folder of simulated series, fitted and decided."""
    with tempfile.TemporaryDirectory() as folder:
        sales, began = Path(folder) / "sales", time.perf_counter()
        sales.mkdir()
        random = np.random.default_rng(0)
        dates = np.datetime64("2024-01-01") + np.arange(days)
        for first in range(0, count, 2000):
            size = min(2000, count - first)
            level = np.exp(random.normal(2.0, 1.0, size))
            week = 1 + 0.3 * np.sin(2 * np.pi * (np.arange(days) / 7 + random.random(size)[:, None]))
            demand = random.poisson(level[:, None] * week)
            part = {
                "series": pa.array(np.repeat([f"s{place:06}" for place in range(first, first + size)], days)),
                "date": pa.array(np.tile(dates, size)),
                "demand": pa.array(demand.ravel().astype(np.float32)),
                "margin": pa.array(np.repeat(random.uniform(1, 5, size).astype(np.float32), days)),
            }
            pq.write_table(pa.table(part), sales / f"part-{first:06}.parquet")
        wrote, began = time.perf_counter() - began, time.perf_counter()
        forecaster = PanelForecaster(
            "newsvendor:underage=@margin,overage=1",
            target="demand",
            series=["series"],
            time="date",
            lags=["0d", "6d", "13d", "27d"],
            windows=["7d", "28d"],
            leads=["1d"],
            calendar=["weekday"],
            threads=1,
            most_rows=100_000,
        ).fit(sales, hold_test=True)
        fit, began = time.perf_counter() - began, time.perf_counter()
        panel = forecaster.read(sales)
        read, began, spent = time.perf_counter() - began, time.perf_counter(), time.process_time()
        decided = sum(len(part) for part in forecaster.decided(panel, since=panel.last - 6))
        seconds, spent = time.perf_counter() - began, time.process_time() - spent
        by_workers = {}
        for workers in (2, 4, 8, 16):
            if workers <= len(os.sched_getaffinity(0)):
                forecaster.settings, began = (
                    replace(forecaster.settings, engine="processes", workers=workers),
                    time.perf_counter(),
                )
                there = sum(len(part) for part in forecaster.decided(panel, since=panel.last - 6))
                by_workers[workers] = round(there / (time.perf_counter() - began))
        assert forecaster.fitted_ is not None
        return {
            "series": count,
            "decided a second by processes": by_workers,
            "rows": count * days,
            "write s": round(wrote, 1),
            "fit s": round(fit, 1),
            "read s": round(read, 1),
            "decided": decided,
            "decided a second": round(decided / seconds),
            "decided a second of one core": round(decided / spent),
            "peak GiB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
            "cpu s": round(time.process_time(), 1),
            "selected": forecaster.fitted_.state.candidate.name,
        }


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "what", choices=["bakery", "walmart", "margins", "budget", "mlforecast", "neuralforecast", "scale", "scale-one"]
    )
    parser.add_argument("data", nargs="?", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=1, help="seeds at once")
    parser.add_argument("--threads", type=int, default=1, help="of each fit")
    parser.add_argument("--until")
    parser.add_argument("--since")
    parser.add_argument("--series", default="100,1000,10000,50000")
    parser.add_argument("--days", type=int, default=400)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    counts = [int(count) for count in given.series.split(",")]
    if given.what == "scale-one":
        print(json.dumps(scale_one(counts[0], given.days)))
        return
    if given.what in ("bakery", "walmart"):
        table, layout, start = (bakery(), BAKERY, "2018-09-01")
        if given.what == "walmart":
            table, layout, start = (walmart(given.data), WALMART, "2012-05-01")
        if given.until:
            table = table[pd.DatetimeIndex(table["date"]) < pd.Timestamp(given.until)]
        found = against(
            given.what, Task(table, layout, given.since or start), given.seeds, given.workers, given.threads
        )
    else:
        found = {
            "margins": lambda: margins(given.seeds),
            "budget": budget,
            "mlforecast": of_mlforecast,
            "neuralforecast": of_neuralforecast,
            "scale": lambda: scale(counts, given.days),
        }[given.what]()
    found["machine"] = processor()
    print(json.dumps(found, indent=1))
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
