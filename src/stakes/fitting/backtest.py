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

from stakes.cost_text.cost_on_record import cost_again
from stakes.cost_text.own_cost_file import naming_own_cost
from stakes.data.layout import TableCases
from stakes.data.tables import read_table, write_table
from stakes.errors import InterruptedTraining, SettingError
from stakes.evaluation.headroom import resolved_block
from stakes.evaluation.intervals import Difference, paired_difference
from stakes.files import locked, write_atomically
from stakes.fitting.fit import Problem, part_of
from stakes.fitting.judgement import judge_fit
from stakes.fitting.request import FitRequest, asked_of, claim, read_asked
from stakes.json_values import json_value
from stakes.method.argument_checks import require_count
from stakes.number_text import change_text, number_text
from stakes.settings import from_plain
from stakes.status_lines import StatusLines
from stakes.training.execution import Execution
from stakes.training.interrupts import stop_on_interrupt

__all__ = ["SETTINGS", "Backtest", "resume_backtest", "run_backtest"]

SETTINGS = "backtest.json"
_SHOWN: tuple[str, ...] = (
    "origin",
    "first",
    "cases",
    "decision_weight",
    "cost",
    "weight_0_cost",
    "weight_0_change",
    "weight_0_low",
)
_SHOWN += ("weight_0_high", "climatology_cost", "today_cost")  # to people; the files have all of the table
_TABLE, _RESULTS, _CHECKPOINTS = "table.csv", "results.json", "checkpoints"
_FITTED, _WEIGHT = "fitted_cases", "decision_weight"  # columns of the judged cases
_RIVALS = {"weight_0": "weight 0", "climatology": "the best constant action", "today": "today"}


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
        known = {rival: words for rival, words in _RIVALS.items() if overall.get(f"{rival}_cases")}
        return tuple(self._against(overall, rival, words) for rival, words in known.items())

    @property
    def shown(self) -> list[str]:
        """The columns for people."""
        return [name for name in _SHOWN if name in self.table]

    def record(self) -> dict[str, Any]:
        """For machines."""
        return {"folder": str(self.folder), "unit": self.unit, "sentences": self.sentences, "origins": self.table}

    def _against(self, row: "pd.Series[Any]", rival: str, words: str) -> str:
        found = Difference(*(float(row[f"{rival}_{name}"]) for name in ("change", "low", "high")))
        verdict = "cost less than" if found.mean < 0 else "cost more than"
        if not found.significant:
            verdict = "cannot be told apart by their cost from"
        count = row[f"{rival}_cases"]
        where = f"all {count} cases" if count == row["cases"] else f"the {count} cases in which they are known"
        return (
            f"Over {where} the actions {verdict} those of {words}: {number_text(row[f'cost_beside_{rival}'])} against "
            f"{number_text(row[f'{rival}_cost'])} (change {change_text(found)})."
        )


def run_backtest(request: FitRequest, out: Path, origins: int, execution: Execution) -> Backtest:
    """Fit before each origin and judge after it; a second call goes on with the origins that are not done."""
    require_count("origins", origins)
    problem, say = Problem.read(request), StatusLines(execution.quiet)
    starts = _starts(problem, origins)
    asked = asked_of(request, problem.spec, problem.sha256) | {"origins": origins}
    problem.known_at(starts[0])  # there must be some
    for note in problem.notes:
        say(f"note: {note}")
    with locked(out), naming_own_cost(problem.cost):
        claim(out / SETTINGS, asked, "backtest")
        parts = [
            _origin(problem, out, place, starts[place - 1 : place + 1], execution, say)
            for place in range(1, origins + 1)
        ]
        shutil.rmtree(out / _CHECKPOINTS, ignore_errors=True)
        found = Backtest(out, _summary(parts, problem), problem.spec.unit)
        write_table(found.table, out / _TABLE)
        write_atomically(out / _RESULTS, f"{json.dumps(json_value(found.record()), allow_nan=False)}\n".encode())
    return found


