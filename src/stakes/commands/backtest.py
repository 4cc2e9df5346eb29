"""`stakes backtest`: fitted again and again as time goes on, and judged each time on what came next.

The folder holds `backtest.json` (what was asked), `origin-1.csv` and so on (every judged case of a finished origin),
`checkpoints/` while there is training to be done, and in the end `table.csv` and `results.json`.
"""

import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from stakes.checks import require_count
from stakes.commands.cases import judged
from stakes.commands.fit import FitRequest, Problem, part_of
from stakes.commands.output import plain
from stakes.data.layout import TableCases
from stakes.data.tables import TableError, read_table, write_table
from stakes.errors import SettingError
from stakes.evaluation.headroom import automatic_block
from stakes.evaluation.significance import Difference, paired_difference
from stakes.reporting.voice import Voice
from stakes.training.checkpoints import read_json, write_atomically, write_json
from stakes.training.execution import Execution
from stakes.training.interrupts import stop_on_interrupt
from stakes.training.results import InterruptedTraining
from stakes.training.run_folder import locked
from stakes.typed import canonical_text, from_plain, to_plain

__all__ = ["SETTINGS", "SHOWN", "Backtest", "resume_backtest", "run_backtest"]

SETTINGS = "backtest.json"
SHOWN: tuple[str, ...] = (
    "origin",
    "first",
    "cases",
    "decision_weight",
    "cost",
    "weight_0_cost",
    "weight_0_change",
    "weight_0_low",
)
SHOWN += ("weight_0_high", "climatology_cost")
"""What people see of the table; the files have all of it."""
_TABLE, _RESULTS, _CHECKPOINTS = "table.csv", "results.json", "checkpoints"
_FITTED, _WEIGHT = "fitted_cases", "decision_weight"  # columns of the judged cases
_RIVALS = {"weight_0": "weight 0", "climatology": "the best constant action"}


@dataclass(frozen=True, eq=False)
class Backtest:
    """One row an origin and one for all, and what they say."""

    folder: Path
    table: pd.DataFrame
    unit: str

    @property
    def title(self) -> str:
        """What the table is of."""
        return f"mean costs{f' in {self.unit}' if self.unit else ''}; changes with their 95 % intervals"

    @property
    def sentences(self) -> tuple[str, ...]:
        """What all origins say together."""
        overall = self.table.iloc[-1]
        return tuple(self._against(overall, rival, words) for rival, words in _RIVALS.items())

    def record(self) -> dict[str, Any]:
        """For machines."""
        return {"folder": str(self.folder), "unit": self.unit, "sentences": self.sentences, "origins": self.table}

    def _against(self, row: "pd.Series[Any]", rival: str, words: str) -> str:
        change = Difference(*(float(row[f"{rival}_{name}"]) for name in ("change", "low", "high")))
        verdict = ("less than" if change.mean < 0 else "more than") if change.significant else "about as much as"
        return (
            f"Over all {row['cases']} cases the actions cost {verdict} those of {words}: {row['cost']:.4g} against "
            f"{row[f'{rival}_cost']:.4g}, {change.mean:+.3g} with the 95 % interval {change.low:+.3g} to "
            f"{change.high:+.3g}."
        )


def run_backtest(request: FitRequest, out: Path, origins: int, execution: Execution) -> Backtest:
    """Fit before each origin and judge after it; a second call goes on with the origins that are not done."""
    require_count("origins", origins)
    problem, say = Problem.read(request), Voice(execution.quiet)
    starts = _starts(problem, origins)
    with locked(out):
        _claim(out, problem, origins)
        parts = [
            _origin(problem, out, place, starts[place - 1 : place + 1], execution, say)
            for place in range(1, origins + 1)
        ]
        found = Backtest(out, _summary(parts, problem), problem.spec.unit)
        write_table(found.table, out / _TABLE)
        write_atomically(out / _RESULTS, f"{json.dumps(plain(found.record()), allow_nan=False)}\n".encode())
    return found


def resume_backtest(folder: Path, execution: Execution) -> Backtest:
    """Go on with a backtest that was interrupted."""
    asked = read_json(folder / SETTINGS)
    if not isinstance(asked, dict):
        raise SettingError(f"{folder / SETTINGS} does not say what was to be done")
    request = from_plain(FitRequest, asked.get("request"), "request")
    return run_backtest(request, folder, from_plain(int, asked.get("origins"), "origins"), execution)


def _starts(problem: Problem, origins: int) -> list[int]:
    """Where the judged parts begin, and where the last one ends."""
    cases = len(problem.cases)
    held = round(problem.request.test_fraction * cases)
    if held < 2 * origins:
        raise SettingError(
            f"test_fraction must leave at least 2 cases for each of {origins} origins, got {held} of {cases} cases"
        )
    return [round(start) for start in np.linspace(cases - held, cases, origins + 1)]


