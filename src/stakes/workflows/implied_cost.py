"""`stakes implied-cost`: which cost parameter past actions behave as if they had."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from stakes.cost_spec.spec import CostSpec
from stakes.data.forecasts.columns import chosen_columns
from stakes.data.forecasts.layout import ForecastLayout
from stakes.data.forecasts.reading import read_past
from stakes.data.forecasts.tables import CaseRows
from stakes.data.tables.columns import column_numbers, zone_notes
from stakes.data.tables.files import CsvOptions, read_table
from stakes.errors import CostError, SettingError, TableError
from stakes.evaluation.implied_cost import ImpliedCost, implied_cost
from stakes.text import count_text, number_text

Floats = NDArray[np.float64]
_ASKED = {  # of a cost of the library without any range: the range that is looked at, and what else it needs
    "shortfall": {"penalty": "0.1..1000"},
    "wind_dispatch": {"penalty": "0.1..1000"},
    "protection": {"false_alarm_ratio": "0.001..100"},
    "cost_loss": {"protection": "0.001..1"},
    "newsvendor": {"underage": "0.01..100", "overage": "1"},
    "imbalance": {"short": "0.01..100", "long": "1"},
}
_BOUNDED = ("newsvendor", "imbalance")
_FAR = 10.0  # times the largest number: a bound at which no action is


@dataclass(frozen=True, eq=False)
class ImpliedByTable:
    """What the actions of a table imply, the cost with the range that was looked at, and sentences for the user."""

    implied: ImpliedCost
    cost: CostSpec
    notes: tuple[str, ...]

    def record(self) -> dict[str, Any]:
        """All of it, as JSON can hold it."""
        found = asdict(self.implied) | {"by_forecast": self.implied.by_forecast and self.implied.by_forecast._asdict()}
        said = {"identified": self.implied.identified, "sentence": self.implied.sentence}
        return {"cost": str(self.cost), **found, **said, "notes": self.notes}


def implied_by_table(
    past: Path,
    action: str,
    outcomes: tuple[str, ...],
    cost: str,
    forecast: tuple[str, ...] = (),
    time: str | None = None,
    block: int | None = None,
    **csv: Unpack[CsvOptions],
) -> ImpliedByTable:
    """What the actions in a column imply, in the order of time."""
    table, name = read_table(past, **csv), repr(str(past))
    outcomes = tuple(chosen_columns(outcomes, [str(column) for column in table.columns], name))
    rows = CaseRows.of(table, name, time)
    numbers = pd.DataFrame(column_numbers(table, [action, *outcomes], name), columns=["action", *outcomes])
    complete = numbers.notna().all(axis=1).to_numpy()
    if not complete.any():
        raise TableError(f"{name} has no row with both {action!r} and {', '.join(outcomes)}")
    moments = rows.index.get_level_values(0)
    times = moments.to_numpy() if isinstance(moments, pd.DatetimeIndex) else None
    order = np.flatnonzero(complete)
    order = order if times is None else order[np.argsort(times[order], kind="stable")]
    taken, seen = numbers["action"].to_numpy()[order], numbers[list(outcomes)].to_numpy()[order]
    spec = CostSpec.parse(_with_range(cost, taken, seen))
    if spec.ranged is None:
        raise CostError(f"--cost needs a range of one parameter, as in shortfall:penalty=1..50, got {spec}")
    notes = [*zone_notes(table, time)]
    if lacking := int((~complete).sum()):
        notes.append(f"{count_text(lacking, 'row')} of {len(table)} lack the action or an outcome and are left out")
    implied = implied_cost(
        taken,
        seen,
        spec.build(),
        times=None if times is None else times[order],
        block="auto" if block is None else block,
    )
    if forecast and implied.identified:
        layout = ForecastLayout(columns=forecast, outcomes=outcomes, today=(action,), time=time)
        given, _ = read_past(layout, past, cost=spec.build(), **csv)
        if given.today is None or given.today.ndim > 1:
            raise SettingError(f"--action must name one column, got {action!r}")
        implied = implied_cost(
            given.today,
            np.asarray(given.outcomes),
            spec.build(),
            members=given.members,
            weights=given.weights,
            times=given.times,
            block="auto" if block is None else block,
        )
        notes += given.notes
    if implied.ties > 0:
        notes.append(
            f"{implied.ties:.1%} of the outcomes equal the action: the interval covers both readings, too few "
            "and too many"
        )
    ranged = spec.ranged
    for end, near in ((ranged.range.low, implied.low), (ranged.range.high, implied.high)):
        if implied.identified and np.isclose(end, near, rtol=1e-9):
            notes.append(f"the interval is cut off by the range {ranged} and may extend beyond {number_text(end)}")
    return ImpliedByTable(implied, spec, tuple(dict.fromkeys(notes)))


def _with_range(cost: str, action: Floats, outcomes: Floats) -> str:
    """The cost in words, with the range, and bounds beyond all actions, where a cost of the library lacks them."""
    name, _, keys = (part.strip() for part in cost.partition(":"))
    if name not in _ASKED or ".." in keys:
        asked: dict[str, str] = {}
    else:
        asked = dict(_ASKED[name])
    given = {part.partition("=")[0].strip() for part in keys.split(",") if part.strip()}
    if asked and given & {key for key, value in asked.items() if ".." in value}:
        other = {key: "0.01..100" for key in asked if key not in given}
        asked = other if name in _BOUNDED and other else {}
    if name in _BOUNDED:
        far = _FAR * float(max(np.abs(action).max(), np.abs(outcomes.sum(1)).max(), 1.0))
        asked |= {"upper": repr(far)} | ({"lower": repr(-far)} if min(action.min(), outcomes.min()) < 0 else {})
    more = [f"{key}={value}" for key, value in asked.items() if key not in given]
    return f"{name}:{','.join([*([keys] if keys else []), *more])}" if more else cost