def resume_backtest(folder: Path, execution: Execution, cost: str | None = None) -> Backtest:
    """Go on with a backtest that was interrupted; a user's own cost is given again."""
    request, kept, asked = read_asked(folder / SETTINGS)
    origins = from_plain(int, asked.get("origins"), "origins")
    return run_backtest(replace(request, cost=str(cost_again(kept, cost))), folder, origins, execution)


def _starts(problem: Problem, origins: int) -> list[int]:
    """Where the judged parts begin, and where the last one ends."""
    cases = len(problem.cases)
    held = round(problem.request.test_fraction * cases)
    if held < 2 * origins:
        raise SettingError(
            f"test_fraction must leave at least 2 cases for each of {origins} origins, got {held} of {cases} cases"
        )
    return [round(start) for start in np.linspace(cases - held, cases, origins + 1)]


def _origin(
    problem: Problem, out: Path, place: int, rows: list[int], execution: Execution, say: StatusLines
) -> pd.DataFrame:
    """The judged cases of one origin, fitted now or before."""
    file, checkpoints = out / f"origin-{place}.csv", out / _CHECKPOINTS / str(place)
    if not file.exists():
        fitted, later = problem.known_at(rows[0]), part_of(problem.cases, slice(*rows))
        say(f"origin {place}: fitting on {len(fitted)} cases, judging on {len(later)}")
        write_table(_judged(problem, fitted, later, checkpoints, out, execution), file)
    shutil.rmtree(checkpoints, ignore_errors=True)
    return read_table(file)


def _judged(
    problem: Problem, fitted: TableCases, later: TableCases, checkpoints: Path, out: Path, execution: Execution
) -> pd.DataFrame:
    forecaster = problem.request.forecaster(problem.cost, execution)
    with stop_on_interrupt() as stop:
        try:
            forecaster.fit(fitted.features, fitted.outcomes, times=fitted.times, checkpoints=checkpoints, stop=stop)
        except (InterruptedTraining, KeyboardInterrupt):
            raise InterruptedTraining(
                f"interrupted; everything is saved, the same command or `stakes resume {out}` goes on"
            ) from None
    found = judge_fit(forecaster, later).metrics
    if found.weight_0 is None:  # it was chosen
        found = replace(found, weight_0=found.chosen)
    return found.table().assign(**{_WEIGHT: forecaster.decision_weight_, _FITTED: len(fitted)})


def _summary(parts: list[pd.DataFrame], problem: Problem) -> pd.DataFrame:
    rows = [_row(str(place), part, problem) for place, part in enumerate(parts, start=1)]
    return pd.DataFrame([*rows, _row("all", pd.concat(parts, ignore_index=True), problem)])


def _row(name: str, part: pd.DataFrame, problem: Problem) -> dict[str, Any]:
    labels = part.iloc[:, 0]
    times = pd.to_datetime(labels).to_numpy() if problem.layout.time else None
    block = resolved_block(problem.request.block or "auto", len(part), times)
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
    for rival in _RIVALS:
        if f"{rival}_cost" in part:
            row |= _change(part, rival, block)
    scores = [float(part[column].mean()) for column in ("energy_score", "weight_0_energy_score")]
    return row | {"energy_score": scores[0], "weight_0_energy_score": scores[1]}


def _change(part: pd.DataFrame, rival: str, block: int) -> dict[str, float]:
    """What a rival costs, in so many cases, and the forecast's actions in the same ones; and their difference."""
    values, other = (part[column].to_numpy(np.float64) for column in ("cost", f"{rival}_cost"))
    known = np.isfinite(other)
    found, means = Difference(*[float("nan")] * 3), [float("nan")] * 2
    if known.any():
        found = paired_difference(values[None], other[None], block)
        means = [float(each[known].mean()) for each in (values, other)]
    return {
        f"{rival}_cases": int(known.sum()),
        f"cost_beside_{rival}": means[0],
        f"{rival}_cost": means[1],
        **{f"{rival}_{name}": value for name, value in zip(("change", "low", "high"), found, strict=True)},
    }
