"""What one forecast for many series is worth beside boosted quantiles, what it costs, and how it grows.

    python -m benchmarks.panel bakery [--seeds 5] [--until 2018-09-01] [--json FILE]
    python -m benchmarks.panel walmart SALES_CSV [--seeds 1] [--json FILE]
    python -m benchmarks.panel margins [--json FILE]
    python -m benchmarks.panel budget [--json FILE]
    python -m benchmarks.panel scale [--series 100,1000,10000,50000] [--days 400] [--json FILE]

`bakery` is 99 series of 33 shops and 3 products, of the record in the package; zeros are closed days. `walmart` is the
sales of departments of Walmart's 2014 competition, a file that is not in the package. Both order for the next day or
week, too little costs 3 and too much 1. The rivals are LightGBM's quantiles at 0.75: one model of all series, with the
features of ours (a category of shop and product too), its targets as they are or scaled by the level before the
forecast. `margins` draws a margin and a waste for each series and trains one quantile model for each group of ratios.
`budget` shares out what the forecasts ask for less a tenth. `scale` simulates series and decides for all of them.
With `--until` the time after is left out, for choices on validation data.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.timing import processor
from stakes.cost_spec.spec import CostSpec
from stakes.data.records import load_record
from stakes.data.tables.panels import Panel, PanelCases, PanelLayout
from stakes.forecasting.panels import (
    FittedPanel,
    PanelSettings,
    decide_cases,
    fit_panel,
    gather,
    realised,
    time_difference,
)

NEWSVENDOR = "newsvendor:underage=3,overage=1"
_DAY, _WEEK = 24.0, 168.0
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

    def test(self, fitted: FittedPanel) -> PanelCases:
        """The test cases, scaled as the forecast scales them."""
        everything = PanelSettings(most_rows=10**9)
        return gather(self.panel, fitted.state.scale, self.end, self.panel.last + 1, everything)


def ours(task: Task, seed: int, **settings: Any) -> tuple[FittedPanel, PanelCases, np.ndarray, dict[str, Any]]:
    """Our forecast, the test cases and what its decisions cost; the clock and what it selected."""
    began = time.perf_counter()
    known = task.known()
    fitted = fit_panel(known, task.spec, PanelSettings(seed=seed, threads=1, **settings), known.last + 1, print)
    seconds = time.perf_counter() - began
    cases = task.test(fitted)
    places = fitted.places(task.panel.key_texts())[cases.series]
    began = time.perf_counter()
    decisions = decide_cases(task.spec, fitted.sample(cases, places), cases.parameters, False)
    speed = len(cases) / (time.perf_counter() - began)
    paid = realised(task.spec, decisions.action, cases)
    said = {
        "mean": float(paid.mean()),
        "expected": float(decisions.expected_cost.mean()),
        "seconds": seconds,
        "cases a second": speed,
        "selected": fitted.state.candidate.name,
        "candidates": {each.name: each.cost for each in fitted.state.candidates},
    }
    return fitted, cases, paid, said


def rival(
    task: Task, cases: PanelCases, *, scaled: bool, words: bool, level: float = 0.75, seed: int = 0
) -> np.ndarray:
    """What LightGBM's quantile costs: one model of all series with the same features, scaled or in units."""
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


def against(name: str, task: Task, seeds: int) -> dict[str, Any]:
    """Ours beside the rivals on the same cases, with paired intervals over time."""
    runs = [ours(task, seed) for seed in range(seeds)]
    _, cases, _, _ = runs[0]
    paid = np.mean([run[2] for run in runs], axis=0)
    last = realised(task.spec, np.nan_to_num(cases.features[:, task.panel.layout.scaled - 1] * cases.level), cases)
    rivals = {"same season": last}
    for scaled, words in RIVALS:
        title = f"LightGBM quantile, {'scaled' if scaled else 'in units'}{', shop and product' if words else ''}"
        began = time.perf_counter()
        rivals[title] = rival(task, cases, scaled=scaled, words=words)
        print(f"{title}: {rivals[title].mean():.2f} in {time.perf_counter() - began:.0f} s", flush=True)
    found: dict[str, Any] = {
        "task": name,
        "cases": len(cases),
        "series": len(np.unique(cases.series)),
        "ours": float(paid.mean()),
        "by seed": [run[3] for run in runs],
        "rivals": {},
    }
    for title, own in rivals.items():
        change = time_difference(paid, own, cases.step)
        found["rivals"][title] = {"mean": float(own.mean()), "ours less this": list(change)}
    return found


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["bakery", "walmart", "margins", "budget", "scale"])
    parser.add_argument("data", nargs="?", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--until")
    parser.add_argument("--since")
    parser.add_argument("--series", default="100,1000,10000,50000")
    parser.add_argument("--days", type=int, default=400)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    table, layout, start = (bakery(), BAKERY, "2018-09-01")
    if given.what == "walmart":
        table, layout, start = (walmart(given.data), WALMART, "2012-05-01")
    if given.until:
        table = table[pd.DatetimeIndex(table["date"]) < pd.Timestamp(given.until)]
    found = against(given.what, Task(table, layout, given.since or start), given.seeds)
    found["machine"] = processor()
    print(json.dumps(found, indent=1))
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