def _claim(out: Path, problem: Problem, origins: int) -> None:
    """Write what is asked, or see that the folder was made for the same."""
    asked = {"request": to_plain(problem.request), "sha256": problem.sha256, "origins": origins}
    file = out / SETTINGS
    if not file.exists():
        if any(path.name != ".lock" for path in out.iterdir()):
            raise SettingError(f"{out} is not empty; choose another folder for the backtest")
        write_json(file, asked)
    elif canonical_text(read_json(file)) != canonical_text(asked):
        raise SettingError(f"{out} holds a backtest of other data or settings; choose another folder")


def _origin(problem: Problem, out: Path, place: int, rows: list[int], execution: Execution, say: Voice) -> pd.DataFrame:
    """The judged cases of one origin, fitted now or before."""
    file = out / f"origin-{place}.csv"
    if not file.exists():
        fitted, later = _known_at(problem, rows[0]), part_of(problem.cases, slice(*rows))
        say(f"origin {place}: fitting on {len(fitted)} cases, judging on {len(later)}")
        write_table(_judged(problem, fitted, later, out / _CHECKPOINTS, execution), file)
        shutil.rmtree(out / _CHECKPOINTS, ignore_errors=True)
    return read_table(file)


def _known_at(problem: Problem, start: int) -> TableCases:
    """The cases whose outcomes are known when the first judged forecast is issued."""
    times, lead, end = problem.cases.times, problem.layout.lead, start
    if times is not None and lead is not None:
        issued = times[start] - np.timedelta64(round(lead * 3600), "s")
        end = int(np.searchsorted(times, issued, side="right"))
    if end < 2:
        raise TableError(f"only {end} cases lie before the first origin; a smaller test_fraction leaves more")
    return part_of(problem.cases, slice(None, end))


def _judged(
    problem: Problem, fitted: TableCases, later: TableCases, checkpoints: Path, execution: Execution
) -> pd.DataFrame:
    forecaster = problem.request.forecaster(problem.cost, execution)
    with stop_on_interrupt() as stop:
        try:
            forecaster.fit(fitted.features, fitted.outcomes, times=fitted.times, checkpoints=checkpoints, stop=stop)
        except (InterruptedTraining, KeyboardInterrupt):
            raise InterruptedTraining(
                f"interrupted; everything is saved, the same command or `stakes resume {checkpoints.parent}` goes on"
            ) from None
    found = judged(forecaster, later)
    if found.baseline is None:  # weight 0 was chosen
        found = replace(found, baseline=found.chosen)
    return found.table().assign(**{_WEIGHT: forecaster.decision_weight_, _FITTED: len(fitted)})


def _summary(parts: list[pd.DataFrame], problem: Problem) -> pd.DataFrame:
    rows = [_row(str(place), part, problem) for place, part in enumerate(parts, start=1)]
    return pd.DataFrame([*rows, _row("all", pd.concat(parts, ignore_index=True), problem)])


def _row(name: str, part: pd.DataFrame, problem: Problem) -> dict[str, Any]:
    labels = part.iloc[:, 0]
    at = pd.to_datetime(labels).to_numpy() if problem.layout.time else len(part)
    block = min(automatic_block(at), len(part))
    weights = part[_WEIGHT].unique()
    row = {
        "origin": name,
        "first": str(labels.iloc[0]),
        "last": str(labels.iloc[-1]),
        _FITTED: int(part[_FITTED].iloc[0]) if part[_FITTED].nunique() == 1 else None,
        "cases": len(part),
        _WEIGHT: float(weights[0]) if len(weights) == 1 else float("nan"),
        "cost": float(part["cost"].mean()),
    }
    for rival in (*_RIVALS, *(["today"] if "today_cost" in part else [])):
        row |= _change(part, rival, block)
    scores = [float(part[column].mean()) for column in ("energy_score", "weight_0_energy_score")]
    return row | {"energy_score": scores[0], "weight_0_energy_score": scores[1]}


def _change(part: pd.DataFrame, rival: str, block: int) -> dict[str, float]:
    values, other = (part[column].to_numpy(np.float64) for column in ("cost", f"{rival}_cost"))
    known = np.isfinite(other)
    if not known.any():
        change = Difference(float("nan"), float("nan"), float("nan"))
    else:
        change = paired_difference(values[None], other[None], block)
    return {
        f"{rival}_cost": float(np.nanmean(other)) if known.any() else float("nan"),
        **{f"{rival}_{name}": value for name, value in zip(("change", "low", "high"), change, strict=True)},
    }
